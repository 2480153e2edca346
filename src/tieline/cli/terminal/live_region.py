"""The live region: the current activity, below everything that is finished."""

from collections.abc import Callable, Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from ...events import PlanStep, Tokens
from . import event_text
from .event_rows import RunningTool, checklist, row_text
from .markdown import MarkdownPage
from .sanitize import one_line, output

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_PER_S = 10
PLAN_LINES = 7
OUTPUT_LINES = 3
MAX_TOOLS = 5
TEXT_KEPT = 8_000
"""Of a block that is still growing: more than any screen shows."""


class LiveRegion:
    def __init__(self, clock: Callable[[], float], keys: str = "Ctrl-C interrupts") -> None:
        """`keys`: what the person can press."""
        self._clock = clock
        self._keys = keys
        self._began = clock()
        self.cwd = ""
        self.doing = ""
        self.text = ""
        self.tools: dict[str, RunningTool] = {}
        self.plan: Sequence[PlanStep] = ()
        self.tokens: Tokens | None = None
        self._thought = ""

    def begin(self) -> None:
        self._began = self._clock()

    def think(self, text: str) -> None:
        """More of the agent's thinking; empty when it is over."""
        self._thought = (self._thought + text)[-TEXT_KEPT:] if text else ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = max(6, options.height or console.height)
        width = options.max_width
        yield Text()
        if self.text.strip():
            yield MarkdownPage(self.text[-TEXT_KEPT:], last=max(3, height - PLAN_LINES - 8))
            yield Text()
        yield from self._tools(width)
        if self.plan:
            yield checklist(self.plan, PLAN_LINES)
        yield self._spinner(width)

    def _tools(self, width: int) -> list[RenderableType]:
        lines: list[RenderableType] = []
        for running in list(self.tools.values())[-MAX_TOOLS:]:
            took = self._clock() - running.since
            end = f"  {event_text.seconds(took)}" if took >= 1 else ""
            lines.append(row_text(running, self.cwd, width - len(end) - 2) + Text(end, "dim"))
            for line in output(running.output).strip("\n").split("\n")[-OUTPUT_LINES:] if running.output else []:
                lines.append(Text(f"  │ {line.expandtabs(4)}", "dim", no_wrap=True, overflow="ellipsis"))
        return lines

    def _spinner(self, width: int) -> Text:
        now = self._clock()
        frame = FRAMES[int(now * FRAMES_PER_S) % len(FRAMES)]
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(f"{frame} ", "cyan")
        text.append("thinking" if self._thought else self.doing, "cyan")
        text.append(f"  {event_text.seconds(now - self._began)}", "dim")
        if self.tokens is not None and (used := event_text.token_parts(self.tokens)):
            text.append(" · " + " · ".join(used), "dim")
        if self._thought:
            text.append("  " + one_line(self._thought.strip().split("\n")[-1], width), "dim italic")
        else:
            text.append(f" · {self._keys}", "dim")
        text.truncate(width, overflow="ellipsis")
        return text
