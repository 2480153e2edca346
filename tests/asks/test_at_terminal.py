"""An ask that only its terminal can answer: each surface says where, and none offers to decide it."""

from typing import Literal, cast

import pytest
from msgspec.structs import replace
from tests.asks.stage import Caught, Row
from tests.asks.surfaces import COLUMNS, Surfaces
from textual.app import App, ComposeResult

from tieline.ask_parts import ask_parts
from tieline.cli.commands.asks import select_ask
from tieline.cli.full_screen import ask_views
from tieline.cli.full_screen.ask_decider import AskDecider
from tieline.cli.full_screen.ask_views import AskPanel, AskScreen
from tieline.client import Client
from tieline.errors import UsageError
from tieline.events import Ask, Choice, Command, Question
from tieline.protocol.request_bodies import Decision
from tieline.sessions.attached_session import ANSWER_THERE
from tieline.sessions.records import AskRecord, SessionRecord, digest

COLOUR = Question(id="q", text="Which colour?", choices=(Choice("1", "red"),))
ASKS = {
    "permission": Ask("ask-1", "permission", "Run it", action=Command("touch it")),
    "withheld": Ask("ask-2", "permission", "Run it", action=Command("touch"), withheld="Its arguments."),
    "question": Ask(
        "ask-3", "question", questions=(Question(id="q", text="Which colour?", choices=(Choice("1", "red"),)),)
    ),
    "plan": Ask("ask-4", "plan", plan="Paint it red."),
}
LONG = Ask("ask-5", "permission", action=Command("\n".join(f"echo {number}" for number in range(200))))


def caught(ask: Ask, at_terminal: str) -> Caught:
    ask = replace(ask, at_terminal=at_terminal)
    record = AskRecord(id=ask.id, session="s", ask=ask, digest=digest(ask), expires_at=4e9, parts=ask_parts(ask))
    session = SessionRecord(id="s", agent="gemini", cwd="/place", title="Of a person", kind="attached")
    return Caught(row=Row(kind=ask.kind, replies=()), record=record, session=session)


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("column", COLUMNS)
async def test_every_surface_says_where_it_is_answered_and_offers_nothing(column: str, surfaces: Surfaces) -> None:
    for kind, ask in ASKS.items():
        if kind == "permission":  # else it could not be told that nothing is offered
            assert (await COLUMNS[column](caught(replace(ask, id="other"), ""), surfaces)).decides
        shown = await COLUMNS[column](caught(ask, ANSWER_THERE), surfaces)
        assert ANSWER_THERE in shown.text, kind
        assert "only be denied" not in shown.text, kind
        assert not shown.decides, kind


class Waiting:
    """A client of a hub where these wait."""

    def __init__(self, *records: AskRecord) -> None:
        self._records = list(records)

    async def asks(self) -> list[AskRecord]:
        return self._records


async def test_a_verb_without_a_name_takes_what_can_be_decided_from_here() -> None:
    there, here = caught(ASKS["permission"], ANSWER_THERE).record, caught(ASKS["plan"], "").record
    assert await select_ask(cast("Client", Waiting(there, here)), "", "approve") == here
    with pytest.raises(UsageError, match=ANSWER_THERE):
        await select_ask(cast("Client", Waiting(there)), "", "approve")


class Screen(App[None]):
    """The panel of one ask, as `tieline top` and `tieline team` have it."""

    def __init__(self) -> None:
        super().__init__()
        self.panel = AskPanel()
        self.sent: list[Decision] = []
        self.decider = AskDecider(
            self,
            self.panel,
            about=lambda record: ("gemini", "/place"),
            send=lambda typed, record, decision: self.sent.append(decision),
            fill=lambda text: self.sent.append(Decision(decision="allow")),
        )

    def compose(self) -> ComposeResult:
        yield self.panel


@pytest.mark.parametrize("kind", ASKS)
async def test_no_key_and_no_command_of_a_full_screen_decides_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask_views, "SEEN_S", 0.0)
    keys: tuple[Literal["allow", "deny"], ...] = ("allow", "deny")
    async with (app := Screen()).run_test() as pilot:
        app.decider.show(caught(ASKS[kind], ANSWER_THERE).record, 0)
        await pilot.pause()
        for key in keys:
            with pytest.raises(UsageError, match=ANSWER_THERE):
                app.decider.by_key(key)
        for line in ("/allow", "/deny no", *(("/answer 1",) if kind == "question" else ())):
            with pytest.raises(UsageError, match=ANSWER_THERE):
                app.decider.typed(line)
        assert not app.sent


@pytest.mark.slow
async def test_a_long_one_is_read_on_a_full_screen_and_not_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask_views, "SEEN_S", 0.0)
    async with (app := Screen()).run_test() as pilot:
        app.decider.show(caught(LONG, ANSWER_THERE).record, 0)
        await pilot.pause()
        app.decider.by_key("allow")
        await pilot.pause()
        assert isinstance(app.screen, AskScreen)
        await pilot.press("n", "end", "y")
        assert isinstance(app.screen, AskScreen), "a key has decided it"
        await pilot.press("escape")
        assert not isinstance(app.screen, AskScreen)
        assert not app.sent
