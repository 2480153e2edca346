"""The Messages API of Anthropic, as Claude Code calls it: server-sent events, one per content block's piece."""

import itertools
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from ..http_server import HttpRequest

MODEL = "claude-scripted"
INPUT_TOKENS = 25
"""What every call costs on the way in; on the way out it is a token per word."""

ERRORS = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}

_numbers = itertools.count(1)


class AnthropicVoice:
    """One response of `POST /v1/messages`."""

    @staticmethod
    def hears(request: HttpRequest) -> bool:
        return request.path.startswith("/v1/messages") or request.method == "HEAD"

    @staticmethod
    async def aside(request: HttpRequest) -> bool:
        """Liveness checks, token counts, and calls without the agent's tools (a title, the digest of a web page)."""
        if request.method == "HEAD":
            await request.respond(200, b"")
            return True
        body = request.json()
        if request.path.endswith("/count_tokens"):
            await request.respond(200, msgspec.json.encode({"input_tokens": len(request.body) // 4}))
            return True
        if body.get("tools"):
            return False
        voice = AnthropicVoice(request)
        if body.get("stream"):
            await voice.start()
            await voice.say("An aside.", first=True, last=True)
            await voice.finish()
        else:
            content = [{"type": "text", "text": "An aside."}]
            message = {**voice.message(), "content": content, "stop_reason": "end_turn"}
            await request.respond(200, msgspec.json.encode(message))
        return True

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._number = next(_numbers)
        self._model = str(request.json().get("model", MODEL)) if request.method == "POST" else MODEL
        self._index = -1
        self._words = 0
        self._calls = 0
        self.reported_tokens = (0, 0)

    def message(self) -> dict[str, Any]:
        return {
            "id": f"msg_{self._number:06}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": 1},
        }

    async def start(self) -> None:
        await self._request.stream()
        self.reported_tokens = (INPUT_TOKENS, 1)
        await self._send("message_start", message=self.message())

    async def say(self, piece: str, *, first: bool, last: bool) -> None:
        if first:
            await self._open({"type": "text", "text": ""})
        await self._delta({"type": "text_delta", "text": piece})
        self._words += len(piece.split())
        if last:
            await self._send("content_block_stop", index=self._index)

    async def think(self, text: str) -> None:
        await self._open({"type": "thinking", "thinking": "", "signature": ""})
        await self._delta({"type": "thinking_delta", "thinking": text})
        await self._delta({"type": "signature_delta", "signature": "c2NyaXB0ZWQ="})
        await self._send("content_block_stop", index=self._index)
        self._words += len(text.split())

    async def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        self._calls += 1
        tool = f"toolu_{self._number:06}_{self._calls}"
        await self._open({"type": "tool_use", "id": tool, "name": name, "input": {}})
        await self._delta({"type": "input_json_delta", "partial_json": msgspec.json.encode(arguments).decode()})
        await self._send("content_block_stop", index=self._index)
        self._words += 1

    async def finish(self) -> None:
        stop = {"stop_reason": "tool_use" if self._calls else "end_turn", "stop_sequence": None}
        usage = {"output_tokens": max(1, self._words)}
        self.reported_tokens = (INPUT_TOKENS, usage["output_tokens"])
        await self._send("message_delta", delta=stop, usage=usage)
        await self._send("message_stop")
        await self._request.end()

    async def refuse(self, status: int, message: str) -> None:
        kind = ERRORS.get(
            status, "api_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
        )
        body = {"type": "error", "error": {"type": kind, "message": message}}
        await self._request.respond(status, msgspec.json.encode(body))

    async def _open(self, block: dict[str, Any]) -> None:
        self._index += 1
        await self._send("content_block_start", index=self._index, content_block=block)

    async def _delta(self, delta: dict[str, Any]) -> None:
        await self._send("content_block_delta", index=self._index, delta=delta)

    async def _send(self, event: str, **fields: Any) -> None:
        data = msgspec.json.encode({"type": event, **fields})
        await self._request.send(b"event: %s\ndata: %s\n\n" % (event.encode(), data))
