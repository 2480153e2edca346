"""Only a person answers: what an agent starts is its session, on whatever way it comes."""

import asyncio
import os
import re
import socket
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.hub.agents import Inside, inside, through
from tests.hub.conftest import Running, caller, environment, running
from websockets.asyncio.client import unix_connect
from websockets.exceptions import InvalidStatus

from tieline.bootstrap.process_lock import running_file
from tieline.bootstrap.relay import open_relay
from tieline.client.hub_address import RunningHub as Found
from tieline.drivers.scripted import Scripted
from tieline.envelopes import address
from tieline.hub.security import local_peer
from tieline.hub.security.local_peer import MAX_COMMAND, peer_of
from tieline.processes.ancestry import UNKNOWN, Ancestry
from tieline.script import Reply, Run
from tieline.testing.wait_for import eventually

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(sys.platform != "linux", reason="descent is read from /proc"),
]

TIELINE = str(Path(sys.executable).parent / "tieline")


SCRIPT: list[Reply] = []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Running, None]:
    path = tmp_path_factory.mktemp("hub")
    (path / "elsewhere").mkdir()
    home = environment(path)["TIELINE_HOME"]
    approve = f"env -i TIELINE_HOME={home} {TIELINE} approve $(cat ask) > out 2>&1; echo $? > rc.new; mv rc.new rc"
    agents = {
        "scripted": Scripted(SCRIPT),
        "asker": Scripted([[Run("touch proof")]]),
        "approver": Scripted([[Run(approve)]]),
    }
    async with running(path, drivers=agents) as started, open_relay(started.hub, watch=False):
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent(shared: Running, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Inside, None]:
    async with inside(shared, tmp_path_factory.mktemp("in"), SCRIPT) as started:
        yield started


async def waiting(hub: Running) -> tuple[str, str]:
    """Another session's ask that waits for a person: the session's id and the ask's."""
    session = (await hub.session(agent="asker", policy="ask"))["id"]
    await hub.client.post(f"/api/v1/sessions/{session}/prompts", json={"text": "go"})
    ids: list[str] = []

    async def asked() -> bool:
        asks = (await hub.client.get("/api/v1/asks")).json()
        ids.extend(ask["id"] for ask in asks if ask["session"] == session)
        return bool(ids)

    async with asyncio.timeout(30):
        while not await asked():  # noqa: ASYNC110 (it is on the bus)
            await asyncio.sleep(0.02)
    return session, ids[0]


async def test_it_does_nothing_that_only_a_person_may(shared: Running, agent: Inside) -> None:
    other, ask = await waiting(shared)
    own = f"/api/v1/sessions/{agent.session}"
    acts: list[tuple[str, str, Any]] = [
        ("POST", f"/api/v1/asks/{ask}/answer", {"decision": "allow"}),
        ("GET", "/api/v1/asks", None),
        ("GET", f"/api/v1/asks/{ask}", None),
        ("PATCH", own, {"policy": "full"}),
        ("PATCH", f"/api/v1/sessions/{other}", {"policy": "full"}),
        ("POST", f"{own}/prompts", {"text": "go on"}),
        ("POST", f"/api/v1/sessions/{other}/prompts", {"text": "go on"}),
        ("POST", f"{own}/abort", None),
        ("POST", f"{own}/fork", {}),
        ("POST", "/api/v1/sessions", {"agent": "scripted", "cwd": shared.cwd, "policy": "full"}),
        ("POST", "/api/v1/sessions", {"agent": "scripted", "cwd": shared.cwd, "policy": "read-only"}),
        ("GET", "/api/v1/sessions", None),
        ("GET", f"/api/v1/sessions/{other}", None),
        ("GET", f"/api/v1/sessions/{other}/events", None),
        ("GET", f"/api/v1/sessions/{other}/messages", None),
        ("POST", "/api/v1/pairings", {"kind": "client"}),
        ("GET", "/api/v1/devices", None),
        ("DELETE", "/api/v1/devices/x", None),
        ("GET", "/api/v1/audit", None),
        ("POST", "/api/v1/channels/reload", None),
        ("GET", "/api/v1/messages", None),
        ("GET", "/api/v1/inboxes/relay.user.owner", None),
        ("GET", "/api/v1/stream/sse", None),
        ("GET", "/metrics", None),
    ]
    before = len((await shared.client.get("/api/v1/sessions")).json())
    for way in agent.ways:
        async with through(shared, way) as client:
            for method, path, body in acts:
                reply = await client.request(method, path, json=body)
                assert reply.status_code == 403, (method, path, reply.text)
                assert "only a person" in reply.json()["detail"]
                assert "tieline run --standalone" in reply.json()["hint"]
            # A key that it got hold of is of no use here: it is its session.
            keyed = await client.get("/api/v1/devices", headers=shared.headers())
            assert keyed.status_code == 403
        with pytest.raises(InvalidStatus) as refused:
            async with unix_connect(way, f"ws{shared.url.removeprefix('http')}/api/v1/stream", proxy=None):
                pass
        assert refused.value.response.status_code == 403
    assert len((await shared.client.get("/api/v1/sessions")).json()) == before
    assert (await shared.client.get(f"/api/v1/asks/{ask}")).json()["status"] == "pending"
    assert not Path(shared.cwd, "proof").exists()
    lines = (await shared.client.get("/api/v1/audit", params={"kind": "refusal"})).json()
    assert any(f"session {agent.session}" in row["who"] and re.match(r"pid \d+ ", row["via"]) for row in lines), lines


