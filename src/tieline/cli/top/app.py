"""The screen of `tieline top`: every session of every machine; the chosen one is watched, answered and steered.

The list has the keys; Enter leads to the line at the bottom, Esc back. Leaving changes nothing at the hub.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import DataTable, Static

from ...background_tasks import cancel_and_wait
from ...client.client import Client
from ...client.errors import HubError
from ...client.stream import Connection
from ...errors import TielineError, UsageError
from ...protocol.request_bodies import Decision, NewPrompt, SessionChange
from ...protocol.stream_frames import DeltaFrame, EventFrame, Ready
from ...protocol.views import CommandView
from ...sessions.records import AskRecord, SessionRecord
from ..commands.session_history import last_events
from ..commands.sessions import STYLES
from ..full_screen.ask_decider import ASK_COMMANDS
from ..full_screen.ask_views import LINE_KEYS
from ..full_screen.base_app import BaseHubApp, commands_help, slash_commands
from ..full_screen.line_input import LineInput
from ..full_screen.live_turn import LiveTurn
from ..terminal.ask_text import summary_line
from ..terminal.formatting import short_path
from ..terminal.sanitize import one_line
from .column_widths import column_widths, fitted
from .hub_picture import COLUMNS, WHERE, HubPicture, MachineRow, Overview, SessionRow

REFRESH_S = 0.2
AGES_S = 5.0
"""How often the column that counts seconds is drawn, when nothing else changes."""
SETTLED_S = 0.15
"""A session is followed once it has been chosen for so long: whoever runs down the list follows none of them."""
AGAIN_S = 3.0
"""A second x within this time interrupts."""
HISTORY = 100
"""Events that are read of a session's past."""
MACHINES = 4
COMMANDS = {
    "WORDS": "send them to the session as its next prompt",
    "/steer WORDS": "say something in the middle of its turn",
    "/abort": "interrupt its turn (x, twice)",
    **ASK_COMMANDS,
    "/archive": "take the session from the list",
    "/find [WORDS]": "only sessions with these words; nothing: all",
    "/quit": "leave (q, Ctrl-C)",
}
KEYS = (
    "↑↓ choose", "Tab next ask", "Enter write", "x x interrupt", "/ commands", "? help", "q leave",
)  # fmt: skip
LIST_KEYS = ("y", "n")
"""They decide what is asked while the list has the keys. The panel of the ask names them."""
TYPING_KEYS = ("Enter sends it", "Esc goes back to the list", "/help")
SCROLLBAR = 1
PATH = 10
"""Of a directory at least so much is shown, or nothing."""


