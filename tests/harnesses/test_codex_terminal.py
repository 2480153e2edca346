"""What a terminal of Codex tells, in the orders in which its daemon may say it."""

import asyncio
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from tieline.background_tasks import cancel_and_wait
from tieline.bus import open_bus
from tieline.config import Config
from tieline.events import Answer, Ask, Done
from tieline.harnesses.attach_consent import CurrentConsent, agree
from tieline.harnesses.codex_terminal import CodexTerminal, Thread
from tieline.sessions.ask_rules import AskRule
from tieline.sessions.attacher import Attacher
from tieline.sessions.manager import SessionManager
from tieline.sessions.records import AskRecord
from tieline.testing.wait_for import eventually
from tieline.wire.jsonrpc import NoResponse, Peer

THREAD = "01993f7c-0000-7000-8000-000000000001"


class Daemon:
    """Answers a client as one without history does."""

    async def request(self, method: str, params: object, *, timeout: float) -> dict[str, Any]:
        return {"data": [], "nextCursor": None} if method == "thread/turns/list" else {}


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
        told = [entry.event async for entry in manager.events(session.id, follow=False)]
        assert [event.status for event in told if isinstance(event, Done)] == ["interrupted"]
        assert [event.decision for event in told if isinstance(event, Answer)] == ["deny"]
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
        told = [entry.event async for entry in manager.events(session.id, follow=False)]
        (answer,) = (event for event in told if isinstance(event, Answer))
        assert (answer.decision, answer.by, answer.rule, answer.tool) == (decision, "rule", "r1", "call-1")
        assert not any(isinstance(event, Ask) for event in told)
        await cancel_and_wait(following)
