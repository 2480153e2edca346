"""One Config from TOML and the environment."""

import sys
from pathlib import Path

import pytest

from tieline import config
from tieline.drivers import registry
from tieline.errors import UnknownAgent, UsageError


def test_without_a_file(tmp_path: Path) -> None:
    loaded = config.load(environ={"HOME": str(tmp_path)})
    assert (loaded.policy, loaded.agents, loaded.source) == ("ask", {}, "")
    assert loaded.environ == {"HOME": str(tmp_path)}


def test_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = tmp_path / ".config" / "tieline" / "tieline.toml"
    user.parent.mkdir(parents=True)
    user.write_text('policy = "full"')
    environ = {"HOME": str(tmp_path)}
    assert config.load(environ=environ).policy == "full"
    (tmp_path / "other.toml").write_text('policy = "read-only"')
    environ["TIELINE_CONFIG"] = str(tmp_path / "other.toml")
    assert config.load(environ=environ).policy == "read-only"


def test_a_repository_cannot_widen_the_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tieline.toml").write_text('policy = "full"')
    monkeypatch.chdir(tmp_path)
    assert config.load(environ={"HOME": str(tmp_path / "home")}).policy == "ask"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("policy = ", "not valid TOML"),
        ('polcy = "ask"', "polcy"),
        ("policy = 3", "policy"),
        ("[agents.mine]\ncommand = []", "agents.mine: it has no type"),
        ("[agents.codex]\nrun_as = 0", "agents.codex.run_as: expected text"),
    ],
)
def test_mistakes_name_file_and_field(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "tieline.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=problem) as caught:
        config.load(environ={"TIELINE_CONFIG": str(file)})
    assert str(file) in str(caught.value)


def test_a_named_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        config.load(environ={"TIELINE_CONFIG": str(tmp_path / "none.toml")})


def test_a_configured_agent_has_a_name_and_a_type() -> None:
    loaded = config.Config(agents={"mine": {"type": "scripted"}})
    assert registry.create("mine", loaded).name == "mine"
    assert "mine" in registry.names(loaded)


def test_bad_options_name_the_agent_and_the_field() -> None:
    with pytest.raises(UsageError, match=r"agents\.mine: .*scrpt"):
        registry.create("mine", config.Config(agents={"mine": {"type": "scripted", "scrpt": "x"}}))


def test_a_type_that_needs_options_is_no_agent_by_itself() -> None:
    with pytest.raises(UnknownAgent):
        registry.create("shell", config.Config())


@pytest.mark.parametrize(
    ("agent", "euid", "problem", "hint"),
    [
        ({"type": "codex", "run_as": "nobody"}, 1000, "only root can run an agent as 'nobody'", "docs/nodes.md"),
        ({"run_as": "no-such-user"}, 0, "there is no user 'no-such-user'", "useradd"),
        ({"run_as": "root"}, 0, "is root", "leave run_as out"),
        ({"type": "scripted", "run_as": "nobody"}, 0, "agents that Tieline itself starts", "docs/nodes.md"),
        (
            {"type": "opencode", "url": "http://127.0.0.1:1", "run_as": "nobody"},
            0,
            "agents that Tieline itself starts",
            "docs/nodes.md",
        ),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="run_as is for Linux")
def test_a_user_that_an_agent_cannot_run_as(
    agent: dict[str, str], euid: int, problem: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: euid)
    with pytest.raises(UsageError, match=problem) as caught:
        registry.create("codex", config.Config(agents={"codex": agent}))
    assert caught.value.field == "agents.codex.run_as"
    assert hint in caught.value.hint


def test_an_agent_that_is_known_needs_no_type_to_run_as_a_user(tmp_path: Path) -> None:
    file = tmp_path / "tieline.toml"
    file.write_text('[agents.codex]\nrun_as = "agents"\nenabled = true')
    assert config.load(environ={"TIELINE_CONFIG": str(file)}).agents["codex"]["run_as"] == "agents"
