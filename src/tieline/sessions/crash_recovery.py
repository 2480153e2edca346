"""Recovery after a crash: makes the log and the tables agree, and claims nothing that is not known."""

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from ..events import Answer, Ask, Done, Error, Init, ToolResult, ToolUse, TurnStarted
from .ask_decisions import lost
from .event_log import EventLog
from .prompt_queue import PromptQueue
from .records import AskRecord, PromptRecord, SessionRecord, add

CHANGED = ("status", "problem", "outcome", "turns", "tokens", "native_id")
"""What `close_turn` changes of a session's record."""
STOPPED = "Tieline stopped while this turn ran; it may have run in part"
UNFINISHED = "it was not finished"  # why is told once, by the turn's end
UNWRITTEN = "the turn's events could not be stored; it may have run in part"


async def expire_ask(log: EventLog, record: AskRecord, *, after: int = 0) -> None:
    """Nobody waits for its answer any longer; the log says so. The ask may be on record without being in the log, which
    is searched from `after` on: then it is written first."""
    events = [entry.event async for entry in log.read(record.session, after=after, follow=False)]
    if not any(isinstance(event, Ask) and event.id == record.id for event in events):
        await log.append(record.session, record.ask, id=f"{record.id}.asked")
    await log.append(record.session, lost(record.ask), id=f"{record.id}.expired")


async def nobody(ask: Ask) -> Answer | None:
    return None


async def close_turn(
    log: EventLog,
    prompts: PromptQueue,
    prompt: PromptRecord,
    record: SessionRecord,
    problem: str = STOPPED,
    *,
    answered: Callable[[Ask], Awaitable[Answer | None]] = nobody,
) -> SessionRecord:
    """A prompt that was running gets its truthful end: the log's own if the turn had come to it, else indeterminate.
    Doing it again, after it was done in part, is fine.

    In the log, every ask gets its answer (`answered` says what was decided and could not be written down any more),
    every open tool call a result and the turn its one `done`.
    """
    started = False
    ended: Done | None = None
    calls: dict[str, None] = {}
    asks: dict[str, Ask] = {}
    native = record.native_id
    async for entry in log.read(record.id, after=record.seq, follow=False):
        match entry.event:
            case TurnStarted():
                started, ended = True, None
                calls.clear()
                asks.clear()
            case Ask(id=id):
                asks[id] = entry.event
            case Answer(ask=id):
                asks.pop(id, None)
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
    if not started and (noted := await _end_of(log, prompt)) is not None:
        await prompts.conclude(prompt, noted.status, noted.error)
        return record  # it counts the turn already: only the prompt did not know yet
    if ended is not None and ended.error not in (STOPPED, UNWRITTEN, problem):
        await prompts.conclude(prompt, ended.status, ended.error)
        tokens = add(record.tokens, ended.tokens)
        native = ended.native_id or native
        return replace(
            record,
            status="idle",
            outcome=ended.status,
            turns=record.turns + 1,
            tokens=tokens,
            native_id=native,
        )
    if started and ended is None:
        for ask in asks.values():
            await log.append(record.id, await answered(ask) or lost(ask), id=f"{ask.id}.expired")
        for call in calls:
            await log.append(record.id, ToolResult(call, "error", UNFINISHED), id=f"{prompt.id}.{call}.lost")
        await log.append(record.id, Error(problem, "indeterminate"), id=f"{prompt.id}.lost")
        await log.append(record.id, Done("error", error=problem), id=f"{prompt.id}.done")
    await prompts.conclude(prompt, None, problem)
    return replace(record, status="failed", problem=problem, outcome="error", native_id=native)


async def _end_of(log: EventLog, prompt: PromptRecord) -> Done | None:
    """How a prompt's turn ended, wherever in the log that is."""
    ours = False
    async for entry in log.read(prompt.session, follow=False):
        if isinstance(entry.event, TurnStarted):
            ours = entry.event.id == prompt.id
        elif ours and isinstance(entry.event, Done):
            return entry.event
    return None
