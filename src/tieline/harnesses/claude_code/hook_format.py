"""The hooks of Claude Code, as commands, `http` or `mcp_tool`."""

from collections.abc import Mapping
from typing import ClassVar

from ...mesh.hook_events import HookKind
from ..hook_formats import HookFormat


class ClaudeCodeHookFormat(HookFormat):
    kinds: ClassVar[Mapping[str, HookKind]] = {**HookFormat.kinds, "PostToolUseFailure": "tool_done"}
    with_context = HookFormat.with_context | {"PostToolUseFailure"}
