"""How OpenCode's server is started: which program, with which arguments and environment. Pure, and light to import."""

import os
import platform
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ..errors import AgentMissing, UsageError
from .base import McpServer, Spec
from .opencode_rules import BASE

PROGRAM = "opencode"
INSTALL = "Install it with `npm install -g opencode-ai`, or name it with the agent's `command`."


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    command: tuple[str, ...] = ()  # the program and leading arguments, instead of `opencode` on the PATH
    url: str = ""  # a server that runs already, instead of one of our own
    user: str = "opencode"
    password: str = ""
    agent: str = ""  # one of OpenCode's agents: build, plan, or your own


class Launch(Struct, frozen=True):
    """How our own server is started. The password is in the environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]

    @property
    def password(self) -> str:
        return self.env["OPENCODE_SERVER_PASSWORD"]


def launch_command(agent: str, spec: Spec, options: Options) -> Launch:
    """How our own server is started. Raises AgentMissing, UsageError."""
    argv = (*program(agent, spec.env, options), "serve", "--port", "0", "--hostname", "127.0.0.1")
    config = _merged(_own_config(spec.env), BASE)
    if spec.mcp_servers:
        config = _merged(config, {"mcp": {name: _mcp(server) for name, server in spec.mcp_servers.items()}})
    env = {key: value for key, value in spec.env.items() if key != "OPENCODE_SERVER_USERNAME"}
    env["OPENCODE_SERVER_PASSWORD"] = os.urandom(24).hex()
    env["OPENCODE_CONFIG_CONTENT"] = msgspec.json.encode(config).decode()
    return Launch(argv, env)


def program(agent: str, env: Mapping[str, str], options: Options) -> tuple[str, ...]:
    """The program and its leading arguments. Raises AgentMissing."""
    name, *arguments = options.command or (PROGRAM,)
    found = shutil.which(name, path=env.get("PATH", os.defpath))
    if found is None:
        raise AgentMissing(agent, f"there is no {name!r} on the PATH", hint=INSTALL)
    return (native(found), *arguments)


def native(path: str) -> str:
    """The program behind npm's wrapper: without it, a Node process would stand in between."""
    real = Path(path).resolve()
    try:
        with real.open("rb") as file:
            if b"node" not in file.readline(200) or not real.name.startswith(PROGRAM):
                return path
    except OSError:
        return path
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(platform.machine().lower(), platform.machine())
    package = real.parent.parent
    for kind in ("", "-baseline", "-musl"):
        name = f"{PROGRAM}-{sys.platform}-{machine}{kind}"
        for modules in (package.parent, package / "node_modules"):
            candidate = modules / name / "bin" / PROGRAM
            if os.access(candidate, os.X_OK):
                return str(candidate)
    return path


def _own_config(env: Mapping[str, str]) -> dict[str, Any]:
    """What the environment configures already, to be kept."""
    given = env.get("OPENCODE_CONFIG_CONTENT", "")
    if not given.strip():
        return {}
    try:
        return msgspec.json.decode(given, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise UsageError(
            f"OPENCODE_CONFIG_CONTENT is not plain JSON: {error}",
            field="env",
            hint="Remove its comments, or move it to a file that OPENCODE_CONFIG names.",
        ) from None


def _merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in more.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value  # type: ignore[arg-type]
    return merged


def _mcp(server: McpServer) -> dict[str, Any]:
    if server.url:
        return {"type": "remote", "url": server.url, "headers": dict(server.headers), "enabled": True}
    return {
        "type": "local",
        "command": list(server.command),
        "environment": dict(server.env),
        "enabled": True,
    }
