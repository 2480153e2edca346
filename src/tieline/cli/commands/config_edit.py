"""Changes `tieline.toml` without losing its comments and its order. What would not load is not written."""

import fcntl
import os
import re
import tomllib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from ... import config as configuration
from ... import environment
from ...config import Config
from ...errors import UsageError

NEW_FILE_MODE = 0o600
"""Secrets may stand in it."""


def change(environ: Mapping[str, str], edit: Callable[[str], str]) -> Path:
    """Apply `edit` to the text of the user's file, which is made if it is missing; its path. Raises UsageError."""
    named = environment.config_path(environ)
    if not named:
        raise UsageError("the configuration file has no path", field="config", hint="Set HOME or TIELINE_CONFIG.")
    path = Path(named).resolve()  # a link stays a link
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.parent):
            _write(path, edit(path.read_text() if path.exists() else ""), environ)
    except OSError as error:
        raise UsageError(f"{path} cannot be changed: {error.strerror}", field="config") from None
    except (TOMLKitError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        hint = "Correct it by hand first; it was left as it is."
        raise UsageError(f"{path} is not valid TOML: {error}", field="config", hint=hint) from None
    return path


def with_agent(text: str, name: str, values: Mapping[str, Any]) -> str:
    """With the table [agents.NAME] at its end: so no comment comes to stand above another table than its own."""
    wanted = tomllib.loads(text)
    wanted.setdefault("agents", {})[name] = dict(values)
    appended = f"{text.rstrip()}\n\n[agents.{name}]\n{tomlkit.dumps(_table(values))}".lstrip("\n")
    with suppress(tomllib.TOMLDecodeError):
        if tomllib.loads(appended) == wanted:
            return appended
    document = tomlkit.parse(text)  # where `agents` is one inline table
    document["agents"][name] = _inline(values)
    return _checked(tomlkit.dumps(document), wanted)


def without_agent(text: str, name: str) -> str:
    wanted = tomllib.loads(text)
    del wanted["agents"][name]
    cut = _without_table(text, name)
    if _same(cut, wanted):
        return cut
    document = tomlkit.parse(text)  # written in another way: inline, or with dotted keys
    del document["agents"][name]
    return _checked(tomlkit.dumps(document), wanted)


def with_value(text: str, key: str, value: str) -> str:
    """With a value of the first level."""
    wanted = {**tomllib.loads(text), key: value}
    document = tomlkit.parse(text)
    if key in document:
        document[key] = value
        return _checked(tomlkit.dumps(document), wanted)
    return _checked(f"{key} = {tomlkit.item(value).as_string()}\n{text}", wanted)


def _without_table(text: str, name: str) -> str:
    """Without the lines of [agents.NAME] and the tables below it. What stands right above the next table is its own."""
    head = re.compile(rf"""\s*\[\[?\s*agents\s*\.\s*["']?{re.escape(name)}["']?\s*[\].]""")
    kept: list[str] = []
    gone: list[str] = []  # since the last head of it
    for line in text.splitlines(keepends=True):
        if head.match(line):
            kept += _comments_at_end(gone)
            gone = [line]
        elif gone and not line.lstrip().startswith("["):
            gone.append(line)
        else:
            kept += [*_comments_at_end(gone), line]
            gone = []
    kept += _comments_at_end(gone)
    return "".join(kept).rstrip() + "\n" if kept else ""


def _comments_at_end(lines: list[str]) -> list[str]:
    count = 0
    for line in reversed(lines):
        if not line.lstrip().startswith("#"):
            break
        count += 1
    return lines[len(lines) - count :]


def _same(text: str, wanted: Mapping[str, Any]) -> bool:
    """Whether the text has these values; an empty table of agents equals a missing one."""
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return {**parsed, "agents": parsed.get("agents", {})} == {**wanted, "agents": wanted.get("agents", {})}


def _checked(text: str, wanted: Mapping[str, Any]) -> str:
    if not _same(text, wanted):
        raise UsageError("this configuration cannot be changed by command", field="config", hint="Change it by hand.")
    return text


def _table(values: Mapping[str, Any]) -> Table:
    table = tomlkit.table()
    for key, value in values.items():
        table[key] = _inline(value)
    return table


def _inline(value: Any) -> Any:
    """Tables stay on their key's line, so that the agent's table is one piece."""
    if isinstance(value, Mapping):
        inline = tomlkit.inline_table()
        for key, each in cast("Mapping[str, Any]", value).items():
            inline[key] = _inline(each)
        return inline
    return value


def _write(path: Path, text: str, environ: Mapping[str, str]) -> None:
    """At once or not at all, and only what loads."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    mode = path.stat().st_mode & 0o777 if path.exists() else NEW_FILE_MODE
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.chmod(mode)
        loaded(draft, environ)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def loaded(path: Path, environ: Mapping[str, str]) -> Config:
    return configuration.load(environ={**environ, "TIELINE_CONFIG": str(path)})


@contextmanager
def _locked(folder: Path) -> Generator[None, None, None]:
    """One change at a time, whoever makes it. The folder itself is the lock: there is no file to leave behind."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
