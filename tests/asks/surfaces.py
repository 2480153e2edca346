"""The columns of the matrix: every place where a person meets an ask, rendered by the very code that a verb or a
channel runs, to what a person reads there and whether it lets them allow."""

import asyncio
import io
import re
from collections.abc import Awaitable, Callable, Container, Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import Literal, cast

import msgspec
from msgspec import Struct
from rich.console import Console
from tests.asks.stage import Caught
from tests.browser.cards import WIDTHS, AskPage

from tieline.ask_parts import parts_text
from tieline.background_tasks import cancel_and_wait
from tieline.bootstrap.relay import ask_note
from tieline.channels.telegram.ask_card import buttons, card
from tieline.cli.commands import asks
from tieline.cli.full_screen.ask_views import ask_keys, ask_panels
from tieline.cli.run.permission_prompt import PermissionPrompter
from tieline.cli.terminal.ask_panel import panels
from tieline.cli.terminal.keyboard import Keyboard
from tieline.cli.terminal.session_view import SessionView
from tieline.errors import UsageError
from tieline.events import Answer
from tieline.hub.push.triggers import AskPending, notice
from tieline.protocol.stream_frames import EventFrame
from tieline.sessions.ask_decisions import check


class Shown(Struct, frozen=True):
    text: str
    allow: bool  # whether it can be allowed right there
    decides: bool  # whether it can be decided there at all, or a way to is named
    whole: bool = True  # whether all of it must be there; else only if it can be allowed


class Surfaces(Struct, frozen=True):
    """What columns share while rows pass by."""

    page: AskPage


class Presses:
    """A keyboard on which somebody denies, and which knows what else could have been pressed."""

    def __init__(self) -> None:
        self.offered: Container[str] = ()

    def set(self, mode: str) -> None: ...

    async def key(self, accepted: Container[str], refuse: Callable[[], None]) -> str:
        self.offered = accepted
        return "n" if "n" in accepted else "s"

    async def line(self) -> str | None:
        return None


def console(file: io.StringIO, caught: Caught) -> Console:
    """Wide enough that no line is folded: markers are looked for as they are."""
    longest = max(len(line) for part in caught.record.parts for line in part.text.split("\n"))
    return Console(file=file, width=2 * longest + 120, markup=False, emoji=False, highlight=False)


def prompt(*, deny_when_gone: bool) -> "Column":
    """One key answers, at the terminal: `tieline run`, and `tieline tail`, which leaves what is not answered open."""

    async def prompted(caught: Caught, surfaces: Surfaces) -> Shown:
        file, presses = io.StringIO(), Presses()
        desk = PermissionPrompter(
            caught.session.agent,
            console(file, caught),
            cast(Keyboard, presses),
            cwd=caught.session.cwd,
            deny_when_gone=deny_when_gone,
        )
        answer = asyncio.create_task(desk.decide(caught.record.ask))
        await asyncio.sleep(0)
        await desk.prompt(caught.record.ask)
        if presses.offered:
            await answer
        await cancel_and_wait(answer)
        return Shown(file.getvalue(), "y" in presses.offered or "1" in presses.offered, bool(presses.offered))

    return prompted


async def approve(caught: Caught, surfaces: Surfaces) -> Shown:
    """`tieline approve`, `answer` and `asks`, without a terminal."""
    out = io.StringIO()
    with redirect_stdout(out):
        asks.show_ask(caught.record, caught.session, asks.origin(caught.session, {"local": "here"}))
    return Shown(out.getvalue(), may(caught, "allow"), may(caught, "deny"))


async def approve_on_a_terminal(caught: Caught, surfaces: Surfaces) -> Shown:
    file = io.StringIO()
    for each in panels(caught.record.ask, caught.session.agent, caught.session.cwd):
        console(file, caught).print(each)
    file.write(asks.full_text(caught.record.ask, parts=False))
    return Shown(file.getvalue(), may(caught, "allow"), may(caught, "deny"))


