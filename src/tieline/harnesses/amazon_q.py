"""Amazon Q Developer CLI: MCP server, and a rule (of a project) or a saved prompt (of the user)."""

from typing import Any

from .base import (
    KEY_VARIABLE,
    SERVER,
    Capabilities,
    Harness,
    InstallOptions,
    ManagedFile,
    http_headers,
    is_ours,
    mcp_url,
    stdio_entry,
)
from .editors.json_entries import JsonEntries
from .editors.whole_file import MARK, WholeFile
from .instructions import PROTOCOL, WHO_IS_HERE

RULE = f"<!-- {MARK} -->\n{PROTOCOL}"
PROMPT = f"<!-- {MARK} -->\n{WHO_IS_HERE}\n{PROTOCOL}"


class AmazonQ(Harness):
    name = "amazon-q"
    display_name = "Amazon Q Developer CLI"
    programs = ("q",)
    folders = (".aws/amazonq",)
    capabilities = Capabilities(
        instructions="a rule of the project, or a saved prompt",
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
        return [ManagedFile(folder / "mcp.json", server, "MCP server"), text]

    def notes(self, options: InstallOptions) -> list[str]:
        return ["An agent of your own sees the MCP server only with `useLegacyMcpJson: true` in its file."]


def _server(options: InstallOptions) -> dict[str, Any]:
    if options.transport == "http":
        headers = http_headers(AmazonQ.name, f"${{env:{KEY_VARIABLE}}}")
        return {"type": "http", "url": mcp_url(options), "headers": headers}
    return stdio_entry(AmazonQ.name, options)
