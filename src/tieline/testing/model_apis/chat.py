"""OpenAI's chat completions, streamed: `POST …/chat/completions` with `stream: true`."""

import itertools
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from ..http_server import HttpRequest

_calls = itertools.count(1)


class Chat:
    """Writes one response. Token counts are made up from the lengths: what matters is that they add up."""

    @staticmethod
    def hears(request: HttpRequest) -> bool:
        return request.method == "POST" and request.path.endswith("/chat/completions")

    @staticmethod
    async def aside(request: HttpRequest) -> bool:
        """Titles and summaries: agents ask for them without offering any tool."""
        body = request.json()
        if body.get("tools"):
            return False
        voice = Chat(request)
        await voice.start()
        await voice.say("A scripted title", first=True, last=True)
        await voice.finish()
        return True

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        body = request.json()
        self._model = body.get("model", "scripted")
        self._streams = bool(body.get("stream"))
        self._heard = len(request.body) // 4 + 1
        self._spoken = 0
        self._id = f"chatcmpl-{time.monotonic_ns():x}"
        self._calls = 0
        self.reported_tokens = (0, 0)
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._tools: list[dict[str, Any]] = []

    async def start(self) -> None:
        if self._streams:
            await self._request.stream()
            await self._chunk({"role": "assistant", "content": ""})

    async def say(self, piece: str, *, first: bool, last: bool) -> None:
        self._spoken += len(piece) // 4 + 1
        self._text.append(piece)
        await self._chunk({"content": piece})

    async def think(self, text: str) -> None:
        self._spoken += len(text) // 4 + 1
        self._thoughts.append(text)
        half = len(text) // 2
        for piece in (text[:half], text[half:]):
            await self._chunk({"reasoning_content": piece})

    async def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        whole = msgspec.json.encode(arguments).decode()
        self._spoken += len(whole) // 4 + 1
        function = {"name": name, "arguments": ""}
        head = {"index": self._calls, "id": f"call_{next(_calls)}", "type": "function", "function": function}
        self._tools.append({**head, "function": {"name": name, "arguments": whole}})
        await self._chunk({"tool_calls": [head]})
        await self._chunk({"tool_calls": [{"index": self._calls, "function": {"arguments": whole}}]})
        self._calls += 1

    async def finish(self) -> None:
        usage = {
            "prompt_tokens": self._heard,
            "completion_tokens": max(1, self._spoken),
            "total_tokens": self._heard + max(1, self._spoken),
        }
        self.reported_tokens = (usage["prompt_tokens"], usage["completion_tokens"])
        reason = "tool_calls" if self._calls else "stop"
        if not self._streams:
            message = {"role": "assistant", "content": "".join(self._text), "tool_calls": self._tools or None}
            if self._thoughts:
                message["reasoning_content"] = "".join(self._thoughts)
            whole = self._frame("chat.completion", {"message": message, "finish_reason": reason})
            await self._request.respond(200, msgspec.json.encode({**whole, "usage": usage}))
            return
        await self._chunk({}, reason)
        last = self._frame("chat.completion.chunk", None)
        await self._request.send(b"data: " + msgspec.json.encode({**last, "usage": usage}) + b"\n\n")
        await self._request.send(b"data: [DONE]\n\n")
        await self._request.end()

    async def refuse(self, status: int, message: str) -> None:
        error = {"error": {"message": message, "type": "scripted_error", "code": str(status)}}
        await self._request.respond(status, msgspec.json.encode(error))

    async def _chunk(self, delta: Mapping[str, Any], reason: str | None = None) -> None:
        if self._streams:
            frame = self._frame("chat.completion.chunk", {"delta": delta, "finish_reason": reason})
            await self._request.send(b"data: " + msgspec.json.encode(frame) + b"\n\n")

    def _frame(self, kind: str, choice: Mapping[str, Any] | None) -> dict[str, Any]:
        choices = [] if choice is None else [{"index": 0, **choice}]
        return {"id": self._id, "object": kind, "created": 0, "model": self._model, "choices": choices}
