"""The notify channel: out only, to whatever service an apprise URL names (desktop, ntfy, Slack, Discord, mail …).

What a tool is called with is not shown unless `content` says so: notifications end up on lock screens and in other
people's clouds. The same goes for JSON, which may be anything.
"""

import asyncio
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import datetime, time, timedelta
from functools import partial
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from ..config import setting
from ..errors import UsageError
from ..relay.ask_forwarder import AskForwarder, decode_ask, forwarder_address
from ..visible_text import marked
from .base import (
    Channel,
    ChannelContext,
    ChannelStatus,
    DeliveryContext,
    DeliveryResult,
    Envelope,
    RelayAccess,
    dead,
    delivered,
    failed,
    time_left,
)

NAME = "Notifications"

THREADS = 4
"""Sendings at a time: the library waits for its sockets in threads."""
NAMES = ("from", "to", "text", "thread", "id", "hops")
_FIELD = re.compile(r"\{([^{}]*)\}")
_QUIET = re.compile(r"([01]\d|2[0-3]):([0-5]\d)\s*-\s*([01]\d|2[0-3]):([0-5]\d)")


class NotifyConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Notifications through any service that apprise knows. Needs the extra `tieline[notify]`."""

    urls: Annotated[
        tuple[str, ...],
        setting("Addresses of services, as apprise writes them.", ("env:NTFY_URL",), secret=True),
    ]
    title: Annotated[
        str,
        setting("Title; may use `{from}`, `{to}`, `{text}`, `{thread}`, `{id}`, `{hops}`.", "Tieline: {from}"),
    ] = "{from}"
    body: Annotated[str, setting("Text, with the same placeholders.", "{text} ({thread})")] = "{text}"
    quiet: Annotated[str, setting("Hours in which nothing is sent.", "22:00-07:00")] = ""
    timezone: Annotated[str, setting("Time zone of `quiet`. Empty: this machine's.", "Europe/Berlin")] = ""
    late: Annotated[
        Literal["hold", "drop"],
        setting("What comes in quiet hours waits for their end, or becomes a dead letter.", "drop"),
    ] = "hold"
    content: Annotated[bool, setting("Also show what a tool is called with, and JSON.", True)] = False
    asks: Annotated[bool, setting("Send asks, too.", True)] = False
    max_chars: Annotated[int, setting("Longest text, in characters.", 500)] = 2000
    timeout_s: Annotated[float, setting("Seconds that sending may take.", 10.0)] = 30.0

    def __post_init__(self) -> None:
        if not self.urls:
            raise UsageError("no address to send to", field="urls")
        for name in ("title", "body"):
            for field in _FIELD.findall(getattr(self, name)):
                if field not in NAMES:
                    known = ", ".join(f"{{{each}}}" for each in NAMES)
                    raise UsageError(f"{{{field}}} is unknown", field=name, hint=f"A template may use {known}.")
        if self.quiet and not _QUIET.fullmatch(self.quiet):
            raise UsageError('quiet hours are written like "22:00-07:00"', field="quiet")
        if self.timezone:
            try:
                ZoneInfo(self.timezone)
            except (ZoneInfoNotFoundError, ValueError, OSError):
                raise UsageError(f"no such time zone: {self.timezone}", field="timezone") from None
        if not 16 <= self.max_chars <= 100_000:
            raise UsageError("must be 16 to 100000 characters", field="max_chars")
        if not 0.1 <= self.timeout_s <= 300:
            raise UsageError("must be 0.1 to 300 seconds", field="timeout_s")


CONFIG = NotifyConfig


class Notify:
    max_concurrent = THREADS

    def __init__(self, id: str, config: NotifyConfig, context: ChannelContext, service: Any) -> None:
        self.id = id
        self.subject_prefix = f"relay.notify.{id}"
        self.display_name = f"Notifications {id}"
        self._config = config
        self._asks = context.asks
        self._service = service
        self._threads: ThreadPoolExecutor | None = None
        self._state: Literal["starting", "running", "stopped"] = "starting"
        self._stack = AsyncExitStack()

    async def start(self, relay: RelayAccess) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"notify-{self.id}")
        if self._config.asks and self._asks is not None:
            sender = relay.sender(forwarder_address(self.subject_prefix))
            mail = AskForwarder(self._asks, sender, lambda: [self.subject_prefix], relay.report)
            await self._stack.enter_async_context(mail)
        self._state = "running"

    async def stop(self) -> None:
        self._state = "stopped"
        await self._stack.aclose()
        # Its threads end with their sockets' own time limits, a few seconds each.
        if self._threads is not None:
            await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    def status(self) -> ChannelStatus:
        return ChannelStatus(state=self._state, detail={"addresses": len(self._config.urls)})

    async def deliver(self, subject: str, envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        if (wait := quiet_for(self._config, datetime.now().astimezone())) > 0:
            if self._config.late == "drop":
                return dead("quiet_hours", f"nothing is sent during {self._config.quiet}")
            return failed("quiet_hours", f"waits for the end of {self._config.quiet}", retry_after_s=wait, counts=False)
        title, body = self._words(envelope)
        send = partial(self._service.notify, title=title, body=body)
        try:
            async with asyncio.timeout(min(self._config.timeout_s, time_left(context))):
                taken = await asyncio.get_running_loop().run_in_executor(self._threads, send)
        except TimeoutError:
            return failed("timeout", "the service did not answer in time")
        except Exception as error:  # a plugin of the library; its text may have the address, with a password in it
            return failed("delivery_failed", f"the service's library raised {type(error).__name__}")
        return delivered() if taken else failed("delivery_failed", "the service did not accept it")

    def _words(self, envelope: Envelope) -> tuple[str, str]:
        """Title and text, without what is nobody's business."""
        payload = envelope.payload
        note = decode_ask(envelope, self.subject_prefix)
        if note is not None:
            text = note.title if note.status == "pending" else f"{note.title}: {note.outcome or note.status}"
            if self._config.content and note.content:
                text += f"\n\n{note.content}"
            sender = note.agent or envelope.sender
        else:
            sender = envelope.sender
            hidden = payload.json is not None and not self._config.content and not payload.text
            text = f"({payload.content_type})" if hidden else payload.as_text()
        values = {
            "from": sender,
            "to": envelope.subject,
            "text": text,
            "thread": envelope.thread,
            "id": envelope.id,
            "hops": str(envelope.budget.hops),
        }
        title, body = marked(fill(self._config.title, values)), marked(fill(self._config.body, values))
        limit = self._config.max_chars
        left = len(body) - limit
        return title[:200], body if left <= 0 else f"{body[:limit]}… ({left} more characters)"


