"""Idempotency keys: done once, answered alike, bound to device, route and body; kept across hubs and restarts."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message as AsgiMessage
from starlette.types import Send
from tests.hub.conftest import Running, caller, running

from tieline.bus import open_bus
from tieline.errors import BusError
from tieline.hub.http.problems import RequestRefused
from tieline.hub.security.idempotency import IdempotencyStore, command_id, digest_of, idempotency_id
from tieline.testing.wait_for import eventually


def keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


async def test_the_same_key_is_carried_out_once(hub: Running) -> None:
    body = {"agent": "scripted", "cwd": hub.cwd, "policy": "full"}
    first = await hub.client.post("/api/v1/sessions", json=body, headers=keyed("one"))
    again = await hub.client.post("/api/v1/sessions", json=body, headers=keyed("one"))
    other = await hub.client.post("/api/v1/sessions", json=body, headers=keyed("two"))
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert again.headers["content-type"] == first.headers["content-type"]
    assert again.headers["x-content-type-options"] == "nosniff"
    assert other.json()["id"] != first.json()["id"]
    assert len((await hub.client.get("/api/v1/sessions")).json()) == 2


async def test_the_same_key_with_another_body_is_refused(hub: Running) -> None:
    body = {"agent": "scripted", "cwd": hub.cwd, "policy": "full"}
    await hub.client.post("/api/v1/sessions", json=body, headers=keyed("one"))
    reply = await hub.client.post("/api/v1/sessions", json={**body, "title": "x"}, headers=keyed("one"))
    assert (reply.status_code, reply.json()["code"], reply.json()["field"]) == (422, "KeyReused", "Idempotency-Key")


async def test_a_key_belongs_to_a_route_and_a_device(hub: Running) -> None:
    session = (await hub.session())["id"]
    for path in ("abort", "close"):
        reply = await hub.client.post(f"/api/v1/sessions/{session}/{path}", headers=keyed("one"))
        assert reply.status_code == 200
        assert "idempotency-replayed" not in reply.headers
    secret = (await hub.client.post("/api/v1/pairings", json={"kind": "client"})).json()["secret"]
    async with caller(hub.url) as stranger:
        key = (await stranger.post("/api/v1/pair", json={"secret": secret})).json()["key"]
    async with caller(hub.url, key) as other:
        reply = await other.post(f"/api/v1/sessions/{session}/abort", headers=keyed("one"))
        assert "idempotency-replayed" not in reply.headers


async def test_many_at_once_are_one(hub: Running) -> None:
    body = {"agent": "scripted", "cwd": hub.cwd, "policy": "full"}
    replies = await asyncio.gather(
        *(hub.client.post("/api/v1/sessions", json=body, headers=keyed("one")) for _ in range(8))
    )
    assert len({reply.content for reply in replies}) == 1
    assert len((await hub.client.get("/api/v1/sessions")).json()) == 1


async def test_pairing_again_with_the_key_gets_the_same_answer_but_nothing_is_kept_of_it(hub: Running) -> None:
    secret = (await hub.client.post("/api/v1/pairings", json={"kind": "client"})).json()["secret"]
    async with caller(hub.url) as stranger:
        first = await stranger.post("/api/v1/pair", json={"secret": secret}, headers=keyed("one"))
        again = await stranger.post("/api/v1/pair", json={"secret": secret}, headers=keyed("one"))
    assert (first.status_code, again.content) == (201, first.content)
    assert await hub.hub.bus.table("answers").entries() == []


async def test_bad_keys_are_refused(hub: Running) -> None:
    for key in ("", "x" * 256, "\x80"):
        reply = await hub.client.post(
            "/api/v1/pairings", json={}, headers=[(b"Idempotency-Key", key.encode("latin-1"))]
        )
        assert (reply.status_code, reply.json()["field"]) == (400, "Idempotency-Key")


async def test_answers_outlive_the_hub(tmp_path: Path) -> None:
    body = {"agent": "scripted", "cwd": str(tmp_path), "policy": "full"}
    async with running(tmp_path) as hub:
        first = await hub.client.post("/api/v1/sessions", json=body, headers=keyed("one"))
    async with running(tmp_path) as hub:
        again = await hub.client.post("/api/v1/sessions", json=body, headers=keyed("one"))
        assert again.content == first.content
        assert again.headers["idempotency-replayed"] == "true"


async def test_a_hub_that_died_before_it_kept_the_answer_does_nothing_twice(tmp_path: Path) -> None:
    body = {"agent": "scripted", "cwd": str(tmp_path), "policy": "full"}
    async with running(tmp_path) as hub:
        first = await hub.client.post("/api/v1/sessions", json=body, headers=keyed("one"))
    async with running(tmp_path) as hub:
        for key in await hub.hub.bus.table("answers").keys():
            await hub.hub.bus.table("answers").delete(key)
        again = await hub.client.post("/api/v1/sessions", json=body, headers=keyed("one"))
        assert again.json()["id"] == first.json()["id"]
        assert len((await hub.client.get("/api/v1/sessions")).json()) == 1


class App:
    """Answers as it is told, and counts."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.calls = 0
        self.called = asyncio.Event()
        self.hold = asyncio.Event()
        self.hold.set()

    async def __call__(self, send: Send) -> None:
        self.calls += 1
        self.called.set()
        await self.hold.wait()
        start: AsgiMessage = {"type": "http.response.start", "status": self.status, "headers": [(b"a", b"b")]}
        await send(start)
        await send({"type": "http.response.body", "body": json.dumps(self.calls).encode()})


