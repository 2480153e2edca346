"""The matrix has everything: a new driver, a new verb that answers, a new channel without its place fails here."""

import re
from pathlib import Path

import pytest
from tests.asks.agents import CASTS, MORE_CASTS
from tests.asks.stage import Cast
from tests.asks.surfaces import CHANNELS, COLUMNS, VERBS
from tests.asks.words import KINDS, TOOLS
from tests.browser.cards import WIDTHS

from tieline.drivers.acp_presets import PRESETS
from tieline.drivers.registry import BUILT_IN
from tieline.relay.channel_plugins import loader
from tieline.relay.channel_plugins.loader import BUILT_IN as BUILT_IN_CHANNELS

CLI = Path(__file__).parents[2] / "src/tieline/cli"
TOUCHES = re.compile(r"from \.[\w.]*\b(?:ask_panel|ask_text|permission_prompt|session_view) import")
"""An import of a module that shows asks on a terminal."""
SURFACES = {
    "page 390", "page desktop", "tieline run", "tieline approve", "tieline approve on a terminal", "tieline tail",
    "tieline tail on a terminal", "tieline team", "JSON", "Telegram", "push", "push without content",
}  # fmt: skip
"""Every place where a person, or a program for them, meets an ask."""


ASKED_ELSEWHERE = {"opencode-acp": "the program, the tools and the asks are those of `opencode`, whose rows are played"}
"""Tested presets without rows → why."""


def test_every_driver_has_its_rows() -> None:
    played = {cast.agent for cast in (*CASTS, *MORE_CASTS)}
    types = {"acp" if agent in PRESETS else agent for agent in played}
    assert types == set(BUILT_IN), "a driver without rows in tests/asks/agents.py"
    assert played == set(KINDS)
    tested = {name for name, preset in PRESETS.items() if preset.tested}
    assert tested - played == set(ASKED_ELSEWHERE), "a tested preset without rows in tests/asks/agents.py"


@pytest.mark.parametrize("cast", (*CASTS, *MORE_CASTS), ids=lambda cast: cast.agent)
def test_every_kind_of_ask_has_its_row(cast: Cast, tmp_path: Path) -> None:
    rows = [row.kind for row in cast.rows(tmp_path)]
    assert len(rows) == len(set(rows))
    assert set(rows) == set(KINDS[cast.agent])


def test_each_tool_that_asks_has_its_row() -> None:
    assert set(TOOLS) == {agent for agent in KINDS if agent not in ("scripted", "shell")}
    for agent, tools in TOOLS.items():
        assert {kind for kind in tools.values() if kind} <= set(KINDS[agent])


def test_every_surface_has_its_column() -> None:
    assert set(COLUMNS) == SURFACES, "a place where asks are shown without its column in tests/asks/surfaces.py"
    assert WIDTHS["page 390"]["width"] == 390
    assert WIDTHS["page desktop"]["width"] >= 1280


def test_every_verb_that_shows_asks_has_its_column() -> None:
    """A module of the command line that uses one of those that show asks is one of a verb that we know."""
    known = {
        "asks", "sessions", "tail", "answering_stream", "permission_prompt", "terminal_io", "turn_runner",
        "session_view", "ask_views",
        "app",  # of `tieline top`, tells what was decided; what waits is shown as in a team
        "completion_values",  # names them beside their ids; the verb that is completed shows the one that is chosen
    }  # fmt: skip
    users = {module.stem for module in CLI.rglob("*.py") if TOUCHES.search(module.read_text())}
    assert users == known, "a module shows asks: give its verb a column in tests/asks/surfaces.py"
    assert set(VERBS.values()) <= set(COLUMNS)


def test_every_channel_has_its_column() -> None:
    assert set(CHANNELS) == set(BUILT_IN_CHANNELS), "a channel without its place in tests/asks/surfaces.py"
    assert {column for column in CHANNELS.values() if column} <= set(COLUMNS)
    channels = Path(loader.__file__).parents[2] / "channels"
    for name, column in CHANNELS.items():
        files = [channels / f"{name}.py"] if (channels / f"{name}.py").exists() else (channels / name).glob("*.py")
        decides = any("asks.decide(" in file.read_text() for file in files)
        assert decides == bool(column), f"{name} decides asks: show what it shows in a column"
