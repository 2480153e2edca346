"""Errors of the client, and how a hub's error response becomes an exception.

TielineError
├── HubError
│   ├── NoHub             none is running here, and none is named
│   ├── HubUnreachable    it does not answer, or went away for too long
│   ├── Unauthorized      it does not know the token, or the device was revoked
│   └── HubFailed         it refused, or failed, in a way that has no name here
└── …                     what the hub refuses by name is raised by it: UsageError, AlreadyAnswered, NodeOffline …
"""

import msgspec

from ..errors import TielineError, UsageError, kind_of
from ..protocol.problems import Problem


class HubError(TielineError):
    pass


class NoHub(HubError):
    def __init__(self) -> None:
        super().__init__(
            "no hub is running here",
            hint="Start one with `tieline up`, or name one with TIELINE_HUB and TIELINE_TOKEN.",
        )


class HubUnreachable(HubError):
    """What was on its way may or may not have arrived; doing it again with the same id is safe."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(
            f"the hub at {url} cannot be reached: {problem}",
            hint="See `tieline status`; `tieline up` starts one.",
        )
        self.url = url


class Unauthorized(HubError):
    def __init__(self, url: str, detail: str = "") -> None:
        super().__init__(
            f"the hub at {url} refused the credentials" + (f": {detail}" if detail else ""),
            hint="The token is unknown to it, or its device was revoked. Pair again, or check TIELINE_TOKEN.",
        )
        self.url = url


class HubFailed(HubError):
    """`status` is the HTTP status, `code` the hub's own name for it, `instance` what its log calls the request."""

    def __init__(self, message: str, *, status: int, code: str = "", hint: str = "", instance: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code
        self.instance = instance


USAGE_STATUSES = (400, 404, 405, 409, 413, 415, 422)
"""Statuses that say that the request itself cannot be."""

_decode = msgspec.json.Decoder(Problem).decode


def error_from_response(url: str, status: int, body: bytes) -> TielineError:
    """The error that a response other than a success stands for."""
    try:
        problem = _decode(body)
    except msgspec.MsgspecError:
        problem = Problem(status=status, title=f"the hub responded with status {status} and no reason")
    if status == 401:
        return Unauthorized(url, problem.detail)
    message = problem.detail or problem.title
    if known := error_by_name(problem.code, message, problem.field, problem.hint):
        return known
    if status in USAGE_STATUSES:
        return UsageError(message, field=problem.field, hint=problem.hint)
    return HubFailed(message, status=status, code=problem.code, hint=problem.hint, instance=problem.instance)


def error_by_name(code: str, message: str, field: str = "", hint: str = "") -> TielineError | None:
    """The error of this name, as the hub or a node raised it; None when there is none by that name."""
    kind = kind_of(code)
    if code == "AlreadyAnswered":
        from ..sessions.pending_asks import AlreadyAnswered as kind
    if kind is None:
        return None
    error = kind.__new__(kind)  # not by its own constructor, which would write the message anew
    TielineError.__init__(error, message, hint=hint)
    if isinstance(error, UsageError):
        error.field = field
    return error
