"""How OpenCode's server is started: needs no event loop, so that it can be done before one is imported."""

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ...errors import AgentMissing, UsageError
from ..opencode_project import NO_PROJECT

if TYPE_CHECKING:
    from ..base import McpServer

CWD = "/"
"""Where the server runs: it serves many directories, and must not hold any."""

PROGRAM = "opencode"
INSTALL = "Install it with `npm install -g opencode-ai`, or name the executable in the agent's `command`."
PASSWORD = "OPENCODE_SERVER_PASSWORD"
CONFIG = "OPENCODE_CONFIG_CONTENT"
TRUST = 'env = { OPENCODE_DISABLE_PROJECT_CONFIG = "0" } under [agents.opencode] of tieline.toml.'
TRUSTED = {"trusted": True}
"""For a start ahead of which it is known that commands are allowed."""

ARGS = ("serve", "--port", "0", "--hostname", "127.0.0.1")
"""What it is always started with."""
RESERVED_ARGS = frozenset({"--port", "--hostname", "--mdns", "--mdns-domain", "--cors"})
"""Arguments that are not for the configuration: they would open the server to others."""

GOVERNED = ("edit", "bash", "webfetch", "websearch")
"""The permissions that fall under a policy."""

BASE: dict[str, Any] = {
    "agent": {
        "general": {"permission": dict.fromkeys(GOVERNED, "ask")},
        "explore": {"permission": {name: "ask" for name in GOVERNED if name != "edit"}},
    },
    # Otherwise a refused call ends the turn, and the model never hears why.
    "experimental": {"continue_loop_on_deny": True},
}
"""Configuration of our own server, over the user's; see `rules`. `explore` may not edit at all: asking were wider."""

MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}

_password = os.urandom(24).hex()
"""One per process of ours, so that the server which was started ahead is the one that is asked for."""


def launch_command(
    env: Mapping[str, str],
    command: Sequence[str] = (),
    mcp_servers: "Mapping[str, McpServer] | None" = None,
    args: Sequence[str] = (),
    *,
    name: str = PROGRAM,
    trusted: bool = False,
) -> tuple[list[str], dict[str, str]]:
    """Arguments and environment of the server; `trusted`: a repository's own settings count. Raises AgentMissing,
    UsageError."""
    argv = [*resolve_command(env, command, name), *ARGS, *args]
    config = _deep_merge(_env_config(env), BASE)
    if mcp_servers:
        config = _deep_merge(config, {"mcp": {name: _mcp(server) for name, server in mcp_servers.items()}})
    own = {key: value for key, value in env.items() if key != "OPENCODE_SERVER_USERNAME"}
    if not trusted:
        own.setdefault(NO_PROJECT, "1")
    return argv, {**own, PASSWORD: _password, CONFIG: json.dumps(config)}


def reads_project(env: Mapping[str, str]) -> bool:
    """Whether the environment says that a repository's own settings count, whatever the policy."""
    return env.get(NO_PROJECT, "1").lower() not in ("1", "true")


def resolve_command(env: Mapping[str, str], command: Sequence[str] = (), name: str = PROGRAM) -> tuple[str, ...]:
    """The program and its leading arguments. Raises AgentMissing."""
    wanted, *arguments = command or (PROGRAM,)
    program = shutil.which(wanted, path=env.get("PATH", ""))
    if program is None:
        raise AgentMissing(name, f"there is no executable {wanted!r} on the PATH", hint=INSTALL)
    return (native_binary(program), *arguments)


def native_binary(path: str) -> str:
    """The program behind npm's wrapper: without it, a Node process would stand in between."""
    real = Path(path).resolve()
    try:
        with real.open("rb") as file:
            if not real.name.startswith(PROGRAM) or b"node" not in file.readline(200):
                return path
    except OSError:
        return path
    machine = os.uname().machine
    package = real.parent.parent
    for kind in ("", "-baseline", "-musl"):
        name = f"{PROGRAM}-{sys.platform}-{MACHINES.get(machine, machine)}{kind}"
        for modules in (package.parent, package / "node_modules"):
            candidate = modules / name / "bin" / PROGRAM
            if os.access(candidate, os.X_OK):
                return str(candidate)
    return path


def _env_config(env: Mapping[str, str]) -> dict[str, Any]:
    """What the environment configures already, to be kept."""
    given = env.get(CONFIG, "")
    try:
        config: Any = json.loads(given or "{}")
    except ValueError as error:
        raise UsageError(
            f"{CONFIG} is not plain JSON: {error}",
            field="env",
            hint="Remove its comments, or move it to a file that OPENCODE_CONFIG names.",
        ) from None
    if not isinstance(config, dict):
        raise UsageError(f"{CONFIG} is no JSON object", field="env")
    return cast(dict[str, Any], config)


def _deep_merge(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in more.items():
        below = merged.get(key)
        merged[key] = _deep_merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value  # type: ignore[arg-type]
    return merged


def _mcp(server: "McpServer") -> dict[str, Any]:
    if server.url:
        return {"type": "remote", "url": server.url, "headers": dict(server.headers), "enabled": True}
    return {"type": "local", "command": list(server.command), "environment": dict(server.env), "enabled": True}
