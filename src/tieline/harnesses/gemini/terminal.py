"""A Gemini CLI session in a person's terminal, attached: its record is followed; its hooks tell when a tool begins, a
permission prompt is shown and a turn is over. Gemini takes nothing from elsewhere: what it asks is answered at
the terminal, and shown as long as it is asked."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...drivers.acp.permissions import permission_ask
from ...drivers.acp.tools import AcpToolCall
from ...processes.process_details import began_at
from ...processes.process_table import descendants, process_info
from ...sessions.attached_session import AttachedSession
from ..terminals.acp_transcript import changes
from ..terminals.hooked_terminal import HookedTerminal, HookNote
from ..terminals.transcript_file import TranscriptCursor
from .transcript import PRESET, GeminiEvents, GeminiTranscriptFile

HOW = "Gemini CLI takes nothing from other programs"


class GeminiTerminal(HookedTerminal[GeminiEvents]):
    harness = "gemini"
    how = HOW

    def _new_events(self, cursor: TranscriptCursor) -> GeminiEvents:
        return GeminiEvents(self._session, self._cwd, cursor)

    def _new_file(self, cursor: TranscriptCursor) -> GeminiTranscriptFile:
        return GeminiTranscriptFile(self._path, cursor)

    def _is_prompt(self, note: HookNote) -> bool:
        return note.event == "BeforeAgent"

    async def _on_note(self, attached: AttachedSession, note: HookNote) -> None:
        events = self._events
        match note.event:
            case "BeforeTool":
                name = str(note.input.get("tool_name"))
                await self._tell(attached, events.announce(name, note.fields("tool_input")))
            case "AfterAgent" if not events.open_calls:  # else it is a subagent's
                await self._tell(attached, events.end_turn())
            case "Notification" if note.input.get("notification_type") == "ToolPermission":
                await self._ask(attached, note.fields("details"))
            case _:
                pass

    async def _is_over(self) -> bool:
        """The record has a tool only when that is over, and the hook of its beginning may have found no hub."""
        if not await super()._is_over():
            return False
        if await asyncio.to_thread(_has_begun, self.process, self._events.began_at):
            self._quiet.end()  # when it is over, the record is written a moment later
            return False
        return True

    # --- permission prompts --------------------------------------------------------------------------------

    async def _ask(self, attached: AttachedSession, details: dict[str, Any]) -> None:
        waiting_tool = next((tool for tool in self._unasked() if _is_about(details, tool, self._cwd)), None)
        tool = waiting_tool or AcpToolCall(str(details.get("title") or "tool"), "")
        tool.merge_permission_request({"content": changes(details)})
        if waiting_tool is None:
            tool.arguments = details
        ask = await permission_ask("", tool, self._events.action(tool), {"toolCall": details}, PRESET, self._cwd)
        await self._show(attached, ask, str(details.get("command") or ""))

    async def _settle(self, attached: AttachedSession) -> None:
        """Of all others than commands the end tells."""
        for prompt in await self._running_prompts():
            await self._close(attached, prompt.call, "allow")


def _is_about(details: Mapping[str, Any], tool: AcpToolCall, cwd: str) -> bool:
    """Whether a prompt asks about this call: it has no id of it."""
    match details:
        case {"type": "exec", "command": str(command)}:
            return tool.argument("command") == command
        case {"type": "edit", "filePath": str(path)}:
            return Path(cwd, tool.argument("file_path")) == Path(path)
        case {"type": "mcp", "serverName": str(server), "toolName": str(name)}:
            return tool.name == f"mcp_{server}_{name}"
        case {"type": "exec" | "edit" | "mcp"}:
            return False
        case _:
            return True


def _has_begun(process: int, since: float) -> bool:
    """Whether something runs below a process that began after that time. Only where there is a /proc."""
    below = map(process_info, descendants(process) if process else ())
    return any(each is not None and began_at(each.start + 1) > since for each in below)
