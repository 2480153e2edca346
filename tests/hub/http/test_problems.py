"""An error reads the same to the hub's callers, whether it was raised here or on another machine."""

import pytest

from tieline import errors
from tieline.envelopes import Refused
from tieline.errors import TielineError
from tieline.hub.http.problems import STATUS, problem_from_error
from tieline.protocol.commands import CommandRefused, Result, raise_if_refused, refusal_of
from tieline.sessions.attached_session import TerminalUnreachable
from tieline.sessions.git_actions import PlanChanged
from tieline.sessions.git_merge import MergeConflict
from tieline.sessions.pending_asks import AlreadyAnswered
from tieline.sessions.safe_git import GitFailed

OF_COMMANDS = [
    *(kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TielineError)),
    AlreadyAnswered,
    GitFailed,
    MergeConflict,
    PlanChanged,
    TerminalUnreachable,
]


@pytest.mark.parametrize("kind", OF_COMMANDS, ids=lambda kind: kind.__name__)
def test_what_a_node_refuses_reads_as_if_it_were_refused_here(kind: type[TielineError]) -> None:
    error = kind.__new__(kind)
    TielineError.__init__(error, "it cannot be", hint="Do it otherwise.")
    if isinstance(error, errors.UsageError):
        error.field = "cwd"
    with pytest.raises(CommandRefused) as refused:
        raise_if_refused(Result(id="c", refusal=refusal_of(error)))
    problem = problem_from_error(error, "i")
    assert problem_from_error(refused.value, "i") == problem
    assert (problem.code, problem.detail, problem.hint, problem.instance) == (
        kind.__name__,
        "it cannot be",
        "Do it otherwise.",
        "i",
    )


@pytest.mark.parametrize(("code", "status"), [("expired", 504), ("InternalError", 502), ("OfANewerPeer", 400)])
def test_a_refusal_without_a_class_of_its_own(code: str, status: int) -> None:
    problem = problem_from_error(CommandRefused(code, "no", field="f"))
    assert (problem.code, problem.status, problem.field) == (code, status, "f")


@pytest.mark.parametrize(("reason", "status"), [("denied", 403), ("mailbox_full", 429), ("no_endpoint", 422)])
def test_a_refusal_of_the_relay_is_known_by_its_reason(reason: str, status: int) -> None:
    problem = problem_from_error(Refused(reason, "no", hint="Wait."))
    assert (problem.code, problem.status, problem.hint) == (reason, status, "Wait.")
    assert reason not in STATUS
