"""The line that a person types in: it grows with its text, completes names, and remembers what was typed."""

from collections.abc import Callable, Sequence

from textual import events
from textual.message import Message
from textual.widgets import TextArea

from ...visible_text import hidden

MAX_HISTORY = 100


class LineInput(TextArea):
    DEFAULT_CSS = """
    LineInput, LineInput:focus { height: auto; max-height: 6; border: none; padding: 0; background: transparent; }
    """

    class Submitted(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, completions: Callable[[], Sequence[str]]) -> None:
        """`completions`: the names and commands that Tab completes."""
        super().__init__(id="line", compact=True, highlight_cursor_line=False)
        self._completions = completions
        self._history: list[str] = []
        self._history_index = 0  # in the history; its end: what is being typed

    async def _on_key(self, event: events.Key) -> None:
        match event.key:
            case "enter":
                self._submit()
            case "ctrl+j" | "shift+enter" | "alt+enter":
                self.insert("\n")
            case "tab":
                self._complete()
            case "up" if self.cursor_location[0] == 0:
                self._recall(-1)
            case "down" if self.cursor_location[0] == self.document.line_count - 1:
                self._recall(1)
            case _:
                await super()._on_key(event)
                return
        event.stop()
        event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        event.text = "".join(character for character in text if not hidden(character))
        await super()._on_paste(event)

    def fill(self, text: str) -> None:
        self.text = text
        self.move_cursor(self.document.end)

    def _submit(self) -> None:
        text = self.text.strip()
        if not text:
            return
        if self._history[-1:] != [text]:
            self._history = [*self._history, text][-MAX_HISTORY:]
        self._history_index = len(self._history)
        self.text = ""
        self.post_message(self.Submitted(text))

    def _recall(self, step: int) -> None:
        position = min(max(self._history_index + step, 0), len(self._history))
        if position != self._history_index:
            self._history_index = position
            self.fill(self._history[position] if position < len(self._history) else "")

    def _complete(self) -> None:
        """The last word, where it is the beginning of one name or command."""
        head, space, word = self.text.rpartition(" ")
        matches = [each for each in self._completions() if word and each.casefold().startswith(word.casefold())]
        if len(matches) == 1:
            self.fill(f"{head}{space}{matches[0]} ")
