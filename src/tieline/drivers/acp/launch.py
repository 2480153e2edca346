"""How an ACP agent is started: its arguments, its environment and the files that it reads then."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ..acp_presets import Preset
from ..base import McpServer, Spec
from .claude_program import ENV as CLAUDE_ENV
from .claude_program import claude_without_repository
from .policy import codex_filter, gemini_rules, opencode_config, opencode_permission, session_mode

RULES_FILE = "tieline-rules.toml"
MCP_FILE = "tieline-mcp.json"
SETTINGS_FILE = "tieline-settings.json"
FILTER_FILE = "tieline-codex.cjs"
CLAUDE_FILE = "tieline-claude"


class AcpLaunch(Struct, frozen=True):
    argv: tuple[str, ...]
    env: Mapping[str, str]
    files: Mapping[str, str] = {}  # to be written before the start, and removed at the end


def launch_command(
    preset: Preset, command: Sequence[str], spec: Spec, directory: str, *, repository: bool = True
) -> AcpLaunch:
    """What to start. `directory` is where its files may be written; pure, it writes none itself. `repository`: its own
    settings count."""
    argv = [*(command or preset.command), *preset.args, *spec.arguments]
    env = {**preset.env, **spec.env, **preset.fixed_env}
    if preset.mode_env and (mode := session_mode(preset, spec.policy)):
        env[preset.mode_env] = mode
    if preset.directory_env:
        env[preset.directory_env] = directory
    if spec.model and preset.model_env:
        env[preset.model_env] = spec.model
    files: dict[str, str] = {}
    if spec.mcp_servers and preset.traits.mcp == "argument":
        path = str(Path(directory, MCP_FILE))  # a file: others on this machine can read arguments
        files[path] = mcp_config(spec.mcp_servers)
        argv += [part.format(path) for part in preset.mcp_args]
    if preset.settings:
        path = str(Path(directory, SETTINGS_FILE))
        files[path] = preset.settings
        env[preset.settings_env] = path
    if not repository:
        env |= preset.repository.env
        for variable, content in preset.repository.files.items():
            env[variable] = path = str(Path(directory, f"{variable.lower()}.json"))
            files[path] = content
        if preset.repository.claude_program:
            path = str(Path(directory, CLAUDE_FILE))
            files[path] = claude_without_repository(command or preset.command, env)
            env[CLAUDE_ENV] = path
    if spec.model:
        argv += [part.format(spec.model) for part in preset.model_args]
    if preset.control == "gemini-rules":
        path = str(Path(directory, RULES_FILE))
        files[path] = gemini_rules(preset, spec.policy, spec.disallowed_tools)
        argv += ["--admin-policy", path]
    elif preset.control == "opencode-permission":
        env["OPENCODE_CONFIG_CONTENT"] = opencode_config(env.get("OPENCODE_CONFIG_CONTENT", ""))
        env["OPENCODE_PERMISSION"] = msgspec.json.encode(opencode_permission(preset, spec.policy)).decode()
    elif preset.control == "codex-filter":
        path = str(Path(directory, FILTER_FILE))
        files[path] = codex_filter(argv[0], env.get("CODEX_PATH", ""), spec)
        env["CODEX_PATH"] = path
    return AcpLaunch(tuple(argv), env, files)


def mcp_config(servers: Mapping[str, McpServer]) -> str:
    """The servers in the form of `mcpServers` files, which agents read that take none from the session."""
    named: dict[str, Any] = {}
    for name, server in servers.items():
        if server.url:
            named[name] = {"type": "http", "url": server.url, "headers": dict(server.headers), "tools": ["*"]}
        else:
            program, *args = server.command
            named[name] = {"type": "stdio", "command": program, "args": args, "env": dict(server.env), "tools": ["*"]}
    return msgspec.json.encode({"mcpServers": named}).decode()
