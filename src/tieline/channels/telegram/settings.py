"""The configuration of a Telegram channel."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from ...config import setting
from ...envelopes import address
from ...errors import UsageError

API = "https://api.telegram.org"
MAX_FILE = 20 * 1024 * 1024
"""What a bot may download; larger files stay where they are."""

_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{3,100}")
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")


class TelegramConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A bot through which people talk to agents and decide asks. Needs the extra `tieline[telegram]`."""

    token: Annotated[str, setting("The bot's token, from BotFather.", "env:TELEGRAM_TOKEN", secret=True)]
    chats: Annotated[tuple[int, ...], setting("Ids of the chats that may use the bot.", (4711,))] = ()
    pairing: Annotated[
        bool, setting("Further chats may join with the code that `tieline channels list` shows.", True)
    ] = False
    to: Annotated[str, setting("Address for messages that answer nothing.", "relay.agent.shop.fixer")] = ""
    routes: Annotated[
        Mapping[str, str], setting("The same for single chats, by id.", {"4711": "relay.agent.shop.fixer"})
    ] = {}
    mode: Annotated[
        Literal["polling", "webhook"], setting("How updates come. `polling` needs no public address.", "webhook")
    ] = "polling"
    webhook_url: Annotated[
        str, setting("Public address for `webhook`. Empty: `hub.public_url`.", "https://hub.example")
    ] = ""
    secret: Annotated[
        str,
        setting("Secret of Telegram's requests for `webhook`. Empty: made from the token.", "env:HOOK", secret=True),
    ] = ""
    api: Annotated[str, setting("Address of the Bot API server.", API)] = API
    asks: Annotated[bool, setting("Show asks, with buttons to decide them.", True)] = False
    content: Annotated[
        bool, setting("Show what a tool is called with. Without it an ask can only be denied there.", False)
    ] = True
    stream: Annotated[bool, setting("Show an answer while it is written.", False)] = True
    stream_s: Annotated[float, setting("Seconds between two edits of an answer.", 3.0)] = 1.5
    typing: Annotated[bool, setting('Show "typing …" while an agent works.', False)] = True
    files: Annotated[tuple[str, ...], setting("Directories that files may be sent from.", ("/home/me/out",))] = ()
    max_file: Annotated[int, setting("Largest file, in bytes.", 1000000)] = MAX_FILE
    keep_files_days: Annotated[float, setting("Days that received files are kept.", 1.0)] = 7.0
    quick_s: Annotated[
        float,
        setting("A message that comes sooner after the bot's counts as a program's, and inherits its budget.", 1.0),
    ] = 2.0
    timeout_s: Annotated[float, setting("Seconds that a request may take.", 60.0)] = 30.0

    def __post_init__(self) -> None:
        if not _TOKEN.fullmatch(self.token):
            raise UsageError("a bot's token looks like 123456:ABC…", field="token", hint="BotFather gives it.")
        if not self.chats and not self.pairing:
            hint = "List chats, or set pairing = true and send the bot the code."
            raise UsageError("no chat is allowed", field="chats", hint=hint)
        for chat, to in [("", self.to), *self.routes.items()]:
            name = f"routes.{chat}" if chat else "to"
            if chat and not chat.lstrip("-").isdigit():
                raise UsageError("a route's name must be a chat id", field=name)
            if to or chat:
                try:
                    address(to)
                except UsageError as error:
                    raise UsageError(error.message, field=name, hint=error.hint) from None
        for name in ("api", "webhook_url"):
            value: str = getattr(self, name)
            parts = urlsplit(value)
            if value and (parts.scheme not in ("http", "https") or not parts.hostname):
                raise UsageError("must begin with https:// and name a host", field=name)
        if self.secret and not _SECRET.fullmatch(self.secret):
            raise UsageError("must be 1 to 256 letters, digits, _ and -", field="secret")
        if not 0.05 <= self.stream_s <= 60:
            raise UsageError("must be 0.05 to 60 seconds", field="stream_s")
        if not 1 <= self.max_file <= 2_000_000_000:
            raise UsageError("must be 1 byte to 2 GB", field="max_file")
        if not 1 <= self.timeout_s <= 300:
            raise UsageError("must be 1 to 300 seconds", field="timeout_s")
