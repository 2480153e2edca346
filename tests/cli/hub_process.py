"""A hub as people have it: a process of its own, in the environment of the command line under test."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from tieline.bootstrap.daemon import StartOptions, StartResult
from tieline.client import connect
from tieline.script import Fail, Inquire, Outline, Run, Say, Stall, Think, Write
from tieline.sessions.records import SessionRecord
from tieline.testing.cli_process import WAIT_S, CliProcess


class HubProcess:
    """`with HubProcess(cli) as hub`: it serves inside the block, and no process of it is left after it."""

    def __init__(self, cli: CliProcess, *, port: int = 0) -> None:
        self._cli = cli
        self.port = port
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "HubProcess":
        self.start()
        return self

    def __exit__(self, *exit: object) -> None:
        self.stop()

    def start(self) -> None:
        """Serves when it returns; started again, at the same address."""
        ready, say = os.pipe()
        order = StartOptions(port=self.port, ready=say)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tieline.bootstrap", msgspec.json.encode(order).decode()],
            cwd=self._cli.place,
            env=self._cli.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[say],
            start_new_session=True,
        )
        os.close(say)
        try:
            with os.fdopen(ready, "rb") as told:
                found, _, _ = select.select([told], [], [], 2 * WAIT_S)
                line = told.readline() if found else b""
            started = msgspec.json.decode(line or b"{}", type=StartResult)
            assert started.url, started
        except BaseException:
            self.kill()
            raise
        self.url = started.url
        self.port = int(started.url.rpartition(":")[2])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: not a word of farewell."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            self._process.wait(WAIT_S)
            self._process = None

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
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
        (id,) = (one.id for one in self.sessions() if one.title == title)
        return self.until(id, lambda record: record.status not in ("working", "waiting"))

    def until(self, session: str, true: Callable[[SessionRecord], bool]) -> SessionRecord:
        """The session when it has come so far."""
        deadline = time.monotonic() + WAIT_S
        while True:
            (found,) = (one for one in self.sessions() if one.id == session)
            if true(found):
                return found
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
