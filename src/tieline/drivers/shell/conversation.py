"""A conversation with a command line: a process for each turn, watched from its start to its end."""

import asyncio
import errno
import signal
import time

from ...background_tasks import cancel_and_wait
from ...errors import AgentDied, AgentStartFailed, ProtocolError, TielineError, Unsupported
from ...events import Error, Init, Outcome, Warning
from ...policy import Receipt
from ...processes.async_process import TERM_GRACE_S, Process
from ...wire.lines import LineTooLong
from ..base import AskFn, Prompt, Spec
from ..turn_stream import Turn
from .command_line import ShellOptions, compose_prompt, launch_command
from .json_output import MAX_TEXT, ShellNormaliser, ShellTurnEnd
from .text_output import TextOutput

LATE_S = 1.0
"""A wait that ends so much later than it should: the machine stood still meanwhile."""
EXIT_GRACE_S = 5.0
"""After its completion event, or the end of its output: the time a process gets to exit by itself."""
DRAIN_S = 0.5
"""After its exit: how long something that it left behind may hold its output open."""


NO_LIMIT_S = 1e9
"""Somebody else keeps the turn's time."""


class ShellConversation:
    """A conversation: its turns are processes, its memory is the agent's own, by its session id."""

    def __init__(self, name: str, options: ShellOptions, receipt: Receipt, spec: Spec, ask: AskFn) -> None:
        self.receipt = receipt
        self.native_id = spec.resume
        self.enforces_timeout = True
        self._name = name
        self._options = options
        self._spec = spec
        self._ask = ask
        self._init_sent = False
        self._turn: Turn | None = None
        self._task: asyncio.Task[None] | None = None
        self._process: Process | None = None

    def turn(self, prompt: Prompt) -> Turn:
        turn = self._turn = Turn(prompt, self._ask)
        self._task = asyncio.create_task(self._play(turn, self._task))
        return turn

    @property
    def alive(self) -> bool:
        return True  # each turn has a process of its own

    async def interrupt(self) -> None:
        turn = self._turn
        if turn is None or turn.ended:
            return
        turn.interrupt(self._kill)
        if self._process is not None:
            self._process.signal(signal.SIGTERM)

    async def steer(self, text: str) -> None:
        raise Unsupported(self._name, "steer", hint="Send it as the next prompt instead.")

    async def close(self) -> None:
        if self._task is not None:
            await cancel_and_wait(self._task)

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    async def _play(self, turn: Turn, before: asyncio.Task[None] | None) -> None:
        try:
            if before is not None:  # its process may still be writing the session that this turn resumes
                await asyncio.gather(before, return_exceptions=True)
            if not self._init_sent:
                self._init_sent = True
                turn.emit(Init(self._name, self.native_id, self._spec.cwd, self._spec.model, receipt=self.receipt))
            if turn.interrupted:
                turn.done("interrupted", native_id=self.native_id)
                return
            await self._run(turn)
        except asyncio.CancelledError:
            turn.done("interrupted", native_id=self.native_id)
            raise
        except TielineError as error:
            turn.fail(str(error), native_id=self.native_id)
        except Exception as error:  # a fault of ours is the turn's failure, not a hang of its reader
            turn.fail(f"{type(error).__name__}: {error}", native_id=self.native_id)
        finally:
            self._process = None

    async def _run(self, turn: Turn) -> None:
        argv, env = launch_command(self._options, self._spec, turn.prompt.text, self.native_id)
        try:
            process = self._process = Process.start(argv, cwd=self._spec.cwd, env=env)
        except (OSError, ValueError) as error:
            raise AgentStartFailed(self._name, f"it cannot be started: {error}", hint=_start_hint(error)) from None
        ended = asyncio.Event()
        async with process, asyncio.TaskGroup() as group:
            watching = [
                group.create_task(self._feed(turn, process)),
                group.create_task(self._watch_time(turn, process)),
                group.create_task(_watch_exit(process)),
                group.create_task(_watch_completion(ended, process)),
            ]
            try:
                if self._options.output == "text":
                    await self._read_text(turn, process)
                else:
                    await self._read_json(turn, process, ended)
            except LineTooLong as error:
                turn.fail(f"{self._name}: {error}", native_id=self.native_id)
                await terminate(process)
            for task in watching:
                task.cancel()

    async def _read_text(self, turn: Turn, process: Process) -> None:
        text = TextOutput()
        async for chunk in process.chunks():
            await turn.drain()
            for event in text.feed(chunk):
                turn.emit(event)
            if text.size > MAX_TEXT:
                raise LineTooLong(b"", MAX_TEXT, [])
        for event in text.finish():
            turn.emit(event)
        if await self._exited(turn, process):
            turn.done("success", native_id=self.native_id)

    async def _read_json(self, turn: Turn, process: Process, ended: asyncio.Event) -> None:
        lines = ShellNormaliser(self._options, source=self._name)
        async for batch in process.lines():
            await turn.drain()
            for line in batch:
                if lines.end is not None:
                    break  # read on, so that it can exit; what it says is said after the end
                for event in lines.line(line):
                    turn.emit(event)
                self.native_id = lines.native_id or self.native_id
                if lines.end is not None:
                    self._complete(turn, lines.end)
                    ended.set()
        if lines.end is not None or not await self._exited(turn, process):
            return
        if self._options.done_when:
            problem = "it exited with status 0 before its completion event (done_when)"
        elif not lines.understood:
            problem = "it printed no JSON lines"
        else:
            turn.done("success", tokens=lines.tokens, native_id=self.native_id)
            return
        turn.fail(str(ProtocolError(self._name, problem, hint=_stderr_hint(process))), native_id=self.native_id)

    def _complete(self, turn: Turn, end: ShellTurnEnd) -> None:
        if end.failed:
            turn.emit(Error(end.error))
        status: Outcome = "error" if end.failed else "success"
        turn.done(status, error=end.error, tokens=end.tokens, native_id=self.native_id)

    async def _exited(self, turn: Turn, process: Process) -> bool:
        """Its output is over. Whether it then exited as it should; if not, the turn has failed."""
        if not await process.wait(EXIT_GRACE_S):
            turn.emit(Warning("it closed its output but did not exit; it was terminated"))
            return True
        if process.returncode:
            died = AgentDied(self._name, process.returncode, process.stderr)
            turn.fail(str(died), native_id=self.native_id)
        return not process.returncode

    async def _feed(self, turn: Turn, process: Process) -> None:
        """Give it its input, and the end of it, beside the reading: it may print before it has read everything."""
        if self._options.prompt_by == "stdin":
            try:
                await process.write(f"{compose_prompt(self._options, self._spec, turn.prompt.text)}\n".encode())
            except ConnectionError:
                pass  # it did not want it all; its exit tells
            except TimeoutError:
                turn.fail(f"{self._name}: it does not read its input", native_id=self.native_id)
                await terminate(process)
        process.close_stdin()

    async def _watch_time(self, turn: Turn, process: Process) -> None:
        """Ends the turn when its time is up: all in all, or without a sign of life on either stream."""
        limit = self._options.timeout_s if self.enforces_timeout else NO_LIMIT_S
        quiet = self._options.idle_timeout_s or limit
        started = stood_still = process.last_heard
        while True:
            now = time.monotonic()
            wait = min(started + limit, max(process.last_heard, stood_still) + quiet) - now
            if wait <= 0:
                break
            await asyncio.sleep(wait)
            if (late := time.monotonic() - now - wait) > LATE_S:  # the machine did, not the agent
                started, stood_still = started + late, now + wait + late
        problem = f"no end within {limit:g} s (timeout_s)"
        if time.monotonic() < started + limit:
            problem = f"silent for {quiet:g} s (idle_timeout_s)"
        turn.done("timeout", error=f"{self._name}: {problem}", native_id=self.native_id)
        await terminate(process)


async def terminate(process: Process) -> None:
    """End it in good time."""
    process.signal(signal.SIGTERM)
    if not await process.wait(TERM_GRACE_S):
        process.kill()


async def _watch_exit(process: Process) -> None:
    """A server that the agent left running may hold its output open for ever: then there would be no end of it."""
    await process.wait(None)
    await asyncio.sleep(DRAIN_S)
    process.kill()


async def _watch_completion(ended: asyncio.Event, process: Process) -> None:
    """The turn is over; the process has a little time to exit by itself."""
    await ended.wait()
    if not await process.wait(EXIT_GRACE_S):
        await terminate(process)


def _start_hint(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        return 'The prompt is too long for an argument: use prompt_by = "stdin".'
    if isinstance(error, ValueError):
        return "An argument cannot contain a null byte."
    return "Check its command in the configuration, and that it can be executed."


def _stderr_hint(process: Process) -> str:
    output = process.stderr.strip()
    return f"Its last output: {output[-2000:]}" if output else ""
