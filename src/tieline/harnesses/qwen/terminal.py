"""A Qwen Code session in a person's terminal, attached: its record is followed, its hooks tell what it asks and when it
waits for input, and prompts go in by its socket.

Qwen Code shows its prompt only when the hooks of a permission have answered, so that one which waits for people
elsewhere would keep it from the person who sits there. Only what a rule says is an answer of the hook.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ...drivers.acp.permissions import asked_questions, permission_ask
from ...drivers.acp.tools import AcpToolCall
from ...drivers.claude_edits import preview_edit
from ...events import Ask, Command
from ...mesh.push import Unreachable
from ...protocol.mesh import Activity
from ...sessions.attached_session import AttachedSession, TerminalUnreachable
from ...sessions.records import Remote
from ..terminals.hooked_terminal import QUIET_S, HookedTerminal, HookNote
from ..terminals.transcript_file import TranscriptCursor, TranscriptLine
from .transcript import KINDS, PRESET, QwenEvents, QwenTranscriptFile

PERMISSION_EVENT = "PermissionRequest"
PLAN_MODE = "plan"
"""Where a command that changes something is asked about, allowing it takes back what the mode promises."""
EDITS = {"write_file": "Write", "edit": "Edit", "notebook_edit": "NotebookEdit"}
"""Its tools for files, and Claude Code's that take the same input."""
QUESTION, PLAN = "ask_user_question", "exit_plan_mode"
CALL_S = 10.0
"""The record has the call that is asked about within this time."""
MAX_RULINGS = 100
IDLE_NOTE = "idle_prompt"
"""The notification that fires whenever it waits for input: after a turn, and after one that was interrupted."""


