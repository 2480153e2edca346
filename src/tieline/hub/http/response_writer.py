"""Sends responses: with security headers, and refusals that reach the caller while it still sends."""

import asyncio
from contextlib import suppress

from starlette.types import Message, Receive, Scope, Send

from .problems import RequestRefused, encode_problem, http_problem, problem_from_error, problem_headers
from .request_context import RequestContext

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
HSTS = (b"strict-transport-security", b"max-age=31536000")
LINGER, LINGER_S = 32 * 1024 * 1024, 20.0
STRANGER_LINGER, STRANGER_LINGER_S = 1024 * 1024, 2.0
"""Bytes and seconds of a refused body that are still read, and thrown away."""
NO_STORE = (b"cache-control", b"no-store")


class ResponseWriter:
    """Sends the response, with security headers."""

    def __init__(self, send: Send, context: RequestContext) -> None:
        self._send = send
        self._context = context
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers: list[tuple[bytes, bytes]] = list(message["headers"])
            if self._context.path.startswith("/api/") and all(name != b"cache-control" for name, _ in headers):
                headers.append(NO_STORE)
            headers += SECURITY_HEADERS
            if self._context.hsts:
                headers.append(HSTS)
            if self._context.foreign_origin:
                headers += (
                    (b"access-control-allow-origin", self._context.foreign_origin.encode()),
                    (b"vary", b"Origin"),
                )
            message["headers"] = headers
        await self._send(message)

    async def send_response(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    async def preflight(self) -> None:
        allowed = [
            (b"access-control-allow-methods", b"GET, POST, PATCH, DELETE"),
            (b"access-control-allow-headers", b"authorization, content-type, idempotency-key"),
            (b"access-control-max-age", b"600"),
        ]
        await self.send_response(204, allowed, b"")

    async def refuse(self, error: RequestRefused, scope: Scope, receive: Receive) -> None:
        problem = problem_from_error(error, self._context.id)
        body = encode_problem(problem)
        headers = [*problem_headers(problem, error.retry_s), (b"content-length", str(len(body)).encode())]
        if scope["type"] == "websocket":
            self.status = problem.status
            if "websocket.http.response" not in scope.get("extensions", {}):
                await self._send({"type": "websocket.close", "code": 4403})
                return
            start: Message = {"type": "websocket.http.response.start", "status": problem.status}
            await self._send({**start, "headers": [*headers, *SECURITY_HEADERS]})
            await self._send({"type": "websocket.http.response.body", "body": body})
            return
        headers.append((b"connection", b"close"))
        await self.send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": True})
        await self._drain_body(receive)
        await self.send({"type": "http.response.body", "body": b""})

    async def _drain_body(self, receive: Receive) -> None:
        """The answer is out. What is left of the body is thrown away for a while: a connection that is closed while
        its other side still speaks is reset, and the answer lost with it."""
        headers = self._context.checked_headers
        if not ("length" in headers or "encoding" in headers) or headers.get("expect") or headers.get("length") == "0":
            return
        left, seconds = (LINGER, LINGER_S) if self._context.device else (STRANGER_LINGER, STRANGER_LINGER_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while left > 0:
                    message = await receive()
                    if message["type"] == "http.disconnect" or not message.get("more_body", False):
                        return
                    left -= len(message.get("body", b""))

    async def server_error(self, status: int, detail: str) -> None:
        """When nothing was sent yet there is still an answer; else the connection is all that can be ended."""
        if self._context.method == "WEBSOCKET":
            await self._send({"type": "websocket.close", "code": 1011})
        elif not self.status:
            problem = http_problem(status, detail, self._context.id)
            await self.send_response(
                status, [*problem_headers(problem), (b"connection", b"close")], encode_problem(problem)
            )
        else:
            raise ConnectionAbortedError(detail)
