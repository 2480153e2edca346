"""Ids that need nobody's permission."""

import os
import time

ID_LENGTH = 28
"""Characters of an id."""


def new_id() -> str:
    """Sortable by time and unique: 48 bits of milliseconds, 64 random ones, in hex."""
    return f"{int(time.time() * 1000):012x}{os.urandom(8).hex()}"


SHORT = 6
"""Characters that people are shown of an id: its end, because ids of one day begin alike."""


def short_id(id: str) -> str:
    return id[-SHORT:]


def fits_id(id: str, part: str) -> bool:
    """Whether a person who types this may mean the id: its beginning or its end, or the beginning of what is shown."""
    return id.startswith(part) or id.endswith(part) or short_id(id).startswith(part)
