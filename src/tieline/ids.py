"""Ids that need nobody's permission."""

import os
import time

ID_LENGTH = 28
"""Characters of an id."""


def new_id() -> str:
    """Sortable by time and unique: 48 bits of milliseconds, 64 random ones, in hex."""
    return f"{int(time.time() * 1000):012x}{os.urandom(8).hex()}"
