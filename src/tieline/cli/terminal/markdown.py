"""Markdown on the terminal."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown
from rich.segment import Segment

from .sanitize import prose


class MarkdownPage:
    """Markdown without the empty lines around it, and with links that show where they lead.

    `last`: only that many lines, from its end.
    """

    def __init__(self, text: str, *, last: int | None = None) -> None:
        self._text = text
        self._last = last

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        page = Markdown(prose(self._text.strip("\n")), hyperlinks=False, code_theme="ansi_dark")
        lines = [_trimmed(line) for line in console.render_lines(page, options, pad=False)]
        while lines and not lines[0]:
            del lines[0]
        while lines and not lines[-1]:
            del lines[-1]
        for line in lines if self._last is None else lines[-self._last :]:
            yield from line
            yield Segment.line()


def _trimmed(line: list[Segment]) -> list[Segment]:
    """Without the blanks at its end, unless they have a background."""
    while line:
        text, style, control = line[-1]
        if style is not None and style.bgcolor is not None:
            break
        if text.rstrip():
            return [*line[:-1], Segment(text.rstrip(), style, control)]
        line = line[:-1]
    return line
