"""Errors: they carry their fields wherever they go."""

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tieline import errors
from tieline.errors import TielineError

MADE = (
    errors.TielineError("it failed", hint="Do that."),
    errors.UsageError("it is wrong", field="cwd", hint="Do that."),
    errors.UnknownAgent("codx", ["codex"], field="agents.mine.type"),
    errors.Unsupported("codex", "steer"),
    errors.PolicyUnenforceable("codex", ["shell"], "no sandbox"),
    errors.AgentMissing("codex", "it is not installed", hint="Install it."),
    errors.AgentDied("codex", -9, "its last words"),
    errors.SessionClosed(),
    errors.BadSubject("subject", "a b", "a space"),
    errors.RecordTooLarge(2, 1),
    errors.BusLocked("bus.db", "process 4", 4),
    errors.BusFull("bus.db", "no space"),
    errors.BusClosed(),
    errors.Conflict("sessions", "s1", 3),
)


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_copied_and_pickled_it_is_the_same(error: TielineError) -> None:
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is type(error)
        assert (str(other), other.args, vars(other)) == (str(error), error.args, vars(error))


def raise_one() -> None:
    raise errors.UnknownAgent("codx", ["codex"])


def test_a_pool_of_processes_hands_it_over() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, pytest.raises(errors.UnknownAgent) as raised:
        pool.submit(raise_one).result(timeout=60)
    assert raised.value.agent == "codx"
