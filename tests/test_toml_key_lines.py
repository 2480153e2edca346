"""Where the keys of a TOML file stand, whatever TOML allows inside a statement."""

import pytest

from tieline.toml_key_lines import KeyPath, dotted, key_lines, line_of

TEXT = '''\
# a comment
policy = "ask"  # another

[hub]
hosts = [
  "a",  # port = 1
  "b",
]
port = 8137
text = """
[relay]
port = 2
"""

[agents."my agent"]
env.A = "1"
inline = { x = 1, y = { z = 2 } }

[[channels]]
id = "one"
[channels.config]
token = "x"

[[channels]]
id = "two"
[channels.config.projects.shop]
cwd = "/"
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("policy",), 2),
        (("hub",), 4),
        (("hub", "hosts"), 5),
        (("hub", "hosts", 1), 5),
        (("hub", "port"), 9),
        (("hub", "text"), 10),
        (("agents", "my agent"), 15),
        (("agents", "my agent", "env", "A"), 16),
        (("agents", "my agent", "inline", "y", "z"), 17),
        (("channels", 0), 19),
        (("channels", 0, "config", "token"), 22),
        (("channels", 1, "id"), 25),
        (("channels", 1, "config", "projects", "shop", "cwd"), 27),
        (("hub", "missing"), 4),  # the table around it
        (("nowhere",), 0),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines(path: KeyPath, line: int, end: str) -> None:
    assert line_of(path, key_lines(TEXT.replace("\n", end))) == line


def test_what_a_text_says_is_no_key() -> None:
    assert ("relay",) not in key_lines(TEXT)


def test_paths_in_words() -> None:
    assert dotted(("channels", 0, "config", "my agent")) == 'channels[0].config."my agent"'
