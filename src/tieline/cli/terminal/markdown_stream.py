"""Streaming Markdown: which part of a text that is still growing is whole already, and so can be shown for good."""

import re

_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_ITEM = re.compile(r"\s{0,3}([-*+]|\d+[.)])\s")


def blocks(text: str) -> list[str]:
    """The blocks of a text that is whole or still growing; joined they are the text.

    All but the last are rendered the same whatever comes after them. A block ends at an empty line, but not inside
    fenced code, not inside a list, and not before something that is indented, which may still belong to it.
    """
    finished: list[str] = []
    fence = ""
    in_list = False
    start = position = 0
    after_empty = False
    *lines, last = text.split("\n")
    for line in [*lines, last] if _cannot_be_item(last) else lines:  # what the last line is may only show as it grows
        if not line.strip() and not fence:
            after_empty = True
        else:
            indented = line[:1].isspace()
            item = bool(_ITEM.match(line))
            if after_empty and not indented and not (in_list and item) and position > start:
                finished.append(text[start:position])
                start = position
            if not fence:
                in_list = item or (in_list and (indented or not after_empty))
            after_empty = False
            fence = _open_fence(fence, line)
        position += len(line) + 1
    return [*finished, text[start:]]


def _cannot_be_item(line: str) -> bool:
    """Whether a line that may still grow is no list item, whatever comes."""
    return bool(line) and not line[0].isspace() and not line[0].isdigit() and line[0] not in "-*+`~"


def _open_fence(fence: str, line: str) -> str:
    """The fence that is open after this line, if any."""
    match = _FENCE.match(line)
    if match is None:
        return fence
    if not fence:
        return match[1]
    closes = match[1].startswith(fence) and not line.strip().strip(fence[0])
    return "" if closes else fence


class MarkdownStream:
    """Texts as they come in: each block of them is handed out once, when it is whole."""

    def __init__(self) -> None:
        self._heard: dict[str, list[str]] = {}  # item → what came since the last look
        self._text: dict[str, str] = {}  # item → what had come until then
        self._done: dict[str, int] = {}  # item → how much of that was handed out
        self.growing = ""

    def feed(self, item: str, text: str) -> None:
        self._heard.setdefault(item, []).append(text)

    def take_finished(self) -> list[str]:
        """Blocks that have become whole. Called by the clock, not per delta: it looks at all that is not settled."""
        finished: list[str] = []
        for item, parts in self._heard.items():
            text = self._text[item] = self._text.get(item, "") + "".join(parts)
            parts.clear()
            *whole, self.growing = blocks(text[self._done.get(item, 0) :])
            self._done[item] = len(text) - len(self.growing)
            finished += filter(str.strip, whole)
        return finished

    def finish_item(self, item: str, text: str) -> list[str]:
        """The item is complete: its blocks that were not handed out yet."""
        self._heard.pop(item, None)
        done, streamed = self._done.pop(item, 0), self._text.pop(item, "")
        self.growing = ""
        if not text.startswith(streamed[:done]):
            done = 0  # the item differs from its deltas: show all of the item
        return [*filter(str.strip, blocks(text[done:]))]

    def flush(self) -> list[str]:
        """At the end of a turn: also the text of deltas whose item never came."""
        rest = self.take_finished()
        for item, text in list(self._text.items()):
            rest += self.finish_item(item, text)
        return rest
