"""Harness integrations by name. A module is imported when its harness is asked for."""

from importlib import import_module

from ..errors import UsageError
from .base import Harness

BUILT_IN: dict[str, str] = {
    "claude-code": "claude_code.integration:ClaudeCode",
    "codex": "codex.integration:Codex",
    "gemini": "gemini.integration:Gemini",
    "opencode": "opencode.integration:OpenCodeIntegration",
    "cursor": "cursor.integration:Cursor",
    "copilot": "copilot.integration:Copilot",
    "vscode": "vscode.integration:VsCode",
    "kiro": "kiro.integration:Kiro",
    "amazon-q": "amazon_q.integration:AmazonQ",
    "qwen": "qwen.integration:Qwen",
    "pi": "pi.integration:PiIntegration",
    "vibe": "vibe.integration:Vibe",
    "kimi": "kimi.integration:Kimi",
    "droid": "droid.integration:Droid",
    "generic": "generic.integration:Generic",
}
"""In the order in which they are shown."""

ALIASES = {
    "claude": "claude-code", "gemini-cli": "gemini", "github-copilot": "copilot", "copilot-cli": "copilot",
    "copilot-vscode": "vscode", "vs-code": "vscode", "q": "amazon-q", "kiro-cli": "kiro", "qwen-code": "qwen",
    "mistral-vibe": "vibe", "kimi-code": "kimi", "factory": "droid",
}  # fmt: skip


def names() -> list[str]:
    return list(BUILT_IN)


def create(name: str) -> Harness:
    """Raises UsageError for a name that is none."""
    name = ALIASES.get(name, name)
    if name not in BUILT_IN:
        import difflib

        close = difflib.get_close_matches(name, names(), n=1, cutoff=0.5)
        raise UsageError(
            f"there is no integration for {name}",
            field="harness",
            hint=f"Did you mean {close[0]}?" if close else f"There are: {', '.join(names())}.",
        )
    module, _, kind = BUILT_IN[name].partition(":")
    harness: Harness = getattr(import_module(f".{module}", __package__), kind)()
    return harness
