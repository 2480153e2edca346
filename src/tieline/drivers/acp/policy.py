"""What a policy becomes for an ACP agent: its own rules where it has some, else what it asks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...policy import CAPABILITIES, Capability, Enforcement, Level, Means, Policy, Receipt
from ..acp_presets import NO_TOOL_SEEN, Preset
from ..base import Spec
from ..repository_settings import repository_folders

CODEX_FEATURES = {
    "features": {"default_mode_request_user_input": True},  # or it asks questions in its plan mode only
    "tools": {"update_plan": {"enabled": True}},  # or it depends on the model whether there are plans
    "suppress_unstable_features_warning": True,  # for the first of these
}
FILTER = Path(__file__).with_name("codex_filter.cjs")

REPOSITORY = "the repository's own settings count: what they name runs without an ask"
RULE_PRIORITY = 999
"""The highest priority that a rule of Gemini can have within its tier."""


def session_mode(preset: Preset, policy: Policy) -> str:
    """The mode in which the agent asks about what the policy does not allow; empty: whichever it starts in."""
    return preset.mode_full if preset.mode_full and allows_all(policy) else preset.mode


def receipt(preset: Preset, policy: Policy, *, trusts_repository: bool = False) -> Receipt:
    """How each line is really enforced."""
    shell = policy.shell != "deny"
    lines: dict[Capability, Enforcement] = {}
    for capability in CAPABILITIES:
        level = policy.level(capability)
        means = _means_for(preset, capability, level, full=allows_all(policy))
        notes: list[str] = []
        if level != "allow":
            if means == "none":
                notes.append("the agent does not always ask before it")
            elif capability in preset.no_tools:
                notes.append(NO_TOOL_SEEN)
            elif capability == "shell":
                notes.append(preset.unasked)
                notes.append(REPOSITORY if trusts_repository and preset.repository.names else "")
            if capability != "shell" and shell:
                notes.append("a command that is permitted to run can still do it")
        lines[capability] = Enforcement(level, means, "; ".join(filter(None, notes)))
    return Receipt.from_lines(lines)


def overriding_rules(
    preset: Preset, cwd: str = "", root: Path = Path("/"), home: str = "", more: Sequence[str] = ()
) -> str:
    """The file, if there is one, that replaces our rules, that our rules would hide, or that lets the agent work
    without asking. It may be an administrator's, the user's or the repository's."""
    for pattern in (*preset.overriding_files, *more):
        if pattern.startswith("/"):
            folders = [root]
        elif pattern.startswith("~/"):
            folders = [Path(home)] if home else []
        else:
            folders = repository_folders(cwd) if cwd else []
        for folder in folders:
            if file := next(iter(sorted(folder.glob(pattern.removeprefix("~").removeprefix("/")))), None):
                return f"/{file.relative_to(root)}"
    return ""


def lifts_policy(preset: Preset, policy: Policy, text: str) -> str:
    """The command of the agent's own that a prompt begins with and after which the policy would hold no more."""
    if allows_all(policy):
        return ""
    word = next(iter(text.split(maxsplit=1)), "").lower()
    return word if word.removeprefix("/") in preset.lifting_commands and word.startswith("/") else ""


def allows_all(policy: Policy) -> bool:
    return all(policy.level(capability) == "allow" for capability in CAPABILITIES)


def _means_for(preset: Preset, capability: Capability, level: Level, *, full: bool) -> Means:
    if preset.control == "codex-filter":
        return "rule" if full or capability == "network" else "prompt"
    if preset.control:
        return "rule" if level == "allow" else "prompt"
    if capability in preset.asks:
        return "prompt"
    return "none"


def gemini_rules(preset: Preset, policy: Policy, disallowed: Sequence[str] = ()) -> str:
    """Rules for Gemini's policy engine.

    Each has an `argsPattern`, although it matches everything: without one Gemini lets commands that it knows as safe
    (`ls`, `cat`, `echo` …) run unasked, asks for some that it thinks dangerous, and hides denied tools from the
    model, so that a refused call is never seen. A `deny` becomes a question too, which we then refuse: so the call is
    shown with what it wanted to do.
    """
    rules = [_rule(disallowed, "deny", pattern="")] if disallowed else []
    for capability in CAPABILITIES:
        allowed = policy.level(capability) == "allow"
        rules.append(_rule(preset.tools[capability], "allow" if allowed else "ask_user"))
    rules.append(_rule(preset.harmless, "allow"))
    return "\n".join(rules)


def _rule(tools: Sequence[str], decision: str, *, pattern: str = ".") -> str:
    names = msgspec.json.encode(tuple(tools)).decode()  # a JSON array of strings is a TOML array too
    lines = ["[[rule]]", f"toolName = {names}", f'decision = "{decision}"', f"priority = {RULE_PRIORITY}"]
    if pattern:
        lines.append(f'argsPattern = "{pattern}"')
    if decision == "allow":
        lines.append("allowRedirection = true")
    return "\n".join(lines) + "\n"


def codex_filter(adapter: str, codex: str, spec: Spec) -> str:
    """The program that holds Codex to the policy, under codex-acp. It asks before each command and each patch, then,
    and what is allowed is allowed by us. Its web search, which asks nothing, is there only where it is allowed. The
    repository is not trusted: neither by the adapter, nor by Codex itself, nor because it once was."""
    policy = spec.policy
    asking = {} if allows_all(policy) else {"approvalPolicy": "untrusted", "approvalsReviewer": "user"}
    settings = {
        "adapter": adapter,
        "codex": codex,
        "thread": {**asking, "sandbox": "danger-full-access"},
        "config": {
            "web_search": "live" if policy.network == "allow" else "disabled",
            "projects": {str(folder): {"trust_level": "untrusted"} for folder in repository_folders(spec.cwd)},
            **CODEX_FEATURES,
        },
        "turn": {**asking, "sandboxPolicy": {"type": "dangerFullAccess"}},
    }
    return f"#!/usr/bin/env node\nconst SETTINGS = {msgspec.json.encode(settings).decode()};\n{FILTER.read_text()}"


def opencode_permission(preset: Preset, policy: Policy) -> dict[str, str]:
    """OpenCode's rules: `ask` for what is denied too, so that the refused call is shown with what it wanted to do.

    Over ACP the asks of a subagent reach nobody, and it would wait for ever: there are subagents only where nothing
    has to be asked.
    """
    rules = {
        tool: "allow" if policy.level(capability) == "allow" else "ask"
        for capability in CAPABILITIES
        for tool in preset.tools[capability]
    }
    return rules if allows_all(policy) else {**rules, **dict.fromkeys(preset.subagents, "deny")}


def opencode_config(given: str) -> str:
    """The caller's inline configuration with ours: otherwise a refused call ends the turn, and the model never hears
    of it."""
    try:
        config = msgspec.json.decode(given or "{}", type=dict[str, Any])
    except msgspec.DecodeError:
        return given  # JSON with comments, or broken: OpenCode will tell
    experimental = {**config.get("experimental", {}), "continue_loop_on_deny": True}
    return msgspec.json.encode({**config, "experimental": experimental}).decode()
