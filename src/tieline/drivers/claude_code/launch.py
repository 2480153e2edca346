"""How Claude Code is started: its command line and environment. Light: it is asked before asyncio is imported."""

from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import uuid4

import msgspec
from msgspec import Struct

from ...config import setting
from ...errors import AgentMissing
from ...events import Warning
from ...policy import Policy
from ..base import McpServer, Spec
from ..claude_project import INSTRUCTIONS, PROJECT_SETTINGS, repository_denials
from ..repository_settings import repository_instructions, settings_left_out
from .policy import permission_rules

SDK = "claude_agent_sdk"
INSTALL = "Install it: pip install 'tieline[claude]'"
UPGRADE = "Upgrade it: pip install --upgrade claude-agent-sdk"
ENTRY = "sdk-py"
INHERITED = "CLAUDECODE"
"""Set inside a Claude Code session; an agent that sees it believes to run inside another."""


ARGS = (
    "--output-format", "stream-json", "--input-format", "stream-json", "--verbose",
    "--include-partial-messages", "--forward-subagent-text", "--permission-prompt-tool", "stdio",
)  # fmt: skip
"""What it is always started with."""
RESERVED_ARGS = frozenset({
    *(argument for argument in ARGS if argument.startswith("--")), "--permission-mode", "--print", "-p",
    "--dangerously-skip-permissions", "--allow-dangerously-skip-permissions",
    "--allowedTools", "--allowed-tools", "--disallowedTools", "--disallowed-tools", "--tools", "--mcp-config",
    "--resume", "-r", "--continue", "-c", "--session-id", "--fork-session", "--setting-sources", "--max-turns",
    "--max-budget-usd", "--append-system-prompt",
})  # fmt: skip
"""Arguments that are not for the configuration: the policy and the session's options decide them."""


