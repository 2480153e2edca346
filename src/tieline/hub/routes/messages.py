"""Messages and inboxes."""

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta
from starlette.responses import Response

from ...envelopes import Message, Unanswered, UnknownMessage, address, under
from ...errors import UsageError
from ...mesh.records import MEMBER_PREFIX
from ...protocol.messages import (
    MAX_ASK_S,
    MAX_PAGE,
    AnswerView,
    InboxRead,
    InboxView,
    MessageView,
    NewAsk,
    NewMessage,
    ThreadView,
    TraceView,
    message_view,
)
from ...relay import Relay
from ...sessions.caller_session import caller
from ..http.problems import RequestRefused
from ..http.request import Request, json_response, parse_body
from ..http.route_spec import RouteSpec
from ..http.routing import get, post
from ..nodes.command_helpers import get_session
from .members import address_of

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["messages"]
OWNER = "relay.user.owner"
"""Every device is the hub owner's, so all of them share one inbox."""

Limit = Annotated[int, Meta(ge=1, le=MAX_PAGE)]


def relay_of(request: Request) -> Relay:
    relay = request.hub.relay
    if relay is None:
        raise RequestRefused("BusError", "the relay is not running on this hub")
    return relay


async def current_relay(request: Request) -> Relay:
    """The relay, once it has caught up."""
    relay = relay_of(request)
    await relay.wait_while_late()
    return relay


async def sender_of(request: Request, new: NewMessage | NewAsk) -> str:
    """The sender, set by the hub: the owner, or a session. A process of an agent never counts as the owner, and the
    agent in a person's terminal names no session."""
    hub, session = request.hub, new.session
    peer = request.context.peer
    if (session or new.mark) and _reader(request) == OWNER:
        raise RequestRefused("Forbidden", "the request comes from an agent that is not a session of this hub")
    if peer is not None and peer.mark is not None:
        if hub.local is None:
            raise RequestRefused("Forbidden", "an agent of another hub or node may not send messages here")
        session = caller(hub.local.manager, peer.mark, peer.cwd, session)
    elif new.mark and hub.local is not None:
        session = caller(hub.local.manager, new.mark, new.cwd, session)
    return address(f"relay.agent.{(await get_session(hub, session)).id}") if session else OWNER


def _reader(request: Request) -> str:
    """Whose messages alone the caller may read. Empty: everybody's."""
    if session := request.context.session:
        return address(f"relay.agent.{session}")
    peer = request.context.peer
    return OWNER if peer is not None and request.hub.harness_above(peer) else ""


def _check_reader(request: Request, subject: str) -> None:
    if _reader(request) not in ("", subject):
        raise RequestRefused("Forbidden", "an agent in a terminal may read only its own messages")


def message_of(request: Request, sender: str) -> str:
    """The message that a session of this machine works on: the id of the prompt that runs. The relay, which follows the
    session's log, may learn of its turn later than the agent sends something in it."""
    prefix, _, session = sender.rpartition(".")
    local = request.hub.local
    running = local.manager.prompts.running(session) if local is not None and prefix == "relay.agent" else None
    return running.id if running is not None else ""


def view_of(message: Message) -> MessageView:
    return message_view(message.receipt, message.envelope)


# --- messages ------------------------------------------------------------------------------------------------


@post(
    "/api/v1/messages",
    tags=TAGS,
    spec=RouteSpec(body=NewMessage, response=MessageView, status=201, problems=("NotFound", "UnknownMember")),
)
async def send(request: Request) -> Response:
    """Send a message. It is durable when this returns; its receipt tells its progress."""
    new = await parse_body(request, NewMessage)
    sender = await sender_of(request, new)
    relay = await current_relay(request)
    receipt = await relay.send(
        address_of(request, new.to),
        new.payload(),
        sender=sender,
        reply_to="" if new.no_reply else address_of(request, new.reply_to) or sender,
        in_reply_to=new.in_reply_to,
        thread=new.thread,
        limits=new.limits,
        key=new.key or request.context.command_id,
        within=message_of(request, sender) or new.within,
    )
    return json_response(view_of(await relay.message(receipt.id)), 201)


