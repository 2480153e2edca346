"""Claude Code: MCP server, hooks around a session (none in its turns), instructions in CLAUDE.md, a skill."""

from pathlib import Path
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
    hook_command,
    http_headers,
    is_ours,
    mcp_url,
    stdio_entry,
)
from ..editors.json_entries import JsonEntries
from ..instructions import instructions_in, skill_in

HOOKS = ("SessionStart", "SessionEnd")
"""None is of a turn: each costs Claude Code some milliseconds, however fast it is answered. What a session
does, its file tells; messages come by its socket (see `connector`)."""
HOOK_TIMEOUT_S = 10
PERMISSION_EVENT = "PermissionRequest"
PERMISSION_TIMEOUT_S = 24 * 3600
"""How long a prompt that the terminal shows can be answered from elsewhere."""


class ClaudeCode(Harness):
    name = "claude-code"
    display_name = "Claude Code"
    attach_terms = AttachTerms(
        reads="the transcripts of its sessions (~/.claude/projects), as they grow",
        can="prompt and steer a session, answer its permission prompts and questions",
        cannot="interrupt a turn",
        tells=TerminalEvents(
            session_start="its session file",
            session_end="its session file goes, or its process",
            prompt="transcript",
            words_in_a_turn="transcript",
            text="transcript, a whole text at a time",
            text_deltas="",
            tool_start="transcript",
            tool_end="transcript",
            permission_ask="`PermissionRequest` hook",
            answer_at_the_terminal="the call's result, or that the prompt is gone",
            question="`PermissionRequest` hook",
            turn_end="transcript",
            compaction="transcript",
            idle_or_busy="its session file",
            model_change="transcript, with the next answer",
            mode_change="transcript, with the next prompt",
            usage="transcript",
        ),
    )
    resume_command = ("claude", "--resume")
    programs = ("claude",)
    package = "@anthropic-ai/claude-code"
    folders = (".claude",)
    tested = "2.1.325"
    capabilities = Capabilities(
        hooks="a command at the start and the end of a session; none in a turn",
        mid_turn="its messaging socket, after a tool call",
        turn_end="its messaging socket",
        idle_wake="its messaging socket",
        session_id="hook input, `CLAUDE_CODE_SESSION_ID`",
        registers_itself=True,
        instructions="`CLAUDE.md`",
        compaction="`CLAUDE.md` is read again; `SessionStart` fires",
        slash_command="skill `/tieline`",
    )

    def files(self, options: InstallOptions) -> list[ManagedFile]:
        folder, servers, settings, memory = self._paths(options)
        return [
            ManagedFile(servers, JsonEntries({"mcpServers": {SERVER: _server(options)}}, is_ours), "MCP server"),
            ManagedFile(settings, JsonEntries(_settings(options), is_ours), "hooks"),
            instructions_in(memory, self.name),
            skill_in(folder / "skills", self.name),
        ]

    def notes(self, options: InstallOptions) -> list[str]:
        if not options.project:
            return []
        return ["Claude Code asks once whether it may use the server, unless git ignores .claude/settings.local.json."]

    def _paths(self, options: InstallOptions) -> tuple[Path, Path, Path, Path]:
        """Its folder, the file of its MCP servers, the file of its hooks, its instructions."""
        if options.project:
            folder = options.root / ".claude"
            # Our entries name programs of this machine, so hooks go into the settings that are not shared.
            return folder, options.root / ".mcp.json", folder / "settings.local.json", options.root / "CLAUDE.md"
        folder = options.folder("CLAUDE_CONFIG_DIR", ".claude")
        moved = options.env.get("CLAUDE_CONFIG_DIR")
        servers = folder / ".claude.json" if moved else options.home / ".claude.json"
        return folder, servers, folder / "settings.json", folder / "CLAUDE.md"


def _server(options: InstallOptions) -> dict[str, Any]:
    if options.transport == "http":
        headers = http_headers(ClaudeCode.name, f"${{{KEY_VARIABLE}}}")
        return {"type": "http", "url": mcp_url(options), "headers": headers}
    return {"type": "stdio", **stdio_entry(ClaudeCode.name, options)}


def _settings(options: InstallOptions) -> dict[str, Any]:
    settings = command_hooks(ClaudeCode.name, options, HOOKS, HOOK_TIMEOUT_S)
    if options.attach:  # a command, since it finds the hub whatever its port is, and needs no key in this file
        waiting = hook_command(ClaudeCode.name, options, PERMISSION_EVENT)
        handler = {"type": "command", "command": waiting, "timeout": PERMISSION_TIMEOUT_S}
        settings["hooks"][PERMISSION_EVENT] = [{"hooks": [handler]}]
    # A server of a project's .mcp.json waits for an approval. This is one where git ignores the file: see `notes`.
    approval = {"enabledMcpjsonServers": [SERVER]} if options.project else {}
    return {**settings, **approval}
