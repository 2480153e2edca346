"""A conversation with an ACP agent: its turns, and the answers to what it asks."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from ...background_tasks import cancel_and_wait
from ...errors import AgentDied, AgentStartFailed, Unsupported, UsageError
from ...events import Answer, Ask, Error, Init, Other, Outcome, Question, Warning, needs
from ...policy import Receipt
from ...processes.async_process import Process
from ...wire.jsonrpc import Peer, PeerGone, RpcError
from ..acp_presets import Preset
from ..base import AskFn, Prompt, Spec
from ..denial_reasons import PendingReasons, refusal_message
from ..model_list import ModelList
from ..observed_features import Shown
from ..turn_stream import Turn
from .capabilities import InitializeResponse
from .events import AcpNormaliser
from .permissions import (
    CANCELLED,
    answers_response,
    asked_questions,
    consent_ask,
    consent_response,
    elicitation_response,
    is_consent,
    parse_questions,
    permission_ask,
    permission_response,
)
from .policy import lifts_policy
from .prompt import content_blocks
from .tools import AcpToolCall

TURN_S = 7 * 24 * 3600.0
"""No turn takes longer. Callers have their own, shorter limits."""
EXIT_S = 1.0
"""How long the exit status of an agent may take after its streams have closed."""
MAX_GARBAGE = 100
"""Lines that are no messages, kept for the next turn or for the error when it does not start."""
MAX_LATE = 100
"""Updates that came between two turns, kept for the next one."""
METHOD_NOT_FOUND = -32601
STEER_S = 30.0
MAX_STEERS = 100
"""What is said in the middle of a turn, kept until the agent fetches it."""
WITHDRAW_S = 1.0
"""How long the withdrawal of open asks may take before the turn is cancelled without it."""

QUIET_S = 0.1
"""An agent that has said nothing for this long has said what it had to say."""
ALL_BEGUN_S = 10.0
"""How long calls may go on to begin that an ask is about."""
OPENING_S = 1.0
"""How long an agent may take from a request for consent to an open session, if it does not wait for the answer."""

CONTENT_UPDATES = frozenset(
    {"agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "tool_call", "tool_call_update", "plan"}
)

OUTCOMES: Mapping[str, Outcome] = {
    "end_turn": "success",
    "max_turn_requests": "max_turns",
    "cancelled": "interrupted",
    "max_tokens": "error",
    "refusal": "error",
}
STOP_REASONS = {"max_tokens": "the model reached its token limit", "refusal": "the model refused to go on"}


class AcpConversation:
    def __init__(self, agent: str, preset: Preset, spec: Spec, ask: AskFn, process: Process, receipt: Receipt) -> None:
        self.agent = agent
        self.preset = preset
        self.spec = spec
        self.receipt = receipt
        self.native_id = ""
        self.model = ""
        self.initialized = InitializeResponse()
        self.offered_models = ModelList()
        self.chooses_model: bool | None = None  # whether its session offers a choice; None: it did not say
        self.notices: tuple[Warning, ...] = ()  # for the first turn
        self.session_meta = preset.session_meta
        self.unverified: tuple[str, ...] = ()  # what was asked for, and nobody has seen it do
        self.updates_seen = 0  # session updates so far
        self._ask = ask
        self.process = process
        self._peer: Peer | None = None
        self._normaliser = AcpNormaliser(preset, spec.cwd, resumed=bool(spec.resume))
        self._turn: Turn | None = None
        self._turn_began = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._open_asks: dict[str, asyncio.Task[Answer]] = {}
        self._ask_count = 0
        self._pending_reasons = PendingReasons()  # ACP's answers have no place for a reason
        self._cancelling: asyncio.Task[None] | None = None
        self._steers: list[str] = []  # waiting for the agent to fetch them
        self._refused_consents: list[str] = []  # before the first turn
        self._turns = 0
        self._garbage_lines: list[str] = []
        self._late_updates: list[dict[str, Any]] = []
        self.ready = asyncio.Event()  # the session is open, whatever was replayed has passed

    def set_initialized(self, peer: Peer, offered: InitializeResponse) -> None:
        """The agent has introduced itself."""
        self._peer = peer
        self.initialized = offered

    def start_failed(self, reason: str) -> AgentStartFailed:
        status = self.process.returncode
        how = f"it exited with status {status}" if status is not None else reason or "it does not answer"
        output = self.process.stderr.strip() or "\n".join(self._garbage_lines)
        hint = f"Its last output: {output[-2000:]}" if output else ""
        if status is None and self.spec.mcp_servers:
            hint = f"It may be waiting for an MCP server ({', '.join(self.spec.mcp_servers)}). {hint}".strip()
        return AgentStartFailed(self.agent, how, hint=hint)

    # --- turns -----------------------------------------------------------------------------------------

    def turn(self, prompt: Prompt) -> Turn:
        system = self.spec.system if self._turns == 0 else ""
        if command := lifts_policy(self.preset, self.spec.policy, prompt.text):
            hint = "Open a session with the policy that you want."
            raise UsageError(
                f"{command} would disable what enforces the policy on {self.agent}", field="prompt", hint=hint
            )
        blocks = content_blocks(self.agent, self._pending_reasons.prepend_to(prompt), self.initialized, system)
        turn = self._turn = Turn(prompt, self._ask)
        self._normaliser.begin(turn.emit)
        self._turn_began.set()
        self._task = asyncio.create_task(self._run(turn, blocks))
        return turn

    @property
    def shown(self) -> set[Shown]:
        """Features that were seen in this conversation."""
        return self._normaliser.shown if self.spec.mcp_servers else self._normaliser.shown - {"mcp_servers"}

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    async def interrupt(self) -> None:
        turn = self._turn
        if turn is None or turn.ended:
            return
        turn.interrupt(self.process.kill)
        for task in self._open_asks.values():
            task.cancel()
        # A task of its own: who interrupts may be the very one whose decision is withdrawn by it.
        self._cancelling = asyncio.create_task(self._cancel())
        await asyncio.shield(self._cancelling)

    async def _cancel(self) -> None:
        """Several agents go on waiting for an answer that has not come before the cancel."""
        if self._peer is not None:
            await self._peer.wait_responded(WITHDRAW_S)
            with suppress(PeerGone):  # then the turn ends by itself
                await self._peer.notify("session/cancel", {"sessionId": self.native_id})

    async def drain(self) -> None:
        """Wait until the reader of the turn is not too far behind."""
        if self._turn is not None:
            await self._turn.drain()

    async def steer(self, text: str) -> None:
        how = self.preset.traits.steering
        if how == "none":
            raise Unsupported(self.agent, "steer")
        if self._turn is None or self._turn.ended or self._peer is None:
            raise UsageError("no turn is running", field="steer", hint="Send it as the next prompt.")
        if how == "drained":
            if len(self._steers) >= MAX_STEERS:
                raise UsageError(f"{self.agent} has not read your previous message yet", field="steer")
            self._steers.append(text)
            return
        # Where the turn has ended meanwhile, the agent must not begin one of its own.
        ours = {"steering": {"idleBehavior": "promptRequired"}}
        words = {"sessionId": self.native_id, "prompt": [{"type": "text", "text": text}], "_meta": ours}
        try:
            result: Any = await self._peer.request("_session/steering", words, timeout=STEER_S)
            outcome = result.get("outcome") if isinstance(result, dict) else result  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            refusal = "" if outcome == "injected" else f"it answered {outcome!r}"
        except (RpcError, PeerGone, TimeoutError) as error:
            refusal = str(error) or "it does not answer"
        if refusal:
            raise UsageError(f"{self.agent}: {refusal}", field="steer", hint="Send it as the next prompt.")

    async def close(self) -> None:
        for task in (self._task, self._cancelling, *self._open_asks.values()):
            if task is not None:
                await cancel_and_wait(task)
        if self._turn is not None:
            self._turn.done("interrupted", native_id=self.native_id)

    async def _run(self, turn: Turn, blocks: list[dict[str, Any]]) -> None:
        self._turns += 1
        if self._turns == 1:
            commands = self._normaliser.commands
            turn.emit(
                Init(
                    self.agent,
                    self.native_id,
                    self.spec.cwd,
                    self.model,
                    self.initialized.version,
                    commands=commands,
                    receipt=self.receipt,
                )
            )
            if self.unverified:
                what = ", ".join(self.unverified)
                turn.emit(Warning(f"unverified: {what}. {self.agent} did not report whether it applied it"))
            for notice in self.notices:
                turn.emit(notice)
            for title in self._refused_consents:
                turn.emit(Warning(f"refused at the start of {self.agent}: {title}. Only a person may grant it"))
        for line in self._garbage_lines:
            turn.emit(Other(line, "stdout"))
        self._garbage_lines.clear()
        for update in self._late_updates:
            try:
                self._normaliser.feed(update)
            except Exception:  # of a shape we do not know
                turn.emit(Other(update, "session/update"))
        self._late_updates.clear()
        if turn.interrupted:  # before the agent heard of it
            turn.done("interrupted", native_id=self.native_id)
            return
        assert self._peer is not None
        prompt = {"sessionId": self.native_id, "prompt": blocks}
        try:
            self._complete_turn(turn, await self._peer.request("session/prompt", prompt, timeout=TURN_S))
        except RpcError as error:
            self._normaliser.end()
            turn.fail(_error_text(error), code=str(error.code), native_id=self.native_id)
        except (PeerGone, TimeoutError):
            await self._fail_turn(turn)
        except Exception as error:  # an answer of a shape we do not know must not leave the reader waiting
            turn.fail(f"{type(error).__name__}: {error}", native_id=self.native_id)

    def _complete_turn(self, turn: Turn, result: Mapping[str, Any]) -> None:
        """End the turn. In version 1 of the protocol the prompt's response says that it is over, in version 2 another
        message will: so only this method knows about the end."""
        normaliser = self._normaliser
        normaliser.end()
        reason = code = result.get("stopReason", "")
        tokens = normaliser.tokens(result)
        status = OUTCOMES.get(reason, "error")
        error = STOP_REASONS.get(reason, f"it stopped: {reason}") if status == "error" else ""
        denied = normaliser.denied if status == "success" else normaliser.any_denied if status == "interrupted" else ""
        if denied:  # the agent may call it a success or an interruption; it is neither
            status, error, code = "error", f"the agent ended the turn because this was denied: {denied}", "denied"
        elif status == "success" and normaliser.unanswered:
            status, error = "error", "the agent ended the turn without an answer"
        elif status == "success" and normaliser.reported_error:
            status, error, code = "error", normaliser.reported_error, "agent"
        if error and not turn.interrupted:
            turn.emit(Error(error, code))
        self._keep_unheard(turn)
        usage = normaliser.usage_of(tokens)
        if usage == "complete" and (status == "interrupted" or normaliser.reported_error):
            usage = "partial"  # the model call that was broken off, or that failed, did not report its cost
        turn.done(status, error=error, tokens=tokens, usage=usage, native_id=self.native_id)

    def _keep_unheard(self, turn: Turn) -> None:
        """What the agent did not fetch in this turn goes before the next prompt."""
        for text in self._steers:
            turn.emit(Warning(f"too late for this turn; it is sent with the next prompt: {text}"))
            self._pending_reasons.add(f"[Said during the turn before: {text}]")
        self._steers.clear()

    async def _fail_turn(self, turn: Turn) -> None:
        await self.process.wait(EXIT_S)
        died = AgentDied(self.agent, self.process.returncode, self.process.stderr)
        self._normaliser.end()
        again = f"Open the session again with resume={self.native_id!r}." if self.preset.features.resume else ""
        turn.fail("\n  ".join(filter(None, (str(died), again))), code="died", native_id=self.native_id)

    # --- what the agent says (wire.jsonrpc.Handler) ----------------------------------------------------

    def notified(self, method: str, params: dict[str, Any]) -> None:
        if method == "session/update":
            self.updates_seen += 1
            if self._turn is None or self._turn.ended:
                self._on_late_update(params["update"])
                return
            if params.get("sessionId") == self.native_id:
                self._normaliser.feed(params["update"])
                if (unasked := self._normaliser.take_unasked()) is not None:
                    self._end_unasked(self._turn, unasked)
                return
        if self._turn is not None:
            self._turn.emit(Other({"method": method, "params": params}, method))

    def _on_late_update(self, update: dict[str, Any]) -> None:
        """Content belongs to a turn that is over, or is the replayed history of a session; the rest waits for the
        next turn."""
        kind = update.get("sessionUpdate")
        if kind == "available_commands_update":
            self._normaliser.feed(update)
        elif self.ready.is_set() and kind not in CONTENT_UPDATES and len(self._late_updates) < MAX_LATE:
            self._late_updates.append(update)

    def garbage(self, line: bytes) -> None:
        text = line.decode(errors="replace")
        if self._turn is not None and not self._turn.ended:
            self._turn.emit(Other(text, "stdout"))
        elif len(self._garbage_lines) < MAX_GARBAGE:
            self._garbage_lines.append(text)

    def gone(self, reason: str) -> None:
        pass  # every request of ours hears of it

    async def requested(self, method: str, params: dict[str, Any]) -> Any:
        turn = self._turn
        if method == "session/request_permission":
            if is_consent(self.preset.traits, params):
                return await self._consent(turn, params)
            if turn is not None and (questions := asked_questions(self.preset.traits, params)):
                return await self._answers(turn, params, questions)
            if turn is None or turn.ended:
                return CANCELLED
            try:
                return await self._permission(turn, params)
            except TimeoutError:
                turn.emit(Warning(f"denied: {self.agent} does not come to an end with the calls that it asks about"))
                return CANCELLED
        if method == "craft/drainMidTurnQueue" and self.preset.traits.steering == "drained":
            messages, self._steers = self._steers, []
            return {"messages": messages}
        if method == "elicitation/create" and turn is not None and params.get("mode", "form") == "form":
            return await self._question(turn, params)
        if method == "fs/write_text_file" and self.preset.sends_writes:
            return {}
        if turn is not None:
            turn.emit(Other({"method": method, "params": params}, method))
        raise RpcError(method, METHOD_NOT_FOUND, f"{method} is not offered")

    async def _permission(self, turn: Turn, params: Mapping[str, Any]) -> Any:
        """Where one answer is for several calls, they are asked about one after the other, and go together; so are
        those that begin meanwhile."""
        tools: list[AcpToolCall] = []
        answer: Answer | None = None
        while (answer is None or answer.decision == "allow") and (begun := await self._asked_about(params, tools)):
            tools += begun
            for tool in begun:
                action = self._normaliser.action(tool)
                request = await permission_ask(self._next_ask_id(), tool, action, params, self.preset, self.spec.cwd)
                answer = None if turn.interrupted else await self._decide(turn, request)
                if answer is None:
                    self._refuse(tools, "the turn was interrupted")
                    return CANCELLED
                if answer.decision == "deny":
                    self._refuse(tools, answer.reason or f"denied by {answer.by}")
                    self._pending_reasons.add(refusal_message(request, answer))
                    break
        assert answer is not None
        if answer.decision == "allow" and self.preset.traits.asks_together:
            self._normaliser.allowed_together(tools)
        options: list[Mapping[str, Any]] = params.get("options") or []
        preferred = self.preset.traits.preferred_options
        return permission_response(options, answer, lasting=self.preset.supports_always, preferred=preferred)

    async def _asked_about(self, params: Mapping[str, Any], known: list[AcpToolCall]) -> list[AcpToolCall]:
        """The calls of an ask, beside those that are known. An agent that names none tells of them when it gets to it,
        also after the ask."""
        if not self.preset.traits.asks_together:
            return [] if known else [self._normaliser.permission_requested(params)]
        await self.wait_until_quiet(ALL_BEGUN_S)
        return [tool for tool in self._normaliser.calls_asked_about(params) if tool not in known]

    async def wait_until_quiet(self, limit: float) -> None:
        """Wait until the agent has told what it is about to tell. Raises TimeoutError."""
        async with asyncio.timeout(limit):
            seen = -1
            while seen != self.updates_seen:
                seen = self.updates_seen
                await self.drain()  # nothing is read of an agent whose events nobody reads
                await asyncio.sleep(QUIET_S)

    def _end_unasked(self, turn: Turn, tool: AcpToolCall) -> None:
        """A call runs on the answer to others. Where the policy does not allow it anyway, nothing but the agent's end
        keeps it, or the next one, from what it does."""
        capability = needs(self._normaliser.action(tool))
        if capability is None or self.spec.policy.level(capability) != "allow":
            message = f"{self.agent} was ended: it did not ask about this call: {tool.title}"
            turn.fail(message, code="denied", native_id=self.native_id)
            self.process.kill()

    def _refuse(self, tools: Iterable[AcpToolCall], reason: str) -> None:
        for tool in tools:
            self._normaliser.refuse(tool, reason)

    async def _consent(self, turn: Turn | None, params: Mapping[str, Any]) -> Any:
        request = consent_ask(self._next_ask_id(), params)
        if turn is None or turn.ended:
            turn = await self._next_turn()
        if turn is None:
            self._refused_consents.append(request.title)
            return consent_response(params, Answer(request.id, "deny"))
        return consent_response(params, await self._decide(turn, request))

    async def _next_turn(self) -> Turn | None:
        """The turn in which somebody can be asked. None: there is no session, because the agent waits for an answer."""
        self._turn_began.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.ready.wait(), OPENING_S)
        if not self.ready.is_set():
            return None
        await self._turn_began.wait()
        return self._turn

    async def _question(self, turn: Turn, params: Mapping[str, Any]) -> Any:
        questions = parse_questions(params, self.preset.traits)
        title = str(params.get("message", ""))
        self._normaliser.shown.add("questions")
        request = Ask(self._next_ask_id(), "question", title, questions=questions)
        answer = await self._decide(turn, request)
        if answer is not None:
            self._pending_reasons.add(refusal_message(request, answer))
        return elicitation_response(params, answer, self.preset.traits)

    async def _answers(self, turn: Turn, params: Mapping[str, Any], questions: tuple[Question, ...]) -> Any:
        """Questions that come as a request for permission."""
        tool = self._normaliser.permission_requested(params)
        self._normaliser.shown.add("questions")
        request = Ask(self._next_ask_id(), "question", tool.title, questions=questions)
        answer = await self._decide(turn, request)
        if answer is None or answer.decision == "deny":
            self._normaliser.refuse(tool, answer.reason if answer else "the turn was interrupted")
        if answer is not None:
            self._pending_reasons.add(refusal_message(request, answer))
        return answers_response(params, answer)

    def _next_ask_id(self) -> str:
        self._ask_count += 1
        return f"ask-{self._ask_count}"

    async def _decide(self, turn: Turn, request: Ask) -> Answer | None:
        """The answer; None when the turn was interrupted before there was one."""
        task = asyncio.ensure_future(turn.ask(request))
        self._open_asks[request.id] = task
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():  # it is us who are being cancelled
                task.cancel()
                raise
            return None
        finally:
            self._open_asks.pop(request.id, None)


def _error_text(error: RpcError) -> str:
    """Vendors' errors come wrapped: JSON inside the message, or the reason in the data."""
    message = error.message
    if message.startswith("{"):
        with suppress(msgspec.DecodeError):
            inner: Any = msgspec.json.decode(message)
            message = str((inner.get("error") or inner).get("message") or message)
    details = error_details(error)
    return f"{message}: {details}" if details else message


def error_details(error: RpcError) -> str:
    data: Any = error.data
    return str(data.get("details") or data.get("message") or "") if isinstance(data, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
