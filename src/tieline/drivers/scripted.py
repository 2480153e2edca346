"""Plays a script in-process: no model, no key. It is the demo and the load generator.

Its edits, commands and fetches are real, in the session's directory, and each asks for permission first.
"""

import asyncio
import difflib
import os
import signal
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from .. import script
from ..background_tasks import cancel_and_wait
from ..config import setting
from ..errors import Unsupported
from ..events import (
    AnyAction,
    Ask,
    Choice,
    Command,
    Diff,
    Edit,
    Fetch,
    Init,
    OtherAction,
    Plan,
    PlanStep,
    Question,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Tokens,
    ToolOutput,
    ToolResult,
    ToolUse,
    needs,
)
from ..policy import CAPABILITIES, Capability, Enforcement, Policy, Receipt
from ..processes.async_process import Process
from ..script import AnyStep, Reply
from ..version import __version__
from .base import AskFn, Features, Probe, Program, Prompt, Spec
from .registry import parse_options
from .turn_stream import Turn

DEMO: tuple[Reply, ...] = (
    (
        script.Think("The project has no greeting yet. I will write one, run it, and say what happened."),
        script.Outline(("Write greeting.py", "Run it", "Report"), done=0),
    ),
    (script.Say("I'll add a small greeting script."), script.Write("greeting.py", 'print("Hello from Tieline")\n')),
    (script.Outline(("Write greeting.py", "Run it", "Report"), done=1), script.Run("python3 greeting.py")),
    (
        script.Outline(("Write greeting.py", "Run it", "Report"), done=3, when="allowed"),
        script.Inquire("Shall I add a test for it?", ("Yes", "Not now"), header="Test"),
    ),
    (
        script.Say("Done. **greeting.py** is there and it runs.", chunks=8, delay_s=0.03, when="allowed"),
        script.Say("I left out what was denied.", chunks=4, delay_s=0.03, when="denied"),
    ),
)

SCRIPT = ".json"
COMMAND_TIMEOUT_S = 60.0
MAX_OUTPUT = 8 * 1024 * 1024


class ScriptedOptions(Struct, frozen=True, forbid_unknown_fields=True):
    script: Annotated[
        str, setting("JSON file with what the agent does. Without it the demo plays.", "/home/me/script.json")
    ] = ""
    env: Mapping[str, str] = {}  # added to the environment of its commands
    attachments: Annotated[tuple[str, ...], setting("Media types of files that a prompt may have.", ("image/*",))] = ()


OPTIONS = ScriptedOptions
"""What `[agents.NAME]` may say."""


def create(name: str, options: Mapping[str, Any]) -> "Scripted":
    chosen = parse_options(ScriptedOptions, name, options)
    replies = script.load(chosen.script) if chosen.script else DEMO
    return Scripted(replies, name=name, env=chosen.env, attachments=chosen.attachments)


