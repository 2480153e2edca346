"""The state directory carries a version: an older one is migrated, a newer one refused, and none is lost."""

import json
from pathlib import Path

import pytest

from tieline import paths, state_directory
from tieline.state_directory import StateUnusable, finish_replacing, prepare, replace_content, stage, version_of
from tieline.testing.cli_process import CliProcess


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    path.mkdir()
    return path


def env_of(state: Path) -> dict[str, str]:
    return {"TIELINE_HOME": str(state)}


def test_a_directory_without_a_mark_is_the_first_and_gets_one(state: Path) -> None:
    (state / "node-id").write_text("kept\n")
    assert version_of(state) == 1
    prepare(env_of(state))
    assert (state / "version").read_text() == f"{state_directory.VERSION}\n"
    assert (state / "version").stat().st_mode & 0o077 == 0
    assert sorted(path.name for path in state.iterdir()) == ["node-id", "version"]


def test_one_that_cannot_be_used_is_named_with_what_to_set(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for folder in (file, file / "below"):
        with pytest.raises(StateUnusable) as refused:
            state_directory.make(env_of(folder))
        assert f"the state directory {folder} cannot be used" in refused.value.message
        assert "TIELINE_HOME" in refused.value.hint
    assert state_directory.make(env_of(tmp_path / "new")).stat().st_mode & 0o777 == 0o700


def test_there_is_a_step_for_every_older_version() -> None:
    assert set(state_directory.MIGRATIONS) == set(range(state_directory.UNMARKED, state_directory.VERSION))


def test_an_older_one_is_migrated_step_by_step(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def to_2(folder: Path) -> None:
        (folder / "b").write_text((folder / "a").read_text() + "2")

    def to_3(folder: Path) -> None:
        if not (folder / "ready").exists():
            raise OSError("no room")
        (folder / "c").write_text((folder / "b").read_text() + "3")

    monkeypatch.setattr(state_directory, "VERSION", 3)
    monkeypatch.setattr(state_directory, "MIGRATIONS", {1: to_2, 2: to_3})
    (state / "a").write_text("1")
    with pytest.raises(OSError, match="no room"):
        prepare(env_of(state))
    assert version_of(state) == 2, "what was done is not marked"
    (state / "b").write_text("from here")
    (state / "ready").touch()
    prepare(env_of(state))
    assert version_of(state) == 3
    assert (state / "c").read_text() == "from here3", "a step that was done is done again"


@pytest.mark.parametrize("text", ["", "two", "0", "-1", "1.5", "²"])
def test_a_mark_that_is_none_is_refused(state: Path, text: str) -> None:
    (state / "version").write_text(text)
    with pytest.raises(StateUnusable, match="does not hold a version") as refused:
        prepare(env_of(state))
    assert "tieline restore" in refused.value.hint
    assert (state / "version").read_text() == text


@pytest.mark.slow
def test_a_newer_one_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    machine = CliProcess(tmp_path)
    folder = paths.state(machine.env)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "version").write_text("99\n")
    (folder / "bus.db").write_text("what only the newer one understands")
    for verb in (("up", "--port", "0"), ("up", "--foreground", "--port", "0")):
        refused = machine.run(*verb, timeout=90)
        assert refused.returncode == 1
        assert "newer Tieline (state version 99; this one knows" in refused.stderr
        assert "TIELINE_HOME" in refused.stderr, "it does not say what to do"
    assert (folder / "version").read_text() == "99\n"
    assert (folder / "bus.db").read_text() == "what only the newer one understands"
    assert json.loads(machine.run("status", "--json").stdout)["running"] is False


# --- replacing the whole content --------------------------------------------------------------------------


def test_new_content_takes_the_place_of_the_former_which_is_kept(state: Path) -> None:
    (state / "old").write_text("o")
    (state / "both").write_text("former")
    (state / "running.lock").touch()
    staged = stage(state)
    (staged / "both").write_text("new")
    (staged / "inner").mkdir()
    (staged / "inner/new").write_text("n")
    former = replace_content(state)
    assert former is not None and former.stat().st_mode & 0o077 == 0
    assert {path.name: path.read_text() for path in former.iterdir()} == {"old": "o", "both": "former"}
    assert (state / "both").read_text() == "new" and (state / "inner/new").read_text() == "n"
    assert sorted(path.name for path in state.iterdir()) == [former.name, "both", "inner", "running.lock"]
    again = stage(state)
    (again / "third").touch()
    second = replace_content(state)
    assert second is not None and second != former and former.is_dir()


@pytest.mark.parametrize("moves", range(1, 8))
def test_cut_short_anywhere_it_is_finished_at_the_next_start(
    state: Path, moves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "three"):
        (state / name).write_text(f"former {name}")
    staged = stage(state)
    for name in ("one", "two"):
        (staged / name).write_text(f"new {name}")
    rename = Path.rename
    left = moves

    def until_it_dies(path: Path, target: Path) -> Path:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", until_it_dies)
    died = False
    try:
        replace_content(state)
    except KeyboardInterrupt:
        died = True
    monkeypatch.undo()
    assert died == (moves < 7)
    prepare(env_of(state))
    assert {path.name: path.read_text() for path in state.iterdir() if path.is_file()} == {
        "one": "new one",
        "two": "new two",
        "version": f"{state_directory.VERSION}\n",
    }
    kept = {path.name: path.read_text() for path in state.glob("before-restore-*/*")}
    assert kept == {name: f"former {name}" for name in ("one", "two", "three")}


def test_what_was_not_wholly_staged_is_dropped(state: Path) -> None:
    (state / "one").write_text("former")
    (stage(state) / "one").write_text("half")
    finish_replacing(state)
    assert (state / "one").read_text() == "former"
    assert [path.name for path in state.iterdir()] == ["one"]
