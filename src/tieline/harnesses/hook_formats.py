"""How the hooks of each harness read and write: its input as a HookEvent, a HookReply as its output.

`HookFormat` is the form that Claude Code brought up and that others follow. A harness whose hooks differ has a module
`<name>/hook_format` with a subclass that says how; it is imported when one of its hooks fires.
"""

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

from ..errors import UsageError
from ..ids import new_id
from ..mesh.hook_events import HookEvent, HookKind, HookReply

FORMATS: dict[str, str] = {
    "claude-code": "claude_code.hook_format:ClaudeCodeHookFormat",
    "codex": "hook_formats:HookFormat",
    "gemini": "gemini.hook_format:GeminiHookFormat",
    "qwen": "hook_formats:HookFormat",
    "cursor": "cursor.hook_format:CursorHookFormat",
    "copilot": "copilot.hook_format:CopilotHookFormat",
    "kiro": "kiro.hook_format:KiroHookFormat",
    "amazon-q": "amazon_q.hook_format:AmazonQHookFormat",
    "vibe": "vibe.hook_format:VibeHookFormat",
    "kimi": "kimi.hook_format:KimiHookFormat",
    "droid": "hook_formats:HookFormat",
}
"""Harness → module and class of its format."""

_created: dict[str, "HookFormat"] = {}


def format_of(harness: str) -> "HookFormat":
    """Raises UsageError for a harness whose hooks are not known."""
    if harness not in FORMATS:
        raise UsageError(
            f"the hooks of {harness[:40]!r} are not known", field="harness", hint=f"Known are: {', '.join(FORMATS)}."
        )
    if harness not in _created:
        module, _, kind = FORMATS[harness].partition(":")
        _created[harness] = getattr(import_module(f".{module}", __package__), kind)()
    return _created[harness]


class HookFormat:
    """Hooks of Claude Code's form, as Codex, Qwen Code and Droid have them. A subclass says what is different."""

    kinds: ClassVar[Mapping[str, HookKind]] = {
        "SessionStart": "session_start",
        "UserPromptSubmit": "prompt",
        "PostToolUse": "tool_done",
        "Stop": "turn_end",
        "SessionEnd": "session_end",
    }
    """Its events by name. Others are a sign of life."""
    with_context: ClassVar[frozenset[str]] = frozenset({"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"})
    """Events to which the harness takes an answer for the model."""
    permission_event: ClassVar[str] = "PermissionRequest"
    """Its event for a permission prompt, to which somebody else's decision is an answer."""
    fires_once: ClassVar[bool] = False
    """Whether it runs one hook once, in however many files it is: then events that look the same are none twice."""
    ends_again: ClassVar[bool] = True
    """Whether there is a hook for the end of a turn that went on after its end."""
    refusal: ClassVar[str] = "block"
    """The decision by which the end of a turn is refused, so that it goes on."""
    session_processes: ClassVar[tuple[str, ...]] = ()
    """Where the input names no session, it is the process of one of these names above the hook."""

    def event_name(self, input: Mapping[str, Any]) -> str:
        return text(input, "hook_event_name", "event")

    def session(self, input: Mapping[str, Any]) -> str:
        return text(input, "session_id")

    def cwd(self, input: Mapping[str, Any]) -> str:
        return text(input, "cwd")

    def tool_use(self, input: Mapping[str, Any]) -> str:
        """An id that two events never share; empty where there is none."""
        return text(input, "tool_use_id", "tool_call_id") or (new_id() if self.fires_once else "")

    def read(self, input: Mapping[str, Any]) -> HookEvent:
        name = self.event_name(input)
        return HookEvent(
            kind=self.kind(name, input),
            session=self.session(input),
            cwd=self.cwd(input),
            continued=flag(input, "stop_hook_active"),
            ends_again=self.ends_again,
            takes_context=name in self.with_context,
        )

    def kind(self, name: str, input: Mapping[str, Any]) -> HookKind:
        kind = self.kinds.get(name, "other")
        return "compacted" if kind == "session_start" and text(input, "source") == "compact" else kind

    def write(self, event: str, reply: HookReply) -> str:
        """What the hook prints; empty when there is nothing to say."""
        if reply.continue_with:
            return json.dumps({"decision": self.refusal, "reason": reply.continue_with})
        if reply.context:
            return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": reply.context}})
        return ""


def text(input: Mapping[str, Any], *names: str) -> str:
    """The first of these fields that is a text."""
    return next((value for name in names if isinstance(value := input.get(name), str) and value), "")


def flag(input: Mapping[str, Any], name: str) -> bool:
    """Hooks that call a tool give every value as a text."""
    return input.get(name) in (True, "true")
