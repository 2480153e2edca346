-- The search index. Everything in it is derived from the logs: a file that is lost, damaged or of another version is
-- built again.

CREATE TABLE meta (
    key TEXT PRIMARY KEY,   -- version, epoch (of the logs), and the cursor of each family
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE documents (
    id INTEGER PRIMARY KEY, -- in the order of the logs, so that the newest are found first
    family TEXT NOT NULL,   -- of the record: events or mail
    seq INTEGER NOT NULL,   -- of the record
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    session TEXT NOT NULL,  -- empty for messages
    message TEXT NOT NULL,  -- empty for events
    thread TEXT NOT NULL
);
CREATE INDEX documents_of_session ON documents (session) WHERE session <> '';
CREATE INDEX documents_of_family ON documents (family, seq);

-- Which documents a day has: a search since some day begins at its first one.
CREATE TABLE days (
    day INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL
);

CREATE TABLE sessions (
    id TEXT PRIMARY KEY
) WITHOUT ROWID;

-- text: what is searched. tags: one word each for the session, agent, project and kind, so that a filter is another word.
CREATE VIRTUAL TABLE words USING fts5(text, tags, tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3');
