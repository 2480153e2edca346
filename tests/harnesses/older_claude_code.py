"""The integration with Claude Code as older versions of Tieline installed it: with hooks in its turns, which call our
tool. People have it until they install again."""

from tieline.harnesses.base import HOOK_TOOL, SERVER, InstallOptions, ManagedFile, hook_command, is_ours
from tieline.harnesses.claude_code.integration import ClaudeCode
from tieline.harnesses.editors.json_entries import JsonEntries

TURN_EVENTS = ("UserPromptSubmit", "PostToolUse", "Stop")
INPUT = ("session_id", "cwd", "prompt_id", "tool_use_id", "stop_hook_active")


class OlderClaudeCode(ClaudeCode):
    """For the whole user, without reading along."""

    def files(self, options: InstallOptions) -> list[ManagedFile]:
        command = {"type": "command", "command": hook_command(self.name, options), "timeout": 10}
        call = {
            "type": "mcp_tool",
            "server": SERVER,
            "tool": HOOK_TOOL,
            "input": {"event": "${hook_event_name}", **{name: f"${{{name}}}" for name in INPUT}},
            "timeout": 10,
        }
        hooks = {event: [{"hooks": [command]}] for event in ("SessionStart", "SessionEnd")}
        hooks |= {event: [{"hooks": [call]}] for event in TURN_EVENTS}
        return [
            ManagedFile(file.path, JsonEntries({"hooks": hooks}, is_ours), file.what) if file.what == "hooks" else file
            for file in super().files(options)
        ]
