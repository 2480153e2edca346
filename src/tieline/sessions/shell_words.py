"""The words of a shell command, where it is one plain command and nothing else; of every other command there are none.

A rule that allows commands by their beginning must know that nothing follows but arguments. So this reads what every
POSIX shell reads in the same way: letters, digits, a few signs, and quotes. It refuses the rest (`;` `&` `|` `<` `>`
`$`, backquotes, backslashes, brackets, globs, `~` `#` `!`, line breaks), also where it would be harmless: then a person
decides.
"""

import re

_BARE = re.compile(r"[A-Za-z0-9_./:=@%+,-]+")
_SINGLE = re.compile(r"'([^'\n\r]*)'")
_DOUBLE = re.compile(r'"([^"$`\\!\n\r]*)"')
_BLANK = re.compile(r"[ \t]+")


def shell_words(command: str) -> tuple[str, ...]:
    """Empty for what is not exactly one plain command."""
    words: list[str] = []
    place, word = 0, None
    command = command.strip(" \t")
    while place < len(command):
        if found := _BLANK.match(command, place):
            if word is not None:
                words.append(word)
            word = None
        elif found := _BARE.match(command, place):
            word = (word or "") + found.group()
        elif (found := _SINGLE.match(command, place) or _DOUBLE.match(command, place)) and found.group(1).isprintable():
            word = (word or "") + found.group(1)
        else:
            return ()
        place = found.end()
    if word is not None:
        words.append(word)
    if not words or "=" in words[0]:  # a variable for what comes after it
        return ()
    return tuple(words)
