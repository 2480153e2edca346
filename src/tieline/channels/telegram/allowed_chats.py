"""Which chats may take part: those of the configuration, and those that were paired, kept in a file."""

import hmac
import secrets
import time
from collections import OrderedDict
from pathlib import Path

import msgspec

from ...safe_file_write import replace_private_file

CODE_S = 600.0
"""A pairing code is good for so long, and once."""
WRONG_CODES = 5
"""So many wrong ones, and it is another."""
MAX_PAIRED = 1000
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"


class AllowedChats:
    def __init__(self, listed: tuple[int, ...], pairing: bool, folder: Path | None) -> None:
        self._listed = frozenset(listed)
        self._file = folder / "paired.json" if folder else None
        self._paired: list[int] = self._load()
        self._pairing = pairing
        self._code, self._code_until, self._wrong = "", 0.0, 0
        self._told: OrderedDict[int, float] = OrderedDict()

    def allowed(self, chat: int) -> bool:
        return chat in self._listed or (self._pairing and chat in self._paired)

    def all(self) -> list[int]:
        return sorted({*self._listed, *(self._paired if self._pairing else ())})

    def code(self) -> str:
        """The one that counts now; empty without pairing."""
        if not self._pairing:
            return ""
        if not self._code or time.monotonic() > self._code_until or self._wrong >= WRONG_CODES:
            self._code = "".join(secrets.choice(_LETTERS) for _ in range(10))
            self._code_until, self._wrong = time.monotonic() + CODE_S, 0
        return self._code

    def pair(self, chat: int, code: str) -> bool:
        """Whether the code was right. It is used up by that."""
        if not self._pairing or not code or len(self._paired) >= MAX_PAIRED:
            return False
        if not hmac.compare_digest(self.code().encode(), code.strip().upper().encode()):
            self._wrong += 1
            return False
        self._code = ""
        if chat not in self._paired:
            self._paired.append(chat)
            self._save()
        return True

    def tell(self, chat: int) -> bool:
        """Whether a stranger is answered: once in an hour, so that nobody makes us talk."""
        now = time.monotonic()
        if now - self._told.get(chat, -3600.0) < 3600.0:
            return False
        self._told[chat] = now
        while len(self._told) > 1000:
            self._told.popitem(last=False)
        return True

    def _load(self) -> list[int]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=list[int]) if self._file else []
        except (OSError, msgspec.DecodeError):
            return []

    def _save(self) -> None:
        if self._file is not None:
            replace_private_file(self._file, msgspec.json.encode(self._paired))
