"""What the hub and a plugin inside a harness tell each other: texts for its sessions, and how its sessions are."""

from typing import Annotated

from msgspec import Meta, Struct

from .mesh import Activity
from .request_bodies import Body

MAX_SESSIONS = 50
"""Of one plugin."""

Word = Annotated[str, Meta(min_length=1, max_length=200)]


class PluginSession(Body, frozen=True, kw_only=True):
    """A session that a person runs in the plugin's harness."""

    id: Word  # the harness's own
    cwd: Annotated[str, Meta(max_length=4096)] = ""
    activity: Activity = "unknown"


class PluginReport(Body, frozen=True, kw_only=True):
    """All sessions of the plugin as they are now. What a former report had and this one lacks has ended."""

    link: Word
    sessions: Annotated[tuple[PluginSession, ...], Meta(max_length=MAX_SESSIONS)] = ()


class PluginHandedOver(Body, frozen=True, kw_only=True):
    """What became of a text that the plugin was to hand to a session."""

    link: Word
    text: Word  # its id
    error: Annotated[str, Meta(max_length=1000)] = ""  # empty: the session has it


class PluginWelcome(Struct, frozen=True):
    """The first event of the stream to a plugin. The plugin names its link in what it sends."""

    link: str


class PluginText(Struct, frozen=True, kw_only=True):
    """A text for a session, which the plugin hands over and then says so."""

    text_id: str
    session: str
    text: str
    sender: str
