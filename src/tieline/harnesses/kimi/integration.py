"""Kimi Code: MCP server, command hooks in its configuration, instructions in AGENTS.md, a skill."""

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
    hook_command,
    is_our_handler,
    is_ours,
    mcp_url,
    stdio_entry,
)
from ..editors.json_entries import JsonEntries
from ..editors.toml_table import TomlArray
from ..instructions import instructions_in, skill_in

HOOKS = (
    "SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop", "StopFailure", "Interrupt",
    "SessionEnd",
)  # fmt: skip
ATTACH_HOOKS = ("PermissionRequest", "PermissionResult")
"""Of what subagents ask: the session's record has what its own agent asks."""
HOOK_TIMEOUT_S = 10
TOOL_TIMEOUT_MS = 330_000
"""Longer than the longest wait of a tool of ours."""


class Kimi(Harness):
    name = "kimi"
    display_name = "Kimi Code"
    attach_terms = AttachTerms(
        reads="the records of its sessions (~/.kimi-code/sessions), as they grow",
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
            permission_ask="record, or `PermissionRequest` hook",
            answer_at_the_terminal="record, or `PermissionResult` hook",
            question="record",
            turn_end="record",
            compaction="record, with the next turn",
            idle_or_busy="record",
            model_change="record, with the next answer",
            mode_change="record, with the next prompt",
            usage="record",
        ),
    )
    resume_command = ("kimi", "--session")
    programs = ("kimi",)
    package = "@moonshot-ai/kimi-code"
    folders = (".kimi-code",)
    tested = "2.1.0"
    capabilities = Capabilities(
        hooks="command hooks, from its first prompt on",
        mid_turn="with your next prompt (hook)",
        turn_end="`Stop` hook, once in a turn",
        session_id="hook input",
        registers_itself=True,
        instructions="`AGENTS.md`",
        compaction="`AGENTS.md` stays in its context",
        slash_command="skill `/skill:tieline`",
    )

    def files(self, options: InstallOptions) -> list[ManagedFile]:
        home = options.folder("KIMI_CODE_HOME", ".kimi-code")
        folder = options.root / ".kimi-code" if options.project else home
        memory = options.root if options.project else home
        files = [
            ManagedFile(
                folder / "mcp.json", JsonEntries({"mcpServers": {SERVER: _server(options)}}, is_ours), "MCP server"
            ),
            instructions_in(memory / "AGENTS.md", self.name),
            skill_in(folder / "skills", self.name, "/skill:tieline"),
        ]
        if not options.project:
            hooks = TomlArray(self.name, "hooks", _hooks(options), is_our_handler)
            files.append(ManagedFile(folder / "config.toml", hooks, "hooks"))
        return files

    def notes(self, options: InstallOptions) -> list[str]:
        if not options.project:
            return []
        return [
            "Kimi Code has hooks for all projects or for none: `tieline install kimi` brings messages to its agents."
        ]


def _server(options: InstallOptions) -> dict[str, Any]:
    if options.transport == "http":
        entry: dict[str, Any] = {
            "transport": "http",
            "url": mcp_url(options),
            "headers": {"X-Tieline-Harness": Kimi.name},
            "bearerTokenEnvVar": KEY_VARIABLE,
        }
    else:
        entry = stdio_entry(Kimi.name, options)
    return {**entry, "toolTimeoutMs": TOOL_TIMEOUT_MS}


def _hooks(options: InstallOptions) -> list[dict[str, Any]]:
    command = hook_command(Kimi.name, options)
    events = (*HOOKS, *(ATTACH_HOOKS if options.attach else ()))
    return [{"event": event, "command": command, "timeout": HOOK_TIMEOUT_S} for event in events]