def create(id: str, config: Struct, context: ChannelContext) -> Channel:
    assert isinstance(config, NotifyConfig)
    import logging

    import apprise

    # Its log lines have addresses, with their passwords in them.
    logger = logging.getLogger("apprise")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    service: Any = apprise.Apprise()
    for number, url in enumerate(config.urls):
        if not service.add(url):
            hint = "It begins with the name of a service: ntfy://…, slack://…, mailto://…"
            raise UsageError(f"number {number + 1} is not an address that apprise knows", field="urls", hint=hint)
    return Notify(id, config, context, service)


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replaces each name of the template once: braces inside a value are not replaced."""
    return _FIELD.sub(lambda match: values[match[1]], template)


def quiet_for(config: NotifyConfig, now: datetime) -> float:
    """Seconds until the quiet hours end; 0 outside of them. `now` knows its zone."""
    match = _QUIET.fullmatch(config.quiet)
    if match is None:
        return 0.0
    here = now.astimezone(ZoneInfo(config.timezone)) if config.timezone else now
    begin, end = time(int(match[1]), int(match[2])), time(int(match[3]), int(match[4]))
    at = here.time().replace(tzinfo=None)
    inside = begin <= at < end if begin <= end else at >= begin or at < end
    if not inside:
        return 0.0
    until = here.replace(hour=end.hour, minute=end.minute, second=0, microsecond=0)
    if until <= here:
        until += timedelta(days=1)
    return max(1.0, (until - here).total_seconds())
