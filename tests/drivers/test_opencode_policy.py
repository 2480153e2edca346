"""A policy as OpenCode's rules, and what the receipt says of it."""

import json
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tieline.drivers.opencode.launch import GOVERNED, launch_command
from tieline.drivers.opencode.policy import CAPABILITY_OF, PERMISSIONS, Rules, is_hidden, receipt, rule, session_rules
from tieline.policy import CAPABILITIES, Policy, every_policy

BUILD: dict[str, Any] = {"name": "build", "mode": "primary", "permission": [rule("*", "allow")]}
FULL = Policy("allow", "allow", "allow")


def decide(permission: str, pattern: str, *rulesets: Any) -> str:
    """As OpenCode decides: the last rule that matches."""
    last = "ask"
    for each in (each for rules in rulesets for each in rules):
        if fnmatchcase(permission, each["permission"]) and fnmatchcase(pattern, each["pattern"]):
            last = each["action"]
    return last


def agent(*own: dict[str, str], name: str = "build", mode: str = "primary") -> dict[str, Any]:
    return {"name": name, "mode": mode, "permission": [rule("*", "allow"), *own]}


@pytest.mark.parametrize("policy", every_policy(), ids=str)
def test_every_policy(policy: Policy) -> None:
    rules = session_rules(policy, [BUILD])
    for capability, names in PERMISSIONS.items():
        for name in names:
            level = policy.level(capability)
            assert decide(name, "anything", BUILD["permission"], rules) == level
            assert is_hidden(rules, name) == (level == "deny")
    policy_receipt = receipt(policy, foreign=False)
    for capability in CAPABILITIES:
        line = policy_receipt.of(capability)
        assert (line.level, line.means) == (
            policy.level(capability),
            "prompt" if policy.level(capability) == "ask" else "rule",
        )
    if policy.shell == "deny":
        assert not policy_receipt.file_write.note and not policy_receipt.network.note
    else:
        assert bool(policy_receipt.file_write.note) == (policy.file_write != "allow"), "what a shell can do is said"
        assert bool(policy_receipt.network.note) == (policy.network != "allow")
    assert (
        ("> file" in policy_receipt.shell.note) == ("password" in policy_receipt.shell.note) == (policy.shell == "ask")
    )
    assert "own settings" not in policy_receipt.shell.note
    own = receipt(policy, foreign=False, project=True).shell.note
    assert ("plugins and servers run without an ask" in own) == (policy.shell != "allow")


@pytest.mark.parametrize("policy", every_policy(), ids=str)
def test_the_configuration_never_widens_it(policy: Policy) -> None:
    wide = agent(*[rule(name, "allow") for name in CAPABILITY_OF], rule("bash", "allow", "git *"))
    rules = session_rules(policy, [wide])
    for name, capability in CAPABILITY_OF.items():
        for pattern in ("git status", "anything"):
            assert decide(name, pattern, wide["permission"], rules) == policy.level(capability)


@pytest.mark.parametrize("policy", every_policy(), ids=str)
def test_nor_is_the_configuration_widened(policy: Policy) -> None:
    strict = agent(rule("bash", "deny"), rule("bash", "allow", "git *"), rule("edit", "deny", "*.lock"))
    rules = session_rules(policy, [strict])
    assert decide("bash", "rm -r x", strict["permission"], rules) == "deny"
    assert decide("bash", "git status", strict["permission"], rules) == policy.shell
    assert decide("edit", "uv.lock", strict["permission"], rules) == "deny"
    assert decide("edit", "code.py", strict["permission"], rules) == policy.file_write


@pytest.mark.parametrize("policy", every_policy(), ids=str)
def test_a_denial_by_a_pattern_is_kept(policy: Policy) -> None:
    """Of the permission, or of what it is about."""
    strict = agent(rule("*", "deny", "secret/*"), rule("web*", "deny"))
    rules = session_rules(policy, [strict])
    for name in PERMISSIONS["network"]:
        assert decide(name, "https://example.test", strict["permission"], rules) == "deny"
        assert is_hidden(rules, name)
    for name, level in (("edit", policy.file_write), ("bash", policy.shell)):
        assert decide(name, "secret/key", strict["permission"], rules) == "deny"
        assert decide(name, "code.py", strict["permission"], rules) == level


