"""A rig: one driver, set up so that a script decides what its agent does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from ..drivers.base import Driver
from ..script import Reply


class Rig(Protocol):
    @property
    def driver(self) -> Driver: ...

    @property
    def options(self) -> Mapping[str, Any]:
        """For `open_session`: an environment built from scratch (never this machine's), a model, and so on."""
        ...

    @property
    def limits(self) -> frozenset[str]:
        """What this agent's scripted model cannot bring about, each named by a test of the suite and documented."""
        ...

    def play(self, *replies: Reply) -> None:
        """What the agent's model will do next, one reply per model call."""
        ...

    def heard(self) -> str:
        """Everything the model was told so far, as one text to search in."""
        ...

    async def stalled(self) -> None:
        """Wait until the agent's model has come to a Stall."""
        ...


def scratch_env(home: Path, *, path: str, **more: str) -> dict[str, str]:
    """An environment from scratch: a temporary HOME, PATH, a locale, and nothing of this machine's."""
    home.mkdir(parents=True, exist_ok=True)
    return {
        "HOME": str(home),
        "PATH": path,
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "TMPDIR": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "XDG_STATE_HOME": str(home / ".local/state"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        **more,
    }