class SessionTable(DataTable[Text]):
    """Which row is chosen is the view's to say: rows move while they are looked at."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def on_mount(self) -> None:
        self.cursor_type = "row"
        self.widths: dict[str, int] = {}

    def show_columns(self, widths: dict[str, int]) -> None:
        """No rows are left."""
        self.clear(columns=True)
        self.widths = widths
        for title, width in widths.items():
            self.add_column(title, width=width)


class TopApp(BaseHubApp):
    CSS = """
    #head, #note { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    #keys { height: auto; padding: 0 1; }
    #machines { height: auto; padding: 0 1; display: none; }
    Screen { overflow: hidden; }
    #sessions { height: 1fr; min-height: 4; background: ansi_default; scrollbar-size-vertical: 1; overflow-x: hidden; }
    #sessions > .datatable--header { background: ansi_default; color: ansi_bright_black; text-style: none; }
    #sessions > .datatable--cursor { background: ansi_default; text-style: reverse; }
    #detail { height: 1fr; min-height: 3; padding: 0 1; border-top: solid ansi_bright_black; }
    #detail { scrollbar-size-vertical: 1; }
    #typing { height: auto; padding: 0 1; display: none; }
    .-typing #typing { display: block; }
    #sign { width: 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        # With priority: the keys that follow at once are for the line.
        Binding("enter", "write('')", "write", priority=True),
        Binding("slash", "write('/')", "commands", priority=True),
        Binding("escape", "leave_line", "back"),
    ]

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._picture = HubPicture()
        self._overview: Overview | None = None
        self._drawn: dict[str, tuple[str, ...]] = {}  # rows on the screen, in their order
        self._chosen = ""
        self._find = ""
        self._turn = LiveTurn()
        self._note = Text()
        self._away = ""
        self._changed = False
        self._drawn_at = 0.0
        self._abort_until = 0.0
        self._helping = False
        self._keys: Sequence[str] = KEYS
        self._following: asyncio.Task[None] | None = None
        self._table = SessionTable(id="sessions")
        self._detail = Static(markup=False)
        self._detail_scroll = VerticalScroll(self._detail, id="detail", can_focus=False)

    # --- the screen ------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield Static(Text("connecting …", "dim"), markup=False, id="head")
        yield Static(markup=False, id="machines")
        yield self._table
        yield self._detail_scroll
        yield self._ask
        yield Static(markup=False, id="note")
        with Horizontal(id="typing"):
            yield Static(Text("› ", "bold"), markup=False, id="sign")
            yield self._line
        yield Static(markup=False, id="keys")

    def on_mount(self) -> None:
        self._table.focus()
        self._ask.use_keys(*LIST_KEYS)
        self.start(asyncio.create_task(self._follow_hub()))
        self.set_interval(REFRESH_S, self._refresh)

    async def on_unmount(self) -> None:
        await cancel_and_wait(*([self._following] if self._following else []))

    def on_resize(self) -> None:
        self._drawn = {}  # the columns have other widths
        self._changed = True
        self._show_keys(self._keys)

    def _refresh(self) -> None:
        if not self.is_running or not (self._changed or time.monotonic() - self._drawn_at > AGES_S):
            return
        self._changed, self._drawn_at = False, time.monotonic()
        overview = self._overview = self._picture.overview(self._find)
        if self._chosen not in {row.id for row in overview.sessions}:
            self._choose(overview.sessions[0].id if overview.sessions else "")
        self.query_one("#head", Static).update(head_line(overview, self._find, self._away))
        machines = self.query_one("#machines", Static)
        machines.display = len(overview.machines) > 1
        machines.update(machine_lines(overview.machines))
        self._draw_rows(overview.sessions)
        self._draw_detail()
        self._draw_ask()
        self.query_one("#note", Static).update(self._note)

    def _draw_rows(self, rows: Sequence[SessionRow]) -> None:
        now = time.time()
        whole: dict[str, Mapping[str, str]] = {row.id: dict(zip(COLUMNS, row.cells(now), strict=True)) for row in rows}
        several = len(self._picture.nodes) > 1
        titles = [title for title in COLUMNS if several or title != "machine"]
        widths = column_widths(titles, whole.values(), self.size.width - SCROLLBAR)
        wanted = {id: _shown(cells, widths) for id, cells in whole.items()}
        styles = {row.id: STYLES.get(row.status, "") for row in rows}
        if list(wanted) == list(self._drawn) and widths == self._table.widths:
            for index, (id, cells) in enumerate(wanted.items()):
                for column, (title, new, old) in enumerate(zip(widths, cells, self._drawn[id], strict=True)):
                    if new != old:
                        self._table.update_cell_at((index, column), _cell(title, new, styles[id]))  # pyright: ignore[reportArgumentType]
        else:
            top = self._table.scroll_y
            self._table.show_columns(widths)
            for id, cells in wanted.items():
                row = (_cell(title, text, styles[id]) for title, text in zip(widths, cells, strict=True))
                self._table.add_row(*row, key=id)
            self._table.scroll_to(y=top, animate=False)
        self._drawn = wanted
        if self._chosen in wanted:
            self._table.move_cursor(row=list(wanted).index(self._chosen), animate=False)

    def _draw_detail(self) -> None:
        if self._helping:
            self._detail.update(commands_help(COMMANDS))
            return
        record = self._picture.sessions.get(self._chosen)
        if record is None:
            words = (
                'No sessions. Start one: tieline send --new codex "your task"' if not self._find else "None of them."
            )
            self._detail.update(Text(words, "dim"))
            return
        width = max(20, self.size.width - 3)
        queue = [Text(f"⋯ {one_line(each.text, 300)}", "dim") for each in self._picture.queue_of(record.id)]
        for line in queue:
            line.truncate(width, overflow="ellipsis")
        lines = [detail_line(record, width), *self._turn.lines(width), *queue]
        self._detail.update(Text("\n").join(lines))
        self._detail_scroll.scroll_end(animate=False)

    def _draw_ask(self) -> None:
        asks = self._picture.asks_of(self._chosen)
        shown = self._ask.record
        if (asks[0].id if asks else "") != (shown.id if shown else "") or len(asks) > 1:
            self._decider.show(asks[0] if asks else None, max(0, len(asks) - 1))

    def show_message(self, text: str, *, problem: bool = False) -> None:
        style = "red" if problem else "dim"
        self._note = Text(one_line(text, 600), style, no_wrap=True, overflow="ellipsis")
        self._changed = True

    # --- what the hub tells ----------------------------------------------------------------------------

    async def _follow_hub(self) -> None:
        frames = self._client.stream(
            events=False, deltas=False, visible=True, by="sse", on_connection=self._on_connection
        )
        try:
            async with aclosing(frames):
                async for frame in frames:
                    before = set(self._picture.asks)
                    if self._picture.apply(frame):
                        self._changed = True
                    if isinstance(frame, Ready):
                        self._away = ""
                    elif set(self._picture.asks) - before:
                        self.bell()
                    self._decider.only(self._picture.asks.keys())
        except Exception as problem:
            self.fail(problem)

    def _on_connection(self, connection: Connection) -> None:
        if connection.state == "lost":
            self._away = connection.problem or "it does not answer"
            self._changed = True

    def _choose(self, session: str) -> None:
        if session == self._chosen:
            return
        self._chosen, self._turn, self._abort_until, self._helping = session, LiveTurn(), 0.0, False
        self._changed = True
        if self._following is not None:
            self._following.cancel()
        self._following = asyncio.create_task(self._follow_session(session)) if session else None

    async def _follow_session(self, session: str) -> None:
        await asyncio.sleep(SETTLED_S)
        turn = self._turn
        try:
            async with aclosing(self._client.stream(sessions=[session], visible=True, by="sse")) as frames:
                caught_up = False
                async for frame in frames:
                    if isinstance(frame, Ready) and (not caught_up or frame.state != "ok"):
                        for earlier in await last_events(self._client, session, HISTORY, upto=frame.cursor):
                            turn.apply(earlier.event)
                        turn.joined, caught_up = True, True
                    elif isinstance(frame, EventFrame | DeltaFrame) and frame.session == session:
                        turn.apply(frame.event)
                    self._changed = True
        except (HubError, TielineError) as error:
            self.show_message(error.message, problem=True)

    # --- what the person does --------------------------------------------------------------------------

    def on_key(self, event: Any) -> None:
        """Of the list; the line and the long ask have keys of their own."""
        if not self._in_list:
            return
        match event.key:
            case "up" | "k":
                self._move(-1)
            case "down" | "j":
                self._move(1)
            case "pageup":
                self._move(-max(1, self._table.size.height - 2))
            case "pagedown":
                self._move(max(1, self._table.size.height - 2))
            case "home":
                self._move(-len(self._drawn))
            case "end":
                self._move(len(self._drawn))
            case "tab":
                self._next_ask()
            case "y":
                self.action_decide("allow")
            case "n":
                self.action_decide("deny")
            case "question_mark":
                self._help()
            case "x":
                self._abort_by_key()
            case "q":
                self.exit()
            case _:
                return
        event.stop()
        event.prevent_default()

    @property
    def _in_list(self) -> bool:
        return self.focused is not self._line and not self._decider.reading

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._in_list if action == "write" else super().check_action(action, parameters)

    def action_write(self, text: str) -> None:
        self.fill_line(text)

    def completions(self) -> list[str]:
        return slash_commands(COMMANDS)

    def on_data_table_row_selected(self, selected: DataTable.RowSelected) -> None:
        """By the mouse."""
        if selected.row_key.value:
            self._choose(selected.row_key.value)

    def _move(self, by: int) -> None:
        if ids := list(self._drawn):
            index = ids.index(self._chosen) if self._chosen in ids else 0
            self._choose(ids[min(max(index + by, 0), len(ids) - 1)])
            self._refresh()

    def _next_ask(self) -> None:
        ids = list(self._drawn)
        start = ids.index(self._chosen) + 1 if self._chosen in ids else 0
        waiting = {ask.session for ask in self._picture.asks.values()}
        next_session = next((id for id in [*ids[start:], *ids[:start]] if id in waiting), "")
        if next_session:
            self._choose(next_session)
            self._refresh()
        else:
            self.show_message("nothing waits for a decision")

    def fill_line(self, text: str) -> None:
        self.screen.add_class("-typing")
        self.screen.set_focus(self._line)  # at once: the next key is meant for it
        self._line.fill(text)
        self._show_keys(TYPING_KEYS)
        self._ask.use_keys(*LINE_KEYS)

    def action_leave_line(self) -> None:
        self.screen.remove_class("-typing")
        self.screen.set_focus(self._table)
        self._show_keys(KEYS)
        self._ask.use_keys(*LIST_KEYS)

    def _show_keys(self, keys: Sequence[str]) -> None:
        self._keys = keys
        self.query_one("#keys", Static).update(Text(key_lines(keys, self.size.width - 2), "dim"))

    def on_line_input_submitted(self, typed: LineInput.Submitted) -> None:
        verb, _, rest = typed.text.partition(" ")
        self.action_leave_line()
        try:
            match verb:
                case "/help":
                    self._help()
                case "/quit":
                    self.exit()
                case "/find":
                    self._find, self._changed = rest.strip(), True
                case "/steer":
                    self.queue(typed.text, partial(self._steer, self._session().id, _words(rest)))
                case "/abort":
                    self.queue(typed.text, partial(self._abort, self._session().id))
                case "/archive":
                    self.queue(typed.text, partial(self._archive, self._session().id))
                case _ if self._decider.typed(typed.text):
                    pass
                case _ if verb.startswith("/") and "/" not in verb[1:]:
                    raise UsageError(f"{verb} is not a command", hint="/help shows them.")
                case _:
                    self.queue(typed.text, partial(self._prompt, self._session().id, typed.text))
        except UsageError as error:
            self.refuse(typed.text, error)

    def _abort_by_key(self) -> None:
        now = time.monotonic()
        try:
            record = self._session()
            if now < self._abort_until:
                self._abort_until = 0.0
                self.queue("", partial(self._abort, record.id))
            else:
                self._abort_until = now + AGAIN_S
                self.show_message(f"press x again to interrupt {record.agent}")
        except UsageError as error:
            self.refuse("", error)

    def _help(self) -> None:
        self._helping = not self._helping
        self._detail_scroll.scroll_home(animate=False)
        self._changed = True

    def about_ask(self, record: AskRecord) -> tuple[str, str]:
        session = self._picture.sessions.get(record.session)
        return (session.agent, session.cwd) if session else ("an agent", "")

    def _session(self) -> SessionRecord:
        if record := self._picture.sessions.get(self._chosen):
            return record
        raise UsageError("no session is selected", field="session")

    async def _prompt(self, session: str, text: str) -> str:
        result = await self._client.prompt(session, NewPrompt(text=text))
        return PENDING if isinstance(result, CommandView) else f"sent: {result.status}"

    async def _steer(self, session: str, text: str) -> str:
        return PENDING if await self._client.steer(session, text) else "said"

    async def _abort(self, session: str) -> str:
        result = await self._client.abort(session)
        return PENDING if isinstance(result, CommandView) else "interrupted" if result else "no turn was running"

    async def _archive(self, session: str) -> str:
        result = await self._client.change_session(session, SessionChange(archived=True))
        return PENDING if isinstance(result, CommandView) else "archived"

    def decision_text(self, record: AskRecord, decision: Decision) -> str:
        verb = "answered" if decision.answers else "allowed" if decision.decision == "allow" else "denied"
        return f"{verb}: {summary_line(record.ask)}"


