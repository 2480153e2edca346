"""The part of the Bot API that this channel uses: aiogram's bot with bounded answers, and updates that are read one by
one.

Every failure becomes a TelegramError, which says whether trying again helps.
"""

import asyncio
import json
from collections.abc import Awaitable
from typing import Any, TypeVar

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    AiogramError,
    TelegramConflictError,
    TelegramEntityTooLarge,
    TelegramNetworkError,
    TelegramRetryAfter,
    TelegramServerError,
    TelegramUnauthorizedError,
)
from aiogram.methods import TelegramMethod
from aiogram.types import Update
from aiohttp import ClientError
from pydantic import ValidationError

from ...errors import TielineError

MAX_ANSWER = 4 * 1024 * 1024
"""Bytes of an answer: a hundred updates are far smaller."""
UPDATES = ["message", "callback_query"]

T = TypeVar("T")


class TelegramError(TielineError):
    """The API did not do it. `again`: it may, later; `wait_s`: not before."""

    def __init__(self, message: str, *, again: bool, wait_s: float | None = None, ours: bool = False) -> None:
        super().__init__(message)
        self.again = again
        self.wait_s = wait_s
        self.ours = ours  # the token or another reader of it is the problem: nothing works


class RawUpdates(TelegramMethod[list[dict[str, Any]]]):
    """getUpdates without reading them: one that aiogram does not understand must not hide the others."""

    __returning__ = list[dict[str, Any]]
    __api_method__ = "getUpdates"

    offset: int | None = None
    limit: int = 100
    timeout: int = 0
    allowed_updates: list[str] | None = None


class BoundedSession(AiohttpSession):
    async def make_request(self, bot: Bot, method: TelegramMethod[Any], timeout: int | None = None) -> Any:
        session = await self.create_session()
        url = self.api.api_url(token=bot.token, method=method.__api_method__)
        form = self.build_form_data(bot=bot, method=method)
        limit: Any = self.timeout if timeout is None else timeout
        try:
            async with session.post(url, data=form, timeout=limit, allow_redirects=False) as response:
                content = b""
                async for part in response.content.iter_chunked(65536):
                    content += part
                    if len(content) > MAX_ANSWER:
                        raise TelegramNetworkError(method=method, message="the answer is too large")
        except TimeoutError:
            raise TelegramNetworkError(method=method, message="no response in time") from None
        except (ClientError, OSError) as error:
            raise TelegramNetworkError(method=method, message=type(error).__name__) from None
        text = content.decode(errors="replace")
        return self.check_response(bot=bot, method=method, status_code=response.status, content=text).result


def make_bot(token: str, api: str, timeout_s: float) -> Bot:
    session = BoundedSession(api=TelegramAPIServer.from_base(api.rstrip("/")), timeout=timeout_s, json_loads=json.loads)
    return Bot(token, session=session)


async def tried(call: Awaitable[T]) -> T:
    """Awaits a call to Telegram. Raises only TelegramError; its text never has the token, a part of every URL."""
    try:
        return await call
    except TelegramRetryAfter as error:
        raise TelegramError("Telegram's rate limit was reached", again=True, wait_s=float(error.retry_after)) from None
    except (TelegramUnauthorizedError, TelegramConflictError) as error:
        raise TelegramError(
            f"Telegram rejects the bot's token: {error.message}", again=True, wait_s=30.0, ours=True
        ) from None
    except TelegramEntityTooLarge:
        raise TelegramError("the message is too large for Telegram", again=False) from None
    except (TelegramNetworkError, TelegramServerError) as error:
        raise TelegramError(f"Telegram cannot be reached: {error.message}", again=True) from None
    except AiogramError as error:
        message = getattr(error, "message", "") or type(error).__name__
        raise TelegramError(f"Telegram rejects the request: {str(message)[:300]}", again=False) from None
    except (ClientError, OSError, asyncio.IncompleteReadError) as error:
        raise TelegramError(f"Telegram cannot be reached: {type(error).__name__}", again=True) from None


def read_update(raw: object, bot: Bot) -> Update | None:
    """None: it is nothing that we understand."""
    try:
        return Update.model_validate(raw, context={"bot": bot})
    except (ValidationError, RecursionError, ValueError, TypeError):
        return None