async def tail(caught: Caught, surfaces: Surfaces) -> Shown:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        SessionView(caught.session).show(EventFrame(seq=1, session=caught.session.id, at=0.0, event=caught.record.ask))
    return Shown(out.getvalue(), allow=False, decides=bool(re.search("tieline (approve|answer) ", out.getvalue())))


async def team(caught: Caught, surfaces: Surfaces) -> Shown:
    """The view of a team: its panel, as far as it goes from one question to the next, and the keys below it."""
    file = io.StringIO()
    for answered in range(max(1, len(caught.record.ask.questions))):
        for each in ask_panels(caught.record, caught.session.agent, caught.session.cwd, answered):
            console(file, caught).print(each)
    keys = io.StringIO()
    console(keys, caught).print(ask_keys(caught.record, 0, whole=True))
    hints = keys.getvalue()
    allow = any(key in hints for key in ("Ctrl-Y", "/allow", "/answer"))
    return Shown(file.getvalue() + hints, allow, bool(hints.strip()))


async def as_json(caught: Caught, surfaces: Surfaces) -> Shown:
    """`--json`, and what the hub answers to programs: the texts in it, once they are read."""
    record = msgspec.json.decode(msgspec.json.encode(caught.record), type=type(caught.record))
    assert record == caught.record
    texts = [parts_text((part,)) for part in record.parts]
    return Shown("\n".join([*texts, record.ask.at_terminal]), may(caught, "allow"), may(caught, "deny"))


def page(width: str) -> "Column":
    """The card on the page, with everything shown that can be."""

    async def column(caught: Caught, surfaces: Surfaces) -> Shown:
        card = await surfaces.page.card(caught.record, caught.session, width)
        await card.show()
        return Shown(await card.text(), await card.allow.count() > 0, await card.decides.count() > 0)

    return column


async def telegram(caught: Caught, surfaces: Surfaces) -> Shown:
    """The messages of a chat, without their numbers, and the buttons below the last one."""
    note = ask_note(caught.record, caught.session)
    made = card(note, content=True)
    keyboard = buttons(note, allow=made.allow)
    offered = [button.text for row in keyboard.inline_keyboard for button in row] if keyboard else []
    before = "".join(message.partition("\n")[2] for message in made.before)
    return Shown(f"{before}\n{made.text}", any(text.startswith("Approve") for text in offered), bool(offered))


def push(*, content: bool) -> "Column":
    """What a notification shows is little: where it is not all, it cannot be allowed there."""

    async def notification(caught: Caught, surfaces: Surfaces) -> Shown:
        made = notice(AskPending(ask=caught.record, agent=caught.session.agent), content=content, now=0.0)
        assert made.allow == any(each.action == "allow" for each in made.actions)
        return Shown(f"{made.title}\n{made.body}", made.allow, bool(made.actions), whole=False)

    return notification


def may(caught: Caught, decision: Literal["allow", "deny"]) -> bool:
    try:
        check(caught.record.ask, Answer(caught.record.id, decision))
    except UsageError:
        return False
    return True


Column = Callable[[Caught, Surfaces], Awaitable[Shown]]

COLUMNS: Mapping[str, Column] = {
    "tieline run": prompt(deny_when_gone=True),
    "tieline approve": approve,
    "tieline approve on a terminal": approve_on_a_terminal,
    "tieline tail": tail,
    "tieline tail on a terminal": prompt(deny_when_gone=False),
    "tieline team": team,
    "JSON": as_json,
    "Telegram": telegram,
    "push": push(content=True),
    "push without content": push(content=False),
    **{width: page(width) for width in WIDTHS},
}

VERBS = {"run": "tieline run", "approve": "tieline approve", "deny": "tieline approve", "answer": "tieline approve",
         "asks": "tieline approve", "tail": "tieline tail", "send": "tieline tail", "demo": "tieline run",
         "team": "tieline team", "top": "tieline team"}  # fmt: skip
"""Which column shows a verb's asks. A verb that answers or shows asks has its place here, or `test_complete` fails."""

CHANNELS = {"telegram": "Telegram", "notify": "", "webhook": "", "agent": ""}
"""Which column shows a channel's asks; none where nothing is decided by it."""
