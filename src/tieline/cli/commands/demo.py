"""`tieline demo`: a scripted agent mends a small project. The edits, the commands and the asks are real."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from ... import config as configuration
from ...api import open_session
from ...drivers.base import Prompt
from ...sessions.ask_decisions import OnAsk
from ..run.run_options import RunOptions
from ..run.standalone import StandaloneTurn
from ..run.terminal_io import TerminalIO
from ..run.turn_runner import TurnRunner, TurnSource

SCRIPT = Path(__file__).with_name("demo.json")
PROMPT = "The greeting is wrong. Please fix it."
PROJECT = {
    "greeting.py": '"""Says hello."""\n\n\ndef greet(name: str) -> str:\n    return "Hello " + name\n\n\n'
    'if __name__ == "__main__":\n    print(greet("world"))\n',
    "test_greeting.py": 'from greeting import greet\n\nsaid = greet("Ada")\n'
    'assert said == "Hello, Ada!", f"it says {said!r}"\nprint("passed: it says", said)\n',
}
NEXT = """Try next:
  tieline agents                       which coding agents are on this machine
  tieline run codex "your task"        the same view, with a real agent
  tieline up                           the hub: the same on a page and a phone
  tieline run --help                   policies, resuming, JSON for programs"""


def run_demo(*, yes: bool, keep: bool) -> int:
    directory = Path(tempfile.mkdtemp(prefix="tieline-demo-")).resolve()
    try:
        for name, content in PROJECT.items():
            (directory / name).write_text(content)
        status = _turn(directory, yes=yes)
        print(_report(directory, keep=keep))
        return status
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)


def _turn(directory: Path, *, yes: bool) -> int:
    config = configuration.load()
    agents = {"demo": {"type": "scripted", "script": str(SCRIPT)}}
    config = replace(config, agents=agents, environ=_environment(config.environ))
    nobody = not (sys.stdin.isatty() and sys.stdout.isatty())
    request = RunOptions(agent="demo", prompt=PROMPT, cwd=str(directory), on_ask="allow" if yes or nobody else "")
    terminal = TerminalIO(request, config, show_prompt=True, choose_first=True)

    def opener(on_ask: OnAsk) -> TurnSource:
        return StandaloneTurn(open_session("demo", cwd=directory, policy="ask", on_ask=on_ask, config=config))

    async def perform() -> int:
        leave = lambda: shutil.rmtree(directory, ignore_errors=True)  # noqa: E731
        return await TurnRunner(terminal, opener, Prompt(PROMPT), leave=leave).run()

    return asyncio.run(perform())


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The demo's commands find the Python that runs us, whatever else is installed; and leave no caches."""
    path = os.pathsep.join([str(Path(sys.executable).parent), environ.get("PATH", os.defpath)])
    return {**environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def _report(directory: Path, *, keep: bool) -> str:
    changed = [name for name, content in PROJECT.items() if (directory / name).read_text() != content]
    new = sorted(str(entry.relative_to(directory)) for entry in directory.iterdir() if entry.name not in PROJECT)
    what = ", ".join(changed + new)
    head = f"It changed {what}" if what else "Nothing was changed"
    where = f"Everything is in {directory}" if keep else "The directory was removed; --keep keeps it"
    return f"\n{head}. {where}.\n\n{NEXT}"
