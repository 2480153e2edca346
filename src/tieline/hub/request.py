"""What the handlers of routes share: whom they serve, for whom, and the body that was sent."""

import re
from typing import Any, TypeVar

import msgspec
from litestar import Request, Response

from ..protocol.views import DeviceView
from .hub import Hub
from .problems import Refused

Asked = Request[Any, Any, Any]

T = TypeVar("T")

_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_FIELD = re.compile(r"`\$\.?([^`]*)`")
_NAMED = re.compile(r"(?:unknown|required) field `([^`]+)`")


def hub_of(request: Asked) -> Hub:
    return request.app.state.hub


def device_of(request: Asked) -> DeviceView:
    """Who asks. Behind every door that is not open there is one."""
    device: DeviceView | None = request.scope["state"].get("device")
    if device is None:
        raise Refused("Unauthenticated", "who are you?")
    return device


def once_of(request: Asked) -> str:
    """The id of what is to be done once, when the request has an Idempotency-Key; else empty."""
    return request.scope["state"].get("once", "")


async def body(request: Asked, kind: type[T], *, empty: T | None = None) -> T:
    """The body as a value. Bad ones are refused with the field's name; `empty` stands for no body at all."""
    data = await request.body()
    if not data and empty is not None:
        return empty
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise Refused("UsageError", str(error), field=_field(str(error)), hint="See /api/v1/docs.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused("UsageError", f"the body is not valid JSON: {error}", field="body") from None


def answer(value: object, status: int = 200) -> Response[bytes]:
    """JSON of a value; bytes are JSON already."""
    data = value if isinstance(value, bytes) else msgspec.json.encode(value)
    return Response(data, status_code=status, media_type="application/json")


def _field(message: str) -> str:
    """msgspec says `$.policy.shell` where it is wrong, and the name where it is too much or missing."""
    where = found.group(1) if (found := _FIELD.search(message)) else ""
    name = found.group(1) if (found := _NAMED.search(message)) else ""
    return ".".join(part for part in (where, name) if part) or "body"
