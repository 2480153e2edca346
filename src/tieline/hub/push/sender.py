"""Sends a push to its push service: encrypted for the browser, signed by the hub."""

import asyncio
import hashlib
import logging
import ssl
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ...bus.base import Bus
from ..http.problems import RequestRefused
from . import endpoint_check, vapid_keys
from .triggers import Push

POST_S = 10.0
TRIES = 2
PAUSE_S = 2.0
LONGEST_PAUSE_S = 10.0
MAX_AT_ONCE = 8
MAX_PAYLOAD = 3000
"""Bytes before encryption: every service takes 4096 after it."""

log = logging.getLogger("tieline.hub.push")


class PushResult(Struct, frozen=True, kw_only=True):
    """sent: the service took it · gone: the subscription is dead · failed: `problem` says why."""

    state: Literal["sent", "gone", "failed"]
    problem: str = ""


class PushSender:
    """`async with PushSender(bus, contact=…)`. The key comes with its first use; what only a push needs, with the first
    push."""

    def __init__(self, bus: Bus, *, contact: str, loopback: bool = False, trust: ssl.SSLContext | None = None) -> None:
        """`trust`: whose word counts about who a push service is; else of those that the system knows."""
        self._bus = bus
        self._contact = contact
        self._loopback = loopback
        self._trust = trust
        self._lock = asyncio.Lock()
        self._room = asyncio.Semaphore(MAX_AT_ONCE)
        self._pair: vapid_keys.Vapid | None = None
        self._encrypter: Any = None
        self._client: Any = None

    async def __aenter__(self) -> "PushSender":
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def key(self) -> str:
        """The hub's public key, for browsers to subscribe with. Raises Refused without the libraries."""
        async with self._lock:
            return (await self._key_pair()).public

    async def send(self, push: Push) -> PushResult:
        """Never raises for what the other side does."""
        try:
            async with self._room:
                return await self._send(push)
        except RequestRefused as error:
            return PushResult(state="failed", problem=error.message)

    async def _send(self, push: Push) -> PushResult:
        pair = await self._prepare()
        subscription = push.subscription
        endpoint = endpoint_check.parse(subscription.endpoint, loopback=self._loopback)
        payload = msgspec.json.encode(push.notice)
        if len(payload) > MAX_PAYLOAD:
            actions = tuple(
                each for each in push.notice.actions if each.action != "allow"
            )  # without the text a person cannot see what to allow
            bare = msgspec.structs.replace(push.notice, body="", actions=actions, allow=False)
            payload = msgspec.json.encode(bare)
        try:
            keys = {"p256dh": subscription.p256dh, "auth": subscription.auth}
            pusher = self._encrypter({"endpoint": subscription.endpoint, "keys": keys})
            body: bytes = pusher.encode(payload)["body"]
        except Exception as error:  # cryptography raises many types for a bad key
            return PushResult(state="gone", problem=f"its key cannot be used: {type(error).__name__}")
        headers = {
            **pair.headers(endpoint.origin, self._contact),
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(push.ttl_s),
            "Urgency": push.urgency,
            # What waits at the service under the same topic is replaced, as the tag does on the screen.
            "Topic": hashlib.sha256(push.notice.tag.encode()).hexdigest()[:32],
        }
        problem = ""
        for attempt in range(TRIES):
            answer = await self._post(endpoint, headers, body)
            if isinstance(answer, str):
                problem, pause = answer, PAUSE_S
            else:
                status, again = answer
                if 200 <= status < 300:
                    return PushResult(state="sent")
                if status in (404, 410):
                    return PushResult(state="gone", problem=f"the push service said {status}")
                problem, pause = f"the push service said {status}", again
                if status < 500 and status != 429:
                    break
            if attempt + 1 < TRIES:
                await asyncio.sleep(min(pause, LONGEST_PAUSE_S))
        return PushResult(state="failed", problem=problem)

    async def _post(
        self, endpoint: endpoint_check.PushEndpoint, headers: dict[str, str], body: bytes
    ) -> tuple[int, float] | str:
        """Its status and when to try again; or what went wrong."""
        import httpx2

        try:
            address = await endpoint_check.resolve(endpoint, loopback=self._loopback)
            host = endpoint.origin.partition("://")[2]
            request = self._client.build_request(
                "POST",
                endpoint.at(address),
                headers={**headers, "Host": host},
                content=body,
                extensions={"sni_hostname": endpoint.host, "timeout": httpx2.Timeout(POST_S).as_dict()},
            )
            async with asyncio.timeout(POST_S):
                response = await self._client.send(request, stream=True)  # nobody reads what it says
                await response.aclose()
        except (httpx2.HTTPError, TimeoutError, OSError) as error:
            return f"the push service is out of reach: {type(error).__name__}"
        again = response.headers.get("retry-after", "")
        return response.status_code, float(again) if again.isdigit() else PAUSE_S

    async def _prepare(self) -> vapid_keys.Vapid:
        async with self._lock:
            pair = await self._key_pair()
            if self._client is None:
                self._encrypter = await vapid_keys.encrypter()
                self._client = await asyncio.to_thread(_client, self._trust)  # it reads all certificates
            return pair

    async def _key_pair(self) -> vapid_keys.Vapid:
        if self._pair is None:
            self._pair = await vapid_keys.load_or_create(self._bus)
        return self._pair


def _client(trust: ssl.SSLContext | None) -> Any:
    import httpx2

    return httpx2.AsyncClient(timeout=POST_S, trust_env=False, follow_redirects=False, verify=trust or True)
