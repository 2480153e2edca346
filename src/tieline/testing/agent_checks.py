"""The driver contract in brief, held against an agent that somebody has installed: `tieline agents test`.

What people rely on, in as few starts of the agent as will do, with findings in words instead of a test's traceback. It
needs no pytest: it is part of what is installed.
"""

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct

from ..api import open_session
from ..config import Config
from ..drivers.base import Attachment, Features, McpServer, Prompt
from ..errors import PolicyUnenforceable, TielineError
from ..events import Answer, Ask, Command, Diff, Done, Edit, Event, Plan, Text, Thinking, ToolResult, ToolUse
from ..policy import CAPABILITIES, PRESETS, Capability, Policy, every_policy
from ..script import Fail, Get, Inquire, Outline, Run, Say, Stall, Think, Write
from ..sessions.session import Session
from . import mcp_server
from .http_server import HttpRequest, LoopbackServer
from .rig import Rig
from .stream_checks import collect, done, of
from .wait_for import at_work_in, eventually

OPEN_S = 90.0
TURN_S = 90.0
"""Agents that start a runtime on a busy machine take their time; none takes longer."""
LEAVE_S = 20.0
FAILURES = 20
"""How often a model refuses: more often than an agent tries again."""
DENY_SHELL = Policy("allow", "deny", "allow")
LONG = "a-part-that-is-long-enough-to-be-left-out-" * 5
WORD = "marmalade"
STEER_WORD = "pelican"
IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A picture of one pixel, as a model is told of it; some agents write it anew, from its pixels on."""
IMAGE_HEADER = IMAGE[:40]

CheckOutcome = Literal["passed", "failed", "not offered"]

CHECKS: Mapping[str, str] = {
    "text": "answers a prompt",
    "usage": "tells the tokens of a turn",
    "command": "runs an allowed command and shows its output",
    "edit": "writes an allowed file and shows the change",
    "thinking": "shows what it thinks",
    "plan": "shows its plan",
    "attachment": "is shown an attached file",
    "steer": "hears what is said in the middle of a turn",
    "interrupt": "stops when it is interrupted, and goes on",
    "resume": "goes on with an earlier conversation",
    "fork": "goes on with a copy of a conversation",
    "model": "asks the model that was chosen",
    "mcp_server": "starts an MCP server that it is given",
    "policy": "does not run what the policy denies",
    "ask": "asks before a command, and shows all of it",
    "denial": "does not run what a person denies",
    "write_denial": "does not write what a person denies",
    "fetch_denial": "does not fetch what a person denies",
    "withdrawn_ask": "stops when an open ask is interrupted",
    "question": "asks questions",
    "model_error": "tells an error of the model as an error",
    "late_model_error": "tells one that follows a tool as an error",
    "processes": "leaves no process behind",
}
"""By name, in the order of their rows."""


class CheckResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    title: str
    outcome: CheckOutcome
    seconds: float = 0.0
    detail: str = ""


class CheckFailed(Exception):
    """What the agent did, and should not have done; or the other way round."""


class NotOffered(Exception):
    """The agent does not claim that it can do it, or no script can bring it about."""


class CalledModel(Protocol):
    @property
    def called_as(self) -> Sequence[str]:
        """By which names it was asked for, call by call."""
        ...

    @property
    def reported_tokens(self) -> tuple[int, int]:
        """The tokens in and out that the model has reported so far."""
        ...


SessionStep = Callable[[Session], Awaitable[None]]


class AgentChecks:
    """`await AgentChecks(rig, place).run()`. `report` hears each result as it comes. No agent makes it raise."""

    def __init__(
        self,
        rig: Rig,
        directory: Path,
        *,
        model: CalledModel | None = None,
        another_model: str = "",
        report: Callable[[CheckResult], None] = lambda result: None,
    ) -> None:
        self._rig = rig
        self._directory = directory
        self._model = model
        self._another_model = another_model
        self._report = report
        self._results: list[CheckResult] = []
        self._native_id = ""
        self._first: Done | None = None
        self._first_reported: tuple[int, int] | None = None
        self._deny = False
        self._hold = False  # leave the next ask open
        self._asked: list[Ask] = []
        self._was_asked = asyncio.Event()
        self._ran_before_allowed = False
        self._held, self._not_held = _most_that_it_asks(rig)

    async def run(self) -> list[CheckResult]:
        await self._in_session(
            {
                "text": self._text,
                "usage": self._usage,
                "command": self._command,
                "edit": self._edit,
                "thinking": self._thinking,
                "plan": self._plan,
                "attachment": self._attachment,
                "steer": self._steer,
                "interrupt": self._interrupt,
            }
        )
        await self._check("resume", self._resume)
        await self._check("fork", self._fork)
        await self._check("model", self._chosen_model)
        await self._check("mcp_server", self._mcp_server)
        await self._in_session({"policy": self._policy}, policy=DENY_SHELL, on_ask=self._decide)
        await self._in_session(
            {
                "ask": self._ask,
                "denial": self._denial,
                "write_denial": self._write_denial,
                "fetch_denial": self._fetch_denial,
                "withdrawn_ask": self._withdrawn_ask,
                "question": self._question,
                "model_error": self._model_error,
                "late_model_error": self._late_model_error,
            },
            policy=self._held,
            on_ask=self._decide,
        )
        await self._check("processes", self._nothing_left)
        return self._results

    # --- how a check is run ---

    def _open(self, **options: Any) -> Session:
        given: dict[str, Any] = {"policy": PRESETS["full"], **self._rig.options, **options}
        return open_session(self._rig.driver, cwd=self._directory, config=Config(), **given)

    async def _in_session(self, steps: Mapping[str, SessionStep], **options: Any) -> None:
        """The steps in one session. A policy that Tieline itself refuses for this agent is not offered."""
        began = time.monotonic()
        try:
            session = self._open(**options)
        except PolicyUnenforceable as error:
            for name in steps:
                self._add(name, "not offered", began, f"Tieline refuses the policy for it: {error.message}")
            return
        try:
            async with asyncio.timeout(OPEN_S):
                await session.__aenter__()
        except Exception as error:
            for name in steps:
                self._add(name, "failed", began, f"it does not open: {_words(error)}")
            return
        try:
            for name, step in steps.items():
                await self._check(name, lambda step=step: step(session))
        finally:
            with suppress(TielineError):
                await session.close()

    async def _check(self, name: str, step: Callable[[], Awaitable[None]]) -> None:
        began = time.monotonic()
        try:
            await step()
        except NotOffered as error:
            self._add(name, "not offered", began, str(error))
        except Exception as error:  # whatever a driver or an agent comes up with is its result
            self._add(name, "failed", began, _words(error))
        else:
            self._add(name, "passed", began)

    def _add(self, name: str, outcome: CheckOutcome, began: float, detail: str = "") -> None:
        seconds = round(time.monotonic() - began, 2)
        result = CheckResult(name=name, title=CHECKS[name], outcome=outcome, seconds=seconds, detail=detail)
        self._results.append(result)
        self._report(result)

    @property
    def _features(self) -> Features:
        """Of one that is not tested they are what it says itself, once it has run."""
        return self._rig.driver.features

    def _able(self, feature: str, limit: str = "") -> None:
        """Leave the check out where the agent does not claim it, or no scripted model can bring it about."""
        if feature and not getattr(self._features, feature):
            raise NotOffered(f"its driver does not claim `{feature}`")
        if limit in self._rig.limits:
            raise NotOffered("its model cannot be scripted to do it")

    def _asks_before(self, capability: Capability) -> None:
        if why := self._not_held.get(capability):
            raise NotOffered(f"Tieline refuses the policy for it: {why}")

    async def _turn(self, session: Session, prompt: str | Prompt) -> list[Event]:
        return await collect(session.turn(prompt), timeout=TURN_S)

    async def _turn_while(
        self, session: Session, prompt: str, meanwhile: Callable[[], Coroutine[Any, Any, None]]
    ) -> list[Event]:
        """A turn, and what somebody does in the middle of it."""
        other = asyncio.create_task(meanwhile())
        try:
            seen = await self._turn(session, prompt)
        finally:
            other.cancel()
            [result] = await asyncio.gather(other, return_exceptions=True)
        if isinstance(result, Exception):
            raise result
        return seen

    async def _successful(self, session: Session, prompt: str | Prompt) -> list[Event]:
        seen = await self._turn(session, prompt)
        ended = done(seen)
        _expect(ended.status == "success", f"the turn ended as {ended.status}: {ended.error}")
        return seen

    # --- the checks ---

    async def _text(self, session: Session) -> None:
        before = self._model.reported_tokens if self._model else (0, 0)
        self._rig.play([Say("Hello there, this is the answer.", chunks=5)])
        seen = await self._successful(session, f"Remember the word {WORD}, and say hello.")
        self._first = done(seen)
        if self._model:
            self._first_reported = (
                self._model.reported_tokens[0] - before[0],
                self._model.reported_tokens[1] - before[1],
            )
        self._native_id = session.native_id
        answer = "".join(text.text for text in of(seen, Text)).strip()
        _expect(answer == done(seen).text.strip() == "Hello there, this is the answer.", f"it told {answer[:200]!r}")

    async def _usage(self, session: Session) -> None:
        self._able("usage")
        ended, reported = self._first, self._first_reported
        tokens = ended.tokens if ended else None
        if ended is None or tokens is None:
            raise CheckFailed("the turn tells no tokens")
        into = (tokens.input or 0) + (tokens.cache_read or 0) + (tokens.cache_write or 0)
        whole = ended.usage == "complete"
        _expect(whole or "usage_whole" in self._rig.limits, f"the turn calls its tokens {ended.usage}")
        if reported is not None and whole:
            _expect(
                (into, tokens.output or 0) == reported,
                f"it told {into} in, {tokens.output} out; the model counted {reported}",
            )

    async def _command(self, session: Session) -> None:
        self._able("", "tools")
        self._rig.play([Run("touch allowed.txt; echo out-of-the-command")], [Say("Ran.")])
        seen = await self._successful(session, "run it")
        _expect((self._directory / "allowed.txt").exists(), "the command did not run")
        _expect(not of(seen, Ask), "it asked, although the policy allows everything")
        results = _results_of(seen, Command)
        _expect(bool(results), "the command is not shown")
        if "command_output" not in self._rig.limits:
            shown = any("out-of-the-command" in result.output for result in results)
            _expect(shown, "the command's output is not shown")

    async def _edit(self, session: Session) -> None:
        self._able("", "tools")
        file = self._directory / "written.txt"
        self._rig.play([Write(str(file), "a new line\n")], [Say("Written.")])
        seen = await self._successful(session, "write it")
        _expect(file.exists() and file.read_text() == "a new line\n", "the file was not written")
        _expect(bool(_results_of(seen, Edit)), "the edit is not shown")
        if self._features.diffs and "diff" not in self._rig.limits:
            _expect(any("+a new line" in diff.diff for diff in of(seen, Diff)), "the change is not shown")

    async def _thinking(self, session: Session) -> None:
        self._able("thinking", "thinking")
        self._rig.play([Think("Let me consider the matter."), Say("Considered.")])
        seen = await self._successful(session, "think")
        _expect("consider the matter" in "".join(each.text for each in of(seen, Thinking)), "its thinking is not shown")

    async def _plan(self, session: Session) -> None:
        self._able("plans", "plan")
        self._rig.play([Outline(("Look", "Change", "Test"), done=1)], [Say("Planned.")])
        plans = of(await self._successful(session, "plan it"), Plan)
        shown = [step.text for step in plans[-1].steps] if plans else []
        _expect(shown == ["Look", "Change", "Test"], f"its plan is shown as {shown}")

    async def _attachment(self, session: Session) -> None:
        takes = self._features.attachments
        pictures = bool({"image/png", "image/*", "*/*"} & set(takes))
        self._able("attachments", "attachment")
        file = self._directory / ("dot.png" if pictures else "note.txt")
        file.write_bytes(base64.b64decode(IMAGE) if pictures else f"about {STEER_WORD}s".encode())
        kind = "image/png" if pictures else "text/plain"
        heard = len(self._rig.heard())
        self._rig.play([Say("I have seen it.")])
        attached = Attachment(path=str(file), media_type=kind, name=file.name)
        await self._successful(session, Prompt("look at this", (attached,)))
        content = IMAGE_HEADER if pictures else f"about {STEER_WORD}s"
        _expect(content in self._rig.heard()[heard:], "its model was not told what is in the file")

    async def _steer(self, session: Session) -> None:
        self._able("steer", "tools")
        began, steered = self._directory / "began", self._directory / "steered"
        heard = len(self._rig.heard())
        self._rig.play([Run(f"touch {began}; while [ ! -e {steered} ]; do sleep 0.05; done")], [Say("Heard.")])

        async def steer() -> None:
            try:
                await eventually(began.exists, "the command did not run", timeout=TURN_S)
                await session.steer(f"mind the {STEER_WORD}")
            finally:
                steered.touch()

        ended = done(await self._turn_while(session, "run it", steer))
        _expect(ended.status == "success", f"the turn ended as {ended.status}: {ended.error}")
        _expect(f"mind the {STEER_WORD}" in self._rig.heard()[heard:], "its model was not told what was said")

    async def _interrupt(self, session: Session) -> None:
        self._rig.play([Say("The beginning of a long story. "), Stall()], [Say("after the interrupt")])

        async def stop() -> None:
            async with asyncio.timeout(TURN_S):
                await self._rig.stalled()
            await session.interrupt()

        ended = done(await self._turn_while(session, "tell me", stop))
        _expect(ended.status == "interrupted", f"the turn ended as {ended.status}: {ended.error}")
        if "usable_when_interrupted" not in self._rig.limits:
            await self._successful(session, "go on")

    async def _resume(self) -> None:
        self._able("resume")
        _expect(bool(self._native_id), "its first conversation has no id")
        heard = len(self._rig.heard())
        self._rig.play([Say("I remember.")])
        async with asyncio.timeout(OPEN_S + TURN_S), self._open(resume=self._native_id) as session:
            await self._successful(session, "go on")
        _expect(WORD in self._rig.heard()[heard:], "its model was not told what had been said before")

    async def _fork(self) -> None:
        self._able("fork")
        _expect(bool(self._native_id), "its first conversation has no id")
        heard = len(self._rig.heard())
        self._rig.play([Say("I remember.")])
        async with asyncio.timeout(OPEN_S + TURN_S), self._open(resume=self._native_id, fork=True) as session:
            await self._successful(session, "go on")
            _expect(session.native_id != self._native_id, "the copy has the id of the conversation")
        _expect(WORD in self._rig.heard()[heard:], "its model was not told what had been said before")

    async def _chosen_model(self) -> None:
        self._able("model", "model")
        model = self._model
        chosen = self._another_model
        if model is None or not chosen:
            raise NotOffered("its model cannot be scripted to do it")
        self._rig.play([Say("Here.")])
        async with asyncio.timeout(OPEN_S + TURN_S), self._open(model=chosen) as session:
            await self._successful(session, "hello")
        name = chosen.rpartition("/")[2].rpartition(":")[2]
        called = model.called_as[-1:]
        _expect(any(name in each for each in called), f"it asked {', '.join(called) or 'none'}")

    async def _mcp_server(self) -> None:
        self._able("mcp_servers", "mcp_server")
        proof = self._directory / "server-began"
        began = ("/bin/sh", "-c", 'touch "$PROOF"; exec "$@"', "sh")
        server = McpServer(command=(*began, *mcp_server.command_line("nothing", "true")), env={"PROOF": str(proof)})
        self._rig.play([Say("Here.")])
        async with asyncio.timeout(OPEN_S + TURN_S), self._open(mcp_servers={"proof": server}) as session:
            await self._successful(session, "hello")
            await eventually(proof.exists, "the server was not started", timeout=LEAVE_S)

    async def _policy(self, session: Session) -> None:
        self._able("", "tools")
        self._asked.clear()
        self._rig.play([Run("touch forbidden.txt")], [Say("It was refused.")])
        seen = await self._turn(session, "touch it")
        self._not_run("forbidden.txt", "the policy denies it")
        _expect(not self._asked, "it asked, although the policy has decided")
        self._denial_is_shown(seen)

    async def _ask(self, session: Session) -> None:
        self._able("", "tools")
        self._asks_before("shell")
        self._asked.clear()
        self._deny = False
        command = f"touch asked.txt; echo {LONG} end-of-the-command"
        self._rig.play([Run(command)], [Say("Touched.")])
        ended = done(await self._turn(session, "touch it"))
        _expect(bool(self._asked), "it did not ask")
        _expect(not self._ran_before_allowed, "the command ran before it was allowed")
        ask = self._asked[0]
        shown = ask.action.command if isinstance(ask.action, Command) else ""
        _expect(f"{LONG} end-of-the-command" in shown, f"the ask does not show the whole command: {shown[:100]!r}")
        _expect(len(self._asked) == 1, f"it asked {len(self._asked)} times")
        _expect((self._directory / "asked.txt").exists(), "the command did not run after it was allowed")
        _expect(ended.status == "success", f"the turn ended as {ended.status}: {ended.error}")

    async def _denial(self, session: Session) -> None:
        self._able("", "tools")
        self._asks_before("shell")
        self._asked.clear()
        self._deny = True
        self._rig.play([Run("touch denied.txt")], [Say("It was refused.")])
        seen = await self._turn(session, "touch it")
        self._not_run("denied.txt", "it was denied")
        _expect(bool(self._asked), "it did not ask")
        self._denial_is_shown(seen)

    async def _write_denial(self, session: Session) -> None:
        self._able("", "tools")
        self._asks_before("file_write")
        self._asked.clear()
        self._deny = True
        file = self._directory / "unwanted.txt"
        self._rig.play([Write(str(file), "an unwanted line\n")], [Say("It was refused.")])
        seen = await self._turn(session, "write it")
        _expect(not file.exists(), "the file was written, although it was denied")
        _expect(bool(self._asked), "it did not ask")
        self._denial_is_shown(seen)

    async def _fetch_denial(self, session: Session) -> None:
        self._able("", "fetch")
        self._asks_before("network")
        self._asked.clear()
        self._deny = True
        visits: list[str] = []

        async def answer(request: HttpRequest) -> None:
            visits.append(request.path)
            await request.respond(200, b"a page", "text/plain")

        async with LoopbackServer(answer) as web:
            self._rig.play([Get(f"{web.url}/page")], [Say("It was refused.")])
            seen = await self._turn(session, "fetch it")
            _expect(not visits and not web.tls_hellos, "the page was fetched, although it was denied")
        _expect(bool(self._asked), "it did not ask")
        self._denial_is_shown(seen)

    async def _withdrawn_ask(self, session: Session) -> None:
        self._able("", "tools")
        self._asks_before("shell")
        self._was_asked.clear()
        self._hold = True
        self._rig.play([Run("touch withdrawn.txt")], [Say("never said")])

        async def stop() -> None:
            async with asyncio.timeout(TURN_S):
                await self._was_asked.wait()
            await session.interrupt()

        try:
            ended = done(await self._turn_while(session, "touch it", stop))
        finally:
            self._hold = False
        self._not_run("withdrawn.txt", "nobody allowed it")
        _expect(self._was_asked.is_set(), "it did not ask")
        _expect(ended.status == "interrupted", f"the turn ended as {ended.status}: {ended.error}")

    async def _question(self, session: Session) -> None:
        self._able("questions", "question")
        self._asked.clear()
        self._deny = False
        self._rig.play([Inquire("Which colour?", ("Red", "Blue"), header="Colour")], [Say("Thank you.")])
        heard = len(self._rig.heard())
        await self._successful(session, "ask me")
        _expect([ask.kind for ask in self._asked] == ["question"], "it did not ask its question")
        _expect("Blue" in self._rig.heard()[heard:], "the answer did not reach its model")

    async def _model_error(self, session: Session) -> None:
        self._able("", "model_error_that_stays")
        self._rig.play(*[[Fail(400, "scripted refusal")] for _ in range(FAILURES)])
        ended = done(await self._turn(session, "try"))
        _expect(ended.status == "error", f"the turn ended as {ended.status}, and its model had refused")
        _expect(bool(ended.error), "the turn does not tell the error")

    async def _late_model_error(self, session: Session) -> None:
        self._able("", "tools")
        self._able("", "model_error_that_stays")
        self._deny = False
        failures = [[Fail(400, "scripted refusal")] for _ in range(FAILURES)]
        self._rig.play([Run("echo before-the-error")], *failures)
        ended = done(await self._turn(session, "run it, and try"))
        _expect(ended.status == "error", f"the turn ended as {ended.status}, and its model had refused")
        _expect(bool(ended.error), "the turn does not tell the error")

    async def _nothing_left(self) -> None:
        if not Path("/proc/self/cwd").exists():
            raise NotOffered("this system does not tell who works in a directory")
        directory = self._directory
        await eventually(
            lambda: not at_work_in(directory), f"processes are left: {at_work_in(directory)}", timeout=LEAVE_S
        )

    # --- what several of them need ---

    async def _decide(self, ask: Ask) -> Answer:
        self._asked.append(ask)
        self._was_asked.set()
        if self._hold:
            await asyncio.Event().wait()  # until it is withdrawn
        if ask.kind == "question":
            answers = {question.id: ("Blue",) for question in ask.questions}
            return Answer(ask.id, "allow", by="caller", answers=answers)
        self._ran_before_allowed = self._ran_before_allowed or (self._directory / "asked.txt").exists()
        return Answer(ask.id, "deny" if self._deny else "allow", by="caller")

    def _not_run(self, file: str, why: str) -> None:
        _expect(not (self._directory / file).exists(), f"the command ran, although {why}")

    def _denial_is_shown(self, seen: list[Event]) -> None:
        statuses = [result.status for result in of(seen, ToolResult)]
        _expect("denied" in statuses, f"the denial is not shown as one, but as {', '.join(statuses) or 'nothing'}")


def _most_that_it_asks(rig: Rig) -> tuple[Policy, dict[Capability, str]]:
    """The policy that has it ask as much as its driver holds it to, about commands before all else; why not more."""
    best, most = PRESETS["full"], (False, 0)
    for policy in (policy for policy in every_policy() if "deny" not in map(policy.level, CAPABILITIES)):
        receipt = rig.driver.enforce(policy)
        asked: list[Capability] = [each for each in CAPABILITIES if policy.level(each) == "ask"]
        if all(receipt.of(each).means == "prompt" for each in asked) and most < ("shell" in asked, len(asked)):
            best, most = policy, ("shell" in asked, len(asked))
    receipt = rig.driver.enforce(Policy())
    return best, {
        capability: receipt.of(capability).note or "the agent does not ask before it"
        for capability in CAPABILITIES
        if best.level(capability) != "ask"
    }


def _results_of(seen: list[Event], kind: type[Command] | type[Edit]) -> list[ToolResult]:
    """The successful results of the calls that do such a thing."""
    calls = {use.id for use in of(seen, ToolUse) if isinstance(use.action, kind)}
    return [result for result in of(seen, ToolResult) if result.id in calls and result.status == "ok"]


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise CheckFailed(otherwise)


def _words(error: Exception) -> str:
    if isinstance(error, TielineError):
        return f"{error.message} {error.hint}".strip()
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, CheckFailed | AssertionError):
        return str(error) or "the events of the turn do not fit together"
    return f"{type(error).__name__}: {error}"
