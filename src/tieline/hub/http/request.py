"""What the handlers of routes share: who asks, for what, with which words; and the answer."""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from ...protocol.views import DeviceView
from .problems import RequestRefused

if TYPE_CHECKING:
    from ..hub import Hub
    from .responses import Scope, Send
    from .routing import AsgiRoute, Route

T = TypeVar("T")

JSON = "application/json"

_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_FIELD = re.compile(r"`\$\.?([^`]*)`")
_NAMED = re.compile(r"(?:unknown|required) field `([^`]+)`")


class Request(Struct):
    """A request that was let in; its body is here already, whole."""

    hub: "Hub"
    scope: "Scope"
    routes: "tuple[Route | AsgiRoute, ...]"  # all there are

    @property
    def headers(self) -> dict[str, str]:
        """By their names in small letters."""
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self.scope["headers"]}

    @property
    def body(self) -> bytes:
        return self.scope["state"].get("body", b"")

    @property
    def id(self) -> str:
        return self.scope["state"].get("request", "")


class Response(Struct, frozen=True):
    body: bytes = b""
    status: int = 200
    media: str = JSON
    headers: Mapping[str, str] = {}

    async def send(self, send: "Send") -> None:
        found = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers.items()]
        if self.status not in (204, 304):
            text = self.media.startswith("text/") and "charset" not in self.media
            found.append((b"content-type", f"{self.media}; charset=utf-8".encode() if text else self.media.encode()))
            found.append((b"content-length", b"%d" % len(self.body)))
        await send({"type": "http.response.start", "status": self.status, "headers": found})
        await send({"type": "http.response.body", "body": self.body})


DONE = Response(status=204)


def json_response(value: object, status: int = 200, headers: Mapping[str, str] = {}) -> Response:
    """JSON of a value; bytes are JSON already."""
    return Response(value if isinstance(value, bytes) else msgspec.json.encode(value), status, headers=headers)


def device_of(request: Request) -> DeviceView:
    """Who asks. Behind every door that is not open there is one."""
    device: DeviceView | None = request.scope["state"].get("device")
    if device is None:
        raise RequestRefused("Unauthenticated", "who are you?")
    return device


def via_of(request: Request) -> str:
    """From where: the process that came by the owner's socket, or the kind of device."""
    return request.scope["state"].get("via") or device_of(request).kind


def idempotency_id(request: Request) -> str:
    """The id of what is to be done once, when the request has an Idempotency-Key; else empty."""
    return request.scope["state"].get("once", "")


def parse_body(request: Request, kind: type[T], *, empty: T | None = None) -> T:
    """The body as a value. Bad ones are refused with the field's name; `empty` stands for no body at all."""
    data = request.body
    if not data and empty is not None:
        return empty
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise invalid(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestRefused("UsageError", f"the body is not valid JSON: {error}", field="body") from None


def parse_query(said: Iterable[tuple[str, str]], kind: type[T]) -> T:
    """What a query says, as the fields of a value; of what it says twice the last counts."""
    try:
        return msgspec.convert(dict(said), kind, strict=False)
    except msgspec.ValidationError as error:
        raise invalid(error) from None


def invalid(error: msgspec.ValidationError) -> RequestRefused:
    """msgspec says `$.policy.shell` where it is wrong, and the name where it is too much or missing."""
    message = str(error)
    where = found.group(1) if (found := _FIELD.search(message)) else ""
    name = found.group(1) if (found := _NAMED.search(message)) else ""
    field = ".".join(part for part in (where, name) if part) or "body"
    return RequestRefused("UsageError", message, field=field, hint="See /api/v1/docs.")