class Scripted:
    tested = __version__
    floor = __version__
    features = Features(deltas=True, thinking=True, questions=True, plans=True, diffs=True, usage=True, model=True)

    def __init__(
        self,
        replies: Sequence[Reply] = DEMO,
        *,
        name: str = "scripted",
        env: Mapping[str, str] | None = None,
        attachments: tuple[str, ...] = (),
        on_model_input: Callable[[str], None] = lambda text: None,
        on_stall: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_model_input` hears what a model would be told (prompts and answers), `on_stall` when a stall begins."""
        self.name = name
        self.replies = replies
        self.env = env or {}
        self.features = replace(type(self).features, attachments=attachments)
        self.on_model_input = on_model_input
        self.on_stall = on_stall

    @property
    def program(self) -> Program:
        return Program(type="scripted")

    async def probe(self, env: Mapping[str, str]) -> Probe:
        return Probe(found=True, version=__version__, signed_in=True)

    def enforce(self, policy: Policy) -> Receipt:
        return Receipt.from_lines({c: Enforcement(policy.level(c), "prompt", _note(policy, c)) for c in CAPABILITIES})

    @asynccontextmanager
    async def open(self, spec: Spec, ask: AskFn) -> AsyncGenerator["ScriptedConversation", None]:
        replies = self.replies
        if spec.model.endswith(SCRIPT):  # its model is a script: this one
            replies = await asyncio.to_thread(script.load, Path(spec.cwd) / spec.model)
        playing = ScriptedConversation(self, replies, replace(spec, env={**spec.env, **self.env}), ask)
        try:
            yield playing
        finally:
            await playing.close()


def _note(policy: Policy, capability: Capability) -> str:
    """What the line of a receipt says besides: there is no sandbox."""
    if capability == "shell" or policy.shell == "deny" or policy.level(capability) == "allow":
        return ""
    return "a command that is permitted to run can still do it"


class ScriptedConversation:
    """A conversation: the replies that are still to be played."""

    def __init__(self, driver: Scripted, replies: Sequence[Reply], spec: Spec, ask: AskFn) -> None:
        self.receipt = driver.enforce(spec.policy)
        self.native_id = os.urandom(8).hex()
        self._driver = driver
        self._replies = replies
        self._spec = spec
        self._ask = ask
        self._next = 0
        self._count = 0
        self._denied = False  # a tool of this turn
        self._turn: Turn | None = None
        self._task: asyncio.Task[None] | None = None

    def turn(self, prompt: Prompt) -> Turn:
        turn = self._turn = Turn(prompt, self._ask)
        self._denied = False
        self._task = asyncio.create_task(self._play(turn))
        return turn

    @property
    def alive(self) -> bool:
        return True

    async def interrupt(self) -> None:
        if self._turn and self._task and not self._turn.ended:
            self._turn.interrupt(lambda: None)
            await self.close()
            self._turn.done("interrupted", native_id=self.native_id)  # also when it was cancelled before it began

    async def steer(self, text: str) -> None:
        raise Unsupported(self._driver.name, "steer")

    async def close(self) -> None:
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def _play(self, turn: Turn) -> None:
        try:
            if self._count == 0:
                turn.emit(
                    Init(self._driver.name, self.native_id, self._spec.cwd, self._spec.model, receipt=self.receipt)
                )
            self._driver.on_model_input(turn.prompt.text)
            for file in turn.prompt.attachments:
                self._driver.on_model_input((file.data or Path(file.path).read_bytes()).decode(errors="replace"))
            words = len(turn.prompt.text.split())
            output_tokens = 0
            while True:
                replies = self._replies
                reply: Reply = replies[self._next] if self._next < len(replies) else (script.Say("Done."),)
                self._next += 1
                for step in reply:
                    if step.when == ("allowed" if self._denied else "denied"):
                        continue
                    await turn.drain()
                    output_tokens += await self._step(turn, step)
                    if turn.ended:
                        return
                if script.ends_turn(reply):
                    break
            turn.done("success", tokens=Tokens(input=words, output=output_tokens), native_id=self.native_id)
        except asyncio.CancelledError:
            turn.done("interrupted", native_id=self.native_id)
        except Exception as error:  # a broken script is the turn's failure, not a hang of its reader
            turn.fail(f"{type(error).__name__}: {error}", native_id=self.native_id)

    async def _step(self, turn: Turn, step: AnyStep) -> int:
        """Play one step; how many words it said."""
        self._count += 1
        item = f"{self.native_id[:4]}-{self._count}"
        match step:
            case script.Say(text, chunks, delay_s):
                size = max(1, -(-len(text) // max(1, chunks)))
                for start in range(0, len(text), size):
                    await asyncio.sleep(delay_s)
                    turn.emit(TextDelta(text[start : start + size], item))
                turn.emit(Text(text, item))
                return len(text.split())
            case script.Think(text):
                turn.emit(ThinkingDelta(text, item))
                turn.emit(Thinking(text, item))
                return len(text.split())
            case script.Write():
                await self._write(turn, step, item)
            case script.Run():
                await self._run(turn, step, item)
            case script.Get(url):
                if await self._permitted(turn, item, "fetch", Fetch(url), {"url": url}):
                    turn.emit(await self._fetch(item, url))
            case script.Inquire():
                await self._ask_question(turn, step, item)
            case script.Outline(steps, done):
                progress = ["done"] * done + ["running"] + ["pending"] * len(steps)
                plan = [PlanStep(text, state) for text, state in zip(steps, progress, strict=False)]  # type: ignore[arg-type]
                turn.emit(Plan(tuple(plan)))
            case script.Propose(plan):
                answer = await turn.ask(Ask(item, "plan", "Approve the plan?", plan=plan))
                turn.emit(Text(f"plan: {answer.decision}", item))
            case script.Call(name, arguments):
                if await self._permitted(turn, item, name, OtherAction(), arguments):
                    turn.emit(ToolResult(item, "ok"))
            case script.Fail(status, message):
                turn.fail(message, code=str(status), native_id=self.native_id)
            case script.Cut():
                turn.fail("the model's stream broke off", code="cut", native_id=self.native_id)
            case script.Stall(seconds):
                self._driver.on_stall()
                await asyncio.sleep(seconds)
            case _:
                assert_never(step)
        return 0

    async def _permitted(
        self, turn: Turn, item: str, name: str, action: AnyAction, arguments: Mapping[str, Any]
    ) -> bool:
        turn.emit(ToolUse(item, name, action, arguments))
        capability = needs(action)
        if capability is None:
            return True
        request = Ask(
            f"ask-{item}",
            "permission",
            name if isinstance(action, OtherAction) else "",  # the others say what they are
            tool=item,
            action=action,
            input=arguments,
            capability=capability,
        )
        answer = await turn.ask(request)
        if answer.decision == "deny":
            self._denied = True
            turn.emit(ToolResult(item, "denied", answer.reason))
            self._driver.on_model_input(answer.reason)
        return answer.decision == "allow"

    async def _write(self, turn: Turn, step: script.Write, item: str) -> None:
        path = Path(self._spec.cwd, step.path)
        before = path.read_text() if path.exists() else ""
        lines = difflib.unified_diff(
            before.splitlines(keepends=True),
            step.content.splitlines(keepends=True),
            f"a/{step.path}" if before else "/dev/null",
            f"b/{step.path}",
        )
        diff = "".join(lines)
        arguments = {"path": step.path, "content": step.content}
        if await self._permitted(turn, item, "write", Edit((step.path,), diff), arguments):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step.content)
            turn.emit(ToolResult(item, "ok", f"wrote {step.path}"))
            turn.emit(Diff(diff, (step.path,)))

    async def _run(self, turn: Turn, step: script.Run, item: str) -> None:
        if not await self._permitted(turn, item, "run", Command(step.command), {"command": step.command}):
            return
        output = bytearray()
        process = Process.start(["/bin/sh", "-c", step.command], cwd=self._spec.cwd, env=self._spec.env)
        async with process, asyncio.timeout(COMMAND_TIMEOUT_S):
            process.close_stdin()
            try:
                async for batch in process.lines():
                    text = b"\n".join(batch) + b"\n"
                    turn.emit(ToolOutput(item, text.decode(errors="replace")))
                    output += text
                    del output[:-MAX_OUTPUT]
                await process.wait(COMMAND_TIMEOUT_S)
            except asyncio.CancelledError:  # its input is closed already: it would not leave by itself
                process.signal(signal.SIGTERM)
                raise
        status = process.returncode
        shown = output.decode(errors="replace") + process.stderr
        if status:
            killed = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
            turn.emit(ToolResult(item, "error", f"{shown}{killed}"))
        else:
            turn.emit(ToolResult(item, "ok", shown))

    async def _fetch(self, item: str, url: str) -> ToolResult:
        import httpx2

        try:
            secure = not url.startswith("http://")  # certificates take longer to load than all the rest
            async with httpx2.AsyncClient(timeout=30, trust_env=False, verify=secure) as client:
                response = await client.get(url)
            return ToolResult(item, "ok" if response.is_success else "error", response.text)
        except httpx2.HTTPError as error:
            return ToolResult(item, "error", str(error))

    async def _ask_question(self, turn: Turn, step: script.Inquire, item: str) -> None:
        choices = tuple(Choice(label, label) for label in step.choices)
        question = Question(id=item, text=step.question, header=step.header, choices=choices)
        answer = await turn.ask(Ask(f"ask-{item}", "question", step.question, questions=(question,)))
        chosen = ", ".join(answer.answers.get(item, ())) if answer.decision == "allow" else "no answer"
        self._driver.on_model_input(chosen)
        turn.emit(Text(f"({step.header}: {chosen})", item))
