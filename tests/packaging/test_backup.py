"""The state as one file: made under load, put back whole, and nothing else is ever put back."""

import asyncio
import io
import json
import os
import resource
import shutil
import sqlite3
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.hub_process import HubProcess

from tieline import paths, state_directory
from tieline.bootstrap import backup
from tieline.bootstrap.backup import MANIFEST, PREFIX, BadBackup, File, Manifest, create, restore
from tieline.bootstrap.process_lock import AlreadyRunning, single_instance
from tieline.client import connect
from tieline.config import Config
from tieline.errors import TielineError, UsageError
from tieline.events import Text
from tieline.protocol.request_bodies import NewSession
from tieline.script import Say
from tieline.sessions.records import SessionRecord
from tieline.state_directory import StateUnusable
from tieline.testing.cli_process import CliProcess
from tieline.testing.wait_for import eventually

SESSIONS = 4


# --- under load, with the real processes -----------------------------------------------------------------


async def _load(machine: CliProcess, stop: asyncio.Event, acknowledged: list[tuple[str, str]]) -> None:
    """Prompts, one after the other; those that the hub acknowledged are written down."""
    async with connect(machine.env) as client:
        session = await client.create_session(NewSession(agent="talker", cwd=str(machine.place), policy="full"))
        assert isinstance(session, SessionRecord)
        number = 0
        while not stop.is_set():
            number += 1
            prompt = await client.prompt(session.id, f"number {number}")
            acknowledged.append((session.id, prompt.id))


async def _back_up_under_load(machine: CliProcess, file: Path) -> list[tuple[str, str]]:
    """What was acknowledged before the backup began; prompts go on all the time."""
    stop, acknowledged = asyncio.Event(), list[tuple[str, str]]()
    async with asyncio.TaskGroup() as group:
        for _ in range(SESSIONS):
            group.create_task(_load(machine, stop, acknowledged))
        try:
            await eventually(
                lambda: len({id for id, _ in acknowledged}) == SESSIONS and len(acknowledged) > 10 * SESSIONS,
                "there is no load",
                timeout=60,
            )
            before = list(acknowledged)
            done = await asyncio.to_thread(machine.run, "backup", str(file), timeout=90)
            assert done.returncode == 0, done.stderr
            assert "password" in done.stdout and str(machine.env["TIELINE_CONFIG"]) in done.stdout
            assert len(acknowledged) > len(before), "nothing went on meanwhile"
        finally:
            stop.set()
    return before


@pytest.mark.slow
def test_what_was_acknowledged_before_is_there_after(tmp_path: Path) -> None:
    machine, file = CliProcess(tmp_path / "one"), tmp_path / "tieline.tar.gz"
    machine.agent("talker", [Say("Heard.")])
    with HubProcess(machine):
        before = asyncio.run(_back_up_under_load(machine, file))
        refused = machine.run("restore", str(file))
        assert refused.returncode == 1 and "already runs" in refused.stderr and "tieline down" in refused.stderr
    assert file.stat().st_mode & 0o777 == 0o600

    other = CliProcess(tmp_path / "other")
    other.agent("talker", [Say("Heard.")])
    shutil.rmtree(other.env["HOME"], ignore_errors=True)
    done = other.run("restore", str(file))
    assert done.returncode == 0, done.stderr
    assert "before-restore" not in done.stdout and "tieline up" in done.stdout
    for path in paths.state(other.env).rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    for name in ("node-id", "hub-id"):
        assert (paths.state(other.env) / name).read_bytes() == (paths.state(machine.env) / name).read_bytes()

    async def look() -> None:
        async with connect(other.env) as client:
            for session in {session for session, _ in before}:
                prompts = {prompt.id for prompt in await client.prompts(session, over=True)}
                assert {prompt for of, prompt in before if of == session} <= prompts
                events = [frame.event for frame in (await client.events(session)).events]
                assert "Heard." in [event.text for event in events if isinstance(event, Text)]

    with HubProcess(other):
        asyncio.run(look())


