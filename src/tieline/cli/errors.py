"""Errors of the command line: a message, a hint and an exit status; a traceback only with TIELINE_DEBUG."""

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


def run_and_report(work: Callable[[], int]) -> int:
    """Call `work`; an exception becomes a message on stderr and an exit status."""
    _prepare_streams()
    try:
        status = work()
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of stdout is gone
        _silence_streams()
        return FAILED
    except Exception as error:
        return report(error)


def report(error: BaseException) -> int:
    cause = _first_cause(error)
    if environment.variable("TIELINE_DEBUG"):
        import traceback

        traceback.print_exception(error)
    if isinstance(cause, TielineError):
        print_error(f"tieline: {cause.message}")
        if cause.hint:
            print_error(f"  {cause.hint}")
        return USAGE if isinstance(cause, UsageError | AgentMissing) else FAILED
    print_error(f"tieline: unexpected {type(cause).__name__}: {cause}")
    print_error("  This should not happen. Set TIELINE_DEBUG=1 to see where it comes from.")
    return FAILED


def print_error(message: str) -> None:
    """One message for the person, on stderr: stdout belongs to the answer."""
    with suppress(OSError):  # a terminal that is gone
        print(clean(message), file=sys.stderr, flush=True)


def _prepare_streams() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:  # it was closed (`<&-`): treat it as empty
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 (for as long as the process lives)
        elif hasattr(stream, "reconfigure") and mode == "w":  # a character that cannot be shown must not end the run
            stream.reconfigure(errors="replace")


def _first_cause(error: BaseException) -> BaseException:
    """The first exception inside nested groups."""
    if isinstance(error, BaseExceptionGroup):
        inner: BaseException = error.exceptions[0]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return _first_cause(inner)  # pyright: ignore[reportUnknownArgumentType]
    return error


def _silence_streams() -> None:
    """Keep the interpreter from reporting the broken pipe again at exit."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(quiet, stream.fileno())
