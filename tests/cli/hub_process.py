"""A hub as people have it: a process of its own, in the environment of the command line under test."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tieline.bootstrap.daemon import StartOptions
from tieline.client import connect
from tieline.script import Fail, Inquire, Outline, Run, Say, Stall, Think, Write
from tieline.sessions.records import SessionRecord
from tieline.testing.cli_process import WAIT_S, CliProcess
from tieline.testing.fork_server import ForkedProcess, start_hub


class HubProcess:
    """`with HubProcess(cli) as hub`: it serves inside the block, and no process of it is left after it."""

    def __init__(self, cli: CliProcess, *, port: int = 0) -> None:
        self._cli = cli
        self.port = port
        self.url = ""
        self._process: ForkedProcess | subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "HubProcess":
        self.start()
        return self

    def __exit__(self, *exit: object) -> None:
        self.stop()

    def start(self) -> None:
        """Serves when it returns; started again, at the same address."""
        order = StartOptions(port=self.port)
        log = Path(os.devnull)
        cwd, env = self._cli.place, self._cli.env
        self._process, started = start_hub(order, cwd=cwd, env=env, log=log, timeout=2 * WAIT_S)
        if not started.url:
            self.kill()
            raise AssertionError(started)
        self.url = started.url
        self.port = int(started.url.rpartition(":")[2])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: not a word of farewell."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(WAIT_S)
            self._process = None

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._process = None


class Setting(CliProcess):
    """The command line, agents that play scripts, and the sessions of its hub."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.agent("talker", [Think("Hm."), Say("Hello "), Say("world.", chunks=6)])
        self.agent("worker", [Outline(("Make it",)), Run("echo hi > made.txt")], [Say("It is made.")])
        self.agent("editor", [Write("note.txt", "one\ntwo\n")], [Say("Written.")])
        self.agent("asker", [Inquire("Which colour?", ("Red", "Blue"))], [Say("A fine colour.")])
        self.agent("failing", [Fail(500, "the model is gone")])
        self.agent("stalling", [Say("The beginning. "), Stall()])
        self.configure('[agents.missing]\ntype = "shell"\ncommand = ["/nonesuch/agent", "{prompt}"]\n')

    def sessions(self) -> list[SessionRecord]:
        async def look() -> list[SessionRecord]:
            async with connect(self.env) as client:
                return await client.sessions(archived=True)

        return asyncio.run(look())

    def settled(self, title: str) -> SessionRecord:
        """The session of that title, when no turn of it runs any more."""
        (id,) = (session.id for session in self.sessions() if session.title == title)
        return self.until(id, lambda record: record.status not in ("working", "waiting"))

    def until(self, session: str, true: Callable[[SessionRecord], bool]) -> SessionRecord:
        """The session when it has come so far."""
        deadline = time.monotonic() + WAIT_S
        while True:
            (record,) = (record for record in self.sessions() if record.id == session)
            if true(record):
                return record
            assert time.monotonic() < deadline, record
            time.sleep(0.05)
