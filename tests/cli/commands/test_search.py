"""How `tieline search` shows a hit."""

import time

from tieline.cli.commands.search import lines
from tieline.protocol.search import SearchHit, SnippetPart


def test_words_stay_apart_and_control_characters_are_shown() -> None:
    parts = (SnippetPart("error: "), SnippetPart("one", True), SnippetPart(" "), SnippetPart("two", True))
    snippet = (*parts, SnippetPart(" by\n<b>\x1b[2J"))
    hit = SearchHit(id=1, kind="text", at=time.time(), seq=7, session="0123456789", agent="codex", snippet=snippet)
    address, text = lines(hit, colours=False)
    assert "tieline tail 456789 --at 7" in address
    narrow = lines(hit, colours=False, width=40)
    assert [len(line) <= 40 for line in narrow[:2]] == [True, True] and narrow[1] == "    tieline tail 456789 --at 7"
    assert text.startswith("    error: one two by") and "\x1b" not in text
