"""The command line. `main` looks at the arguments first and imports what they need then, not before."""

import gc
import os
import sys
from contextlib import suppress

TYPE_CHECKING = False  # not imported from typing, which costs more than all the rest here
if TYPE_CHECKING:
    from typing import NoReturn

    from ..processes.spawn import SpawnedProcess


def main() -> None:
    arguments = sys.argv[1:]
    gc.disable()  # imports make much that stays: looking through it again and again costs a tenth of their time
    if arguments[:1] == ["run"]:
        early = _start_ahead(arguments[1:])
        from .run.run_options import greet_ahead, parse

        request = parse(arguments[1:])
        if request is not None:  # the common form needs no parser library: half of the start-up time
            if early is not None:
                greet_ahead(early, request)
            from .errors import reported
            from .run.target import execute

            gc.enable()
            _leave(reported(lambda: execute(request)))
    from .app import start

    gc.enable()
    sys.exit(start(arguments))


def _leave(status: int) -> "NoReturn":
    """Exit without taking the interpreter apart, which takes as long as a tenth of a turn: all is closed by now."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or nobody reads it any more
            stream.flush()
    os._exit(status)


def _start_ahead(arguments: list[str]) -> "SpawnedProcess | None":
    """Let the agent start while we import. Where a configuration might say something else, it waits for its turn."""
    from .. import environment
    from .run.target import FLAG, hub_here

    env = environment.inherited()
    if len(arguments) < 2 or {"--help", "-h"} & set(arguments) or environment.config_file(env):
        return None
    if FLAG not in arguments and hub_here(env) is not None:
        return None  # it has the agent
    from ..drivers.prestart import prestart

    return prestart(arguments[0], environment.for_children(env))
