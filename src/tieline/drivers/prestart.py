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

LIGHT = {"codex": "tieline.drivers.codex.launch", "opencode": "tieline.drivers.opencode.launch"}
"""Agent → a module that imports little and has `launch_command(env)`, `CWD` and, if it wants, `HELLO`: bytes that the
agent is told first, whatever follows."""

WORDS = {"codex": "tieline.drivers.codex.thread_params"}
"""Agent → a module that has `first_words(spec)`: `HELLO` and what opens the conversation."""


def prestart(agent: str, env: Mapping[str, str]) -> "spawn.SpawnedProcess | None":
    if module := LIGHT.get(agent):
        with suppress(TielineError, OSError, ValueError):  # the driver will say it properly
            how = import_module(module)
            argv, own = how.launch_command(env)
            early = spawn.ahead(argv, cwd=how.CWD, env=own)
            early.say(getattr(how, "HELLO", b""))
            return early
    return None


def send_first_message(early: "spawn.SpawnedProcess", agent: str, spec: "Spec") -> None:
    """Open the conversation, as the driver will, while the rest is imported."""
    if module := WORDS.get(agent):
        words: bytes = import_module(module).first_words(spec)
        early.say(words.removeprefix(early.said))
