"""The mark of an agent in the environment of its children. Some agents empty the environment of their tool servers;
then the mark is read from the parent process."""

import os

from .. import environment

MOST = 32
"""Generations that are looked at."""


def mark() -> str:
    """The mark of the agent that this process works for; empty when there is none."""
    if own := environment.variable(environment.MARK):
        return own
    pid = os.getppid()
    for _ in range(MOST):
        try:
            variables = _read(f"/proc/{pid}/environ").split(b"\0")
            pid = int(_read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):  # another user's, or a system without /proc
            return ""
        for variable in variables:
            if variable.startswith(environment.MARK.encode() + b"="):
                return variable.partition(b"=")[2].decode(errors="replace")
    return ""


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 (pathlib is not imported)
        return file.read()
