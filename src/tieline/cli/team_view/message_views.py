"""What is drawn of a team's conversation: messages, notes, the line of the state, the list of members."""

import time
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text
from textual.color import Color
from textual.widgets import Static

from ...protocol import teams as p
from ..full_screen.live_turn import LiveTurn
from ..terminal.event_text import seconds
from ..terminal.markdown import MarkdownPage
from ..terminal.sanitize import clean, one_line, prose
from .entry_text import SpokenWords, cost_text, state_text

HUES = ("cyan", "green", "magenta", "yellow", "blue")
"""Without red, which is for problems."""
KEPT_STEPS = 5
"""Lines of what a member did that stay above its words when its turn has ended."""
STATE_STYLES = {"running": "green", "waiting": "yellow", "held": "yellow", "ended": "blue"}


class SpeakerColours:
    """A colour per name, the same each time; members of a team have different ones as long as there are enough."""

    def __init__(self) -> None:
        self._chosen: dict[str, str] = {}

    def add(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._chosen:
                at = sum(name.casefold().encode()) % len(HUES)
                hues = HUES[at:] + HUES[:at]
                colours = (*hues, *(f"bright_{hue}" for hue in hues))
                self._chosen[name] = next((each for each in colours if each not in self._chosen.values()), hues[0])

    def __getitem__(self, name: str) -> str:
        return self._chosen.get(name, "default")


class SpokenMessage(Static):
    """What one speaker says, with a bar in its colour beside it; while it speaks, what it does so far."""

    def __init__(self, name: str, colour: str, *, about: str = "", at: float = 0.0, running: bool = False) -> None:
        super().__init__(markup=False, classes="message")
        self.speaker = name
        self.prompt = ""
        self.session = ""
        self._colour = colour
        self._about = about
        self._at = at
        self._working = running
        self._steps: list[Text] = []
        self.styles.border_left = ("outer", Color.parse(f"ansi_{colour}"))

    def show_live(self, turn: LiveTurn | None) -> None:
        room = max(20, self.size.width - 1)
        self._steps = turn.steps(room) if turn else []
        lines: list[RenderableType] = list(turn.lines(room)) if turn else []
        self.update(Group(self._title(), *lines))

    def show_words(self, words: SpokenWords, at: float, *, markdown: bool) -> None:
        """The end: what it said, below the last of what it did."""
        took = at - self._at if self._working else 0.0
        self._at = at
        self._about = " · ".join(part for part in (self._about, seconds(took) if took >= 1 else "") if part)
        self._working = False
        body: list[RenderableType] = [self._title()]
        if hidden := len(self._steps) - KEPT_STEPS:
            body += [Text(f"… {hidden} before", "dim")] if hidden > 1 else self._steps[:1] if hidden == 1 else []
        body += self._steps[-KEPT_STEPS:]
        if words.text.strip():
            body.append(MarkdownPage(words.text) if markdown else Text(prose(words.text), overflow="fold"))
        if words.route:
            body.append(Text(one_line(words.route, 400), f"italic {self._colour}"))
        if words.work:
            body.append(Text(clean(words.work), "dim", overflow="fold"))
        self.update(Group(*body))

    def _title(self) -> Text:
        title = Text.assemble((one_line(self.speaker, 60), f"bold {self._colour}"), overflow="ellipsis", no_wrap=True)
        if self._about:
            title.append(f"  {one_line(self._about)}", "dim")
        if self._working:
            title.append(f"  works {seconds(max(0.0, time.time() - self._at))}", "dim")
        elif self._at:
            title.append(f"  {time.strftime('%H:%M', time.localtime(self._at))}", "dim")
        return title


class ConversationNote(Static):
    """A line about what happened."""

    def __init__(self, text: str, *, problem: bool = False) -> None:
        sign, style = ("!", "yellow") if problem else ("·", "dim")
        super().__init__(Text(f"{sign} {text}", style, overflow="fold"), markup=False, classes="note")


def state_line(view: p.TeamView | None, away: str, width: int, working_since: Mapping[str, float]) -> Text:
    """Who works and who is next on the left; rounds and cost on the right."""
    if view is None:
        return Text("○ opening the conversation …", "dim")
    left = Text(no_wrap=True)
    if away:
        left.append("○ the hub is away, trying again … ", "bold red")
    left.append("● ", STATE_STYLES[view.status]).append(one_line(state_text(view), 100), "bold")
    if since := [working_since[name] for name in view.speaking if name in working_since]:
        left.append(f" {seconds(max(0.0, time.time() - min(since)))}", "dim")
    if view.queue and view.status != "ended":
        left.append(f" · next: {', '.join(map(_queued, view.queue))}", "dim")
    rest = max(0, view.limits.max_rounds - view.rounds)
    right = Text(f"{rest} of {view.limits.max_rounds} rounds left", "dim")
    if cost := _cost_of_limit(view):
        right.append(f" · {cost}")
    room = width - right.cell_len - 2
    if left.cell_len > room:
        left.truncate(max(10, room), overflow="ellipsis")
    return left.append(" " * max(2, width - left.cell_len - right.cell_len)).append_text(right)


def _queued(speaker: p.NextSpeaker) -> str:
    return speaker.name if speaker.priority == p.USUAL_PRIORITY else f"{speaker.name} !P{speaker.priority}"


def _cost_of_limit(view: p.TeamView) -> str:
    if limit := view.limits.max_cost_usd:
        return f"{view.cost_usd:.2f} of {limit:.2f} USD"
    return cost_text(view.cost_usd)


def members_list(view: p.TeamView, colours: SpeakerColours, asking: Sequence[str]) -> RenderableType:
    """Each member with what it does, and what it has cost so far."""
    queue = [speaker.name for speaker in view.queue]
    shown: list[RenderableType] = [Text("members", "dim")]
    for member in view.who:
        shown.append(Text(one_line(member.name, 32), f"bold {colours[member.name]}"))
        kind = "person" if member.human else member.agent or "terminal"
        about = " · ".join(part for part in (kind, one_line(member.role, 60)) if part)
        lines = [Text(about, "dim", no_wrap=True, overflow="ellipsis")]
        if member.name in asking:
            lines.append(Text("asks you", "bold yellow"))
        elif member.name in view.speaking:
            lines.append(Text("works", "green"))
        elif member.name in view.waiting_for:
            lines.append(Text("it is your turn", "bold yellow"))
        elif member.name in queue:
            lines.append(Text(f"is next, place {queue.index(member.name) + 1}", "yellow"))
        if member.turns:
            cost = f" · {cost_text(member.cost_usd)}" if member.cost_usd else ""
            lines.append(Text(f"{member.turns} turn{'s' if member.turns != 1 else ''}{cost}", "dim"))
        shown.append(Padding(Group(*lines), (0, 0, 1, 2)))
    return Group(*shown)