# --- the files -------------------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A state directory with something of everything."""
    state = tmp_path / "state"
    (state / "snapshots/one").mkdir(parents=True)
    (state / "snapshots/one/object").write_bytes(b"\0\1")
    (state / "node.json").write_text('{"key": "k"}')
    (state / "node.json").chmod(0o600)
    (state / "own").mkdir()
    for name in (
        "running.lock",
        "hub.json",
        "link.json",
        "bus.db.lock",
        "open-x.html",
        ".node-id.part",
        "own/hub.sock",
    ):
        (state / name).touch()
    (state / "before-restore-x").mkdir()
    (state / "before-restore-x/old").touch()
    (state / "away").symlink_to("/etc/passwd")
    os.mkfifo(state / "pipe")
    with closing(sqlite3.connect(state / "bus.db")) as bus:
        bus.execute("PRAGMA journal_mode = WAL")
        bus.execute("CREATE TABLE t (n)")
        bus.execute("INSERT INTO t VALUES (7)")
        bus.commit()
    return Config(environ={"TIELINE_HOME": str(state), "HOME": str(tmp_path)})


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "running.lock" and "before-restore" not in str(path)
    }


def test_what_is_kept_and_what_is_not(config: Config, tmp_path: Path) -> None:
    file = tmp_path / "b.tar.gz"
    manifest = create(config, file)
    assert [each.path for each in manifest.files] == ["bus.db", "node.json", "snapshots/one/object"]
    with tarfile.open(file) as tar:
        assert tar.getnames()[0] == MANIFEST
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar.gz", "state"], "something is left behind"

    target = {"TIELINE_HOME": str(tmp_path / "new")}
    assert restore(target, file).former == ""
    with closing(sqlite3.connect(tmp_path / "new/bus.db")) as bus:
        assert bus.execute("SELECT n FROM t").fetchall() == [(7,)]
    assert (tmp_path / "new/node.json").stat().st_mode & 0o777 == 0o600


def test_what_is_in_the_log_of_the_bus_alone_is_kept(config: Config, tmp_path: Path) -> None:
    state = paths.state(config.environ)
    with closing(sqlite3.connect(state / "bus.db")) as bus:  # open, as by a hub: nothing is folded into the file
        bus.execute("INSERT INTO t VALUES (8)")
        bus.commit()
        assert (state / "bus.db-wal").stat().st_size
        create(config, tmp_path / "b.tar.gz")
    restore({"TIELINE_HOME": str(tmp_path / "new")}, tmp_path / "b.tar.gz")
    with closing(sqlite3.connect(tmp_path / "new/bus.db")) as bus:
        assert bus.execute("SELECT n FROM t").fetchall() == [(7,), (8,)]


def test_the_former_state_is_kept(config: Config, tmp_path: Path) -> None:
    file, state = tmp_path / "b.tar.gz", paths.state(config.environ)
    create(config, file)
    (state / "node.json").write_text("changed since")
    restored = restore(config.environ, file)
    assert (state / "node.json").read_text() == '{"key": "k"}'
    assert (Path(restored.former) / "node.json").read_text() == "changed since"
    assert (Path(restored.former) / "bus.db").exists()


def test_a_file_that_is_there_is_not_replaced_unasked(config: Config, tmp_path: Path) -> None:
    file = tmp_path / "b.tar.gz"
    file.write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        create(config, file)
    assert file.read_text() == "mine"
    create(config, file, replace=True)
    with pytest.raises(UsageError, match="inside"):
        create(config, paths.state(config.environ) / "snapshots/b.tar.gz")
    with pytest.raises(UsageError, match="not a directory"):
        create(config, tmp_path / "nowhere/b.tar.gz")
    with pytest.raises(UsageError, match="no state"):
        create(Config(environ={"TIELINE_HOME": str(tmp_path / "none")}), tmp_path / "c.tar.gz")


