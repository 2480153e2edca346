"""What a person types into a search, as an FTS5 query. Pure.

    words          all of them, in whatever order        "two words"   next to each other, as they stand
    wor*           what begins so                        -word         none of these

Nothing of what is typed reaches FTS5 but letters and digits inside quotation marks: no text is a syntax error, and none
is an operator.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

from ...errors import UsageError

MAX_QUERY = 500
MAX_WORDS = 20
MIN_PREFIX = 2
"""Letters before a `*`: with fewer, half of all words begin so."""

_TERM = re.compile(r'(-?)(?:"([^"]*)"?|(\S+))')
_IDEOGRAPHS = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff])")
SEPARATOR = "\u200b"
"""Around each character of scripts that put no spaces between words, in the index: each is a word, and a run of them
is a phrase. It has no width."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def separated(text: str) -> str:
    """A text as it is indexed."""
    text = unicodedata.normalize("NFC", _CONTROL.sub(" ", text).replace(SEPARATOR, ""))
    return text if text.isascii() else _IDEOGRAPHS.sub(rf"{SEPARATOR}\1{SEPARATOR}", text)


def match_expression(query: str, tags: Iterable[str] = ()) -> str:
    """The query in SQLite's full-text syntax. Raises UsageError for a query that would match nothing or everything."""
    if len(query) > MAX_QUERY:
        raise UsageError(f"a search has at most {MAX_QUERY} characters", field="q", hint="Search for fewer words.")
    wanted: list[str] = []
    unwanted: list[str] = []
    for minus, phrase, word in _terms(query):
        words = _words(phrase or word)
        if not words:
            continue
        prefix = word.endswith("*")
        if prefix and len(words[-1]) < MIN_PREFIX:
            raise UsageError(
                f"{word!r} is too short", field="q", hint=f"Put at least {MIN_PREFIX} letters before the *."
            )
        (unwanted if minus else wanted).append(f'"{" ".join(words)}"' + " *" * prefix)
    if not wanted:
        hint = "Search for words of letters or digits." if not unwanted else "Add a word that it must have."
        raise UsageError("nothing to search for", field="q", hint=hint)
    if len(wanted) + len(unwanted) > MAX_WORDS:
        raise UsageError(f"a search has at most {MAX_WORDS} words", field="q", hint="Search for fewer words.")
    clauses = [f"(text : ({' AND '.join(wanted)}))", *(f'(tags : "{tag}")' for tag in tags)]
    expression = " AND ".join(clauses)
    return f"({expression}) NOT (text : ({' OR '.join(unwanted)}))" if unwanted else expression


def plain_words(query: str) -> list[str]:
    """The words that must be there, for what is searched without the index."""
    return [" ".join(_words(phrase or word)).casefold() for minus, phrase, word in _terms(query) if not minus]


@lru_cache(maxsize=16384)
def tag(name: str, value: str) -> str:
    """A word of the index that says what a text is of. No text has it by chance, and none has it on purpose: it stands
    in a column of its own."""
    return name + blake2b(value.encode(errors="replace"), digest_size=8).hexdigest()


def _terms(query: str) -> list[tuple[str, str, str]]:
    """Each a minus or nothing, and a phrase or a word."""
    return _TERM.findall(query)


def _words(text: str) -> list[str]:
    """The runs of letters and digits."""
    kept = "".join(c if _is_word(c) else " " for c in separated(text))
    return kept.split()


def _is_word(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character)[0] in "LNM"
