"""A push service on loopback, and browsers that subscribe at it: what is posted is checked and decrypted."""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import http_ece  # type: ignore[import-untyped]
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tieline.hub.push import vapid_keys

BOUND_S = 30.0


class Browser:
    """One subscription's own side: only it can read what is pushed."""

    def __init__(self, endpoint: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._auth = os.urandom(16)
        self.endpoint = endpoint

    def body(self, **more: Any) -> dict[str, Any]:
        """What the page sends to the hub."""
        point = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        keys = {"p256dh": vapid_keys.encode(point), "auth": vapid_keys.encode(self._auth)}
        return {"endpoint": self.endpoint, "keys": keys, **more}

    def read(self, data: bytes) -> dict[str, Any]:
        decrypt: Any = http_ece.decrypt  # type: ignore[reportUnknownMemberType]
        return json.loads(decrypt(data, private_key=self._key, auth_secret=self._auth, version="aes128gcm"))


class Posted:
    def __init__(self, path: str, headers: Mapping[str, str], notice: dict[str, Any]) -> None:
        self.path = path
        self.headers = headers
        self.notice = notice


class PushService:
    """`answers` says what is answered on a path; everything else is 201."""

    def __init__(self) -> None:
        self.url = ""
        self.public_key = ""
        self.posts: list[Posted] = []
        self.answers: dict[str, list[int]] = {}
        self.tries: list[str] = []
        self._browsers: dict[str, Browser] = {}
        self._changed = asyncio.Event()

    def browser(self) -> Browser:
        path = f"/push/{len(self._browsers)}"
        self._browsers[path] = Browser(self.url + path)
        return self._browsers[path]

    async def until(self, count: int) -> list[Posted]:
        """When so many were taken, decrypted and found to be signed by the hub."""
        async with asyncio.timeout(BOUND_S):
            while len(self.posts) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.posts

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                path = line.decode().split()[1]
                headers: dict[str, str] = {}
                while (text := (await reader.readline()).decode().strip()) != "":
                    name, _, value = text.partition(":")
                    headers[name.lower()] = value.strip()
                data = await reader.readexactly(int(headers["content-length"]))
                status = self._take(path, headers, data)
                writer.write(f"HTTP/1.1 {status} x\r\ncontent-length: 0\r\nretry-after: 0\r\n\r\n".encode())
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def _take(self, path: str, headers: dict[str, str], data: bytes) -> int:
        self.tries.append(path)
        self._changed.set()
        if self.answers.get(path):
            return self.answers[path].pop(0)
        claims = verify(headers["authorization"], self.public_key)
        assert claims["aud"] == self.url, claims
        assert claims["sub"].startswith(("mailto:", "https:"))
        assert headers["content-encoding"] == "aes128gcm"
        assert headers["host"] == self.url.partition("://")[2]
        self.posts.append(Posted(path, headers, self._browsers[path].read(data)))
        return 201


def verify(authorization: str, public_key: str) -> dict[str, Any]:
    """The claims of a VAPID header whose signature holds for this very key (RFC 8292)."""
    scheme, _, rest = authorization.partition(" ")
    fields = dict(part.strip().split("=", 1) for part in rest.split(","))
    assert scheme == "vapid"
    assert fields["k"] == public_key
    signed, _, signature = fields["t"].rpartition(".")
    head, _, claims = signed.partition(".")
    assert json.loads(vapid_keys.decode(head))["alg"] == "ES256"
    raw = vapid_keys.decode(signature)
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), vapid_keys.decode(public_key))
    whole = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    key.verify(whole, signed.encode(), ec.ECDSA(hashes.SHA256()))  # raises when it does not hold
    return json.loads(vapid_keys.decode(claims))


@asynccontextmanager
async def push_service(tls: ssl.SSLContext | None = None) -> AsyncGenerator[PushService, None]:
    service = PushService()
    connections: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        task.add_done_callback(connections.discard)
        await service.serve(reader, writer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    try:
        port = server.sockets[0].getsockname()[1]
        service.url = f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"
        yield service
    finally:
        server.close()
        for task in tuple(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await server.wait_closed()
