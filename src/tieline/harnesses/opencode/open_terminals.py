"""Terminals of OpenCode that are open while the plugin is installed or removed.

OpenCode reads its configuration when it starts. One signal has its terminal read it anew, at once: the conversation and
what is typed stay on the screen. But what runs is cut off by that, and a permission prompt stays on the screen as one
that takes no answer any more. So the signal goes only where no turn runs, as OpenCode's own database says. A process
without a handler for the signal would die of it: those never get it.
"""

import signal
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path, PurePath
from typing import NamedTuple

from ...environment import MARK
from ...processes import process_details as details
from ...processes.process_table import all_processes, process_info, process_key
from ..base import InstallOptions, OpenTerminal

RELOAD = signal.SIGUSR2
PROGRAMS = {"opencode", "opencode.exe"}
OTHER_COMMANDS = {
    "acp", "agent", "attach", "auth", "completion", "db", "debug", "export", "github", "import", "mcp", "models",
    "plug", "plugin", "pr", "providers", "run", "serve", "session", "stats", "uninstall", "upgrade", "web",
}  # fmt: skip
"""Of OpenCode's: in a terminal, and yet none of its terminals, or one of a server elsewhere."""
DATABASE = "opencode*.db"
LOOK_S = 2.0
"""How long its database may take to answer."""
EARLIER_S = 600.0
"""Clocks are corrected: a turn that began so long before its terminal may be its own all the same."""
BETWEEN_STEPS_S = 60.0
"""For a moment no step of a turn is open. A turn whose last step asked for tools so long ago is over."""
LAST_MESSAGES = """
    SELECT json_extract(data, '$.role'), json_extract(data, '$.time.completed'), json_extract(data, '$.finish'),
        json_extract(data, '$.error.name')
    FROM session JOIN message ON message.id = (
        SELECT id FROM message AS each WHERE each.session_id = session.id ORDER BY time_created DESC, id DESC LIMIT 1)
    WHERE message.time_created >= ?
"""
NEW_MESSAGES = "SELECT EXISTS (SELECT 1 FROM session_message WHERE time_created >= ?)"
"""A table that OpenCode has begun to make and does not use yet."""

TURN = "a turn may be running in OpenCode"
UNKNOWN_TURN = "it cannot be told whether a turn runs in it"
NO_RELOAD = "this OpenCode loads nothing while it runs"
NOT_TOLD = "it could not be told"


class TerminalProcess(NamedTuple):
    """What /proc says of an OpenCode in a terminal."""

    key: str
    cwd: str
    arguments: Sequence[str]
    began_at: float
    reloads: bool
    """Whether it has a handler for the signal."""
    database: str
    """Empty: it has none open that could be told."""
    has_plugin: bool


def open_terminals(options: InstallOptions, config: Path, plugin: Path, *, installing: bool) -> list[OpenTerminal]:
    """The terminals that have not yet loaded the files that are installed, or that still use those that are removed."""
    candidates = (_look(pid, options, config, plugin) for pid in all_processes())
    return [_judged(each) for each in candidates if each is not None and each.has_plugin != installing]


def reload(options: InstallOptions, config: Path, plugin: Path, shown: OpenTerminal) -> OpenTerminal:
    """Signal a terminal to read its configuration anew, if that is still safe."""
    if shown.problem:
        return shown
    process = _look(shown.pid, options, config, plugin)
    if process is None or process.key != shown.key:
        return replace(shown, problem=NOT_TOLD)
    now = _judged(process)
    if now.problem:
        return now
    signalled = details.signal_if_caught(now.key, RELOAD)
    return replace(now, told=signalled, problem="" if signalled else NOT_TOLD)


def _judged(process: TerminalProcess) -> OpenTerminal:
    return OpenTerminal(process.key, process.cwd, problem=why_not(process, time.time()))


