"""A person's terminal: a program in tmux, a real terminal emulator, with keys typed and the screen read as text."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

COLUMNS, ROWS = 140, 45
LOOK_S = 0.1
SCREEN_S = 120.0
"""An agent's terminal shows what it should within this time, also on a busy machine."""
TMUX_S = 20.0
PRESS_AGAIN_S = 4.0
GONE_LOOKS = 3
"""While a program draws its screen, the cursor is elsewhere: what is to be gone from the input is gone so often."""


class TmuxTerminal:
    """`async with TmuxTerminal(argv, cwd, env) as terminal`. It has a tmux server of its own. At the end every process
    with the HOME of `env` is killed, since some agents leave a daemon behind; unless that HOME is `shared` with others.
    """

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        *,
        columns: int = COLUMNS,
        rows: int = ROWS,
        shared: bool = False,
    ) -> None:
        self._size = ("-x", str(columns), "-y", str(rows))
        self._shared = shared
        self._argv = tuple(argv)
        self._cwd = cwd
        self._env = {**env, "TERM": "xterm-256color"}
        self._folder = Path(tempfile.mkdtemp(prefix="tmux-"))

    async def __aenter__(self) -> "TmuxTerminal":
        variables = [f"{name}={value}" for name, value in self._env.items()]
        command = ("env", "-i", *variables, *self._argv)
        await self._tmux("-f", "/dev/null", "new-session", "-d", *self._size, "-c", str(self._cwd), *command)
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(AssertionError):  # its last program has ended, and so has the server
            await self._tmux("kill-server")
        if not self._shared:
            kill_all_of(Path(self._env["HOME"]))
        shutil.rmtree(self._folder, ignore_errors=True)

    async def type(self, text: str) -> None:
        await self._tmux("send-keys", "-l", text)

    async def key(self, *names: str) -> None:
        """By tmux's names: Enter, Escape, C-c, Up."""
        await self._tmux("send-keys", *names)

    async def answer(self, question: str, *names: str) -> None:
        """Press keys once `question` is on the screen, and again as long as it stays, as a person does: programs drop
        a key that comes while they draw their question."""
        await self.shows(question)
        async with asyncio.timeout(SCREEN_S):
            while question in await self.screen():
                await self.key(*names)
                with suppress(AssertionError):
                    await self.until(lambda screen: question not in screen, "an answer", timeout=PRESS_AGAIN_S)

    async def hang_up(self) -> None:
        """Close the window."""
        await self._tmux("kill-server")

    async def submit(self, text: str) -> None:
        """Type a line and press Enter, and again as long as the text stays in the input: some programs take an Enter
        that comes in a burst of keys as part of what was pasted, or drop it."""
        await self.type(text)
        await self.shows(text[-40:])
        async with asyncio.timeout(SCREEN_S):
            while True:
                await self.key("Enter")
                gone = 0
                for _ in range(round(PRESS_AGAIN_S / LOOK_S)):
                    gone = 0 if await self._in_input(text[-10:].strip()) else gone + 1
                    if gone == GONE_LOOKS:
                        return
                    await asyncio.sleep(LOOK_S)

    async def _in_input(self, text: str) -> bool:
        """Whether it stands at the cursor, or in the line above it."""
        try:
            line = int(await self._tmux("display-message", "-p", "#{cursor_y}"))
            return text in await self._tmux("capture-pane", "-p", "-S", str(max(0, line - 1)), "-E", str(line))
        except AssertionError:  # the program has ended, and tmux with it
            return False

    async def quit(self) -> None:
        """Press Ctrl-C, and again as long as the program runs, as a person does: while it ends a turn, a program takes
        the first press for that turn."""
        async with asyncio.timeout(SCREEN_S):
            while await self._runs():
                with suppress(AssertionError):  # it has ended meanwhile
                    await self.key("C-c")
                for _ in range(round(PRESS_AGAIN_S / LOOK_S)):
                    if not await self._runs():
                        return
                    await asyncio.sleep(LOOK_S)

    async def _runs(self) -> bool:
        try:
            await self._tmux("list-panes")
        except AssertionError:  # tmux ends with its last program
            return False
        return True

    async def kill(self) -> None:
        """End the program and what shares its terminal by SIGKILL, as a crash or a closed machine does."""
        os.killpg(int(await self._tmux("display-message", "-p", "#{pane_pid}")), signal.SIGKILL)

    async def screen(self, *, colours: bool = False) -> str:
        """`colours`: with the escape sequences of its colours and styles."""
        return await self._tmux("capture-pane", "-p", "-J", *(("-e",) if colours else ()))

    async def shows(self, text: str, *, timeout: float = SCREEN_S) -> str:
        """The screen once `text` is on it."""
        return await self.until(lambda screen: text in screen, f"{text!r} on the screen", timeout=timeout)

    async def until(self, holds: Callable[[str], bool], what: str, *, timeout: float = SCREEN_S) -> str:
        screen = ""
        try:
            async with asyncio.timeout(timeout):
                while not holds(screen := await self.screen()):  # noqa: ASYNC110 (a screen has no events to wait for)
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise AssertionError(f"not within {timeout:g} s: {what}. The screen:\n{screen}") from None
        return screen

    async def _tmux(self, *arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            "tmux", "-S", str(self._folder / "socket"), *arguments,
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "TERM": "xterm-256color", "HOME": str(self._folder)},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        async with asyncio.timeout(TMUX_S):
            output, problem = await process.communicate()
        assert process.returncode == 0, f"tmux {arguments[0]}: {problem.decode(errors='replace')}"
        return output.decode(errors="replace")


def kill_all_of(home: Path) -> None:
    """End every process that has this HOME."""
    mark = b"\0HOME=" + os.fsencode(home) + b"\0"
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(entry.name) != os.getpid() and mark in b"\0" + (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
