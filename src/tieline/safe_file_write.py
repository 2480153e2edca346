"""Writes files of the state directory: whole or not at all, for their owner's eyes only, also when the power fails."""

import os
from pathlib import Path


def replace_private_file(path: Path, data: bytes) -> None:
    """Another reader sees what was there before, or this. Raises OSError; then nothing has changed."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(part, flags, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
