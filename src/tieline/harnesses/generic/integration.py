"""Any other harness that speaks MCP (Windsurf, Zed, JetBrains …): a skill, AGENTS.md, and an entry to paste."""

import json

from ..base import (
    KEY_VARIABLE,
    SERVER,
    Capabilities,
    Harness,
    InstallOptions,
    ManagedFile,
    http_headers,
    mcp_url,
    stdio_entry,
)
from ..instructions import instructions_in, shared_skills, skill_in


class Generic(Harness):
    name = "generic"
    display_name = "Any other"
    capabilities = Capabilities(
        session_id="the agent's own call",
        instructions="`AGENTS.md` of the project",
        compaction="`AGENTS.md` stays in its context",
        slash_command="skill, where there are any",
    )

    def files(self, options: InstallOptions) -> list[ManagedFile]:
        memory = [instructions_in(options.root / "AGENTS.md", self.name)] if options.project else []
        return [*memory, skill_in(shared_skills(options), self.name, "tieline")]

    def notes(self, options: InstallOptions) -> list[str]:
        if options.transport == "http":
            entry = {"url": mcp_url(options), "headers": http_headers(self.name, f"${KEY_VARIABLE}")}
        else:
            entry = stdio_entry(self.name, options)
        return [f'Add this to the MCP servers of your harness: "{SERVER}": {json.dumps(entry)}']
