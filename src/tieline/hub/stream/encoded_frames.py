"""Frames for many clients, each encoded once, and events of the log encoded as frames."""

import logging
from typing import Any

import msgspec
from msgspec import Struct
from starlette.types import Message as AsgiMessage

from ...protocol.stream_frames import AnyHubFrame, encode
from ...sessions.event_log import LogEvent
from .uvicorn_websocket import text_frame

log = logging.getLogger("tieline.hub")


class EncodedFrame:
    """What one frame is on the wire. Shared by all who get it: nobody changes it."""

    __slots__ = ("_placed", "_streamed", "message", "seq", "session", "size")

    def __init__(self, data: bytes, *, seq: int | None = None, session: str = "") -> None:
        data.decode()  # raises UnicodeDecodeError: a browser hangs up on text that is none
        self.seq = 0 if seq is None else seq
        self.session = session
        self.size = len(data)
        self.message: AsgiMessage = {"type": "websocket.send", "framed": text_frame(data)}
        self._placed = seq is not None
        self._streamed: AsgiMessage | None = None

    @property
    def data(self) -> bytes:
        """The frame's JSON."""
        return self.message["framed"][-self.size :]

    @property
    def sse_message(self) -> AsgiMessage:
        """The same as a server-sent event. A frame with an id is a position from which a client can resume."""
        if self._streamed is None:
            head = b"id: %d\n" % self.seq if self._placed else b""
            body = b"%bdata: %b\n\n" % (head, self.data)  # JSON has no line breaks of its own
            self._streamed = {"type": "http.response.body", "body": body, "more_body": True}
        return self._streamed


class EventSummary(Struct, frozen=True, gc=False):
    """As much of an event as the hub looks at. Decoding it also makes sure that it is JSON."""

    type: str = ""
    item: str = ""
    id: str = ""
    text: str = ""
    parent: str = ""
    status: str = ""


_decode_summary = msgspec.json.Decoder(EventSummary).decode


def summarize(event: bytes) -> EventSummary:
    """Raises ValueError for what is not a JSON object."""
    try:
        return _decode_summary(event)
    except msgspec.ValidationError:
        msgspec.json.decode(event, type=dict[str, Any])  # an event of a newer version is still an event
        return EventSummary()


def encode_frame(frame: AnyHubFrame, *, seq: int | None = None, session: str = "") -> EncodedFrame:
    return EncodedFrame(encode(frame), seq=seq, session=session)


def encode_event(whole: LogEvent) -> tuple[EncodedFrame, EventSummary] | None:
    """None for what is not an event at all: one bad record must not end the stream."""
    head = b'{"type":"event","seq":%d,"session":%b,"at":%b,"event":'
    try:
        about = summarize(whole.data)
        data = head % (whole.seq, encode(whole.session), encode(whole.at)) + whole.data + b"}"
        return EncodedFrame(data, seq=whole.seq, session=whole.session), about
    except ValueError as error:
        log.warning("the event at %d of %s is not understood: %s", whole.seq, whole.session, error)
        return None


def encode_delta(session: str, event: bytes) -> EncodedFrame:
    """Raises ValueError for what is no text."""
    return EncodedFrame(b'{"type":"delta","session":%b,"event":%b}' % (encode(session), event), session=session)
