"""The Responses API as Codex speaks it: `POST …/responses`, answered with server-sent events."""

import itertools
from collections.abc import Mapping
from typing import Any

import msgspec

from ..http_server import HttpRequest

FREEFORM = "apply_patch"
"""The tool whose input is plain text and not JSON: it is called with `{"input": text}`."""

HOSTED = "web_search"
"""The tool that the vendor runs beside the model: its call shows up as an item that is already done. As there, it is
run only when the request offers it, and with access to the web; then the page is really fetched."""

_number = itertools.count(1)


class Responses:
    """One streamed response."""

    @staticmethod
    def hears(request: HttpRequest) -> bool:
        return request.path.endswith(("/responses", "/models", "/responses/compact"))

    @staticmethod
    async def aside(request: HttpRequest) -> bool:
        """The list of models, and the title that Codex's terminal asks for beside a thread's first turn."""
        if request.method != "POST":
            await request.respond(200, b'{"models":[],"data":[]}')
            return True
        about: dict[str, Any] = request.json().get("client_metadata") or {}
        if '"thread_source":"thread_title"' not in about.get("x-codex-turn-metadata", ""):
            return False
        voice = Responses(request)
        await voice.start()
        await voice.say('{"title":"A scripted title"}', first=True, last=True)
        await voice.finish()
        return True

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._id = f"resp_{next(_number)}"
        self._index = 0
        self._pieces: list[str] = []
        self._item = ""
        body: Any = request.json()
        self._tools: list[dict[str, Any]] = body.get("tools") or []
        self._words = len(str(body.get("input", "")).split())
        self._spoken = 0
        self._thought = 0
        self.reported_tokens = (0, 0)

    async def start(self) -> None:
        await self._request.stream()
        await self._send("response.created", response={"id": self._id})

    async def say(self, piece: str, *, first: bool, last: bool) -> None:
        if first:
            self._item = self._name("msg")
            self._pieces.clear()
            item: dict[str, Any] = {"type": "message", "id": self._item, "role": "assistant", "content": []}
            await self._send("response.output_item.added", output_index=self._index, item=item)
        self._pieces.append(piece)
        position = {"item_id": self._item, "output_index": self._index, "content_index": 0}
        await self._send("response.output_text.delta", **position, delta=piece)
        if last:
            text = "".join(self._pieces)
            self._spoken += len(text.split())
            content: list[Any] = [{"type": "output_text", "text": text, "annotations": []}]
            await self._done({"type": "message", "id": self._item, "role": "assistant", "content": content})

    async def think(self, text: str) -> None:
        name = self._name("rs")
        empty: dict[str, Any] = {"type": "reasoning", "id": name, "summary": []}
        await self._send("response.output_item.added", output_index=self._index, item=empty)
        position = {"item_id": name, "output_index": self._index, "summary_index": 0}
        await self._send("response.reasoning_summary_part.added", **position, part={"type": "summary_text", "text": ""})
        await self._send("response.reasoning_summary_text.delta", **position, delta=text)
        self._thought += len(text.split())
        await self._done({**empty, "summary": [{"type": "summary_text", "text": text}], "encrypted_content": "none"})

    async def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        self._spoken += 1
        if name == HOSTED:
            await self._search(arguments)
            return
        item: dict[str, Any] = {"id": self._name("fc"), "call_id": self._name("call"), "name": name}
        if name == FREEFORM:
            item |= {"type": "custom_tool_call", "status": "completed", "input": arguments["input"]}
        else:
            values = dict(arguments)
            if namespace := values.pop("namespace", ""):  # how an MCP server's tools are told apart
                item["namespace"] = namespace
            item |= {"type": "function_call", "arguments": msgspec.json.encode(values).decode()}
        await self._done(item)

    async def _search(self, action: Mapping[str, Any]) -> None:
        if not any(tool["type"] == HOSTED and tool.get("external_web_access") for tool in self._tools):
            await self.say("There is no web search here.", first=True, last=True)
            return
        import httpx2

        async with httpx2.AsyncClient(timeout=30, trust_env=False, verify=False) as client:
            await client.get(action["url"])
        name = self._name("ws")
        await self._done({"type": "web_search_call", "id": name, "status": "completed", "action": dict(action)})
        await self.say("The page was read.", first=True, last=True)  # nobody else would ask the model to go on

    async def finish(self) -> None:
        usage = {
            "input_tokens": self._words,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": self._spoken + self._thought,
            "output_tokens_details": {"reasoning_tokens": self._thought},
            "total_tokens": self._words + self._spoken + self._thought,
        }
        self.reported_tokens = (self._words, self._spoken + self._thought)
        await self._send("response.completed", response={"id": self._id, "usage": usage})
        await self._request.end()

    async def refuse(self, status: int, message: str) -> None:
        body = {"error": {"type": "scripted_error", "code": "scripted", "message": message}}
        await self._request.respond(status, msgspec.json.encode(body))

    def _name(self, kind: str) -> str:
        return f"{kind}_{self._id}_{self._index}"

    async def _done(self, item: Mapping[str, Any]) -> None:
        await self._send("response.output_item.done", output_index=self._index, item=item)
        self._index += 1

    async def _send(self, kind: str, **fields: Any) -> None:
        data = msgspec.json.encode({"type": kind, **fields})
        await self._request.send(b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n")
