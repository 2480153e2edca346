"""What Claude Code reads of a repository, and what of it counts in any case: for its own driver, and over ACP."""

from contextlib import suppress

import msgspec
from msgspec import Struct

from ..safe_file_read import read_inside

PROJECT_SETTINGS = (
    ".claude/settings.json", ".claude/settings.local.json", ".claude/commands", ".claude/skills", ".claude/agents",
    ".mcp.json",
)  # fmt: skip
INSTRUCTIONS = ("CLAUDE.md",)
MAX_SETTINGS = 256 * 1024
MAX_DENIALS = 32 * 1024


class _Permissions(Struct, frozen=True):
    deny: tuple[str, ...] = ()


class _Settings(Struct, frozen=True):
    permissions: _Permissions = _Permissions()


def repository_denials(cwd: str) -> tuple[str, ...]:
    """The rules by which a repository's settings deny something. They are safe to follow: they only take rights
    away."""
    denials: list[str] = []
    for name in PROJECT_SETTINGS[:2]:
        with suppress(OSError, msgspec.MsgspecError):
            settings = msgspec.json.decode(read_inside(cwd, name, MAX_SETTINGS), type=_Settings)
            denials += [rule for rule in settings.permissions.deny if rule and rule.isprintable()]
    return tuple(denials) if sum(map(len, denials)) <= MAX_DENIALS else ()
