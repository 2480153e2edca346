"""The view of a team on a terminal. Leaving it leaves the conversation running at the hub."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from ...client.client import Client
from ...errors import UsageError
from ...events import AnyEvent
from ...protocol import teams as p
from ...sessions.records import AskRecord
from ..full_screen.ask_decider import ASK_COMMANDS
from ..full_screen.base_app import BaseHubApp, commands_help, slash_commands
from ..full_screen.line_input import LineInput
from ..full_screen.live_turn import LiveTurn
from ..terminal.sanitize import one_line
from .entry_text import SpokenWords, event_note, failed, spoken
from .message_views import ConversationNote, SpeakerColours, SpokenMessage, members_list, state_line
from .team_follower import TeamFollower
from .typed_line import COMMANDS, parse_typed_line

MAX_SHOWN = 400
"""Messages and notes on the screen; older ones are told by `tieline team show`."""
REFRESH_S = 0.1
VIEW_COMMANDS = {
    "@NAME WORDS": "say it to one member, who answers",
    **COMMANDS,
    **ASK_COMMANDS,
    "/quit": "leave; the conversation goes on (Ctrl-C, Ctrl-Q)",
}
KEYS = "Enter says it · Tab completes · PgUp scrolls · /help · Ctrl-Q leaves"


class TeamApp(BaseHubApp):
    CSS = """
    #head { height: 1; padding: 0 1; }
    #middle { height: 1fr; }
    VerticalScroll { scrollbar-size-vertical: 1; scrollbar-color: ansi_bright_black; }
    VerticalScroll { scrollbar-background: ansi_default; scrollbar-background-hover: ansi_default; }
    #transcript { padding: 0 1; scrollbar-gutter: stable; }
    .message { padding: 0 0 0 1; margin: 1 0 0 0; }
    .note { margin: 1 0 0 0; padding: 0 0 0 2; }
    #members { width: 34; padding: 1 1 0 2; border-left: solid ansi_bright_black; display: none; }
    .-wide #members { display: block; }
    #state { height: 1; padding: 0 1; margin: 1 0 0 0; }
    #typing { height: auto; padding: 0 1; }
    #sign { width: 2; }
    #keys { height: 1; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "scroll(-1)", "back", priority=True),
        Binding("pagedown", "scroll(1)", "on", priority=True),
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 (as Textual declares it)

    def __init__(self, client: Client, id: str, speaker: str = "") -> None:
        super().__init__(client)
        self.conversation: p.TeamView | None = None
        self._team = id
        self._speaker = speaker
        self._follower = TeamFollower(client, id, self)
        self._colours = SpeakerColours()
        self._turns: dict[str, LiveTurn] = {}  # by session
        self._speaking: dict[str, SpokenMessage] = {}  # by member
        self._since: dict[str, float] = {}  # by member: when its turn began
        self._asks: Sequence[AskRecord] = ()
        self._away = ""
        self._changed = True
        self._transcript = VerticalScroll(id="transcript", can_focus=False)

    # --- the screen ------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield Static(markup=False, id="head")
        with Horizontal(id="middle"):
            yield self._transcript
            yield VerticalScroll(Static(markup=False, id="members-list"), id="members", can_focus=False)
        yield self._ask
        yield Static(markup=False, id="state")
        with Horizontal(id="typing"):
            yield Static(Text("› ", "bold"), markup=False, id="sign")
            yield self._line
        yield Static(Text(KEYS, "dim", no_wrap=True, overflow="ellipsis"), markup=False, id="keys")

    def on_mount(self) -> None:
        self._line.focus()
        self._transcript.anchor()
        self.start(asyncio.create_task(self._follow()))
        self.set_interval(REFRESH_S, self._refresh_live)

    def on_resize(self) -> None:
        self._changed = True

    def _refresh_live(self) -> None:
        """Draws what has changed since the last time, and the seconds of whoever works."""
        if not (self._changed or self._speaking) or not self.is_running:
            return
        self._changed = False
        for view in self._speaking.values():
            turn = self._turns.get(view.session)
            view.show_live(turn if turn is not None and turn.prompt in ("", view.prompt) else None)
        width = self.size.width - 2
        self.query_one("#state", Static).update(state_line(self.conversation, self._away, width, self._since))
        if self.conversation is None:
            return
        head = Text.assemble((one_line(self.conversation.name, 40), "bold"), no_wrap=True, overflow="ellipsis")
        head.append(f"  {one_line(self.conversation.task, 400)}", "dim")
        self.query_one("#head", Static).update(head)
        asking = [self._member(ask) for ask in self._asks]
        self.query_one("#members-list", Static).update(members_list(self.conversation, self._colours, asking))
        self._line.placeholder = self._hint(self.conversation)

    def _hint(self, view: p.TeamView) -> str:
        if view.status == "ended":
            return "it has ended: Ctrl-Q leaves, /resume goes on"
        if view.waiting_for:
            return f"{', '.join(view.waiting_for)}: it is your turn, type your answer"
        return "say something, or /help" if view.people else "/help tells what can be done"

    def _add(self, *widgets: Widget) -> None:
        self._transcript.mount(*widgets)
        old = len(self._transcript.children) - MAX_SHOWN
        if old > 0:
            for child in [*self._transcript.children][:old]:
                if child not in self._speaking.values():
                    child.remove()

    def show_message(self, text: str, *, problem: bool = False) -> None:
        self._add(ConversationNote(one_line(text, 600), problem=problem))

    def action_scroll(self, direction: int) -> None:
        where = self.screen.query_one("#whole-ask") if self._decider.reading else self._transcript
        move = where.scroll_page_down if direction > 0 else where.scroll_page_up
        move(animate=False)

    # --- what the hub tells ----------------------------------------------------------------------------

    async def _follow(self) -> None:
        try:
            await self._follower.run()
        except BaseExceptionGroup as problem:
            self.fail(problem)

    def entries_added(self, entries: Sequence[p.TeamEntry], view: p.TeamView) -> None:
        self._colours.add(member.name for member in view.who)
        for each in entries:
            self._show_entry(each.entry, view)
        self.conversation = view
        self._changed = True

    def _show_entry(self, entry: p.AnyEntry, view: p.TeamView) -> None:
        agents = {member.name: member.agent for member in view.who}
        if isinstance(entry, p.TurnBegan):
            about = " · ".join(part for part in (agents.get(entry.member, ""), f"round {entry.turn}") if part)
            message = SpokenMessage(
                entry.member, self._colours[entry.member], about=about, at=entry.at or time.time(), running=True
            )
            message.prompt, message.session = entry.prompt, entry.session
            self._speaking[entry.member] = message
            self._since[entry.member] = entry.at
            self._add(message)
            message.show_live(None)
            return
        begun = None
        if isinstance(entry, p.TurnEnded):
            self._since.pop(entry.member, None)
            if begun := self._speaking.pop(entry.member, None):
                self._turns.pop(begun.session, None)
        if words := spoken(entry):
            if begun is None:
                begun = SpokenMessage(words.name, self._colours[words.name], at=entry.at)
                self._add(begun)
            begun.show_words(words, entry.at, markdown=isinstance(entry, p.TurnEnded | p.MemberCalled))
        elif note := event_note(entry):
            if begun is not None:
                begun.show_words(SpokenWords(begun.speaker, ""), entry.at, markdown=False)
            self.show_message(note, problem=failed(entry))
        elif isinstance(entry, p.TeamEnded):
            self.show_message(f"ended: {one_line(entry.reason, 400)}")

    def session_event(self, session: str, event: AnyEvent) -> None:
        self._turns.setdefault(session, LiveTurn()).apply(event)
        self._changed = True

    def turn_joined(self, session: str) -> None:
        self._turns.setdefault(session, LiveTurn()).joined = True

    def asks_changed(self, asks: Sequence[AskRecord]) -> None:
        if {ask.id for ask in asks} - {ask.id for ask in self._asks}:
            self.bell()
        self._asks = asks
        self._decider.only({ask.id for ask in asks})
        self._decider.show(asks[0] if asks else None, max(0, len(asks) - 1))
        self._changed = True

    def about_ask(self, record: AskRecord) -> tuple[str, str]:
        return self._member(record), self._follower.directories.get(record.session, "")

    def connection_changed(self, problem: str) -> None:
        if problem and not self._away:
            self.show_message("the hub is away; what it says is shown when it is back", problem=True)
        elif self._away and not problem:
            self.show_message("the hub is back")
        self._away = problem
        self._changed = True

    def _member(self, record: AskRecord) -> str:
        members = self.conversation.who if self.conversation else ()
        return next((member.name for member in members if member.session == record.session), "a member")

    # --- what the person does --------------------------------------------------------------------------

    def completions(self) -> list[str]:
        names = [member.name for member in self.conversation.who] if self.conversation else []
        return [*names, *(f"@{name}" for name in names), *slash_commands(VIEW_COMMANDS)]

    def on_line_input_submitted(self, typed: LineInput.Submitted) -> None:
        self._transcript.anchor()
        try:
            if typed.text == "/help":
                self._add(Static(commands_help(VIEW_COMMANDS), markup=False, classes="note"))
            elif typed.text == "/quit":
                self.exit()
            elif not self._decider.typed(typed.text):
                action = parse_typed_line(typed.text, self._speaker)
                self.queue(typed.text, partial(self._act, action))
        except UsageError as error:
            self.refuse(typed.text, error)

    async def _act(self, action: p.AnyTeamAction) -> str:
        await self._client.act_in_team(self._team, action)
        return ""


async def open_view(client: Client, id: str, speaker: str = "") -> p.TeamView | None:
    """Until the person leaves, who speaks as `speaker`. Returns how the conversation stood then."""
    app = TeamApp(client, id, speaker)
    await app.open()
    return app.conversation
