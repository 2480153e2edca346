"""Starts an agent before anything heavy is imported, where how it is started depends on nothing but its name.

It is only a head start: the driver asks for the very same process a moment later and gets this one. If it asks for
another, or for none, this one ends with us.
"""

from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module

from ..errors import TielineError
from ..wire import launch

LIGHT = {"codex": "tieline.drivers.codex.launch", "opencode": "tieline.drivers.opencode.launch"}
"""Agent → a module that imports little and has `launch_command(env)` and `CWD`."""


def start_ahead(agent: str, env: Mapping[str, str]) -> None:
    if module := LIGHT.get(agent):
        with suppress(TielineError, OSError, ValueError):  # the driver will say it properly
            how = import_module(module)
            argv, own = how.launch_command(env)
            launch.ahead(argv, cwd=how.CWD, env=own)
