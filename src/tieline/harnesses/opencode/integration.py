"""OpenCode: MCP server, a plugin that connects its sessions to the hub, instructions in AGENTS.md, a slash command."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...processes.process_table import all_processes
from ..base import (
    KEY_VARIABLE,
    SERVER,
    AttachTerms,
    Capabilities,
    Harness,
    InstallOptions,
    ManagedFile,
    OpenTerminal,
    TerminalEvents,
    http_headers,
    is_ours,
    mcp_url,
    server_environment,
)
from ..editors.json_entries import JsonEntries
from ..editors.marked_block import MarkedBlock
from ..editors.whole_file import WholeFile
from ..instructions import COMMAND, PROTOCOL
from ..plugin_file import plugin_text
from .open_terminals import open_terminals, reload

TOOL_TIMEOUT_MS = 330_000
"""Longer than the longest wait of a tool of ours."""
PLUGIN = "plugins/tieline.js"


class OpenCodeIntegration(Harness):
    name = "opencode"
    display_name = "OpenCode"
    attach_terms = AttachTerms(
        reads="the messages of its sessions, by the plugin",
        can="prompt, steer and interrupt a session, choose its model, answer its permission prompts and questions",
        tells=TerminalEvents(
            session_start="plugin",
            session_end="the plugin's connection ends",
            prompt="plugin",
            words_in_a_turn="plugin",
            text="plugin",
            text_deltas="plugin",
            tool_start="plugin",
            tool_end="plugin",
            permission_ask="plugin",
            answer_at_the_terminal="plugin",
            question="plugin",
            turn_end="plugin",
            compaction="plugin",
            idle_or_busy="plugin",
            model_change="plugin, with the next prompt",
            mode_change="plugin, with the next prompt",
            usage="plugin",
        ),
    )
    resume_command = ("opencode", "--session")
    programs = ("opencode",)
    package = "opencode-ai"
    folders = (".config/opencode", ".opencode")
    tested = "1.18.18"
    capabilities = Capabilities(
        hooks="a plugin inside its own process, which connects to the hub",
        mid_turn="the plugin's prompt, after the tool that runs",
        turn_end="the plugin's prompt",
        idle_wake="the plugin's prompt",
        session_id="the plugin adds it to every call",
        registers_itself=True,
        instructions="`AGENTS.md`",
        compaction="`AGENTS.md` stays in its context; the plugin adds to the summary's prompt",
        slash_command="`/tieline`",
    )

    def files(self, options: InstallOptions) -> list[ManagedFile]:
        config, folder, memory = self._paths(options)
        plugin = WholeFile(self.name, plugin_text("opencode/plugin.js", options))
        return [
            ManagedFile(config, JsonEntries({"mcp": {SERVER: _server(options)}}, is_ours), "MCP server"),
            ManagedFile(folder / PLUGIN, plugin, "plugin"),
            ManagedFile(memory, MarkedBlock(self.name, PROTOCOL), "instructions"),
            ManagedFile(folder / "commands/tieline.md", WholeFile(self.name, COMMAND), "command /tieline"),
        ]

    def notes(self, options: InstallOptions) -> list[str]:
        return [] if all_processes() else ["Terminals of OpenCode that are open already have to be started again."]

    def open_terminals(self, options: InstallOptions, *, installing: bool) -> list[OpenTerminal]:
        return open_terminals(options, *self._loaded(options), installing=installing)

    def reload(self, options: InstallOptions, terminals: Sequence[OpenTerminal]) -> list[OpenTerminal]:
        return [reload(options, *self._loaded(options), each) for each in terminals]

    def _loaded(self, options: InstallOptions) -> tuple[Path, Path]:
        """The folder of its configuration, and our plugin."""
        config, folder, _ = self._paths(options)
        return config.parent, folder / PLUGIN

    def _paths(self, options: InstallOptions) -> tuple[Path, Path, Path]:
        """The file of its configuration, the folder of plugins and commands, its instructions."""
        if options.project:
            folder = options.root / ".opencode"
            return _existing(options.root), folder, options.root / "AGENTS.md"
        folder = options.folder("XDG_CONFIG_HOME", ".config") / "opencode"
        return _existing(folder), folder, folder / "AGENTS.md"


def _existing(folder: Path) -> Path:
    """OpenCode reads both names; people have one of them."""
    commented = folder / "opencode.jsonc"
    return commented if commented.exists() else folder / "opencode.json"


def _server(options: InstallOptions) -> dict[str, Any]:
    if options.transport == "http":
        headers = http_headers(OpenCodeIntegration.name, f"{{env:{KEY_VARIABLE}}}")
        entry: dict[str, Any] = {"type": "remote", "url": mcp_url(options), "headers": headers}
    else:
        environment = server_environment(OpenCodeIntegration.name, options)
        entry = {"type": "local", "command": [options.program, "mcp"], "environment": environment}
    return {**entry, "enabled": True, "timeout": TOOL_TIMEOUT_MS}
