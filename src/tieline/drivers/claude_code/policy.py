"""The policy in Claude Code's terms.

Three things hold the agent to it. Allow rules let through what is allowed, deny rules take away what is denied, and a
hook before every tool call makes Claude Code ask for the rest: it outranks the user's own allow rules, the permission
mode and Claude Code's list of harmless commands, each of which would let calls pass unasked. What is then decided is
decided by `ask`.
"""

from ...policy import CAPABILITIES, Capability, Enforcement, Policy, Receipt
from .tools import GOVERNED

OWN_RULES = "your own allow rules, and commands that Claude Code knows to be harmless, pass without an ask"
EMBEDDED = "a command inside a skill's text runs by the skill's own and your allow rules"
REPOSITORY = "the repository's own settings count: their hooks and servers run without an ask"
SHELL_CAN: dict[Capability, str] = {
    "file_write": "a permitted command can still write files: there is no sandbox",
    "network": "a permitted command can still open connections: there is no sandbox",
}


def permission_rules(policy: Policy) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tools that are allowed and those that are denied, by name."""
    allowed = tuple(tool for c in CAPABILITIES if policy.level(c) == "allow" for tool in GOVERNED[c])
    denied = tuple(tool for c in CAPABILITIES if policy.level(c) == "deny" for tool in GOVERNED[c])
    return allowed, denied


def enforce(policy: Policy, *, user_rules: bool, repository: bool = False) -> Receipt:
    """`repository`: its own settings count although commands are not allowed."""
    return Receipt.from_lines(
        {capability: _enforcement(policy, capability, user_rules, repository) for capability in CAPABILITIES}
    )


def _enforcement(policy: Policy, capability: Capability, user_rules: bool, repository: bool) -> Enforcement:
    level = policy.level(capability)
    notes: list[str] = []
    if level == "ask" and user_rules:
        notes.append(OWN_RULES)
    if level == "ask" and capability == "shell":
        notes.append(EMBEDDED)
    if repository and capability == "shell":
        notes.append(REPOSITORY)
    if level != "allow" and capability != "shell" and policy.shell != "deny":
        notes.append(SHELL_CAN[capability])
    return Enforcement(level, "prompt" if level == "ask" else "rule", "; ".join(notes))
