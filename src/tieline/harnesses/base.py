"""The contract of a harness integration: what it can do, where it is, and which files tell it of Tieline."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import msgspec

from .. import paths
from ..environment import state_folder
from ..protocol.mesh import HOOK_TOOL
from .editors.base import Editor

SERVER = "tieline"
"""What our MCP server is called in every harness."""
KEY_VARIABLE = "TIELINE_MESH_KEY"
"""With transport http: the variable that holds the key, so that no configuration file holds a secret."""
VERSION_S = 10.0
"""How long a program may take to print its version."""

Transport = Literal["stdio", "http"]


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What an integration can do, in words for the table of the documentation. An empty text: it cannot."""

    transports: tuple[Transport, ...] = ("stdio", "http")
    tools: str = ""
    """How its agents get our tools where it has no MCP client."""
    hooks: str = ""
    """What tells us of its sessions, and brings context to them."""
    mid_turn: str = ""
    """How a message gets into a running turn."""
    turn_end: str = ""
    idle_wake: str = ""
    session_id: str = ""
    """Where the id of a session comes from."""
    registers_itself: bool = False
    """Whether a session is registered at its start, without a call of its agent."""
    instructions: str = ""
    """Where the protocol instructions stand."""
    compaction: str = ""
    """What keeps the instructions in the context after it was compacted."""
    slash_command: str = ""


class Detection(msgspec.Struct, frozen=True, kw_only=True):
    found: bool
    program: str = ""
    version: str = ""
    paths: tuple[str, ...] = ()
    """Folders of its configuration that exist."""


class InstallOptions(msgspec.Struct, frozen=True, kw_only=True):
    env: Mapping[str, str]
    program: str
    """The absolute path of `tieline`."""
    python: str
    """The absolute path of the interpreter for command hooks."""
    project: str = ""
    """The absolute path of a project. Empty: for everything that this user does."""
    transport: Transport = "stdio"
    url: str = "http://127.0.0.1:8137"
    """The hub's address, for transport http."""
    hooks: bool = False
    """Also hooks that the person must approve in the harness (Codex)."""
    attach: bool = False
    """Also what Tieline needs to read along in its terminals and to answer their prompts."""

    @property
    def home(self) -> Path:
        return Path(self.env.get("HOME", "/"))

    def folder(self, variable: str, default: str) -> Path:
        """The harness's own folder in the home directory, which a variable may move."""
        named = self.env.get(variable, "") if variable else ""
        return Path(named) if named else self.home / default

    @property
    def root(self) -> Path:
        return Path(self.project)


class TerminalEvents(msgspec.Struct, frozen=True, kw_only=True):
    """By what a harness tells of a session in its terminal, in words for the table of the documentation. An empty text:
    it does not tell that. Every harness says all of it."""

    session_start: str
    session_end: str
    prompt: str
    words_in_a_turn: str
    """What its person says in the middle of a turn."""
    text: str
    text_deltas: str
    tool_start: str
    """With its whole action, while it runs."""
    tool_end: str
    permission_ask: str
    """With its whole action."""
    answer_at_the_terminal: str
    question: str
    turn_end: str
    compaction: str
    idle_or_busy: str
    model_change: str
    """One that its person makes at the terminal."""
    mode_change: str
    usage: str


class AttachTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What a person agrees to with `--attach`, in words for people."""

    reads: str
    can: str
    """What can be done from elsewhere."""
    cannot: str = ""
    """What stays the terminal's."""
    tells: TerminalEvents


@dataclass(frozen=True, slots=True)
class ManagedFile:
    """A file of a harness in which we have something."""

    path: Path
    editor: Editor
    what: str
    """For people: `MCP server`, `hooks`, `instructions` …"""


@dataclass(frozen=True, slots=True)
class OpenTerminal:
    """A terminal of a harness that was opened before what is installed or removed now."""

    key: str
    """Its `process_key`."""
    cwd: str
    problem: str = ""
    """Why it has to be started again for that. Empty: it can be told to load it."""
    told: bool = False

    @property
    def pid(self) -> int:
        return int(self.key.partition("-")[0])


class Harness:
    """One integration. A subclass says what is different about its harness."""

    name: ClassVar[str]
    display_name: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    programs: ClassVar[tuple[str, ...]] = ()
    """What it is called on PATH."""
    package: ClassVar[str] = ""
    """Its npm package, whose version is read without a start of the program."""
    folders: ClassVar[tuple[str, ...]] = ()
    """Folders in the home directory that say that it was used here."""
    tested: ClassVar[str] = ""
    """The version that this integration was tried with. Empty: written after its documentation."""

    attach_terms: ClassVar[AttachTerms | None] = None
    """None: Tieline cannot read along in its terminals."""
    resume_command: ClassVar[tuple[str, ...]] = ()
    """How a person goes on with a session in a terminal; the session's id follows."""

    def files(self, options: InstallOptions) -> list[ManagedFile]:
        """Every file of ours, for this scope and these options."""
        raise NotImplementedError

    def all_files(self, options: InstallOptions) -> list[ManagedFile]:
        """Every file that any options could have brought."""
        return self.files(msgspec.structs.replace(options, hooks=True, attach=True))

    def notes(self, options: InstallOptions) -> list[str]:
        """What the person has to do, or to know, after the installation."""
        return []

    def open_terminals(self, options: InstallOptions, *, installing: bool) -> list[OpenTerminal]:
        """Those of this user that do not notice by themselves what is installed, or removed, now."""
        return []

    def reload(self, options: InstallOptions, terminals: Sequence[OpenTerminal]) -> list[OpenTerminal]:
        """Tell these to load it, as far as that is safe."""
        return list(terminals)

    def trusts(self, folder: Path, env: Mapping[str, str]) -> bool:
        """Whether it starts MCP servers there. Some do so only in folders that the person has called safe."""
        return True

    def detect(self, env: Mapping[str, str], *, version: bool = True) -> Detection:
        program = self._program(env)
        home = Path(env.get("HOME", "/"))
        paths = tuple(str(home / folder) for folder in self.folders if (home / folder).is_dir())
        known = _version(program, self.package, env) if program and version else ""
        return Detection(found=bool(program or paths), program=program, version=known, paths=paths)

    def _program(self, env: Mapping[str, str]) -> str:
        candidates = (shutil.which(name, path=env.get("PATH", "")) for name in self.programs)
        return next((path for path in candidates if path), "")


