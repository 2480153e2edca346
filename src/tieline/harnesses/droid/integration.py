"""Factory's Droid: MCP server, Claude-shaped command hooks, instructions in AGENTS.md, a skill."""

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

HOOKS = ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd")
ATTACH_HOOKS = ("Notification",)
"""Droid's record has each hook that ran: so it tells that something is asked."""
HOOK_TIMEOUT_S = 10


class Droid(Harness):
    name = "droid"
    display_name = "Droid"
    attach_terms = AttachTerms(
        reads="the records of its sessions (~/.factory/sessions), as they grow",
        can="watch a session and see what it asks",
        cannot="prompt, steer or interrupt it, answer its permission prompts and questions",
        tells=TerminalEvents(
            session_start="`SessionStart` hook, with its first prompt",
            session_end="`SessionEnd` hook, or its process goes",
            prompt="record",
            words_in_a_turn="record",
            text="record, a whole text at a time",
            text_deltas="",
            tool_start="record",
            tool_end="record",
            permission_ask="record, by the `Notification` hook in it",
            answer_at_the_terminal="its command runs, or record",
            question="record, by the `Notification` hook in it",
            turn_end="record",
            compaction="record, with the next turn",
            idle_or_busy="record",
            model_change="record, with the next answer",
            mode_change="hooks, with the next prompt",
            usage="",
        ),
    )
    resume_command = ("droid", "--resume")
    programs = ("droid",)
    package = "droid"
    folders = (".factory",)
    tested = "0.215.0"
    capabilities = Capabilities(
        hooks="command hooks",
        mid_turn="after a tool call (hook)",
        turn_end="`Stop` hook",
        session_id="hook input",
        registers_itself=True,
        instructions="`AGENTS.md`",
        compaction="`AGENTS.md` stays in its context; `SessionStart` fires",
        slash_command="skill `/tieline`",
    )

    def files(self, options: InstallOptions) -> list[ManagedFile]:
        folder = (options.root if options.project else options.home) / ".factory"
        memory = (options.root if options.project else folder) / "AGENTS.md"
        # Hooks name programs of this machine: in a project they go into the settings that are not shared.
        settings = folder / ("settings.local.json" if options.project else "settings.json")
        events = (*HOOKS, *(ATTACH_HOOKS if options.attach else ()))
        hooks = command_hooks(self.name, options, events, HOOK_TIMEOUT_S)
        return [
            ManagedFile(
                folder / "mcp.json", JsonEntries({"mcpServers": {SERVER: _server(options)}}, is_ours), "MCP server"
            ),
            ManagedFile(settings, JsonEntries(hooks, is_ours), "hooks"),
            instructions_in(memory, self.name),
            skill_in(folder / "skills", self.name),
        ]

    def notes(self, options: InstallOptions) -> list[str]:
        folder = (options.root if options.project else options.home) / ".factory"
        if not (folder / "hooks.json").exists():
            return []
        return [f"Droid reads hooks from {folder / 'hooks.json'} instead of its settings: copy ours into it."]


def _server(options: InstallOptions) -> dict[str, Any]:
    if options.transport == "http":
        headers = http_headers(Droid.name, f"${{{KEY_VARIABLE}}}")
        return {"type": "http", "url": mcp_url(options), "headers": headers, "disabled": False}
    return {"type": "stdio", **stdio_entry(Droid.name, options), "disabled": False}
