"""Whose process this is. An agent's children carry its mark in their environment; some agents empty that for the
servers of their tools, and then it is found with whoever started them."""

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
