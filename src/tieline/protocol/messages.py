"""The relay on the wire: what requests about messages, inboxes, dead letters and channels may contain, and what they
are answered with. Envelopes, receipts and dead letters are shown as they are kept (`tieline.envelopes`)."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from ..envelopes import AttachmentRef, ChannelState, DeadLetter, Envelope, Limits, MessageReceipt, Payload, State
from .request_bodies import Body

MAX_PAGE = 500
"""Messages, threads or dead letters of one answer."""
ASK_S = 60.0
"""How long an asker waits unless it says otherwise."""
MAX_ASK_S = 100.0
"""A request may not take longer; who wants to wait longer sends a message and looks at its receipt."""


# --- requests ------------------------------------------------------------------------------------------------


class NewMessage(Body, frozen=True, kw_only=True):
    to: str
    text: str = ""
    json: Any = None
    content_type: str = ""  # of the JSON
    attachments: tuple[AttachmentRef, ...] = ()
    reply_to: str = ""  # empty: the sender's own inbox, unless no_reply
    no_reply: bool = False
    in_reply_to: str = ""
    thread: str = ""
    key: str = ""  # sending the same key again is the same message
    within: str = ""  # the message that the sender works on: what is left of its budget is all there is
    session: str = ""  # the session that sends it; empty: the person
    mark: str = ""  # of the agent that runs the command: then it is that one's session, and no person
    cwd: str = ""  # where the command runs
    limits: Limits = Limits()

    def payload(self) -> Payload:
        kind = self.content_type or ("text/plain" if self.json is None else "application/json")
        return Payload(self.text, self.json, kind, self.attachments)


class NewAsk(Body, frozen=True, kw_only=True):
    """A message whose answer is waited for."""

    to: str
    text: str = ""
    json: Any = None
    timeout_s: float = ASK_S
    key: str = ""
    within: str = ""
    session: str = ""
    mark: str = ""
    cwd: str = ""
    limits: Limits = Limits()

    def payload(self) -> Payload:
        return Payload(self.text, self.json, "text/plain" if self.json is None else "application/json")


class InboxRead(Body, frozen=True, kw_only=True):
    """Take messages out of an inbox: they are seen now."""

    ids: tuple[str, ...] = ()  # empty: the oldest
    limit: int = 50


class DeadSelection(Body, frozen=True, kw_only=True):
    """Which dead letters: by their messages' ids, or all whose address fits a pattern, or whose reason is this."""

    ids: tuple[str, ...] = ()
    pattern: str = ""  # of whom it was for
    sender: str = ""  # a pattern, too
    reason: str = ""


class ChannelTest(Body, frozen=True, kw_only=True):
    to: str = ""  # an address of the channel; empty: its own
    text: str = "This is a test of the channel."


class ChannelReload(Body, frozen=True, kw_only=True):
    trust: tuple[str, ...] = ()  # what a person has read and agrees to, in the words of an earlier `waiting`


# --- answers -------------------------------------------------------------------------------------------------


class MessageView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message and where it is; `steps` of the receipt are what happened, in order."""

    receipt: MessageReceipt
    state: State  # how far it got
    envelope: Envelope | None = None  # no longer kept: None
    reason: str = ""
    attempts: int = 0


class ThreadView(Struct, frozen=True, kw_only=True):
    """Messages that belong together, in one line."""

    id: str
    first: MessageView
    last: MessageView
    count: int = 1
    parties: tuple[str, ...] = ()  # addresses, in the order they appeared
    open: int = 0  # messages on their way


class TraceView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The whole chain that a message belongs to, oldest first; `depth` is how far each is from the first."""

    thread: str
    messages: tuple[MessageView, ...] = ()
    depth: tuple[int, ...] = ()
    dead: tuple[DeadLetter, ...] = ()


class AnswerView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of an ask: the answer, or the reason why there is none."""

    receipt: MessageReceipt
    answer: Envelope | None = None
    reason: str = ""  # a code: timeout, idle_without_answer, died_without_answer …
    detail: str = ""


class InboxView(Struct, frozen=True, kw_only=True):
    subject: str
    waiting: int = 0
    channel: str = ""  # who takes from it; empty: it is read by hand, or nobody answers for it at present
    kind: Literal["inbox", "channel", "handler", "ask", "nobody"] = "inbox"


class DeadOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one dead letter."""

    id: str
    done: bool
    sent_as: str = ""  # the new message
    problem: str = ""


class DropView(Struct, frozen=True, kw_only=True):
    dropped: int


class ChannelView(Struct, frozen=True, kw_only=True):
    """A channel of the configuration, whether or not it runs."""

    id: str
    state: ChannelState
    source: str = ""  # type telegram, package acme_channel, path ./my_channel.py
    prefix: str = ""
    name: str = ""
    problem: str = ""  # why it is broken, or what is wrong with it just now
    hint: str = ""
    field: str = ""  # the part of the configuration that is wrong
    circuit: Literal["closed", "open"] = "closed"  # open: it failed so often that it is left alone for a while
    waiting: int = 0
    in_flight: int = 0
    delivered: int = 0
    failed: int = 0
    last_error: str = ""
    since: float = 0.0
    last_error_at: float = 0.0
    details: Mapping[str, Any] = {}  # what the channel itself tells


class ReloadView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a look at the configuration changed. With a `problem`, the file was not understood and nothing did."""

    started: tuple[str, ...] = ()
    restarted: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()  # what the untrusted ones bring in, in words
    trusted: tuple[str, ...] = ()  # what may run from now on, in words
    problem: str = ""
    hint: str = ""
    channels: tuple[ChannelView, ...] = ()


class ChannelTestView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a message that was sent through a channel to see whether it works."""

    channel: str
    delivered: bool
    message: MessageView


def message_view(receipt: MessageReceipt, envelope: Envelope | None = None) -> MessageView:
    return MessageView(
        receipt=receipt, envelope=envelope, state=receipt.state, reason=receipt.reason, attempts=receipt.attempts
    )
