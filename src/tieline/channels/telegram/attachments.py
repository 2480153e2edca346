"""Files that people send: fetched within bounds, kept in a folder of the channel's own for a while."""

import asyncio
import re
import time
from pathlib import Path

from aiogram import Bot
from aiogram.types import Message

from ...envelopes import AttachmentRef
from .bot_api import TelegramError, tried

FETCH_S = 60.0
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Attachments:
    def __init__(self, bot: Bot, folder: Path | None, *, max_file: int, keep_days: float) -> None:
        self._bot = bot
        self._folder = folder / "files" if folder else None
        self._max_file = max_file
        self._keep_s = keep_days * 86400

    async def of(self, message: Message) -> tuple[AttachmentRef, ...]:
        """The file of a message, if it has one. Raises TelegramError when the file cannot be fetched."""
        file = (
            message.document
            or message.voice
            or message.audio
            or message.video
            or message.animation
            or (message.photo[-1] if message.photo else None)
        )
        if file is None:
            return ()
        name: str = getattr(file, "file_name", None) or ("photo.jpg" if message.photo else "file")
        kind: str = getattr(file, "mime_type", None) or ("image/jpeg" if message.photo else "application/octet-stream")
        if self._folder is None:
            raise TelegramError("there is no directory to store files in", again=False)
        if (file.file_size or 0) > self._max_file:
            raise TelegramError(f"the file is larger than {self._max_file} bytes", again=False)
        path = self._folder / f"{_safe(file.file_unique_id)[:64]}-{_safe(name)[-80:]}"
        size = await self._fetch(file.file_id, path)
        return (AttachmentRef(url=path.absolute().as_uri(), name=name[:200], media_type=kind[:100], size=size),)

    async def _fetch(self, id: str, path: Path) -> int:
        about = await tried(self._bot.get_file(id))
        if not about.file_path:
            raise TelegramError("Telegram gave no path for the file", again=False)
        url = self._bot.session.api.file_url(self._bot.token, about.file_path)
        await asyncio.to_thread(self._room, path)
        draft = path.with_name(path.name + ".part")
        size = 0
        try:
            async with asyncio.timeout(FETCH_S):
                with draft.open("wb") as file:
                    async for part in self._bot.session.stream_content(url, timeout=int(FETCH_S)):
                        size += len(part)
                        if size > self._max_file:
                            raise TelegramError(f"the file is larger than {self._max_file} bytes", again=False)
                        await asyncio.to_thread(file.write, part)
            draft.replace(path)
        except TimeoutError:
            raise TelegramError("downloading the file took too long", again=True) from None
        except TelegramError:
            raise
        except Exception as error:  # aiohttp's many; the URL in their text has the token
            raise TelegramError(f"the file could not be downloaded: {type(error).__name__}", again=True) from None
        finally:
            draft.unlink(missing_ok=True)
        return size

    def _room(self, path: Path) -> None:
        """The folder, without what is old."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        old = time.time() - self._keep_s
        for each in path.parent.iterdir():
            if self._keep_s and each.is_file() and each.stat().st_mtime < old:
                each.unlink(missing_ok=True)


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", name).lstrip(".") or "file"