def test_a_damaged_bus_is_no_backup(config: Config, tmp_path: Path) -> None:
    (paths.state(config.environ) / "bus.db").write_bytes(b"this is no bus file " * 500)
    with pytest.raises(TielineError, match="cannot be backed up"):
        create(config, tmp_path / "b.tar.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_where_there_is_no_room_for_it_the_bus_is_not_said_to_be_damaged(config: Config, tmp_path: Path) -> None:
    with closing(sqlite3.connect(paths.state(config.environ) / "bus.db")) as bus, bus:
        bus.execute("CREATE TABLE filler (data)")
        bus.execute("INSERT INTO filler VALUES (zeroblob(400000))")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(TielineError, match="cannot be backed up") as refused:
            create(config, tmp_path / "b.tar.gz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "free space" in refused.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


@pytest.mark.slow
def test_what_is_on_nats_is_said_not_to_be_in_it(tmp_path: Path) -> None:
    machine = CliProcess(tmp_path)
    paths.state(machine.env).mkdir(parents=True, exist_ok=True)
    machine.configure('bus = "nats://user:pass@127.0.0.1:4222"\n')
    process = machine.run("backup", str(tmp_path / "b.tar.gz"))
    assert process.returncode == 0 and "NATS" in process.stdout and "pass@" not in process.stdout
    assert json.loads(machine.run("backup", str(tmp_path / "c.tar.gz"), "--json").stdout)["bus"] == "elsewhere"


def test_a_bus_file_elsewhere_is_in_it(config: Config, tmp_path: Path) -> None:
    elsewhere = tmp_path / "a b%41.db"
    shutil.move(paths.bus_file(config.environ), elsewhere)
    moved = msgspec.structs.replace(config, bus=f"sqlite://{elsewhere}")
    assert create(moved, tmp_path / "b.tar.gz").files[0].path == "bus.db"


def test_it_is_refused_while_something_runs(config: Config, tmp_path: Path) -> None:
    create(config, tmp_path / "b.tar.gz")
    before = content(paths.state(config.environ))
    with single_instance(config.environ), pytest.raises(AlreadyRunning):
        restore(config.environ, tmp_path / "b.tar.gz")
    assert content(paths.state(config.environ)) == before


# --- attacks ---------------------------------------------------------------------------------------------


def member(name: str, data: bytes = b"x", **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    about = tarfile.TarInfo(name)
    about.size = len(data)
    for key, value in more.items():
        setattr(about, key, value)
    return about, data


def archive(file: Path, *members: tuple[tarfile.TarInfo, bytes], paths: tuple[str, ...] = (), **more: Any) -> None:
    """An archive with a manifest that names `paths`, each with the content `x`, and whatever members."""
    files = tuple(File(path, 1, sha256(b"x").hexdigest()) for path in paths)
    known: dict[str, Any] = {"format": 1, "tieline": "0", "state_version": 1, "made_at": 0.0, "files": files, **more}
    with tarfile.open(file, "w:gz") as tar:
        about, data = member(MANIFEST, msgspec.json.encode(Manifest(**known)))
        tar.addfile(about, io.BytesIO(data))
        for about, data in members:
            tar.addfile(about, io.BytesIO(data) if about.isreg() else None)


def leaving(path: str) -> Callable[[Path], None]:
    return lambda file: archive(file, member(PREFIX + path), paths=(path,))


def written(data: bytes) -> Callable[[Path], None]:
    def write(file: Path) -> None:
        file.write_bytes(data)

    return write


def linked(kind: bytes, path: str = "link") -> Callable[[Path], None]:
    """Of the very size and content that the manifest says: only what it is gives it away."""
    nothing = (File(path, 0, sha256(b"").hexdigest()),)
    return lambda file: archive(file, member(PREFIX + path, b"", type=kind, linkname="/etc"), files=nothing)


def plain(file: Path) -> None:
    with tarfile.open(file, "w:gz") as tar:
        about, data = member("../../evil")
        tar.addfile(about, io.BytesIO(data))


ATTACKS: dict[str, Callable[[Path], None]] = {
    "another tar": plain,
    "no archive": written(b"not an archive at all"),
    "empty": written(b""),
    "leaves upwards": leaving("../evil"),
    "leaves later": leaving("a/../../evil"),
    "absolute": leaving("/tmp/evil"),
    "empty part": leaving("a//b"),
    "a dot": leaving("./a"),
    "no name": leaving(""),
    "a lock": leaving("running.lock"),
    "a socket's folder": leaving("own/hub.sock"),
    "the log of the bus": leaving("bus.db-wal"),
    "below the bus": leaving("bus.db/x"),
    "a restore in a restore": leaving("restoring/x"),
    "symbolic link": linked(tarfile.SYMTYPE),
    "hard link": linked(tarfile.LNKTYPE),
    "device": linked(tarfile.CHRTYPE),
    "pipe": linked(tarfile.FIFOTYPE),
    "through a link": lambda file: archive(
        file,
        member(PREFIX + "a", b"", type=tarfile.SYMTYPE, linkname="/tmp"),
        member(PREFIX + "a/evil"),
        paths=("a", "a/evil"),
    ),
    "another name than the manifest's": lambda file: archive(file, member("../evil"), paths=("a",)),
    "more than the manifest names": lambda file: archive(file, member(PREFIX + "a"), member("evil"), paths=("a",)),
    "less than the manifest names": lambda file: archive(file, member(PREFIX + "a"), paths=("a", "b")),
    "twice": lambda file: archive(file, member(PREFIX + "a"), member(PREFIX + "a"), paths=("a", "a")),
    "a file that is a folder": lambda file: archive(
        file, member(PREFIX + "a"), member(PREFIX + "a/b"), paths=("a", "a/b")
    ),
    "other content": lambda file: archive(file, member(PREFIX + "a", b"y"), paths=("a",)),
    "other size": lambda file: archive(file, member(PREFIX + "a", b"xx"), paths=("a",)),
    "more than the disk holds": lambda file: archive(file, files=(File("a", 1 << 60, ""),)),
    "a bus that is none": lambda file: archive(file, member(PREFIX + "bus.db"), paths=("bus.db",)),
    "a newer format": lambda file: archive(file, format=2),
}


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A state that must be the same afterwards, and a directory that nothing may be added to."""
    outer = tmp_path / "outer"
    state = outer / "state"
    state.mkdir(parents=True)
    (state / "node-id").write_text("mine")
    yield {"TIELINE_HOME": str(state)}
    assert content(outer) == {"state/node-id": b"mine"}
    assert not list(outer.rglob("*evil*")) and not list(outer.rglob("restor*"))
    assert not Path("/tmp/evil").exists()


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_an_archive_that_is_not_ours_changes_nothing(
    attack: Callable[[Path], None], victim: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "evil.tar.gz"
    attack(file)
    with pytest.raises(BadBackup) as refused:
        restore(victim, file)
    assert refused.value.hint


def test_one_of_a_newer_state_is_refused(victim: dict[str, str], tmp_path: Path) -> None:
    archive(tmp_path / "b.tar.gz", state_version=state_directory.VERSION + 1)
    with pytest.raises(StateUnusable, match="newer Tieline"):
        restore(victim, tmp_path / "b.tar.gz")


@pytest.mark.slow
def test_damage_anywhere_is_found(config: Config, victim: dict[str, str], tmp_path: Path) -> None:
    """Cut off at any place, or with any byte changed: it is refused, or what it holds is what was backed up."""
    file = tmp_path / "b.tar.gz"
    create(config, file)
    whole = file.read_bytes()
    step = max(1, len(whole) // 40)
    for at in range(0, len(whole) - 40, step):
        file.write_bytes(whole[:at])
        with pytest.raises(TielineError):
            restore(victim, file)
    good = tmp_path / "good"
    file.write_bytes(whole)
    restore({"TIELINE_HOME": str(good)}, file)
    for at in range(10, len(whole), step):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        other = tmp_path / f"other-{at}"
        try:
            restore({"TIELINE_HOME": str(other)}, file)
        except TielineError:
            assert content(other) == {}
        else:
            assert content(other) == content(good)


def test_a_restore_that_fails_half_way_leaves_all_as_it_was(
    config: Config, victim: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(config, tmp_path / "b.tar.gz")

    def full(*_: object) -> tuple[int, str]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup, "_copy", full)
    with pytest.raises(TielineError, match="No space left"):
        restore(victim, tmp_path / "b.tar.gz")
