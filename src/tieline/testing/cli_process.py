"""The command line, run for real: as a program whose output is read, or in a terminal with a person's keys."""

import os
import re
import select
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from ..script import Reply
from . import fork_server
from .rig import scratch_env

WAIT_S = 30.0
"""No command of a test takes longer."""
ESCAPES = re.compile(r"\x1b(\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\^_])")


class CliProcess:
    """`tieline` with an environment from scratch, and agents that play scripts."""

    def __init__(self, root: Path, *, path: str = "/usr/bin:/bin") -> None:
        self.place = root / "place"
        self.place.mkdir(parents=True)
        self._root = root
        self._config = root / "tieline.toml"
        self._config.touch()
        self.env: Mapping[str, str] = scratch_env(root / "home", path=path, TIELINE_CONFIG=str(self._config))

    @property
    def program(self) -> str:
        return str(Path(sys.executable).with_name("tieline"))

    def agent(self, name: str, *replies: Reply) -> None:
        """An agent by that name whose model is a script."""
        script = self._root / f"{name}.json"
        script.write_bytes(msgspec.json.encode(replies))
        self.configure(f'[agents.{name}]\ntype = "scripted"\nscript = "{script}"\n')

    def configure(self, toml: str) -> None:
        """Add to the configuration."""
        self._config.write_text(self._config.read_text() + toml)

    def start(self, *arguments: str, stdin: int | None = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [self.program, *arguments],
            cwd=self.place, env=self.env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *arguments: str, given: str = "", timeout: float = WAIT_S) -> "subprocess.CompletedProcess[str]":
        """To its end, without a terminal; in a process that has the imports done, where that makes no difference."""
        if not fork_server.can_run(self.env, given):
            return self.run_program(*arguments, given=given, timeout=timeout)
        argv = [self.program, *arguments]
        return fork_server.server("cli").run(argv, cwd=self.place, env=self.env, given=given, timeout=timeout)

    def run_program(
        self, *arguments: str, given: str = "", timeout: float = WAIT_S
    ) -> "subprocess.CompletedProcess[str]":
        """The same, started as a person starts it."""
        return subprocess.run(
            [self.program, *arguments],
            cwd=self.place, env=self.env, input=given, capture_output=True, text=True, timeout=timeout,
            start_new_session=True,  # no controlling terminal either
        )  # fmt: skip

    @contextmanager
    def terminal(
        self, *arguments: str, columns: int = 100, rows: int = 40, redirect: str = "", term: str = "xterm-256color"
    ) -> Generator["Terminal", None, None]:
        """In a terminal of its own. `redirect` is for the shell: `> file`, `< file`."""
        terminal = Terminal([self.program, *arguments], self.place, {**self.env, "TERM": term}, columns, rows, redirect)
        try:
            yield terminal
        finally:
            terminal.close()


class Terminal:
    """A pseudo-terminal and the program that runs in it."""

    def __init__(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], columns: int, rows: int, redirect: str
    ) -> None:
        self._master, slave = os.openpty()
        self._slave = slave
        termios.tcsetwinsize(slave, (rows, columns))
        self._raw = bytearray()
        self._seen = 0
        self._ended = False
        self._changed = threading.Condition(threading.RLock())
        self._wake = os.pipe()
        self._modes_before = self._modes()
        self.restored = False  # whether the terminal was left as it had been found
        # A session leader that opens a terminal gets it as its controlling one; so the shell opens it, after setsid.
        name = os.ttyname(slave)
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$@" <"{name}" >"{name}" 2>&1 {redirect}', "sh", *argv],
            cwd=cwd, env=env, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def raw(self) -> str:
        with self._changed:
            return self._raw.decode(errors="replace")

    @property
    def text(self) -> str:
        """All that was ever shown, without control codes."""
        return ESCAPES.sub("", self.raw).replace("\r", "")

    def expect(self, text: str, *, timeout: float = WAIT_S) -> None:
        """Wait until the text appears after the text that was expected before."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while (position := self.text.find(text, self._seen)) < 0:
                left = deadline - time.monotonic()
                if left <= 0 or self._ended or not self._changed.wait(left):
                    raise AssertionError(f"{text!r} did not appear in:\n{self.text[self._seen :]}")
            self._seen = position + len(text)

    def send(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait(self, timeout: float = WAIT_S) -> int:
        """The exit status, when everything that it wrote has been read."""
        status = self.process.wait(timeout)
        self.restored = self._modes() == self._modes_before
        self._close_slave()
        self._reader.join(timeout)
        return status

    def hang_up(self) -> None:
        """Close the window."""
        os.write(self._wake[1], b"x")
        self._reader.join(WAIT_S)
        self._close_slave()
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(WAIT_S)
        self.hang_up()
        for descriptor in self._wake:
            os.close(descriptor)

    def _close_slave(self) -> None:
        if self._slave >= 0:
            os.close(self._slave)
            self._slave = -1

    def _modes(self) -> list[object]:
        return list(termios.tcgetattr(self._slave))

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._master, self._wake[0]], [], [])
            chunk = b""
            if self._wake[0] not in ready:
                with suppress(OSError):  # nobody has the other side open any more
                    chunk = os.read(self._master, 65536)
            with self._changed:
                self._raw += chunk
                self._ended = not chunk
                self._changed.notify_all()
            if not chunk:
                return
