"""The owner's token: made once, in a file for its owner alone."""

import stat
from pathlib import Path

import pytest

from tieline import places
from tieline.errors import UsageError
from tieline.hub.auth import owner_token


def test_the_token_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    env = {"TIELINE_HOME": str(tmp_path / "state")}
    token = owner_token(env)
    path = places.token_file(env)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.read_text().strip() == token == owner_token(env)
    assert len(token) > 40
    assert sorted(one.name for one in path.parent.iterdir()) == ["token"]
    path.chmod(0o644)
    assert owner_token(env) == token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_token_file_that_is_none_is_refused(tmp_path: Path) -> None:
    env = {"TIELINE_HOME": str(tmp_path)}
    places.token_file(env).write_text("short")
    with pytest.raises(UsageError, match="holds no token"):
        owner_token(env)
    places.token_file(env).unlink()
    (tmp_path / "elsewhere").write_text("tl_" + "x" * 40)
    places.token_file(env).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        owner_token(env)
