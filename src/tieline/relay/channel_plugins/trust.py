"""What only a person may bring into the configuration: code, and whatever gives rights or sends secrets away.

An agent that may write files can write the configuration and the files that it names. So for each entry a digest of
that part is stored when a person agreed to it (at the very first start, and by `tieline channels reload`); an entry
whose part differs waits and is reported. Everything else in an entry is data, and takes effect at once.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from ...config import ChannelConfig
from ...environment import SECRET
from ...safe_file_read import read_regular
from ...safe_file_write import replace_private_file

MAX_CODE = 4 * 1024 * 1024
MAX_RECORD = 4 * 1024 * 1024

HARMLESS_SETTINGS: Mapping[str, frozenset[str]] = {
    "agent": frozenset(("max_concurrent", "timeout_s")),
    "webhook": frozenset(("text", "answers", "window_s", "max_bytes", "timeout_s")),
    "telegram": frozenset(("stream", "stream_s", "typing", "quick_s", "keep_files_days")),
    "notify": frozenset(("title", "body", "quiet", "timezone", "late", "max_chars", "timeout_s")),
}
"""Settings of the built-in types that give nobody anything: neither a right nor a way for messages, asks or secrets.
One that is not listed waits for a person. What a plugin's own settings do only its code knows, and that is trusted; so
they wait only if a variable's value goes into them."""


class ChannelCode(Struct, frozen=True, kw_only=True):
    """What stands behind an entry, read once: what is compared is what is run."""

    fingerprint: str
    """Tells whether a channel must be made anew: its entry, and for a local file its content."""
    digest: str = ""
    """Of what a person must have agreed to; empty: nothing."""
    description: str = ""
    """What that is; other words for everything else."""
    content: bytes = b""
    unreadable: str = ""  # why the local file could not be read


def read_code(entry: ChannelConfig, source: str = "") -> ChannelCode:
    mark = hashlib.sha256(msgspec.json.encode(entry, order="sorted", enc_hook=str))
    part = {"id": entry.id, "type": entry.type, "package": entry.package, "settings": _settings(entry)}
    words = f"package {entry.package}" if entry.package else f"type {entry.type}"
    content, unreadable = b"", ""
    if entry.path:
        path = local_file(entry, source)
        try:
            content = read_regular(path, MAX_CODE + 1)
            if len(content) > MAX_CODE:
                unreadable = f"it has more than {MAX_CODE:,} bytes"
        except OSError as error:
            unreadable = error.strerror or "it is not a regular file"
        mark.update(content or b"(none)")
        sum = hashlib.sha256(content).hexdigest()
        part |= {"path": str(path), "sha256": sum}
        words = f"{path}, SHA-256 {sum}"
    elif entry.type == "agent" and not part["settings"]:
        return ChannelCode(fingerprint=mark.hexdigest())  # as it is there without an entry
    if names := sorted(_variables(entry.config)):
        words += f", with {', '.join(names)}"
    digest = hashlib.sha256(msgspec.json.encode(part, order="sorted", enc_hook=str)).hexdigest()
    words += f" (entry {digest[:16]})"
    return ChannelCode(
        fingerprint=mark.hexdigest(), digest=digest, description=words, content=content, unreadable=unreadable
    )


def local_file(entry: ChannelConfig, source: str = "") -> Path:
    """Absolute. A relative path counts from the configuration file, else from the working directory."""
    path = Path(entry.path).expanduser()
    return path if path.is_absolute() else (Path(source).absolute().parent if source else Path.cwd()) / path


class Trust:
    """What a person agreed to, by channel. Read at the start; what happens to the file meanwhile does not count."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._digests: dict[str, str] = {}
        self._changed = False

    def load(self) -> bool:
        """Whether there was a record. One that cannot be read is a record of nothing."""
        try:
            content = read_regular(self._file, MAX_RECORD)
        except FileNotFoundError:
            self._changed = True
            return False
        except OSError:
            return True
        with suppress(msgspec.MsgspecError):
            self._digests = msgspec.json.decode(content, type=dict[str, str])
        return True

    def is_trusted(self, id: str, code: ChannelCode) -> bool:
        return not code.digest or self._digests.get(id) == code.digest

    def add(self, id: str, code: ChannelCode) -> None:
        if not self.is_trusted(id, code):
            self._digests[id] = code.digest
            self._changed = True

    def save(self) -> None:
        """Raises OSError."""
        if not self._changed:
            return
        replace_private_file(self._file, msgspec.json.encode(self._digests, order="sorted"))
        self._changed = False


def _settings(entry: ChannelConfig) -> dict[str, Any]:
    """Those that are no data."""
    if entry.type in HARMLESS_SETTINGS:
        return {
            name: value
            for name, value in entry.config.items()
            if name not in HARMLESS_SETTINGS[entry.type] or _variables(value)
        }
    # Which of a plugin's settings a secret goes by only the plugin knows.
    return dict(entry.config) if _variables(entry.config) else {}


def _variables(value: Any) -> set[str]:
    if isinstance(value, Mapping):
        return set[str]().union(*map(_variables, cast(Mapping[str, Any], value).values()))
    if isinstance(value, list | tuple):
        return set[str]().union(*map(_variables, cast(list[Any], value)))
    return {value.removeprefix(SECRET)} if isinstance(value, str) and value.startswith(SECRET) else set()
