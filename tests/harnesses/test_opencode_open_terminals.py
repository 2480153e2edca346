"""Which open terminals of OpenCode are told to read their configuration anew, and which never are."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tieline.harnesses.base import InstallOptions
from tieline.harnesses.opencode.open_terminals import (
    BETWEEN_STEPS_S,
    EARLIER_S,
    NO_RELOAD,
    TURN,
    UNKNOWN_TURN,
    TerminalProcess,
    is_over,
    is_server,
    reads,
    turn_runs,
    why_not,
)

NOW = 1_800_000_000.0
BEGAN = NOW - 3600
EMPTY: list[dict[str, Any]] = []


def assistant(
    finish: str | None = "stop", *, error: str = "", open: bool = False, at: float = NOW - 5
) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "time": {"created": at * 1000}}
    if not open:
        message["time"]["completed"] = (at + 1) * 1000
    if finish:
        message["finish"] = finish
    if error:
        message["error"] = {"name": error}
    return message


def user(at: float = NOW - 5) -> dict[str, Any]:
    return {"role": "user", "time": {"created": at * 1000}}


@pytest.mark.parametrize(
    ("message", "over"),
    [
        (assistant(), True),
        (assistant("length"), True),
        (assistant(None), True),  # a command that its person ran with `!`
        (assistant(None, open=True), False),
        (assistant("tool-calls"), False),
        (assistant("unknown"), False),
        (assistant("tool-calls", at=NOW - BETWEEN_STEPS_S - 2), True),  # its person refused the tool
        (assistant("tool-calls", error="MessageAbortedError"), True),
        (assistant(None, error="APIError"), True),
        (user(), False),
        ({"role": "system"}, False),
        ({}, False),
    ],
)
def test_whether_a_turn_is_over_by_its_last_message(message: dict[str, Any], over: bool) -> None:
    completed, error = message.get("time", {}).get("completed"), message.get("error", {}).get("name")
    assert is_over(message.get("role"), completed, message.get("finish"), error, NOW) == over


@pytest.mark.parametrize(
    ("sessions", "runs"),
    [
        ([], False),
        ([EMPTY], False),
        ([[user(), assistant()]], False),
        ([[assistant(None, open=True, at=NOW - 9), user(NOW - 8), assistant()]], False),
        ([[user(), assistant(None, open=True)]], True),
        ([[user(), assistant()], [user(), assistant(), user()]], True),
        ([[user(BEGAN - 5), assistant(None, open=True, at=BEGAN - 5)]], True),
        ([[user(), assistant(None, open=True, at=BEGAN - EARLIER_S - 5)]], True),  # the later one counts
        ([[user(BEGAN - EARLIER_S - 5)]], False),  # of a terminal that was killed
    ],
)
def test_whether_a_turn_runs_by_the_database(sessions: list[list[dict[str, Any]]], runs: bool, tmp_path: Path) -> None:
    database = made(tmp_path, sessions)
    before = database.read_bytes()
    assert turn_runs(str(database), BEGAN - EARLIER_S, NOW) is runs
    assert why_not(process(str(database)), NOW) == (TURN if runs else "")
    assert database.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE message",
        "ALTER TABLE session RENAME COLUMN id TO key",
        "UPDATE message SET data = 'oops'",
        f"INSERT INTO session_message VALUES ('new', {NOW * 1000})",
    ],
)
def test_a_database_that_is_not_understood_is_no_leave(change: str, tmp_path: Path) -> None:
    database = made(tmp_path, [[user(), assistant()]])
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(change)
    assert turn_runs(str(database), BEGAN, NOW) is None
    assert why_not(process(str(database)), NOW) == UNKNOWN_TURN


def test_what_has_no_handler_no_database_or_no_part_that_reloads_is_left_alone(tmp_path: Path) -> None:
    database = str(made(tmp_path, [[user(), assistant()]]))
    assert why_not(process(database), NOW) == ""
    assert why_not(process(database)._replace(reloads=False), NOW) == NO_RELOAD
    assert why_not(process(database)._replace(arguments=["--mini"]), NOW) == NO_RELOAD
    assert why_not(process(""), NOW) == UNKNOWN_TURN
    assert why_not(process(str(tmp_path / "gone.db")), NOW) == UNKNOWN_TURN
    assert not (tmp_path / "gone.db").exists()


@pytest.mark.parametrize(
    ("cwd", "env", "project", "read"),
    [
        ("/p", {"HOME": "/home/ann"}, "", True),
        ("/p", {"HOME": "/home/bob"}, "", False),
        ("/p", {}, "", False),
        ("/p", {"HOME": "/home/bob", "XDG_CONFIG_HOME": "/home/ann/.config"}, "", True),
        ("/p", {"HOME": "/home/ann", "XDG_CONFIG_HOME": "/elsewhere"}, "", False),
        ("/p", {"HOME": "/home/bob"}, "/p", True),
        ("/p/below", {}, "/p", True),
        ("/pp", {"HOME": "/home/ann"}, "/p", False),
        ("", {"HOME": "/home/ann"}, "/p", False),
    ],
)
def test_only_terminals_that_read_what_is_installed_are_concerned(
    cwd: str, env: dict[str, str], project: str, read: bool
) -> None:
    options = InstallOptions(env={"HOME": "/home/ann"}, program="", python="", project=project)
    assert reads(cwd, env, options, Path("/home/ann/.config/opencode")) == read


@pytest.mark.parametrize(
    ("arguments", "ours"),
    [
        (["/bin/tieline", "mcp"], True),
        (["/bin/python", "/venv/bin/tieline", "mcp"], True),
        (["/bin/other", "mcp"], False),
        (["/bin/tieline", "up"], False),
        (["mcp"], False),
        ([], False),
    ],
)
def test_what_our_server_is_known_by(arguments: list[str], ours: bool) -> None:
    assert is_server(arguments) == ours


def process(database: str) -> TerminalProcess:
    return TerminalProcess("1-1", "/p", [], BEGAN, reloads=True, database=database, has_plugin=False)


def made(folder: Path, sessions: list[list[dict[str, Any]]]) -> Path:
    """A database as OpenCode makes it, as far as it is looked at."""
    database = folder / "opencode.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE session (id TEXT PRIMARY KEY)")
        connection.execute(
            "CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT)"
        )
        connection.execute("CREATE TABLE session_message (id TEXT PRIMARY KEY, time_created INTEGER)")
        for number, messages in enumerate(sessions):
            connection.execute("INSERT INTO session VALUES (?)", (f"ses_{number}",))
            for index, message in enumerate(messages):
                created, data = int(message["time"]["created"]), msgspec.json.encode(message).decode()
                row = (f"msg_{number}_{index}", f"ses_{number}", created, data)
                connection.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
    return database