async def test_it_reads_its_own_session_and_sends_in_its_name(shared: Running, agent: Inside) -> None:
    own = f"/api/v1/sessions/{agent.session}"
    for way in agent.ways:
        async with through(shared, way) as client:
            for headers in ({}, shared.headers()):  # also with a key that it got hold of
                me = (await client.get("/api/v1/me", headers=headers)).json()
                assert me["device"]["id"] == f"session-{agent.session}"
            for path in (own, f"{own}/events", f"{own}/messages"):
                assert (await client.get(path)).status_code == 200, path
            sent = await client.post("/api/v1/messages", json={"to": "relay.user.boss", "text": "a word"})
            assert sent.status_code == 201, sent.text
            receipt = sent.json()["receipt"]
            assert receipt["sender"] == address(f"relay.agent.{agent.session}")
            assert (await client.get(f"/api/v1/messages/{receipt['id']}")).status_code == 200
            for session in ("another", (await shared.session())["id"]):
                claimed = {"to": "relay.user.boss", "text": "not mine", "session": session}
                assert (await client.post("/api/v1/messages", json=claimed)).status_code >= 400
    between = await shared.client.post("/api/v1/messages", json={"to": "relay.user.boss", "text": "of the owner"})
    async with through(shared, agent.child) as client:
        letter = between.json()["receipt"]["id"]
        assert (await client.get(f"/api/v1/messages/{letter}")).status_code == 404


async def test_the_command_line_below_an_agent_is_refused_and_a_persons_is_named(
    shared: Running, tmp_path: Path
) -> None:
    """The agent runs `tieline approve`; then a person does, and the log says from where."""
    session, ask = await waiting(shared)
    with running_file(shared.env, Found(shared.url, os.getpid(), socket=shared.serving.socket)):
        (tmp_path / "ask").write_text(ask)
        await shared.session(agent="approver", cwd=str(tmp_path), prompt="approve it yourself")
        await eventually((tmp_path / "rc").exists, "the command does not end", timeout=60)
        assert (tmp_path / "rc").read_text() == "1\n"
        assert "only a person" in (tmp_path / "out").read_text()
        assert (await shared.client.get(f"/api/v1/asks/{ask}")).json()["status"] == "pending"
        process = await asyncio.create_subprocess_exec(TIELINE, "approve", ask, env={**shared.env})
        assert await process.wait() == 0
    record = (await shared.client.get(f"/api/v1/asks/{ask}")).json()
    assert record["status"] == "answered"
    assert (record["answer"]["by"], record["answer"]["via"]) == ("owner", f"pid {process.pid} tieline approve {ask}")
    events = (await shared.client.get(f"/api/v1/sessions/{session}/events")).json()["events"]
    answers = [entry["event"] for entry in events if entry["event"]["type"] == "answer"]
    assert [answer["via"] for answer in answers] == [record["answer"]["via"]]