class QwenTerminal(HookedTerminal[QwenEvents]):
    remote: tuple[Remote, ...] = ("prompt",)
    harness = "qwen"
    how = "Qwen Code takes this at the terminal only"

    def __init__(
        self,
        process: int,
        session: str,
        cwd: str,
        path: Path,
        *,
        since: Callable[[], float | None],
        reading: asyncio.Semaphore,
        push: Callable[[str], Awaitable[None]],
        activity: Callable[[], Activity],
    ) -> None:
        """`activity` is what its hooks told last."""
        super().__init__(process, session, cwd, path, since=since, reading=reading)
        self._push = push
        self._activity = activity
        self._idle_at = 0.0  # when it waited for input last, by its clock
        self._last_said = ""  # by the model, at the end of a turn
        self._asked_about: dict[str, AcpToolCall] = {}  # calls
        self._rulings = deque[HookNote](maxlen=MAX_RULINGS)  # what rules have decided and is not told yet
        self._ruled: set[str] = set()  # calls of this turn that a rule has decided

    def _new_events(self, cursor: TranscriptCursor) -> QwenEvents:
        return QwenEvents(self._session, self._cwd, cursor)

    def _new_file(self, cursor: TranscriptCursor) -> QwenTranscriptFile:
        return QwenTranscriptFile(self._path, cursor)

    def look(self, path: Path) -> None:
        """Its record may have grown: no hook tells that somebody else's message begins a turn."""
        self._path = path
        self._changed.set()

    async def prompt(self, text: str, *, model: str = "", effort: str = "") -> None:
        """What it is given in a turn would wait in its memory, and be lost with it: we keep it until it is idle."""
        activity = self._activity()
        if activity == "working" or (activity == "unknown" and self._events.turn is not None):
            raise TerminalUnreachable("Qwen Code is not idle")
        try:
            await self._push(text)
        except Unreachable as error:
            raise TerminalUnreachable(str(error)) from None

    def on_hook(self, note: HookNote) -> None:
        if note.event == "Stop":
            self._last_said = str(note.input.get("last_assistant_message") or "").strip()
        elif note.event == "Notification" and note.input.get("notification_type") == IDLE_NOTE:
            self._idle_at = note.at
        if note.answer is None:
            super().on_hook(note)
        else:
            self._rulings.append(note)
            self._changed.set()

    async def _tell_line(self, attached: AttachedSession, line: TranscriptLine) -> None:
        before = self._events.turn
        await super()._tell_line(attached, line)
        if self._events.turn is not before:
            self._ruled.clear()
        self._tell_rulings(attached)  # before what became of the call

    async def _settle(self, attached: AttachedSession) -> None:
        if self._since() is not None:
            self._tell_rulings(attached)

    def _tell_rulings(self, attached: AttachedSession) -> None:
        """What rules have decided, with its call once the record has that."""
        for note in list(self._rulings):
            tool = self._find_call(note)
            if note.answer is None or (tool is None and time.time() - note.at <= CALL_S):
                continue
            attached.tell(replace(note.answer, tool=tool.id if tool else ""))  # none: a subagent's
            self._rulings.remove(note)
            if tool is not None:
                self._ruled.add(tool.id)

    def _is_prompt(self, note: HookNote) -> bool:
        return note.event == "UserPromptSubmit"

    async def _is_over(self) -> bool:
        """Qwen Code writes its record down a moment after all else: what it said last must be there, or nothing may
        come any more."""
        events = self._events
        if self._idle_at < events.began_at:
            return self._activity() != "working" and await super()._is_over()
        whole = events.may_be_over and events.answer == self._last_said
        return whole or self._quiet.seconds >= QUIET_S

    def _is_ready(self, note: HookNote) -> bool:
        asks = note.event == PERMISSION_EVENT
        return not asks or self._find_call(note) is not None or time.time() - note.at > CALL_S

    async def _take_note(self, attached: AttachedSession, note: HookNote) -> None:
        if isinstance(mode := note.input.get("permission_mode"), str) and self._since() is not None:
            for event in self._events.mode(mode):
                attached.tell(event)
        await super()._take_note(attached, note)

    async def _on_note(self, attached: AttachedSession, note: HookNote) -> None:
        name, given = str(note.input.get("tool_name")), note.fields("tool_input")
        if note.event == PERMISSION_EVENT:
            closed = self._events.closed_calls.values()
            if (asked_tool := self._find_call(note)) is None:  # the call was decided at once, or is a subagent's
                if any(_is_of(tool, name, given) for tool in closed):
                    return
                asked_tool = _new_call(name, f"subagent-{self._asked}", given)
            shown = {prompt.call for prompt in self._prompts.values()}
            self._asked_about = {id: tool for id, tool in self._asked_about.items() if id in shown}
            self._asked_about[asked_tool.id] = asked_tool
            await self._show(attached, await self._build_ask(asked_tool))
        elif note.event == "PreToolUse":  # it begins
            call = str(note.input.get("tool_call_id"))
            subagents = (id for id, tool in self._asked_about.items() if _is_of(tool, name, given))
            await self._close(attached, call if call in self._asked_about else next(subagents, ""), "allow")

    def _find_call(self, note: HookNote) -> AcpToolCall | None:
        """The call that it asks about: the hook does not say which."""
        name, given = str(note.input.get("tool_name")), note.fields("tool_input")
        unasked = (tool for tool in self._unasked() if tool.id not in self._ruled)
        return next((tool for tool in unasked if _is_of(tool, name, given)), None)

    async def _hooked_ask(self, note: HookNote) -> Ask | None:
        """The hook has all of the call; the record may be long behind, where a machine has much to do."""
        name, given, cwd = str(note.input.get("tool_name")), note.fields("tool_input"), note.input.get("cwd")
        if not isinstance(note.input.get("tool_input"), dict) or not isinstance(cwd, str):
            return None
        ask = await self._build_ask(_new_call(name, "", given))
        if isinstance(ask.action, Command) and cwd != self._cwd:  # a rule for one directory must not hold in another
            ask = replace(ask, action=replace(ask.action, cwd=cwd))
        return replace(ask, wider=ask.wider or note.input.get("permission_mode") == PLAN_MODE)

    async def _build_ask(self, tool: AcpToolCall) -> Ask:
        request = {"toolCall": {"_meta": {"qwenQuestions": tool.arguments.get("questions")}}}
        if tool.name == QUESTION and (questions := asked_questions(PRESET.traits, request)):
            return Ask("", "question", tool.name, tool=tool.id, questions=questions)
        if tool.name == PLAN and (plan := tool.argument("plan")):
            return Ask("", "plan", tool.name, tool=tool.id, plan=plan)
        ask = await permission_ask("", tool, self._events.action(tool), request, PRESET, self._cwd)
        drawn = await preview_edit(EDITS.get(tool.name, ""), tool.arguments, self._cwd)
        if drawn is None:
            return ask
        notes = " ".join(filter(None, (ask.reason, drawn.note)))
        return replace(ask, action=drawn.edit, reason=notes, withheld=ask.withheld or drawn.withheld)


def _new_call(name: str, id: str, given: dict[str, Any]) -> AcpToolCall:
    """One that the record does not have."""
    tool = AcpToolCall(name, id)
    tool.title, tool.arguments = name, given
    tool.kind = KINDS.get(name) or PRESET.tool_kinds.get(name, "other")
    return tool


def _is_of(tool: AcpToolCall, name: str, given: dict[str, Any]) -> bool:
    return tool.name == name and dict(tool.arguments) == given
