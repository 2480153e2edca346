"""The service of Augment as Auggie speaks it: `POST /chat-stream`, answered with lines of JSON.

Its model is one of many things that the agent asks this service for. What else it wants at its start, such as the list
of models, is answered beside the script.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import msgspec

from ..http_server import HttpRequest

MODELS = {
    "scripted": {"displayName": "Scripted", "description": "Plays a script.", "isDefault": True},
    "another": {"displayName": "Another", "description": "Plays it, too.", "isDefault": False},
}
FLAGS: Mapping[str, Any] = {
    "enable_model_registry": True,
    "model_registry": '{"Scripted":"scripted","Another":"another"}',
    "model_info_registry": msgspec.json.encode(MODELS).decode(),
}
"""Features that the service switches on for an account."""
COMPACT: Mapping[str, Any] = {"cli_compact_tool_surface": True}
"""Other tools: a few, with short names."""
SUBAGENTS: Mapping[str, Any] = {"beachhead_enable_sub_agent_tool": True}

TOOL_USE, THINKING, TOKEN_USAGE = 5, 8, 10
"""Types of the nodes of an answer."""
END_TURN, TOOLS_WANTED = 1, 3
"""Why the model stopped."""

_calls = itertools.count(1)


def service(flags: Mapping[str, Any]) -> type["Augment"]:
    """The service for an account with these features, besides the usual ones."""
    return type("Augment", (Augment,), {"flags": {**FLAGS, **flags}})


class Augment:
    """Writes one answer. Token counts are made up from the lengths."""

    flags = FLAGS

    @staticmethod
    def hears(request: HttpRequest) -> bool:
        return request.method == "POST"

    @classmethod
    async def aside(cls, request: HttpRequest) -> bool:
        """All but the model's part in the agent's loop, in which tools are offered."""
        if request.path == "/chat-stream":
            return False
        await request.respond(200, msgspec.json.encode(cls._answer(request)))
        return True

    @classmethod
    def _answer(cls, request: HttpRequest) -> Mapping[str, Any]:
        match request.path:
            case "/get-models":
                limits = {"suggested_prefix_char_count": 1, "suggested_suffix_char_count": 1}
                models = [{"name": name, **limits} for name in MODELS]
                return {"default_model": "scripted", "models": models, "languages": [], "feature_flags": cls.flags}
            case "/agents/list-remote-tools":
                return {"tools": []}
            case "/find-missing":  # what of the code it has not got yet
                return {"unknown_memory_names": request.json()["mem_object_names"], "nonindexed_blob_names": []}
            case "/batch-upload":
                return {"blob_names": [each["blob_name"] for each in request.json()["blobs"]]}
            case _:
                return {}

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._heard = len(request.body) // 4 + 1
        self._spoken = 0
        self._nodes = 0
        self._calls = 0
        self.reported_tokens = (0, 0)

    async def start(self) -> None:
        await self._request.stream("application/json")

    async def say(self, piece: str, *, first: bool, last: bool) -> None:
        self._spoken += len(piece) // 4 + 1
        await self._send(text=piece)

    async def think(self, text: str) -> None:
        self._spoken += len(text) // 4 + 1
        await self._node(THINKING, thinking={"summary": text})

    async def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        whole = msgspec.json.encode(arguments).decode()
        self._spoken += len(whole) // 4 + 1
        self._calls += 1
        use = {"tool_use_id": f"toolu_{next(_calls)}", "tool_name": name, "input_json": whole}
        await self._node(TOOL_USE, tool_use=use)

    async def finish(self) -> None:
        self.reported_tokens = (self._heard, max(1, self._spoken))
        into, out = self.reported_tokens
        await self._node(TOKEN_USAGE, token_usage={"input_tokens": into, "output_tokens": out})
        await self._send(stop_reason=TOOLS_WANTED if self._calls else END_TURN)
        await self._request.end()

    async def refuse(self, status: int, message: str) -> None:
        await self._request.respond(status, msgspec.json.encode({"error": message}))

    async def _node(self, kind: int, **fields: Any) -> None:
        self._nodes += 1
        await self._send(nodes=[{"id": self._nodes, "type": kind, "content": "", **fields}])

    async def _send(self, *, text: str = "", **fields: Any) -> None:
        await self._request.send(msgspec.json.encode({"text": text, **fields}) + b"\n")
