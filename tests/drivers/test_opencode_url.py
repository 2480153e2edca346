"""OpenCode at a given address: somebody else's server, and a way to it that breaks."""

import asyncio
import re
import signal
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
import pytest_asyncio
from tests.drivers.opencode_sessions import PROGRAM

from tieline.api import open_session
from tieline.drivers.base import McpServer
from tieline.drivers.opencode.driver import create
from tieline.drivers.opencode.launch import launch_command
from tieline.errors import AgentStartFailed, Unsupported
from tieline.events import Ask, Command, Done, Event, Status, Text, TextDelta, ToolResult
from tieline.policy import Policy
from tieline.processes.async_process import Process
from tieline.script import Call, Run, Say, Stall
from tieline.sessions.session import Session
from tieline.testing.rigs.opencode import BorrowedRig, OpenCodeRig
from tieline.testing.stream_checks import collect, done, of, the, verify

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

ASK_SHELL = Policy("allow", "ask", "allow")
WAIT_S = 30.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def owner(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OpenCodeRig]:
    async with OpenCodeRig(tmp_path_factory.mktemp("opencode") / "home", PROGRAM) as rig:
        yield rig


@pytest.fixture
def rig(owner: OpenCodeRig) -> BorrowedRig:
    return owner.borrow()


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    cwd = tmp_path / "place"
    cwd.mkdir()
    return cwd


class Served:
    """A server that is not the driver's, and another client of it."""

    def __init__(self, url: str, password: str, cwd: Path) -> None:
        self.url = url
        self.password = password
        self._client = httpx2.AsyncClient(
            base_url=url, auth=("opencode", password), trust_env=False, timeout=30, verify=False
        )
        self._directory = {"directory": str(cwd)}

    async def get(self, path: str) -> Any:
        return (await self._client.get(path, params=self._directory)).raise_for_status().json()

    async def post(self, path: str, body: Any) -> Any:
        return (await self._client.post(path, params=self._directory, json=body)).raise_for_status().json()

    async def until(self, path: str, true: Callable[[Any], bool]) -> Any:
        async with asyncio.timeout(WAIT_S):
            while not true(content := await self.get(path)):  # noqa: ASYNC110 (it is another program that changes)
                await asyncio.sleep(0.02)
            return content

    async def close(self) -> None:
        await self._client.aclose()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(owner: OpenCodeRig) -> AsyncIterator[tuple[str, str]]:
    """URL and password of one server for all of these tests, which none of them ends."""
    argv, env = launch_command(owner.env, [PROGRAM])
    async with Process.start(argv, cwd="/", env=env) as process:
        url = ""
        async for batch in process.lines():
            url = next((line.split()[-1].decode() for line in batch if b"listening" in line), "")
            if url:
                break
        yield url, env["OPENCODE_SERVER_PASSWORD"]
        process.signal(signal.SIGTERM)


@pytest_asyncio.fixture(loop_scope="module")
async def served(address: tuple[str, str], cwd: Path) -> AsyncIterator[Served]:
    served = Served(*address, cwd)
    yield served
    await served.close()


