"""Each harness's hooks: an input as it gives it, the event that it is, and how a reply is written for it.

Gemini's inputs were recorded from the real one; Claude Code's and Codex's are as they run here; Kimi's and Vibe's are
as their code writes them; the others are from their documentation.
"""

import json
from typing import Any

import pytest

from tieline.harnesses.hook_formats import FORMATS, format_of
from tieline.mesh.framing import NOTICE
from tieline.mesh.hook_events import HookEvent, HookReply

CLAUDE = {"session_id": "s", "transcript_path": "/t.jsonl", "cwd": "/p", "permission_mode": "default"}
GEMINI = {"session_id": "s", "transcript_path": "/t.json", "cwd": "/p", "timestamp": "2026-11-16T22:00:00.000Z"}
CURSOR = {
    "conversation_id": "s", "generation_id": "g", "cursor_version": "3.7", "workspace_roots": ["/p", "/q"],
}  # fmt: skip
COPILOT = {"sessionId": "s", "timestamp": 1731794400000, "cwd": "/p"}
VIBE = {"session_id": "s", "parent_session_id": None, "transcript_path": "/t", "cwd": "/p"}
VIBE_TOOL = {"tool_name": "bash", "tool_call_id": "t-1", "tool_input": {"command": "ls"}}
VIBE_CONTEXT = {"hook_specific_output": {"additional_context": "CONTEXT"}}
SUBAGENT = {"session_id": "s-sub", "parent_session_id": "s"}
KIMI = {"session_id": "s", "cwd": "/p", "session_title": "x"}
KIMI_GOES_ON = {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "GO ON"}}
TOOL = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t-1", "tool_response": {"stdout": "a"}}


def named(base: dict[str, Any], event: str, **more: Any) -> dict[str, Any]:
    return {**base, "hook_event_name": event, **more}


def specific(event: str) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": "CONTEXT"}}


BLOCK = {"decision": "block", "reason": "GO ON"}
DENY = {"decision": "deny", "reason": "GO ON"}
FOLLOWUP = {"followup_message": "GO ON"}
STARTED = {"kind": "session_start"}
NOTHING = None