def test_subagents_are_seen_by_the_patterns_of_their_rules() -> None:
    lax = agent(rule("*", "ask"), rule("web*", "allow"), name="lax", mode="subagent")
    held = agent(rule("web*", "allow"), rule("*", "ask"), name="held", mode="subagent")
    silent = {"name": "silent", "mode": "subagent"}
    rules = session_rules(Policy("allow", "allow", "ask"), [BUILD, lax, held, silent])
    assert tasks(rules) == {"lax": "deny"}


def test_the_chosen_agent_counts() -> None:
    plan = agent(rule("edit", "deny"), name="plan")
    assert is_hidden(session_rules(FULL, [BUILD, plan], agent="plan"), "write")
    assert not is_hidden(session_rules(FULL, [BUILD, plan]), "write")


def tasks(rules: Rules) -> dict[str, str]:
    return {each["pattern"]: each["action"] for each in rules if each["permission"] == "task"}


def test_subagents_that_would_not_ask() -> None:
    asks = [rule(name, "ask") for name in CAPABILITY_OF]
    general = agent(*asks, name="general", mode="subagent")
    partly = agent(*asks, rule("bash", "allow", "git *"), name="partly", mode="all")
    lax = agent(name="lax", mode="subagent")
    none = agent(rule("*", "deny"), name="none", mode="subagent")
    agents = [BUILD, general, partly, lax, none]
    assert tasks(session_rules(Policy("allow", "ask", "allow"), agents)) == {"partly": "deny", "lax": "deny"}
    assert tasks(session_rules(Policy("ask", "deny", "deny"), agents)) == {"lax": "deny"}
    assert tasks(session_rules(FULL, agents)) == {}
    assert tasks(session_rules(Policy("deny", "deny", "deny"), agents)) == {}, "a subagent inherits the denials"


def test_the_server_is_started_for_these_rules() -> None:
    assert tuple(CAPABILITY_OF) == GOVERNED
    _, env = launch_command(
        {"PATH": "/bin", "OPENCODE_CONFIG_CONTENT": '{"agent":{"general":{"model":"a/b"}}}'}, ["sh"]
    )
    config = json.loads(env["OPENCODE_CONFIG_CONTENT"])
    asks = dict.fromkeys(GOVERNED, "ask")
    assert config["agent"]["general"] == {"model": "a/b", "permission": asks}, "what was there is kept"
    assert len(env["OPENCODE_SERVER_PASSWORD"]) == 48


def test_tools() -> None:
    rules = session_rules(FULL, [BUILD], allowed=("read", "write"), disallowed=("webfetch",))
    assert not is_hidden(rules, "read")
    assert not is_hidden(rules, "edit"), "write and edit are one permission"
    assert is_hidden(rules, "bash") and is_hidden(rules, "webfetch") and is_hidden(rules, "anything_else")
    assert decide("external_directory", "/etc/*", BUILD["permission"], rules) == "ask"
    rules = session_rules(Policy("deny", "ask", "allow"), [BUILD], allowed=("write", "bash"))
    assert is_hidden(rules, "write"), "allowing a tool does not widen the policy"
    assert decide("bash", "x", rules) == "ask"
    assert is_hidden(session_rules(FULL, [BUILD], disallowed=("apply_patch",)), "edit")


def test_leaving_the_directory() -> None:
    outside = agent(rule("external_directory", "ask"), rule("external_directory", "deny", "/secret/*"))
    free = session_rules(FULL, [outside])
    assert decide("external_directory", "/usr/*", outside["permission"], free) == "allow"
    assert decide("external_directory", "/secret/*", outside["permission"], free) == "deny"
    held = session_rules(Policy("allow", "ask", "allow"), [outside])
    assert decide("external_directory", "/usr/*", outside["permission"], held) == "ask"


def test_a_server_that_others_use() -> None:
    assert "always" in receipt(Policy(), foreign=True).shell.note
    assert "always" not in receipt(Policy(), foreign=False).shell.note
