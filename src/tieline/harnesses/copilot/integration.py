"""GitHub Copilot CLI: MCP server, command hooks, instructions, a skill."""

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
    http_headers,
    is_ours,
    mcp_url,
    stdio_entry,
)
from ..editors.json_entries import JsonEntries
from ..editors.whole_file import WholeFile
from ..instructions import instructions_in, shared_skills, skill_in
from ..plugin_file import plugin_text

HOOKS = ("sessionStart", "userPromptSubmitted", "postToolUse", "agentStop", "sessionEnd")
ATTACH_HOOKS = ("permissionRequest",)
"""Before the terminal asks: for what a rule says about it."""
OR_NOTHING = " || :"
"""After the command of a hook for permissions: Copilot takes one that cannot be started for a denial."""
HOOK_TIMEOUT_S = 10


class Copilot(Harness):
    name = "copilot"
    display_name = "Copilot CLI"
    attach_terms = AttachTerms(
        reads="the records of its sessions (~/.copilot/session-state), as they grow",
        can="watch a session and see what it asks; with `--experimental` also prompt, steer and interrupt it",
        cannot="answer its permission prompts and questions; without `--experimental` prompt, steer or interrupt it",
        tells=TerminalEvents(
            session_start="`sessionStart` hook, with its first prompt",
            session_end="`sessionEnd` hook, or its process goes",
            prompt="record",
            words_in_a_turn="record",
            text="record, a whole text at a time",
            text_deltas="",
            tool_start="record",
            tool_end="record",
            permission_ask="record",
            answer_at_the_terminal="record",
            question="record",
            turn_end="record",
            compaction="record",
            idle_or_busy="record",
            model_change="",
            mode_change="record, with the next prompt",
            usage="record",
        ),
    )
    resume_command = ("copilot", "--resume")
    programs = ("copilot",)
    package = "@github/copilot"
    folders = (".copilot",)
    tested = "1.0.102"
    capabilities = Capabilities(
        hooks="command hooks; with `--experimental` also an extension, which connects to the hub",
        mid_turn="with `--experimental` its extension, after the tool that runs",
        turn_end="`agentStop` hook",
        idle_wake="with `--experimental` its extension",
        session_id="hook input, `COPILOT_AGENT_SESSION_ID`",
        registers_itself=True,
        instructions="`copilot-instructions.md`, or `AGENTS.md` of the project",
        compaction="the instructions stay in its context",
        slash_command="skill `/tieline`",
    )

    def files(self, options: InstallOptions) -> list[ManagedFile]:
        if options.project:
            folder = options.root / ".github"
            # .mcp.json would do as well, but is Claude Code's. Hooks name programs of this machine: they go into
            # the settings that are not shared.
            servers, memory = folder / "mcp.json", options.root / "AGENTS.md"
            hooks = ManagedFile(folder / "copilot/settings.local.json", JsonEntries(_hooks(options), is_ours), "hooks")
        else:
            folder = options.folder("COPILOT_HOME", ".copilot")
            servers, memory = folder / "mcp-config.json", folder / "copilot-instructions.md"
            hooks = ManagedFile(
                folder / "hooks/tieline.json", JsonEntries(_hooks(options), is_ours, frame={"version": 1}), "hooks"
            )
        return [
            ManagedFile(servers, JsonEntries({"mcpServers": {SERVER: _server(options)}}, is_ours), "MCP server"),
            hooks,
            instructions_in(memory, self.name),
            skill_in(shared_skills(options), self.name),
            *_extension(options),
        ]


def _extension(options: InstallOptions) -> list[ManagedFile]:
    """For all projects: one of a project would be in its repository, and run by whoever opens that."""
    if options.project or options.transport == "http":
        return []
    path = options.folder("COPILOT_HOME", ".copilot") / "extensions/tieline/extension.mjs"
    return [ManagedFile(path, WholeFile(Copilot.name, plugin_text("copilot/extension.mjs", options)), "extension")]


def _server(options: InstallOptions) -> dict[str, Any]:
    if options.transport == "http":
        headers = http_headers(Copilot.name, f"${{{KEY_VARIABLE}}}")
        return {"type": "http", "url": mcp_url(options), "headers": headers, "tools": ["*"]}
    return {"type": "local", **stdio_entry(Copilot.name, options), "tools": ["*"]}


def _hooks(options: InstallOptions) -> dict[str, Any]:
    def handler(event: str) -> dict[str, Any]:
        command = hook_command(Copilot.name, options, event) + (OR_NOTHING if event in ATTACH_HOOKS else "")
        return {"type": "command", "bash": command, "timeoutSec": HOOK_TIMEOUT_S}

    return {"hooks": {event: [handler(event)] for event in (*HOOKS, *(ATTACH_HOOKS if options.attach else ()))}}