PENDING = "its machine is offline: it is done when it is back"


def head_line(overview: Overview, find: str, away: str) -> Text:
    if away:
        return Text(f"the hub is away, trying again: {one_line(away, 200)}", "bold red", no_wrap=True)
    total = overview.totals
    off = sum(not machine.online for machine in overview.machines)
    line = Text(no_wrap=True, overflow="ellipsis")
    # What is needed most first: a narrow screen cuts the rest.
    asks = f"{total.asks} ask{'s' * (total.asks != 1)}"
    line.append("tieline", "bold").append("  ").append(asks, "bold yellow" if total.asks else "")
    line.append(f" · {total.sessions} session{'s' * (total.sessions != 1)}, {total.working} working")
    line.append(f" · {total.queue} queued")
    machines = f"{len(overview.machines)} machine{'s' * (len(overview.machines) != 1)}"
    line.append(f" · {machines}" + (f" ({off} offline)" if off else ""))
    if total.cost_usd is not None:
        line.append(f" · ${total.cost_usd:.2f}")
    if find:
        line.append(f" · with “{one_line(find, 60)}”", "yellow")
    return line


def key_lines(keys: Sequence[str], width: int) -> str:
    """All of them, each whole, on as many lines as that takes."""
    lines = [keys[0]]
    for key in keys[1:]:
        if len(longer := f"{lines[-1]} · {key}") <= width:
            lines[-1] = longer
        else:
            lines.append(key)
    return "\n".join(lines)


