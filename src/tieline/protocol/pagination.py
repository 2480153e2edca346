"""Lists that come in pages, and small answers that are more than one value."""

from msgspec import Struct

from .stream_frames import EventFrame


class EventPage(Struct, frozen=True, kw_only=True):
    """Events of a session, oldest first. `first` and `last` are the log's own ends, whatever it shows; 0: none."""

    events: tuple[EventFrame, ...]
    first: int
    last: int
    more: bool  # there are further ones in the direction that was asked for


class DiffText(Struct, frozen=True, kw_only=True):
    diff: str
