"""Copilot in VS Code: MCP server, instructions, a prompt file. It runs the hooks of Copilot CLI, if there are any."""

import sys
from pathlib import Path
from typing import Any

from ..base import (
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
from ..editors.json_entries import JsonEntries
from ..editors.whole_file import MARK, WholeFile
from ..instructions import COMMAND, PROTOCOL, instructions_in

USER_FOLDER = "Library/Application Support/Code/User" if sys.platform == "darwin" else ".config/Code/User"
FOR_ALL = f'---\n# {MARK}\napplyTo: "**"\n---\n\n{PROTOCOL}'


class VsCode(Harness):
    name = "vscode"
    display_name = "Copilot in VS Code"
    programs = ("code",)
    folders = (USER_FOLDER,)
    capabilities = Capabilities(
        hooks="those of Copilot CLI, if they are installed",
        session_id="hook input",
        instructions="`AGENTS.md` of the project, or an instructions file of the user",
        compaction="the instructions stay in its context",
        slash_command="prompt file `/tieline`",
    )

    def files(self, options: InstallOptions) -> list[ManagedFile]:
        user = self._user_folder(options)
        entry = JsonEntries({"servers": {SERVER: _server(options)}}, is_ours)
        if options.project:
            servers, prompts = options.root / ".vscode/mcp.json", options.root / ".github/prompts"
            instructions = instructions_in(options.root / "AGENTS.md", self.name)
        else:
            servers, prompts = user / "mcp.json", user / "prompts"
            instructions = ManagedFile(
                prompts / "tieline.instructions.md", WholeFile(self.name, FOR_ALL), "instructions"
            )
        return [
            ManagedFile(servers, entry, "MCP server"),
            instructions,
            ManagedFile(prompts / "tieline.prompt.md", WholeFile(self.name, COMMAND), "prompt /tieline"),
        ]

    def _user_folder(self, options: InstallOptions) -> Path:
        if sys.platform != "darwin" and (config := options.env.get("XDG_CONFIG_HOME")):
            return Path(config) / "Code/User"
        return options.home / USER_FOLDER


def _server(options: InstallOptions) -> dict[str, Any]:
    if options.transport == "http":
        headers = http_headers(VsCode.name, f"${{env:{KEY_VARIABLE}}}")
        return {"type": "http", "url": mcp_url(options), "headers": headers}
    return {"type": "stdio", **stdio_entry(VsCode.name, options)}