def machine_lines(machines: Sequence[MachineRow]) -> Text:
    """The first ones; the others in a word."""
    lines: list[Text] = []
    for each in machines[:MACHINES]:
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append("● " if each.online else "○ ", "green" if each.online else "red")
        line.append(one_line(each.name, 30)).append("" if each.online else " (offline)", "red")
        line.append(f"  {each.sessions} sessions, {each.working} working, {each.asks} asks", "dim")
        lines.append(line)
    if len(machines) > MACHINES:
        lines.append(Text(f"  and {len(machines) - MACHINES} more: tieline nodes", "dim"))
    return Text("\n").join(lines)


def detail_line(record: SessionRecord, width: int) -> Text:
    turns = f"{record.turns} turn{'s' * (record.turns != 1)}"
    title = fitted(one_line(record.title, 200) or record.agent, max(10, width - len(turns) - 2))
    line = Text(title, "bold").append(f"  {turns}", "dim")
    where = one_line(short_path(record.cwd), WHERE) + (f" ({one_line(record.branch, 40)})" if record.branch else "")
    if (room := width - line.cell_len - 2) >= PATH:
        line.append(f"  {fitted(where, room, keep='end')}", "dim")
    return line


def _shown(cells: Mapping[str, str], widths: Mapping[str, int]) -> tuple[str, ...]:
    """The cells of the columns that are shown, each as wide as there is room for it."""
    return tuple(
        fitted(cells[title], width, keep="end" if title == "where" else "start") for title, width in widths.items()
    )


def _cell(title: str, text: str, status: str) -> Text:
    style = "bold" if title == "id" else status if title == "status" else ""
    if title in ("machine", "active", "cost", "where"):
        style = "dim"
    return Text(text, style, no_wrap=True)


def _words(given: str) -> str:
    if words := given.strip():
        return words
    raise UsageError("the message is empty", hint="/steer WORDS")


async def open_top(client: Client) -> None:
    """Until the person leaves."""
    await TopApp(client).open()
