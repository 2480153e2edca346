"""The Gemini API as Gemini CLI speaks it: `POST …:streamGenerateContent?alt=sse`, answered with server-sent events."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from ..http_server import HttpRequest

STATUS = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}

VERDICT = {"reasoning": "scripted", "next_speaker": "user", "model_choice": "flash"}
"""Satisfies the classifiers that want JSON: who speaks next, which model to take."""

PUBLIC_HOST = "[3fff::1]"
"""Stands for this machine's loopback in addresses that Gemini CLI is to fetch: it refuses private ones, and has its
vendor fetch the others. The address is reserved for documentation, so it leads nowhere."""


class GeminiApi:
    """One streamed response."""

    @staticmethod
    def hears(request: HttpRequest) -> bool:
        return "/models/" in request.path

    @staticmethod
    async def aside(request: HttpRequest) -> bool:
        """Everything that is not streamed: token counts, classifiers, the digest of a fetched page."""
        if request.path.endswith(":streamGenerateContent"):
            return False
        if request.path.endswith(":countTokens"):
            answer: dict[str, Any] = {"totalTokens": len(request.body) // 4}
        elif any("urlContext" in tool for tool in request.json().get("tools", ())):
            pages = [await _fetch(url) for url in re.findall(r"<authorized_urls>\\n(\S+?)\\n<", request.body.decode())]
            answer = _chunk([{"text": "\n".join(pages)}], finish="STOP", usage=_usage(1, 1, 0))
        else:
            wanted = request.json().get("generationConfig", {}).get("responseMimeType", "")
            text = msgspec.json.encode(VERDICT).decode() if wanted == "application/json" else "An aside."
            answer = _chunk([{"text": text}], finish="STOP", usage=_usage(1, 1, 0))
        await request.respond(200, msgspec.json.encode(answer))
        return True

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._heard = len(str(request.json().get("contents", "")).split())
        self._spoken = 0
        self._thought = 0
        self.reported_tokens = (0, 0)

    async def start(self) -> None:
        await self._request.stream()

    async def say(self, piece: str, *, first: bool, last: bool) -> None:
        self._spoken += len(piece.split())
        await self._send([{"text": piece}])

    async def think(self, text: str) -> None:
        self._thought += len(text.split())
        await self._send([{"text": f"**Thinking** {text}", "thought": True}])

    async def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        self._spoken += 1
        await self._send([{"functionCall": {"name": name, "args": dict(arguments)}}])

    async def finish(self) -> None:
        self.reported_tokens = (self._heard, self._spoken + self._thought)
        await self._send([{"text": ""}], finish="STOP", usage=_usage(self._heard, self._spoken, self._thought))
        await self._request.end()

    async def refuse(self, status: int, message: str) -> None:
        name = STATUS.get(status, HTTPStatus(status).name)
        body = {"error": {"code": status, "message": message, "status": name}}
        await self._request.respond(status, msgspec.json.encode(body))

    async def _send(self, parts: list[dict[str, Any]], **ending: Any) -> None:
        await self._request.send(b"data: %s\r\n\r\n" % msgspec.json.encode(_chunk(parts, **ending)))


async def _fetch(url: str) -> str:
    """What the vendor does for the tool `web_fetch`."""
    import httpx2

    async with httpx2.AsyncClient(timeout=30, trust_env=False, verify=False) as client:
        return (await client.get(url.replace(PUBLIC_HOST, "127.0.0.1"))).text


def _chunk(parts: list[dict[str, Any]], *, finish: str = "", usage: Mapping[str, int] | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    chunk: dict[str, Any] = {"candidates": [candidate], "modelVersion": "scripted"}
    return {**chunk, "usageMetadata": usage} if usage else chunk


def _usage(heard: int, spoken: int, thought: int) -> dict[str, int]:
    return {
        "promptTokenCount": heard,
        "candidatesTokenCount": spoken,
        "thoughtsTokenCount": thought,
        "totalTokenCount": heard + spoken + thought,
    }
