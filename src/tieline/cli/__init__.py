"""The command line's entry point. `main` reads the arguments first and then imports only what they need."""

import gc
import os
import sys

TYPE_CHECKING = False  # not imported from typing, which costs more than all the rest here
if TYPE_CHECKING:
    from typing import NoReturn

    from ..processes.spawn import SpawnedProcess


def main() -> None:
    arguments = sys.argv[1:]
    gc.disable()  # imported objects stay: collecting among them costs a tenth of the import time
    if arguments[:1] == ["run"]:
        early = _start_ahead(arguments[1:])
        from .run.run_options import parse, send_first_message_early

        request = parse(arguments[1:])
        if request is not None:  # the common form needs no parser library: half of the start-up time
            if early is not None:
                send_first_message_early(early, request)
            from .errors import run_and_report
            from .run.target import execute

            gc.enable()
            _leave(run_and_report(lambda: execute(request)))
    if arguments[:1] == ["mcp"]:  # every harness session starts one: it is up before Typer would be imported
        from .mcp.stdio_bridge import run

        if (status := run(arguments[1:])) is not None:
            _leave(status)
    if arguments[:2] == ["message", "send"]:
        from .quick_send import run as send

        rest = arguments[2:]
        if (status := send(rest)) is not None:
            _leave(status)
        arguments = [*arguments[:2], *rest]
    from .app import start

    gc.enable()
    status = start(arguments)
    if status > 128:  # interrupted: a second Ctrl-C in the interpreter's clean-up would end it as if killed
        _leave(status)
    sys.exit(status)


def _leave(status: int) -> "NoReturn":
    """Exit without the interpreter's clean-up, which takes a tenth of a turn; everything is closed by now."""
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105 (contextlib is not imported)
            stream.flush()
        except (OSError, ValueError, AttributeError):  # closed, or its reader is gone
            pass
    os._exit(status)


def _start_ahead(arguments: list[str]) -> "SpawnedProcess | None":
    """Start the agent while the rest is imported; not where a configuration or a hub could say otherwise."""
    from .. import environment
    from .run.target import STANDALONE_FLAG, local_hub

    env = environment.inherited()
    if len(arguments) < 2 or {"--help", "-h"} & set(arguments) or environment.config_file(env):
        return None
    if STANDALONE_FLAG not in arguments and local_hub(env) is not None:
        return None  # the hub starts the agent
    from ..drivers.prestart import prestart

    return prestart(
        arguments[0], environment.for_children(env), trusted=bool({"full", "--policy=full"} & set(arguments))
    )
