"""What the hub and a plugin inside a harness tell each other: how its sessions are, texts and requests for them, and,
where their person agreed, what happens in them."""

from typing import Annotated, Any

from msgspec import Meta, Raw, Struct, field

from .mesh import Activity
from .request_bodies import Body

MAX_SESSIONS = 50
"""Of one plugin."""
MAX_EVENTS = 500
"""That a plugin tells at once."""

Word = Annotated[str, Meta(min_length=1, max_length=200)]


class PluginSession(Body, frozen=True, kw_only=True):
    """A session that a person runs in the plugin's harness."""

    id: Word  # the harness's own
    cwd: Annotated[str, Meta(max_length=4096)] = ""
    activity: Activity = "unknown"
    began_at: float = 0.0  # seconds since 1970; 0: unknown


class PluginReport(Body, frozen=True, kw_only=True):
    """All sessions of the plugin as they are now. What a former report had and this one lacks has ended."""

    link: Word
    sessions: Annotated[tuple[PluginSession, ...], Meta(max_length=MAX_SESSIONS)] = ()


class PluginHandedOver(Body, frozen=True, kw_only=True):
    """What became of a text or request that the plugin was to bring to a session."""

    link: Word
    text: Word  # its id
    error: Annotated[str, Meta(max_length=1000)] = ""  # empty: the session has it
    status: int = 0  # of the harness's answer to a request
    result: Raw = field(default_factory=Raw)  # the answer itself


class PluginEvents(Body, frozen=True, kw_only=True):
    """What happened in a session that the hub follows, in the harness's own words and in order."""

    link: Word
    session: Word
    events: Annotated[tuple[dict[str, Any], ...], Meta(max_length=MAX_EVENTS)]


class PluginWelcome(Struct, frozen=True):
    """The first event of the stream to a plugin. The plugin names its link in what it sends."""

    link: str


class PluginText(Struct, frozen=True, kw_only=True):
    """A text for a session, which the plugin hands over and then says so."""

    text_id: str
    session: str
    text: str
    sender: str
    model: str = ""  # as provider/model; empty: the session's own
    effort: str = ""


class PluginFollow(Struct, frozen=True, kw_only=True):
    """From now on the plugin tells what happens in a session: first what its history has after `since`, then live."""

    follow: str
    since: str = ""


class PluginUnfollow(Struct, frozen=True, kw_only=True):
    unfollow: str


class PluginRequest(Struct, frozen=True, kw_only=True):
    """A request to the harness's own interface, which the plugin makes and says what the answer was."""

    request_id: str
    method: str
    path: str
    body: Any = None


PluginCommand = PluginText | PluginFollow | PluginUnfollow | PluginRequest