@post(
    "/api/v1/messages/ask",
    tags=TAGS,
    spec=RouteSpec(body=NewAsk, response=AnswerView, problems=("NotFound", "UnknownMember")),
)
async def ask(request: Request) -> Response:
    """Send a message and wait for its answer. Without an answer, `reason` and the receipt tell why."""
    new = await parse_body(request, NewAsk)
    sender = await sender_of(request, new)
    timeout = min(max(new.timeout_s, 0.1), MAX_ASK_S)
    relay = await current_relay(request)
    try:
        answer = await relay.ask(
            address_of(request, new.to),
            new.payload(),
            sender=sender,
            timeout=timeout,
            limits=new.limits,
            key=new.key or request.context.command_id,
            within=message_of(request, sender) or new.within,
        )
    except Unanswered as error:
        return json_response(AnswerView(receipt=error.receipt, reason=error.reason, detail=error.message))
    return json_response(AnswerView(receipt=await relay.status(answer.in_reply_to), answer=answer))


@get("/api/v1/messages", tags=TAGS, spec=RouteSpec(response=list[ThreadView], problems=("UnknownMessage",)))
async def threads(request: Request, thread: str = "", limit: Limit = 50) -> Response:
    """Message threads, the last active first; with `thread`, that one only."""
    relay = await current_relay(request)
    if thread:
        messages = await relay.thread(thread)
        if not messages:
            raise UnknownMessage(thread)
        return json_response([_thread(thread, messages)])
    members: dict[str, list[str]] = {}
    for receipt in await relay.recent(MAX_PAGE):
        members.setdefault(receipt.thread, []).append(receipt.id)
    messages_by_thread = {name: await relay.thread(name, *ids) for name, ids in list(members.items())[:limit]}
    return json_response([_thread(name, messages) for name, messages in messages_by_thread.items() if messages])


def _thread(name: str, messages: list[Message]) -> ThreadView:
    views = list(map(view_of, messages))
    parties = dict.fromkeys(party for view in views for party in (view.receipt.sender, view.receipt.subject))
    return ThreadView(
        id=name,
        first=views[0],
        last=max(views, key=lambda view: max((step.at for step in view.receipt.steps), default=0.0)),
        count=len(views),
        parties=tuple(parties),
        open=sum(not view.receipt.over for view in views),
    )


@get("/api/v1/messages/{id}", tags=TAGS, spec=RouteSpec(response=MessageView, problems=("UnknownMessage",)))
async def show(request: Request, id: str) -> Response:
    """One message and the steps of its delivery."""
    relay = await current_relay(request)
    message = await relay.message(id)
    if _reader(request) not in ("", message.receipt.sender, message.receipt.subject):
        raise UnknownMessage(id)
    return json_response(view_of(message))


@get("/api/v1/messages/{id}/trace", tags=TAGS, spec=RouteSpec(response=TraceView, problems=("UnknownMessage",)))
async def trace(request: Request, id: str) -> Response:
    """The whole thread of a message, with its dead letters."""
    relay = await current_relay(request)
    thread = await _thread_of(relay, id)
    messages = await relay.thread(thread, id)  # none, if all of it was refused
    dead = [letter for letter in await relay.dead_letters.list() if letter.envelope.thread == thread]
    if not messages and not dead:
        raise UnknownMessage(id)
    view = TraceView(
        thread=thread, messages=tuple(map(view_of, messages)), depth=depths(messages), dead=tuple(reversed(dead))
    )
    return json_response(view)


async def _thread_of(relay: Relay, id: str) -> str:
    """Of a message, of one that was refused and has only a dead letter, or `id` is a thread's own name."""
    try:
        return (await relay.status(id)).thread
    except UnknownMessage:
        try:
            return (await relay.dead_letters.show(id)).envelope.thread
        except UnknownMessage:
            return id


