"""Which commands are one plain command, by a table of shell tricks and by the shells themselves."""

import shutil
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tieline.sessions.shell_words import shell_words

PLAIN = {
    "npm test": ("npm", "test"),
    "  npm\t test  ": ("npm", "test"),
    "npm test -- --reporter=dot ./src": ("npm", "test", "--", "--reporter=dot", "./src"),
    "npm 'test'": ("npm", "test"),
    'npm te"s"t': ("npm", "test"),
    'git commit -m "a message; with signs & (all) of them"': (
        "git", "commit", "-m", "a message; with signs & (all) of them",
    ),
    "grep 'a|b$' x.py": ("grep", "a|b$", "x.py"),
    "echo ''": ("echo", ""),
    "echo 'ä ü'": ("echo", "ä ü"),
    "npm test FOO=bar": ("npm", "test", "FOO=bar"),
    "/usr/bin/env": ("/usr/bin/env",),
    "git show HEAD@1:a,b%c+d": ("git", "show", "HEAD@1:a,b%c+d"),
}  # fmt: skip

TRICKS = {
    "another command after it": "npm test; rm -rf /",
    "without a blank": "npm test;rm -rf /",
    "and": "npm test && x",
    "or": "npm test || x",
    "in the background": "npm test & x",
    "a pipe": "npm test | sh",
    "a pipe of both": "npm test |& sh",
    "substitution": "npm test $(x)",
    "backquotes": "npm test `x`",
    "backquotes in quotes": 'npm test "`x`"',
    "substitution in quotes": 'npm test "$(x)"',
    "process substitution": "npm test <(x)",
    "output to a file": "npm test > /etc/passwd",
    "output to a file, glued": "npm test>x",
    "output to a descriptor": "npm test 2>&1",
    "input from a file": "npm test < x",
    "here document": "npm test <<EOF\nx\nEOF",
    "here string": "npm test <<< x",
    "a line break": "npm test\nrm -rf /",
    "a carriage return": "npm test\rrm -rf /",
    "a line break in quotes": "npm 'test\nx'",
    "a form feed": "npm test\fx",
    "a vertical tab": "npm test\vx",
    "a null": "npm test\0x",
    "a variable": "npm test $HOME",
    "a variable in quotes": 'npm test "$HOME"',
    "arithmetic": "npm test $((1+1))",
    "ANSI quotes": "npm test $'\\n x'",
    "an assignment before it": "PATH=/tmp npm test",
    "a loader before it": "LD_PRELOAD=./x.so npm test",
    "a quoted assignment before it": '"A=b" npm test',
    "a glob": "npm test *",
    "a glob of one": "npm test ?",
    "a glob of some": "npm test [a]",
    "braces": "npm test {a,b}",
    "a group": "{ npm test; }",
    "a subshell": "(npm test)",
    "a tilde": "npm test ~/x",
    "a comment": "npm test # x",
    "history": "npm test !x",
    "history in quotes": 'npm test "!x"',
    "an escape": "npm test \\; x",
    "an escape in quotes": 'npm test "\\"; x"',
    "a line that goes on": "npm test \\\n x",
    "an open quote": "npm test 'x",
    "an open double quote": 'npm test "x',
    "negation": "! npm test",
    "a no-break space": "npm\u00a0test",
    "a wide space": "npm\u3000test",
    "a zero-width space": "npm test\u200bx",
    "a look-alike": "npm te\u0455t",
    "a turn of direction in quotes": "npm '\u202etest'",
    "an escape sequence in quotes": "npm '\x1b[2K'",
    "a line separator": "npm test\u2028x",
    "a caret": "npm test ^x^y",
    "nothing": "",
    "blanks": " \t ",
}


@pytest.mark.parametrize("command", PLAIN)
def test_plain_commands_are_read(command: str) -> None:
    assert shell_words(command) == PLAIN[command]


@pytest.mark.parametrize("trick", TRICKS)
def test_every_trick_is_refused(trick: str) -> None:
    assert shell_words(TRICKS[trick]) == ()


SHELLS = [shell for name in ("sh", "bash", "dash", "zsh", "ksh", "busybox") if (shell := shutil.which(name))]
PIECES = st.sampled_from(
    ["npm", "test", " ", "\t", "'", '"', "-x", "=", "A=b", "/", ".", ":", "@", "%", "+", ",", "-", "_", "ä", "ü ", ";",
     "&", "|", "$", "`", "\\", "(", ")", "{", "}", "*", "?", "[", "]", "~", "#", "!", "^", "<", ">", "\n", "\r",
     "\u00a0"]
)  # fmt: skip


@given(st.one_of(st.text(max_size=12), st.lists(PIECES, max_size=12).map("".join)))
@example("npm 'a\"b' \"c'd\"")
@settings(max_examples=150, deadline=None)
def test_the_shells_read_what_is_accepted_in_the_same_way(command: str) -> None:
    """A real shell is given the words as arguments: it must see these, and do nothing else."""
    words = shell_words(command)
    if not words:
        return
    for shell in SHELLS:
        start = [shell, "sh"] if shell.endswith("busybox") else [shell]
        ended = subprocess.run(
            [*start, "-c", f"printf '%s\\0' {command}"],
            capture_output=True, env={"PATH": "/nonexistent", "LC_ALL": "C.UTF-8"}, cwd="/", check=True, timeout=30,
        )  # fmt: skip
        assert tuple(ended.stdout.decode().split("\0")[:-1]) == words, shell
        assert ended.stderr == b""
