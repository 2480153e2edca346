"""Errors as the callers see them: one place turns what went wrong into problem details (RFC 9457).

An error's name decides the status, so that a refusal that came from a node reads the same as one from here. What is
not ours is a 500 whose text stays in the log.
"""

from http import HTTPStatus

import msgspec

from ...channels.inbound_http import HTTP_STATUS as RELAY_STATUS
from ...envelopes import Refused as MessageRefused
from ...errors import TielineError, kind_of
from ...protocol.commands import CommandRefused
from ...protocol.problems import MEDIA_TYPE, Problem

STATUS: dict[str, int] = {
    "Unauthenticated": 401,
    "Forbidden": 403,
    "NotFound": 404,
    "UnknownMember": 404,
    "UnknownNode": 404,
    "UnknownMessage": 404,
    "UnknownTeam": 404,
    "UnknownSchedule": 404,
    "UnknownRule": 404,
    "SlowRequest": 408,
    "AlreadyAnswered": 409,
    "ConcurrentChange": 409,
    "Conflict": 409,
    "InProgress": 409,
    "PlanChanged": 409,
    "MergeConflict": 409,
    "SessionClosed": 409,
    "BodyTooLarge": 413,
    "RecordTooLarge": 413,
    "KeyReused": 422,
    "PolicyUnenforceable": 422,
    "Unsupported": 422,
    "TooManyRequests": 429,
    "BusFull": 507,
    "BusError": 503,
    "ChannelStarting": 503,
    "NodeOffline": 503,
    "RelayStandby": 503,
    "SearchRebuilding": 503,
    "AgentError": 502,
    "InternalError": 502,  # of a node
    "expired": 504,
    "indeterminate": 409,
    "GitFailed": 400,
    "TerminalUnreachable": 400,
    "UsageError": 400,
    "TielineError": 500,
}
"""By the error's name, else by those it descends from."""
INTERNAL_ERROR = "internal error; the hub's log has the details"


class RequestRefused(TielineError):
    """The hub does not do it. `code` is one of STATUS, `field` the part of the request."""

    def __init__(self, code: str, message: str, *, field: str = "", hint: str = "", retry_s: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.field = field
        self.retry_s = retry_s  # when it is worth another try


class NotFound(RequestRefused):
    def __init__(self, what: str, id: str) -> None:
        super().__init__("NotFound", f"no {what} {id!r}", field=what, hint=f"See the list of {what}s.")


def problem_from_error(error: TielineError, instance: str = "") -> Problem:
    code, field = type(error).__name__, str(getattr(error, "field", ""))
    match error:
        case RequestRefused():
            code, status = error.code, STATUS[error.code]
        case CommandRefused():  # a name we do not know is a usage error of a newer peer
            code, status = error.code, STATUS.get(error.code) or _inherited_status(error.code)
        case MessageRefused():
            code, status = error.reason, RELAY_STATUS.get(error.reason, 422)
        case _:
            status = next((STATUS[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in STATUS), 500)
    return make_problem(code, status, error.message, field, error.hint, instance)


def http_problem(status: int, detail: str = "", instance: str = "", *, field: str = "") -> Problem:
    """What has no error of its own: no such route, no such method, a failure of ours."""
    code = "UsageError" if field else HTTPStatus(status).phrase.replace(" ", "")
    return make_problem(code, status, detail, field, "", instance)


def encode_problem(problem: Problem) -> bytes:
    return msgspec.json.encode(problem)


def problem_headers(problem: Problem, retry_s: float = 0.0) -> list[tuple[bytes, bytes]]:
    headers = [(b"content-type", MEDIA_TYPE.encode())]
    if problem.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="tieline"'))
    if retry_s > 0:
        headers.append((b"retry-after", str(max(1, round(retry_s + 0.5))).encode()))
    return headers


def make_problem(code: str, status: int, detail: str, field: str, hint: str, instance: str) -> Problem:
    return Problem(
        status=status,
        title=HTTPStatus(status).phrase,
        detail=detail,
        code=code,
        field=field,
        hint=hint,
        instance=instance,
    )


def _inherited_status(code: str) -> int:
    """The status of an error that is not named above but descends from one that is."""
    kind = kind_of(code)
    return next((STATUS[parent.__name__] for parent in kind.__mro__ if parent.__name__ in STATUS), 400) if kind else 400
