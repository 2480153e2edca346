"""The hooks of Claude Code, as commands, `http` or `mcp_tool`."""

from collections.abc import Mapping
from typing import ClassVar

from ..mesh.hook_events import HookKind
from .hook_shapes import HookShape


class ClaudeCodeHooks(HookShape):
    kinds: ClassVar[Mapping[str, HookKind]] = {**HookShape.kinds, "PostToolUseFailure": "tool_done"}
    with_context = HookShape.with_context | {"PostToolUseFailure"}
