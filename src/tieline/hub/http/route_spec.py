"""What the OpenAPI document tells of a route: body, response, problems."""

from typing import Any

from msgspec import Struct


class RouteSpec(Struct, frozen=True, kw_only=True):
    """What is not said is read off the handler: its parameters, its words (the docstring)."""

    body: Any = None
    body_required: bool = True  # else it may be left out
    response: Any = None
    status: int = 200
    media_type: str = "application/json"
    may_be_pending: bool = False  # 202 with a CommandView when the node has not answered yet
    problems: tuple[str, ...] = ()  # names of `problems.STATUS`, beside those that every route has
