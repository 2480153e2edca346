"""Gemini CLI: MCP server and command hooks in one file, instructions in GEMINI.md, a command."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

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
from ..editors.whole_file import WholeFile
from ..instructions import TOML_COMMAND, instructions_in

HOOKS = ("SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd")
ATTACH_HOOKS = ("BeforeTool", "Notification")
"""That a tool begins, and that the terminal shows a permission prompt: to read along."""
HOOK_TIMEOUT_MS = 10_000
SERVER_TIMEOUT_MS = 600_000
"""Gemini CLI's own for a call; without it `gemini mcp list` waits 5 s, and the bridge may have to start a hub."""


class Gemini(Harness):
    name = "gemini"
    display_name = "Gemini CLI"
    attach_terms = AttachTerms(
        reads="the records of its sessions (~/.gemini/tmp/*/chats), as they grow",
        can="watch a session and see what it asks",
        cannot="prompt, steer or interrupt it, answer its permission prompts",
        tells=TerminalEvents(
            session_start="`SessionStart` hook",
            session_end="`SessionEnd` hook, or its process goes",
            prompt="record",
            words_in_a_turn="",
            text="record, a whole text at a time",
            text_deltas="",
            tool_start="`BeforeTool` hook",
            tool_end="record",
            permission_ask="`Notification` hook",
            answer_at_the_terminal="its command runs, or the call's result",
            question="",
            turn_end="`AfterAgent` hook, or the record",
            compaction="",
            idle_or_busy="record and hooks",
            model_change="record, with the next answer",
            mode_change="",
            usage="record",
        ),
    )
    resume_command = ("gemini", "--resume")
    programs = ("gemini",)
    package = "@google/gemini-cli"
    folders = (".gemini",)
    tested = "0.61.0"
    capabilities = Capabilities(
        hooks="command hooks",
        mid_turn="after a tool call (hook)",
        turn_end="`AfterAgent` hook",
        session_id="hook input",
        registers_itself=True,
        instructions="`GEMINI.md`",
        compaction="`GEMINI.md` stays in its context",
        slash_command="`/tieline`",
    )

    def files(self, options: InstallOptions) -> list[ManagedFile]:
        folder = (options.root if options.project else options.home) / ".gemini"
        memory = options.root / "GEMINI.md" if options.project else folder / "GEMINI.md"
        events = (*HOOKS, *(ATTACH_HOOKS if options.attach else ()))
        hooks = command_hooks(self.name, options, events, HOOK_TIMEOUT_MS, name=SERVER)
        entries = {"mcpServers": {SERVER: _server(options)}, **hooks}
        return [
            ManagedFile(folder / "settings.json", JsonEntries(entries, is_ours), "MCP server, hooks"),
            instructions_in(memory, self.name),
            ManagedFile(folder / "commands/tieline.toml", WholeFile(self.name, TOML_COMMAND), "command /tieline"),
        ]

    def notes(self, options: InstallOptions) -> list[str]:
        if self.trusts(Path(options.project or Path.cwd()), options.env):
            return []
        return ["Gemini CLI starts MCP servers only in folders that you trust: it asks, and /permissions changes it."]

    def trusts(self, folder: Path, env: Mapping[str, str]) -> bool:
        """Whether Gemini trusts the folder. The rule of the nearest folder counts, and Gemini can be configured not to
        ask."""
        own = Path(env.get("HOME", "/")) / ".gemini"
        security = _members(_members(_read(own / "settings.json")).get("security"))
        asks = _members(security.get("folderTrust")).get("enabled", True)
        if env.get("GEMINI_CLI_TRUST_WORKSPACE") == "true" or not asks:
            return True
        rules = _members(_read(Path(env.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH") or own / "trustedFolders.json")))
        rules_by_folder = {
            Path(named).parent if rule == "TRUST_PARENT" else Path(named): rule for named, rule in rules.items()
        }
        around = [rule_folder for rule_folder in rules_by_folder if folder.is_relative_to(rule_folder)]
        return (
            bool(around)
            and rules_by_folder[max(around, key=lambda rule_folder: len(rule_folder.parts))] != "DO_NOT_TRUST"
        )


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None


def _members(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _server(options: InstallOptions) -> dict[str, Any]:
    if options.transport == "http":
        entry: dict[str, Any] = {
            "httpUrl": mcp_url(options),
            "headers": http_headers(Gemini.name, f"${{{KEY_VARIABLE}}}"),
        }
    else:
        entry = stdio_entry(Gemini.name, options)
    return {**entry, "timeout": SERVER_TIMEOUT_MS}
