"""Errors as the callers see them: one place turns what went wrong into problem details (RFC 9457).

An error's name decides the status, so that a refusal that came from a node reads the same as one from here. What is
not ours is a 500 whose text stays in the log.
"""

from http import HTTPStatus

import msgspec

from ...errors import TielineError, kind_of
from ...protocol.commands import Refusal
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
    "UsageError": 400,
    "TielineError": 500,
}
"""By the error's name, else by those it descends from."""


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
    if isinstance(error, RequestRefused):
        return make_problem(error.code, STATUS[error.code], error.message, error.field, error.hint, instance)
    status = next((STATUS[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in STATUS), 500)
    field = str(getattr(error, "field", ""))
    return make_problem(type(error).__name__, status, error.message, field, error.hint, instance)


def problem_from_refusal(refusal: Refusal, instance: str = "") -> Problem:
    """What a node refused. A name we do not know is a usage error of a newer peer."""
    status = STATUS.get(refusal.code) or _inherited_status(refusal.code)
    return make_problem(refusal.code, status, refusal.message, refusal.field, refusal.hint, instance)


def is_usage(code: str) -> bool:
    """Whether a refusal is surely the asker's own doing, so that asking again will not help. Any other may pass: a node
    whose bus is away, a failure that nobody foresaw, a name that we do not know."""
    return "UsageError" in _ancestor_names(code)


def http_problem(status: int, detail: str = "", instance: str = "", *, field: str = "") -> Problem:
    """What has no error of its own: no such route, no such method, a failure of ours."""
    code = "UsageError" if field else HTTPStatus(status).phrase.replace(" ", "")
    return make_problem(code, status, detail, field, "", instance)


def encode_problem(problem: Problem) -> bytes:
    return msgspec.json.encode(problem)


def problem_headers(problem: Problem, retry_s: float = 0.0) -> list[tuple[bytes, bytes]]:
    found = [(b"content-type", MEDIA_TYPE.encode())]
    if problem.status == 401:
        found.append((b"www-authenticate", b'Bearer realm="tieline"'))
    if retry_s > 0:
        found.append((b"retry-after", str(max(1, round(retry_s + 0.5))).encode()))
    return found


class ProblemException(Exception):
    """A problem on its way out of a route."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


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
    return next((STATUS[name] for name in _ancestor_names(code) if name in STATUS), 400)


def _ancestor_names(code: str) -> list[str]:
    """An error's name and those it descends from; none for one that we do not know."""
    kind = kind_of(code)
    return [parent.__name__ for parent in kind.__mro__] if kind else []
