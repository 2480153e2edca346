"""Names of members: what a name may be, and one for a member that chose none."""

import re
import unicodedata

from ..errors import UsageError
from .records import OWNER_NAME

MAX_NAME = 64
_NAME = re.compile(r"\w[\w-]*")
_OTHER = re.compile(r"[^\w]+")


def check_name(text: str) -> str:
    """The name as it is kept. Raises UsageError."""
    name = unicodedata.normalize("NFKC", text).strip().removeprefix("@")
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise UsageError(
            f"{text[:80]!r} cannot be a name", field="name", hint=f"Use letters, digits, - and _, at most {MAX_NAME}."
        )
    if name.casefold().startswith(("mb-", "relay-")):
        raise UsageError(f"{name!r} looks like an id", field="name", hint="Choose a name that does not begin with it.")
    if name_key(name) == OWNER_NAME:
        raise UsageError(
            f"{name!r} is the person who owns this hub; an agent cannot register as a person",
            field="name",
            hint="Choose a name of your own.",
        )
    return name


def name_key(name: str) -> str:
    """Two names with the same key are the same name."""
    return unicodedata.normalize("NFKC", name).casefold()


def default_name(project: str, harness: str) -> str:
    parts = [part for text in (project, harness or "agent") if (part := _OTHER.sub("-", text).strip("-_"))]
    return "-".join(parts)[: MAX_NAME - 4].strip("-_")
