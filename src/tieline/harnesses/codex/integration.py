"""Codex: MCP server and skill; presence and delivery come from its shared daemon, so hooks are an option."""

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
    is_our_server,
    is_ours,
    mcp_url,
    stdio_entry,
)
from ..editors.json_entries import JsonEntries
from ..editors.toml_table import TomlTable
from ..instructions import instructions_in, shared_skills, skill_in

HOOKS = ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop")
HOOK_TIMEOUT_S = 10
TOOL_TIMEOUT_S = 330
"""Longer than the longest wait of a tool of ours; Codex's own limit is a minute."""


class Codex(Harness):
    name = "codex"
    display_name = "Codex"
    attach_terms = AttachTerms(
        reads="its threads, from the daemon that its terminals share",
        can="prompt, steer and interrupt a session, choose its model, answer its approvals and questions",
        tells=TerminalEvents(
            session_start="its daemon",
            session_end="its daemon, and the terminal's own server",
            prompt="its daemon",
            words_in_a_turn="its daemon",
            text="its daemon",
            text_deltas="its daemon",
            tool_start="its daemon",
            tool_end="its daemon, and the rollout file",
            permission_ask="its daemon asks us as well",
            answer_at_the_terminal="its daemon",
            question="its daemon asks us as well",
            turn_end="its daemon",
            compaction="its daemon",
            idle_or_busy="its daemon",
            model_change="its daemon, at once",
            mode_change="its daemon, at once",
            usage="its daemon",
        ),
    )
    resume_command = ("codex", "resume")
    programs = ("codex",)
    package = "@openai/codex"
    folders = (".codex",)
    tested = "0.166.0"
    capabilities = Capabilities(
        hooks="its shared daemon (nothing to install); command hooks with `--hooks`",
        mid_turn="the daemon's `turn/steer`",
        turn_end="the daemon, or its `Stop` hook",
        idle_wake="the daemon's `turn/start`",
        session_id="`_meta.threadId` of every call",
        registers_itself=True,
        instructions="`AGENTS.md`",
        compaction="`AGENTS.md` stays in its context",
        slash_command="skill `$tieline`",
    )

    def files(self, options: InstallOptions) -> list[ManagedFile]:
        home = options.folder("CODEX_HOME", ".codex")
        folder = options.root / ".codex" if options.project else home
        memory = options.root / "AGENTS.md" if options.project else home / "AGENTS.md"
        files = [
            ManagedFile(
                folder / "config.toml",
                TomlTable(self.name, ("mcp_servers", SERVER), _server(options), is_our_server),
                "MCP server",
            ),
            instructions_in(memory, self.name),
            skill_in(shared_skills(options), self.name, "$tieline"),
        ]
        if options.hooks:
            hooks = command_hooks(self.name, options, HOOKS, HOOK_TIMEOUT_S)
            files.append(ManagedFile(folder / "hooks.json", JsonEntries(hooks, is_ours), "hooks"))
        return files

    def notes(self, options: InstallOptions) -> list[str]:
        notes: list[str] = []
        if options.hooks:
            notes.append("Codex runs new hooks only after you approved them: type /hooks in it.")
        if options.project:
            notes.append(f"Codex reads {options.root / '.codex/config.toml'} only where you trust the project.")
        return notes


def _server(options: InstallOptions) -> dict[str, Any]:
    if options.transport == "http":
        entry: dict[str, Any] = {
            "url": mcp_url(options),
            "bearer_token_env_var": KEY_VARIABLE,
            "http_headers": {"X-Tieline-Harness": Codex.name},
        }
    else:
        entry = stdio_entry(Codex.name, options)
    return {**entry, "tool_timeout_sec": TOOL_TIMEOUT_S}
