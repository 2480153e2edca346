"""What a terminal of Codex tells, in the orders in which its daemon may say it."""

import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
import pytest
from websockets.asyncio.client import unix_connect
from websockets.asyncio.server import ServerConnection, unix_serve

from tieline.background_tasks import cancel_and_wait
from tieline.bus import open_bus
from tieline.config import Config
from tieline.events import Answer, Ask, Done
from tieline.harnesses.attach_consent import CurrentConsent, agree
from tieline.harnesses.codex.daemon_connector import CodexDaemonConnector
from tieline.harnesses.codex.terminal import CodexTerminal, Thread, ThreadStatus
from tieline.mesh.push import HarnessSession
from tieline.sessions.ask_rules import AskRule
from tieline.sessions.attached_session import AttachedSession
from tieline.sessions.attacher import Attacher
from tieline.sessions.manager import SessionManager
from tieline.sessions.records import AskRecord
from tieline.testing.wait_for import eventually
from tieline.wire.jsonrpc import NoResponse, Peer

THREAD = "01993f7c-0000-7000-8000-000000000001"
IDLE, ACTIVE = ThreadStatus("idle"), ThreadStatus("active")


class Daemon:
    """Answers a client, with these turns as its history."""

    def __init__(self, *turns: dict[str, Any]) -> None:
        self.turns = turns
        self.methods: list[str] = []  # of its requests

    async def request(self, method: str, params: object, *, timeout: float) -> dict[str, Any]:
        self.methods.append(method)
        return {"data": self.turns, "nextCursor": None} if method == "thread/turns/list" else {}


@pytest.mark.parametrize("turn_end", ["before", "after"])
@pytest.mark.parametrize("readable", [True, False])
async def test_a_turn_that_ends_while_its_terminal_is_attached_leaves_it_idle(
    tmp_path: Path, turn_end: str, readable: bool
) -> None:
    """`turn_end`: the daemon tells its end before the session is made, or when it just was. Where the turn began before
    its person let us read along, nothing else of it is told."""
    env = {"HOME": str(tmp_path)}
    agree(env, "codex")
    thread = Thread(THREAD, str(tmp_path), status=ACTIVE)

    class AtThatMoment(Attacher):
        def on_since(self, cwd: str) -> float:
            return 0 if readable else 1e12

        async def attach(self, *args: Any, **options: Any) -> AttachedSession:
            if turn_end == "before":
                terminal.changed(msgspec.structs.replace(thread, status=IDLE))
            session = await super().attach(*args, **options)
            terminal.changed(msgspec.structs.replace(thread, status=IDLE))
            return session

    async with (
        open_bus(f"sqlite://{tmp_path / 'bus.db'}") as bus,
        SessionManager(bus, Config(environ=env), node="here") as manager,
    ):
        terminal = CodexTerminal(AtThatMoment(manager, CurrentConsent(env)), thread)
        daemon = Daemon({"id": "turn-1", "status": "completed", "items": []})
        following = asyncio.create_task(terminal.follow(cast("Peer", daemon), 0))
        await eventually(lambda: "thread/turns/list" in daemon.methods, "its history is not read")
        (session,) = manager.sessions()
        turns = 1 if readable else 0

        def is_idle() -> bool:
            record = manager.get(session.id)
            return (record.status, record.turns) == ("idle", turns)

        await eventually(is_idle, f"it is not idle after {turns} turns")
        await manager.prompt(session.id, "from the phone")
        await eventually(lambda: "turn/start" in daemon.methods, "the prompt does not reach the terminal")
        await cancel_and_wait(following)


async def test_a_turn_that_ends_while_its_thread_is_read_leaves_it_idle(tmp_path: Path) -> None:
    """The daemon tells its end, and then answers what it was asked before."""
    env = {"HOME": str(tmp_path), "CODEX_HOME": str(tmp_path)}
    agree(env, "codex")
    thread = {"id": THREAD, "cwd": str(tmp_path), "createdAt": time.time() + 1}  # after the consent
    statuses, methods = ["active"], list[str]()

    async def daemon(client: ServerConnection) -> None:
        async def send(**message: Any) -> None:
            await client.send(msgspec.json.encode(message), text=True)

        async for line in client:
            request = msgspec.json.decode(line)
            methods.append(request["method"])
            answer: dict[str, Any] = {"data": []}
            match request["method"]:
                case "thread/loaded/list":
                    answer = {"data": [THREAD]}
                case "thread/read":
                    answer = {"thread": {**thread, "status": {"type": statuses[-1]}}}
                    if statuses == ["active"]:
                        statuses.append("idle")
                        await send(
                            method="thread/status/changed", params={"threadId": THREAD, "status": {"type": "idle"}}
                        )
                case _:
                    pass
            if "id" in request:
                await send(id=request["id"], result=answer)

    class Observer:
        async def changed(self, session: HarnessSession) -> None: ...
        async def ended(self, session: HarnessSession) -> None: ...

    link = tmp_path / "app-server-control" / "app-server-control.sock"
    link.parent.mkdir()
    reach = CodexDaemonConnector(env)
    with tempfile.TemporaryDirectory(prefix="tl-") as short:  # enough for a socket
        socket = Path(short) / "socket"
        link.symlink_to(socket)
        async with (
            unix_serve(daemon, str(socket)),
            unix_connect(str(socket), "ws://localhost/"),  # its terminal
            open_bus(f"sqlite://{tmp_path / 'bus.db'}") as bus,
            SessionManager(bus, Config(environ=env), node="here") as manager,
        ):
            os.utime(socket, (0, 0))  # a daemon that has run for long
            reach.attacher = Attacher(manager, CurrentConsent(env))
            async with reach.open(Observer()):
                await eventually(lambda: "thread/turns/list" in methods, "its history is not read")
                (session,) = manager.sessions()
                await eventually(lambda: manager.get(session.id).status == "idle", "it is not idle")
                await manager.prompt(session.id, "from the phone")
                await eventually(lambda: "turn/start" in methods, "the prompt does not reach the terminal")


