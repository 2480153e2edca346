"""Which session a harness's request speaks for: by the connection first, and never by a claim alone."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from tieline.hub.http.problems import RequestRefused
from tieline.hub.http.request_context import RequestContext
from tieline.hub.security import harness_caller as module
from tieline.hub.security.auth import OWNER
from tieline.hub.security.harness_caller import harness_caller
from tieline.hub.security.local_peer import LocalPeer
from tieline.mesh.records import Caller
from tieline.processes.process_table import process_key
from tieline.protocol.views import DeviceView

CLAIM: dict[str, Any] = {"harness": "claude-code", "session": "theirs", "cwd": "/place"}
MESH: Any = SimpleNamespace(machine="here")


def device(id: str) -> DeviceView:
    return DeviceView(id=id, name="laptop", kind="mesh", created_at=0.0, seen_at=0.0)


def test_a_driven_agents_process_is_its_session_whatever_it_says() -> None:
    for id in (OWNER, "session-mine", "0123456789"):
        context = RequestContext(session="mine", device=device(id), peer=LocalPeer(pid=os.getpid()))
        assert harness_caller(context, MESH, **CLAIM) == Caller(driven="mine")


def test_on_this_machine_it_is_the_harness_that_started_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def starter(pid: int) -> int:
        return os.getppid() if pid == os.getpid() else 0

    monkeypatch.setattr(module, "starter_of", starter)
    peer = LocalPeer(pid=os.getpid(), lineage=(os.getpid(), os.getppid()))
    context = RequestContext(device=device(OWNER), peer=peer)
    claims: tuple[tuple[dict[str, Any], int], ...] = ((CLAIM, os.getppid()), ({**CLAIM, "direct": True}, os.getpid()))
    for claim, process in claims:
        assert harness_caller(context, MESH, **claim) == Caller(
            machine="here",
            harness="claude-code",
            session="theirs",
            cwd="/place",
            process=process_key(process),
            lineage=(os.getpid(), os.getppid()),
        )


def test_where_nobody_has_looked_at_the_lineage_there_is_none() -> None:
    caller = harness_caller(RequestContext(device=device(OWNER)), MESH, **CLAIM)
    assert (caller.machine, caller.session, caller.process, caller.lineage) == ("here", "theirs", "", None)


def test_a_device_elsewhere_names_sessions_of_its_own_machine_only() -> None:
    """By a name that no other device can have; its folders and processes are not ours."""
    context = RequestContext(device=device("0123456789"), peer=LocalPeer(pid=os.getpid()))
    expected = Caller(machine="laptop-456789", harness="claude-code", session="theirs")
    assert harness_caller(context, MESH, **CLAIM) == expected


def test_whoever_is_not_known_is_refused() -> None:
    with pytest.raises(RequestRefused) as refused:
        harness_caller(RequestContext(), MESH, **CLAIM)
    assert refused.value.code == "Unauthenticated"
