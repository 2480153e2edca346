"""Starts an agent before anything heavy is imported, where how it is started depends on nothing but its name.

It is only a head start: the driver asks for the very same process a moment later and gets this one. If it asks for
another, or for none, this one ends with us.
"""

from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module

from ..errors import TielineError
from ..processes import spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .base import Spec

LAUNCH_MODULES = {"codex": "tieline.drivers.codex.launch", "opencode": "tieline.drivers.opencode.launch"}
"""Agent → a module with few imports that has `launch_command(env)`, `CWD` and, optionally, `HANDSHAKE`: bytes
that are sent first."""

FIRST_MESSAGE_MODULES = {"codex": "tieline.drivers.codex.thread_params"}
"""Agent → a module that has `prestart_input(spec)`: `HANDSHAKE` and what opens the conversation."""


def prestart(agent: str, env: Mapping[str, str], *, trusted: bool = False) -> "spawn.SpawnedProcess | None":
    """`trusted`: it seems that the policy will allow everything."""
    if module := LAUNCH_MODULES.get(agent):
        with suppress(TielineError, OSError, ValueError):  # the driver will say it properly
            how = import_module(module)
            argv, own = how.launch_command(env, **(getattr(how, "TRUSTED", {}) if trusted else {}))
            early = spawn.ahead(argv, cwd=how.CWD, env=own)
            early.write_ahead(getattr(how, "HANDSHAKE", b""))
            return early
    return None


def send_first_message(early: "spawn.SpawnedProcess", agent: str, spec: "Spec") -> None:
    """Open the conversation, as the driver will, while the rest is imported."""
    if module := FIRST_MESSAGE_MODULES.get(agent):
        words: bytes = import_module(module).prestart_input(spec)
        early.write_ahead(words.removeprefix(early.written_ahead))
