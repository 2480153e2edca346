"""Subjects and patterns. Pure; the same rules on every bus.

A subject is tokens joined by dots: `events.s1`, `relay.agent.alice`. In a pattern `*` stands for exactly one token and
`>`, as the last token, for one or more. The first token is the *family*, and a pattern spells it out: a cursor counts
within a family (a family is one stream on NATS), so no reader can depend on an order that only one bus would have.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from ..errors import BadSubject

MAX_SUBJECT = 512
"""Bytes of a subject that is published to. """

_FAMILY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEY_TOKEN = re.compile(r"[-/_=A-Za-z0-9]+")


@lru_cache(maxsize=16384)
def check_subject(subject: str) -> str:
    """The subject itself, or BadSubject. Cached: the same few subjects are published to again and again."""
    _check_tokens("subject", subject)
    if "*" in subject or ">" in subject:
        raise BadSubject("subject", subject, "* and > are wildcards of patterns, not allowed in a subject")
    return subject


@lru_cache(maxsize=4096)
def check_pattern(pattern: str) -> str:
    tokens = _check_tokens("pattern", pattern)
    _check_wildcards("pattern", pattern, tokens)
    return pattern


@lru_cache(maxsize=16384)
def check_key(key: str) -> str:
    """Keys of tables: like subjects, but plainer, and without families."""
    for token in _key_tokens("key", key):
        if not _KEY_TOKEN.fullmatch(token):
            raise BadSubject("key", key, "only letters, digits and - / _ = between the dots")
    return key


def check_key_pattern(pattern: str) -> str:
    tokens = _key_tokens("pattern", pattern)
    _check_wildcards("pattern", pattern, tokens)
    for token in tokens:
        if token not in ("*", ">") and not _KEY_TOKEN.fullmatch(token):
            raise BadSubject("pattern", pattern, "only letters, digits and - / _ = between the dots")
    return pattern


def check_name(what: str, name: str) -> str:
    """The name of a table."""
    if not _NAME.fullmatch(name):
        raise BadSubject(what, name, "1 to 64 letters, digits, - or _")
    return name


def family(subject: str) -> str:
    """The first token."""
    return subject.partition(".")[0]


def is_literal(pattern: str) -> bool:
    return "*" not in pattern and ">" not in pattern


def literal_prefix(pattern: str) -> str:
    """What every match begins with: all before the first wildcard."""
    for number, character in enumerate(pattern):
        if character in "*>":
            return pattern[:number]
    return pattern


def matches(pattern: str, subject: str) -> bool:
    return matcher(pattern)(subject)


@lru_cache(maxsize=4096)
def matcher(pattern: str) -> Callable[[str], bool]:
    """The pattern, ready to be asked about many (valid) subjects."""
    if is_literal(pattern):
        return pattern.__eq__
    if pattern == ">":
        return bool
    head = pattern[:-1]
    if pattern.endswith(".>") and is_literal(head):
        return lambda subject: subject.startswith(head) and len(subject) > len(head)
    parts = [r"[^.]+" if token == "*" else ".+" if token == ">" else re.escape(token) for token in pattern.split(".")]
    compiled = re.compile(r"\.".join(parts), re.DOTALL)
    return lambda subject: compiled.fullmatch(subject) is not None


def _check_tokens(what: str, text: str) -> list[str]:
    if not text:
        raise BadSubject(what, text, "it is empty")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadSubject(what, text, "it is not valid Unicode") from None
    if size > MAX_SUBJECT:
        raise BadSubject(what, text, f"it has {size} bytes, the maximum is {MAX_SUBJECT}")
    tokens = text.split(".")
    if "" in tokens:
        raise BadSubject(what, text, "a token between two dots is empty")
    if not text.isprintable() or any(character.isspace() for character in text):
        raise BadSubject(what, text, "white space and control characters are not allowed")
    if not _FAMILY.fullmatch(tokens[0]):
        problem = "its first token must not be a wildcard: 1 to 64 letters, digits, - or _, not beginning with - or _"
        hint = "Cursors count within a family of subjects: read one family at a time." * (tokens[0] in ("*", ">"))
        raise BadSubject(what, text, problem, hint=hint)
    return tokens


def _key_tokens(what: str, text: str) -> list[str]:
    if not text:
        raise BadSubject(what, text, "it is empty")
    if len(text) > MAX_SUBJECT:
        raise BadSubject(what, text, f"it has {len(text)} characters, the maximum is {MAX_SUBJECT}")
    tokens = text.split(".")
    if "" in tokens:
        raise BadSubject(what, text, "a token between two dots is empty")
    return tokens


def _check_wildcards(what: str, pattern: str, tokens: list[str]) -> None:
    for token in tokens:
        if len(token) > 1 and ("*" in token or ">" in token):
            raise BadSubject(what, pattern, "* and > stand for whole tokens only")
    if ">" in tokens[:-1]:
        raise BadSubject(what, pattern, "> can only be the last token")
