"""Asks, answered by the person at the terminal with one key.

The agent's side awaits `decide`; the one who shows the events calls `serve` when the ask has come on the screen. So
nobody is asked before they have seen what led to it, and asks come one at a time in the order of the stream.
"""

import asyncio
from collections.abc import Callable, Mapping

from rich.console import Console, Group, RenderableType
from rich.control import Control
from rich.panel import Panel
from rich.segment import ControlType
from rich.text import Text

from ..events import Answer, Ask, Command, Edit, Fetch, Mcp, Question, Read, Search, Task
from ..sessions.asks import allow, deny
from . import words
from .clean import clean, one_line
from .keys import Keys

BY = "person"
MAX_DIGITS = 9
"""More choices than one key can name are answered with a line."""


class Desk:
    def __init__(
        self,
        agent: str,
        console: Console,
        keys: Keys,
        *,
        cwd: str = "",
        pause: Callable[[], None] = lambda: None,
        resume: Callable[[], None] = lambda: None,
    ) -> None:
        self._agent = agent
        self._console = console
        self._keys = keys
        self._cwd = cwd
        self._pause = pause
        self._resume = resume
        self._line_shown: Text | None = None
        self._waiting: dict[str, tuple[Ask, asyncio.Future[Answer]]] = {}

    async def decide(self, ask: Ask) -> Answer:
        """For `on_ask`: waits until `serve` has the person's answer."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[ask.id] = (ask, future)
        try:
            return await future
        finally:
            del self._waiting[ask.id]

    async def serve(self, ask: Ask) -> None:
        """Ask the person, if the agent still waits for it. Ends early when the answer comes from elsewhere."""
        _, future = self._waiting.get(ask.id, (ask, None))
        if future is None or future.done():
            return
        self._pause()
        asking = asyncio.ensure_future(self._ask(ask))
        try:
            await asyncio.wait({asking, future}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                if not future.done():
                    future.set_result(asking.result())
            else:
                self._verdict(Text("— no longer asked", "dim"))
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            self._resume()

    def abort(self, reason: str) -> None:
        """Deny everything that is open: the person wants the turn to end."""
        for ask, future in self._waiting.values():
            if not future.done():
                future.set_result(deny(ask, reason, by=BY))

    # --- the three kinds -------------------------------------------------------------------------------

    async def _ask(self, ask: Ask) -> Answer:
        self._console.print()
        if ask.kind == "question":
            return await self._questions(ask)
        self._console.print(panel(ask, self._agent, self._cwd))
        word = "approve" if ask.kind == "plan" else "allow"
        keys = {"y": word, "n": "deny"}
        if "session" in ask.remember:
            keys["a"] = "allow for this session"
        keys["r"] = "deny and say why"
        match await self._choose(keys):
            case "y":
                self._verdict(Text("✓ approved" if ask.kind == "plan" else "✓ allowed", "green"))
                return allow(ask, by=BY)
            case "a":
                self._verdict(Text("✓ allowed for this session", "green"))
                return allow(ask, by=BY, remember="session")
            case "r":
                reason = await self._line("why? ") or ""
                self._verdict(Text(f"✗ denied: {one_line(reason)}" if reason else "✗ denied", "red"))
                return deny(ask, reason or "denied by the person", by=BY)
            case "":
                return deny(ask, "the terminal is gone", by=BY)
            case _:
                self._verdict(Text("✗ denied", "red"))
                return deny(ask, "denied by the person", by=BY)

    async def _questions(self, ask: Ask) -> Answer:
        answers: dict[str, tuple[str, ...]] = {}
        for question in ask.questions:
            self._console.print(question_panel(question, self._agent))
            chosen = await self._question(question)
            if not chosen:
                self._verdict(Text("✗ not answered", "red"))
                return deny(ask, "the person did not answer", by=BY)
            self._verdict(Text(f"✓ {one_line(', '.join(chosen))}", "green"))
            answers[question.id] = chosen
        return allow(ask, by=BY, answers=answers)

    async def _question(self, question: Question) -> tuple[str, ...]:
        labels = [choice.label for choice in question.choices]
        if not labels:
            line = await self._line("› ")
            return (line.strip(),) if line and line.strip() else ()
        if question.many or len(labels) > MAX_DIGITS:
            return await self._numbers(question, labels)
        keys = {str(place): "" for place in range(1, len(labels) + 1)}
        keys |= {"t": "type an answer"} if question.free else {}
        keys["s"] = "skip"
        key = await self._choose(keys, f"1-{len(labels)} choose" if len(labels) > 1 else "1 choose")
        if key == "t":
            line = await self._line("› ")
            return (line.strip(),) if line and line.strip() else ()
        return (labels[int(key) - 1],) if key.isdigit() else ()

    async def _numbers(self, question: Question, labels: list[str]) -> tuple[str, ...]:
        """A line of numbers; anything else is taken as the person's own words, where that is permitted."""
        several = "numbers with commas" if question.many else "a number"
        own = ", or your own words" if question.free else ""
        while True:
            line = await self._line(f"{several}{own} (empty skips) › ")
            if not line or not line.strip():
                return ()
            picked = [part for part in line.replace(",", " ").split() if part]
            if all(part.isascii() and part.isdigit() and 1 <= int(part) <= len(labels) for part in picked):
                chosen = dict.fromkeys(labels[int(part) - 1] for part in picked)
                if question.many or len(chosen) == 1:
                    return tuple(chosen)
            elif question.free:
                return (line.strip(),)

    # --- the line of keys ------------------------------------------------------------------------------

    async def _choose(self, keys: Mapping[str, str], lead: str = "") -> str:
        """The key that was pressed, among these; empty when there is no terminal any more."""
        self._keys.set("key")
        named = [f"{key} {label}" for key, label in keys.items() if label]
        line = Text("  ")
        for place, entry in enumerate([lead, *named] if lead else named):
            key, _, label = entry.partition(" ")
            line.append("   " if place else "").append(key, "bold yellow").append(f" {label}")
        line.append("  ")
        if line.cell_len >= self._console.width:  # a wrapped line could not be taken back: the keys alone
            line = Text("  " + "/".join(keys) + " ", "bold yellow")
        self._put(line)
        return await self._keys.key(keys, self._console.bell)

    async def _line(self, prompt: str) -> str | None:
        self._keys.set("line")
        self._wipe()
        self._put(Text(f"  {prompt}", "yellow"))
        return await self._keys.line()

    def again(self) -> None:
        """After the process was stopped and continued: the line that waits for an answer."""
        if self._line_shown is not None:
            self._wipe()
            self._put(self._line_shown)

    def _put(self, line: Text) -> None:
        self._line_shown = line
        self._console.print(line, end="", soft_wrap=True)
        self._console.file.flush()

    def _verdict(self, text: Text) -> None:
        self._line_shown = None
        self._wipe()
        self._console.print(Text("  ") + text)

    def _wipe(self) -> None:
        self._console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))