TABLE: list[tuple[str, dict[str, Any], dict[str, Any], Any]] = [
    ("claude-code", named(CLAUDE, "SessionStart", source="startup"), STARTED, specific("SessionStart")),
    ("claude-code", named(CLAUDE, "SessionStart", source="compact"), {"kind": "compacted"}, specific("SessionStart")),
    ("claude-code", named(CLAUDE, "UserPromptSubmit", prompt="x"), {"kind": "prompt"}, specific("UserPromptSubmit")),
    ("claude-code", named(CLAUDE, "PostToolUse", **TOOL), {"kind": "tool_done"}, specific("PostToolUse")),
    ("claude-code", named(CLAUDE, "Stop", stop_hook_active=False), {"kind": "turn_end"}, BLOCK),
    ("claude-code", named(CLAUDE, "Stop", stop_hook_active=True), {"kind": "turn_end", "continued": True}, BLOCK),
    ("claude-code", named(CLAUDE, "Stop", stop_hook_active="true"), {"kind": "turn_end", "continued": True}, BLOCK),
    ("claude-code", named(CLAUDE, "SessionEnd", reason="other"), {"kind": "session_end"}, NOTHING),
    ("claude-code", named(CLAUDE, "Unheard"), {"kind": "other"}, NOTHING),
    ("codex", named(CLAUDE, "SessionStart", source="startup"), STARTED, specific("SessionStart")),
    ("codex", named(CLAUDE, "UserPromptSubmit", prompt="x"), {"kind": "prompt"}, specific("UserPromptSubmit")),
    ("codex", named(CLAUDE, "PostToolUse", **TOOL), {"kind": "tool_done"}, specific("PostToolUse")),
    ("codex", named(CLAUDE, "Stop", stop_hook_active=True), {"kind": "turn_end", "continued": True}, BLOCK),
    ("gemini", named(GEMINI, "SessionStart", source="startup"), STARTED, specific("SessionStart")),
    ("gemini", named(GEMINI, "BeforeAgent", prompt="x"), {"kind": "prompt"}, specific("BeforeAgent")),
    ("gemini", named(GEMINI, "BeforeAgent", prompt=f"{NOTICE}\n\n<"), {"kind": "tool_done"}, specific("BeforeAgent")),
    ("gemini", named(GEMINI, "AfterTool", tool_name="x", tool_input={}), {"kind": "tool_done"}, specific("AfterTool")),
    ("gemini", named(GEMINI, "AfterAgent", stop_hook_active=False), {"kind": "turn_end"}, DENY),
    ("gemini", named(GEMINI, "AfterAgent", stop_hook_active=True), {"kind": "turn_end", "continued": True}, DENY),
    ("gemini", named(GEMINI, "SessionEnd", reason="exit"), {"kind": "session_end"}, NOTHING),
    ("gemini", named(GEMINI, "Notification"), {"kind": "other"}, NOTHING),
    ("qwen", named(CLAUDE, "SessionStart", source="compact"), {"kind": "compacted"}, specific("SessionStart")),
    ("qwen", named(CLAUDE, "UserPromptSubmit", prompt="x"), {"kind": "prompt"}, specific("UserPromptSubmit")),
    ("qwen", named(CLAUDE, "PostToolUse", **TOOL), {"kind": "tool_done"}, specific("PostToolUse")),
    ("qwen", named(CLAUDE, "Stop", stop_hook_active=False), {"kind": "turn_end"}, BLOCK),
    ("qwen", named(CLAUDE, "SessionEnd", reason="other"), {"kind": "session_end"}, NOTHING),
    ("cursor", named(CURSOR, "sessionStart"), STARTED, {"additional_context": "CONTEXT"}),
    ("cursor", named(CURSOR, "beforeSubmitPrompt", prompt="x"), {"kind": "prompt"}, NOTHING),
    ("cursor", named(CURSOR, "beforeMCPExecution", tool_name="x", tool_input={}), {"kind": "other"}, NOTHING),
    ("cursor", named(CURSOR, "postToolUse", **TOOL), {"kind": "tool_done"}, {"additional_context": "CONTEXT"}),
    ("cursor", named(CURSOR, "stop", loop_count=0), {"kind": "turn_end"}, FOLLOWUP),
    ("cursor", named(CURSOR, "stop", loop_count=2), {"kind": "turn_end", "continued": True}, FOLLOWUP),
    ("cursor", named(CURSOR, "sessionEnd", reason="x"), {"kind": "session_end"}, NOTHING),
    ("copilot", named(COPILOT, "sessionStart", source="new"), STARTED, {"additionalContext": "CONTEXT"}),
    ("copilot", named(COPILOT, "userPromptSubmitted", prompt="x"), {"kind": "prompt"}, NOTHING),
    ("copilot", named(COPILOT, "postToolUse", toolName="bash"), {"kind": "tool_done"}, NOTHING),
    ("copilot", named(COPILOT, "agentStop", stopReason="end_turn"), {"kind": "turn_end"}, BLOCK),
    ("copilot", named(COPILOT, "sessionEnd", reason="complete"), {"kind": "session_end"}, NOTHING),
    ("kiro", named(CLAUDE, "SessionStart"), STARTED, "CONTEXT"),
    ("kiro", named(CLAUDE, "userPromptSubmit", prompt="x"), {"kind": "prompt"}, "CONTEXT"),
    ("kiro", named(CLAUDE, "Stop"), {"kind": "turn_end"}, NOTHING),
    ("amazon-q", named(CLAUDE, "agentSpawn"), STARTED, "CONTEXT"),
    ("amazon-q", named(CLAUDE, "userPromptSubmit", prompt="x"), {"kind": "prompt"}, "CONTEXT"),
    ("vibe", named(VIBE, "pre_tool", **VIBE_TOOL), {"kind": "tool_done"}, NOTHING),
    ("vibe", named(VIBE, "post_tool", **VIBE_TOOL), {"kind": "tool_done"}, VIBE_CONTEXT),
    ("vibe", named(VIBE, "post_agent"), {"kind": "turn_end"}, DENY),
    ("vibe", named(VIBE, "post_tool", **VIBE_TOOL) | SUBAGENT, {"kind": "other"}, VIBE_CONTEXT),
    ("vibe", named(VIBE, "post_agent") | SUBAGENT, {"kind": "other"}, VIBE_CONTEXT),
    ("kimi", named(KIMI, "SessionStart", source="startup"), STARTED, NOTHING),
    ("kimi", named(KIMI, "UserPromptSubmit", prompt=[]), {"kind": "prompt"}, {"message": "CONTEXT"}),
    ("kimi", named(KIMI, "PostToolUse", tool_call_id="t-1"), {"kind": "tool_done"}, NOTHING),
    ("kimi", named(KIMI, "PostToolUseFailure", tool_call_id="t-1"), {"kind": "tool_done"}, NOTHING),
    ("kimi", named(KIMI, "Stop", stop_hook_active=False), {"kind": "turn_end"}, KIMI_GOES_ON),
    ("kimi", named(KIMI, "StopFailure", error_type="x"), {"kind": "turn_end"}, NOTHING),
    ("kimi", named(KIMI, "Interrupt", reason="cancelled"), {"kind": "turn_end"}, NOTHING),
    ("kimi", named(KIMI, "SessionEnd", reason="exit"), {"kind": "session_end"}, NOTHING),
    ("droid", named(CLAUDE, "SessionStart", source="compact"), {"kind": "compacted"}, specific("SessionStart")),
    ("droid", named(CLAUDE, "UserPromptSubmit", prompt="x"), {"kind": "prompt"}, specific("UserPromptSubmit")),
    ("droid", named(CLAUDE, "PostToolUse", **TOOL), {"kind": "tool_done"}, specific("PostToolUse")),
    ("droid", named(CLAUDE, "Stop", stop_hook_active=True), {"kind": "turn_end", "continued": True}, BLOCK),
    ("droid", named(CLAUDE, "SessionEnd", reason="other"), {"kind": "session_end"}, NOTHING),
]  # fmt: skip