@pytest.mark.parametrize("steps", range(6))
async def test_a_turn_that_ends_while_its_ask_is_decided_at_the_terminal_has_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """The daemon tells the end of the turn so many steps of the event loop after the ask's end was written."""
    env = {"HOME": str(tmp_path)}
    agree(env, "codex")
    turn: dict[str, Any] = {"id": "turn-1", "status": "inProgress", "items": []}
    call = {"type": "commandExecution", "id": "call-1", "command": "touch it", "cwd": str(tmp_path)}
    async with (
        open_bus(f"sqlite://{tmp_path / 'bus.db'}") as bus,
        SessionManager(bus, Config(environ=env), node="here") as manager,
    ):
        terminal = CodexTerminal(Attacher(manager, CurrentConsent(env)), Thread(THREAD, str(tmp_path)))
        settle, settled = manager.asks.settle, asyncio.Event()

        async def settle_and_end(id: str, answer: Answer) -> AskRecord:
            record = await settle(id, answer)
            for _ in range(steps):
                await asyncio.sleep(0)
            terminal.notified("turn/completed", {"turn": {**turn, "status": "interrupted"}})
            settled.set()
            return record

        monkeypatch.setattr(manager.asks, "settle", settle_and_end)
        following = asyncio.create_task(terminal.follow(cast("Peer", Daemon()), 0))
        await eventually(lambda: bool(manager.sessions()), "no session")
        (session,) = manager.sessions()
        terminal.notified("turn/started", {"turn": turn})
        terminal.notified("item/started", {"turnId": "turn-1", "item": {**call, "status": "inProgress"}})
        resolved = asyncio.Event()
        about = {"threadId": THREAD, "turnId": "turn-1", "itemId": "call-1", "command": "touch it", "cwd": "/"}
        asking = asyncio.ensure_future(terminal.requested("item/commandExecution/requestApproval", about, resolved))
        await eventually(lambda: bool(manager.asks.pending()), "nothing is asked")
        terminal.notified("item/completed", {"turnId": "turn-1", "item": {**call, "status": "declined"}})
        resolved.set()
        with pytest.raises(NoResponse):
            await asking
        if not settled.is_set():  # whoever settles it was stopped: its work was done
            terminal.notified("turn/completed", {"turn": {**turn, "status": "interrupted"}})
        await eventually(lambda: manager.get(session.id).turns == 1, "the turn has no end", timeout=10.0)
        events = [entry.event async for entry in manager.events(session.id, follow=False)]
        assert [event.status for event in events if isinstance(event, Done)] == ["interrupted"]
        assert [event.decision for event in events if isinstance(event, Answer)] == ["deny"]
        await cancel_and_wait(following)


@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_a_rule_answers_the_daemon(tmp_path: Path, decision: Literal["allow", "deny"]) -> None:
    env = {"HOME": str(tmp_path)}
    agree(env, "codex")
    call = {"type": "commandExecution", "id": "call-1", "command": "touch it", "cwd": str(tmp_path)}
    async with (
        open_bus(f"sqlite://{tmp_path / 'bus.db'}") as bus,
        SessionManager(bus, Config(environ=env), node="here") as manager,
    ):
        rule = AskRule(id="r1", match="prefix", pattern="touch", directory=str(tmp_path), decision=decision)
        await manager.rules.keep_joined("hub", (rule,))
        terminal = CodexTerminal(Attacher(manager, CurrentConsent(env)), Thread(THREAD, str(tmp_path)))
        following = asyncio.create_task(terminal.follow(cast("Peer", Daemon()), 0))
        await eventually(lambda: bool(manager.sessions()), "no session")
        (session,) = manager.sessions()
        terminal.notified("turn/started", {"turn": {"id": "turn-1", "status": "inProgress", "items": []}})
        terminal.notified("item/started", {"turnId": "turn-1", "item": {**call, "status": "inProgress"}})
        made = {
            "type": "function_call",
            "name": "exec_command",
            "call_id": "call-1",
            "arguments": '{"cmd": "touch it"}',
        }
        terminal.notified("rawResponseItem/completed", {"turnId": "turn-1", "item": made})
        about = {
            "threadId": THREAD,
            "turnId": "turn-1",
            "itemId": "call-1",
            "command": "touch it",
            "cwd": str(tmp_path),
        }
        requested = terminal.requested("item/commandExecution/requestApproval", about, asyncio.Event())
        response = await asyncio.wait_for(requested, 30)
        assert response == {"decision": "accept" if decision == "allow" else "decline"}
        assert not manager.asks.pending()
        (attached,) = manager.attached("codex")
        await attached.flush()
        events = [entry.event async for entry in manager.events(session.id, follow=False)]
        (answer,) = (event for event in events if isinstance(event, Answer))
        assert (answer.decision, answer.by, answer.rule, answer.tool) == (decision, "rule", "r1", "call-1")
        assert not any(isinstance(event, Ask) for event in events)
        await cancel_and_wait(following)
