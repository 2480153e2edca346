"""The hub as an ASGI application: Litestar's routes behind the gate.

A file in `routes/` (or `page.py`) gives its handlers by `routes(hub)`; PARTS names them. Nothing is reachable that is
not one of them, and nothing without passing the gate.
"""

from importlib import import_module
from typing import Any, cast

from litestar import Litestar, Request, Response
from litestar.datastructures import State
from litestar.exceptions import HTTPException, ValidationException

from ..errors import TielineError
from ..protocol.problems import MEDIA_TYPE, Problem
from .gate import App, Gate
from .hub import Hub
from .problems import Problematic, Refused, headers, http_problem, problem_of, render

PARTS = (
    "routes.access",
    "routes.nodes",
    "routes.sessions",
    "routes.prompts",
    "routes.asks",
    "routes.service",
    "routes.stream",
    "routes.push",
    "routes.link",
    "routes.relay",
    "routes.dead",
    "routes.channels",
    "routes.hooks",
    "page",
)


def build(hub: Hub) -> Gate:
    return Gate(cast(App, application(hub)), hub)


def application(hub: Hub) -> Litestar:
    """All routes, without the gate: for the gate alone, and for the test that knocks at every one of them."""
    handlers: list[Any] = []
    for part in PARTS:
        handlers += import_module(f"{__package__}.{part}").routes(hub)
    return Litestar(
        handlers,
        openapi_config=None,  # ours is made from the values themselves: see openapi
        logging_config=None,
        state=State({"hub": hub}),
        exception_handlers={
            Problematic: _problematic,
            TielineError: _refused,
            HTTPException: _unknown,
            Exception: _failed,
        },
        pdb_on_exception=False,
        debug=False,
    )


def _answer(problem: Problem, retry_s: float = 0.0) -> Response[bytes]:
    more = {name.decode(): value.decode() for name, value in headers(problem, retry_s)}
    more.pop("content-type")
    return Response(render(problem), status_code=problem.status, media_type=MEDIA_TYPE, headers=more)


def _id(request: Request[Any, Any, Any]) -> str:
    return request.scope["state"].get("request", "")


def _problematic(request: Request[Any, Any, Any], error: Problematic) -> Response[bytes]:
    request.scope["state"]["why"] = error.problem.detail
    return _answer(error.problem)


def _refused(request: Request[Any, Any, Any], error: TielineError) -> Response[bytes]:
    problem = problem_of(error, _id(request))
    request.scope["state"]["why"] = error.message
    return _answer(problem, error.retry_s if isinstance(error, Refused) else 0.0)


def _unknown(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """What the framework itself refuses: no such path, no such method, a query it cannot read."""
    detail, field = error.detail, ""
    if isinstance(error, ValidationException) and isinstance(error.extra, list) and error.extra:
        first: dict[str, Any] = error.extra[0]  # type: ignore[reportUnknownVariableType]
        detail, field = str(first.get("message", detail)), str(first.get("key", ""))
    status = error.status_code if error.status_code < 500 else 500
    problem = http_problem(status, detail, _id(request), field=field)
    reply = _answer(problem)
    for name, value in (error.headers or {}).items():
        reply.headers.setdefault(name, value)
    return reply


def _failed(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    scope = request.scope
    request.app.state.hub.log.error("failed", path=scope["path"], id=_id(request), exc_info=error)
    return _answer(http_problem(500, "something went wrong here; the log says what", _id(request)))