@pytest.mark.parametrize(("harness", "input", "event", "output"), TABLE)
def test_a_hook(harness: str, input: dict[str, Any], event: dict[str, Any], output: Any) -> None:
    hook_format = format_of(harness)
    takes_context = output is not NOTHING
    ends_again = harness != "kimi"
    assert hook_format.read(input) == HookEvent(
        session="s", cwd="/p", ends_again=ends_again, takes_context=takes_context, **event
    )
    name = hook_format.event_name(input)
    assert hook_format.write(name, HookReply()) == ""
    if takes_context:
        reply = HookReply(continue_with="GO ON") if event["kind"] == "turn_end" else HookReply(context="CONTEXT")
        written = hook_format.write(name, reply)
        assert (written if isinstance(output, str) else json.loads(written)) == output


@pytest.mark.parametrize(("harness", "input"), [("vibe", named(VIBE, "post_agent")), ("kimi", named(KIMI, "Stop"))])
def test_the_ends_of_two_turns_are_two_events(harness: str, input: dict[str, Any]) -> None:
    """Their inputs are the same."""
    assert format_of(harness).tool_use(input) != format_of(harness).tool_use(input)


@pytest.mark.parametrize("harness", ["claude-code", "qwen", "droid", "codex"])
def test_one_event_that_two_files_have_hooks_for_is_one(harness: str) -> None:
    """Where a harness runs each of them, the same input twice is the same event."""
    assert format_of(harness).tool_use(named(CLAUDE, "Stop")) == ""
    assert format_of(harness).tool_use(named(CLAUDE, "PostToolUse", tool_use_id="t")) == "t"


def test_every_shape_is_in_the_table() -> None:
    assert {row[0] for row in TABLE} == set(FORMATS)
