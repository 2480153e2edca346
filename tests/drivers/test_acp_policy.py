"""What a policy becomes for an ACP agent, how that agent is started, and what its receipt says. No agent is started."""

import json
import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace

from tieline.drivers.acp.launch import launch_command
from tieline.drivers.acp.policy import allows_all, opencode_config, overriding_rules, receipt
from tieline.drivers.acp.policy import session_mode as mode_of
from tieline.drivers.acp_presets import NO_TOOL_SEEN, PRESETS, Preset
from tieline.drivers.base import McpServer, Spec
from tieline.policy import CAPABILITIES, Policy, every_policy

FULL = Policy("allow", "allow", "allow")
SERVERS = {
    "near": McpServer(command=("serve", "--fast"), env={"KEY": "secret"}),
    "far": McpServer(url="http://127.0.0.1:1/mcp", headers={"X": "y"}),
}


# --- the receipt -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_the_receipt_claims_what_the_preset_does_and_no_more(name: str) -> None:
    preset = PRESETS[name]
    for policy in every_policy():
        policy_receipt = receipt(preset, policy)
        for capability in CAPABILITIES:
            level, line = policy.level(capability), policy_receipt.of(capability)
            asks = bool(preset.control) or capability in preset.asks
            assert line.level == level
            assert (line.means == "none") == (not asks), "what it does not ask before, nothing enforces"
            if preset.control and preset.control != "codex-filter":
                assert line.means == ("rule" if level == "allow" else "prompt")
            held = level != "allow"
            assert ("does not always ask" in line.note) == (held and not asks)
            no_tool = held and asks and capability in preset.no_tools
            assert (NO_TOOL_SEEN in line.note) == no_tool
            unasked = bool(preset.unasked) and held and asks and not no_tool and capability == "shell"
            assert bool(preset.unasked and preset.unasked in line.note) == unasked
            by_command = held and capability != "shell" and policy.shell != "deny"
            assert ("a command that is permitted to run can still do it" in line.note) == by_command
            assert not line.note.startswith("; ") and not line.note.endswith("; ")
            assert bool(line.note) == (held and (not asks or no_tool or unasked or by_command))


def test_a_repository_that_is_trusted_is_told_where_commands_are_asked_about() -> None:
    settings = "the repository's own settings count"
    for policy in every_policy():
        for name, preset in PRESETS.items():
            line = receipt(preset, policy, trusts_repository=True).shell
            noted = policy.shell != "allow" and line.means != "none" and bool(preset.repository.names)
            assert (settings in line.note) == noted, name
            for trusts in (False, True):
                others = receipt(preset, policy, trusts_repository=trusts)
                assert settings not in others.file_write.note + others.network.note
            assert settings not in receipt(preset, policy).shell.note, "they do not, unless the configuration says so"


def test_everything_is_allowed_where_nothing_is_held() -> None:
    assert [policy for policy in every_policy() if allows_all(policy)] == [FULL]


# --- how it is started -----------------------------------------------------------------------------------------------


def test_servers_are_named_in_a_file_for_an_agent_that_takes_them_as_an_argument() -> None:
    """Not in the argument: others on this machine can read those."""
    launch = launch_command(PRESETS["copilot"], (), Spec(cwd="/", mcp_servers=SERVERS), "/scratch")
    assert launch.argv[-2:] == ("--additional-mcp-config", "@/scratch/tieline-mcp.json")
    assert "secret" not in " ".join(launch.argv)
    assert json.loads(launch.files["/scratch/tieline-mcp.json"])["mcpServers"] == {
        "near": {"type": "stdio", "command": "serve", "args": ["--fast"], "env": {"KEY": "secret"}, "tools": ["*"]},
        "far": {"type": "http", "url": "http://127.0.0.1:1/mcp", "headers": {"X": "y"}, "tools": ["*"]},
    }


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_servers_are_named_nowhere_else(name: str) -> None:
    for servers in ({}, SERVERS):
        launch = launch_command(PRESETS[name], (), Spec(cwd="/", mcp_servers=servers), "/scratch")
        named = any("mcpServers" in content for content in launch.files.values())
        assert named == (name == "copilot" and bool(servers))
        assert ("--additional-mcp-config" in launch.argv) == named


def test_the_arguments_are_the_command_the_presets_and_the_callers() -> None:
    spec = Spec(cwd="/", arguments=("--mine",), model="m")
    assert launch_command(PRESETS["qwen"], ("node", "q.js"), spec, "/").argv == (
        "node", "q.js", "--acp", "--approval-mode", "default", "--mine", "--model", "m",
    )  # fmt: skip
    assert launch_command(PRESETS["kimi"], (), Spec(cwd="/"), "/").argv == ("kimi", "acp")


