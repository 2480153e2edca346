"""A file that is ours as a whole: a skill, a slash command, a plugin."""

from collections.abc import Set

from .base import CannotEdit
from .marks import OPENING, opening, users_of

MARK = "@tieline@"
"""Where the text of the file has the comment that says whose it is."""


class WholeFile:
    def __init__(self, harness: str, template: str) -> None:
        self._harness = harness
        self._template = template

    def install(self, text: str | None) -> str:
        if text is None:
            return self._render({self._harness})
        mark = OPENING.search(text)
        if mark is None:
            raise CannotEdit(
                "a file that `tieline install` did not write is there already", hint="Move it away, and try again."
            )
        return self._render(users_of(mark) | {self._harness})

    def uninstall(self, text: str) -> str | None:
        mark = OPENING.search(text)
        if mark is None or self._harness not in users_of(mark):
            return text
        left = users_of(mark) - {self._harness}
        return self._render(left) if left else None

    def _render(self, users: Set[str]) -> str:
        return self._template.replace(MARK, opening(users))
