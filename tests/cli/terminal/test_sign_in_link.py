"""The QR code on a terminal is the link's, and says when no phone can follow it."""

import sys
from collections.abc import Callable

import pytest
import segno

from tieline.cli.terminal.sign_in_link import HERE_ONLY, show_code

Shown = Callable[[str], str]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shown:
    """What a terminal gets to see of a link."""

    def show(link: str) -> str:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)  # here: a test has another stream than its fixtures
        monkeypatch.setenv("TERM", "xterm-256color")
        show_code(link)
        return capsys.readouterr().out

    return show


def test_what_is_shown_is_the_links_code(shown: Shown) -> None:
    link = "https://hub.example/#login=oz4YWIIe867l3NhNGLk_x273UFdBBPbe2Wr-spYvI4E"
    lines = shown(link).strip("\n").split("\n")
    # Two rows of modules per line; what is light is drawn, as on a dark terminal.
    light = [[sign in drawn for sign in line] for line in lines for drawn in ("█▀", "█▄")]
    code = [[not dark for dark in row] for row in segno.make(link, error="l", micro=False).matrix_iter(border=2)]
    assert light[: len(code)] == code


@pytest.mark.parametrize("address", ["http://127.0.0.1:8137", "http://localhost:8137", "https://[::1]:8137"])
def test_an_address_that_only_this_machine_reaches(shown: Shown, address: str) -> None:
    assert shown(f"{address}/#login=x") == f"{HERE_ONLY}\n", "a code that no phone can follow"


def test_an_address_that_others_connector(shown: Shown) -> None:
    text = shown("http://192.0.2.2:8137/#login=x")
    assert text and HERE_ONLY not in text


def test_elsewhere_it_is_noise(capsys: pytest.CaptureFixture[str]) -> None:
    show_code("http://127.0.0.1:8137/#login=x")
    assert capsys.readouterr().out == ""
