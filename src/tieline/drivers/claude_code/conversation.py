"""A conversation with a running Claude Code: the SDK's control protocol over our transport, and the turns."""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from ...background_tasks import import_in_thread
from ...errors import AgentDied, AgentMissing, AgentStartFailed, Unsupported
from ...events import Done, Error, Event, Other
from ...policy import Receipt
from ...processes.async_process import Process
from ...wire.json_object import JsonDict
from ..base import AskFn, Prompt, Spec
from ..model_list import ModelList, mappings, model_list
from ..turn_stream import Turn
from .asks import ToolPermissions, answered_input
from .events import SOURCE, ClaudeCodeNormaliser
from .launch import INSTALL, SDK, UPGRADE
from .policy import permission_rules
from .prompt import hook_output, inline_long_system, user_message
from .tools import QUESTION
from .transport import SdkTransport
from .usage import ClaudeCodeUsageMeter

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeSDKClient, PermissionResult, ToolPermissionContext, Transport

MAX_HELD = 1000
"""Events that came between turns and wait for the next one. The oldest are dropped."""
MAX_GARBAGE = 100
"""Lines that are no JSON, before the handshake. One that prints more is not Claude Code."""
EXIT_S = 2.0
"""Between the end of its output and its exit."""
DISCONNECT_S = 5.0
HOOK_S = 3600.0
"""Our hook answers at once; this only keeps Claude Code from giving up on it while this process is suspended."""


