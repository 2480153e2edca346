"""The rows of the matrix: every kind of ask that each agent can make, and what its model does to bring it about.

A new driver has its cast here, or `test_complete` fails.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.asks.stage import Cast, Row
from tests.asks.words import long, spoken

from tieline.script import Call, Run, Write
from tieline.testing.rig import Rig
from tieline.testing.rigs.claude_code import ClaudeCodeRig
from tieline.testing.rigs.codex import codex_rig
from tieline.testing.rigs.gemini import GeminiRig
from tieline.testing.rigs.opencode import OpenCodeRig
from tieline.testing.rigs.scripted import ScriptedRig
from tieline.testing.rigs.shell import ShellRig

BINARIES = Path(__file__).parents[1] / "agents/node_modules/.bin"


def claude_code(place: Path) -> Sequence[Row]:
    file = place / "greeting.py"
    return (
        Row(
            kind="edit",
            prepare=lambda place: file.write_text("one\nold words\nthree\n"),
            replies=(
                [Call("Read", {"file_path": str(file)})],
                [Call("Edit", {"file_path": str(file), "old_string": "old words", "new_string": spoken("\n")})],
            ),
        ),
        Row(kind="command", replies=([Run(f"echo {spoken()}")],)),
        Row(kind="long command", replies=([Run(f"echo {long()}")],), bidi=False),
    )


def command(place: Path) -> Sequence[Row]:
    return (Row(kind="command", replies=([Run(f"touch {spoken()}")],)),)


def scripted(place: Path) -> Sequence[Row]:
    return (*command(place), Row(kind="edit", replies=([Write("new.txt", spoken("\n"))],)))


@asynccontextmanager
async def still(rig: Rig) -> AsyncGenerator[Rig, None]:
    """A rig without anything to open."""
    yield rig


CASTS = (
    Cast(agent="claude-code", rig=ClaudeCodeRig, rows=claude_code),
    Cast(agent="codex", rig=lambda home: codex_rig(home, BINARIES / "codex"), rows=command),
    Cast(agent="opencode", rig=lambda home: OpenCodeRig(home, str(BINARIES / "opencode")), rows=command),
    Cast(agent="gemini", rig=lambda home: GeminiRig(home, BINARIES), rows=command),
    Cast(agent="scripted", rig=lambda home: still(ScriptedRig(home)), rows=scripted),
    Cast(agent="shell", rig=lambda home: still(ShellRig(home)), rows=lambda place: ()),
)
