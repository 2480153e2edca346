"""How Codex is started: needs no event loop, so that it can be done before one is imported."""

import os
import sys
from collections.abc import Mapping, Sequence

from ...errors import AgentMissing
from ...processes.spawn import find
from ...version import __version__

CWD = "/"
"""Where the server runs: it serves many directories, and each thread is told its own."""

INSTALL = "Install it with `npm install -g @openai/codex`, or name the executable in the agent's `command`."

IGNORED = (
    "thread/status/changed", "thread/readState/changed", "thread/settings/updated", "thread/name/updated",
    "thread/goal/cleared", "account/rateLimits/updated", "account/updated", "remoteControl/status/changed",
    "skills/changed", "app/list/updated", "rawResponse/completed", "item/plan/delta", "item/fileChange/outputDelta",
)  # fmt: skip
"""Notifications without content for a session's log; Codex is asked not to send them."""

HANDSHAKE = (
    '{"id":1,"method":"initialize","params":{"clientInfo":{"name":"tieline","title":"Tieline","version":"'
    + __version__
    + '"},"capabilities":{"experimentalApi":true,"optOutNotificationMethods":["'
    + '","'.join(IGNORED)
    + '"]}}}\n{"method":"initialized"}\n'
).encode()
"""The handshake, as `server` says it: it is said ahead, before there is anything to write JSON with."""

TARGETS = {  # system and machine → the npm package for it, and its directory there
    ("linux", "x86_64"): ("linux-x64", "x86_64-unknown-linux-musl"),
    ("linux", "aarch64"): ("linux-arm64", "aarch64-unknown-linux-musl"),
    ("darwin", "x86_64"): ("darwin-x64", "x86_64-apple-darwin"),
    ("darwin", "arm64"): ("darwin-arm64", "aarch64-apple-darwin"),
}


ARGS = ("app-server",)
"""What it is always started with."""
RESERVED_ARGS = frozenset({
    "--listen", "--sandbox", "-s", "--ask-for-approval", "-a", "--full-auto", "--yolo", "--stdio",
    "--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust",
})  # fmt: skip
"""Arguments that are not for the configuration: the policy and the session's options decide them."""


def machine() -> str:
    return os.uname().machine


def launch_command(
    env: Mapping[str, str], command: Sequence[str] = (), args: Sequence[str] = (), *, name: str = "codex"
) -> tuple[list[str], dict[str, str]]:
    """Arguments and environment of the app-server. Raises AgentMissing.

    The npm package's `codex` is a script that only starts the native program; starting that one saves Node's start.
    """
    first, *rest = command or ("codex",)
    path = find(first, env.get("PATH", ""))
    if not path:
        raise AgentMissing(name, f"there is no executable {first!r} on the PATH", hint=INSTALL)
    script = os.path.realpath(path)
    native = _native_binary(script) if script.endswith("/codex.js") else ""
    if not native:
        return [path, *rest, *ARGS, *args], dict(env)
    package_env = {"CODEX_MANAGED_BY_NPM": "1", "CODEX_MANAGED_PACKAGE_ROOT": script.rsplit("/", 2)[0]}
    return [native, *rest, *ARGS, *args], {**env, **package_env}


def _native_binary(script: str) -> str:
    """The program that the npm package's script would start: from the package for this platform, looked for as Node
    does."""
    package, target = TARGETS.get((sys.platform, machine()), ("", ""))
    root = script.rsplit("/", 2)[0]
    folders = [f"{root.rpartition('/')[0]}/codex-{package}"]
    parent = root
    while parent:
        parent = parent.rpartition("/")[0]
        folders.append(f"{parent}/node_modules/@openai/codex-{package}")
    programs = (f"{folder}/vendor/{target}/bin/codex" for folder in (*folders, root))
    return next((program for program in programs if target and os.access(program, os.X_OK)), "")
