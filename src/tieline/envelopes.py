"""Messages and where they really got to. Frozen values, no I/O.

An *envelope* goes from one address to another. Its *budget* bounds what may come of it: each message that is sent
because of another one inherits what is left. Its *receipt* says, step by step, where it is:

    accepted → stored → offered → injected → seen → answered     or     expired, dead

`offered`: a channel was given it · `injected`: it was really handed over (a prompt in the session, a message in the
chat) · `seen`: the other side took it up · `answered`: an answer to it was stored. A failed attempt is a step too.
"""

import time
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import msgspec
from msgspec import Struct

from .errors import BadSubject, BusError, TielineError

MAX_TOKENS = 16
MAX_ADDRESS = 256
"""Characters of an address; with what the bus puts around it, it fits into a subject."""
MAX_ENVELOPE = 768 * 1024
"""Bytes of a whole envelope as JSON: a record of the bus carries it with its history."""
ROOT = "relay"

# --- addresses ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=16384)
def address(subject: str) -> str:
    """The one spelling of an address: normalised and case-folded. Raises BadSubject."""
    text = unicodedata.normalize("NFKC", subject).casefold()
    tokens = text.split(".")
    if len(text) > MAX_ADDRESS or len(text.encode(errors="replace")) > MAX_ADDRESS:
        raise BadSubject("address", subject, f"it is longer than {MAX_ADDRESS} bytes")
    if tokens[0] != ROOT or len(tokens) < 2:
        raise BadSubject("address", subject, f"it must begin with {ROOT}. and name an endpoint")
    if len(tokens) > MAX_TOKENS:
        raise BadSubject("address", subject, f"it has {len(tokens)} tokens, the maximum is {MAX_TOKENS}")
    if "" in tokens:
        raise BadSubject("address", subject, "a token between two dots is empty")
    for token in tokens:
        if not all(character.isalnum() or character in "-_@+=:~" for character in token):
            raise BadSubject("address", subject, "a token has letters, digits and - _ @ + = : ~")
    return text


def under(prefix: str, subject: str) -> bool:
    """Whether an address is the prefix itself or lies below it, token by token."""
    return subject == prefix or subject.startswith(prefix + ".")


# --- envelopes ---------------------------------------------------------------------------------------------


class AttachmentRef(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that goes with a message: by reference, never by content."""

    url: str  # file:///…, https://…
    name: str = ""
    media_type: str = "application/octet-stream"
    size: int | None = None


class Payload(Struct, frozen=True, omit_defaults=True):
    """What is said: a text, or JSON with its content type."""

    text: str = ""
    json: Any = None
    content_type: str = "text/plain"
    attachments: tuple[AttachmentRef, ...] = ()

    def as_text(self) -> str:
        """For those who read: the text, or else the JSON as text."""
        if self.text or self.json is None:
            return self.text
        return msgspec.json.format(msgspec.json.encode(self.json), indent=2).decode()


class Limits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a caller asks for. It can only shrink what there is."""

    max_hops: int | None = None
    ttl_s: float | None = None
    calls: int | None = None


class Budget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    hops: int = 1  # how many times this has been passed on, this time included
    max_hops: int = 8
    ancestors: tuple[str, ...] = ()  # addresses it has come from, the first sender first
    expires_at: float = 0.0
    calls_left: int = 32  # messages and agent turns that may still come of it

    def ttl_left(self, now: float | None = None) -> float:
        return max(0.0, self.expires_at - (time.time() if now is None else now))


class Envelope(Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"sender": "from"}):
    id: str
    subject: str  # who it is for
    sender: str  # stamped by the relay
    payload: Payload
    budget: Budget
    created_at: float
    thread: str = ""  # the first message's id
    reply_to: str = ""  # where an answer goes; empty: none is wanted
    in_reply_to: str = ""  # the message that this answers
    caused_by: str = ""  # the message that its sender was working on
    key: str = ""  # the sender's idempotency key


ChannelState = Literal["starting", "running", "failing", "stopped", "broken", "untrusted", "disabled"]
"""failing: it runs, and its last deliveries failed · broken: it could not be loaded or started; `problem` says why ·
untrusted: it waits for a person's `tieline channels reload`."""


# --- receipts ----------------------------------------------------------------------------------------------

State = Literal["accepted", "stored", "offered", "injected", "seen", "answered", "failed", "expired", "dead"]
"""`failed` is an attempt that failed and will be made again."""