def depths(messages: list[Message]) -> tuple[int, ...]:
    """The distance of each message from the first of its chain."""
    known: dict[str, int] = {}
    for message in messages:
        envelope = message.envelope
        above = (envelope.caused_by, envelope.in_reply_to) if envelope else (message.receipt.caused_by,)
        known[message.receipt.id] = max((known[id] + 1 for id in above if id in known), default=0)
    return tuple(known[message.receipt.id] for message in messages)


@get("/api/v1/message-ids", tags=TAGS, spec=RouteSpec(response=list[str]))
async def ids(request: Request, part: Annotated[str, Meta(min_length=1, max_length=64)], limit: Limit = 20) -> Response:
    """Ids that begin or end with `part`, or whose last six characters begin with it, of messages and dead letters."""
    relay = await current_relay(request)
    return json_response(await relay.find_ids(part, limit))


# --- inboxes -------------------------------------------------------------------------------------------------


@get("/api/v1/inboxes", tags=TAGS, spec=RouteSpec(response=list[InboxView]))
async def inboxes(request: Request) -> Response:
    """All addresses with waiting messages, and the owner's inbox."""
    relay = await current_relay(request)
    relay.check_active()
    waiting = {OWNER: 0, **{subject: len(mailbox) for subject, mailbox in relay.dispatcher.mailboxes.items()}}
    return json_response([_inbox(relay, subject, count) for subject, count in sorted(waiting.items())])


def _inbox(relay: Relay, subject: str, count: int) -> InboxView:
    queue = relay.dispatcher.queues.match(subject)
    if queue is None:
        return InboxView(subject=subject, waiting=count, kind="nobody")
    return InboxView(
        subject=subject,
        waiting=count,
        kind=queue.kind,
        channel=queue.id if queue.kind in ("channel", "handler") else "",
    )


@get("/api/v1/inboxes/{subject}", tags=TAGS, spec=RouteSpec(response=list[MessageView], problems=("UnknownMember",)))
async def inbox(request: Request, subject: str, limit: Limit = 50) -> Response:
    """The messages of an address or of a member, the newest first. They stay unread."""
    relay = await current_relay(request)
    subject = address(address_of(request, subject))
    _check_reader(request, subject)
    queue = relay.dispatcher.queues.match(subject)
    if queue is not None and queue.kind == "inbox":
        return json_response([view_of(message) for message in await relay.inbox(subject).messages(limit=limit)])
    relay.check_active()
    waiting = [message.receipt for message in relay.dispatcher.mailboxes.get(subject, {}).values()]
    newest = sorted(waiting, key=lambda receipt: receipt.seq, reverse=True)[:limit]
    return json_response([view_of(await relay.message(receipt.id)) for receipt in newest])


@post(
    "/api/v1/inboxes/{subject}/read",
    tags=TAGS,
    spec=RouteSpec(
        body=InboxRead, body_required=False, response=list[MessageView], problems=("UnknownMessage", "UnknownMember")
    ),
)
async def read(request: Request, subject: str) -> Response:
    """Read messages of an inbox: those named, or the oldest unread. They are marked as seen."""
    wanted = await parse_body(request, InboxRead, empty=InboxRead())
    relay = await current_relay(request)
    subject = address(address_of(request, subject))
    _check_reader(request, subject)
    if under(MEMBER_PREFIX, subject):  # its receipt would say that the agent has seen it
        raise UsageError(
            "cannot mark an agent's messages as read", field="subject", hint="Read its inbox without taking them."
        )
    member_inbox = relay.inbox(subject)
    limit = min(max(wanted.limit, 1), MAX_PAGE)
    ids = wanted.ids or tuple(receipt.id for receipt in member_inbox.unread()[:limit])
    return json_response([view_of(await member_inbox.read(id)) for id in ids])


def routes(hub: "Hub") -> list[Any]:
    return [send, ask, threads, show, trace, ids, inboxes, inbox, read]
