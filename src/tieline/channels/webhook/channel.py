"""Webhooks in and out."""

import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ...backoff import Backoff
from ...envelopes import Refused, UnknownMessage, under
from ...errors import BadSubject, UsageError
from ..base import (
    ChannelStatus,
    DeliveryContext,
    DeliveryResult,
    Envelope,
    Limits,
    Payload,
    RelayAccess,
    dead,
    delivered,
    failed,
    time_left,
)
from ..inbound_http import HTTP_STATUS, HookRefused, HookRequest, InboundReply
from . import loop_header
from .settings import WebhookConfig
from .signatures import Unsigned, sign, verify

if TYPE_CHECKING:
    import httpx2

TYPE = "tieline.message"
MAX_ANSWER = 64 * 1024
BACKOFF = Backoff(1.0, 300.0)
"""The first pause between attempts, and the longest; each is drawn between its half and its whole."""
KEEP_S = 7 * 86400
"""How long we know where the answer to a message goes that went out."""
AGAIN = (408, 409, 425, 429)
"""Answers of a server that may be another one the next time; so are all of its own errors (5xx)."""


class Webhook:
    def __init__(self, id: str, config: WebhookConfig) -> None:
        self.id = id
        self.subject_prefix = f"relay.webhook.{id}"
        self.display_name = f"Webhook {id}"
        self.max_body = config.max_bytes
        self._config = config
        self._sign_with = config.sign_with or config.secrets
        self._relay: RelayAccess | None = None
        self._client: httpx2.AsyncClient | None = None
        self._stopped = False

    async def start(self, relay: RelayAccess) -> None:
        if self._config.url:
            import httpx2

            # Not through a proxy of the environment, and never on to where a response points: only the one address.
            self._client = httpx2.AsyncClient(
                timeout=self._config.timeout_s,
                trust_env=False,
                follow_redirects=False,
                verify=not self._config.url.startswith("http://"),  # certificates take long to load
                limits=httpx2.Limits(max_connections=16, max_keepalive_connections=4),
            )
        self._relay = relay
        self._stopped = False

    async def stop(self) -> None:
        self._stopped = True
        self._relay = None
        if self._client is not None:
            await self._client.aclose()

    def status(self) -> ChannelStatus:
        state = "stopped" if self._stopped else "running" if self._relay else "starting"
        return ChannelStatus(state=state, detail={"in": bool(self._config.to), "out": bool(self._config.url)})

    # --- out -------------------------------------------------------------------------------------------

    async def deliver(self, subject: str, envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        if self._client is None:
            return dead("rejected", "this webhook only receives: it has no url")
        assert self._relay is not None
        import httpx2

        body = _body(envelope)
        headers = {
            **self._config.headers,
            "content-type": "application/json",
            "user-agent": "tieline",
            loop_header.HEADER: loop_header.header(envelope),
            **sign(self._sign_with, envelope.id, body),
        }
        if self._config.secrets and envelope.reply_to:  # before it leaves: the answer may be faster than the response
            await self._relay.remember(_note(envelope.id), envelope.reply_to.encode(), ttl_s=KEEP_S)
        left = min(self._config.timeout_s, time_left(context))
        if left <= 0:
            return dead("ttl_expired", "no time was left to send it")
        try:
            async with self._client.stream(
                "POST", self._config.url, content=body.encode(), headers=headers, timeout=left
            ) as response:
                answer = await _text(response) if self._config.answers and response.is_success else ""
        except (httpx2.TransportError, httpx2.InvalidURL, OSError) as error:
            detail = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return failed("delivery_failed", detail, retry_after_s=BACKOFF.delay(context.attempt))
        return self._judge(response, answer, context.attempt)

    def _judge(self, response: "httpx2.Response", answer: str, attempt: int) -> DeliveryResult:
        status = response.status_code
        if response.is_success:
            return delivered(text=answer)
        problem = f"the server responded with status {status}"
        if status in AGAIN or status >= 500:
            wait = max(BACKOFF.delay(attempt), _retry_after(response.headers.get("retry-after", "")))
            return failed("delivery_failed", problem, retry_after_s=wait)
        if response.is_redirect:
            return dead("rejected", f"{problem}: redirects are not followed; configure the final url")
        return dead("rejected", problem)

    # --- in --------------------------------------------------------------------------------------------

    async def receive(self, request: HookRequest) -> InboundReply:
        """One request. Nothing of it is believed before its signature is good."""
        relay, config = self._relay, self._config
        if relay is None or not config.secrets:
            raise HookRefused(404, "no_webhook", f"the channel {self.id} does not receive webhooks")
        if len(request.body) > config.max_bytes:
            raise HookRefused(413, "too_large", f"the body is larger than {config.max_bytes} bytes", field="body")
        try:
            id = verify(config.secrets, request.headers, request.body, window_s=config.window_s)
        except Unsigned as error:
            status = 400 if error.code in ("bad_id", "bad_timestamp", "bad_body") else 401
            raise HookRefused(status, error.code, error.message, field=error.field, hint=error.hint) from None
        payload, answers = self._payload(request)
        to, within, limits = await self._route(relay, request, answers)
        if not to:
            raise HookRefused(422, "no_endpoint", "it is not a reply to a known message, and the channel has no `to`")
        reply_to = "" if answers and within else config.reply_to or (self.subject_prefix if config.url else "")
        try:
            receipt = await relay.sender(self.subject_prefix).send(
                to,
                payload,
                reply_to=reply_to,
                in_reply_to=answers if within == answers else "",
                limits=limits,
                key=f"webhook:{self.id}:{id}",
                within=within,
            )
        except Refused as error:
            status = HTTP_STATUS.get(error.reason, 422)
            raise HookRefused(
                status, error.reason, error.message, hint=error.hint, retry_after_s=error.retry_after_s
            ) from None
        except BadSubject as error:
            raise HookRefused(422, "bad_address", error.message, hint=error.hint) from None
        return InboundReply(message=receipt.id)

    def _payload(self, request: HookRequest) -> tuple[Payload, str]:
        """The payload of a request, and the id of the message that it answers, if it names one."""
        kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if kind == "text/plain":
            return Payload(request.body.decode()), ""
        if kind != "application/json" and not kind.endswith("+json"):
            raise HookRefused(415, "bad_type", "send application/json or text/plain", field="content-type")
        try:
            value: Any = msgspec.json.decode(request.body)
        except (msgspec.DecodeError, RecursionError):
            raise HookRefused(400, "bad_json", "the body is not JSON", field="body") from None
        if isinstance(value, dict):
            content = cast(dict[str, Any], value)
            data = content.get("data")
            if content.get("type") == TYPE and isinstance(
                data, dict
            ):  # from another hub, or an answer in our own format
                own = cast(dict[str, Any], data)
                text, answers = own.get("text"), own.get("in_reply_to")
                payload = Payload(
                    text if isinstance(text, str) else "",
                    own.get("json"),
                    "text/plain" if own.get("json") is None else "application/json",
                )
                return payload, answers if isinstance(answers, str) else ""
        if not self._config.text:
            return Payload("", value, kind), ""
        extracted_text = _at(value, self._config.text)
        if not isinstance(extracted_text, str) or not extracted_text.strip():
            raise HookRefused(422, "no_text", f"there is no text at {self._config.text}", field=self._config.text)
        return Payload(extracted_text), ""

    async def _route(self, relay: RelayAccess, request: HookRequest, answers: str) -> tuple[str, str, Limits | None]:
        """Where it goes, the message it comes of, and what the loop header leaves of the budget."""
        config = self._config
        if answers:
            try:
                receipt = await relay.status(answers)
            except UnknownMessage:
                receipt = None
            if receipt is not None and under(self.subject_prefix, receipt.subject):
                kept = await relay.recall(_note(answers))
                return kept.decode() if kept else receipt.sender, answers, None
        trail = loop_header.trail(request.headers)
        if trail is None:
            return config.to, "", None
        if trail.id:
            try:
                await relay.status(trail.id)
                return config.to, trail.id, None
            except (UnknownMessage, UsageError):
                pass  # another hub's message
        return config.to, "", trail.limits()


def _note(id: str) -> str:
    """Where we keep where a message's answer goes."""
    return f"sent.{id}"


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        if not isinstance(value, dict):
            return None
        value = cast(dict[str, Any], value).get(name)
    return value


def _body(envelope: Envelope) -> str:
    payload = envelope.payload
    data: dict[str, Any] = {
        "id": envelope.id,
        "from": envelope.sender,
        "subject": envelope.subject,
        "thread": envelope.thread,
        "text": payload.as_text(),
        "content_type": payload.content_type,
    }
    if envelope.in_reply_to:
        data["in_reply_to"] = envelope.in_reply_to
    if payload.json is not None:
        data["json"] = payload.json
    if payload.attachments:
        # A file of this machine is named, not located: its path is nobody's business outside.
        data["attachments"] = [
            {"name": each.name, "media_type": each.media_type, "size": each.size}
            | ({} if each.url.startswith("file:") else {"url": each.url})
            for each in payload.attachments
        ]
    at = datetime.fromtimestamp(envelope.created_at, UTC).isoformat()
    return msgspec.json.encode({"type": TYPE, "timestamp": at, "data": data}).decode()


async def _text(response: "httpx2.Response") -> str:
    """The answer in a response: its text, or the `text` of its JSON; nothing of one that is too long."""
    content = b""
    async for part in response.aiter_bytes():
        content += part
        if len(content) > MAX_ANSWER:
            return ""
    text = content.decode(errors="replace").strip()
    if "json" in response.headers.get("content-type", ""):
        try:
            value: Any = msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError):
            return text
        if isinstance(value, dict):
            own = cast(dict[str, Any], value).get("text")
            return own if isinstance(own, str) else ""  # an acknowledgement such as {"ok": true} answers nothing
        return value if isinstance(value, str) else ""
    return text


def _retry_after(value: str) -> float:
    """Seconds, from either form of the header; bounded, as it is the other side's word."""
    if value.isdigit():
        return min(float(value), 3600.0)
    try:
        return min(max(0.0, parsedate_to_datetime(value).timestamp() - time.time()), 3600.0)
    except (ValueError, TypeError):
        return 0.0
