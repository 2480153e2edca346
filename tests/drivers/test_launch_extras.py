"""What a session may add to its agent's command line and environment, and what would undo its policy."""

from pathlib import Path

import pytest

from tieline.config import Config
from tieline.drivers.base import Spec, check_spec
from tieline.drivers.launch_extras import check_extras, with_environment
from tieline.drivers.options import build_spec
from tieline.drivers.registry import create
from tieline.drivers.scripted import Scripted
from tieline.drivers.shell.command_line import ShellOptions, launch_command
from tieline.errors import Unsupported, UsageError
from tieline.policy import preset


@pytest.mark.parametrize("name", ["DEBUG", "DATABASE_URL", "MY_TOKEN", "CI", "LANG", "TZ", "paths"])
def test_a_projects_own_variables_are_free(name: str) -> None:
    check_extras("codex", (), (f"{name}=1=2",), held=True)


@pytest.mark.parametrize(
    "name",
    [
        "PATH", "HOME", "LD_PRELOAD", "NODE_OPTIONS", "PYTHONPATH", "GIT_CONFIG_GLOBAL", "BASH_ENV", "XDG_CONFIG_HOME",
        "ANTHROPIC_BASE_URL", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCODE_PERMISSION", "GEMINI_CLI_HOME",
        "OPENCODE_CONFIG_CONTENT", "SSL_CERT_FILE", "https_proxy",
    ],
)  # fmt: skip
def test_what_could_undo_a_policy_needs_the_policy_full(name: str) -> None:
    with pytest.raises(UsageError, match=f"sets {name} only with the policy full"):
        check_extras("codex", (), (f"{name}=x",), held=True)
    check_extras("codex", (), (f"{name}=x",), held=False)


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize(
    ("given", "words"), [("TIELINE_HOME=/tmp", "Tieline's own"), ("tieline_x=1", "Tieline's own"),
                         ("A", "not a variable"), ("=1", "not a variable"), ("A B=1", "not a variable"),
                         ("A=\0", "null bytes")],
)  # fmt: skip
def test_some_are_never_set(held: bool, given: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_extras("codex", (), (given,), held=held)


def test_arguments_need_the_policy_full(tmp_path: Path) -> None:
    agent = create("claude-code", Config(environ={}))
    for policy, accepted in (("ask", False), ("read-only", False), ("full", True)):
        spec = Spec(cwd=str(tmp_path), policy=preset(policy), arguments=("--verbose",))
        if accepted:
            check_spec(agent, spec)
        else:
            with pytest.raises(UsageError, match="only with the policy full"):
                check_spec(agent, spec)
    with pytest.raises(Unsupported, match="arguments"):
        check_spec(Scripted(), Spec(cwd=str(tmp_path), policy=preset("full"), arguments=("x",)))


@pytest.mark.parametrize(
    ("agent", "argument"),
    [("claude-code", "--permission-mode=plan"), ("codex", "--sandbox"), ("opencode", "--hostname=0.0.0.0"),
     ("gemini", "--yolo")],
)  # fmt: skip
async def test_what_the_driver_itself_sees_to_is_refused_with_any_policy(
    tmp_path: Path, agent: str, argument: str
) -> None:
    driver = create(agent, Config(environ={}))
    spec = Spec(cwd=str(tmp_path), policy=preset("full"), arguments=(argument,), env={"PATH": "/usr/bin:/bin"})
    with pytest.raises(UsageError, match="Tieline's own argument"):
        async with driver.open(spec, lambda ask: None):  # type: ignore[arg-type, return-value]
            pass


def test_they_arrive_as_they_are(tmp_path: Path) -> None:
    spec = build_spec(
        Config(environ={"A": "old", "B": "stays"}), cwd=tmp_path, arguments=["{cwd}", "-x"], environment=["A=new=er"]
    )
    assert spec.env == {"A": "new=er", "B": "stays"}
    argv, env = launch_command(ShellOptions(command=("agent",), args=("{cwd}",)), spec, "go", "")
    assert argv[:4] == ["agent", str(tmp_path), "{cwd}", "-x"]
    assert env["A"] == "new=er"
    assert with_environment(spec.env, ()) is spec.env
