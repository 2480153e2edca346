"""The presets, the configuration of ACP agents, and what a policy becomes. No agent is started."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from msgspec.structs import asdict, fields

from tieline.api import open_session
from tieline.drivers.acp import driver as acp
from tieline.drivers.acp.launch import launch_command
from tieline.drivers.acp.policy import gemini_rules, lifts_policy, overriding_rules
from tieline.drivers.acp_presets import PRESETS
from tieline.drivers.acp_traits import Traits
from tieline.drivers.base import Spec
from tieline.errors import PolicyUnenforceable, UsageError
from tieline.policy import CAPABILITIES, Policy, every_policy

ASKS = ["file_write", "shell", "network"]
PAGE = Path(__file__).parents[2] / "docs" / "drivers" / "acp.md"


def test_configuration() -> None:
    with pytest.raises(UsageError, match="needs a command"):
        acp.create("mine", {})
    with pytest.raises(UsageError, match="unknown preset 'nobody'"):
        acp.create("mine", {"preset": "nobody"})
    with pytest.raises(UsageError, match="nonsense"):
        acp.create("mine", {"command": ["x"], "nonsense": 1})


def test_a_configured_agent_claims_nothing_on_its_own() -> None:
    driver = acp.create("mine", {"command": ["mine"]})
    assert driver.enforce(Policy()).unenforced() == CAPABILITIES
    trusted = acp.create("mine", {"command": ["mine"], "asks": ASKS})
    assert not trusted.enforce(Policy()).unenforced()


@pytest.mark.parametrize("name", PRESETS)
def test_presets(name: str) -> None:
    driver = acp.create(name, {"preset": name})
    preset = PRESETS[name]
    assert preset.command
    assert preset.install
    assert bool(driver.tested) == bool(driver.floor)
    for policy in every_policy():
        receipt = driver.enforce(policy)
        for capability in CAPABILITIES:
            line = receipt.of(capability)
            if line.level == "deny" and capability != "shell" and policy.shell != "deny" and line.means != "none":
                assert "command" in line.note, "what a permitted shell can still do is said"


def test_the_page_has_the_same_presets() -> None:
    table = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `") and "` | `" in line]
    shown = {cells[0].strip("|` "): (cells[1].strip("`"), cells[2]) for cells in table if len(cells) == 4}
    assert set(shown) == set(PRESETS)
    for name, preset in PRESETS.items():
        asks = "by its own rules, see below" if preset.control else ", ".join(preset.asks) or "nothing for certain"
        assert shown[name] == (" ".join((*preset.command, *preset.args)), asks)


def test_every_preset_states_every_trait() -> None:
    """The page has a row for each, and its cells are what the code says."""
    columns = ("denial", "usage", "mcp", "steering", "progress")
    lines = PAGE.read_text().split("<!-- traits -->")[1].strip().splitlines()
    head, _, *rows = ([cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines)
    assert tuple(head) == ("preset", *columns)
    assert {row[0]: tuple(row[1:]) for row in rows} == {
        name: tuple(asdict(preset.traits)[column] for column in columns) for name, preset in PRESETS.items()
    }
    assert set(columns) == {field.name for field in fields(Traits) if field.required}
    for preset in PRESETS.values():
        assert bool(preset.mcp_args) == (preset.traits.mcp == "argument")
        for pattern in (*preset.traits.error_texts, *preset.traits.denial_texts):
            re.compile(pattern)


def test_a_trait_without_its_value_is_refused() -> None:
    with pytest.raises(TypeError, match="denial"):
        Traits(usage="turn", mcp="session", steering="none", progress="output")  # pyright: ignore[reportCallIssue]


def test_only_tested_presets_have_rules_of_their_own() -> None:
    controlled = {name for name, preset in PRESETS.items() if preset.control}
    assert controlled == {"gemini", "opencode-acp", "codex-acp"}
    assert all(PRESETS[name].tested for name in controlled)


def test_gemini_is_started_with_its_rules() -> None:
    spec = Spec(cwd="/", env={"HOME": "/h"}, model="flash", policy=Policy("allow", "ask", "deny"))
    launch = launch_command(PRESETS["gemini"], (), spec, "/scratch")
    assert launch.argv[:4] == ("gemini", "--acp", "--skip-trust", "--approval-mode")
    assert launch.argv[-4:] == ("-m", "flash", "--admin-policy", "/scratch/tieline-rules.toml")
    assert launch.env["GEMINI_CLI_NO_RELAUNCH"] == "1"

    rules = tomllib.loads(launch.files["/scratch/tieline-rules.toml"])["rule"]
    decisions = {tool: rule["decision"] for rule in rules for tool in rule["toolName"]}
    assert decisions == {
        "write_file": "allow",
        "replace": "allow",
        "run_shell_command": "ask_user",
        "web_fetch": "ask_user",
        "google_web_search": "ask_user",
        "write_todos": "allow",
    }


def test_gemini_disallowed_tools_come_first() -> None:

    text = gemini_rules(PRESETS["gemini"], Policy("allow", "allow", "allow"), ("run_shell_command",))
    first = tomllib.loads(text)["rule"][0]
    assert (first["toolName"], first["decision"]) == (["run_shell_command"], "deny")
    assert "argsPattern" not in first, "so that the model is not offered it at all"


def test_opencode_is_started_with_its_rules() -> None:
    mine = '{"theme":"dark","experimental":{"x":1}}'
    spec = Spec(cwd="/", env={"OPENCODE_CONFIG_CONTENT": mine}, policy=Policy("allow", "ask", "deny"))
    env = launch_command(PRESETS["opencode-acp"], (), spec, "/scratch").env
    assert json.loads(env["OPENCODE_PERMISSION"]) == {
        "edit": "allow",
        "bash": "ask",
        "webfetch": "ask",
        "websearch": "ask",
        "task": "deny",
    }
    assert json.loads(env["OPENCODE_CONFIG_CONTENT"]) == {
        "theme": "dark",
        "experimental": {"x": 1, "continue_loop_on_deny": True},
    }


def test_an_administrators_rules_are_seen(tmp_path: Path) -> None:
    assert overriding_rules(PRESETS["gemini"], root=tmp_path) == ""
    policies = tmp_path / "etc/gemini-cli/policies"
    policies.mkdir(parents=True)
    (policies / "corporate.toml").touch()
    assert overriding_rules(PRESETS["gemini"], root=tmp_path) == "/etc/gemini-cli/policies/corporate.toml"
    assert overriding_rules(PRESETS["qwen"], root=tmp_path) == ""
    (tmp_path / "etc/qwen-code").mkdir()
    (tmp_path / "etc/qwen-code/system-defaults.json").touch()
    assert overriding_rules(PRESETS["qwen"], root=tmp_path) == "/etc/qwen-code/system-defaults.json"


def test_profiles_that_lift_what_is_asked_are_seen(tmp_path: Path) -> None:
    home, cwd = tmp_path / "home", tmp_path / "place"
    for folder in (home, cwd):
        (folder / ".vibe/agents").mkdir(parents=True)
        (folder / ".vibe/agents/reviewer.toml").touch()
    assert overriding_rules(PRESETS["vibe"], str(cwd), home=str(home)) == ""
    for folder in (home, cwd):
        profile = folder / ".vibe/agents/ask.toml"
        profile.touch()
        assert overriding_rules(PRESETS["vibe"], str(cwd), home=str(home)) == str(profile)
        profile.unlink()


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_settings_of_a_repository_that_auggie_would_run_are_seen(tmp_path: Path, name: str) -> None:
    home, cwd = tmp_path / "home", tmp_path / "place/below"
    for folder in (home, tmp_path / "place"):
        (folder / ".augment").mkdir(parents=True)
        (folder / ".augment" / name).touch()
    (tmp_path / "place/.git").mkdir()
    cwd.mkdir()
    assert overriding_rules(PRESETS["auggie"], str(cwd), home=str(home)) == f"{tmp_path}/place/.augment/{name}"
    (tmp_path / "place/.augment" / name).unlink()
    assert overriding_rules(PRESETS["auggie"], str(cwd), home=str(home)) == "", "the user's own are the user's"


def test_a_model_by_a_variable_and_a_directory_of_the_sessions_own() -> None:
    env = {"VIBE_ACTIVE_MODEL": "theirs", "TMUX_TMPDIR": "/tmp"}
    for model, expected in (("mine", "mine"), ("", "theirs")):
        launch = launch_command(PRESETS["vibe"], (), Spec(cwd="/", env=env, model=model), "/scratch")
        assert launch.env["VIBE_ACTIVE_MODEL"] == expected
    assert launch_command(PRESETS["openhands"], (), Spec(cwd="/", env=env), "/scratch").env["TMUX_TMPDIR"] == "/scratch"


def test_vibe_is_started_so_that_it_asks() -> None:
    env = {"VIBE_TOOLS": '{"bash":{"permission":"always"}}', "VIBE_DEFAULT_AGENT": "auto-approve"}
    launch = launch_command(PRESETS["vibe"], (), Spec(cwd="/", env=env, policy=Policy()), "/scratch")
    tools = json.loads(launch.env["VIBE_TOOLS"])
    assert {"bash", "write_file", "edit", "web_fetch", "web_search"} <= tools.keys()
    assert all(tool == {"permission": "ask", "allowlist": []} for tool in tools.values())
    assert (launch.env["VIBE_DEFAULT_AGENT"], launch.env["VIBE_ENABLE_AUTO_APPROVE"]) == ("ask", "false")


@pytest.mark.parametrize("where", ["", "src/deep", "linked"])
def test_hooks_of_a_repository_are_seen(tmp_path: Path, where: str) -> None:
    """From anywhere below its root, and from a linked worktree of it, whose own files may be others."""
    repository = tmp_path / "repository"
    (repository / ".git/worktrees/linked").mkdir(parents=True)
    cwd = repository / where
    if where == "linked":
        cwd = tmp_path / "linked"
        cwd.mkdir()
        (cwd / ".git").write_text(f"gitdir: {repository}/.git/worktrees/linked\n")
    cwd.mkdir(parents=True, exist_ok=True)
    assert overriding_rules(PRESETS["copilot"], str(cwd)) == ""
    hooks = repository / ".github/hooks/mine.json"
    hooks.parent.mkdir(parents=True)
    hooks.touch()
    assert overriding_rules(PRESETS["copilot"], str(cwd)) == str(hooks)
    assert overriding_rules(PRESETS["gemini"], str(cwd)) == ""


def test_a_prompt_that_lifts_the_policy() -> None:
    copilot = PRESETS["copilot"]
    for prompt in ("/allow-all on", "/YOLO", " \n/permissions allow-all", "/autopilot"):
        assert lifts_policy(copilot, Policy(), prompt) == prompt.split()[0].lower()
        assert lifts_policy(copilot, Policy("allow", "allow", "allow"), prompt) == ""
    assert lifts_policy(PRESETS["claude-agent-acp"], Policy(), "/config") == "/config"
    for prompt in ("", "/", "/compact", "allow-all", "What does /allow-all do?", "/allow-all-of-it"):
        assert lifts_policy(copilot, Policy(), prompt) == ""


def test_qwen_is_started_with_rules_that_ask() -> None:
    env = {"QWEN_CODE_SYSTEM_DEFAULTS_PATH": "/mine.json", "QWEN_CODE_SAFE_MODE": "1", "QWEN_CODE_SIMPLE": "true"}
    launch = launch_command(PRESETS["qwen"], (), Spec(cwd="/", env=env, policy=Policy()), "/scratch")
    path = launch.env["QWEN_CODE_SYSTEM_DEFAULTS_PATH"]
    assert json.loads(launch.files[path])["permissions"]["ask"] == ["Edit", "Bash", "WebFetch", "WebSearch"]
    assert launch.env["QWEN_CODE_SAFE_MODE"] == launch.env["QWEN_CODE_SIMPLE"] == "false", "modes without rules"
    for argument in ("--bare", "--safe-mode", "--yolo"):
        with pytest.raises(UsageError, match=argument):
            acp.create("mine", {"preset": "qwen", "args": [argument]})


def test_unenforceable_is_refused(tmp_path: Path) -> None:
    driver = acp.create("cursor", {"preset": "cursor"})
    with pytest.raises(PolicyUnenforceable, match="file_write, shell, network"):
        open_session(driver, cwd=tmp_path, env={}, policy="read-only")
