"""The mark of an agent in the environment of its children. Some agents empty the environment of their tool servers;
then the mark is read from the parent process."""

import os
from pathlib import Path

from .. import environment
from .process_table import MARK

MOST = 32
"""Generations that are looked at."""


def mark() -> str:
    """The mark of the agent that this process works for; empty when there is none."""
    if own := environment.variable(MARK):
        return own
    pid = os.getppid()
    for _ in range(MOST):
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):  # another user's, or a system without /proc
            return ""
        for variable in variables:
            if variable.startswith(MARK.encode() + b"="):
                return variable.partition(b"=")[2].decode(errors="replace")
    return ""
