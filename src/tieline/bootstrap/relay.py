"""Puts together the relay of a hub: messages reach the sessions of every node through the hub's dispatcher, asks reach
the channels through which people decide, and the channels of the configuration run."""

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager

import msgspec

from .. import paths
from ..ask_parts import ask_parts, parts_text, scope_of
from ..bus.base import Bus
from ..channels.base import AskNote, ChannelContext, SessionNodeOffline, SessionRequest
from ..drivers.base import Attachment
from ..errors import TielineError, UsageError, kind_of
from ..events import Answer, Command, Edit, Fetch, Mcp, Remember
from ..hub.hub import Hub
from ..hub.nodes.command_helpers import check_worktrees, get_ask, node_of_session
from ..ids import new_id
from ..policy import Policy
from ..protocol.commands import (
    AbortSession,
    AnyCommand,
    ApprovePermission,
    CancelPrompt,
    ChangeSession,
    CommandRefused,
    CreateSession,
    DenyPermission,
    RemoveUnusedWorktree,
    SendPrompt,
    refusal_of,
)
from ..protocol.stream_frames import AnyHubFrame, AskFrame
from ..protocol.views import CommandView
from ..relay import Relay
from ..relay.channel_plugins.channel_reports import Changes
from ..relay.channel_plugins.reload import ChannelSet
from ..sessions.prompt_queue import prompt_key
from ..sessions.records import PROMPTS, AskRecord, PromptRecord, SessionRecord
from ..sessions.safe_git import GitFailed

TELL_S = 30.0
"""A command of the relay is of no use later: the message itself is kept and delivered again."""
MAX_CONTENT = 60_000
"""Characters of an ask in a message; how many more there are is told, and then it cannot be allowed from there."""
BY = "relay"
NOT_TRUSTED = "a channel uses code that is not trusted yet"

_prompt = msgspec.json.Decoder(PromptRecord).decode


@asynccontextmanager
async def open_relay(hub: Hub, *, watch: bool = True, wait: bool = True) -> AsyncGenerator[Relay, None]:
    """The hub's relay and channels, inside the block. Without `wait`, channels that take their time start behind."""
    context = ChannelContext(
        env=hub.env,
        state_dir=str(paths.state(hub.env) / "channels"),
        public_url=hub.config.hub.public_url,
        sessions=HubSessions(hub),
        asks=HubAsks(hub),
    )

    started = False

    def report_changes(changes: Changes) -> None:
        nonlocal started
        fields = {name: value for name in changes.__struct_fields__ if (value := getattr(changes, name))}
        fields.pop("unchanged", None)
        if fields:
            (hub.log.warning if changes.problem or changes.broken or changes.untrusted else hub.log.info)(
                "channels", **fields
            )
        for report in channels.reports():
            if report.id in changes.broken:
                hub.log.warning("channel is broken", channel=report.id, problem=report.problem)
            elif report.id in changes.untrusted:
                hub.audit.record("refusal", "", "the configuration", why=NOT_TRUSTED, channel=report.problem)
        if not started:  # later reloads are recorded with the person who agreed
            started = True
            for words in changes.trusted:
                hub.audit.record("code", "", "the first start", trusted=words)

    async with Relay(hub.bus, hub.config) as relay:
        relay.on_schedule_failed = lambda id, why: hub.log.warning("schedule not sent", schedule=id, problem=why)
        channels = ChannelSet(relay, hub.config, context, watch=watch, wait=wait, on_change=report_changes)
        async with channels:
            if wait:
                report_changes(Changes(broken=tuple(each.id for each in channels.reports() if each.state == "broken")))
            hub.relay, hub.channels = relay, channels
            try:
                yield relay
            finally:
                hub.relay = hub.channels = None


