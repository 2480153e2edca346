"""A file in a session's directory, or given with a prompt, for those who watch it: a text, or an image by its first
bytes."""

import os

from msgspec import Struct

from ..errors import UsageError
from ..safe_file_read import read_inside

MAX_TEXT = 1024 * 1024
"""Bytes of a text that are shown; the rest is cut."""
MAX_IMAGE = 8 * 1024 * 1024
_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
"""What browsers draw without running anything in it: no SVG."""


class WorkFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    path: str  # from the session's directory; of a file that was given with a prompt its name
    text: str = ""
    data: bytes = b""  # of an image
    media_type: str = "text/plain"  # application/octet-stream: neither, and not shown
    whole: bool = True  # otherwise it is longer


def read_session_file(cwd: str, path: str) -> WorkFile:
    """Nothing outside of the directory, whatever links are in it. Raises UsageError."""
    if not path or "\0" in path:
        raise UsageError("no file is named", field="path")
    try:
        content = read_inside(cwd, path, MAX_IMAGE + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{path!r} cannot be read: {why}", field="path") from None
    if len(content) > MAX_IMAGE and _image(content):
        raise UsageError(f"{path!r} is larger than {MAX_IMAGE:,} bytes", field="path")
    return shown_file(os.path.relpath(os.path.join(cwd, path), cwd), content)  # noqa: PTH118


def shown_file(name: str, content: bytes) -> WorkFile:
    """A file's content as people may see it: by what it is, whatever its name and sender say."""
    if kind := _image(content):
        return WorkFile(path=name, data=content, media_type=kind)
    if b"\0" in content[:8000]:
        return WorkFile(path=name, media_type="application/octet-stream")
    return WorkFile(path=name, text=content[:MAX_TEXT].decode(errors="replace"), whole=len(content) <= MAX_TEXT)


def _image(content: bytes) -> str:
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _IMAGES if content.startswith(magic)), "")
