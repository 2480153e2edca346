"""The audit log: who came in, let in, decided, was refused. Apart from events, bounded, and nobody can flood it."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.hub.conftest import Running, caller

from tieline import paths
from tieline.hub.security import audit_log as audit_module
from tieline.hub.security.audit_log import AuditLog
from tieline.protocol.audit import AuditLine
from tieline.script import Run
from tieline.testing.wait_for import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def lines(hub: Running, **query: Any) -> list[AuditLine]:
    reply = await hub.client.get("/api/v1/audit", params=query)
    assert reply.status_code == 200, reply.text
    return msgspec.json.decode(reply.content, type=list[AuditLine])


async def latest(hub: Running, what: str, **details: str) -> AuditLine:
    audit_lines = [line for line in await lines(hub, kind=what) if details.items() <= dict(line.details).items()]
    assert audit_lines, (what, details)
    return audit_lines[0]


async def test_pairing_signing_in_and_revoking_leave_lines(shared: Running) -> None:
    page = (await shared.client.post("/api/v1/pairings", json={"kind": "page", "name": "my phone"})).json()
    client = (await shared.client.post("/api/v1/pairings", json={"kind": "client"})).json()
    async with caller(shared.url) as stranger:
        device = (await stranger.post("/api/v1/login", json={"secret": page["secret"]})).json()["device"]
        made = await stranger.post("/api/v1/pair", json={"secret": client["secret"], "name": "backup"})
    assert (await latest(shared, "pairing", step="offered", kind="client")).who == "owner"
    paired = await latest(shared, "pairing", step="paired")
    assert (paired.who.split(" (")[0], paired.via, paired.details["kind"]) == ("backup", "127.0.0.1", "client")
    assert (await latest(shared, "sign-in")).who == f"my phone ({device['id'][-6:]})"
    assert (await shared.client.delete(f"/api/v1/devices/{device['id']}")).status_code == 204
    assert (await latest(shared, "revoke")).details["device"] == f"my phone ({device['id'][-6:]})"
    # Nothing that opens a door is in it, and nobody else can read it.
    file = paths.audit_file(shared.env)
    assert file.stat().st_mode & 0o777 == 0o600
    for secret in (page["secret"], client["secret"], made.json()["key"], shared.token):
        assert secret.encode() not in file.read_bytes()


async def test_a_machine_that_is_removed_loses_its_key_and_leaves_a_line(shared: Running) -> None:
    offered = (await shared.client.post("/api/v1/pairings", json={"kind": "node"})).json()
    async with caller(shared.url) as stranger:
        claim = {"secret": offered["secret"], "name": "laptop", "node": "laptop-1"}
        paired = (await stranger.post("/api/v1/pair", json=claim)).json()
    assert shared.hub.auth.device_of(paired["key"]) is not None
    assert (await shared.client.delete("/api/v1/nodes/laptop-1")).status_code == 204
    assert shared.hub.auth.device_of(paired["key"]) is None
    removed = await latest(shared, "revoke", device=f"laptop ({paired['device']['id'][-6:]})")
    assert removed.who == "owner"


async def test_decisions_and_policies_leave_lines(shared: Running) -> None:
    shared.play([Run(command="ls")])
    session = await shared.session(policy="ask")
    changed = await shared.client.patch(f"/api/v1/sessions/{session['id']}", json={"policy": "edits"})
    assert changed.status_code == 200
    line = await latest(shared, "policy", session=session["id"])
    assert (line.who, line.details["shell"]) == ("owner", "ask")
    await shared.client.patch(f"/api/v1/sessions/{session['id']}", json={"policy": "ask"})
    await shared.client.post(f"/api/v1/sessions/{session['id']}/prompts", json={"text": "go"})
    await eventually(lambda: any(ask.session == session["id"] for ask in shared.hub.state.asks.values()), "no ask")
    (ask,) = [ask for ask in shared.hub.state.asks.values() if ask.session == session["id"]]
    assert not [line for line in await lines(shared, kind="decision") if line.details["session"] == session["id"]]
    response = await shared.client.post(f"/api/v1/asks/{ask.id}/answer", json={"decision": "deny"})
    assert response.status_code == 200
    await eventually(lambda: "decision" in paths.audit_file(shared.env).read_text(), "no line")
    decided = await latest(shared, "decision", session=session["id"])
    assert (decided.who, decided.details["decision"], decided.details["ask"]) == ("owner", "deny", ask.id)


async def test_a_stranger_who_is_refused_a_thousand_times_is_two_lines(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    async with AuditLog(file) as audit:
        audit.record("decision", "owner", "here", decision="allow")
        for n in range(1000):
            audit.record("refusal", "", "192.0.2.1", why="missing or invalid credentials", door=f"GET /{n}")
        await audit.flush()
        assert len(file.read_text().splitlines()) == 2
        for n in range(1000):  # nor by coming from everywhere
            audit.record("refusal", "", f"2001:db8::{n:x}", why="missing or invalid credentials")
        await audit.flush()
        assert len(file.read_text().splitlines()) < 2 + 2 * audit_module.MAX_WINDOWS
    async with AuditLog(file) as audit:
        refusals = await audit.read(kind="refusal", limit=1000)
        assert sum(refusal.count for refusal in refusals) == 2000
        assert [line.who for line in await audit.read(kind="decision")] == ["owner"]


async def test_refusals_by_the_middleware_are_told(shared: Running) -> None:
    async with caller(shared.url, "tl_wrong") as stranger:
        for _ in range(5):
            assert (await stranger.get("/api/v1/sessions")).status_code == 401
    refusals = [line for line in await lines(shared, kind="refusal") if "unknown or revoked" in line.details["why"]]
    assert len(refusals) == 1
    assert (refusals[0].who, refusals[0].via, refusals[0].details["request"]) == (
        "",
        "127.0.0.1",
        "GET /api/v1/sessions",
    )


async def test_pages_hang_together(tmp_path: Path) -> None:
    async with AuditLog(tmp_path / "audit.jsonl") as audit:
        for n in range(25):
            audit.record("sign-in", f"device {n}", "192.0.2.1")
        seen: list[str] = []
        before = 0
        while page := await audit.read(before=before, limit=10):
            before = page[-1].seq
            seen += [line.who for line in page]
        assert seen == [f"device {n}" for n in reversed(range(25))]
        assert await audit.read(since=time.time() + 60) == []


async def test_lines_end_by_age_and_by_size_and_torn_ones_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "audit.jsonl"
    old = AuditLine(seq=7, at=time.time() - 91 * 86400, what="sign-in", who="old")
    young = AuditLine(seq=8, at=time.time() - 89 * 86400, what="sign-in", who="young")
    file.write_bytes(b"\n".join(map(msgspec.json.encode, (old, young))) + b'\n{"seq":9,"at":1')
    async with AuditLog(file) as audit:
        audit.record("sign-in", "new", "here")
        assert [(line.who, line.seq) for line in await audit.read()] == [("new", 9), ("young", 8)]
    assert b"old" not in file.read_bytes()
    monkeypatch.setattr(audit_module, "MAX_BYTES", 4096)
    async with AuditLog(file) as audit:
        for n in range(100):
            audit.record("sign-in", f"{n} {'x' * 100}", "here")
            await audit.flush()
        assert file.stat().st_size <= 4096
        assert (await audit.read(limit=1))[0].who.startswith("99 ")


async def test_a_disk_that_takes_nothing_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.write_text("in the way")
    async with AuditLog(folder / "audit.jsonl") as audit:
        audit.record("code", "owner", "here", file="plugin.py")
        await audit.flush()
        folder.unlink()
        assert [line.what for line in await audit.read()] == ["code"]
    assert [file.name for file in folder.iterdir()] == ["audit.jsonl"]


async def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    file.touch(mode=0o644)
    async with AuditLog(file) as audit:
        audit.record("sign-in", "me", "here")
        await audit.flush()
        assert file.stat().st_mode & 0o777 == 0o600


async def test_a_refusal_that_goes_on_is_counted_while_the_hub_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "WINDOW_S", 0.05)
    file = tmp_path / "audit.jsonl"
    async with AuditLog(file) as audit:
        for why in ("a", "b", "a", "a"):
            audit.record("refusal", "", "192.0.2.1", why=why)
        await audit.flush()

        def counted() -> list[tuple[str, int]]:
            return [
                (line.details["why"], line.count)
                for line in map(msgspec.json.Decoder(AuditLine).decode, file.read_bytes().splitlines())
            ]

        await eventually(lambda: ("a", 2) in counted(), "no line with their number")
        assert counted() == [("a", 1), ("b", 1), ("a", 2)], "one that did not come again has no second line"


async def test_what_is_told_apart_is_who_from_where_and_why(tmp_path: Path) -> None:
    async with AuditLog(tmp_path / "audit.jsonl") as audit:
        for who, via, why in (("a", "x", "1"), ("b", "x", "1"), ("a", "y", "1"), ("a", "x", "2"), ("a", "x", "1")):
            audit.record("refusal", who, via, why=why, request=f"GET /{who}{via}{why}")
        assert len(await audit.read()) == 4
        for _ in range(2):
            audit.record("sign-in", "a", "x")
        assert len(await audit.read(kind="sign-in")) == 2, "only refusals are counted"


async def test_lines_end_while_the_hub_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "TRIM_S", 0.0)
    file = tmp_path / "audit.jsonl"
    async with AuditLog(file) as audit:
        audit.record("sign-in", "old", "here")
        await eventually(lambda: b"old" in (file.read_bytes() if file.exists() else b""), "it is not written")
        monkeypatch.setattr(audit_module, "KEPT_DAYS", -1)
        audit.record("sign-in", "new", "here")
        await eventually(lambda: file.read_bytes() == b"", "they are kept")
        monkeypatch.undo()
        audit.record("sign-in", "newest", "here")
        assert [(line.who, line.seq) for line in await audit.read()] == [("newest", 3)], "numbers are not used again"
    assert [one.name for one in tmp_path.iterdir()] == ["audit.jsonl"]


async def test_a_disk_that_takes_nothing_for_long_takes_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "MAX_WAITING", 5)
    folder = tmp_path / "state"
    folder.write_text("in the way")
    async with AuditLog(folder / "audit.jsonl") as audit:
        for n in range(4):
            audit.record("sign-in", f"kept {n}", "here")
        await audit.flush()
        folder.unlink()
        assert [line.who for line in reversed(await audit.read())] == ["kept 0", "kept 1", "kept 2", "kept 3"]
        (folder / "audit.jsonl").rename(tmp_path / "before")
        folder.rmdir()
        folder.write_text("in the way again")
        for n in range(5):
            audit.record("sign-in", f"lost {n}", "here")
        await audit.flush()
        folder.unlink()
        audit.record("sign-in", "last", "here")
        assert [(line.who, line.seq) for line in await audit.read()] == [("last", 10)], "five are missing, it says"


async def test_refusals_leave_the_room_that_there_is_to_what_others_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "MAX_WAITING", 5)
    async with AuditLog(tmp_path / "audit.jsonl") as audit:
        for n in range(3):
            audit.record("sign-in", f"{n}", "here")
        for n in range(10):
            audit.record("refusal", "", f"192.0.2.{n}", why="wrong")
        audit.record("sign-in", "last", "here")
        assert [line.who for line in reversed(await audit.read())] == ["0", "1", "2", "", "", "last"]


async def test_lines_that_are_being_written_when_it_ends_are_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled thread goes on: what it writes must be known."""
    append = audit_module._append  # pyright: ignore[reportPrivateUsage]
    loop, began, may_write = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def slow(file: Path, data: bytes) -> None:
        loop.call_soon_threadsafe(began.set)
        assert may_write.wait(30)
        append(file, data)

    def let_write(rounds: int) -> None:
        loop.call_soon(let_write, rounds - 1) if rounds else may_write.set()

    monkeypatch.setattr(audit_module, "_append", slow)
    file, before = tmp_path / "audit.jsonl", asyncio.all_tasks()
    async with AuditLog(file) as audit:
        audit.record("sign-in", "one", "here")
        await began.wait()
        audit.record("sign-in", "two", "here")
        let_write(10)  # after its task has been cancelled
    assert "audit" not in {task.get_name() for task in asyncio.all_tasks() - before}, "its task has ended"
    written = [msgspec.json.decode(line, type=AuditLine) for line in file.read_bytes().splitlines()]
    assert [(line.who, line.seq) for line in written] == [("one", 1), ("two", 2)]


async def test_what_is_said_is_short(tmp_path: Path) -> None:
    long, most = "x" * (audit_module.MAX_TEXT + 1), "x" * audit_module.MAX_TEXT
    async with AuditLog(tmp_path / "audit.jsonl") as audit:
        audit.record("code", long, long, file=long, more=most, none="")
        (line,) = await audit.read()
    short = "x" * (audit_module.MAX_TEXT - 1) + "…"
    assert (line.who, line.via, dict(line.details)) == (short, short, {"file": short, "more": most})


async def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    """The state folder is its owner's; what is there in the log's place is not written to all the same."""
    elsewhere, file = tmp_path / "elsewhere", tmp_path / "audit.jsonl"
    elsewhere.write_text("mine")
    async with AuditLog(file) as audit:
        file.symlink_to(elsewhere)
        audit.record("sign-in", "me", "here")
        await audit.flush()
        assert elsewhere.read_text() == "mine"
        file.unlink()
        assert [line.who for line in await audit.read()] == ["me"]
