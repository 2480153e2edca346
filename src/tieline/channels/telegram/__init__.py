"""The Telegram channel: a bot through which people talk to agents and decide what they ask.

`relay.telegram.<id>.<chat>` is a chat. Only chats that are listed, or that were paired with a code, are heard or told
anything.
"""

from msgspec import Struct

from ..base import Channel, ChannelContext
from .settings import TelegramConfig

NAME = "Telegram"
CONFIG = TelegramConfig


def create(id: str, config: Struct, context: ChannelContext) -> Channel:
    from .channel import Telegram  # imports aiogram, which takes its time

    assert isinstance(config, TelegramConfig)
    return Telegram(id, config, context)
