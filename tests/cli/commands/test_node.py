"""This machine as a node: what its hub says of it is shown, not obeyed."""

from pathlib import Path

import pytest

from tieline.cli.commands.node import show
from tieline.node.hub_credentials import HubCredentials, write_credentials, write_link_status
from tieline.node.hub_link import LinkStatus

EVIL = "one\x1b[2J\u202etwo\nthree"


def test_what_a_hub_says_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.toml").touch()
    env = {"TIELINE_HOME": str(tmp_path), "TIELINE_CONFIG": str(tmp_path / "t.toml")}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    write_credentials(env, HubCredentials(url="https://hub.example", key="k", device="d"))
    write_link_status(env, LinkStatus(state="refused", problem=EVIL, limits=(EVIL,)))
    assert show(json=False) == 1
    out = capsys.readouterr().out
    assert not {"\x1b", "\u202e"} & set(out)
    assert out.count("one⟨U+001B⟩[2J⟨U+202E⟩two") == 2
    heads = [line.split()[0] for line in out.splitlines()]
    assert heads == ["hub", "node", "problem", "without"], "it has no lines of its own"
