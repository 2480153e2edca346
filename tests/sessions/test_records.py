"""What is made of a session's texts for its record."""

import pytest

from tieline.sessions.records import TITLE, title_of


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("Mend the greeting.\nAnd run the tests.", "Mend the greeting."),
        ("  ## Mend **all** of `a_b_c`", "Mend all of a_b_c"),
        ("- one\n- two", "one"),
        ("word " * 40, "word " * 11 + "word …"),
        ("x" * 100, "x" * TITLE + " …"),
        ("/compact", ""),
        ("<relay_context>\nfrom: somebody", ""),
        ("", ""),
        (" \n ", ""),
    ],
)
def test_a_title_from_the_first_prompt(prompt: str, title: str) -> None:
    assert title_of(prompt) == title
