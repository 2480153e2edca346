"""Sessions with the real OpenCode, for its tests."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tieline.api import open_session
from tieline.events import Event
from tieline.sessions.session import Session
from tieline.testing.rig import Rig
from tieline.testing.rigs.opencode import OpenCodeRig
from tieline.testing.stream_checks import collect

PROGRAM = str(Path(__file__).parents[1] / "agents/node_modules/.bin/opencode")


@asynccontextmanager
async def kept_open(home: Path) -> AsyncGenerator[OpenCodeRig, None]:
    """One server for many sessions, as in real life: for those whose commands are allowed, and for the others. (A start
    takes six seconds of a processor.)"""
    home.mkdir(exist_ok=True)
    async with OpenCodeRig(home / "home", PROGRAM) as rig, open_(rig, home), open_(rig, home, policy="ask"):
        yield rig


def open_(rig: Rig, cwd: Path, **options: Any) -> Session:
    chosen: dict[str, Any] = {"policy": "full", **rig.options, **options}
    return open_session(rig.driver, cwd=cwd, **chosen)


async def one_turn(rig: Rig, cwd: Path, **options: Any) -> list[Event]:
    async with open_(rig, cwd, **options) as session:
        return await collect(session.turn("go"))