class ClaudeCodeOptions(Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[
        tuple[str, ...],
        setting("Program and its first arguments, instead of the one that the SDK brings.", ("/opt/claude",)),
    ] = ()
    args: tuple[str, ...] = ()  # more arguments, after ours
    env: Mapping[str, str] = {}  # added to its environment
    mode: Annotated[
        Literal["default", "plan"], setting("`plan`: the agent begins with a plan that you approve.", "plan")
    ] = "default"
    user_rules: Annotated[
        bool, setting("At level `ask`: calls that your own Claude Code rules allow need no ask.", True)
    ] = False
    setting_sources: Annotated[
        tuple[Literal["user", "project", "local"], ...] | None,
        setting(
            "Which of Claude Code's own settings count. Without it: all where commands are allowed, else the user's.",
            ("user",),
        ),
    ] = None
    start_timeout_s: Annotated[float, setting("Seconds that the agent may take to start.", 60.0)] = 30.0


TRUST = 'setting_sources = ["user", "project", "local"] under [agents.claude-code] of tieline.toml.'


class ClaudeCodeLaunch(Struct, frozen=True):
    argv: tuple[str, ...]
    env: dict[str, str]
    native_id: str
    notices: tuple[Warning, ...] = ()


def launch_command(spec: Spec, options: ClaudeCodeOptions, name: str = "claude-code") -> ClaudeCodeLaunch:
    """How the agent is started. Raises AgentMissing."""
    native_id = spec.resume if spec.resume and not spec.fork else str(uuid4())
    allowed, denied = permission_rules(spec.policy)
    sources, system = options.setting_sources, spec.system
    notices: tuple[Warning, ...] = ()
    if sources is None and not trusts_repository(spec.policy, options):
        sources = ("user",)
        denied += repository_denials(spec.cwd)
        notices = settings_left_out(spec.cwd, PROJECT_SETTINGS, spec.env.get("HOME", ""), TRUST)
        above = repository_instructions(spec.cwd, INSTRUCTIONS, above_only=True)
        system = "\n\n".join(filter(None, (above, system)))
    argv = [
        *executable(name, options, {**spec.env, **options.env}),
        *ARGS,
        "--permission-mode",
        options.mode,
        *options.args,
        *spec.arguments,  # before the session's options: of two values the last one counts
    ]
    env = {key: value for key, value in {**spec.env, **options.env}.items() if key != INHERITED}
    env |= {"CLAUDE_CODE_ENTRYPOINT": ENTRY, "PWD": spec.cwd}
    if sources != options.setting_sources:
        # Without the repository's settings it reads the instructions in directories that are added only.
        env["CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD"] = "1"
        argv.append(f"--add-dir={spec.cwd}")
    if version := _sdk_version():
        env["CLAUDE_AGENT_SDK_VERSION"] = version
    for flag, value in {
        "--model": spec.model,
        "--effort": spec.effort,
        "--max-turns": spec.max_turns,
        "--max-budget-usd": spec.max_budget_usd,
        "--append-system-prompt": system,
        "--allowedTools": ",".join((*allowed, *spec.allowed_tools)),
        "--disallowedTools": ",".join((*denied, *spec.disallowed_tools)),
        "--mcp-config": _mcp_config(spec.mcp_servers, env) if spec.mcp_servers else "",
        "--resume": spec.resume,
        "--session-id": native_id if native_id != spec.resume else "",
    }.items():
        if value not in ("", None):
            argv.append(f"{flag}={value}")  # one word: a value that starts with a dash is never taken for a flag
    if spec.fork:
        argv.append("--fork-session")
    if sources is not None:
        argv.append(f"--setting-sources={','.join(sources)}")
    return ClaudeCodeLaunch(tuple(argv), env, native_id, notices)


def trusts_repository(policy: Policy, options: ClaudeCodeOptions) -> bool:
    """Whether a repository's own settings count. They name programs (hooks, MCP servers, what fetches a key), which
    Claude Code runs without asking anybody."""
    if options.setting_sources is None:
        return policy.shell == "allow"
    return not {"project", "local"}.isdisjoint(options.setting_sources)


def _mcp_config(servers: Mapping[str, McpServer], env: dict[str, str]) -> str:
    """The servers as Claude Code's JSON. Their secrets travel in the environment: arguments are for all to read."""
    config: dict[str, Any] = {}

    def hidden(values: Mapping[str, str]) -> dict[str, str]:
        references: dict[str, str] = {}
        for key, value in values.items():
            variable = f"TIELINE_MCP_{len(env)}"
            env[variable] = value
            references[key] = f"${{{variable}}}"
        return references

    for name, server in servers.items():
        if server.url:
            config[name] = {"type": "http", "url": server.url, "headers": hidden(server.headers)}
        else:
            command, *arguments = server.command
            config[name] = {"type": "stdio", "command": command, "args": arguments, "env": hidden(server.env)}
    return msgspec.json.encode({"mcpServers": config}).decode()


def executable(name: str, options: ClaudeCodeOptions, env: Mapping[str, str]) -> tuple[str, ...]:
    """The given command, else the one inside the SDK, else `claude` on the agent's PATH. Raises AgentMissing."""
    home = _sdk_home()
    if home is None:
        raise AgentMissing(name, "the Python package claude-agent-sdk is not installed", hint=INSTALL)
    if options.command:
        return options.command
    bundled = home / "_bundled" / "claude"
    if bundled.is_file():
        return (str(bundled),)
    import shutil  # seldom needed, and slow to import

    program = shutil.which("claude", path=env.get("PATH", ""))
    if program is None:
        raise AgentMissing(name, "there is no `claude` in the SDK nor on the PATH", hint=INSTALL)
    return (program,)


def _sdk_home() -> Path | None:
    """Where the SDK is installed, without importing it."""
    spec = find_spec(SDK)
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None


def _sdk_version() -> str:
    home = _sdk_home()
    with suppress(OSError, IndexError):
        return (home / "_version.py").read_text().split('"')[-2] if home else ""
    return ""
