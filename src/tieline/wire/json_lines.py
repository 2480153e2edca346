"""Decoding lines of JSON that programs in JavaScript wrote."""

from typing import TypeVar

import msgspec

T = TypeVar("T")

BROKEN_CHARACTER = "\ufffd"


def decode_line(decoder: "msgspec.json.Decoder[T]", line: bytes) -> T:
    """JavaScript cuts a text also through a character, and writes the half of it, which no text in UTF-8 can have: that
    becomes BROKEN_CHARACTER. Raises msgspec.DecodeError, RecursionError."""
    try:
        return decoder.decode(line)
    except msgspec.DecodeError:
        if b"\\ud" not in line.lower():  # every half is written like this
            raise
        import json  # seldom

        try:
            text = json.dumps(json.loads(line), ensure_ascii=False)
        except ValueError as error:
            raise msgspec.DecodeError(str(error)) from None
        return decoder.decode(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