def test_what_makes_it_ask_comes_before_the_environment_and_the_rest_after() -> None:
    preset = Preset(command=("x",), env={"A": "preset", "B": "preset"}, fixed_env={"C": "fixed"})
    assert launch_command(preset, (), Spec(cwd="/", env={"B": "mine", "C": "mine"}), "/").env == {
        "A": "preset", "B": "mine", "C": "fixed",
    }  # fmt: skip


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.repository.files])
def test_the_files_that_keep_a_repository_out_are_written_where_it_does_not_count(name: str) -> None:
    preset = PRESETS[name]
    held = launch_command(preset, (), Spec(cwd="/"), "/scratch", repository=False)
    counted = launch_command(preset, (), Spec(cwd="/"), "/scratch")
    for variable, content in preset.repository.files.items():
        assert held.files[held.env[variable]] == content
        assert held.env[variable].startswith("/scratch/")
        assert variable not in counted.env
    assert len(held.files) == len(counted.files) + len(preset.repository.files), "a file each"


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.repository.env])
def test_the_variables_that_keep_a_repository_out_are_set_where_it_does_not_count(name: str) -> None:
    env = dict(PRESETS[name].repository.env)
    theirs = dict.fromkeys(env, "theirs")
    held = launch_command(PRESETS[name], (), Spec(cwd="/", env=theirs), "/scratch", repository=False).env
    assert {variable: held[variable] for variable in env} == env
    counted = launch_command(PRESETS[name], (), Spec(cwd="/", env=theirs), "/scratch").env
    assert {variable: counted[variable] for variable in env} == theirs


def test_the_mode_in_which_it_asks_is_left_where_nothing_is_asked_only() -> None:
    for name, preset in PRESETS.items():
        for policy in every_policy():
            full = preset.mode_full if policy == FULL else ""
            assert mode_of(preset, policy) == (full or preset.mode), name


# --- its own rules ---------------------------------------------------------------------------------------------------


def test_geminis_rules_have_the_highest_priority_that_it_takes() -> None:
    spec = Spec(cwd="/", policy=Policy("allow", "ask", "deny"), disallowed_tools=("glob",))
    launch = launch_command(PRESETS["gemini"], (), spec, "/scratch")
    rules = tomllib.loads(launch.files["/scratch/tieline-rules.toml"])["rule"]
    assert {rule["priority"] for rule in rules} == {999}, "with more it refuses the file"
    for rule in rules:
        assert rule.get("allowRedirection", False) == (rule["decision"] == "allow")
        assert rule.get("argsPattern") == (None if rule["decision"] == "deny" else ".")


def test_a_configuration_that_is_not_understood_is_left_to_opencode() -> None:
    for given in ("{broken", "[]", '{"a": 1} // a comment'):
        assert opencode_config(given) == given
        env = {"OPENCODE_CONFIG_CONTENT": given}
        launch = launch_command(PRESETS["opencode-acp"], (), Spec(cwd="/", env=env), "/scratch")
        assert launch.env["OPENCODE_CONFIG_CONTENT"] == given
    assert json.loads(opencode_config("")) == {"experimental": {"continue_loop_on_deny": True}}


@pytest.mark.parametrize("policy", every_policy(), ids=str)
def test_opencode_has_subagents_only_where_nothing_is_asked(policy: Policy) -> None:
    env = launch_command(PRESETS["opencode-acp"], (), Spec(cwd="/", policy=policy), "/scratch").env
    rules = json.loads(env["OPENCODE_PERMISSION"])
    assert rules.pop("task", None) == (None if policy == FULL else "deny")
    tools = PRESETS["opencode-acp"].tools
    assert rules == {
        tool: "allow" if policy.level(capability) == "allow" else "ask"
        for capability in CAPABILITIES
        for tool in tools[capability]
    }


# --- what replaces them ----------------------------------------------------------------------------------------------


def test_a_file_that_replaces_our_rules_is_found_by_where_it_lies(tmp_path: Path) -> None:
    """An administrator's, the user's, the repository's; and those that ours would hide."""
    preset = replace(PRESETS["kimi"], overriding_files=("/etc/x/*.json", "~/.x/x.json", ".x/x.json"))
    home, project, more = tmp_path / "home", tmp_path / "place", tmp_path / "opt/more.json"
    project.mkdir()
    files = [tmp_path / "etc/x/b.json", tmp_path / "etc/x/a.json", home / ".x/x.json", project / ".x/x.json", more]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    def overriding_rule(cwd: str = str(project), home: str = str(home), *, hidden: bool = True) -> str:
        return overriding_rules(preset, cwd, tmp_path, home, ("/opt/more.json",) if hidden else ())

    for file in (files[1], files[0]):  # by name
        assert overriding_rule() == f"/{file.relative_to(tmp_path)}"
        file.unlink()
    assert overriding_rule() == "/home/.x/x.json"
    assert overriding_rule(home="") == "/place/.x/x.json"
    assert overriding_rule(cwd="", home="") == "/opt/more.json"
    assert overriding_rule(cwd="", home="", hidden=False) == ""
