"""Qwen Code: MCP server and Claude-shaped command hooks in one file, instructions in QWEN.md, a skill."""

from collections.abc import Mapping
from typing import Any

from ..base import (
    KEY_VARIABLE,
    SERVER,
    AttachTerms,
    Capabilities,
    Harness,
    InstallOptions,
    ManagedFile,
    TerminalEvents,
    command_hooks,
    http_headers,
    is_ours,
    mcp_url,
    stdio_entry,
)
from ..editors.json_entries import JsonEntries
from ..instructions import instructions_in, skill_in

HOOKS: Mapping[str, Mapping[str, str]] = {
    "SessionStart": {},
    "UserPromptSubmit": {},
    "PostToolUse": {},
    "Stop": {},
    "Notification": {"matcher": "idle_prompt"},
    "SessionEnd": {},
}
"""Its events, each with what else its group says. A turn that was interrupted has no `Stop`, but is waited for."""
ATTACH_HOOKS = ("PermissionRequest", "PreToolUse")
"""That the terminal is about to ask for a permission, and that a call begins: to show what is asked while it is."""
HOOK_TIMEOUT_MS = 10_000


class Qwen(Harness):
    name = "qwen"
    display_name = "Qwen Code"
    attach_terms = AttachTerms(
        reads="the records of its sessions (~/.qwen/projects/*/chats), as they grow",
        can="watch a session, see what it asks, and prompt it: what comes during a turn waits until it is idle",
        cannot="steer or interrupt a turn, answer its permission prompts and questions",
        tells=TerminalEvents(
            session_start="its session file",
            session_end="its session file goes, or its process",
            prompt="record",
            words_in_a_turn="",
            text="record, a whole text at a time",
            text_deltas="",
            tool_start="record",
            tool_end="record",
            permission_ask="`PermissionRequest` hook",
            answer_at_the_terminal="`PreToolUse` hook, or the call's result",
            question="`PermissionRequest` hook",
            turn_end="`Stop` and `Notification` hooks, or the record",
            compaction="record",
            idle_or_busy="hooks",
            model_change="record, with the next answer",
            mode_change="hooks, with the next prompt",
            usage="record",
        ),
    )
    resume_command = ("qwen", "--resume")
    programs = ("qwen",)
    package = "@qwen-code/qwen-code"
    folders = (".qwen",)
    tested = "0.24.4"
    capabilities = Capabilities(
        hooks="command hooks",
        mid_turn="after a tool call (hook)",
        turn_end="`Stop` hook",
        idle_wake="its messaging socket",
        session_id="hook input, `QWEN_CODE_SESSION_ID`",
        registers_itself=True,
        instructions="`QWEN.md`",
        compaction="`QWEN.md` stays in its context; `SessionStart` fires",
        slash_command="skill `/tieline`",
    )

    def files(self, options: InstallOptions) -> list[ManagedFile]:
        folder = (options.root if options.project else options.home) / ".qwen"
        memory = options.root / "QWEN.md" if options.project else folder / "QWEN.md"
        events = (*HOOKS, *(ATTACH_HOOKS if options.attach else ()))
        hooks = command_hooks(self.name, options, events, HOOK_TIMEOUT_MS, groups=HOOKS)
        entries = {"mcpServers": {SERVER: _server(options)}, **hooks}
        return [
            ManagedFile(folder / "settings.json", JsonEntries(entries, is_ours), "MCP server, hooks"),
            instructions_in(memory, self.name),
            skill_in(folder / "skills", self.name),
        ]


def _server(options: InstallOptions) -> dict[str, Any]:
    if options.transport == "http":
        return {"httpUrl": mcp_url(options), "headers": http_headers(Qwen.name, f"${{{KEY_VARIABLE}}}")}
    return stdio_entry(Qwen.name, options)
