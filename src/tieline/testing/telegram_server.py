"""A Bot API on loopback, for tests: what a bot sends is kept, what people write comes with the next poll.

It speaks as much of the protocol as a bot needs: long polling, messages, edits, buttons, files, chat actions, webhooks.
It can refuse on purpose (`fail`), and hand out anything as an update (`push`).
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Mapping
from email import message_from_bytes
from typing import Any
from urllib.parse import parse_qs

import msgspec

from .http_server import HttpRequest, LoopbackServer

TOKEN = "4242:TEST-bot-token"
MAX_CALLS = 10_000


class BotCall(msgspec.Struct, frozen=True):
    """What the bot asked of the API."""

    method: str
    fields: Mapping[str, str]
    files: Mapping[str, bytes]

    def json(self, name: str) -> Any:
        return msgspec.json.decode(self.fields[name])


class BotApi:
    """`async with BotApi() as api`: `api.url` is the base, `api.token` the bot's token."""

    def __init__(self, token: str = TOKEN) -> None:
        self.token = token
        self.calls: deque[BotCall] = deque(maxlen=MAX_CALLS)
        self.files: dict[str, bytes] = {}  # path → content, for getFile
        self.webhook = ""
        self._updates: deque[bytes] = deque()
        self._failures: deque[tuple[str, int, bytes]] = deque()
        self._ids = itertools.count(1)
        self._messages = itertools.count(100)
        self._changed = asyncio.Condition()
        self._server = LoopbackServer(self._answer)

    async def __aenter__(self) -> "BotApi":
        await self._server.__aenter__()
        self.url = self._server.url
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.__aexit__()

    # --- what people do --------------------------------------------------------------------------------

    async def write(self, chat: int, text: str, *, reply_to: int = 0, bot: bool = False, **more: Any) -> int:
        """A message in a chat. Its id."""
        message = self.message(chat, text=text, bot=bot, **more)
        if reply_to:
            message["reply_to_message"] = self.message(chat, message_id=reply_to, text="before")
        await self.push({"message": message})
        return int(message["message_id"])

    async def press(self, chat: int, data: str, *, user: int = 0, message_id: int = 1) -> None:
        """A button below a message of the bot."""
        await self.push(
            {
                "callback_query": {
                    "id": str(next(self._ids)),
                    "from": _user(user or chat),
                    "chat_instance": "1",
                    "data": data,
                    "message": self.message(chat, message_id=message_id, text="the question"),
                }
            }
        )

    async def push(self, update: Mapping[str, Any]) -> None:
        """Any update, with an id of ours."""
        await self.push_raw(msgspec.json.encode({"update_id": next(self._ids), **update}))

    async def push_raw(self, update: bytes) -> None:
        async with self._changed:
            self._updates.append(update)
            self._changed.notify_all()

    def update(self, **content: Any) -> bytes:
        """An update as Telegram would post it to a webhook."""
        return msgspec.json.encode({"update_id": next(self._ids), **content})

    def message(self, chat: int, *, message_id: int = 0, bot: bool = False, **content: Any) -> dict[str, Any]:
        kind = {"type": "private", "first_name": "Ada"} if chat > 0 else {"type": "group", "title": "a group"}
        return {
            "message_id": message_id or next(self._messages),
            "date": 1_700_000_000,
            "chat": {"id": chat, **kind},
            "from": _user(abs(chat), bot=bot),
            **content,
        }

    def fail(self, method: str, status: int, *, retry_after: int = 0, description: str = "no") -> None:
        """The next call of a method is refused."""
        body: dict[str, Any] = {"ok": False, "error_code": status, "description": description}
        if retry_after:
            body["parameters"] = {"retry_after": retry_after}
        self._failures.append((method.lower(), status, msgspec.json.encode(body)))

    def recover(self) -> None:
        """Nothing more is refused."""
        self._failures.clear()

    # --- what the bot did ------------------------------------------------------------------------------

    def made(self, method: str) -> list[BotCall]:
        return [call for call in list(self.calls) if call.method == method.lower()]

    async def called(self, method: str, count: int = 1, *, timeout: float = 30.0) -> list[BotCall]:
        """Wait until a method was called so often."""
        try:
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait_for(lambda: len(self.made(method)) >= count)
        except TimeoutError:
            seen = [call.method for call in self.calls if call.method != "getupdates"]
            raise AssertionError(f"{method} was called {len(self.made(method))} times; seen: {seen[-40:]}") from None
        return self.made(method)

    def said(self, chat: int) -> list[str]:
        """Texts the bot sent to a chat, edits in their place."""
        texts: dict[str, str] = {}
        for number, call in enumerate(list(self.calls)):
            if call.fields.get("chat_id") != str(chat) or "text" not in call.fields:
                continue
            key = call.fields.get("message_id") or f"new {number}"
            if call.method == "sendmessage":
                texts[call.fields["_id"]] = call.fields["text"]
            elif call.method == "editmessagetext":
                texts[key] = call.fields["text"]
        return list(texts.values())

    # --- the protocol ----------------------------------------------------------------------------------

    async def _answer(self, request: HttpRequest) -> None:
        if request.path.startswith(f"/file/bot{self.token}/"):
            content = self.files.get(request.path.removeprefix(f"/file/bot{self.token}/"))
            await request.respond(200 if content is not None else 404, content or b"", "application/octet-stream")
            return
        prefix = f"/bot{self.token}/"
        if not request.path.startswith(prefix):
            await request.respond(401, b'{"ok":false,"error_code":401,"description":"Unauthorized"}')
            return
        fields, files = _form(request)
        call = BotCall(request.path.removeprefix(prefix).lower(), fields, files)
        for failure in list(self._failures):
            if failure[0] == call.method:
                self._failures.remove(failure)
                await self._keep(BotCall(f"refused:{call.method}", fields, files))
                await request.respond(failure[1], failure[2])
                return
        result = await self._result(call)
        await request.respond(200, b'{"ok":true,"result":' + result + b"}")

    async def _result(self, call: BotCall) -> bytes:
        fields = dict(call.fields)
        chat = int(fields["chat_id"]) if fields.get("chat_id", "").lstrip("-").isdigit() else 1
        if call.method == "getupdates":
            return await self._poll(int(fields.get("offset", "0") or 0), float(fields.get("timeout", "0") or 0))
        if call.method == "getme":
            result: Any = {"id": 4242, "is_bot": True, "first_name": "Tieline", "username": "tieline_bot"}
        elif call.method in ("sendmessage", "senddocument", "sendphoto"):
            sent = self.message(chat, bot=True, text=fields.get("text", ""))
            fields["_id"] = str(sent["message_id"])
            result = sent
        elif call.method in ("editmessagetext", "editmessagereplymarkup"):
            result = self.message(chat, bot=True, message_id=int(fields["message_id"]), text=fields.get("text", "x"))
        elif call.method == "getfile":
            id = fields["file_id"]
            path = f"documents/{id}"
            size = len(self.files.get(path, b""))
            result = {"file_id": id, "file_unique_id": id, "file_size": size, "file_path": path}
        else:
            if call.method == "setwebhook":
                self.webhook = fields.get("url", "")
            result = True
        await self._keep(BotCall(call.method, fields, call.files))
        return msgspec.json.encode(result)

    async def _keep(self, call: BotCall) -> None:
        async with self._changed:
            self.calls.append(call)
            self._changed.notify_all()

    async def _poll(self, offset: int, timeout: float) -> bytes:
        async with self._changed:
            self._drop(offset)
            if not self._updates:
                try:
                    async with asyncio.timeout(timeout):
                        await self._changed.wait_for(lambda: bool(self._updates))
                except TimeoutError:
                    return b"[]"
            return b"[" + b",".join(list(self._updates)[:100]) + b"]"

    def _drop(self, offset: int) -> None:
        """What the bot has confirmed."""
        while self._updates and _update_id(self._updates[0]) < offset:
            self._updates.popleft()


class _Numbered(msgspec.Struct):
    update_id: int = 0


def _update_id(update: bytes) -> int:
    try:
        return msgspec.json.decode(update, type=_Numbered).update_id
    except msgspec.DecodeError:
        return 0


def _user(id: int, *, bot: bool = False) -> dict[str, Any]:
    return {"id": id, "is_bot": bot, "first_name": "Ada", "username": f"user{id}"}


def _form(request: HttpRequest) -> tuple[dict[str, str], dict[str, bytes]]:
    kind = request.headers.get("content-type", "")
    if "multipart/form-data" not in kind:
        return {
            name: values[-1] for name, values in parse_qs(request.body.decode(), keep_blank_values=True).items()
        }, {}
    fields: dict[str, str] = {}
    files: dict[str, bytes] = {}
    form = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + request.body)
    for part in form.walk():
        name = part.get_param("name", header="content-disposition")
        if part.is_multipart() or not isinstance(name, str):
            continue
        content = part.get_payload(decode=True)
        data = content if isinstance(content, bytes) else b""
        if (filename := part.get_filename()) is not None:
            files[filename] = data
        else:
            fields[name] = data.decode()
    return fields, files
