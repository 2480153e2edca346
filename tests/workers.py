"""A real agent for a hub's configuration, under the name `worker`."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from tieline.testing.rigs.claude_code import ClaudeCodeRig
from tieline.testing.rigs.codex import codex_rig

CODEX = Path(__file__).parent / "agents/node_modules/.bin/codex"


@asynccontextmanager
async def worker(kind: Literal["claude-code", "codex"], home: Path) -> AsyncGenerator[tuple[Any, str], None]:
    """Its rig, and its entry in the configuration."""
    rig: AbstractAsyncContextManager[Any] = ClaudeCodeRig(home)
    entry = f'[agents.worker]\ntype = "{kind}"\n'
    if kind == "codex":
        rig = codex_rig(home, CODEX)
        entry += f'command = ["{CODEX}"]\n'
    async with rig as opened:
        yield opened, entry
