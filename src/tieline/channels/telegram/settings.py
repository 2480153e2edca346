"""The configuration of a Telegram channel."""

import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from ...errors import UsageError
from ...messages import address

API = "https://api.telegram.org"
MAX_FILE = 20 * 1024 * 1024
"""What a bot may download; larger files stay where they are."""

_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{3,100}")
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")


class TelegramConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: str
    chats: tuple[int, ...] = ()  # who is heard
    pairing: bool = False  # further chats may join with the code that the channel's state shows
    to: str = ""  # where messages go that answer nothing
    routes: Mapping[str, str] = {}  # the same for single chats: id → address
    mode: Literal["polling", "webhook"] = "polling"  # polling needs no public address
    webhook_url: str = ""  # empty: the hub's public address
    secret: str = ""  # what Telegram shows us with each request; empty: made from the token
    api: str = API
    asks: bool = False  # show asks, with buttons to decide them
    content: bool = True  # of an ask: what the tool is called with
    stream: bool = True  # show an answer while it is written
    stream_s: float = 1.5  # between two edits: Telegram counts them
    typing: bool = True
    files: tuple[str, ...] = ()  # folders that files may be sent from
    max_file: int = MAX_FILE
    keep_files_days: float = 7.0
    quick_s: float = 2.0  # what comes sooner after a message was no person's answer: a program's, and it inherits
    timeout_s: float = 30.0

    def __post_init__(self) -> None:
        if not _TOKEN.fullmatch(self.token):
            raise UsageError("a bot's token looks like 123456:ABC…", field="token", hint="BotFather gives it.")
        if not self.chats and not self.pairing:
            hint = "List chats, or set pairing = true and send the bot the code."
            raise UsageError("nobody may talk to it", field="chats", hint=hint)
        for chat, to in [("", self.to), *self.routes.items()]:
            name = f"routes.{chat}" if chat else "to"
            if chat and not chat.lstrip("-").isdigit():
                raise UsageError("a route is named by a chat's id", field=name)
            if to or chat:
                try:
                    address(to)
                except UsageError as error:
                    raise UsageError(error.message, field=name, hint=error.hint) from None
        for name in ("api", "webhook_url"):
            value: str = getattr(self, name)
            parts = urlsplit(value)
            if value and (parts.scheme not in ("http", "https") or not parts.hostname):
                raise UsageError("it begins with https:// and names a host", field=name)
        if self.secret and not _SECRET.fullmatch(self.secret):
            raise UsageError("1 to 256 letters, digits, _ and -", field="secret")
        if not 0.05 <= self.stream_s <= 60:
            raise UsageError("0.05 to 60 seconds", field="stream_s")
        if not 1 <= self.max_file <= 2_000_000_000:
            raise UsageError("1 byte to 2 GB", field="max_file")
        if not 1 <= self.timeout_s <= 300:
            raise UsageError("1 to 300 seconds", field="timeout_s")
