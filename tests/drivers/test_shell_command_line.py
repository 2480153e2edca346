"""From a configuration to a command line: placeholders, placement, the system instruction, bad configurations."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.drivers.base import Spec
from tieline.drivers.shell import driver as shell
from tieline.drivers.shell.command_line import launch_command
from tieline.errors import UsageError
from tieline.policy import PRESETS, Policy, every_policy

JSON = {"output": "jsonl", "text_field": "text", "session_field": "id"}


def command(options: dict[str, Any], *, prompt: str = "do it", session: str = "", **spec: Any) -> list[str]:
    driver = shell.create("some", options)
    argv, _ = launch_command(driver.options, Spec(cwd="/place", **spec), prompt, session)
    return argv


def test_prompt_in_its_place() -> None:
    assert command({"command": ["agent", "-p", "{prompt}", "--json"]}) == ["agent", "-p", "do it", "--json"]
    assert command({"command": ["agent", "--prompt={prompt}"]}) == ["agent", "--prompt=do it"]


def test_prompt_without_a_place_comes_last() -> None:
    options = {"command": ["agent", "--quiet"], "model_args": ["-m", "{model}"]}
    assert command(options, model="big") == ["agent", "--quiet", "-m", "big", "do it"]


def test_prompt_on_stdin_is_not_an_argument() -> None:
    assert command({"command": ["agent", "-"], "prompt_by": "stdin"}) == ["agent", "-"]


def test_arguments_for_what_is_asked_and_no_others() -> None:
    options = {
        **JSON,
        "command": ["agent", "exec", "{resume_args}", "--json", "{model_args}", "{prompt}"],
        "resume_args": ["resume", "{session}"],
        "model_args": ["-m", "{model}"],
        "system_args": ["--append", "{system}"],
        "policy_args": {"read-only": ["--sandbox", "read-only"]},
    }
    assert command(options) == ["agent", "exec", "--json", "do it"]
    assert command(options, model="big", session="s-1", system="Be brief.", policy=PRESETS["read-only"]) == [
        *("agent", "exec", "resume", "s-1", "--json", "-m", "big", "do it"),
        *("--append", "Be brief.", "--sandbox", "read-only"),
    ]


def test_an_argument_without_its_value_is_left_out() -> None:
    options = {"command": ["agent", "--model={model}", "--dir={cwd}", "{prompt}"]}
    assert command(options) == ["agent", "--dir=/place", "do it"]
    assert command(options, model="big") == ["agent", "--model=big", "--dir=/place", "do it"]


def test_braces_that_are_no_placeholders() -> None:
    argv = command({"command": ["agent", '{"json": {"a": 1}}', "{{prompt}}", "{prompt}", "${HOME}"[1:-1]]})
    assert argv == ["agent", '{"json": {"a": 1}}', "{prompt}", "do it", "{HOME"]


@given(st.text())
def test_a_prompt_is_one_argument_whatever_it_says(prompt: str) -> None:
    argv = command({"command": ["agent", "{prompt}", "--model={model}"]}, prompt=prompt, model="big")
    if not prompt:
        assert argv == ["agent", "--model=big"]
    else:
        assert argv == ["agent", f" {prompt}" if prompt.startswith("-") else prompt, "--model=big"]


@pytest.mark.parametrize("prompt", ["{model}", "{session} {system}", "{{prompt}}", "$(touch x); `touch y`", "a\nb'\""])
def test_what_a_prompt_contains_is_not_expanded(prompt: str) -> None:
    options = {"command": ["agent", "{prompt}"], "model_args": ["-m", "{model}"]}
    assert command(options, prompt=prompt, model="big") == ["agent", prompt, "-m", "big"]


def test_a_prompt_is_not_taken_for_an_option() -> None:
    danger = "--dangerously-skip-permissions"
    assert command({"command": ["agent", "{prompt}"]}, prompt=danger)[-1] == f" {danger}"
    assert command({"command": ["agent"]}, prompt=danger)[-1] == f" {danger}"
    assert command({"command": ["agent", "--prompt={prompt}"]}, prompt=danger)[-1] == f"--prompt={danger}"
    assert command({"command": ["agent", "--", "{prompt}"]}, prompt=danger)[-1] == danger
    options = {"command": ["agent", "{prompt}"], "system_args": ["--append", "{system}"]}
    assert command(options, system="--yolo")[-1] == " --yolo"


@pytest.mark.parametrize("changes", [{"model": "--yolo"}, {"session": "--yolo"}])
def test_a_model_or_a_session_is_not_taken_for_an_option(changes: dict[str, str]) -> None:
    options = {
        **JSON,
        "command": ["agent", "{prompt}"],
        "model_args": ["-m", "{model}"],
        "resume_args": ["--resume", "{session}"],
    }
    with pytest.raises(UsageError, match="starts with a dash"):
        command(options, **changes)


# --- the system instruction --------------------------------------------------------------------------------


def test_system_in_front_of_the_prompt() -> None:
    options = {"command": ["agent"]}
    assert command(options, system="Be brief.") == ["agent", "[SYSTEM]\nBe brief.\n\n[MESSAGE]\ndo it"]
    assert command(options) == ["agent", "do it"], "unchanged without one"


def test_system_in_front_of_a_message_with_its_context() -> None:
    prompt = "[CONTEXT]\nanna: hello\n\n[MESSAGE]\ndo it"
    assert command({"command": ["agent"]}, prompt=prompt, system="Be brief.") == [
        "agent",
        "[SYSTEM]\nBe brief.\n\n[CONTEXT]\nanna: hello\n\n[MESSAGE]\ndo it",
    ]


def test_system_by_the_agents_own_flag() -> None:
    options = {"command": ["agent", "{prompt}"], "system_args": ["--append-system-prompt", "{system}"]}
    assert command(options, system="Be brief.") == ["agent", "do it", "--append-system-prompt", "Be brief."]
    assert command(options) == ["agent", "do it"]
    assert shell.create("some", options).features.system == "native"
    assert shell.create("some", {"command": ["agent"]}).features.system == "prompt"


def test_no_variable_carries_the_instruction() -> None:
    driver = shell.create("some", {"command": ["agent"], "env": {"MOOD": "calm"}})
    spec = Spec(cwd="/", env={"PATH": "/bin", "MOOD": "wild"}, system="Be brief.")
    _, env = launch_command(driver.options, spec, "do it", "")
    assert env == {"PATH": "/bin", "MOOD": "calm"}


# --- features and policy -----------------------------------------------------------------------------------


def test_features_are_what_is_configured() -> None:
    bare = shell.create("some", {"command": ["agent"]}).features
    assert (bare.model, bare.resume, bare.usage, bare.thinking, bare.deltas) == (False, False, False, False, True)
    whole = shell.create(
        "some",
        {
            **JSON,
            "command": ["agent", "--model={model}", "--resume={session}"],
            "usage": {"output": "usage.out"},
            "thinking_field": "thought",
        },
    ).features
    assert (whole.model, whole.resume, whole.usage, whole.thinking, whole.deltas) == (True, True, True, True, False)


def test_nothing_is_enforced_without_arguments_for_it() -> None:
    driver = shell.create("some", {"command": ["agent"]})
    for policy in every_policy():
        receipt = driver.enforce(policy)
        for capability in ("file_write", "shell", "network"):
            line = receipt.of(capability)
            assert line.means == "none"
            assert bool(line.note) == (line.level != "allow")


def test_policy_arguments_are_claimed_for_their_policy_alone() -> None:
    driver = shell.create(
        "some",
        {
            "command": ["agent"],
            "policy_args": {
                "read-only": {
                    "args": ["--sandbox", "ro"],
                    "file_write": "sandbox",
                    "shell": "none",
                    "note": "by bwrap",
                },
                "edits": ["--mode", "edits"],
                "allow/deny/deny": ["--no-tools"],
                "full": [],
            },
        },
    )
    readonly = driver.enforce(PRESETS["read-only"])
    assert (readonly.file_write.means, readonly.shell.means, readonly.network.means) == ("sandbox", "none", "rule")
    assert "by bwrap" in readonly.file_write.note
    assert "as the configuration claims" in readonly.file_write.note
    assert readonly.unenforced() == ("shell",)
    edits = driver.enforce(PRESETS["edits"])
    assert edits.unenforced() == ()
    assert "cannot ask" in edits.shell.note
    assert driver.enforce(Policy("allow", "deny", "deny")).shell.means == "rule"
    assert driver.enforce(Policy("allow", "deny", "allow")).unenforced() == ("shell",)


# --- bad configurations ------------------------------------------------------------------------------------

AGENT = {"command": ["agent"]}


@pytest.mark.parametrize(
    ("options", "field", "problem"),
    [
        ({}, "", "missing required field `command`"),
        ({"command": []}, "command", "must start with the program"),
        ({"command": ["{prompt}"]}, "command", "must start with the program"),
        ({"command": "agent --json"}, "", "Expected `array`, got `str` - at `\\$.command`"),
        ({"command": ["agent", "{promt}"]}, "command", "unknown placeholder {promt}"),
        ({**AGENT, "model_args": ["-m", "{prompt_args}"]}, "model_args", "unknown placeholder {prompt_args}"),
        ({**AGENT, "model_args": ["-m", "big"]}, "model_args", "{model} is not in it"),
        ({**AGENT, "end_marker": "[DONE]"}, "", "unknown field `end_marker`"),
        ({"command": ["agent", "{prompt}"], "prompt_by": "stdin"}, "command", "{prompt} is in it"),
        ({**AGENT, "prompt_by": "telepathy"}, "", "Invalid enum value 'telepathy'"),
        ({**AGENT, "timeout_s": 0}, "timeout_s", "no time at all"),
        ({**AGENT, "idle_timeout_s": -1}, "idle_timeout_s", "no time at all"),
        ({**AGENT, "done_when": {"type": "result"}}, "done_when", 'needs output = "jsonl"'),
        ({**AGENT, "output": "jsonl"}, "text_field", "it is missing"),
        ({**AGENT, "output": "jsonl", "text_field": "a..b"}, "text_field", "'a..b' is not a field path"),
        ({**AGENT, "output": "jsonl", "text_field": "a[0]"}, "text_field", "'a[0]' is not a field path"),
        ({**AGENT, **JSON, "done_when": {"a[": 1}}, "done_when", "'a[' is not a field path"),
        ({**AGENT, **JSON, "done_when": [{"a": 1}, {"": 1}]}, "done_when", "'' is not a field path"),
        ({**AGENT, **JSON, "usage": {"tokens": "usage.out"}}, "usage", "'tokens' is not one of input, output"),
        ({**AGENT, **JSON, "usage": {"input": "."}}, "usage", "'.' is not a field path"),
        ({**AGENT, **JSON, "delta_when": {"type": "x"}}, "delta_field", "it is missing"),
        (
            {**AGENT, "output": "jsonl", "text_field": "text", "resume_args": ["--resume", "{session}"]},
            "session_field",
            "it is missing",
        ),
        ({**AGENT, "policy_args": {"readonly": []}}, "policy_args", "'readonly' is not a policy"),
        ({**AGENT, "policy_args": {"allow/deny": []}}, "policy_args", "'allow/deny' is not a policy"),
        ({**AGENT, "policy_args": {"full": {"args": [], "shell": "prompt"}}}, "", "Invalid enum value 'prompt'"),
    ],
)
def test_bad_configuration(options: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        shell.create("mine", options)
    assert problem.replace("\\", "") in str(caught.value)
    assert str(caught.value).startswith("agents.mine")
    assert caught.value.field == (f"agents.mine.{field}" if field else "agents.mine")
