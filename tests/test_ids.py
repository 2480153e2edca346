"""What a person may type for an id."""

import pytest

from tieline.ids import fits_id, short_id

ID = "01a1edbc58729ce325949cdb2b0a"


@pytest.mark.parametrize(
    ("part", "fits"),
    [
        (ID, True),
        ("01a1ed", True),
        ("9cdb2b0a", True),
        ("db2b0a", True),
        ("db2b", True),  # as far as it was typed of what is shown
        ("d", True),
        ("b2b0a", True),
        ("2b0", False),
        ("5949", False),
        ("db2b0a1", False),
    ],
)
def test_its_beginning_its_end_and_the_beginning_of_what_is_shown(part: str, fits: bool) -> None:
    assert fits_id(ID, part) is fits


def test_what_is_shown() -> None:
    assert short_id(ID) == "db2b0a" and short_id("abc") == "abc"
