"""`tieline message` and `tieline inbox`: over the hub's client, as tables, lines or JSON."""

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ...client.client import Client
from ...client.messages import OWNER
from ...envelopes import AttachmentRef, DeadLetter, Limits, ReceiptStep
from ...environment import variable
from ...errors import UsageError
from ...processes import environment_mark
from ...protocol.messages import MessageView, NewAsk, NewMessage
from .. import hub_connection
from ..errors import FAILED, TIMEOUT, print_error
from ..terminal.formatting import listed_id, print_json, time_ago
from ..terminal.sanitize import clean, one_line
from ..terminal.tables import Cell, print_rows

STYLES = {
    "injected": "green",
    "seen": "green",
    "answered": "green",
    "failed": "yellow",
    "expired": "red",
    "dead": "red",
}


def send(
    to: str,
    text: str,
    *,
    reply_to: str,
    no_reply: bool,
    in_reply_to: str,
    thread: str,
    content_type: str,
    attach: Sequence[str],
    ttl: float | None,
    max_hops: int | None,
    calls: int | None,
    key: str,
    within: str,
    session: str,
    json: bool,
) -> int:
    content = hub_connection.read_text(text)
    value = None
    if content_type and content_type != "text/plain":
        try:
            value = msgspec.json.decode(content)
        except msgspec.DecodeError as error:
            raise UsageError(f"the text is not JSON: {error}", field="text") from None
    new = NewMessage(
        to=to,
        text="" if value is not None else content,
        json=value,
        content_type=content_type,
        attachments=tuple(map(_attachment, attach)),
        reply_to=reply_to,
        no_reply=no_reply,
        in_reply_to=in_reply_to,
        thread=thread,
        key=key,
        within=within or variable("TIELINE_WITHIN"),
        session=session or variable("TIELINE_SESSION"),
        mark=environment_mark.mark(),
        cwd=str(Path.cwd()),
        limits=Limits(max_hops=max_hops, ttl_s=ttl, calls=calls),
    )

    async def work(client: Client) -> int:
        view = await client.send_message(new)
        if json:
            print_json(view)
        else:
            print(view.receipt.id)
            print_error(f"tieline: {view.state}; `tieline message status {view.receipt.id}` shows its state")
        return 0

    return hub_connection.run_with_client(work)


def ask(
    to: str,
    text: str,
    *,
    timeout: float,
    max_hops: int | None,
    calls: int | None,
    within: str,
    session: str,
    json: bool,
) -> int:
    new = NewAsk(
        to=to,
        text=hub_connection.read_text(text),
        timeout_s=timeout,
        within=within or variable("TIELINE_WITHIN"),
        session=session or variable("TIELINE_SESSION"),
        mark=environment_mark.mark(),
        cwd=str(Path.cwd()),
        limits=Limits(max_hops=max_hops, calls=calls),
    )

    async def work(client: Client) -> int:
        view = await client.ask_message(new)
        if json:
            print_json(view)
        elif view.answer is not None:
            print(clean(view.answer.payload.as_text()))
        else:
            print_error(f"tieline: {view.detail or view.reason}")
            print_error(f"  It is {view.receipt.state}; see `tieline message status {view.receipt.id}`.")
        if view.answer is not None:
            return 0
        return TIMEOUT if view.reason == "timeout" else FAILED

    return hub_connection.run_with_client(work)


def status(id: str, *, json: bool) -> int:
    async def work(client: Client) -> int:
        view = await client.message(await hub_connection.find_message(client, id))
        if json:
            print_json(view)
            return 0
        receipt = view.receipt
        print(f"{receipt.id}  {view.state}" + (f"  waits: {receipt.waiting}" if receipt.waiting else ""))
        print(f"  {receipt.sender} → {receipt.subject}")
        if receipt.session:
            print(f"  session {receipt.session}")
        if view.envelope is not None:
            print(f"  {one_line(view.envelope.payload.as_text(), 100)}")
        print_rows(("step", "when", "attempt", "why", "channel"), [_step(step) for step in receipt.steps])
        if receipt.answer:
            print(f"answered by {receipt.answer}")
        return 0

    return hub_connection.run_with_client(work)