class Way:
    """A TCP proxy on loopback that keeps what passes to the server, and can be cut, and stay cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._open = True
        self._writers: set[asyncio.StreamWriter] = set()
        self.taken = 0
        self._passed: list[bytearray] = []  # of each connection

    @property
    def asked(self) -> str:
        return b"\n".join(self._passed).decode(errors="replace")

    async def __aenter__(self) -> "Way":
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        self._server.close()

    def cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    def close(self) -> None:
        self._open = False
        self.cut()

    def open(self) -> None:
        self._open = True

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._open:
            writer.transport.abort()
            return
        self.taken += 1
        there, out = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers |= {writer, out}
        self._passed.append(bytearray())
        try:
            await asyncio.gather(self._pump(reader, out, self._passed[-1]), self._pump(there, writer, bytearray()))
        finally:
            self._writers -= {writer, out}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passed: bytearray) -> None:
        try:
            while data := await reader.read(65536):
                passed += data
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def through(
    way: Way | Served, served: Served, rig: BorrowedRig, cwd: Path, **options: Any
) -> AsyncGenerator[Session, None]:
    driver = create("opencode", {"url": way.url, "password": served.password})
    chosen: dict[str, Any] = {"policy": Policy("allow", "allow", "allow"), **rig.options, **options}
    async with open_session(driver, cwd=cwd, **chosen) as session:
        yield session


def port(served: Served) -> int:
    return int(served.url.rpartition(":")[2])


async def at_the_first_delta(session: Session, prompt: str, then: Callable[[], Awaitable[None]]) -> list[Event]:
    """A whole turn; what is to happen happens once its text has begun."""
    seen: list[Event] = []
    async with asyncio.timeout(60):
        async for event in session.turn(prompt):
            seen.append(event)
            if isinstance(event, TextDelta) and len(of(seen, TextDelta)) == 1:
                await then()
    verify(seen)
    return seen


# --- a way that breaks -------------------------------------------------------------------------------------


def nothing(content: Any) -> bool:
    return not content


def finished(messages: list[dict[str, Any]]) -> bool:
    return bool(messages) and messages[-1]["info"].get("finish") == "stop"


LONG = "".join(f"word {number} " for number in range(60))


async def test_cut_in_the_middle_of_a_text(served: Served, rig: BorrowedRig, cwd: Path) -> None:
    """Cut again and again while text streams: it is whole in the end, and told once."""
    rig.play([Say(LONG, chunks=40, delay_s=0.02), Run("echo in-between")], [Say(LONG, chunks=40, delay_s=0.02)])
    async with Way(port(served)) as way, through(way, served, rig, cwd) as session:
        seen: list[Event] = []
        async with asyncio.timeout(60):
            async for event in session.turn("go"):
                seen.append(event)
                if isinstance(event, TextDelta) and len(of(seen, TextDelta)) % 5 == 1:
                    way.cut()
        verify(seen)
        assert way.taken > 4
        assert [text.text for text in of(seen, Text)] == [LONG, LONG]
        assert "in-between" in the(seen, ToolResult).output
        assert done(seen).status == "success"
        again = await collect(session.turn("and again"))
        assert done(again).text == "Done."


async def test_an_ask_while_cut_off(served: Served, rig: BorrowedRig, cwd: Path) -> None:
    rig.play([Say("First."), Run("touch asked.txt")], [Say("Then.")])
    asked: list[Ask] = []

    def decide(ask: Ask) -> bool:
        asked.append(ask)
        return True

    options: dict[str, Any] = {"policy": ASK_SHELL, "on_ask": decide}
    async with Way(port(served)) as way, through(way, served, rig, cwd, **options) as session:

        async def cut_off() -> None:
            way.close()
            await served.until("/permission", bool)
            way.open()

        seen = await at_the_first_delta(session, "go", cut_off)
    assert len(asked) == 1
    assert (cwd / "asked.txt").exists()
    assert [text.text for text in of(seen, Text)] == ["First.", "Then."]
    assert done(seen).status == "success"


async def test_an_end_while_cut_off(served: Served, rig: BorrowedRig, cwd: Path) -> None:
    """A turn that came to its end meanwhile: all of it is told, and its end."""
    todos = Call("todowrite", {"todos": [{"content": "Look", "status": "pending", "priority": "low"}]})
    task = Call("task", {"description": "Sub", "prompt": "sub", "subagent_type": "general"})
    rig.play([Say("First."), Run("touch ran.txt"), todos], [task], [Say("By the subagent.")], [Say("Then.")])
    async with Way(port(served)) as way, through(way, served, rig, cwd) as session:

        async def cut_off() -> None:
            way.close()
            path = f"/session/{session.native_id}/message"
            await served.until(path, finished)
            await served.until("/session/status", nothing)
            way.open()

        seen = await at_the_first_delta(session, "go", cut_off)
    assert [text.text for text in of(seen, Text)] == ["First.", "By the subagent.", "Then."]
    assert [result.status for result in of(seen, ToolResult)] == ["ok", "ok", "ok"]
    assert [event.type for event in seen].count("plan") == 1
    assert done(seen).status == "success"
    assert done(seen).turns == 3
    assert done(seen).usage == "complete"


async def test_cut_off_for_good(served: Served, rig: BorrowedRig, cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.drivers.opencode.event_stream.GIVE_UP_S", 1.0)
    rig.play([Say(LONG, chunks=40, delay_s=0.05)])
    async with Way(port(served)) as way, through(way, served, rig, cwd) as session:

        async def cut_off() -> None:
            way.close()

        seen = await at_the_first_delta(session, "go", cut_off)
        assert done(seen).status == "error"
        assert "out of reach" in done(seen).error
        after = await collect(session.turn("are you there"))
        assert done(after).status == "error"


# --- somebody else's server --------------------------------------------------------------------------------


async def test_given_address(served: Served, rig: BorrowedRig, cwd: Path) -> None:
    async with through(served, served, rig, cwd) as session:
        assert done(await collect(session.turn("go"))).status == "success"
        messages = await served.get(f"/session/{session.native_id}/message")
        assert [(part["type"], part["text"]) for part in messages[0]["parts"]] == [("text", "go")]
        assert session.native_id in {each["id"] for each in await served.get("/session")}
    assert await served.get("/global/health"), "it is not ours to end"
    driver = create("opencode", {"url": served.url, "password": served.password})
    probe = await driver.probe({})
    assert (probe.found, probe.version) == (True, driver.tested)
    with pytest.raises(Unsupported, match="mcp_servers"):
        open_session(driver, cwd=cwd, mcp_servers={"x": McpServer(command=("true",))}, env={})


async def test_everything_goes_by_the_servers_own_endpoints(served: Served, rig: BorrowedRig, cwd: Path) -> None:
    def only_the_first(ask: Ask) -> bool:
        return isinstance(ask.action, Command) and "allowed" in ask.action.command

    rig.play([Run("touch allowed.txt")], [Run("touch denied.txt")], [Say("One of them.")], [Say("More. "), Stall()])
    options: dict[str, Any] = {"policy": ASK_SHELL, "on_ask": only_the_first}
    async with Way(port(served)) as way, through(way, served, rig, cwd, **options) as session:
        assert done(await collect(session.turn("go"))).text == "One of them."

        async def stop() -> None:
            await rig.stalled()
            await session.interrupt()

        stopping = asyncio.create_task(stop())
        assert done(await collect(session.turn("go on"))).status == "interrupted"
        await stopping
        asked, own = way.asked, f"/session/{session.native_id}"
    assert "POST /session?" in asked
    assert asked.count(f"POST {own}/prompt_async?") == 2
    assert '"parts":[{"type":"text","text":"go"}]' in asked
    assert f"POST {own}/abort?" in asked
    replies = re.findall(r"POST /permission/\w+/reply\?.*?\r\n\r\n(\{.*?\})", asked, re.DOTALL)
    assert [msgspec.json.decode(body)["reply"] for body in replies] == ["once", "reject"]
    assert "GET /global/health" in asked and "GET /event?" in asked


async def test_wrong_password(served: Served, cwd: Path) -> None:
    driver = create("opencode", {"url": served.url, "password": "wrong"})
    with pytest.raises(AgentStartFailed, match="the password is wrong"):
        async with open_session(driver, cwd=cwd, env={}):
            pass
    assert "password is wrong" in (await driver.probe({})).problem


async def test_nobody_there(cwd: Path) -> None:
    driver = create("opencode", {"url": "http://127.0.0.1:9"})
    with pytest.raises(AgentStartFailed, match="no OpenCode server at"):
        async with open_session(driver, cwd=cwd, env={}):
            pass


async def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks is not kept for as long as a request may take."""
    monkeypatch.setattr("tieline.drivers.opencode.server.HEALTH_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        driver = create("opencode", {"url": f"http://127.0.0.1:{deaf.getsockname()[1]}"})
        probe = await driver.probe({})
        deaf.setblocking(False)
        connection, _ = deaf.accept()
        with connection, pytest.raises(BlockingIOError):
            assert connection.recv(65536).startswith(b"GET /global/health ")
            deaf.accept()  # that was all
    assert not probe.found and "no answer within 0.2 s" in probe.problem and "opencode serve" in probe.hint


@pytest.mark.parametrize("reply", ["once", "reject"])
async def test_answered_elsewhere(served: Served, rig: BorrowedRig, cwd: Path, reply: str) -> None:
    """Somebody at the same server is quicker: our ask is withdrawn, and what happens is told as it is."""
    never = asyncio.Event()

    async def decide(ask: Ask) -> bool:
        (request,) = await served.get("/permission")
        await served.post(f"/permission/{request['id']}/reply", {"reply": reply, "message": "no"})
        await never.wait()
        return True

    rig.play([Run("touch elsewhere.txt")], [Say("Seen.")])
    async with through(served, served, rig, cwd, policy=ASK_SHELL, on_ask=decide) as session:
        seen = await collect(session.turn("go"))
    assert (cwd / "elsewhere.txt").exists() == (reply == "once")
    assert the(seen, ToolResult).status == ("ok" if reply == "once" else "denied")
    assert the(seen, Status).state == "answered elsewhere"
    assert of(seen, Done)[0].text == "Seen."


async def test_aborted_elsewhere(served: Served, rig: BorrowedRig, cwd: Path) -> None:
    rig.play([Say(LONG, chunks=40, delay_s=0.05), Stall()])
    async with through(served, served, rig, cwd) as session:

        async def abort() -> None:
            await served.post(f"/session/{session.native_id}/abort", {})

        seen = await at_the_first_delta(session, "go", abort)
    assert done(seen).status == "interrupted"
