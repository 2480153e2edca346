"""Every tool that an agent offers its model is in the table: one that it learns anew fails here until it has a row."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.asks.agents import CASTS
from tests.asks.stage import TURN_S, Cast
from tests.asks.words import KINDS, TOOLS

from tieline.api import open_session
from tieline.events import Init
from tieline.policy import Policy
from tieline.script import Say
from tieline.testing.model_rig import ModelRig
from tieline.testing.stream_checks import collect

REAL = [cast for cast in CASTS if cast.agent in TOOLS]


def offered(body: Mapping[str, Any]) -> Iterator[str]:
    """The names of the tools in a request, in the words of any vendor."""
    for tool in body.get("tools") or body.get("tool_definitions") or ():
        for each in tool.get("functionDeclarations") or [tool.get("function") or tool]:
            yield str(each.get("name") or each["type"])


def test_each_tool_that_asks_has_its_row() -> None:
    assert set(TOOLS) == {agent for agent in KINDS if agent not in ("scripted", "shell")}
    for agent, tools in TOOLS.items():
        assert {kind for kind in tools.values() if kind} <= set(KINDS[agent])


async def offered_tools(cast: Cast, root: Path) -> set[str]:
    """The names of all tools that an agent offers its model, in the sessions of its rows."""
    names: set[str] = set()
    place = root / "place"
    place.mkdir()
    async with cast.rig(root / "home") as rig:
        assert isinstance(rig, ModelRig)
        sessions: list[Mapping[str, Any]] = []
        for row in cast.rows(place):
            if row.options in sessions:
                continue
            sessions.append(row.options)
            rig.play([Say("Nothing to do.")])
            given: dict[str, Any] = {"policy": Policy(), **rig.options, **row.options}
            async with open_session(rig.driver, cwd=place, **given) as session, asyncio.timeout(TURN_S):
                for event in await collect(session.turn("Which tools are there?")):
                    names.update(event.tools if isinstance(event, Init) else ())
            for body in rig.model.requests:
                names.update(offered(body))
    return names


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("cast", REAL, ids=lambda cast: cast.agent)
async def test_every_tool_is_known(cast: Cast, tmp_path: Path) -> None:
    assert await offered_tools(cast, tmp_path) == set(TOOLS[cast.agent])