def _version(program: str, package: str, env: Mapping[str, str]) -> str:
    for folder in Path(program).resolve().parents if package else ():
        try:
            manifest: Any = json.loads((folder / "package.json").read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(manifest, dict) and cast("dict[str, Any]", manifest).get("name") == package:
            return str(cast("dict[str, Any]", manifest).get("version", ""))
    try:
        done = subprocess.run(
            [program, "--version"], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=VERSION_S
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    match = re.search(r"\d+\.\d+[\w.+-]*", done.stdout)
    return match[0].rstrip(".") if match else ""


# --- the entry of our MCP server, in the shapes that harnesses share ------------------------------------------


def server_environment(harness: str, options: InstallOptions) -> dict[str, str]:
    """The variables that the bridge needs; harnesses may start it with almost none."""
    env = {"TIELINE_HARNESS": harness}
    state = state_folder(options.env)
    if state != state_folder({"HOME": options.env.get("HOME", "")}):
        env["TIELINE_HOME"] = state
    return env


def mcp_url(options: InstallOptions) -> str:
    return f"{options.url}/mcp"


def stdio_entry(harness: str, options: InstallOptions) -> dict[str, Any]:
    return {"command": options.program, "args": ["mcp"], "env": server_environment(harness, options)}


def http_headers(harness: str, reference: str) -> dict[str, str]:
    """`reference` is how the harness refers to a variable in its configuration."""
    return {"Authorization": f"Bearer {reference}", "X-Tieline-Harness": harness}


def is_our_server(value: Any) -> bool:
    """Whether an entry by our name is one that `tieline install` wrote."""
    if not isinstance(value, dict):
        return False
    entry = cast("dict[str, Any]", value)
    command: Any = entry.get("command")
    if isinstance(command, str):
        return os.path.basename(command) == "tieline" and entry.get("args") == ["mcp"]  # noqa: PTH119 (a string)
    if isinstance(command, list):
        words = cast("list[Any]", command)
        return len(words) == 2 and str(words[0]).endswith("tieline") and words[1] == "mcp"
    return any(str(entry.get(key, "")).endswith("/mcp") for key in ("url", "httpUrl", "serverUrl"))


# --- hooks -------------------------------------------------------------------------------------------------------


def hook_program() -> Path:
    return Path(__file__).with_name("hook.py")


def hook_command(harness: str, options: InstallOptions, event: str = "") -> str:
    """A command hook: a program of the standard library that is gone at once when no hub runs. `event` is for
    harnesses whose input does not name it."""
    import shlex

    socket = str(paths.socket_file(options.env))
    return shlex.join([options.python, "-I", "-S", str(hook_program()), harness, socket, *([event] if event else [])])


def command_hooks(
    harness: str,
    options: InstallOptions,
    events: Iterable[str],
    timeout: float,
    *,
    groups: Mapping[str, Mapping[str, str]] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Hooks in the form that Claude Code introduced: for each event one group with our command. `timeout` is in the
    harness's own unit; `groups`: more fields of the group of an event; `more`: more fields of the handler."""
    handler = {**more, "type": "command", "command": hook_command(harness, options), "timeout": timeout}
    group_fields = groups or {}
    return {"hooks": {event: [{**group_fields.get(event, {}), "hooks": [handler]}] for event in events}}


def is_our_handler(value: Any) -> bool:
    """Whether one hook is ours: a command that runs our program, or a call of our tool."""
    if not isinstance(value, dict):
        return False
    entry = cast("dict[str, Any]", value)
    if entry.get("type") == "mcp_tool":
        return entry.get("server") == SERVER and entry.get("tool") == HOOK_TOOL
    words = (str(entry.get(key, "")) for key in ("command", "bash"))
    return any(f"harnesses/{hook_program().name}" in text for text in words)


def is_our_group(value: Any) -> bool:
    """Whether all hooks of a group (`{"matcher": …, "hooks": […]}`) are ours."""
    hooks: Any = cast("dict[str, Any]", value).get("hooks") if isinstance(value, dict) else None
    handlers = cast("list[Any]", hooks) if isinstance(hooks, list) else []
    return bool(handlers) and all(is_our_handler(each) for each in handlers)


def is_ours(path: tuple[str | int, ...], value: Any) -> bool:
    """Whether an entry of a JSON configuration is ours, in every shape that harnesses have for it."""
    match path:
        case ("mcpServers" | "servers" | "mcp", "tieline"):
            return is_our_server(value)
        case ("hooks", int()):  # Kiro
            return isinstance(value, dict) and is_our_handler(cast("dict[str, Any]", value).get("action"))
        case ("hooks", str(), int()):
            return is_our_group(value) or is_our_handler(value)
        case ("hooks", str(), int(), "hooks", int()):
            return is_our_handler(value)
        case ("enabledMcpjsonServers", int()):  # Claude Code's list of approved servers
            return value == SERVER
        case _:
            return False
