"""The process's environment variables. The only module that reads them; it imports almost nothing."""

import os
from _collections_abc import Mapping, Set  # `collections` would cost more than all the rest here


def inherited() -> dict[str, str]:
    return dict(os.environ)


def variable(name: str) -> str:
    """A variable that is needed before a Config exists: how errors are shown, whether there are colours."""
    return os.environ.get(name, "")


OURS = "TIELINE_"
THEIRS = "TIELINE_HOME"
"""The one variable of ours that agents inherit: with it they find the hub, which knows them as agents."""
MARK = "TIELINE_CHILD"
"""Marks an agent's process and, inherited, all its descendants."""
SECRET = "env:"
"""A configuration string with this prefix is read from that variable, so that the file holds no secret."""

_held: set[str] = set()


def hold(name: str) -> None:
    """Keep a variable from children from now on."""
    _held.add(name)


def for_children(env: Mapping[str, str], held: Set[str] = frozenset()) -> dict[str, str]:
    """The environment that an agent inherits: without Tieline's own variables and the held ones."""
    ours = _held | held
    return {name: value for name, value in env.items() if name == THEIRS or not (name.startswith(OURS) or name in ours)}


def state_folder(env: Mapping[str, str]) -> str:
    """`$TIELINE_HOME`, else `$XDG_STATE_HOME/tieline`, else `~/.local/state/tieline`."""
    if named := env.get("TIELINE_HOME"):
        return named
    base = env.get("XDG_STATE_HOME")
    return f"{base}/tieline" if base else f"{env.get('HOME', '')}/.local/state/tieline"


def config_file(env: Mapping[str, str]) -> str:
    """The configuration file: $TIELINE_CONFIG, else the user's own. Empty: there is none.

    Never a file from the working directory: a cloned repository must not widen the policy or choose an agent's program.
    """
    path = config_path(env)
    named = path and env.get("TIELINE_CONFIG")
    return path if named or os.path.isfile(path) else ""  # noqa: PTH113 (pathlib is not imported yet)


def config_path(env: Mapping[str, str]) -> str:
    """Where the file belongs, whether or not it exists. Empty: there is no home directory."""
    if named := env.get("TIELINE_CONFIG"):
        return named
    home = env.get("HOME", "")
    base = env.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
    return f"{base}/tieline/tieline.toml" if base else ""
