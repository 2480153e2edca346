"""Mistral Vibe: MCP server and command hooks, each in a TOML file, instructions in AGENTS.md, a skill."""

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
    hook_command,
    is_our_handler,
    is_our_server,
    mcp_url,
    stdio_entry,
)
from ..editors.toml_table import TomlArray
from ..instructions import instructions_in, skill_in

HOOKS = ("pre_tool", "post_tool", "post_agent")
HOOK_TIMEOUT_S = 10.0
TOOL_TIMEOUT_S = 330.0
"""Longer than the longest wait of a tool of ours; Vibe's own limit is a minute."""


class Vibe(Harness):
    name = "vibe"
    display_name = "Mistral Vibe"
    attach_terms = AttachTerms(
        reads="the records of its sessions (~/.vibe/logs/session), as they grow",
        can="watch a session and see what it asks",
        cannot="prompt, steer or interrupt it, answer its permission prompts and questions",
        tells=TerminalEvents(
            session_start="its lease, a file that names its process",
            session_end="its lease goes, or its process",
            prompt="record",
            words_in_a_turn="",
            text="record, a whole text at a time",
            text_deltas="",
            tool_start="record",
            tool_end="record",
            permission_ask="record",
            answer_at_the_terminal="record",
            question="record",
            turn_end="record",
            compaction="record, with the next turn",
            idle_or_busy="record",
            model_change="record, with the next turn",
            mode_change="",
            usage="record",
        ),
    )
    resume_command = ("vibe", "--resume")
    programs = ("vibe",)
    folders = (".vibe",)
    tested = "3.0.2"
    capabilities = Capabilities(
        hooks="command hooks",
        mid_turn="after a tool call (hook)",
        turn_end="`post_agent` hook, three times in a turn",
        session_id="hook input",
        registers_itself=True,
        instructions="`AGENTS.md`",
        compaction="`AGENTS.md` stays in its context",
        slash_command="skill `/tieline`",
    )

    def files(self, options: InstallOptions) -> list[ManagedFile]:
        folder = options.root / ".vibe" if options.project else options.folder("VIBE_HOME", ".vibe")
        memory = options.root if options.project else folder
        servers = TomlArray(self.name, "mcp_servers", [_server(options)], _is_our_server)
        return [
            ManagedFile(folder / "config.toml", servers, "MCP server"),
            ManagedFile(folder / "hooks.toml", TomlArray(self.name, "hooks", _hooks(options), is_our_handler), "hooks"),
            instructions_in(memory / "AGENTS.md", self.name),
            skill_in(folder / "skills", self.name),
        ]

    def notes(self, options: InstallOptions) -> list[str]:
        notes = [
            "Vibe has no hook for the start of a session: it is in the mesh from its first tool call or answer on."
        ]
        if options.project:
            notes.append(f"Vibe reads {options.root / '.vibe'} only where you trust the folder.")
        return notes


def _is_our_server(entry: Mapping[str, Any]) -> bool:
    return entry.get("name") == SERVER and is_our_server(entry)


def _server(options: InstallOptions) -> dict[str, Any]:
    if options.transport == "http":
        key = {"api_key_env": KEY_VARIABLE, "api_key_header": "Authorization", "api_key_format": "Bearer {token}"}
        auth = {"type": "static", "headers": {"X-Tieline-Harness": Vibe.name}, **key}
        entry: dict[str, Any] = {"transport": "streamable-http", "url": mcp_url(options), "auth": auth}
    else:
        entry = {"transport": "stdio", **stdio_entry(Vibe.name, options)}
    return {"name": SERVER, **entry, "tool_timeout_sec": TOOL_TIMEOUT_S}


def _hooks(options: InstallOptions) -> list[dict[str, Any]]:
    command = hook_command(Vibe.name, options)
    return [
        {"name": f"tieline-{event}", "type": event, "command": command, "timeout": HOOK_TIMEOUT_S} for event in HOOKS
    ]