def trace(id: str, *, json: bool) -> int:
    async def work(client: Client) -> int:
        view = await client.trace(await hub_connection.find_message(client, id))
        if json:
            print_json(view)
            return 0
        rows: list[Sequence[Cell]] = []
        for message, depth in zip(view.messages, view.depth, strict=True):
            rows.append(_message(message, "  " * min(depth, 8)))
        if rows:
            print_rows(("message", "state", "from", "to", "says"), rows)
        for letter in view.dead:
            print(f"did not arrive: {letter_line(letter)}")
        return 0

    return hub_connection.run_with_client(work)


def threads(*, limit: int, json: bool) -> int:
    async def work(client: Client) -> int:
        listed = await client.threads(limit=limit)
        if json:
            print_json(listed)
            return 0
        print_rows(
            ("thread", "messages", "open", "active", "parties", "last"),
            [
                (
                    (listed_id(thread.id), "bold"),
                    str(thread.count),
                    str(thread.open),
                    time_ago(max((step.at for step in thread.last.receipt.steps), default=0.0)),
                    one_line(", ".join(thread.parties), 60),
                    one_line(thread.last.envelope.payload.as_text() if thread.last.envelope else "", 60),
                )
                for thread in listed
            ],
            "No messages yet.",
        )
        return 0

    return hub_connection.run_with_client(work)


def inbox(address: str, *, take: bool, every: bool, limit: int, json: bool) -> int:
    async def work(client: Client) -> int:
        if every:
            boxes = await client.inboxes()
            if json:
                print_json(boxes)
            else:
                rows = [(box.subject, str(box.waiting), box.channel or box.kind) for box in boxes]
                print_rows(("address", "waiting", "read by"), rows)
            return 0
        whose = address or OWNER
        if take:
            messages = await client.read_inbox(whose, limit=limit)
        else:
            messages = await client.inbox(whose, limit=limit)
        if json:
            print_json(messages)
            return 0
        if take:
            for view in messages:
                content = clean(view.envelope.payload.as_text()) if view.envelope else "(its text is no longer kept)"
                print(f"{view.receipt.id}  from {view.receipt.sender}\n{content}\n")
            if not messages:
                print_error("tieline: no messages are waiting")
            return 0
        print_rows(("message", "state", "from", "to", "says"), [_message(view) for view in messages], "Nothing here.")
        return 0

    return hub_connection.run_with_client(work)


# --- inside --------------------------------------------------------------------------------------------------


def _attachment(given: str) -> AttachmentRef:
    if "://" in given:
        return AttachmentRef(url=given, name=given.rpartition("/")[2])
    import mimetypes

    path = Path(given).expanduser().absolute()
    if not path.is_file():
        raise UsageError(f"there is no file {given}", field="attach")
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return AttachmentRef(url=path.as_uri(), name=path.name, media_type=kind, size=path.stat().st_size)


def _message(view: MessageView, indent: str = "") -> Sequence[Cell]:
    receipt = view.receipt
    state = f"{view.state} ({view.reason})" if view.reason else view.state
    says = one_line(view.envelope.payload.as_text(), 60) if view.envelope else ""
    return (indent + listed_id(receipt.id), (state, STYLES.get(view.state, "")), receipt.sender, receipt.subject, says)


def _step(step: ReceiptStep) -> Sequence[Cell]:
    why = " ".join(part for part in (step.reason, step.detail and f"({step.detail})") if part)
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(step.at))
    return ((step.state, STYLES.get(step.state, "")), at, str(step.attempt or ""), one_line(why, 80), step.channel)


def letter_line(letter: DeadLetter) -> str:
    envelope = letter.envelope
    why = letter.reason + (f": {letter.detail}" if letter.detail else "")
    return f"{envelope.id}  {envelope.sender} → {envelope.subject}  {one_line(why, 200)}"
