"""What is shown of a file in a session's directory, and what never is."""

import os
from pathlib import Path

import pytest

from tieline.errors import UsageError
from tieline.sessions.file_preview import MAX_IMAGE, MAX_TEXT, WorkFile, read_session_file

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A session's directory, and a secret beside it."""
    (tmp_path / "secret").write_text("key")
    home = tmp_path / "home"
    (home / "src").mkdir(parents=True)
    (home / "src" / "a.py").write_text("print(1)\n")
    return home


KINDS = {
    "png": (PNG + b"\0", "image/png"),
    "jpeg": (b"\xff\xd8\xff\0", "image/jpeg"),
    "gif87": (b"GIF87a\0", "image/gif"),
    "gif89": (b"GIF89a\0", "image/gif"),
    "webp": (b"RIFF\0\0\0\0WEBP\0", "image/webp"),
    "a sound": (b"RIFF\0\0\0\0WAVE\0", "application/octet-stream"),
    "no RIFF": (b"JUNK\0\0\0\0WEBP\0", "application/octet-stream"),
    "a program": (b"\x7fELF\0", "application/octet-stream"),
    "a zero late in the head": (b"x" * 7999 + b"\0", "application/octet-stream"),
    "a zero after it": (b"x" * 8000 + b"\0", "text/plain"),
    "a drawing that could run scripts": (b"<svg xmlns='x'><script/></svg>", "text/plain"),
    "a text": ("grün".encode(), "text/plain"),
    "nothing": (b"", "text/plain"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_what_its_first_bytes_say(home: Path, kind: str) -> None:
    content, media_type = KINDS[kind]
    (home / "x").write_bytes(content)
    preview = read_session_file(str(home), "x")
    assert (preview.path, preview.media_type, preview.whole) == ("x", media_type, True)
    assert preview.data == (content if media_type.startswith("image/") else b"")
    assert preview.text == (content.decode() if media_type == "text/plain" else "")


def test_long_ones(home: Path) -> None:
    (home / "text").write_bytes(b"x" * MAX_TEXT)
    assert read_session_file(str(home), "text").whole
    (home / "text").write_bytes(b"x" * MAX_TEXT + b"y")
    cut = read_session_file(str(home), "text")
    assert (cut.text, cut.whole) == ("x" * MAX_TEXT, False)
    (home / "image").write_bytes(PNG.ljust(MAX_IMAGE, b"x"))
    assert len(read_session_file(str(home), "image").data) == MAX_IMAGE
    (home / "image").write_bytes(PNG.ljust(MAX_IMAGE + 1, b"x"))
    with pytest.raises(UsageError, match="larger than"):
        read_session_file(str(home), "image")


def test_names(home: Path) -> None:
    shown = WorkFile(path="src/a.py", text="print(1)\n")
    for name in ("src/a.py", "./src/../src/a.py", str(home / "src" / "a.py")):
        assert read_session_file(str(home), name) == shown, name
    (home / "link").symlink_to("src")
    assert read_session_file(str(home), "link/a.py").text == "print(1)\n"


def test_why_it_is_not_shown(home: Path) -> None:
    for name, why in (
        ("../secret", "is not inside"), ("gone", "No such file"), ("src", "not a regular file"),
        ("a\0b", "no file is named"), ("", "no file is named"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=why):
            read_session_file(str(home), name)


def test_nothing_outside_of_it(home: Path) -> None:
    (home / "out").symlink_to(home.parent)
    (home / "file").symlink_to(home.parent / "secret")
    (home / "loop").symlink_to("loop")
    os.mkfifo(home / "pipe")
    for name in (
        "../secret", "src/../../secret", str(home.parent / "secret"), "out/secret", "file", "src/../out/secret",
        "/etc/passwd", "loop", "pipe", "src", ".", "..", "gone", "src/a.py/x", "", "a\0b", "\0", "x" * 5000,
    ):  # fmt: skip
        with pytest.raises(UsageError) as refused:
            read_session_file(str(home), name)
        assert refused.value.field == "path" and "key" not in str(refused.value).split(), name
