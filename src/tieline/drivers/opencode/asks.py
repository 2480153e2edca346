"""The asks of one OpenCode conversation: from its requests to our decisions and back.

OpenCode refuses every other open request of a session when one is refused. So refusals wait until the others have
been answered; the agent waits for all of them anyway.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from ...backoff import EXACT, Backoff
from ...events import Answer, AnyAction, Ask, Choice, Command, Edit, Fetch, OtherAction, Question, Read, Status, ToolUse
from ..current_file import note_links
from ..turn_stream import Turn
from .edit_preview import preview_edit
from .events import OpenCodeNormaliser
from .policy import CAPABILITY_OF, GUARDS, Rules, denials, rule
from .server import OpenCodeError, ServerUnreachable

DEFER_S = 1.0
"""A request may come just before the tool call that it is about."""
REPLY_TRIES = 8
REPLY_BACKOFF = Backoff(0.1, 12.8, EXACT)
"""An answer that does not arrive leaves the agent waiting for ever."""

GUARD_REASONS = {
    "external_directory": "It is outside the session's directory",
    "doom_loop": "It makes the same call again and again",
}


EVERY_SCOPE = {
    "edit": "every edit",
    "bash": "every command",
    "webfetch": "every address",
    "websearch": "every web search",
}
SCOPE_NOUNS = {"bash": "commands", "external_directory": "files", "webfetch": "addresses", "edit": "edits of files"}


class AskingConversation(Protocol):
    """What the asks need of their conversation."""

    @property
    def normaliser(self) -> OpenCodeNormaliser: ...

    @property
    def rules(self) -> Rules: ...

    @property
    def current(self) -> Turn | None: ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...

    async def request(self, method: str, path: str, body: Any = None) -> Any: ...


class OpenRequest:
    """A request that OpenCode waits for."""

    def __init__(self, request: Mapping[str, Any], ask: Ask, path: str) -> None:
        self.request = request
        self.session: str = request["sessionID"]
        self.ask = ask
        self.path = path
        self.answer: Answer | None = None
        self.task: asyncio.Task[None] | None = None

    def withdraw(self, turn: Turn, outcome: str) -> None:
        if self.task is not None:
            self.task.cancel()
        turn.emit(Status("answered elsewhere", outcome))


class OpenCodeAsks:
    scope = "this session, from its next turn on"
    """Where what is remembered holds."""

    def __init__(self, talk: AskingConversation, cwd: str) -> None:
        self._conversation = talk
        self._cwd = cwd
        self._open: dict[str, OpenRequest] = {}
        self.deferred: dict[str, tuple[Mapping[str, Any], str]] = {}  # whose tool call has not shown up yet
        self.hooks: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "permission.asked": self.permission_asked,
            "permission.replied": self.replied,
            "question.asked": self.question_asked,
            "question.replied": self.replied,
            "question.rejected": self.replied,
        }

    # --- from OpenCode ---------------------------------------------------------------------------------

    def permission_asked(self, request: Mapping[str, Any]) -> None:
        self._on_request(request, "/permission")

    def question_asked(self, request: Mapping[str, Any]) -> None:
        self._on_request(request, "/question")

    def start_deferred(self) -> None:
        """Begin the asks whose tool call has shown up."""
        for name, (request, _) in list(self.deferred.items()):
            if self._use(request) is not None:
                self._start(name)

    def replied(self, properties: Mapping[str, Any]) -> None:
        """It is answered: by us, or by somebody else at the same server."""
        name, turn = properties["requestID"], self._conversation.current
        self.deferred.pop(name, None)
        each = self._open.pop(name, None)
        if each is not None and each.answer is None and turn is not None:
            allowed = properties.get("reply", "reject") != "reject" or "answers" in properties
            if not allowed and each.ask.tool:
                turn.mark_denied(each.ask.tool, "denied elsewhere")
            self.decided_elsewhere(turn, each, allowed=allowed)

    def decided_elsewhere(self, turn: Turn, each: OpenRequest, *, allowed: bool) -> None:
        each.withdraw(turn, "allowed" if allowed else "denied")

    def withdraw_except(self, waiting: set[str], path: str) -> None:
        """After a gap: the requests that OpenCode still waits for. The others were answered meanwhile."""
        turn = self._conversation.current
        for name, each in list(self._open.items()):
            if each.path == path and name not in waiting and each.answer is None and turn is not None:
                del self._open[name]
                each.withdraw(turn, "")

    def end(self, turn: Turn) -> list[asyncio.Task[None]]:
        """The turn ends: what is still open is refused by that. The tasks that are winding up."""
        self.deferred.clear()
        winding_up: list[asyncio.Task[None]] = []
        for each in self._open.values():
            if each.task is not None and not each.task.done():
                each.task.cancel()
                winding_up.append(each.task)
            if each.answer is None and each.ask.tool:
                turn.mark_denied(each.ask.tool, "the turn ended")
        self._open.clear()
        return winding_up

    # --- deciding --------------------------------------------------------------------------------------

    def _on_request(self, request: Mapping[str, Any], path: str) -> None:
        name = request["id"]
        if self._conversation.current is None or name in self._open or name in self.deferred:
            return
        self.deferred[name] = (request, path)
        if _key(request) is None or self._use(request) is not None:
            self._start(name)
        else:
            asyncio.get_running_loop().call_later(DEFER_S, self._start, name)

    def _use(self, request: Mapping[str, Any]) -> ToolUse | None:
        key = _key(request)
        return self._conversation.normaliser.tools.get(key) if key is not None else None

    def _start(self, name: str) -> None:
        request, path = self.deferred.pop(name, (None, ""))
        turn = self._conversation.current
        if request is None or turn is None:
            return
        use = self._use(request)
        ask = permission_ask(request, use, self.scope) if path == "/permission" else question_ask(request, use)
        each = self._open[name] = OpenRequest(request, ask, path)
        each.task = self._conversation.spawn(self._decide(turn, each))

    async def _decide(self, turn: Turn, each: OpenRequest) -> None:
        each.ask = await add_edit_preview(each.ask, each.request, self._use(each.request), self._cwd)
        if isinstance(each.ask.action, Edit) and each.ask.action.diff and each.ask.tool:
            self._conversation.normaliser.add_proposed_diff(each.ask.tool, each.ask.action.diff)
        answer = await turn.ask(each.ask)
        if self._open.get(each.request["id"]) is not each:  # it was decided elsewhere
            return
        each.answer = answer
        if answer.decision == "allow":
            if each.path == "/question":
                chosen = [list(answer.answers.get(question.id, ())) for question in each.ask.questions]
                await self.reply(each, "reply", {"answers": chosen})
            else:
                await self.allow(each, answer)
        await self._refuse_if_last(each.session)

    async def allow(self, each: OpenRequest, answer: Answer) -> None:
        await self.reply(each, "reply", {"reply": "once"})
        if answer.remember != "once":
            await self._remember(each)

    async def _refuse_if_last(self, session: str) -> None:
        here = [each for each in self._open.values() if each.session == session]
        if any(each.answer is None or each.answer.decision == "allow" for each in here):
            return  # an allowed one that is still here is on its way: its sender looks again
        for each in here:
            if each.answer is not None and each.answer.decision == "deny":
                if each.path == "/question":
                    await self.reply(each, "reject", None)
                else:  # with a message: without one OpenCode may end the turn there
                    message = each.answer.reason or f"denied by {each.answer.by}"
                    await self.reply(each, "reply", {"reply": "reject", "message": message})

    async def reply(self, each: OpenRequest, verb: str, body: Any) -> None:
        """Never given up easily, and done once: a request that is not there any more needs no answer."""
        name = each.request["id"]
        for failures in range(1, REPLY_TRIES + 1):
            try:
                await self._conversation.request("POST", f"{each.path}/{name}/{verb}", body)
                break
            except OpenCodeError:
                break
            except ServerUnreachable:
                await asyncio.sleep(REPLY_BACKOFF.delay(failures))
        self._open.pop(name, None)

    async def _remember(self, each: OpenRequest) -> None:
        """As a rule of this session, from its next turn on. OpenCode's own `always` would hold for every session of
        the directory, and over the denials of their policies."""
        request = each.request
        new = [rule(request["permission"], "allow", pattern) for pattern in request.get("always") or ()]
        if new:
            body = {"permission": [*new, *denials(self._conversation.rules)]}
            try:
                await self._conversation.request("PATCH", f"/session/{each.session}", body)
            except (OpenCodeError, ServerUnreachable):
                return  # it will be asked again: a nuisance, not a fault


def _key(request: Mapping[str, Any]) -> tuple[str, str] | None:
    tool = request.get("tool")
    return (tool["messageID"], tool["callID"]) if tool else None


def permission_ask(request: Mapping[str, Any], use: ToolUse | None, scope: str) -> Ask:
    name: str = request["permission"]
    metadata: Mapping[str, Any] = request.get("metadata") or {}
    patterns = ", ".join(request.get("patterns") or ())
    always = request.get("always") or ()
    reason = f"{GUARD_REASONS.get(name, name)}: {patterns}" if name in GUARDS else ""
    return Ask(
        request["id"],
        "permission",
        use.name if use is not None else name,
        reason,
        tool=use.id if use is not None else "",
        action=_action(name, metadata, patterns, use),
        input=use.input if use is not None else metadata,
        capability=CAPABILITY_OF.get(name),
        remember=("session",) if always else (),
        scopes={"session": f"{_scope(name, always)}, {scope}"} if always else {},
    )


def _scope(name: str, always: Sequence[str]) -> str:
    """What the rules permit that `_remember` makes."""
    if "*" in always:
        return EVERY_SCOPE.get(name, f"every {name}")
    return f"{SCOPE_NOUNS.get(name, name)} like {', '.join(always)}"


async def add_edit_preview(ask: Ask, request: Mapping[str, Any], use: ToolUse | None, cwd: str) -> Ask:
    """An ask about an edit, with its diff in the files as they are now."""
    if not isinstance(ask.action, Edit):
        return ask
    metadata: Mapping[str, Any] = request.get("metadata") or {}
    drawn = await preview_edit(use.name if use else "", ask.input, metadata, ask.action.paths, cwd)
    reason = " ".join(filter(None, (ask.reason, drawn.note)))
    return await note_links(replace(ask, action=drawn.edit, reason=reason, withheld=drawn.withheld), cwd)


def _action(name: str, metadata: Mapping[str, Any], patterns: str, use: ToolUse | None) -> AnyAction:
    if name in GUARDS:  # a matter of its own, not of the capability that the call falls under
        return OtherAction()
    if name == "edit":
        path = metadata.get("filepath")
        known = use.action.paths if use is not None and isinstance(use.action, Edit) else ()
        return Edit(known or ((path,) if path else ()), metadata.get("diff") or "")
    if use is not None:
        return use.action
    match name:
        case "bash":
            return Command(metadata.get("command") or patterns)
        case "webfetch":
            return Fetch(metadata.get("url") or patterns)
        case "websearch":
            return Fetch(query=metadata.get("query") or patterns)
        case "read":
            return Read(patterns)
        case _:
            return OtherAction()


def question_ask(request: Mapping[str, Any], use: ToolUse | None) -> Ask:
    questions = tuple(
        Question(
            id=str(number),
            text=each["question"],
            header=each.get("header") or "",
            choices=tuple(
                Choice(option["label"], option["label"], option.get("description") or "")
                for option in each.get("options") or ()
            ),
            many=bool(each.get("multiple")),
            free=each.get("custom", True) is not False,
        )
        for number, each in enumerate(request["questions"])
    )
    title = questions[0].text if questions else ""
    return Ask(request["id"], "question", title, tool=use.id if use is not None else "", questions=questions)
