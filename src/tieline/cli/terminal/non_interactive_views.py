"""A turn without a terminal: plain text, or JSON lines. No control codes in either."""

from typing import IO, Protocol

from ...events import (
    Answer,
    AnyEvent,
    Ask,
    Done,
    Error,
    Event,
    Init,
    Plan,
    Status,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    Warning,
    encode,
)
from . import event_text
from .sanitize import clean, one_line, output

MARKS = {"pending": "[ ]", "running": "[>]", "done": "[x]"}
OUTPUT_LINES = 8
TICK_S = 0.1
"""Between two ticks of a view's clock."""


class View(Protocol):
    """Events in, something for a person or a program out."""

    resumable: bool
    """Whether the end may say how to go on; told when the session is open."""

    def start(self, agent: str) -> None: ...

    def show(self, event: Event) -> None: ...

    def note(self, message: str) -> None:
        """Something that the command line itself has to say."""
        ...

    def tick(self) -> None:
        """Time has passed: called a few times a second while the turn runs."""
        ...

    def pause(self) -> None:
        """Somebody else writes to the terminal now; until `resume`."""
        ...

    def resume(self) -> None: ...

    def close(self) -> None:
        """Leave everything tidy. Twice is fine."""
        ...


class NonInteractiveView:
    """The parts of a view that one without a terminal does not need."""

    resumable = False

    def start(self, agent: str) -> None:
        pass

    def tick(self) -> None:
        pass

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def close(self) -> None:
        pass


class JsonView(NonInteractiveView):
    """One event per line, and nothing else."""

    def __init__(self, out: IO[bytes], errors: IO[str]) -> None:
        self._out = out
        self._errors = errors

    def show(self, event: Event) -> None:
        self._out.write(encode(event) + b"\n")
        self._out.flush()

    def note(self, message: str) -> None:
        print(f"tieline: {clean(message)}", file=self._errors, flush=True)


class PlainView(NonInteractiveView):
    """The answer on one stream, everything else on the other."""

    def __init__(self, out: IO[str], errors: IO[str], *, agent: str = "", cwd_option: str = "") -> None:
        """`agent`: how to go on with it. `cwd_option`: the directory, if that needs to be named."""
        self._out = out
        self._errors = errors
        self._agent = agent
        self._cwd_option = cwd_option
        self._rows: dict[str, event_text.EventRow] = {}
        self._held = ""  # the last text: it may turn out to be the answer, which belongs to the other stream
        self._cwd = ""
        self._shown_errors: set[str] = set()

    def note(self, message: str) -> None:
        self._say(f"tieline: {message}")

    def show(self, event: AnyEvent | Event) -> None:
        match event:
            case Text(text, parent=""):
                self._release()
                self._held = text
            case Done():
                self._done(event)
            case Init():
                self._cwd = event.cwd
                model = f" ({one_line(event.model)})" if event.model else ""
                levels = event_text.levels(event.receipt) if event.receipt else []
                rules = ", ".join(f"{name} {level}" for name, level in levels)
                self._say(f"{event.agent}{model} in {event.cwd}" + (f": {rules}" if rules else ""))
            case Thinking(text):
                self._say(f"thinking: {one_line(text)}")
            case ToolUse():
                self._release()
                self._rows[event.id] = event_text.action_row(event.action, event.name, self._cwd, event.input)
            case ToolResult():
                self._result(event)
            case Ask(kind="permission"):
                pass  # its tool call is told with its result
            case Ask():
                self._say(f"asked: {one_line(event.title or event.plan)}")
            case Answer() if event.via or event.answers or event.rule:
                self._say(event_text.decision_text(event))
            case Answer(
                decision="deny", by="restart"
            ):  # the call's own result says no more than that it was not finished
                self._say(f"denied: {one_line(event.reason)}")
            case Plan(steps):
                self._say("plan: " + "  ".join(f"{MARKS[step.status]} {one_line(step.text)}" for step in steps))
            case Status(state, detail):
                self._say(f"{state}: {one_line(detail)}" if detail else state)
            case Warning(message):
                self._say(f"warning: {message}")
            case Error(message):
                self._shown_errors.add(message)
                self._say(f"error: {message}")
            case _:
                pass

    def _result(self, event: ToolResult) -> None:
        row = self._rows.pop(event.id, event_text.EventRow("", "tool", event.id))
        lines = output(event.output).strip().split("\n")
        what = f"{row.verb or row.icon} {row.target}".rstrip()
        if event.status == "ok":
            self._say(f"{what}: ok")
        elif event.status == "denied":
            self._say(f"{what}: denied ({one_line(event.output)})")
        else:
            self._say("\n  ".join([f"{what}: failed", *lines[-OUTPUT_LINES:]]))

    def _done(self, event: Done) -> None:
        if self._held != event.text:
            self._release()
        if event.text:
            print(clean(event.text).rstrip("\n"), file=self._out, flush=True)
        _, word = event_text.OUTCOMES[event.status]
        why = (
            f": {one_line(event.error)}"
            if event.error and event.status != "success" and event.error not in self._shown_errors
            else ""
        )
        self._say(f"{word}{why} ({', '.join(event_text.summary_parts(event))})")
        if self.resumable and event.native_id:
            self._say(f"go on with: {event_text.resume_command(self._agent, event.native_id, self._cwd_option)}")

    def _release(self) -> None:
        if self._held:
            self._say(self._held)
            self._held = ""

    def _say(self, message: str) -> None:
        print(clean(message), file=self._errors, flush=True)
