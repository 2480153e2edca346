"""A member's running turn, as far as it has come: its words, its tools."""

import os
from dataclasses import dataclass

from msgspec.structs import replace
from rich.text import Text as StyledText

from ...events import (
    Answer,
    AnyEvent,
    Error,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolResult,
    ToolUse,
    TurnStarted,
    Warning,
)
from ...teams.markers import without_markers
from ..terminal import event_text
from ..terminal.sanitize import one_line, prose

MAX_STEPS = 200
MAX_WORDS = 6000
"""Characters of one step that are kept: the last ones."""
TOOL_SIGNS = {"": ("…", "yellow"), "ok": ("✓", "green"), "error": ("✗", "red"), "denied": ("✗ denied", "red")}


@dataclass
class LiveStep:
    kind: str  # text, thinking, tool, note
    key: str = ""
    text: str = ""
    status: str = ""  # of a tool: how it ended
    complete: bool = False


class LiveTurn:
    def __init__(self) -> None:
        self.prompt = ""
        self.joined = False  # in the middle: the words that are being said began before
        self._steps: list[LiveStep] = []

    def apply(self, event: AnyEvent) -> None:
        match event:
            case TurnStarted(id=prompt):
                self.prompt = prompt
                self._steps.clear()
                self.joined = False
            case TextDelta(text=text, item=item, parent="") | ThinkingDelta(text=text, item=item, parent=""):
                step = self._open("text" if isinstance(event, TextDelta) else "thinking", item)
                step.text = (step.text + text)[-MAX_WORDS:]
            case Text(text=text, item=item, parent="") | Thinking(text=text, item=item, parent=""):
                step = self._open("text" if isinstance(event, Text) else "thinking", item)
                step.text, step.complete = text[-MAX_WORDS:], True
            case ToolUse(id=id, name=name, action=action, input=input, parent=""):
                row = event_text.action_row(action, name, arguments=input)
                step = self._open("tool", id)
                step.text = f"{row.icon} {row.verb} {row.target}" if row.verb else f"{row.icon} {row.target}"
            case ToolResult(id=id, status=status, parent=""):
                step = self._open("tool", id)
                step.status, step.complete = status, True
            case Answer(by=by, via=via) if by != "policy":
                here = via.startswith(f"pid {os.getpid()} ")
                self._note(event_text.decision_text(replace(event, via="") if here else event))
            case Warning(message=message) | Error(message=message):
                self._note(message)
            case _:
                pass

    def steps(self, width: int) -> list[StyledText]:
        """Its tools, one line each."""
        return [_step_line(step, width) for step in self._steps if step.kind == "tool"]

    def lines(self, width: int) -> list[StyledText]:
        """All of it, in order; of its thoughts only what it thinks right now."""
        shown: list[StyledText] = []
        for index, step in enumerate(self._steps):
            if step.kind == "text":
                if words := without_markers(prose(step.text)):
                    shown.append(StyledText(words, overflow="fold"))
            elif step.kind != "thinking" or index == len(self._steps) - 1:
                shown.append(_step_line(step, width))
        return shown

    def _open(self, kind: str, key: str) -> LiveStep:
        """The step that goes on, or a new one."""
        for step in reversed(self._steps):
            if (step.kind, step.key) == (kind, key) and not step.complete:
                return step
        step = LiveStep(kind, key, "… " if self.joined and kind == "text" else "")
        self.joined = False
        self._steps.append(step)
        del self._steps[:-MAX_STEPS]
        return step

    def _note(self, text: str) -> None:
        self._steps.append(LiveStep("note", text=text, complete=True))


def _step_line(step: LiveStep, width: int) -> StyledText:
    if step.kind == "tool":
        sign, style = TOOL_SIGNS.get(step.status, (step.status, ""))
        line = StyledText(one_line(step.text, 400), "dim", no_wrap=True)
        line.truncate(max(10, width - len(sign) - 2), overflow="ellipsis")
        return line.append(f"  {sign}", style)
    sign = "∴" if step.kind == "thinking" else "·"
    line = StyledText(
        f"{sign} {one_line(step.text[-400:] if step.kind == 'thinking' else step.text, 400)}", "dim italic"
    )
    line.truncate(max(10, width), overflow="ellipsis")
    return line
