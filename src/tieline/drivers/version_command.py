"""What an agent's program answers to `--version`: run to its end, bounded in time and size."""

import asyncio
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ..background_tasks import cancel_and_wait
from ..processes.async_process import Process
from ..wire.lines import LineTooLong

VERSION_S = 30.0
"""Some agents need seconds of CPU for it, and the machine may be busy with others."""
MAX_LINES = 20


class VersionAnswer(Struct, frozen=True):
    lines: tuple[str, ...]
    """The first ones that are not empty."""
    status: int
    stderr: str

    @property
    def failure(self) -> str:
        """Empty: it printed something, and says that all went well."""
        if self.status or not self.lines:
            return self.stderr.strip()[-500:] or f"exit status {self.status}"
        return ""


class _Question:
    """A program that is being asked, and how many wait for what it says."""

    def __init__(self, answer: asyncio.Task[VersionAnswer]) -> None:
        self.answer = answer
        self.waiting = 0


_asked: dict[object, _Question] = {}


async def ask_version(argv: Sequence[str], env: Mapping[str, str], *, cwd: str = "/") -> VersionAnswer:
    """Raises OSError and ValueError where it cannot be started, TimeoutError where it does not end.

    Two drivers of one program ask it at the same time: it is run once, for both."""
    same = (asyncio.get_running_loop(), tuple(argv), frozenset(env.items()), cwd)
    question = _asked.get(same)
    if question is None:
        question = _asked[same] = _Question(asyncio.create_task(_ask(argv, env, cwd)))
    question.waiting += 1
    try:
        return await asyncio.shield(question.answer)
    finally:
        question.waiting -= 1
        if not question.waiting or question.answer.done():
            if _asked.get(same) is question:
                del _asked[same]
            await cancel_and_wait(question.answer)


async def _ask(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> VersionAnswer:
    lines: list[str] = []
    try:
        async with asyncio.timeout(VERSION_S), Process.start(argv, cwd=cwd, env=env) as process:
            process.close_stdin()
            try:
                async for batch in process.lines():
                    words = (line.decode(errors="replace").strip() for line in batch)
                    lines += [line for line in words if line][: MAX_LINES - len(lines)]
            except LineTooLong:
                process.kill()  # no version begins like that
            await process.wait(None)
            return VersionAnswer(tuple(lines), process.returncode or 0, process.stderr)
    except TimeoutError:
        raise TimeoutError(f"no answer within {VERSION_S:g} s") from None
