"""A session's events folded into whole items: what a person reads, and what `get_messages` gives."""

from collections.abc import AsyncIterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ..events import (
    Answer,
    Ask,
    AttachedFile,
    Diff,
    Done,
    Error,
    Plan,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    TurnStarted,
    Warning,
)
from .event_log import LogEntry


class TranscriptItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One item: said by the user or the agent, or done by it. `seq` is where it stands in the log."""

    seq: int
    at: float = 0.0
    kind: Literal["user", "text", "thinking", "tool", "ask", "plan", "diff", "warning", "error", "done"]
    text: str = ""
    attachments: tuple[AttachedFile, ...] = ()  # given with a prompt
    parent: str = ""
    tool: ToolUse | None = None
    result: ToolResult | None = None
    ask: Ask | None = None
    answer: Answer | None = None
    plan: Plan | None = None
    diff: Diff | None = None
    done: Done | None = None


MAX_MESSAGES = 10_000
"""Items that are given at most; the log has them all."""


async def fold(entries: AsyncIterator[LogEntry], *, limit: int) -> list[TranscriptItem]:
    """The last `limit` items. A tool call and its result, an ask and its answer, are one item each."""
    items: dict[str, TranscriptItem] = {}
    turn = 0
    async for entry in entries:
        if isinstance(entry.event, TurnStarted):
            turn = entry.seq  # a model may use the id of a call again in a later turn
        _take(items, entry, turn)
        while len(items) > min(limit, MAX_MESSAGES):
            del items[next(iter(items))]
    return list(items.values())


async def last_diff(entries: AsyncIterator[LogEntry]) -> str:
    """The agent's own newest diff, which covers the whole turn. Empty when the agent shows no diffs."""
    diff = ""
    async for entry in entries:
        if isinstance(entry.event, Diff):
            diff = entry.event.diff
    return diff


def _take(items: dict[str, TranscriptItem], entry: LogEntry, turn: int) -> None:
    seq, at, event = entry.seq, entry.at, entry.event
    own = f"#{seq}"
    match event:
        case TurnStarted(prompt, _, files):
            items[own] = TranscriptItem(seq=seq, at=at, kind="user", text=prompt, attachments=files)
        case Text(text, _, parent):
            items[own] = TranscriptItem(seq=seq, at=at, kind="text", text=text, parent=parent)
        case Thinking(text, _, parent):
            items[own] = TranscriptItem(seq=seq, at=at, kind="thinking", text=text, parent=parent)
        case ToolUse(id=id, parent=parent):
            items[f"tool {turn} {id}"] = TranscriptItem(seq=seq, at=at, kind="tool", tool=event, parent=parent)
        case ToolResult(id=id):
            if call := items.get(f"tool {turn} {id}"):
                items[f"tool {turn} {id}"] = replace(call, result=event)
        case Ask(id=id):
            items[f"ask {id}"] = TranscriptItem(seq=seq, at=at, kind="ask", ask=event)
        case Answer(ask=id):
            asked = items.get(f"ask {id}") or TranscriptItem(seq=seq, at=at, kind="ask")
            items[f"ask {id}"] = replace(asked, answer=event)
        case Plan():
            items.pop("plan", None)  # each one is whole: only the newest counts
            items["plan"] = TranscriptItem(seq=seq, at=at, kind="plan", plan=event)
        case Diff():
            items.pop("diff", None)
            items["diff"] = TranscriptItem(seq=seq, at=at, kind="diff", diff=event)
        case Warning(message):
            items[own] = TranscriptItem(seq=seq, at=at, kind="warning", text=message)
        case Error(message):
            items[own] = TranscriptItem(seq=seq, at=at, kind="error", text=message)
        case Done():
            items[own] = TranscriptItem(seq=seq, at=at, kind="done", done=event)
        case _:
            pass
