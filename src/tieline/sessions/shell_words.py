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
    """The words of a command. Empty if it is not exactly one plain command."""
    words: list[str] = []
    position, word = 0, None
    command = command.strip(" \t")
    while position < len(command):
        if match := _BLANK.match(command, position):
            if word is not None:
                words.append(word)
            word = None
        elif match := _BARE.match(command, position):
            word = (word or "") + match.group()
        elif (match := _SINGLE.match(command, position) or _DOUBLE.match(command, position)) and match.group(
            1
        ).isprintable():
            word = (word or "") + match.group(1)
        else:
            return ()
        position = match.end()
    if word is not None:
        words.append(word)
    if not words or "=" in words[0]:  # a variable of the command after it
        return ()
    return tuple(words)
