-- The schema, as migrations in order (`-- migration N`), and the queries, by name (`-- query NAME`).
-- A migration that was released is never changed: another one is added.

-- migration 1

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
-- The highest cursor ever given, kept where removing the newest records would make it be given again.
INSERT INTO meta (name, value) VALUES ('high', 0);
-- Up to which cursor postings are complete.
INSERT INTO meta (name, value) VALUES ('indexed', 0);

-- AUTOINCREMENT: a number is never used for another subject, so whoever remembers one is never wrong about it.
CREATE TABLE subjects (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE
);

-- The data comes last: a scan by seq and subject does not touch it.
CREATE TABLE records (
    seq INTEGER PRIMARY KEY,
    subject INTEGER NOT NULL,
    at REAL NOT NULL,
    headers BLOB,
    data BLOB NOT NULL
);

-- A subject's records, in order, are one range of this. It is kept up in steps of many records, not with each: records of
-- as many subjects as there are sessions would touch as many pages every time. What is newer is scanned, and bounded.
CREATE TABLE postings (
    subject INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (subject, seq)
) WITHOUT ROWID;

-- Ids that were published, by family, for as long as they are remembered.
CREATE TABLE ids (
    family TEXT NOT NULL,
    id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (family, id)
) WITHOUT ROWID;
CREATE INDEX ids_by_age ON ids (at);

-- Unused, as is `deliveries`: kept because a released migration is not changed.
CREATE TABLE groups (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    pattern TEXT NOT NULL,
    cursor INTEGER NOT NULL DEFAULT 0,
    UNIQUE (name, pattern)
);

CREATE TABLE deliveries (
    grp INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    due REAL NOT NULL,
    leased INTEGER NOT NULL,
    PRIMARY KEY (grp, seq)
) WITHOUT ROWID;
CREATE INDEX deliveries_by_due ON deliveries (grp, due);

CREATE TABLE entries (
    number INTEGER PRIMARY KEY,
    tbl TEXT NOT NULL,
    key TEXT NOT NULL,
    revision INTEGER NOT NULL,
    expires REAL,
    value BLOB NOT NULL,
    UNIQUE (tbl, key)
);
CREATE INDEX entries_by_expiry ON entries (expires) WHERE expires IS NOT NULL;
CREATE INDEX entries_by_revision ON entries (tbl, revision);

-- query high
SELECT max(
    (SELECT value FROM meta WHERE name = 'high'),
    coalesce((SELECT max(seq) FROM records), 0),
    coalesce((SELECT max(revision) FROM entries), 0)
);

-- query last
SELECT max((SELECT value FROM meta WHERE name = 'high'), coalesce((SELECT max(seq) FROM records), 0));

-- query keep_high
UPDATE meta SET value = ? WHERE name = 'high';

-- query indexed
SELECT value FROM meta WHERE name = 'indexed';

-- query unindexed
SELECT count(*) FROM records WHERE seq > (SELECT value FROM meta WHERE name = 'indexed');

-- query index
INSERT INTO postings (subject, seq)
SELECT subject, seq FROM records WHERE seq > (SELECT value FROM meta WHERE name = 'indexed') ORDER BY subject, seq;

-- query keep_indexed
UPDATE meta SET value = ? WHERE name = 'indexed';

-- query newest
SELECT coalesce(max(seq), 0) FROM records;

-- query subject
SELECT number FROM subjects WHERE name = ?;

-- query names
SELECT number, name FROM subjects WHERE number IN (SELECT value FROM json_each(?));

-- query add_subject
INSERT INTO subjects (name) VALUES (?) RETURNING number;

-- query drop_subject
DELETE FROM subjects WHERE number = ? AND NOT EXISTS (SELECT 1 FROM postings WHERE subject = subjects.number);

-- query subjects_between
SELECT number, name FROM subjects WHERE name >= ? AND name < ?;

-- query subjects_since
SELECT number, name FROM subjects WHERE number > ?;

-- query last_subject
SELECT coalesce(max(number), 0) FROM subjects;

-- query add_records
INSERT INTO records (seq, subject, at, headers, data) VALUES (?, ?, ?, ?, ?);

-- query known_id
SELECT seq FROM ids WHERE family = ? AND id = ?;

-- query add_id
INSERT INTO ids (family, id, seq, at) VALUES (?, ?, ?, ?);

-- query forget_ids
DELETE FROM ids WHERE (family, id) IN (SELECT family, id FROM ids WHERE at < ? ORDER BY at LIMIT ?);

-- query records_of
SELECT r.seq, r.at, r.headers, r.data FROM postings p CROSS JOIN records r ON r.seq = p.seq
WHERE p.subject = ? AND p.seq > ? AND p.seq <= ? ORDER BY p.seq LIMIT ?;

-- query new_records_of
SELECT seq, at, headers, data FROM records WHERE seq > ? AND subject = ? ORDER BY seq LIMIT ?;

-- query seqs_of
SELECT seq FROM postings WHERE subject = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?;

-- query scan
SELECT seq, subject FROM records WHERE seq > ? AND seq <= ? ORDER BY seq;

-- query records_at
SELECT seq, subject, at, headers, data FROM records WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq;

-- query oldest_rows
SELECT seq, subject FROM records WHERE seq > ? ORDER BY seq LIMIT ?;

-- query newest_rows
SELECT seq, subject FROM records WHERE seq > ? ORDER BY seq DESC LIMIT ?;

-- query oldest_of
SELECT seq FROM postings WHERE subject = ? ORDER BY seq LIMIT ?;

-- query newest_of
SELECT seq FROM postings WHERE subject = ? ORDER BY seq DESC LIMIT ?;

-- query trim
DELETE FROM records WHERE seq IN (SELECT seq FROM postings WHERE subject = ? AND seq < ? ORDER BY seq LIMIT ?);

-- query trim_postings
DELETE FROM postings WHERE subject = ? AND seq IN
    (SELECT seq FROM postings WHERE subject = ? AND seq < ? ORDER BY seq LIMIT ?);

-- query entry
SELECT value, revision FROM entries WHERE tbl = ? AND key = ? AND (expires IS NULL OR expires > ?);

-- query put
INSERT INTO entries (tbl, key, value, revision, expires) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (tbl, key) DO UPDATE SET value = excluded.value, revision = excluded.revision, expires = excluded.expires;

-- query delete
DELETE FROM entries WHERE tbl = ? AND key = ?;

-- query entries_after
SELECT key, value, revision FROM entries
WHERE tbl = ? AND revision > ? AND (expires IS NULL OR expires > ?) ORDER BY revision LIMIT ?;

-- query entries
SELECT key, value, revision FROM entries
WHERE tbl = ? AND key >= ? AND (expires IS NULL OR expires > ?) ORDER BY key;

-- query keys
SELECT key FROM entries WHERE tbl = ? AND key >= ? AND (expires IS NULL OR expires > ?) ORDER BY key;

-- query next_expiry
SELECT min(expires) FROM entries WHERE expires IS NOT NULL;

-- query expired
SELECT tbl, key FROM entries WHERE expires IS NOT NULL AND expires <= ? ORDER BY expires LIMIT ?;

-- query count_records
SELECT count(*) FROM records;

-- query count_subjects
SELECT count(*) FROM subjects;

-- query pages
SELECT page_count FROM pragma_page_count();

-- query page_size
SELECT page_size FROM pragma_page_size();
