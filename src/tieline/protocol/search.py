"""What a search over sessions, messages and asks finds."""

from typing import Literal

from msgspec import Struct

SearchKind = Literal["prompt", "text", "thinking", "tool", "output", "ask", "error", "message"]
"""prompt: what an agent was told · text, thinking: what it said and thought · tool, output: what it ran and what came
of it · ask: what it asked, and what was decided with words · error · message: between people, agents and channels."""


class SnippetPart(Struct, frozen=True, omit_defaults=True):
    """A piece of the text as it is, never markup; `match`: it is what was searched for."""

    text: str
    match: bool = False


class SearchHit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where it stands: in a session's log at `seq`, or as `message` of a thread of messages."""

    id: int  # `before` of the next page
    kind: SearchKind
    at: float
    seq: int = 0
    session: str = ""
    message: str = ""
    thread: str = ""  # of messages
    agent: str = ""
    project: str = ""
    title: str = ""  # the session's
    snippet: tuple[SnippetPart, ...] = ()


class SessionHit(Struct, frozen=True, kw_only=True):
    """A session whose title, directory or branch has all the words."""

    session: str
    title: str
    agent: str
    cwd: str
    active_at: float


class SearchResults(Struct, frozen=True, kw_only=True):
    """The newest first. `indexed` is 1.0 when the index has all there is; below, it is being built."""

    hits: tuple[SearchHit, ...]
    sessions: tuple[SessionHit, ...]
    more: bool
    indexed: float