class ClaudeCodeConversation:
    def __init__(
        self,
        agent: str,
        process: Process,
        spec: Spec,
        ask: AskFn,
        *,
        receipt: Receipt,
        native_id: str,
        meter: ClaudeCodeUsageMeter,
        user_rules: bool,
        repository: bool,
        notices: Sequence[Event] = (),
    ) -> None:
        """`notices` are told in its first turn."""
        self.receipt = receipt
        self._agent = agent
        self._process = process
        self._ask = ask
        self._permissions = ToolPermissions(spec.policy, spec.cwd, user_rules=user_rules, repository=repository)
        hidden = (*permission_rules(spec.policy)[1], *(rule for rule in spec.disallowed_tools if "(" not in rule))
        self._normaliser = ClaudeCodeNormaliser(agent, receipt, hidden, meter)
        self._normaliser.native_id = native_id
        self._transport = SdkTransport(process, self._on_message, self._on_garbage)
        self._client: ClaudeSDKClient | None = None
        self._turn: Turn | None = None
        self._prompt_id = ""  # the id of the message that began the turn
        self._pending_system: Prompt | None = (
            None  # the turn's, while its addition to the system instruction is not given
        )
        self._started_messages: set[str] = set()  # messages of this turn that the agent has taken up
        self._steers: set[str] = set()  # said in the middle of the turn, not yet part of a result
        self._reports_start = False  # whether this version tells when it takes a message up
        self._held_events: deque[Event] = deque(notices, maxlen=MAX_HELD)
        self._death: str | None = None
        self._garbage_lines: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._reader: asyncio.Task[None] | None = None
        self._connected = False
        self._closing = False

    @property
    def native_id(self) -> str:
        return self._normaliser.native_id

    # --- its life --------------------------------------------------------------------------------------

    def start_reading(self) -> None:
        self._reader = asyncio.create_task(self._read_messages())

    async def connect(self, timeout: float) -> None:
        """Import the SDK while the agent starts, then shake hands. Raises AgentMissing, AgentStartFailed."""
        try:
            sdk = await import_in_thread(SDK)
        except ImportError as error:
            raise AgentMissing(self._agent, f"claude-agent-sdk cannot be imported: {error}", hint=INSTALL) from None
        if not (log := logging.getLogger(sdk.__name__)).handlers:
            log.addHandler(logging.NullHandler())  # we tell what it would print
        try:
            hooks = {
                "PreToolUse": [sdk.HookMatcher(hooks=[self._pre_tool_use], timeout=HOOK_S, on_failure="block")],
                "UserPromptSubmit": [sdk.HookMatcher(hooks=[self._user_prompt_submit], timeout=HOOK_S)],
            }
            options = sdk.ClaudeAgentOptions(can_use_tool=self._can_use_tool, hooks=hooks)
            client: ClaudeSDKClient = sdk.ClaudeSDKClient(options, cast("Transport", self._transport))
        except (AttributeError, TypeError) as error:
            raise AgentMissing(self._agent, f"claude-agent-sdk is too old: {error}", hint=UPGRADE) from None
        self._client = client
        try:
            async with asyncio.timeout(timeout):
                await client.connect()
        except TimeoutError:
            raise self._start_failed(f"it did not answer within {timeout:g} s") from None
        except Exception as error:  # the SDK raises plain ones
            await self._process.wait(EXIT_S)
            raise self._start_failed(f"the handshake failed: {error}") from None
        self._connected = True

    async def offered_models(self) -> ModelList:
        """The models that the agent named in its handshake; no request is needed."""
        assert self._client is not None
        info: Any = await self._client.get_server_info() or {}
        return model_list((model.get("value"), _efforts(model)) for model in mappings(info.get("models")))

    async def warm_up(self) -> None:
        """It counts its instructions and tools, for which it makes them. A summary it counts without its vendor."""
        await self._transport.request({"subtype": "get_context_usage", "detail": "summary"})

    def _start_failed(self, otherwise: str) -> AgentStartFailed:
        errors = [event.message for event in self._held_events if isinstance(event, Error)]
        rubbish = [line.decode(errors="replace") for line in self._garbage_lines]
        words = "\n".join([*errors, self._process.stderr.strip(), *rubbish])
        status = self._process.returncode
        how = (
            otherwise if status is None or len(self._garbage_lines) > MAX_GARBAGE else f"it exited with status {status}"
        )
        return AgentStartFailed(self._agent, how, hint=f"It said: {words.strip()[-2000:]}" if words.strip() else "")

    async def disconnect(self) -> None:
        self._closing = True
        for task in self._tasks:
            task.cancel()
        if self._client is not None:
            with suppress(Exception):
                async with asyncio.timeout(DISCONNECT_S):
                    await self._client.disconnect()

    async def stop(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, *self._tasks, return_exceptions=True)
        if self._turn is not None:
            self._turn.done("interrupted", native_id=self.native_id)

    async def _read_messages(self) -> None:
        try:
            reason = await self._transport.run(self._drain)
        except Exception as error:  # a mistake of ours must end the turn, not leave its reader waiting
            reason = f"{type(error).__name__}: {error}"
        if self._closing:
            return
        if not await self._process.wait(EXIT_S):
            self._process.kill()
            await self._process.wait(EXIT_S)
        status = self._process.returncode
        died = AgentDied(self._agent, status, self._process.stderr)
        self._death = str(died) if status is not None else f"{self._agent}: {reason}"
        if self._turn is not None and not self._turn.ended:
            self._emit([*self._normaliser.turn_diff(), *self._normaliser.partial_usage()])
            self._turn.fail(self._death, native_id=self.native_id)

    async def _drain(self) -> None:
        if self._turn is not None:
            await self._turn.drain()

    # --- turns -----------------------------------------------------------------------------------------

    def turn(self, prompt: Prompt) -> Turn:
        turn = Turn(prompt, self._ask)
        if self._death is not None:
            again = f"Open it again with resume={self.native_id!r} to go on."
            turn.fail(f"{self._death}\n  {again}", native_id=self.native_id)
            return turn
        self._turn = turn
        self._prompt_id = str(uuid4())
        sent = inline_long_system(prompt)
        self._pending_system = sent if sent.system else None
        self._started_messages.clear()
        self._steers.clear()
        while self._held_events:
            turn.emit(self._held_events.popleft())
        self._spawn(self._send(turn, sent, self._prompt_id))
        return turn

    @property
    def alive(self) -> bool:
        return not self._death and self._process.returncode is None

    async def interrupt(self) -> None:
        turn = self._turn
        if turn is not None and not turn.ended and not turn.interrupted:
            turn.interrupt(self._process.kill)
            self._spawn(self._interrupt())

    async def steer(self, text: str) -> None:
        turn = self._turn
        if turn is None or turn.ended or self._death is not None:
            raise Unsupported(self._agent, "steer", hint="No turn is running: send it as the next prompt.")
        number = str(uuid4())
        self._steers.add(number)
        await self._send(turn, Prompt(text), number)

    async def _interrupt(self) -> None:
        if self._client is not None:
            with suppress(Exception):  # if it does not take it, the turn's own deadline ends the agent
                await self._client.interrupt()

    async def _send(self, turn: Turn, prompt: Prompt, number: str) -> None:
        try:
            message = await asyncio.to_thread(user_message, prompt) if prompt.attachments else user_message(prompt)
            message |= {"session_id": self.native_id, "uuid": number}
            await self._process.write(msgspec.json.encode(message) + b"\n")
        except ConnectionError:
            self._process.kill()  # it is gone, or deaf for good: the end of its output ends the turn
        except (OSError, TimeoutError) as error:
            turn.fail(f"the prompt could not be sent: {error}", native_id=self.native_id)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- what the agent says ---------------------------------------------------------------------------

    def _on_message(self, message: JsonDict) -> None:
        if message.get("type") == "command_lifecycle":
            self._reports_start = True
            if message.get("state") == "started":
                self._started_messages.add(message.get("command_uuid", ""))
                if self._turn is not None and self._turn.interrupted:
                    self._spawn(self._interrupt())  # it was interrupted before it began, which the agent forgets
            return
        events = self._normaliser.feed(message)
        if events and type(events[-1]) is Done:
            self._on_result(events[:-1], events[-1], message)
        else:
            self._emit(events)

    def _emit(self, events: list[Event]) -> None:
        turn = self._turn
        if turn is None or turn.ended:
            self._held_events.extend(events)
        else:
            for event in events:
                turn.emit(event)

    def _on_result(self, events: list[Event], done: Done, message: JsonDict) -> None:
        """Handle a result. It may belong to a turn that the agent began itself, woken by a background task."""
        turn = self._turn
        heard = message.get("user_message_uuids") or ()
        ours = not self._reports_start or self._prompt_id in self._started_messages or self._prompt_id in heard
        if turn is None or turn.ended or not ours:
            self._emit([replace(event, recoverable=True) if isinstance(event, Error) else event for event in events])
            return
        self._emit(events)
        self._steers.difference_update(heard)
        if self._steers and not turn.interrupted and done.status == "success":
            return  # a steering message that came too late for this answer gets an answer of its own
        self._emit(self._normaliser.turn_diff())
        usage = "partial" if turn.interrupted else done.usage
        fields = {name: getattr(done, name) for name in ("error", "text", "tokens", "native_id", "turns")}
        turn.done(done.status, usage=usage, **fields)
        self._normaliser.next_turn()

    def _on_garbage(self, line: bytes) -> None:
        self._emit([Other(line[:10_000].decode(errors="replace"), SOURCE)])
        if not self._connected and len(self._garbage_lines) <= MAX_GARBAGE:
            self._garbage_lines.append(line[:200])
            if len(self._garbage_lines) > MAX_GARBAGE:  # once: thousands of lines may still come out of the pipe
                self._process.kill()

    # --- what it asks ----------------------------------------------------------------------------------

    async def _pre_tool_use(self, given: Any, tool: str | None, context: Any) -> JsonDict:
        """The hook before every tool call."""
        decision = self._permissions.hook_decision(given["tool_name"], given["tool_input"])
        return hook_output("PreToolUse", permissionDecision=decision) if decision else {}

    async def _user_prompt_submit(self, given: Any, tool: str | None, context: Any) -> JsonDict:
        """The hook before a prompt is taken up: what its turn adds to the system instruction goes beside it."""
        prompt = self._pending_system
        if prompt is None or prompt.text not in given["prompt"]:
            return {}  # something said in the middle of the turn, or the agent to itself
        self._pending_system = None
        return hook_output("UserPromptSubmit", additionalContext=prompt.system)

    async def _can_use_tool(
        self, name: str, given: dict[str, Any], context: "ToolPermissionContext"
    ) -> "PermissionResult":
        from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny

        turn = self._turn
        if turn is None or turn.ended:
            return PermissionResultDeny(message="No turn is running: there is nobody to answer.")
        ask = await self._permissions.build_ask(
            name, given, self._normaliser.call_input(context.tool_use_id or ""), context
        )
        answer = await turn.ask(ask)
        if answer.decision == "deny":
            return PermissionResultDeny(message=answer.reason or f"Denied by {answer.by}.")
        if name == QUESTION:
            return PermissionResultAllow(updated_input=answered_input(given, answer))
        updates = self._permissions.permission_updates(name, given, answer, context.suggestions)
        return PermissionResultAllow(updated_permissions=updates)


def _efforts(model: Mapping[str, object]) -> list[object] | None:
    levels = model.get("supportedEffortLevels")
    if isinstance(levels, list):
        return cast("list[object]", levels)
    return [] if model.get("supportsEffort") is False else None