def why_not(process: TerminalProcess, now: float) -> str:
    """Why it is not told to read its configuration anew. Empty: it can be."""
    if not process.reloads or "--mini" in process.arguments:
        return NO_RELOAD
    running = turn_runs(process.database, process.began_at - EARLIER_S, now)
    if running is None:
        return UNKNOWN_TURN
    return TURN if running else ""


# --- turns -------------------------------------------------------------------------------------------------------


def turn_runs(database: str, since: float, now: float) -> bool | None:
    """Whether a turn may be running that began after that time, in any terminal with this database: it does not say in
    which. None: that cannot be told."""
    if not database:
        return None
    deadline = time.monotonic() + LOOK_S
    try:
        with closing(sqlite3.connect(f"{Path(database).as_uri()}?mode=ro", uri=True, timeout=LOOK_S)) as connection:
            connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
            if _has_new_messages(connection, since):
                return None
            last = connection.execute(LAST_MESSAGES, (since * 1000,)).fetchall()
    except (sqlite3.Error, ValueError):
        return None
    return any(not is_over(role, completed, finish, error, now) for role, completed, finish, error in last)


def _has_new_messages(connection: sqlite3.Connection, since: float) -> bool:
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'session_message'").fetchone()
    return bool(known and connection.execute(NEW_MESSAGES, (since * 1000,)).fetchone()[0])


def is_over(role: object, completed: object, finish: object, error: object, now: float) -> bool:
    """Whether no turn runs in a session whose last message is that. A turn begins with what its person says, and each
    of its steps is a message."""
    if role != "assistant" or not isinstance(completed, int | float):
        return False
    goes_on = finish in ("tool-calls", "unknown") and error is None
    return not goes_on or now - completed / 1000 > BETWEEN_STEPS_S


# --- looking -----------------------------------------------------------------------------------------------------


def _look(pid: int, options: InstallOptions, config: Path, plugin: Path) -> TerminalProcess | None:
    """None: it is no terminal of OpenCode, of this user, that reads these files."""
    if PurePath(details.program_of(pid)).name not in PROGRAMS or not details.is_own(pid):
        return None
    key, info = process_key(pid), process_info(pid)
    if not key or info is None or not info.terminal:
        return None
    arguments, env, cwd = details.arguments_of(pid)[1:], details.environment_of(pid), details.directory_of(pid)
    if MARK in env or "--pure" in arguments or (arguments and arguments[0] in OTHER_COMMANDS):
        return None
    if not reads(cwd, env, options, config):
        return None
    databases = {path for path in details.open_files(pid) if PurePath(path).match(DATABASE)}
    began_at = details.began_at(info.start)
    return TerminalProcess(
        key=key,
        cwd=cwd,
        arguments=arguments,
        began_at=began_at,
        reloads=details.catches(pid, RELOAD),
        database=databases.pop() if len(databases) == 1 else "",
        has_plugin=_has_server(pid) or _is_older(plugin, began_at),
    )


def reads(cwd: str, env: dict[str, str], options: InstallOptions, config: Path) -> bool:
    """Whether an OpenCode in that directory reads this folder of configuration, or this project's."""
    if options.project:
        return PurePath(cwd).is_relative_to(Path(options.project).resolve())
    base = env.get("XDG_CONFIG_HOME") or f"{env.get('HOME', '')}/.config"
    return Path(base, "opencode").resolve() == config.resolve()


def _has_server(pid: int) -> bool:
    """Whether it runs our MCP server, which is in its configuration beside the plugin."""
    below = details.children_of(pid, all_processes())
    return any(is_server(details.arguments_of(each)) for each in below)


def is_server(arguments: Sequence[str]) -> bool:
    return len(arguments) >= 2 and arguments[-1] == "mcp" and PurePath(arguments[-2]).name == "tieline"


def _is_older(plugin: Path, began_at: float) -> bool:
    """Whether it was there when something began."""
    try:
        return plugin.stat().st_mtime < began_at
    except OSError:
        return False
