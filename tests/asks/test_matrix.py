"""Each agent × each kind of ask that it can make × each place where a person meets it.

The agents are the real programs over the scripted model. What decides must be readable in every cell, from its first
character to its last; where it is not, nothing can be allowed there.
"""

import pytest
import pytest_asyncio
from tests.asks.agents import CASTS
from tests.asks.stage import Caught, Played, play
from tests.asks.surfaces import COLUMNS, Shown, Surfaces
from tests.asks.words import BIDI_MARK, TOOLS

from tieline.visible_text import hidden, marked

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="session"),
]


def faults(caught: Caught, column: str, shown: Shown) -> list[str]:
    """What is wrong with a cell."""
    cell = f"{caught.session.agent} × {caught.row.kind} × {column}"
    ask, text = caught.record.ask, shown.text
    missing = [marker for marker in caught.row.markers if marker not in text]
    problems: list[str] = []
    if ask.withheld:
        if shown.allow:
            problems.append(f"{cell}: something is withheld, and yet it can be allowed")
        if shown.whole and marked(ask.withheld) not in text and column != "JSON":
            problems.append(f"{cell}: it does not say what is withheld")
    elif missing and (shown.whole or shown.allow):
        problems.append(f"{cell}: {', '.join(missing)} cannot be seen in\n{text[:2000]}")
    if seen := sorted({f"U+{ord(character):04X}" for character in text if hidden(character)}):
        problems.append(f"{cell}: {', '.join(seen)} in it cannot be seen")
    if caught.row.bidi and not missing and BIDI_MARK not in text:
        problems.append(f"{cell}: the character that turns the order around is not marked")
    return problems


async def faults_on_every_surface(played: Played, surfaces: Surfaces) -> list[str]:
    """What is wrong with the asks of an agent."""
    wrong: list[str] = []
    for caught in played.caught:
        if bool(caught.record.ask.withheld) != caught.row.withheld:
            wrong.append(f"{played.cast.agent} × {caught.row.kind}: withheld is {caught.record.ask.withheld!r}")
        for name, column in COLUMNS.items():
            wrong += faults(caught, name, await column(caught, surfaces))
    return wrong


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=CASTS, ids=lambda cast: cast.agent)
async def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    return await play(request.param, tmp_path_factory.mktemp("asks"))


async def test_every_ask_is_whole_on_every_surface(played: Played, surfaces: Surfaces) -> None:
    wrong = await faults_on_every_surface(played, surfaces)
    assert not wrong, "\n\n".join(wrong)


async def test_every_tool_is_known(played: Played) -> None:
    """One that an agent learns anew fails here until it has a row."""
    assert played.tools == set(TOOLS.get(played.cast.agent, ()))
