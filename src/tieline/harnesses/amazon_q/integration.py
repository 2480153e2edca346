"""Amazon Q Developer CLI: MCP server, a rule (of a project) or a saved prompt (of the user), and an agent with hooks:
only agents have them."""

import json
from typing import Any

from ..base import (
    KEY_VARIABLE,
    SERVER,
    Capabilities,
    Harness,
    InstallOptions,
    ManagedFile,
    hook_command,
    http_headers,
    is_ours,
    mcp_url,
    stdio_entry,
)
from ..editors.json_entries import JsonEntries
from ..editors.whole_file import MARK, WholeFile
from ..instructions import PROTOCOL, WHO_IS_HERE

HOOKS = ("agentSpawn", "userPromptSubmit")
HOOK_TIMEOUT_MS = 10_000
RULE = f"<!-- {MARK} -->\n{PROTOCOL}"
PROMPT = f"<!-- {MARK} -->\n{WHO_IS_HERE}\n{PROTOCOL}"


class AmazonQ(Harness):
    name = "amazon-q"
    display_name = "Amazon Q Developer CLI"
    programs = ("q",)
    folders = (".aws/amazonq",)
    capabilities = Capabilities(
        hooks="command hooks of its agent `tieline`",
        mid_turn="with your next prompt (hook)",
        session_id="the process above the hook, or the agent's own call",
        instructions="a rule of the project, or a saved prompt; its agent `tieline` by a hook",
        compaction="rules stay in its context",
        slash_command="saved prompt `@tieline`",
    )

    def files(self, options: InstallOptions) -> list[ManagedFile]:
        folder = options.root / ".amazonq" if options.project else options.home / ".aws/amazonq"
        server = JsonEntries({"mcpServers": {SERVER: _server(options)}}, is_ours)
        text = (
            ManagedFile(folder / "rules/tieline.md", WholeFile(self.name, RULE), "instructions")
            if options.project
            else ManagedFile(folder / "prompts/tieline.md", WholeFile(self.name, PROMPT), "prompt @tieline")
        )
        agent = WholeFile(self.name, json.dumps(_agent(options), indent=2) + "\n")
        return [
            ManagedFile(folder / "mcp.json", server, "MCP server"),
            ManagedFile(folder / "cli-agents/tieline.json", agent, "agent with hooks"),
            text,
        ]

    def notes(self, options: InstallOptions) -> list[str]:
        return [
            "Its hooks are those of an agent: start it with `q chat --agent tieline`, or make that the default with "
            "`q settings chat.defaultAgent tieline`.",
            "An agent of your own sees the MCP server only with `useLegacyMcpJson: true` in its file.",
        ]


def _server(options: InstallOptions) -> dict[str, Any]:
    if options.transport == "http":
        headers = http_headers(AmazonQ.name, f"${{env:{KEY_VARIABLE}}}")
        return {"type": "http", "url": mcp_url(options), "headers": headers}
    return stdio_entry(AmazonQ.name, options)


def _agent(options: InstallOptions) -> dict[str, Any]:
    """Amazon Q's own default agent, as it documents it, and our hooks."""
    handler = {"command": hook_command(AmazonQ.name, options), "timeout_ms": HOOK_TIMEOUT_MS}
    return {
        "name": "tieline",
        "description": f"Amazon Q, and messages from other agents. {MARK}",
        "tools": ["*"],
        "resources": ["file://AmazonQ.md", "file://README.md", "file://.amazonq/rules/**/*.md"],
        "hooks": {event: [handler] for event in HOOKS},
        "useLegacyMcpJson": True,
    }