@pytest.fixture
async def once(tmp_path: Path) -> Any:
    async with open_bus(f"sqlite:///{tmp_path / 'bus.db'}") as bus, IdempotencyStore(bus) as once:
        yield once


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
async def test_what_may_pass_is_not_kept(once: IdempotencyStore, status: int) -> None:
    app = App(status)
    for _ in range(2):
        await once.run("id", "digest", app, private=False)
    assert app.calls == 2


@pytest.mark.parametrize(
    "status, private, kept",
    [
        (200, False, True),
        (299, True, True),
        (300, True, False),
        (400, True, False),
        (400, False, True),
        (499, False, True),
    ],
)
async def test_what_carries_secrets_is_kept_only_where_it_gave_one(
    once: IdempotencyStore, status: int, private: bool, kept: bool
) -> None:
    app = App(status)
    answers = [await once.run("id", "digest", app, private=private) for _ in range(2)]
    assert app.calls == (1 if kept else 2)
    assert once.cached == kept
    replayed = ("idempotency-replayed", "true")
    assert answers[0].headers == (("a", "b"),)
    assert answers[1].headers == ((("a", "b"), replayed) if kept else (("a", "b"),))
    assert answers[1].body == (b"1" if kept else b"2")


async def test_memory_keeps_the_newest(once: IdempotencyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.hub.security.idempotency.MAX_CACHED", 2)
    app = App()
    for id in ("one", "two", "three", "three", "two"):
        await once.run(id, "digest", app, private=True)
    assert (app.calls, once.cached) == (3, 2)
    await once.run("one", "digest", app, private=True)
    assert (app.calls, once.cached) == (4, 2), "the oldest is forgotten"


@pytest.mark.parametrize(("most", "private"), [(1, False), (0, False), (1, True)])
async def test_what_is_large_or_secret_is_in_memory_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, private: bool
) -> None:
    monkeypatch.setattr("tieline.hub.security.idempotency.MAX_RESPONSE", most)
    app, on_the_bus = App(), most == 1 and not private
    async with open_bus(f"sqlite:///{tmp_path / 'bus.db'}") as bus:
        async with IdempotencyStore(bus) as once:
            for _ in range(2):
                await once.run("id", "digest", app, private=private)
            assert app.calls == 1
        assert await bus.table("answers").keys() == (["id"] if on_the_bus else [])
        async with IdempotencyStore(bus) as other:  # another hub, or this one after a restart
            await other.run("id", "digest", app, private=private)
        assert app.calls == (1 if on_the_bus else 2)


