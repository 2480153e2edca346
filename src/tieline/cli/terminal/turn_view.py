"""A turn on the terminal: finished events are printed, the current activity stays in a live region below them.

The view only reads events and decides nothing. Everything that comes from an agent is sanitized (`sanitize.clean`).
"""

import time
from collections.abc import Callable

from rich.console import Console, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text as Line

from ...events import (
    Answer,
    AnyEvent,
    Diff,
    Done,
    Edit,
    Error,
    Event,
    Init,
    OtherAction,
    Plan,
    Status,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolOutput,
    ToolResult,
    ToolUse,
    TurnStarted,
    Usage,
    Warning,
    changed_paths,
)
from . import event_text
from .diff_view import coloured
from .event_rows import RunningTool, answer_line, checklist, policy_line, result_row, summary_line, thought_line
from .live_region import LiveRegion
from .markdown import MarkdownPage
from .markdown_stream import MarkdownStream
from .sanitize import clean, one_line

DIFF_LINES = 60
"""Of a diff that nobody was asked about; an ask always shows all of it."""
HELD_S = 0.3
"""How long the row of a call waits for the plan that it may have set."""


class TerminalView:
    def __init__(
        self,
        console: Console,
        *,
        home: str = "",
        agent: str = "",
        show_prompt: bool = False,
        cwd_option: str = "",
        clock: Callable[[], float] = time.monotonic,
        keys: str = "Ctrl-C interrupts",
    ) -> None:
        """`agent`: how to go on with it. `cwd_option`: the directory, if that needs to be named."""
        self._console = console
        self._home = home
        self._agent = agent
        self.resumable = False
        self._show_prompt = show_prompt
        self._cwd_option = cwd_option
        self._clock = clock
        self._region = LiveRegion(clock, keys)
        self._live: Live | None = None
        self._paused = False
        self._cwd = ""
        self._prompt = ""
        self._last = ""  # what was printed last: "", "row" or "block"
        self._prose = MarkdownStream()
        self._shown_diffs: set[str] = set()  # paths whose change was seen already
        self._diff = ""
        self._thinking_since = 0.0
        self._shown_errors: set[str] = set()
        self._before: Event | None = None
        self._held: tuple[float, RenderableType] | None = None  # a row that a plan right after it makes needless

    # --- the view's life -------------------------------------------------------------------------------

    def start(self, agent: str) -> None:
        self._region.doing = f"starting {agent}"
        self._region.begin()
        self._start_live()

    def tick(self) -> None:
        if self._paused:
            return
        self._print_markdown(self._prose.take_finished())
        if self._held is not None and self._clock() - self._held[0] > HELD_S:
            self._release()
        if self._live is not None:
            self._live.refresh()

    def pause(self) -> None:
        self._print_markdown(self._prose.take_finished())
        self._release()
        self._paused = True
        self._stop_live()

    def resume(self) -> None:
        self._paused = False
        self._last = "row"
        self._start_live()

    def close(self) -> None:
        self._stop_live()

    def _start_live(self) -> None:
        self._live = Live(  # a new one each time: it remembers where its last lines were
            self._region, console=self._console, auto_refresh=False, transient=True,
            redirect_stdout=False, redirect_stderr=False, vertical_overflow="crop")  # fmt: skip
        self._live.start(refresh=True)

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def note(self, message: str) -> None:
        self._row(Line(clean(message), "yellow"))

    # --- events ----------------------------------------------------------------------------------------

    def show(self, event: AnyEvent | Event) -> None:
        if isinstance(event, Plan):
            self._held = None
        self._release()
        if not isinstance(event, Init | TurnStarted):
            self._print_prompt()
        self._show(event)
        self._before = event

    def _show(self, event: AnyEvent | Event) -> None:
        match event:
            case TextDelta(text, item, parent=""):
                self._prose.feed(item, text)
                self._region.doing = "writing"
            case Text(text, item, parent=""):
                self._print_markdown(self._prose.finish_item(item, text))
                self._region.doing = "working"
            case Text(text):  # a subagent's words: folded
                self._row(Line(f"  {one_line(text)}", "dim"))
            case ThinkingDelta(text, parent=""):
                self._thinking_since = self._thinking_since or self._clock()
                self._region.think(text)
            case Thinking(text, parent=""):
                self._thought(text)
            case ToolUse():
                self._region.doing = "working"
                running = self._region.tools[event.id] = RunningTool(event, self._clock())
                running.hidden = isinstance(self._before, Plan) and isinstance(event.action, OtherAction)
            case ToolOutput(id, text):
                if id in self._region.tools:
                    self._region.tools[id].add_output(text)
            case ToolResult():
                self._result(event)
            case Answer():
                self._answer(event)
            case Plan(steps):
                self._region.plan = steps
                for running in self._region.tools.values():  # the call that set the plan needs no row of its own
                    running.hidden = running.hidden or isinstance(running.use.action, OtherAction)
            case Diff(diff):
                self._diff = diff
            case Usage(tokens):
                self._region.tokens = tokens
            case _:
                self._show_rest(event)

    def _show_rest(self, event: AnyEvent | Event) -> None:
        match event:
            case Init():
                self._init(event)
            case TurnStarted(prompt, _, files):
                self._region.doing = "working"
                prompt_text = "\n".join([*filter(None, [prompt.strip()]), *(f"[{file.name}]" for file in files)])
                self._prompt = clean(prompt_text) if self._show_prompt else ""
            case Status(state, detail):
                self._region.doing = one_line(state, 40)
                if detail:
                    self._row(Line(one_line(f"· {state}: {detail}", self._console.width), "dim"))
            case Warning(message):
                self._row(Line(f"! {clean(message)}", "yellow"))
            case Error(message):
                self._shown_errors.add(message)
                style = "yellow" if event.recoverable else "red"
                self._block(Line(f"✗ {clean(message)}", style))
            case Done():
                self._done(event)
            case _:  # what has no place in the events has none on the screen either; --json has it
                pass

    def _init(self, event: Init) -> None:
        self._cwd = self._region.cwd = event.cwd
        parts = [event_text.with_tilde(event.cwd, self._home)]
        if event.model:
            parts.insert(0, event.model)
        about = "  " + " · ".join(map(one_line, parts))
        line = Line.assemble(("● ", "green"), (one_line(event.agent), "bold"), (about, "dim"))
        if event.receipt is not None:
            line.append("\n").append_text(policy_line(event.receipt))
        self._block(line)
        self._print_prompt()

    def _print_prompt(self) -> None:
        """Once per turn, below what the agent says of itself if it does."""
        if self._prompt:
            self._block(Line.assemble(("› ", "bold cyan"), (self._prompt, "bold")))
            self._prompt = ""

    def _answer(self, event: Answer) -> None:
        running = self._region.tools.get(event.tool)
        if (line := answer_line(event)) is not None:
            self._row(line)
        if running is None:
            return
        running.since = self._clock()  # the time that somebody took to decide is not the tool's
        if event.by == "person":
            running.asked = True
            if isinstance(running.use.action, Edit):
                self._shown_diffs.update(running.use.action.paths, changed_paths(running.use.action.diff))
        if event.decision == "deny" and event.by == "person":
            del self._region.tools[event.tool]  # the ask and its answer are on the screen
        elif event.decision == "deny":  # told at once: some agents never speak of it again
            self._result(ToolResult(event.tool, "denied", event.reason))

    def _thought(self, text: str) -> None:
        took = self._clock() - self._thinking_since if self._thinking_since else 0.0
        self._thinking_since = 0.0
        self._region.think("")
        self._row(thought_line(text, took, self._console.width))

    def _result(self, event: ToolResult) -> None:
        running = self._region.tools.pop(event.id, None)
        if running is None or (running.hidden and event.status == "ok"):
            return
        took = self._clock() - running.since
        indent = 2 if running.use.parent else 0
        lines = result_row(running, event, self._cwd, took, self._console.width - indent)
        row = Padding(lines, (0, 0, 0, indent)) if indent else lines
        action = running.use.action
        if isinstance(action, OtherAction) and event.status == "ok":
            self._held = (self._clock(), row)
            return
        self._row(row)
        if isinstance(action, Edit) and action.diff.strip() and event.status == "ok" and not running.asked:
            self._shown_diffs.update(action.paths, changed_paths(action.diff))
            self._row(Padding(coloured(action.diff, cwd=self._cwd, limit=DIFF_LINES), (0, 0, 0, 2)))

    def _done(self, event: Done) -> None:
        self._print_markdown(self._prose.flush())
        self._diff_at_end()
        if self._region.plan:
            self._block(checklist(self._region.plan))
        self.close()
        error_shown = event.error in self._shown_errors
        self._block(summary_line(event, error_shown=error_shown))
        if self.resumable and event.native_id:
            command = event_text.resume_command(self._agent, event.native_id, self._cwd_option)
            self._console.print(Line(f"  go on with: {command}", "dim"), soft_wrap=True)

    def _diff_at_end(self) -> None:
        """What the turn changed, where no tool call has shown it."""
        changed = set(changed_paths(self._diff))
        seen = {path for path in changed if any(path == s or s.endswith(f"/{path}") for s in self._shown_diffs)}
        if changed - seen:
            self._block(coloured(self._diff, cwd=self._cwd, limit=DIFF_LINES))

    # --- printing --------------------------------------------------------------------------------------

    def _release(self) -> None:
        if self._held is not None:
            (_, row), self._held = self._held, None
            self._row(row)

    def _print_markdown(self, blocks: list[str]) -> None:
        for block in blocks:
            self._block(MarkdownPage(block))
        self._region.text = self._prose.growing

    def _row(self, what: RenderableType) -> None:
        """A line among others: close together."""
        if self._last == "block":
            self._console.print()
        self._last = "row"
        self._console.print(what)

    def _block(self, what: RenderableType) -> None:
        """Something that stands apart."""
        if self._last:
            self._console.print()
        self._last = "block"
        self._console.print(what)
