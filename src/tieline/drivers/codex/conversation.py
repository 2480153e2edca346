"""One conversation with Codex: a thread of its server, and those of its subagents."""

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any

from ...background_tasks import cancel_and_wait
from ...errors import AgentDied, UsageError
from ...events import Answer, Error, Event, Init, Other, Warning
from ...policy import Receipt
from ...wire.jsonrpc import PeerGone, RpcError
from ..base import AskFn, Prompt, Spec
from ..current_file import note_links
from ..denial_reasons import PendingReasons, refusal_message
from ..turn_stream import Turn
from .asks import parse_request
from .events import SOURCE, CodexNormaliser
from .items import turn_outcome
from .policy import CodexControls
from .rollout_file import RolloutFile
from .server import START_S, CodexServer
from .thread_params import content, developer_message, opening_request
from .usage import CodexUsageMeter

REQUEST_S = 60.0
"""Codex answers requests about a turn at once; the turn itself is told in notifications."""
LEAVE_S = 2.0
"""When a conversation leaves a server that others use: the time to tell it so."""
MAX_HELD = 100
"""Events that come while no turn runs; the next turn begins with them."""


class CodexConversation:
    def __init__(
        self,
        server: CodexServer,
        spec: Spec,
        ask: AskFn,
        *,
        agent: str,
        receipt: Receipt,
        controls: CodexControls,
        config: Mapping[str, Any],
    ) -> None:
        self.receipt = receipt
        self.native_id = ""
        self._agent = agent
        self._server = server
        self._spec = spec
        self._ask = ask
        self._controls = controls
        self._config = config
        self._init: Init | None = None
        self._turn: Turn | None = None
        self._turn_id = ""
        self._began = asyncio.Event()
        self._foreign_turn: Mapping[str, Any] | None = None
        self._held_events: list[Event] = []
        self._meter = CodexUsageMeter()
        self._pending_reasons = PendingReasons()
        self._main = CodexNormaliser(
            self._hold,
            started=self._on_turn_started,
            ended=self._on_turn_ended,
            spawned=self._on_subagent,
            meter=self._meter,
            cwd=spec.cwd,
        )
        self._threads: dict[str, CodexNormaliser] = {}
        self._rollout: RolloutFile | None = None
        self._ask_tasks: set[asyncio.Task[Any]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        spec, server = self._spec, self._server
        method, params = opening_request(spec, self._controls, self._config)
        if method == "thread/resume" and server.claimed(spec.resume):
            raise UsageError(f"the conversation {spec.resume} is open already", field="resume")
        opening = asyncio.create_task(server.peer.request(method, params, timeout=START_S))
        try:
            await server.ready()
            opened = await opening
        except RpcError as error:
            if spec.resume and ("no rollout" in error.message or "invalid thread id" in error.message):
                raise UsageError(
                    f"codex has no conversation {spec.resume}",
                    field="resume",
                    hint="It may be in another CODEX_HOME, or deleted.",
                ) from None
            raise await server.failed(error) from None
        except (PeerGone, TimeoutError) as error:
            raise await server.failed(error) from None
        finally:
            await cancel_and_wait(opening)
        thread = opened["thread"]
        self.native_id = thread["id"]
        self._threads[self.native_id] = self._main
        version = thread.get("cliVersion") or ""
        self._init = Init(self._agent, self.native_id, spec.cwd, opened["model"], version, receipt=self.receipt)
        if spec.resume:
            if path := thread.get("path"):
                self._rollout = RolloutFile(path)
            if spec.system:  # a thread keeps the instructions it began with; these are added to them
                await self._request("thread/inject_items", items=[developer_message(spec.system)])
        server.claim(self.native_id, self)

    async def close(self, *, last: bool) -> None:
        self._server.release(self)
        self._withdraw_asks()
        if self._turn is not None and not self._turn.ended:
            self._turn.done("interrupted", native_id=self.native_id)
        if self.native_id and not last and not self._server.unusable:
            with suppress(RpcError, PeerGone, TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    if self._turn_id:
                        await self._request("turn/interrupt", turnId=self._turn_id)
                    await self._request("thread/unsubscribe")
        await cancel_and_wait(*self._tasks)

    # --- turns -----------------------------------------------------------------------------------------

    def turn(self, prompt: Prompt) -> Turn:
        turn = self._turn = Turn(prompt, self._ask)
        if self._server.death is not None:
            turn.fail(f"{self._server.death}\n  Open it again with resume={self.native_id}.", native_id=self.native_id)
            return turn
        self._turn_id = ""
        self._began.clear()
        self._meter.start_turn()
        if self._init is not None:
            turn.emit(self._init)
            self._init = None
        for event in self._held_events:
            turn.emit(event)
        self._held_events.clear()
        for normaliser in self._threads.values():
            normaliser.emit = turn.emit
        self._spawn(self._start(turn))
        return turn

    @property
    def alive(self) -> bool:
        return not self._server.unusable

    async def interrupt(self) -> None:
        if self._turn is not None and not self._turn.ended and not self._turn.interrupted:
            self._turn.interrupt(self._server.kill)
            self._withdraw_asks()
            if self._turn_id:  # else as soon as it is known
                self._spawn(self._request("turn/interrupt", turnId=self._turn_id))

    async def steer(self, text: str) -> None:
        turn = self._turn
        if turn is None or turn.ended:
            raise UsageError("no turn is running", field="steer", hint="Send it as the next prompt.")
        async with asyncio.timeout(REQUEST_S):
            await self._began.wait()
        try:
            await self._request("turn/steer", expectedTurnId=self._turn_id, input=[{"type": "text", "text": text}])
        except RpcError as error:
            raise UsageError(f"codex: {error.message}", field="steer", hint="Send it as the next prompt.") from None
        except PeerGone:
            raise self._server.death or AgentDied(self._agent, None) from None

    async def _start(self, turn: Turn) -> None:
        more = {"sandboxPolicy": policy} if (policy := self._controls.turn_sandbox) else {}
        try:
            if turn.prompt.system:
                await self._request("thread/inject_items", items=[developer_message(turn.prompt.system)])
            response = await self._request(
                "turn/start", input=content(self._pending_reasons.prepend_to(turn.prompt)), **more
            )
            self._adopt_turn(turn, response["turn"]["id"])
        except RpcError as error:
            turn.fail(error.message, code=str(error.code), native_id=self.native_id)
        except TimeoutError:
            turn.fail(f"Codex did not accept the prompt within {REQUEST_S:g} s", native_id=self.native_id)

    def _on_turn_started(self, turn_id: str) -> None:
        if self._turn is None or self._turn.ended:
            return
        self._turn_id = turn_id
        self._began.set()
        if self._turn.interrupted:
            self._spawn(self._request("turn/interrupt", turnId=turn_id))

    def _adopt_turn(self, turn: Turn, turn_id: str) -> None:
        """Codex may have been at work by itself (on a goal): then the prompt joins that turn, which began before."""
        if not turn.ended and not self._turn_id:
            self._on_turn_started(turn_id)
            if self._foreign_turn is not None and self._foreign_turn["id"] == turn_id:
                self._on_turn_ended(self._foreign_turn)

    def _on_turn_ended(self, ended_turn: Mapping[str, Any]) -> None:
        turn = self._turn
        if turn is None or turn.ended or ended_turn["id"] != self._turn_id:
            self._foreign_turn = ended_turn  # a turn that we gave up, or that the agent began itself
            return
        self._read_rollout()
        self._withdraw_asks()
        status, message, code = turn_outcome(ended_turn)
        if status in ("error", "max_budget") and not self._main.failure:
            turn.emit(Error(message or "the turn failed", code))
        tokens = self._meter.tokens if status == "success" else None
        turn.done(
            status,
            error=message,
            tokens=tokens,
            native_id=self.native_id,
            turns=self._meter.calls or None,
        )
        self._turn_id = ""
        for normaliser in self._threads.values():
            normaliser.emit = self._hold

    # --- what the server says --------------------------------------------------------------------------

    def notified(self, thread: str, method: str, params: dict[str, Any]) -> None:
        self._threads.get(thread, self._main).feed(method, params)

    async def requested(self, thread: str, method: str, params: dict[str, Any]) -> Any:
        self._read_rollout()
        normaliser = self._threads.get(thread, self._main)
        try:
            parsed_request = parse_request(method, params, normaliser, self._spec.policy)
        except (LookupError, TypeError, AttributeError):
            parsed_request = None  # another version of Codex has another shape
        if parsed_request is None:
            normaliser.emit(Other({"method": method, "params": params}, SOURCE))
            normaliser.emit(Warning(f"Codex asked for {method}, which Tieline does not know; it was refused"))
            raise RpcError(method, -32601, "this client does not support it")
        ask, respond = parsed_request
        normaliser.show_call(ask.tool)
        turn = self._turn
        if turn is None:
            return respond(Answer(ask.id, "deny", by="turn-end"))
        task = asyncio.current_task()
        assert task is not None
        self._ask_tasks.add(task)
        try:
            ask = await note_links(ask, normaliser.cwd)
            answer = await turn.ask(ask)
            if reason := refusal_message(ask, answer):
                await self._send_reason(reason, thread, params.get("turnId"))
            return respond(answer)
        finally:
            self._ask_tasks.discard(task)

    async def _send_reason(self, reason: str, thread: str, turn: str | None) -> None:
        """A refusal has no place for its reason: that is said before, so that the model hears both at once."""
        try:
            await self._request("turn/steer", threadId=thread, expectedTurnId=turn, input=content(Prompt(reason)))
        except (RpcError, PeerGone, TimeoutError):
            self._pending_reasons.add(reason)

    def unreadable(self, line: str) -> None:
        self._main.emit(Other(line, SOURCE))

    def died(self, error: AgentDied) -> None:
        self._withdraw_asks()
        if self._turn is not None and not self._turn.ended:
            self._turn.fail(str(error), native_id=self.native_id)

    # --- inside ----------------------------------------------------------------------------------------

    def _on_subagent(self, thread: str, tool: str) -> None:
        if thread not in self._threads:
            self._threads[thread] = CodexNormaliser(
                self._main.emit, spawned=self._on_subagent, meter=self._meter, parent=tool, cwd=self._spec.cwd
            )
            self._server.claim(thread, self)

    def _read_rollout(self) -> None:
        """Tool calls of a resumed thread, which sends none."""
        if self._rollout is not None:
            for item in self._rollout.read_new():
                self._main.feed("rawResponseItem/completed", {"item": item})

    def _hold(self, event: Event) -> None:
        if isinstance(event, Error):  # not the next turn's
            event = Warning(event.message)
        if len(self._held_events) < MAX_HELD:
            self._held_events.append(event)

    def _withdraw_asks(self) -> None:
        """Codex has dropped them, or nobody is there any more to hear the answer."""
        for task in self._ask_tasks:
            task.cancel()

    async def _request(self, method: str, **params: Any) -> Any:
        return await self._server.peer.request(method, {"threadId": self.native_id, **params}, timeout=REQUEST_S)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        async def quietly() -> None:
            with suppress(PeerGone, RpcError, TimeoutError):  # its death is told to all, and a turn may just have ended
                await work

        task = asyncio.create_task(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