async def test_a_bus_that_takes_no_answer_fails_no_request(
    once: IdempotencyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of the answers that it takes its time for there are never more than so many."""
    monkeypatch.setattr("tieline.hub.security.idempotency.MAX_WRITING", 2)
    table, room, app = once._table, asyncio.Semaphore(0), App()  # pyright: ignore[reportPrivateUsage]
    writing, most = 0, 0

    async def nothing(key: str) -> None:
        return None

    async def fails(key: str, value: bytes, *, ttl: float) -> int:
        nonlocal writing, most
        writing += 1
        most = max(most, writing)
        await room.acquire()
        writing -= 1
        raise BusError("it is full")

    monkeypatch.setattr(table, "get", nothing)
    monkeypatch.setattr(table, "put", fails)
    requests = [asyncio.create_task(once.run(f"{n}", "digest", app, private=False)) for n in range(8)]
    await eventually(lambda: app.calls == 8 and writing == 2, "they do not come")
    for _ in requests:
        room.release()
        for _ in range(5):
            await asyncio.sleep(0)
    async with asyncio.timeout(30):
        answers = await asyncio.gather(*requests)
    assert [answer.status for answer in answers] == [200] * 8
    assert most == 2


@pytest.mark.parametrize("path", ["/hooks/nobody", "/hooks/in/nobody", "/api/v1/sessions"])
async def test_a_strangers_key_is_not_kept(hub: Running, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr("tieline.hub.security.idempotency.TRANSIENT", frozenset[int]())  # whatever the answer is
    async with caller(hub.url) as stranger:
        for _ in range(2):
            reply = await stranger.post(path, json={}, headers=keyed("one"))
            assert 400 <= reply.status_code < 600 and "idempotency-replayed" not in reply.headers
    assert not hub.hub.idempotency.cached
    assert await hub.hub.bus.table("answers").keys() == []


@pytest.mark.slow
async def test_a_strangers_keys_cost_nothing(hub: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand keys to doors that are open: nothing of them is on the bus, in memory, or answered twice."""
    # Whatever the answer is, it is not kept.
    monkeypatch.setattr("tieline.hub.security.idempotency.TRANSIENT", frozenset[int]())
    file = Path(hub.env["TIELINE_HOME"]).parent / "bus.db"

    def size() -> int:
        return sum(path.stat().st_size for path in file.parent.glob("bus.db*"))

    before = size()
    async with caller(hub.url) as stranger:
        for n in range(0, 1000, 20):
            paths = ("/hooks/nobody", "/hooks/in/nobody", "/api/v1/sessions", "/api/v1/pair")
            replies = await asyncio.gather(
                *(stranger.post(paths[k % 4], json={"secret": "x"}, headers=keyed(f"{n + k}")) for k in range(20))
            )
            assert all(400 <= reply.status_code < 600 for reply in replies)
    assert await hub.hub.bus.table("answers").keys() == []
    assert not hub.hub.idempotency.cached
    # The hub's own beats are 2.5 kB a second, for as long as this takes; the answers were five megabytes.
    assert size() - before < 1_000_000


async def test_a_retry_after_too_many_is_not_refused_for_a_day(hub: Running) -> None:
    while (await hub.client.post("/api/v1/pairings", json={})).status_code != 429:
        pass
    assert (await hub.client.post("/api/v1/pairings", json={}, headers=keyed("one"))).status_code == 429
    hub.hub.pairing_limiter.give_back("owner")
    hub.hub.pairing_limiter.give_back("owner")
    assert (await hub.client.post("/api/v1/pairings", json={}, headers=keyed("one"))).status_code == 201


async def test_whoever_comes_second_waits_and_a_failure_lets_them_try(once: IdempotencyStore) -> None:
    app = App()
    app.hold.clear()
    first = asyncio.create_task(once.run("id", "digest", app, private=False))
    await app.called.wait()
    second = asyncio.create_task(once.run("id", "digest", app, private=False))
    await asyncio.sleep(0)
    first.cancel()
    app.hold.set()
    answer = await second
    assert (answer.status, app.calls) == (200, 2)


async def test_whoever_waits_too_long_is_told(once: IdempotencyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.hub.security.idempotency.WAIT_S", 0.05)
    app = App()
    app.hold.clear()
    first = asyncio.create_task(once.run("id", "digest", app, private=False))
    await app.called.wait()
    with pytest.raises(RequestRefused) as refused:
        await once.run("id", "digest", app, private=False)
    assert refused.value.code == "InProgress"
    app.hold.set()
    await first


def test_identities_differ() -> None:
    made = {
        idempotency_id(*parts)
        for parts in (
            ("d", "POST", "/a", "k"),
            ("e", "POST", "/a", "k"),
            ("d", "PATCH", "/a", "k"),
            ("d", "POST", "/b", "k"),
        )
    }
    assert len(made) == 4
    assert command_id("a", "b") != command_id("a", "c")
    assert digest_of(b"a", b"b") != digest_of(b"", b"ab")