async def test_a_device_is_named_too(shared: Running) -> None:
    _, ask = await waiting(shared)
    async with caller(shared.url, shared.token) as device:
        assert (await device.post(f"/api/v1/asks/{ask}/answer", json={"decision": "deny"})).status_code == 200
    answer = (await shared.client.get(f"/api/v1/asks/{ask}")).json()["answer"]
    assert answer["by"].startswith("tests (")
    assert answer["via"] == "client"


async def test_nothing_on_the_disk_opens_the_hub(shared: Running) -> None:
    """As an agent would that may read every file: whatever looks like a key is tried, over TCP."""
    await shared.client.post("/api/v1/pairings", json={"kind": "client"})
    words: set[bytes] = set()
    for file in Path(shared.env["TIELINE_HOME"]).parent.rglob("*"):
        if file.is_file():
            words |= set(re.findall(rb"[A-Za-z0-9_-]{20,128}", file.read_bytes()))
    assert words
    opened = [word for word in words if shared.hub.auth.device_of(word.decode()) is not None]
    assert opened == []
    socket = Path(shared.serving.socket)
    assert [path.stat().st_mode & 0o777 for path in (socket, socket.parent)] == [0o600, 0o700]
    async with caller(shared.url) as stranger:
        assert (await stranger.get("/api/v1/asks")).status_code == 401


# --- who it is -------------------------------------------------------------------------------------------------


def connected(path: Path) -> tuple[socket.socket, socket.socket]:
    """The hub's end, and ours."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        ours = socket.socket(socket.AF_UNIX)
        ours.connect(str(path))
        return listening.accept()[0], ours


async def test_whoever_cannot_be_told_is_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours = connected(tmp_path / "a")
    with theirs, ours:
        assert peer_of(theirs).problem == ""
        with monkeypatch.context() as patch:
            patch.setattr(os, "getuid", lambda: 4242)
            assert "for the user who runs the hub" in peer_of(theirs).problem

        def unknown(pid: int) -> Ancestry:
            return Ancestry(UNKNOWN)

        with monkeypatch.context() as patch:
            patch.setattr(local_peer, "ancestry", unknown)
            assert "cannot tell" in peer_of(theirs).problem
    with socket.socket(socket.AF_UNIX) as pair:  # not connected at all
        assert peer_of(pair).problem


async def test_one_that_is_gone_is_nobody(tmp_path: Path) -> None:
    """It connected and ended before it was looked at: its number may be another process's by now."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "a"))
        listening.listen()
        ends = f"import socket; socket.socket(socket.AF_UNIX).connect({str(tmp_path / 'a')!r})"
        process = await asyncio.create_subprocess_exec(sys.executable, "-I", "-S", "-c", ends)
        await process.wait()
        theirs, _ = listening.accept()
        with theirs:
            peer = peer_of(theirs)
    assert peer.problem and peer.mark is None


async def test_a_number_that_became_another_processs_is_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read of the number is a person's; the process that connected has ended."""
    theirs, ours = connected(tmp_path / "a")
    process = await asyncio.create_subprocess_exec("/bin/cat", stdin=asyncio.subprocess.PIPE)
    ended = os.pidfd_open(process.pid)
    process.kill()
    await process.wait()

    def handle(connection: socket.socket) -> int:
        return ended

    monkeypatch.setattr(local_peer, "_pidfd", handle)
    with theirs, ours:
        assert peer_of(theirs).problem == "the process that connected is gone"


async def test_its_command_is_short_and_printable(tmp_path: Path) -> None:
    words = ["-c", "import sys; sys.stdin.read()", "x\x1b[2J\u202e", "y" * 500]
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdin=asyncio.subprocess.PIPE)
    try:
        command = local_peer._command(process.pid)  # pyright: ignore[reportPrivateUsage]
    finally:
        process.kill()
        await process.wait()
    assert len(command) <= MAX_COMMAND
    assert command.isprintable()
