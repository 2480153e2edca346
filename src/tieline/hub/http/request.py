"""The request that handlers get, and what they share: the parsed body and query, a JSON response."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import starlette.requests
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...wire.json_lines import decode_line
from .problems import RequestRefused
from .request_context import context_of

if TYPE_CHECKING:
    from ..hub import Hub

T = TypeVar("T")

JSON = "application/json"
MAX_FIELDS = 100
"""Of a query."""

_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_FIELD = re.compile(r"`\$\.?([^`]*)`")
_NAMED = re.compile(r"(?:unknown|required) field `([^`]+)`")


class Request(starlette.requests.Request):
    """Starlette's request, with the hub that it came to and what that has found out about it."""

    @property
    def hub(self) -> "Hub":
        return self.app.hub

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        self.context = context_of(scope)
        self._body = self.context.body  # the middleware has read it


NO_CONTENT = Response(status_code=204)


def json_response(value: object, status_code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON of a value by msgspec; bytes are JSON already."""
    content = value if isinstance(value, bytes) else msgspec.json.encode(value)
    return Response(content, status_code, headers, JSON)


async def parse_body(request: Request, kind: type[T], *, empty: T | None = None) -> T:
    """The body as a value. An invalid body is refused with the field's name; `empty` stands for no body at all."""
    data = await request.body()
    if not data and empty is not None:
        return empty
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return decode_line(decoder, data)
    except msgspec.ValidationError as error:
        raise validation_error(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestRefused("UsageError", f"the body is not valid JSON: {error}", field="body") from None


def parse_query(request: Request, kind: type[T]) -> T:
    """The query as a value. Of a name that is there twice the last counts."""
    if request.scope["query_string"].count(b"&") >= MAX_FIELDS:
        raise RequestRefused("UsageError", f"the query has more than {MAX_FIELDS} fields", field="query")
    try:
        return msgspec.convert(dict(request.query_params), kind, strict=False)
    except msgspec.ValidationError as error:
        raise validation_error(error) from None


def validation_error(error: msgspec.ValidationError) -> RequestRefused:
    """msgspec names the position of a wrong value as `$.policy.shell`, and an unknown or missing field by its name."""
    message = str(error)
    where = match.group(1) if (match := _FIELD.search(message)) else ""
    name = match.group(1) if (match := _NAMED.search(message)) else ""
    field = ".".join(part for part in (where, name) if part) or "body"
    return RequestRefused("UsageError", message, field=field, hint="See /api/v1/docs.")