# --- what is asked, whole: nothing in here is ever cut ------------------------------------------------------


def panel(ask: Ask, agent: str, cwd: str = "") -> Panel:
    """`cwd` is where the agent works anyway, which goes without saying."""
    wish = "has a plan" if ask.kind == "plan" else words.wish(ask)
    parts: list[RenderableType] = []
    if ask.reason:
        parts += [Text(clean(ask.reason), "italic"), Text()]
    if ask.kind == "plan" and "<" not in ask.plan:
        from rich.markdown import Markdown

        parts.append(Markdown(clean(ask.plan), hyperlinks=False))
    elif ask.kind == "plan":  # Markdown leaves out what looks like HTML, and all of it must be seen
        parts.append(Text(clean(ask.plan), overflow="fold"))
    else:
        parts.append(_details(ask, cwd))
    return Panel(
        Group(*parts),
        title=Text(f"{agent} {wish}", "bold"),
        title_align="left",
        border_style="yellow",
        padding=(0, 1),
    )


def question_panel(question: Question, agent: str) -> Panel:
    header = f" · {one_line(question.header)}" if question.header else ""
    body = Text(clean(question.text), "bold", overflow="fold")
    for place, choice in enumerate(question.choices, 1):
        body.append("\n").append(f"{place:>2}  ", "bold yellow").append(clean(choice.label), "not bold")
        if choice.description:
            body.append(f"\n    {clean(choice.description)}", "not bold dim")
    return Panel(
        body, title=Text(f"{agent} asks{header}", "bold"), title_align="left", border_style="cyan", padding=(0, 1)
    )


def _details(ask: Ask, place: str) -> RenderableType:
    match ask.action:
        case Command(command, cwd):
            text = Text.assemble(("$ ", "bold yellow"), (clean(command), "bold"), overflow="fold")
            return text.append(f"\nin {clean(cwd)}", "dim") if cwd and cwd != place else text
        case Edit(paths, diff) if diff.strip():
            from .diffs import coloured

            others = (Text(clean(path), "bold", overflow="fold") for path in words.beyond(paths, diff))
            return Group(*others, coloured(diff, cwd=place))
        case Edit(paths):
            return Group(*(Text(clean(path), "bold", overflow="fold") for path in paths), _input(ask))
        case Fetch(url, query):
            return Text(clean(" ".join(part for part in (url, query) if part)), "bold", overflow="fold")
        case Read(path):
            return Text(clean(path), "bold", overflow="fold")
        case Search(query, path):
            return Text(clean(f"{query} in {path}" if path else query), "bold", overflow="fold")
        case Mcp() | Task() | _:
            return _input(ask)


def _input(ask: Ask) -> Text:
    """The call's arguments: one per line, texts as they are."""
    text = Text(overflow="fold")
    for name, value in ask.input.items():
        if isinstance(value, str):
            shown = value
        else:
            import msgspec

            shown = msgspec.json.format(msgspec.json.encode(value, enc_hook=repr)).decode()
        text.append(f"{clean(str(name))}: ", "dim").append(clean(shown)).append("\n")
    if not text:
        text.append(one_line(ask.title), "bold")
    text.rstrip()
    return text
