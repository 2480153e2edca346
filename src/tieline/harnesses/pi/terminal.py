"""A session in a Pi terminal, read along: the entries that Pi writes down of it, told by our extension, as turns of an
attached session by the driver's own normaliser.

A turn begins with a message of its person and is over when Pi is idle, or the next one begins. After a gap the
extension tells the entries after the last turn that was over again; what is in the log is not written twice. Pi asks
nothing.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ...drivers.pi.events import PiNormaliser
from ...drivers.pi.tools import content_text
from ...events import Done, Error, Event, Init, Other, Outcome, Status, Text, Thinking, ToolResult, TurnStarted
from ...mesh.plugin_connector import PluginConnector
from ...mesh.push import HarnessSession, Unreachable
from ...sessions.attached_session import SAID, UNFINISHED, AttachedSession, TerminalUnreachable
from ...sessions.records import Remote
from ..terminals.acp_transcript import fields_in, members, text_in, time_of
from ..terminals.attached_plugin_connector import TerminalBehind

HARNESS = "pi"
SOURCE = "pi entries"
MARK = "tieline"
"""What our extension calls its own messages."""
GOES_ON = "toolUse"
"""Why a model call ended that is not the last of its turn."""
STOPPED = "aborted"
ABORT_ERROR = "This operation was aborted"
"""So Pi says "aborted" of a model call that it did not begin any more, when a tool was interrupted."""
FLUSH_S = 30.0
"""For what was told to be written. Then it is told again, when there is room."""


class PiTerminal:
    remote: tuple[Remote, ...] = ("prompt", "steer", "abort")

    def __init__(self, connector: PluginConnector, native_id: str, cwd: str) -> None:
        self.native_id = native_id
        self.cwd = cwd
        self.link = ""  # by which its extension was told to tell
        self._connector = connector
        self._session: AttachedSession | None = None
        self._since = 0.0
        self._taking = asyncio.Lock()
        self._last = ""  # the entry that was told last
        self._compacted = False  # since the last turn
        self._turn: TurnStarted | None = None
        self._reset()

    def _reset(self) -> None:
        """What is known of a turn."""
        self._made: list[Event] = []
        self._normaliser = PiNormaliser(self._made.append, self.cwd)
        self._calls: dict[str, None] = {}  # that run
        self._stop = self._answer = ""

    async def close(self) -> None:
        """There is nothing to end: the extension tells, or does not."""

    # --- for the attached session ------------------------------------------------------------------------

    @property
    def process(self) -> int:
        link = self._connector.link_of(self.native_id)
        return link.process if link is not None else 0

    async def prompt(self, text: str, *, model: str = "", effort: str = "") -> None:
        try:
            await self._connector.push(HarnessSession(harness=HARNESS, session=self.native_id), text, sender="")
        except Unreachable as error:
            raise TerminalUnreachable(str(error)) from None

    async def steer(self, text: str) -> None:
        await self.prompt(text)

    async def abort(self) -> None:
        try:
            await self._connector.request(self.native_id, "POST", "abort")
        except Unreachable as error:
            raise TerminalUnreachable(str(error)) from None

    # --- what the extension tells ------------------------------------------------------------------------

    def begin(self, session: AttachedSession, since: float) -> str:
        """Tell this session from now on, without turns that began before `since`. The last entry that need not be
        told."""
        self._session, self._since = session, since
        self._last, self._turn, self._compacted = session.record.cursor, None, False
        self._reset()
        return self._last

    async def take(self, events: Sequence[dict[str, Any]]) -> None:
        """They are written when it returns. Raises TerminalBehind, TimeoutError."""
        if (session := self._session) is None:
            return
        async with self._taking:
            for event in events:
                if event.get("type") == "state":
                    self._on_state(session, working=event.get("working") is True)
                else:
                    self._on_entry(session, fields_in(event, "entry"))
            async with asyncio.timeout(FLUSH_S):
                await session.flush()

    def _on_state(self, session: AttachedSession, *, working: bool) -> None:
        if not working:
            self._end_turn(session)
        session.activity("working" if working else "idle")

    def _on_entry(self, session: AttachedSession, entry: Mapping[str, Any]) -> None:
        message, id = fields_in(entry, "message"), text_in(entry, "id")
        role = text_in(message, "role")
        try:
            if entry.get("type") == "custom_message" and entry.get("customType") == MARK:
                self._on_words(session, entry, _text(entry))
            elif role == "user":
                self._on_words(session, entry, _text(message))
            elif role == "assistant":
                self._on_answer(session, entry, message)
            elif role == "toolResult" and self._turn is not None:
                self._on_result(session, message)
            elif entry.get("type") == "compaction":
                if self._turn is None:
                    self._compacted = True
                else:
                    self._tell(session, Status("compacted"))
        except (KeyError, TypeError, ValueError, AttributeError):  # not as we know it: kept, not fatal
            if self._turn is not None:
                self._tell(session, Other(dict(entry), SOURCE))
        self._last = id or self._last

    def _on_words(self, session: AttachedSession, entry: Mapping[str, Any], words: str) -> None:
        if self._turn is not None and self._stop in ("", GOES_ON):
            self._tell(session, Status(SAID, words))
            return
        self._end_turn(session)
        self._begin_turn(session, entry, words)

    def _begin_turn(self, session: AttachedSession, entry: Mapping[str, Any], prompt: str) -> None:
        if time_of(dict(entry)) < self._since:
            return
        self._turn = TurnStarted(prompt, text_in(entry, "id"))
        self._tell(session, self._turn)
        if self._compacted:
            self._compacted = False
            self._tell(session, Status("compacted"))

    def _on_answer(self, session: AttachedSession, entry: Mapping[str, Any], message: dict[str, Any]) -> None:
        if self._turn is None:
            self._begin_turn(session, entry, "")
        if self._turn is None:
            return
        if model := text_in(message, "model"):
            self._tell(session, Init(HARNESS, self.native_id, self.cwd, model))
        feed, id = self._normaliser.feed, text_in(entry, "id")
        feed({"type": "message_start"})
        for number, part in enumerate(members(message.get("content"))):
            match part.get("type"):
                case "text" | "thinking" as kind:
                    content = text_in(part, kind)
                    update = {"type": f"{kind}_end", "contentIndex": number, "content": content}
                    feed({"type": "message_update", "assistantMessageEvent": update})
                    self._answer = content if kind == "text" else self._answer
                case "toolCall":
                    call = {"toolCallId": part["id"], "toolName": part["name"], "args": part.get("arguments")}
                    feed({"type": "tool_execution_start", **call})
                    self._calls[part["id"]] = None
                case _:
                    pass
        feed({"type": "message_end", "message": message})
        self._stop = text_in(message, "stopReason")
        for event in self._take():
            item = f"{id}-{event.item.rpartition('-')[2]}" if isinstance(event, Text | Thinking) else ""
            self._tell(session, replace(event, item=item) if isinstance(event, Text | Thinking) else event)

    def _on_result(self, session: AttachedSession, message: dict[str, Any]) -> None:
        call = message["toolCallId"]
        self._calls.pop(call, None)
        result = {"content": message.get("content"), "details": message.get("details")}
        name, failed = message.get("toolName"), message.get("isError") is True
        ended = {"toolCallId": call, "toolName": name, "result": result, "isError": failed}
        self._normaliser.feed({"type": "tool_execution_end", **ended})
        for event in self._take():
            self._tell(session, event)

    def _take(self) -> list[Event]:
        made, self._made[:] = list(self._made), ()
        return made

    def _end_turn(self, session: AttachedSession) -> None:
        if self._turn is None:
            return
        normaliser = self._normaliser
        stopped = self._stop in ("", STOPPED) or normaliser.failure == ABORT_ERROR
        status: Outcome = "interrupted" if stopped else "error" if normaliser.failure else "success"
        failure = normaliser.failure if status == "error" else ""
        for call in self._calls:
            self._tell(session, ToolResult(call, "error", UNFINISHED))
        if failure:
            self._tell(session, Error(failure, "agent"))
        answer = self._answer if status == "success" else ""
        done = Done(status, answer, failure, normaliser.tokens, normaliser.usage, self.native_id)
        self._turn = None
        self._reset()
        self._tell(session, done, self._last)

    def _tell(self, session: AttachedSession, event: Event, cursor: str = "") -> None:
        if not session.tell(event, cursor):
            raise TerminalBehind


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else content_text(message)
