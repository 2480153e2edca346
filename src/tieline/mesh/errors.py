"""What the mesh refuses, in words that tell a model what to do."""

from ..errors import TielineError, UsageError


class NotRegistered(TielineError):
    def __init__(self, detail: str = "") -> None:
        super().__init__(
            detail or "you are not registered in the mesh yet",
            hint="Call register_agent first, then try again.",
        )


class UnknownMember(UsageError):
    def __init__(self, name: str, close: tuple[str, ...] = ()) -> None:
        likely = f"Did you mean {' or '.join(close)}? " if close else ""
        super().__init__(
            f"no member {name[:80]!r} in the mesh",
            field="to",
            hint=f"{likely}`tieline members` shows who there is; agents call list_agents or find_agents.",
        )


class NameTaken(UsageError):
    def __init__(self, name: str, holder: str) -> None:
        super().__init__(
            f"the name {name!r} is taken by {holder}",
            field="name",
            hint="Choose another name, or leave it out to get one.",
        )


class NotYours(TielineError):
    """The caller claims to be somebody else, or wants what belongs to another member."""


class NoteConflict(TielineError):
    def __init__(self, what: str) -> None:
        super().__init__(f"{what} were changed by too many members at once", hint="Try again.")
