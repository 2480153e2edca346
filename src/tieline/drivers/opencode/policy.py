"""A policy as OpenCode's permission rules. Pure.

OpenCode decides a tool call by the last rule that matches, and a session's own rules come after all those of its
configuration: so ours have the last word. They never widen what the configuration denies (its denials are repeated
after ours), and a denied tool is not even offered to the model.

A subagent runs in a session of its own, which inherits the denials but not the asks. Our own server therefore has the
built-in subagents ask for everything (`launch.BASE`), and we decide; an agent whose rules are wider than the policy,
such as one that a project brings along, cannot be started as a subagent.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ...policy import CAPABILITIES, Capability, Enforcement, Level, Policy, Receipt

Rule = dict[str, str]
Rules = list[Rule]

PERMISSIONS: dict[Capability, tuple[str, ...]] = {
    "file_write": ("edit",),
    "shell": ("bash",),
    "network": ("webfetch", "websearch"),
}
"""The permissions that OpenCode's own tools of each kind ask for."""

CAPABILITY_OF: dict[str, Capability] = {name: c for c, names in PERMISSIONS.items() for name in names}

TOOL_PERMISSIONS = {"write": "edit", "apply_patch": "edit", "patch": "edit", "multiedit": "edit"}
"""Tools that ask for another tool's permission."""

GUARDS = ("external_directory", "doom_loop")
"""Permissions that no tool has: leaving the directory, and repeating oneself."""


def rule(permission: str, action: str, pattern: str = "*") -> Rule:
    return {"permission": permission, "pattern": pattern, "action": action}


def session_rules(
    policy: Policy,
    agents: Sequence[Mapping[str, Any]],
    *,
    agent: str = "",
    allowed: Sequence[str] = (),
    disallowed: Sequence[str] = (),
) -> Rules:
    """The rules of one session. `agents` are the server's, the default one first."""
    main = next((each for each in agents if each.get("name") == agent), None) or (agents[0] if agents else {})
    own: Sequence[Mapping[str, str]] = main.get("permission") or ()
    allowed_permissions = {TOOL_PERMISSIONS.get(tool, tool) for tool in allowed}
    rules: Rules = []
    if allowed:
        rules.append(rule("*", "deny"))
        rules += [rule(guard, "ask") for guard in GUARDS]
        rules += [rule(name, "allow") for name in sorted(allowed_permissions) if name not in CAPABILITY_OF]
    for name, capability in CAPABILITY_OF.items():
        if not allowed or name in allowed_permissions:
            rules += _permission_rules(name, policy.level(capability), own)
    if policy.shell == "allow" and not allowed:  # what may run any command may look anywhere
        rules += _permission_rules("external_directory", "allow", own)
    rules += [rule("task", "deny", each["name"]) for each in agents if _exceeds_policy(each, policy)]
    rules += [rule(TOOL_PERMISSIONS.get(tool, tool), "deny") for tool in disallowed]
    return rules


def is_hidden(rules: Sequence[Rule], tool: str) -> bool:
    """Whether a tool is denied altogether: OpenCode does not offer such a tool to the model."""
    name = TOOL_PERMISSIONS.get(tool, tool)
    last = next((each for each in reversed(rules) if fnmatchcase(name, each["permission"])), None)
    return last is not None and last["action"] == "deny" and last["pattern"] == "*"


def denials(rules: Iterable[Rule]) -> Rules:
    return [each for each in rules if each["action"] == "deny"]


def _permission_rules(name: str, level: Level, own: Sequence[Mapping[str, str]]) -> Rules:
    """One permission at a level, except where the configuration denies it."""
    rules = [rule(name, level)]
    if level == "deny":
        return rules
    for each in own:
        if fnmatchcase(name, each.get("permission", "")):
            kept = rule(name, "deny" if each.get("action") == "deny" else level, each.get("pattern", "*"))
            if kept != rules[-1]:
                rules.append(kept)
    # Rules that say the same as the first one are of use only after a denial.
    return rules if any(each["action"] == "deny" for each in rules) else rules[:1]


def _exceeds_policy(agent: Mapping[str, Any], policy: Policy) -> bool:
    """Whether an agent, run as a subagent, would do without asking what the policy wants asked."""
    if agent.get("mode") == "primary":
        return False
    asked = [name for name, capability in CAPABILITY_OF.items() if policy.level(capability) == "ask"]
    return any(_allows(agent.get("permission") or (), name) for name in asked)


def _allows(rules: Sequence[Mapping[str, str]], name: str) -> bool:
    for each in reversed(rules):
        if fnmatchcase(name, each.get("permission", "")):
            if each.get("action") == "allow":
                return True
            if each.get("pattern") == "*":
                return False
    return False  # OpenCode asks when no rule matches


# --- what it amounts to ------------------------------------------------------------------------------------

_THROUGH_SHELL: dict[Capability, str] = {
    "file_write": "A command that may run can still write files: OpenCode has no sandbox.",
    "network": "A command that may run can still open connections: OpenCode has no sandbox.",
}
_REDIRECTION = (
    "OpenCode does not ask for a redirection without a command (`> file`): it can create or empty a file, nothing more."
)
_PASSWORD = "A permitted command can read the password of OpenCode's server, and there answer what is asked next."
_PROJECT = "The repository's own settings count: its plugins and servers run without an ask."
_OTHERS = "Another user of the server who answers `always` answers for this session too."


def receipt(policy: Policy, *, foreign: bool, project: bool = False) -> Receipt:
    """How OpenCode is held to a policy; `foreign`: on a server that is not ours alone; `project`: with a repository's
    own settings."""
    return Receipt.from_lines({c: _enforcement(policy, c, foreign, project) for c in CAPABILITIES})


def _enforcement(policy: Policy, capability: Capability, foreign: bool, project: bool) -> Enforcement:
    level = policy.level(capability)
    if level == "allow":
        return Enforcement(level, "rule")
    notes: list[str] = []
    if capability != "shell" and policy.shell != "deny":
        notes.append(_THROUGH_SHELL[capability])
    if capability == "shell" and level == "ask":
        notes += [_REDIRECTION, _PASSWORD]
    if capability == "shell" and project:
        notes.append(_PROJECT)
    if foreign and level == "ask":
        notes.append(_OTHERS)
    return Enforcement(level, "rule" if level == "deny" else "prompt", " ".join(notes))
