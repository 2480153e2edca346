"""The process's own environment. The only place that reads it, and light: it is looked at before all imports."""

import os
from collections.abc import Mapping, Set


def inherited() -> dict[str, str]:
    return dict(os.environ)


def variable(name: str) -> str:
    """One that counts before, or without, a Config: how errors are shown, whether there are colours."""
    return os.environ.get(name, "")


OURS = "TIELINE_"
THEIRS = "TIELINE_HOME"
"""An agent may know where the hub is: there it is known as the agent that it is."""
SECRET = "env:"
"""A string of the configuration that begins so is the value of that variable: secrets need not stand in the file."""

_held: set[str] = set()


def hold(name: str) -> None:
    """That variable is Tieline's own: no child inherits it from now on."""
    _held.add(name)


def for_children(env: Mapping[str, str], held: Set[str] = frozenset()) -> dict[str, str]:
    """What an agent inherits: all but what is Tieline's own."""
    ours = _held | held
    return {name: value for name, value in env.items() if name == THEIRS or not (name.startswith(OURS) or name in ours)}


def state_folder(env: Mapping[str, str]) -> str:
    """`$TIELINE_HOME`, else `$XDG_STATE_HOME/tieline`, else `~/.local/state/tieline`."""
    if named := env.get("TIELINE_HOME"):
        return named
    base = env.get("XDG_STATE_HOME")
    return f"{base}/tieline" if base else f"{env.get('HOME', '')}/.local/state/tieline"


def config_file(env: Mapping[str, str]) -> str:
    """The file that counts: $TIELINE_CONFIG, else the user's own. Empty: there is none.

    Never one from the working directory: a repository that somebody else wrote must not widen the policy or say which
    program an agent is.
    """
    place = config_place(env)
    named = place and env.get("TIELINE_CONFIG")
    return place if named or os.path.isfile(place) else ""  # noqa: PTH113 (pathlib is not imported yet)


def config_place(env: Mapping[str, str]) -> str:
    """Where the file would be, whether or not it is there. Empty: there is no home to look in."""
    if named := env.get("TIELINE_CONFIG"):
        return named
    home = env.get("HOME", "")
    base = env.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
    return f"{base}/tieline/tieline.toml" if base else ""
