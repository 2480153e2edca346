"""The mesh as its callers use it: MCP tools, hooks, the REST API and the command line call these methods.

Every method takes the `Caller` that the transport determined. What it sends is stamped with that member's address; what
it reads are that member's own messages.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Literal

from msgspec.structs import replace

from ..bus.base import Bus
from ..envelopes import MAX_ENVELOPE, Message, MessageReceipt, Refused, UnknownMessage
from ..errors import UsageError
from ..ids import new_id
from ..processes.process_table import running_process
from ..protocol.mesh import (
    MAX_FETCH,
    MAX_MEMBERS,
    Activity,
    AgentAnswer,
    Broadcast,
    BroadcastResult,
    FetchedMessages,
    MemberMatch,
    MemberView,
    Note,
    Notes,
    PathLease,
    PathReservation,
    PeerMessage,
    Registration,
    SentMessage,
    SessionBinding,
)
from ..relay import Relay
from ..relay.request_reply import NO_ANSWER_TEXTS, no_answer_reason
from . import search
from .directory import NO_FILTERS, Directory, Filters, Profile
from .errors import NotRegistered, NotYours
from .framing import frame
from .mailbox import MAX_FETCH_BYTES, Mailbox, size_of
from .notes import SharedNotes
from .path_leases import TTL_S, PathLeases
from .project import project_name, project_of
from .records import PERSON_PREFIX, Caller, Member
from .team_interface import NoTeams, TeamTools

MAX_TEXT = MAX_ENVELOPE - 8 * 1024
"""Bytes of a message's text as JSON. The rest of the envelope is for addresses and the budget. Receivers take 1 MiB at
once, frame and all: see "A message arrives in one piece" in docs/decisions.md."""
MAX_WAIT_S = 100.0
"""A call may not take longer; whoever wants to wait longer calls again."""
MAX_BROADCAST = 100
MAX_HISTORY = 200

OnRefused = Callable[[str, str], None]
"""Told who was refused and why, for the audit log."""


class Mesh:
    """`async with Mesh(bus, relay) as mesh`."""

    def __init__(
        self,
        bus: Bus,
        relay: Relay,
        *,
        machine: str = "",
        on_refused: OnRefused = lambda who, why: None,
        attached: Callable[[str, str], str] = lambda harness, session: "",
    ) -> None:
        """`attached`: the id of the session of a terminal on this machine, by its harness and that one's own id."""
        self.machine = machine
        self.teams: TeamTools = NoTeams()
        self._attached = attached
        self.mailbox = Mailbox(relay)
        self.directory = Directory(bus, self.mailbox.unread, self._people)
        self.notes = SharedNotes(bus)
        self.path_leases = PathLeases(bus)
        self._relay = relay
        self._on_refused = on_refused
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Mesh":
        self._stack.enter_context(self.mailbox)
        await self._stack.enter_async_context(self.directory)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def _people(self) -> list[str]:
        prefix = PERSON_PREFIX + "."
        return [
            address.removeprefix(prefix) for address in self._relay.dispatcher.mailboxes if address.startswith(prefix)
        ]

    # --- who calls ---

    def whoami(self, caller: Caller) -> MemberView:
        """The member that the caller is. Raises NotRegistered, NotYours."""
        if caller.driven:
            return self.directory.session_view(caller.driven)
        if member := self.harness_member(caller):
            return self.directory.view(member)
        if caller.person and not caller.session:
            return self.directory.person_view(caller.person)
        raise NotRegistered

    def session_of(self, caller: Caller) -> str:
        """The session that the caller is, by its id among the hub's sessions. Empty: it is none of this machine."""
        if caller.driven:
            return caller.driven
        member = self.whoami(caller)
        return self._attached(member.harness, member.session) if member.machine == self.machine else ""

    def harness_member(self, caller: Caller) -> Member | None:
        """The member of the harness session that the caller is, if it has one yet. Raises NotYours."""
        bound = self.directory.by_session(caller.machine, caller.harness, caller.session) if caller.session else None
        if not caller.token:
            self._check_process(caller, bound)
            return bound
        member = self.directory.by_token(caller.token)
        if member is None:
            raise self._refused(caller, "the token is not valid", "Call register_agent for a new one.")
        if caller.machine and member.machine and caller.machine != member.machine:
            raise self._refused(caller, f"the token of {member.name} is for another machine", "Register here.")
        if bound is not None and bound.id != member.id:
            raise self._refused(
                caller, f"the token belongs to {member.name}, but this session is {bound.name}", "Leave the token out."
            )
        return member

    def _check_process(self, caller: Caller, member: Member | None) -> None:
        """The session's harness must be above whoever names the session, for as long as it runs: any program can name
        it, and what runs below another harness is another session. Raises NotYours."""
        if member is None or caller.lineage is None:
            return
        process = running_process(member.process)
        if process and process not in caller.lineage:
            why = f"the session {member.session} is at work in another terminal, as {member.name}"
            raise self._refused(caller, why, "Leave session_id out, or give the token that register_agent returned.")

    async def settle(self, caller: Caller, id: str) -> None:
        """The member's session is in the caller's harness from now on, if the one that it was in is over."""
        member = self.directory.member(id)
        if member is not None and caller.process not in ("", member.process) and not running_process(member.process):
            await self.directory.update(id, lambda known: replace(known, process=caller.process))

    def _refused(self, caller: Caller, why: str, hint: str = "") -> NotYours:
        who = caller.driven or caller.session or caller.person or caller.machine
        self._on_refused(who, why)
        return NotYours(why, hint=hint)

    async def _active(self, caller: Caller) -> MemberView:
        """The caller, whose call is a sign of life and that it went on with what it was handed."""
        me = self.whoami(caller)
        if me.kind == "agent":
            await self.settle(caller, me.id)
            await self.directory.heartbeat(me.id)
            await self.mailbox.took_up(me.address)
        return me

    def _with_inbox(self, me: MemberView) -> MemberView:
        if me.kind == "session":
            raise UsageError(
                "your messages come to you as prompts", field="caller", hint="End your turn to receive the next one."
            )
        return me

    # --- registering ---

    async def register_agent(
        self,
        caller: Caller,
        name: str = "",
        description: str = "",
        project: str = "",
        role: str = "",
        specialisation: str = "",
        harness: str = "",
        session_id: str = "",
        cwd: str = "",
        branch: str = "",
    ) -> Registration:
        """Register the caller. Idempotent: the same session is the same member, and fields that are left out keep their
        values."""
        if caller.driven:
            me = self.directory.session_view(caller.driven)
            return Registration(member=me, known=True, unread=me.unread)
        machine = caller.machine or self.machine
        harness, session = harness or caller.harness, session_id or caller.session
        owned = self.harness_member(caller) if caller.token else None
        if owned is None and session:
            self._check_process(caller, self.directory.by_session(machine, harness, session))
        cwd = cwd or caller.cwd
        detected = await asyncio.to_thread(project_of, cwd) if not (project and branch) else None
        profile = Profile(
            description=description,
            project=project_name(project) if project else detected.name if detected else "",
            role=role,
            specialisation=specialisation,
            branch=branch or (detected.branch if detected else ""),
            cwd=cwd,
        )
        member, token, known = await self.directory.register(
            machine=machine,
            harness=harness,
            session=session,
            name=name,
            profile=profile,
            process=caller.process,
            owned=owned.id if owned else "",
        )
        view = self.directory.view(member)
        return Registration(member=view, token=token, known=known, unread=view.unread)

    async def update_agent_profile(
        self,
        caller: Caller,
        name: str = "",
        description: str = "",
        project: str = "",
        role: str = "",
        specialisation: str = "",
        branch: str = "",
    ) -> MemberView:
        """What is left empty stays."""
        me = self._harness(await self._active(caller))
        profile = Profile(
            description=description,
            project=project_name(project),
            role=role,
            specialisation=specialisation,
            branch=branch,
        )
        changed = await self.directory.update(me.id, lambda known: replace(known, **profile.changes()), name=name)
        return self.directory.view(changed)

    def _harness(self, me: MemberView) -> MemberView:
        if me.kind != "agent":
            raise UsageError(f"{me.name} is a {me.kind}, which has no profile of its own to change", field="caller")
        return me

    async def bind_session(
        self, caller: Caller, agent_id: str, session_id: str = "", harness: str = ""
    ) -> SessionBinding:
        """Say in which harness session a member lives. What is left out is what the transport knows."""
        member = self.directory.member(agent_id)
        session, harness = session_id or caller.session, harness or caller.harness or "generic"
        if member is None:
            raise NotRegistered(f"no member has the id {agent_id[:80]!r}")
        if not session:
            raise UsageError("the session cannot be detected", field="session_id", hint="Give session_id.")
        own = self.harness_member(caller)
        if own is not None and own.id != member.id:
            raise self._refused(caller, f"{member.name} is not you", "Bind your own agent_id.")
        if own is None or member.machine != (caller.machine or self.machine):
            raise self._refused(
                caller, f"{member.name} is not known to be you", "Give the token that register_agent returned."
            )
        holder = self.directory.by_session(member.machine, harness, session)
        if holder is not None and holder.id != member.id:
            raise self._refused(
                caller, f"the session {session} is bound to the member {holder.name}", f"Use its id, {holder.id}."
            )
        bound = await self.directory.update(
            member.id, lambda known: replace(known, session=session, harness=harness, ended=False)
        )
        return _binding(bound)

    async def get_session_binding(self, caller: Caller, agent_id: str = "") -> SessionBinding:
        me = self.whoami(caller) if not agent_id else self.directory.resolve(agent_id)
        return SessionBinding(agent_id=me.id, session_id=me.session, harness=me.harness, machine=me.machine)

    async def heartbeat(self, caller: Caller, activity: Activity = "unknown") -> MemberView:
        """A sign of life; `idle` says that the turn is over."""
        me = await self._active(caller)
        if me.kind != "agent":
            return me
        if activity == "idle":
            self.mailbox.end_work(me.address)
        return self.directory.view(await self.directory.heartbeat(me.id, activity if activity != "unknown" else None))

    async def end_session(self, caller: Caller) -> None:
        """The harness session is over. Unread messages stay; the same session that resumes is the same member."""
        me = self._harness(self.whoami(caller))
        self.mailbox.end_work(me.address)
        await self.directory.end(me.id)
        await self.mailbox.session_over(me.address)

    # --- discovery ---

    async def list_agents(
        self, caller: Caller, filters: Filters = NO_FILTERS, limit: int = MAX_MEMBERS, ended: bool = False
    ) -> list[MemberView]:
        return self.directory.members(filters, limit=limit, ended=ended)

    async def find_agents(
        self, caller: Caller, query: str, filters: Filters = NO_FILTERS, limit: int = 20
    ) -> list[MemberMatch]:
        if search.load.cache_info().currsize == 0:
            await asyncio.to_thread(search.load)
        return self.directory.find(query, filters, limit=limit)

    # --- sending ---

    async def send_message(
        self,
        caller: Caller,
        to: str,
        text: str,
        thread: str = "",
        reply_wanted: bool = True,
        in_reply_to: str = "",
        key: str = "",
    ) -> SentMessage:
        """Stored when it returns; the receipt says how far it got. The same `key` again is the same message."""
        return await self._send(await self._active(caller), self.directory.resolve(to), text, thread=thread,
            reply_wanted=reply_wanted, in_reply_to=in_reply_to, key=key)  # fmt: skip

    async def _send(
        self,
        me: MemberView,
        to: MemberView,
        text: str,
        *,
        thread: str = "",
        reply_wanted: bool = True,
        in_reply_to: str = "",
        key: str = "",
    ) -> SentMessage:
        _check_text(text)
        handed, sender = self.mailbox.working_on(me.address)
        if not in_reply_to and sender == to.address:
            in_reply_to = handed  # agents often send where they could reply
        receipt = await self._relay.send(
            to.address,
            text,
            sender=me.address,
            reply_to=me.address if reply_wanted else "",
            in_reply_to=in_reply_to,
            thread=thread,
            key=key,
        )
        return self._sent(receipt)

    async def broadcast_message(
        self, caller: Caller, text: str, filters: Filters = NO_FILTERS, reply_wanted: bool = False, key: str = ""
    ) -> Broadcast:
        """To every agent and session that fits, each a message of its own, all in one thread. People are left out
        unless `kind` asks for them."""
        me = await self._active(caller)
        _check_text(text)
        receivers = [
            member
            for member in self.directory.members(filters)
            if member.address != me.address and (member.kind != "person" or filters.kind == "person")
        ]
        if len(receivers) > MAX_BROADCAST:
            raise UsageError(
                f"{len(receivers)} members fit, a broadcast reaches at most {MAX_BROADCAST}",
                field="filters",
                hint="Narrow it down by project, role or activity.",
            )
        thread, results = new_id(), list[BroadcastResult]()
        for member in receivers:
            try:
                own = f"{key}-{member.id}" if key else ""
                sent = await self._send(me, member, text, thread=thread, reply_wanted=reply_wanted, key=own)
                results.append(BroadcastResult(to=member.name, address=member.address, message=sent))
            except Refused as error:
                results.append(BroadcastResult(to=member.name, address=member.address, problem=error.message))
        return Broadcast(thread=thread, results=tuple(results))

    async def reply(
        self, caller: Caller, message_id: str, text: str, reply_wanted: bool = True, key: str = ""
    ) -> SentMessage:
        """To whoever sent that message, in its thread."""
        me = await self._active(caller)
        message = await self._own_message(me, message_id)
        envelope = message.envelope
        if message.receipt.subject != me.address or envelope is None:
            raise UsageError(
                "you can only reply to a message that was sent to you", field="message_id", hint="Use send_message."
            )
        receipt = await self._relay.send(
            envelope.reply_to or envelope.sender,
            _check_text(text),
            sender=me.address,
            reply_to=me.address if reply_wanted else "",
            in_reply_to=message_id,
            key=key,
        )
        return self._sent(receipt)

    async def ask_agent(
        self, caller: Caller, to: str, text: str, timeout_s: float = 60.0, key: str = ""
    ) -> AgentAnswer:
        """Send and wait for the answer. An answer that comes later is an ordinary message."""
        me = self._with_inbox(await self._active(caller))
        receiver = self.directory.resolve(to)
        if receiver.address == me.address:
            raise UsageError("you cannot wait for an answer of your own", field="to", hint="Ask another member.")
        timeout_s = min(max(timeout_s, 0.1), MAX_WAIT_S)
        finished: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        sent: SentMessage | None = None

        def on_receipt(receipt: MessageReceipt) -> None:
            if sent is None or receipt.id != sent.id or finished.done():
                return
            if receipt.answer:
                finished.set_result("")
            elif reason := no_answer_reason(receipt):
                finished.set_result(reason)

        with self.mailbox.awaited(me.address):
            unsubscribe = self._relay.subscribe(on_receipt)
            try:
                sent = await self._send(me, receiver, text, key=key)
                on_receipt(await self._relay.status(sent.id))
                await asyncio.wait((finished,), timeout=timeout_s)
            finally:
                unsubscribe()
            receipt = await self._relay.status(sent.id)
            reason = finished.result() if finished.done() else "timeout"
            finished.cancel()
            if receipt.answer:
                (answer, *_) = await self.mailbox.offer(me.address, 1, only=(receipt.answer,)) or (None,)
                if answer is not None:
                    return AgentAnswer(question=self._sent(receipt), answer=self._peer_message(answer))
                reason = "handed_over"  # by another way, just now
        details = {
            "timeout": "No answer yet. If one comes, it is delivered to you as a message.",
            "handed_over": "The answer was delivered to you as a message just now.",
        }
        detail = details.get(reason) or NO_ANSWER_TEXTS.get(reason, "")
        return AgentAnswer(question=self._sent(receipt), reason=reason, detail=detail)

    # --- receiving ---

    async def fetch_messages(self, caller: Caller, limit: int = MAX_FETCH) -> FetchedMessages:
        """The oldest unread messages, lent out: whoever hands them to the member confirms it (`confirm`), or gives them
        back (`release`)."""
        me = self._with_inbox(await self._active(caller))
        if limit > MAX_FETCH:
            raise UsageError(f"a fetch gives at most {MAX_FETCH} messages", field="limit", hint="Fetch again for more.")
        return await self.offer(me.address, limit)

    async def wait_for_messages(
        self, caller: Caller, timeout_s: float = 30.0, limit: int = MAX_FETCH
    ) -> FetchedMessages:
        """The same, as soon as there is one; without any after the timeout."""
        me = self._with_inbox(await self._active(caller))
        with self.mailbox.awaited(me.address):
            if await self.mailbox.wait(me.address, min(max(timeout_s, 0.0), MAX_WAIT_S)):
                return await self.offer(me.address, min(limit, MAX_FETCH))
        return FetchedMessages()

    async def offer(self, address: str, limit: int = MAX_FETCH) -> FetchedMessages:
        """For whoever hands messages over: a tool call, a hook, a push."""
        messages = await self.mailbox.offer(address, limit)
        return FetchedMessages(
            messages=tuple(map(self._peer_message, messages)), left=len(self.mailbox.available(address))
        )

    async def confirm(self, caller: Caller, ids: Iterable[str], *, seen: bool = False) -> None:
        """The messages really reached the member."""
        await self.mailbox.confirm(self.whoami(caller).address, ids, seen=seen)

    def release(self, caller: Caller, ids: Iterable[str]) -> None:
        """They did not: they are unread again."""
        self.mailbox.release(self.whoami(caller).address, ids)

    async def fetch_message_history(
        self, caller: Caller, with_: str = "", limit: int = 50, before: str = ""
    ) -> list[PeerMessage]:
        """Messages to the caller, and with `with_` the conversation of both, newest first. `before` is the id of the
        message to go on from, one that the caller sent or received."""
        me = await self._active(caller)
        limit = min(max(limit, 1), MAX_HISTORY)
        store = self._relay.store
        seq = (await self._own_message(me, before)).receipt.seq if before else 0
        if not with_:
            envelopes = [envelope for envelope, _ in await store.messages_to(me.address, limit, before=seq)]
        else:
            other = self.directory.resolve(with_)
            both = [
                *await store.messages_to(me.address, limit, before=seq, sender=other.address),
                *await store.messages_to(other.address, limit, before=seq, sender=me.address),
            ]
            envelopes = [envelope for envelope, _ in sorted(both, key=lambda pair: pair[1], reverse=True)][:limit]
        messages: list[PeerMessage] = []
        room = MAX_FETCH_BYTES
        for envelope in envelopes:
            room -= size_of(envelope.payload.as_text())
            if messages and room < 0:
                break  # the caller goes on with the id of the last message
            with_receipt = await self._status(envelope.id)
            if with_receipt is not None:
                messages.append(self._peer_message(Message(receipt=with_receipt, envelope=envelope)))
        return messages

    async def message_status(self, caller: Caller, message_id: str) -> SentMessage:
        """Of a message that the caller sent or received."""
        me = await self._active(caller)
        return self._sent((await self._own_message(me, message_id)).receipt)

    # --- sharing ---

    async def shared_notes(
        self,
        caller: Caller,
        action: Literal["get", "put", "list", "delete"],
        key: str = "",
        text: str = "",
        project: str = "",
    ) -> Notes:
        me = await self._active(caller)
        project = self._project(me, project)
        match action:
            case "put":
                notes = [await self.notes.put(project, key, text, me.name)]
            case "get":
                note = await self.notes.get(project, key)
                notes = [note] if note else list[Note]()
            case "delete":
                await self.notes.delete(project, key)
                notes = list[Note]()
            case "list":
                notes = await self.notes.list(project)
        return Notes(project=project, notes=tuple(notes))

    async def reserve_paths(
        self, caller: Caller, patterns: Sequence[str], ttl_s: float = TTL_S, note: str = "", project: str = ""
    ) -> PathReservation:
        me = await self._active(caller)
        return await self.path_leases.reserve(
            self._project(me, project), me.id, me.name, patterns, ttl_s=ttl_s, note=note
        )

    async def release_paths(
        self, caller: Caller, patterns: Sequence[str] = (), project: str = ""
    ) -> tuple[PathLease, ...]:
        me = await self._active(caller)
        return await self.path_leases.release(self._project(me, project), me.id, patterns)

    def _project(self, me: MemberView, project: str) -> str:
        if name := project_name(project) or me.project:
            return name
        raise UsageError(
            "it is not known which project you work on",
            field="project",
            hint="Give project, or set it with update_agent_profile.",
        )

    # --- views ---

    async def _status(self, id: str) -> MessageReceipt | None:
        try:
            return await self._relay.status(id)
        except UnknownMessage:
            return None

    async def _own_message(self, me: MemberView, id: str) -> Message:
        message = await self._relay.message(id)
        if me.address not in (message.receipt.sender, message.receipt.subject):
            self._on_refused(me.name, f"the message {id} is neither to nor from {me.name}")
            raise UnknownMessage(id)
        return message

    def _sent(self, receipt: MessageReceipt) -> SentMessage:
        at = {step.state: step.at for step in receipt.steps}
        name, id = self.directory.name_of(receipt.subject)
        member = self.directory.member(id)
        view = self.directory.view(member) if member else None
        return SentMessage(
            id=receipt.id,
            to=name,
            address=receipt.subject,
            thread=receipt.thread,
            state=receipt.state,
            reason=receipt.reason,
            answer=receipt.answer,
            receiver=view.activity if view else "unknown",
            stale=view.stale if view else False,
            injected_at=at.get("injected", 0.0),
            seen_at=at.get("seen", 0.0),
            answered_at=at.get("answered", 0.0),
        )

    def _peer_message(self, message: Message) -> PeerMessage:
        receipt, envelope = message.receipt, message.envelope
        sender, id = self.directory.name_of(receipt.sender)
        shown = PeerMessage(
            id=receipt.id,
            sender=sender,
            sender_id=id,
            to=self.directory.name_of(receipt.subject)[0],
            text=envelope.payload.as_text() if envelope else "",
            thread=receipt.thread,
            in_reply_to=envelope.in_reply_to if envelope else "",
            reply_wanted=bool(envelope and envelope.reply_to),
            sent_at=receipt.steps[0].at if receipt.steps else time.time(),
            state=receipt.state,
        )
        return replace(shown, framed=frame(shown))


def _binding(member: Member) -> SessionBinding:
    return SessionBinding(agent_id=member.id, session_id=member.session, harness=member.harness, machine=member.machine)


def _check_text(text: str) -> str:
    if not text.strip():
        raise UsageError("the message is empty", field="text")
    if (size := size_of(text)) > MAX_TEXT:
        raise UsageError(
            f"the message has {size:,} bytes as JSON, the most is {MAX_TEXT:,}",
            field="text",
            hint="A receiver takes 1 MiB at once, with what is around the text. Send the path of a file instead.",
        )
    return text
