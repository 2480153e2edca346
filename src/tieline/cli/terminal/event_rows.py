"""Events as styled rows of the terminal view: tool calls, the plan, the policy, the summary."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ...events import (
    Answer,
    Command,
    Done,
    Edit,
    Fetch,
    Mcp,
    OtherAction,
    PlanStep,
    Read,
    Search,
    Task,
    ToolResult,
    ToolUse,
)
from ...policy import Receipt
from . import event_text
from .sanitize import clean, one_line, output

ICON_STYLES = {
    Read: "blue", Search: "blue", Edit: "magenta", Command: "yellow", Fetch: "cyan", Mcp: "cyan", Task: "green",
    OtherAction: "white",
}  # fmt: skip
LEVEL_STYLES = {"allow": "green", "ask": "yellow", "deny": "red"}
STEP_SIGNS = {"pending": ("☐", "dim"), "running": ("◐", "bold"), "done": ("☑", "green")}
OUTPUT_LINES = 4
ERROR_LINES = 12
SLOW_S = 0.1
"""From here on a tool's time is worth a word."""


class RunningTool:
    """A tool call that has no result yet."""

    def __init__(self, use: ToolUse, since: float) -> None:
        self.use = use
        self.since = since
        self.asked = False  # a person saw all of it
        self.hidden = False  # what it did is on the screen in another form
        self.output = ""

    def add_output(self, text: str) -> None:
        self.output = (self.output + text)[-4096:]


def answer_line(event: Answer) -> Text | None:
    """Of a decision that was not made here: who made it, and from where. Or why nobody could."""
    if event.by in ("expiry", "error", "nobody", "restart"):
        return Text(f"! an ask was denied: {one_line(event.reason)}", "yellow")
    return Text(f"· {event_text.decision_text(event)}", "dim") if event.via or event.rule else None


def row_text(running: RunningTool, cwd: str, width: int) -> Text:
    """Icon, verb and target, cut to the width."""
    use = running.use
    row = event_text.action_row(use.action, use.name, cwd, use.input)
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(row.icon, ICON_STYLES[type(use.action)]).append(" ")
    if row.verb:
        text.append(f"{row.verb} ", "dim" if not isinstance(use.action, OtherAction) else "")
    text.append(row.target)
    text.rstrip()
    text.truncate(max(10, width), overflow="ellipsis")
    return text


def result_row(running: RunningTool, result: ToolResult, cwd: str, took: float, width: int) -> RenderableType:
    if result.status == "denied":
        end = Text.assemble(("  ✗ denied", "red"))
        why = one_line(result.output)
        below: list[Text] = [] if running.asked or not why else [Text(f"  {why}", "dim")]
    elif result.status == "error":
        end = Text("  ✗", "red")
        below = _tail(result.output, ERROR_LINES)
    else:
        end = Text("  ✓", "green")
        below = (
            _tail(result.output, OUTPUT_LINES) if isinstance(running.use.action, Command | Mcp | OtherAction) else []
        )
    if took >= SLOW_S and result.status != "denied":
        end.append(f" {event_text.seconds(took)}", "dim")
    return Group(row_text(running, cwd, width - end.cell_len) + end, *below)


def _tail(text: str, limit: int) -> list[Text]:
    lines = output(text).strip("\n").split("\n")
    if lines == [""]:
        return []
    kept = lines if len(lines) == limit + 1 else lines[-limit:]  # a note would take as much room as the line
    shown = [
        Text.assemble(("  │ ", "dim"), (line.expandtabs(4), "dim"), overflow="ellipsis", no_wrap=True) for line in kept
    ]
    if len(lines) > len(kept):
        shown.insert(0, Text(f"  │ … {len(lines) - len(kept)} lines above", "dim"))
    return shown


def thought_line(text: str, took: float, width: int) -> Text:
    head = f"∴ thought for {event_text.seconds(took)}  " if took >= 1 else "∴ thought  "
    return Text.assemble((head, "dim"), (one_line(text, max(20, width - len(head))), "dim italic"))


def checklist(steps: Sequence[PlanStep], limit: int | None = None) -> RenderableType:
    """The plan; where there is no room for all of it, what is around the running step."""
    shown = list(steps)
    before = after = 0
    if limit is not None and len(shown) > limit:
        at = next((i for i, step in enumerate(shown) if step.status != "done"), len(shown) - 1)
        before = max(0, min(at - 1, len(shown) - limit))
        after = len(shown) - limit - before
        shown = shown[before : before + limit]
    lines: list[Text] = []
    if before:
        lines.append(Text(f"… {before} before", "dim"))
    for step in shown:
        sign, style = STEP_SIGNS[step.status]
        lines.append(Text(f"{sign} {one_line(step.text)}", style, no_wrap=True, overflow="ellipsis"))
    if after:
        lines.append(Text(f"… {after} more", "dim"))
    return Group(*lines)


def policy_line(receipt: Receipt) -> Text:
    text = Text("  ")
    for index, (name, level) in enumerate(event_text.levels(receipt)):
        text.append(" · " if index else "", "dim").append(f"{name} ", "dim").append(level, LEVEL_STYLES[level])
    for name in receipt.unenforced():
        note = receipt.of(name).note
        text.append(f"\n  ! {event_text.CAPABILITY_WORDS[name]}: nothing enforces this", "yellow")
        text.append(f" ({clean(note)})" if note else "", "yellow")
    for sentence in receipt.remains:
        text.append(f"\n  {clean(sentence)}", "dim")
    return text


def summary_line(done: Done, *, error_shown: bool) -> Text:
    """How the turn ended. `error_shown`: its error is on the screen already."""
    sign, word = event_text.OUTCOMES[done.status]
    style = {"success": "green", "error": "red"}.get(done.status, "yellow")
    text = Text.assemble((f"{sign} {word}", f"bold {style}"))
    if done.error and not error_shown and done.status in ("error", "timeout"):
        text.append(f": {one_line(done.error, 400)}", style)
    return text.append("  " + " · ".join(event_text.summary_parts(done)), "dim")
