"""After a crash: what the log and the tables say is made to agree, and nothing is claimed that is not known."""

from msgspec.structs import replace

from ..events import Answer, Done, Error, Init, ToolResult, ToolUse, TurnStarted
from .log import EventLog
from .prompts import Prompts
from .records import AskRecord, PromptRecord, SessionRecord, add

PROBLEM = "the owner of the session died while the turn ran; it may have run in part"


async def expire_ask(log: EventLog, record: AskRecord) -> None:
    """Nobody waits for its answer any longer; the log says so."""
    reason = "its owner died before an answer came"
    lost = Answer(record.id, "deny", by="restart", reason=reason, tool=record.ask.tool)
    await log.append(record.session, lost, id=f"{record.id}.expired")


async def close_turn(log: EventLog, prompts: Prompts, prompt: PromptRecord, record: SessionRecord) -> SessionRecord:
    """A prompt that was running gets its truthful end: the log's own if the turn had come to it, else indeterminate.

    In the log, every open tool call gets a result and the turn its one `done`.
    """
    started = False
    ended: Done | None = None
    calls: dict[str, None] = {}
    native = record.native_id
    async for entry in log.read(record.id, after=record.seq, follow=False):
        match entry.event:
            case TurnStarted():
                started, ended = True, None
                calls.clear()
            case Init(native_id=id):
                native = id or native
            case ToolUse(id=id):
                calls[id] = None
            case ToolResult(id=id):
                calls.pop(id, None)
            case Done():
                ended = entry.event
            case _:
                pass
    if ended is not None:
        await prompts.conclude(prompt, ended.status, ended.error)
        tokens = add(record.tokens, ended.tokens)
        native = ended.native_id or native
        return replace(record, status="idle", turns=record.turns + 1, tokens=tokens, native_id=native)
    if started:
        for call in calls:
            await log.append(record.id, ToolResult(call, "error", PROBLEM), id=f"{prompt.id}.{call}.lost")
        await log.append(record.id, Error(PROBLEM, "indeterminate"), id=f"{prompt.id}.lost")
        await log.append(record.id, Done("error", error=PROBLEM), id=f"{prompt.id}.done")
    await prompts.conclude(prompt, None, PROBLEM)
    return replace(record, status="failed", problem=PROBLEM, native_id=native)
