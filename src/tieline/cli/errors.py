"""How the command line fails: a message, what to do about it, and an exit status. Never a traceback unasked."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .. import environment
from ..errors import AgentMissing, TielineError, UsageError
from .terminal.sanitize import clean

FAILED = 1
USAGE = 2
TIMEOUT = 124
SIGNALLED = 128
"""Plus the signal's number, as shells count: 130 is Ctrl-C."""
INTERRUPTED = 130


def reported(work: Callable[[], int]) -> int:
    """Do it; whatever is raised becomes a message on stderr and an exit status."""
    _prepare_streams()
    try:
        status = work()
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has left: there is nobody to tell
        _mute()
        return FAILED
    except Exception as error:
        return report(error)


def report(error: BaseException) -> int:
    cause = _leaf(error)
    if environment.variable("TIELINE_DEBUG"):
        import traceback

        traceback.print_exception(error)
    if isinstance(cause, TielineError):
        say(f"tieline: {cause.message}")
        if cause.hint:
            say(f"  {cause.hint}")
        return USAGE if isinstance(cause, UsageError | AgentMissing) else FAILED
    say(f"tieline: unexpected {type(cause).__name__}: {cause}")
    say("  This should not happen. Set TIELINE_DEBUG=1 to see where it comes from.")
    return FAILED


def say(message: str) -> None:
    """One message for the person, on stderr: stdout belongs to the answer."""
    with suppress(OSError):  # a terminal that is gone
        print(clean(message), file=sys.stderr, flush=True)


def _prepare_streams() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:  # it was closed (`<&-`): as good as empty
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 (for as long as the process lives)
        elif hasattr(stream, "reconfigure") and mode == "w":  # a character that cannot be shown must not end the run
            stream.reconfigure(errors="replace")


def _leaf(error: BaseException) -> BaseException:
    """What really happened, inside groups of a task group."""
    if isinstance(error, BaseExceptionGroup):
        inner: BaseException = error.exceptions[0]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return _leaf(inner)  # pyright: ignore[reportUnknownArgumentType]
    return error


def _mute() -> None:
    """Keep the interpreter from complaining about the broken pipe once more when it exits."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(quiet, stream.fileno())
