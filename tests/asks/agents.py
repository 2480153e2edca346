"""The rows of the matrix: every kind of ask that each agent can make, and what its model does to bring it about.

A new driver has its cast here, or `test_complete` fails.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.asks.rows import (
    auggie,
    claude_code,
    codex,
    codex_acp,
    copilot,
    gemini,
    kimi,
    opencode,
    openhands,
    pi,
    qwen,
    vibe,
)
from tests.asks.stage import Cast, Row
from tests.asks.words import SPOKEN, spoken
from tests.more_agents.python.install import binaries

from tieline.script import Get, Inquire, Propose, Run, Write
from tieline.testing.rig import Rig
from tieline.testing.rigs.acp import (
    AuggieRig,
    ClaudeAgentAcpRig,
    CodexAcpRig,
    CopilotRig,
    GeminiRig,
    KimiRig,
    OpenHandsRig,
    QwenRig,
    VibeRig,
)
from tieline.testing.rigs.claude_code import ClaudeCodeRig
from tieline.testing.rigs.codex import codex_rig
from tieline.testing.rigs.opencode import OpenCodeRig
from tieline.testing.rigs.pi import PiRig
from tieline.testing.rigs.scripted import ScriptedRig
from tieline.testing.rigs.shell import ShellRig

BINARIES = Path(__file__).parents[1] / "agents/node_modules/.bin"
MORE = Path(__file__).parents[1] / "more_agents/node_modules/.bin"
"""Agents that `make test-agents` installs, with the Node.js that they need."""


def scripted(cwd: Path) -> Sequence[Row]:
    first, middle, last = SPOKEN
    return (
        Row(kind="command", replies=([Run(f"touch {spoken()}")],)),
        Row(kind="edit", replies=([Write("new.txt", spoken("\n"))],)),
        Row(kind="fetch", replies=([Get(f"http://127.0.0.1:9/{first}?{middle}#{last}")],), bidi=False),
        Row(kind="question", replies=([Inquire(f"{first} {spoken()}?", (middle, last))],)),
        Row(kind="plan", replies=([Propose(spoken("\n"))],)),
    )


@asynccontextmanager
async def still(rig: Rig) -> AsyncGenerator[Rig, None]:
    """A rig without anything to open."""
    yield rig


CASTS = (
    Cast(agent="claude-code", rig=ClaudeCodeRig, rows=claude_code.rows),
    Cast(agent="codex", rig=lambda home: codex_rig(home, BINARIES / "codex", config=codex.CONFIG), rows=codex.rows),
    Cast(agent="opencode", rig=lambda home: OpenCodeRig(home, str(BINARIES / "opencode")), rows=opencode.rows),
    Cast(agent="gemini", rig=lambda home: GeminiRig(home, BINARIES), rows=gemini.rows),
    Cast(agent="copilot", rig=lambda home: CopilotRig(home, BINARIES), rows=copilot.rows),
    Cast(agent="qwen", rig=lambda home: QwenRig(home, BINARIES), rows=qwen.rows),
    Cast(agent="scripted", rig=lambda home: still(ScriptedRig(home)), rows=scripted),
    Cast(agent="shell", rig=lambda home: still(ShellRig(home)), rows=lambda cwd: ()),
)

MORE_CASTS = (
    Cast(agent="pi", rig=lambda home: PiRig(home, MORE / "pi", MORE), rows=pi.rows),
    Cast(agent="claude-agent-acp", rig=lambda home: ClaudeAgentAcpRig(home, MORE), rows=claude_code.rows),
    Cast(agent="codex-acp", rig=lambda home: CodexAcpRig(home, MORE), rows=codex_acp.rows),
    Cast(agent="kimi", rig=lambda home: KimiRig(home, MORE), rows=kimi.rows),
    Cast(agent="vibe", rig=lambda home: VibeRig(home, binaries("vibe")), rows=vibe.rows),
    Cast(agent="openhands", rig=lambda home: OpenHandsRig(home, binaries("openhands")), rows=openhands.rows),
    Cast(agent="auggie", rig=lambda home: AuggieRig(home, MORE), rows=auggie.rows),
)
"""Played by `make test-agents`."""