class HubSessions:
    """Sessions of every node, by commands to it (`channels.base.SessionService`)."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    @property
    def bus(self) -> Bus:
        return self._hub.bus

    async def create(self, session: str, wanted: SessionRequest) -> None:
        node = wanted.node or self._hub.dispatcher.local
        if not node:
            raise UsageError("the hub has no local node", field="node", hint="Set `node` in the channel's config.")
        if wanted.worktree:
            check_worktrees(await self._hub.nodes.get(node))
        await self._tell(
            node,
            CreateSession(
                session=session,
                agent=wanted.agent,
                cwd=wanted.cwd,
                title=wanted.title,
                team=wanted.team,
                resume=wanted.fork_of,
                fork=bool(wanted.fork_of),
                worktree=wanted.worktree,
                branch=wanted.branch,
                **wanted.agent_options(),
            ),
        )

    async def prompt(
        self,
        session: str,
        prompt: str,
        text: str,
        *,
        attachments: tuple[Attachment, ...] = (),
        system: str = "",
        timeout_s: float | None = None,
        by: str = "",
    ) -> None:
        command = SendPrompt(
            session=session, prompt=prompt, text=text, attachments=attachments, timeout_s=timeout_s, system=system
        )
        await self._tell(await node_of_session(self._hub, session), command, by=by)

    async def change_policy(self, session: str, policy: Policy) -> None:
        await self._tell(await node_of_session(self._hub, session), ChangeSession(session=session, policy=policy))

    async def remove_unused_worktree(self, session: str) -> None:
        await self._tell(await node_of_session(self._hub, session), RemoveUnusedWorktree(session=session))

    async def withdraw(self, session: str, prompt: str) -> None:
        node = await node_of_session(self._hub, session)
        status = await self._status(session, prompt)
        if status not in ("", "running"):
            try:
                await self._tell(node, CancelPrompt(session=session, prompt=prompt))
                return
            except UsageError:  # it began just now, or ended
                status = await self._status(session, prompt)
        if status:
            await self._tell(node, AbortSession(session=session))

    async def _status(self, session: str, prompt: str) -> str:
        """Empty: it is over, or was never there."""
        entry = await self._hub.bus.table(PROMPTS).get(prompt_key(session, prompt))
        record = _prompt(entry.value) if entry is not None else None
        return record.status if record is not None and not record.over else ""

    async def _tell(self, node: str, command: AnyCommand, *, by: str = "") -> None:
        known = self._hub.state.nodes.get(node)
        if known is not None and not known.online and node != self._hub.dispatcher.local:
            raise SessionNodeOffline(node)
        with _final_as_usage():
            outcome = await self._hub.dispatcher.dispatch(node, command, by=by or BY, id=new_id(), expires_s=TELL_S)
        if isinstance(outcome, CommandView):
            raise SessionNodeOffline(node)


class HubAsks:
    """The asks of every node (`channels.base.Asks`)."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def subscribe(self, callback: Callable[[AskNote], None]) -> Callable[[], None]:
        def on_frame(frame: AnyHubFrame) -> None:
            if isinstance(frame, AskFrame):
                callback(self._note(frame.ask))

        unsubscribe = self._hub.state.subscribe(on_frame)
        for record in list(self._hub.state.asks.values()):
            callback(self._note(record))
        return unsubscribe

    async def decide(self, ask: str, *, allow: bool, digest: str, by: str, remember: Remember = "once") -> str:
        record = await get_ask(self._hub, ask)
        if record.ask.kind == "question":
            raise UsageError("a question needs a text answer", field="ask", hint="Answer it on the page.")
        answer = Answer(ask=ask, decision="allow" if allow else "deny", by=by, remember=remember)
        kind = ApprovePermission if allow else DenyPermission
        command = kind(session=record.session, ask=ask, answer=answer, digest=digest)
        outcome = await self._hub.dispatcher.dispatch(
            await node_of_session(self._hub, record.session), command, by=by, id=new_id()
        )
        if isinstance(outcome, CommandView):
            return "Its machine is away; it is decided when it is back."
        return "Approved." if allow else "Denied."

    def _note(self, record: AskRecord) -> AskNote:
        return ask_note(record, self._hub.state.sessions.get(record.session))


def ask_note(record: AskRecord, session: SessionRecord | None) -> AskNote:
    """An ask as channels are told of it."""
    outcome = ""
    answer = record.answer
    if answer is not None and answer.by == "restart" and answer.decision == "deny":
        outcome = f"Denied: {answer.reason}"
    elif record.status == "answered" and answer is not None:
        outcome = ("Approved" if answer.decision == "allow" else "Denied") + f" by {answer.by}"
    elif record.status != "pending":
        outcome = record.status.capitalize()
    content = parts_text(record.parts or ask_parts(record.ask))
    return AskNote(
        id=record.id,
        session=record.session,
        kind=record.ask.kind,
        title=_wants(record),
        agent=session.agent if session else "",
        place=session.cwd if session else "",
        content=content[:MAX_CONTENT],
        missing=max(0, len(content) - MAX_CONTENT),
        withheld=record.ask.withheld,
        at_terminal=record.ask.at_terminal,
        offers={level: scope_of(record.ask, level) for level in record.ask.remember},
        digest=record.digest,
        status=record.status,
        outcome=outcome,
    )


def _wants(record: AskRecord) -> str:
    """What is wanted, without what exactly."""
    match record.ask.kind, record.ask.action:
        case "question", _:
            return "it has a question"
        case "plan", _:
            return "it has a plan"
        case _, Command():
            return "may it run a command?"
        case _, Edit():
            return "may it change files?"
        case _, Fetch():
            return "may it use the network?"
        case _, Mcp():
            return "may it use a tool of another program?"
        case _:
            return "may it use a tool?"


@contextmanager
def _final_as_usage() -> Generator[None]:
    """What is refused for good is a UsageError; after any other error the command is sent again."""
    try:
        yield
    except UsageError:
        raise
    except TielineError as error:
        if _is_final(error):
            raise UsageError(error.message, field=refusal_of(error).field, hint=error.hint) from error
        raise


def _is_final(error: TielineError) -> bool:
    """Any other may pass: a node whose bus is away, a failure that nobody foresaw, a name that we do not know."""
    if isinstance(error, CommandRefused):
        kind = kind_of(error.code)
        return error.code == GitFailed.__name__ or (kind is not None and issubclass(kind, UsageError))
    return isinstance(error, GitFailed)  # a repository does not become another by waiting
