"""JSON-RPC with a real child: both sides ask, and whatever the other side does, nobody waits for ever."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tieline.processes import async_process as wire
from tieline.processes.async_process import Process
from tieline.wire import jsonrpc
from tieline.wire.jsonrpc import NoResponse, Peer, PeerGone, RpcError

CHILD = """
import json, sys
def say(**message):
    sys.stdout.write(json.dumps(message) + "\\n"); sys.stdout.flush()
def raw(text):
    sys.stdout.write(text + "\\n"); sys.stdout.flush()
def hear():
    line = sys.stdin.readline()
    return json.loads(line) if line else sys.exit(0)
"""


class Recorder:
    """A handler that keeps what it hears."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, dict[str, Any]]] = []
        self.noise: list[bytes] = []
        self.reasons: list[str] = []
        self.over = asyncio.Event()
        self.open = asyncio.Event()
        self.waiting = 0

    def notified(self, method: str, params: dict[str, Any]) -> None:
        self.notes.append((method, params))
        if method == "break":
            raise KeyError("missing")

    async def requested(self, method: str, params: dict[str, Any]) -> Any:
        if method == "add":
            return sum(params["numbers"])
        if method == "refuse":
            raise RpcError(method, -32001, "not today")
        if method == "crash":
            raise ZeroDivisionError("division by zero")
        if method == "ignore":
            raise NoResponse
        if method == "odd":
            return object()
        self.waiting += 1
        await self.open.wait()
        return "late"

    def garbage(self, line: bytes) -> None:
        self.noise.append(line)

    def gone(self, reason: str) -> None:
        self.reasons.append(reason)
        self.over.set()


@asynccontextmanager
async def talking(
    body: str, *, version: str | None = "2.0", max_line: int = wire.MAX_LINE
) -> AsyncGenerator[tuple[Peer, Recorder, Process], None]:
    argv = [sys.executable, "-I", "-c", CHILD + body]
    handler = Recorder()
    async with (
        asyncio.timeout(30),
        Process.start(argv, cwd=Path.cwd(), env={}, max_line=max_line) as process,
        Peer(process, handler, version=version) as peer,
    ):
        yield peer, handler, process
    assert len(handler.reasons) == 1, "it is told of the end once"


async def test_ask_and_answer() -> None:
    body = "while True: m = hear(); say(id=m['id'], result=m)"
    async with talking(body) as (peer, _, _):
        sent = await peer.request("hello", {"a": 1}, timeout=10)
        assert sent == {"jsonrpc": "2.0", "id": 1, "method": "hello", "params": {"a": 1}}
    async with talking(body, version=None) as (peer, _, _):
        assert "jsonrpc" not in await peer.request("hello", {}, timeout=10)


async def test_answers_in_any_order() -> None:
    body = "a, b = hear(), hear(); say(id=b['id'], result='b'); say(id=a['id'], result='a'); hear()"
    async with talking(body) as (peer, _, _):
        both = asyncio.gather(peer.request("a", {}, timeout=10), peer.request("b", {}, timeout=10))
        assert await both == ["a", "b"]


async def test_both_sides_ask_at_once() -> None:
    """It asks us in the middle of our own request, several times, and answers with what it learnt."""
    body = """
mine = hear()
for n in range(5): say(id=f"q{n}", method="add", params={"numbers": [n, 1]})
answers = [hear() for _ in range(5)]
say(id=mine["id"], result=sorted((a["id"], a["result"]) for a in answers))
hear()
"""
    async with talking(body) as (peer, _, _):
        result = await peer.request("start", {}, timeout=10)
        assert result == [[f"q{n}", n + 1] for n in range(5)]


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ({"code": 7, "message": "no", "data": {"why": "x"}}, 7, "no"),
        ({"message": "no code"}, 0, "no code"),
        ({"code": "odd"}, 0, "odd"),
        ("just words", 0, "just words"),
        ([1, 2], 0, "[1, 2]"),
    ],
)
async def test_errors_of_the_other_side(error: Any, code: int, message: str) -> None:
    body = f"m = hear(); say(id=m['id'], error=json.loads({json.dumps(error)!r})); hear()"
    async with talking(body) as (peer, _, _):
        with pytest.raises(RpcError) as caught:
            await peer.request("do", {}, timeout=10)
    assert caught.value.method == "do"
    assert caught.value.code == code
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("method", "code", "message"),
    [
        ("refuse", -32001, "not today"),
        ("crash", -32603, "ZeroDivisionError: division by zero"),
        ("odd", -32603, "Encoding objects of type object is unsupported"),
    ],
)
async def test_errors_of_ours_are_always_answered(method: str, code: int, message: str) -> None:
    body = f"m = hear(); say(id=1, method={method!r}); say(id=m['id'], result=hear()); hear()"
    async with talking(body) as (peer, _, _):
        answer = await peer.request("start", {}, timeout=10)
    assert answer["id"] == 1
    assert answer["error"]["code"] == code
    assert message in answer["error"]["message"]


async def test_a_request_that_somebody_else_answered_gets_no_response() -> None:
    body = """
m = hear()
say(id=1, method="ignore"); say(id=2, method="add", params={"numbers": [1]})
say(id=m["id"], result=hear()); hear()
"""
    async with talking(body) as (peer, _, _):
        assert (await peer.request("start", {}, timeout=10))["id"] == 2


