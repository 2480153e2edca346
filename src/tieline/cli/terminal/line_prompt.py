"""A line that the person types, in a command that has an event loop."""

import signal


def ask_line(prompt: str) -> str:
    """Like `input`, also EOFError at the end of input. Ctrl-C ends the command at once: by itself the event loop would
    take note of it, and wait for the line."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return input(prompt)
    finally:
        signal.signal(signal.SIGINT, before)