ORDER: Mapping[str, int] = {
    "accepted": 0, "stored": 1, "failed": 2, "offered": 2, "injected": 3, "seen": 4, "answered": 5, "expired": 9,
    "dead": 9,
}  # fmt: skip

Reason = Literal[
    "",
    # refusals: the message was not accepted
    "bad_address", "bad_thread", "reserved_subject", "no_endpoint", "denied", "rate_limited", "mailbox_full",
    "too_large", "hops_exceeded", "cycle", "ttl_expired", "calls_exceeded",
    # what went wrong later
    "max_concurrent_exceeded", "circuit_open", "node_offline", "no_channel", "delivery_failed", "gave_up",
    "rejected", "asker_gone", "unread", "unread_too_long",
    # delivered, but no answer came
    "idle_without_answer", "died_without_answer", "interrupted", "timeout", "indeterminate", "no_reply_wanted",
]  # fmt: skip
"""Why. Channels may use further codes of their own."""


class ReceiptStep(Struct, frozen=True, omit_defaults=True):
    state: State
    at: float
    attempt: int = 0
    reason: str = ""  # a code
    detail: str = ""  # for people
    channel: str = ""


class MessageReceipt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a message is."""

    id: str
    subject: str
    sender: str
    thread: str
    seq: int = 0  # its place in the mail's log
    steps: tuple[ReceiptStep, ...] = ()
    attempts: int = 0  # deliveries that were begun
    over: bool = False  # nothing more will come of its delivery
    waiting: str = ""  # what it waits for, as a code: circuit_open, max_concurrent_exceeded, node_offline …
    answer: str = ""  # the message that answers it
    session: str = ""  # the session that got it
    caused_by: str = ""
    expires_at: float = 0.0

    @property
    def state(self) -> State:
        """How far it got."""
        return max(self.steps, key=lambda step: ORDER[step.state]).state if self.steps else "accepted"

    @property
    def reason(self) -> str:
        """The last reason given."""
        return next((step.reason for step in reversed(self.steps) if step.reason), "")


class Message(Struct, frozen=True, kw_only=True):
    """An envelope with its receipt; without the envelope, only its receipt is still kept."""

    receipt: MessageReceipt
    envelope: Envelope | None = None


class DeadLetter(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message that did not arrive, kept whole."""

    envelope: Envelope
    reason: str
    detail: str = ""
    attempts: int = 0
    at: float = 0.0
    state: Literal["refused", "expired", "dead"] = "dead"
    retried_as: str = ""  # the message that was sent again in its place


# --- deliveries --------------------------------------------------------------------------------------------


class DeliveryResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a channel made of a delivery.

    `delivered`: handed over. `failed`: not now; it is tried again, after `retry_after_s` if that is given.
    `dead_lettered`: never; it is not tried again.
    """

    status: Literal["delivered", "failed", "dead_lettered"]
    reason: str = ""
    detail: str = ""
    response_text: str = ""  # the other side's answer, if the delivery brought one
    session_id: str = ""
    retry_after_s: float | None = None
    counts: bool = True  # failed: whether it was an attempt; waiting for room or for a node is none


# --- errors ------------------------------------------------------------------------------------------------


class Refused(TielineError):
    """A message was not accepted; `reason` says why, as a code."""

    def __init__(self, reason: str, message: str, *, hint: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.retry_after_s = retry_after_s


class Unanswered(TielineError):
    """No answer came to what was asked; the receipt says where it is."""

    def __init__(self, reason: str, message: str, receipt: MessageReceipt) -> None:
        super().__init__(message, hint=f"It is {receipt.state}; see `tieline message status {receipt.id}`.")
        self.reason = reason
        self.receipt = receipt


class UnknownMessage(TielineError):
    def __init__(self, id: str) -> None:
        super().__init__(f"there is no message {id!r}", hint="It may have been deleted: old messages are.")
        self.id = id


class RelayStandby(TielineError):
    """Another process runs the relay of this bus."""

    def __init__(self, active: str) -> None:
        super().__init__(f"the relay of this bus runs in {active or 'another process'}", hint="Ask that one.")
        self.active = active


OUTCOME_UNKNOWN = (BusError, RelayStandby)
"""What sending raises when nobody knows whether the message is stored: no refusal. The same `key` again is harmless."""


encode = msgspec.json.Encoder().encode
decode_envelope = msgspec.json.Decoder(Envelope).decode
decode_receipt = msgspec.json.Decoder(MessageReceipt).decode
decode_dead = msgspec.json.Decoder(DeadLetter).decode