async def test_garbage_is_kept_and_does_no_harm() -> None:
    lines = [
        "Starting up…", "[1, 2]", "42", '"text"', "{broken", "[" * 100_000, "{}", '{"id": [], "result": 1}',
        '{"id": "x"}', '{"method": 5}', '{"method": "list", "params": [1]}', '{"method": "break", "params": {"a": 1}}',
        "\x00",
    ]  # fmt: skip
    body = f"""
m = hear()
for line in {lines!r} + ["", "   "]: raw(line)
say(method="note", params={{"n": 1}}); say(method="bare"); say(method="null", params=None)
say(id=m["id"], result="fine")
hear()
"""
    async with talking(body) as (peer, handler, _):
        assert await peer.request("start", {}, timeout=10) == "fine"
    assert [line.decode() for line in handler.noise] == lines
    assert handler.notes == [("break", {"a": 1}), ("note", {"n": 1}), ("bare", {}), ("null", {})]


async def test_half_a_character_is_told_as_a_broken_one() -> None:
    """JavaScript cuts texts through characters; whoever asks with such a text waits for an answer."""
    body = r"""
m = hear()
raw('{"id": 7, "method": "add", "params": {"numbers": [1, 2], "why": "cut \\ud83d…"}}')
raw('{"method": "note", "params": {"text": "\\ude00 and \\ud83d\\ude00 and \\\\ud83d"}}')
say(id=m["id"], result=hear())
hear()
"""
    async with talking(body) as (peer, handler, _):
        assert (await peer.request("start", {}, timeout=10))["id"] == 7
    assert handler.notes == [("note", {"text": "\ufffd and 😀 and \\ud83d"})]
    assert not handler.noise


async def test_request_of_a_wrong_shape_is_refused() -> None:
    body = 'm = hear(); say(id=9, method="add", params=[1, 2]); say(id=m["id"], result=hear()); hear()'
    async with talking(body) as (peer, handler, _):
        answer = await peer.request("start", {}, timeout=10)
    assert answer["error"]["code"] == -32602
    assert len(handler.noise) == 1


async def test_late_and_unknown_answers_are_ignored() -> None:
    body = "m = hear(); say(id=99, result=0); say(id=m['id'], result=1); say(id=m['id'], result=2); hear()"
    async with talking(body) as (peer, _, _):
        assert await peer.request("start", {}, timeout=10) == 1


async def test_request_times_out() -> None:
    async with talking("hear(); m = hear(); say(id=m['id'], result='second'); hear()") as (peer, _, _):
        with pytest.raises(TimeoutError):
            await peer.request("first", {}, timeout=0.05)
        assert await peer.request("second", {}, timeout=10) == "second"


async def test_other_side_goes_away() -> None:
    async with talking("hear(); sys.exit(3)") as (peer, handler, process):
        with pytest.raises(PeerGone, match="closed its output"):
            await peer.request("start", {}, timeout=10)
        assert handler.reasons == ["it closed its output"]
        with pytest.raises(PeerGone):
            await peer.request("again", {}, timeout=10)
        assert await process.wait(10)
        assert process.returncode == 3


async def test_notifying_one_that_is_gone() -> None:
    async with talking("sys.exit(0)") as (peer, handler, process):
        await handler.over.wait()
        await process.wait(10)
        with pytest.raises(PeerGone):
            for _ in range(100):
                await peer.notify("hello", {"text": "x" * 10_000})


async def test_leaving_the_block_ends_what_waits() -> None:
    """Our requests fail and the handler's work is cancelled."""
    body = "say(id=1, method='wait'); hear(); hear()"
    async with talking(body) as (peer, handler, _):
        request = asyncio.create_task(peer.request("never answered", {}, timeout=30))
        while not handler.waiting:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    with pytest.raises(PeerGone):
        await request
    assert handler.reasons == ["closed"]


async def test_line_too_long() -> None:
    body = "hear(); say(method='note'); raw('x' * 100_000); hear()"
    async with talking(body, max_line=10_000) as (peer, handler, _):
        with pytest.raises(PeerGone, match="more than 10000 bytes"):
            await peer.request("start", {}, timeout=10)
        assert handler.notes == [("note", {})], "what came before it counts"


async def test_megabytes_both_ways() -> None:
    body = "m = hear(); say(id=m['id'], result=m['params']['text']); hear()"
    text = "0123456789" * 300_000
    async with talking(body) as (peer, _, _):
        assert await peer.request("echo", {"text": text}, timeout=20) == text


async def test_too_many_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those beyond the bound are refused at once; the others are answered when their time comes."""
    monkeypatch.setattr(jsonrpc, "MAX_INCOMING", 10)
    body = """
m = hear()
for n in range(1000): say(id=n, method="wait")
refused = [hear() for _ in range(990)]
say(id=m["id"], result=[a["error"]["message"] for a in refused])
say(method="answers", params={"results": [hear() for _ in range(10)]})
hear()
"""
    async with talking(body) as (peer, handler, _):
        refused = await peer.request("start", {}, timeout=20)
        assert set(refused) == {"wait: more than 10 requests at once"}
        handler.open.set()
        while not handler.notes:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        results = handler.notes[0][1]["results"]
        assert sorted(answer["id"] for answer in results) == list(range(10))


async def test_flood_from_one_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks and asks and never reads an answer: that ends, and costs no unbounded memory."""
    monkeypatch.setattr(jsonrpc, "MAX_INCOMING", 10)
    monkeypatch.setattr(wire, "WRITE_TIMEOUT_S", 0.3)
    body = """
while True: say(id="x" * 1000, method="wait")
"""
    async with talking(body) as (_, handler, process):
        await handler.over.wait()
        assert handler.reasons == ["the peer does not read"]
        process.kill()
