"""What a person agreed to is read, and nothing else."""

import os
from pathlib import Path

import pytest

from tieline.harnesses.attach_consent import (
    STARTS_S,
    ConsentUnreadable,
    CurrentConsent,
    agree,
    consent_file,
    read_consent,
    switch,
    withdraw,
)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "TIELINE_HOME": str(tmp_path / "state")}


def test_only_sessions_that_begin_after_the_consent(env: dict[str, str]) -> None:
    allowed = CurrentConsent(env).allows
    assert not allowed("codex", "/p", 2000.0)
    agree(env, "codex", now=1000.0)
    assert allowed("codex", "/p", 1000.0) and allowed("codex", "/p", 2000.0)
    assert not allowed("codex", "/p", 1000.0 - STARTS_S - 1), "it began before"
    assert not allowed("claude-code", "/p", 2000.0), "another harness"
    agree(env, "codex", now=3000.0)
    assert allowed("codex", "/p", 2000.0), "to agree again takes nothing away"
    withdraw(env, "codex")
    assert not allowed("codex", "/p", 4000.0)
    assert oct(consent_file(env).stat().st_mode & 0o777) == "0o600"


def test_a_directory_that_is_off_with_all_below_it(env: dict[str, str], tmp_path: Path) -> None:
    allowed = CurrentConsent(env).allows
    secret, beside = tmp_path / "secret", tmp_path / "secret-not"
    (secret / "below").mkdir(parents=True)
    beside.mkdir()
    (tmp_path / "link").symlink_to(secret)
    agree(env, "codex", now=0.0)
    switch(env, str(secret), on=False)
    assert not allowed("codex", str(secret), 1.0) and not allowed("codex", str(secret / "below"), 1.0)
    assert not allowed("codex", str(tmp_path / "link" / "below"), 1.0), "by another name"
    assert allowed("codex", str(beside), 1.0)
    switch(env, str(tmp_path / "link"), on=True)
    assert allowed("codex", str(secret / "below"), 1.0)


def test_what_happened_while_a_directory_was_off_is_not_read(env: dict[str, str], tmp_path: Path) -> None:
    below = tmp_path / "project" / "below"
    below.mkdir(parents=True)
    consent = CurrentConsent(env)
    switch(env, str(tmp_path / "project"), on=True, now=1.0)
    assert consent.on_since(str(below)) == 0.0, "it was never off"
    switch(env, str(below), on=False)
    switch(env, str(tmp_path / "project"), on=False)
    switch(env, str(below), on=True, now=2.0)
    switch(env, str(tmp_path / "project"), on=True, now=3.0)
    assert (consent.on_since(str(below)), consent.on_since(str(tmp_path))) == (3.0, 0.0)
    switch(env, str(tmp_path / "project"), on=True, now=4.0)
    assert consent.on_since(str(below)) == 3.0, "it was on already"
    switch(env, str(below), on=False)
    switch(env, str(below), on=True, now=5.0)
    assert (consent.on_since(str(below)), consent.on_since(str(tmp_path / "project"))) == (5.0, 3.0)


def test_a_file_that_says_nothing_allows_nothing(env: dict[str, str]) -> None:
    agree(env, "codex", now=0.0)
    allowed = CurrentConsent(env).allows
    assert allowed("codex", "/p", 1.0)
    consent_file(env).write_text("{")
    os.utime(consent_file(env), ns=(1, 1))
    assert not allowed("codex", "/p", 1.0)
    with pytest.raises(ConsentUnreadable, match=r"attach\.json cannot be read"):
        read_consent(env)
    consent_file(env).unlink()
    assert not allowed("codex", "/p", 1.0)
