"""A line that the person types, in a command that has an event loop."""

import os
import select
import signal
import sys


def ask_line(prompt: str) -> str:
    """Like `input`, also EOFError at the end of input. Ctrl-C ends the command at once: by itself the event loop would
    take note of it, and wait for the line."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return _line_of_terminal(prompt) if sys.stdin.isatty() else input(prompt)
    finally:
        signal.signal(signal.SIGINT, before)


def _line_of_terminal(prompt: str) -> str:
    """`input` misses a Ctrl-C that comes after the prompt is shown and before it reads; the pipe keeps it."""
    noted, note = os.pipe()
    os.set_blocking(note, False)
    before = signal.set_wakeup_fd(note, warn_on_full_buffer=False)
    try:
        print(prompt, end="", flush=True)
        select.select([sys.stdin, noted], [], [])
        line = sys.stdin.readline()
    finally:
        signal.set_wakeup_fd(before)
        os.close(noted)
        os.close(note)
    if not line:
        raise EOFError
    return line.rstrip("\n")
