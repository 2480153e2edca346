"""Every command, through a real session manager: done once, and what cannot be done is said, never raised."""

import asyncio
import subprocess
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.node.conftest import executor_at, settings, until_done

from tieline.bus import Bus
from tieline.drivers.base import Attachment
from tieline.errors import BusUnavailable
from tieline.events import Answer
from tieline.node.agent_inventory import AgentInventory
from tieline.node.command_executor import CommandExecutor
from tieline.node.command_handlers import RESULT_TYPES, session_of
from tieline.policy import Policy
from tieline.protocol import commands as c
from tieline.protocol.commands import AnyCommand, CommandEnvelope, Result
from tieline.protocol.views import AgentView, DirectoryView, PromptView
from tieline.script import Run, Say, Stall
from tieline.sessions.records import AskRecord, SessionRecord
from tieline.sessions.transcript import TranscriptItem
from tieline.testing.wait_for import eventually

FULL = Policy("allow", "allow", "allow")
GIT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


class Told(msgspec.Struct):
    executor: CommandExecutor
    bus: Bus
    cwd: str
    count: int = 0

    async def result(self, command: AnyCommand, *, id: str = "", **more: Any) -> Result:
        self.count += 1
        return await self.executor.result_of(
            CommandEnvelope(id=id or f"o{self.count}", command=command, by="me", **more)
        )

    async def do(self, command: AnyCommand, **more: Any) -> Any:
        result = await self.result(command, **more)
        assert result.refusal is None, result.refusal
        return msgspec.json.decode(result.value, type=RESULT_TYPES[type(command)])

    async def refused(self, command: AnyCommand, **more: Any) -> str:
        result = await self.result(command, **more)
        assert result.refusal is not None
        return result.refusal.code

    async def session(self, policy: Policy = FULL) -> str:
        record = await self.do(c.CreateSession(agent="scripted", cwd=self.cwd, policy=policy))
        return record.id


@pytest.fixture
async def told(tmp_path: Path) -> AsyncGenerator[Told]:
    replies = [[Say("first")], [Run("touch made")], [Say("second")], [Stall()]]
    async with executor_at(tmp_path / "node", replies) as (executor, bus):
        yield Told(executor, bus, str(tmp_path / "node" / "work"))


@pytest.mark.parametrize("kind", c.COMMANDS, ids=lambda kind: kind.name)
async def test_every_command_is_carried_out_or_refused_for_a_reason(told: Told, kind: type[AnyCommand]) -> None:
    """None is forgotten: it would be answered with nothing, as if it were done."""
    needed: dict[str, Any] = {
        field.name: {"answer": {"ask": "nonesuch", "decision": "allow"}, "paths": ["nonesuch"]}.get(
            field.name, "nonesuch"
        )
        for field in msgspec.structs.fields(kind)
        if field.required
    }
    result = await told.result(msgspec.convert(needed, kind))
    if result.refusal is None:
        assert kind in (c.ListSessions, c.CreateSession, c.Browse, c.Refresh), "there is no such session"
        assert msgspec.json.decode(result.value, type=RESULT_TYPES[kind]) is not None
    else:
        assert result.refusal.code in ("UsageError", "UnknownAgent"), result.refusal


async def test_sessions(told: Told) -> None:
    record: SessionRecord = await told.do(
        c.CreateSession(session="mine", agent="scripted", cwd=told.cwd, policy=FULL, title="a", model="m")
    )
    assert (record.id, record.node, record.title, record.model) == ("mine", told.executor.identity.id, "a", "m")
    again: SessionRecord = await told.do(c.CreateSession(session="mine", agent="scripted", cwd=told.cwd, title="b"))
    assert again.title == "a"
    changed: SessionRecord = await told.do(c.ChangeSession(session="mine", title="c", archived=True))
    assert (changed.title, changed.archived, changed.model) == ("c", True, "m")
    assert await told.do(c.ListSessions()) == []
    assert [one.id for one in await told.do(c.ListSessions(archived=True))] == ["mine"]
    assert (await told.do(c.CloseSession(session="mine"))).status == "closed"
    assert await told.refused(c.ForkSession(session="mine")) == "Unsupported"


async def test_prompts_messages_and_diff(told: Told) -> None:
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q"], cwd=told.cwd, check=True, env=GIT)
    session = await told.session()
    prompt: PromptView = await told.do(c.SendPrompt(session=session, prompt="p1", text="hello"))
    assert (prompt.id, prompt.by) == ("p1", "me")
    assert (await told.do(c.SendPrompt(session=session, prompt="p1", text="hello"))).id == "p1"
    await until_done(told.bus, session)
    messages: list[TranscriptItem] = await told.do(c.GetMessages(session=session))
    assert [message.text for message in messages if message.kind == "text"] == ["first"]
    assert await told.do(c.GetDiff(session=session)) == ""
    await told.do(c.SendPrompt(session=session, prompt="p2", text="on"))
    await until_done(told.bus, session, 2)
    assert Path(told.cwd, "made").exists()
    assert "diff --git a/made b/made\nnew file" in await told.do(c.GetDiff(session=session))
    await told.do(c.SendPrompt(session=session, prompt="p3", text="stall"))
    await told.do(c.SendPrompt(session=session, prompt="p4", text="waits"))
    await told.do(c.SendPrompt(session=session, prompt="p5", text="waits too"))
    moved: PromptView = await told.do(c.MovePrompt(session=session, prompt="p5", before="p4"))
    assert moved.id == "p5"
    edit = c.EditPrompt(session=session, prompt="p5", text="waits, in other words")
    assert (await told.do(edit, id="edit")).text == "waits, in other words"
    assert await told.refused(c.EditPrompt(session=session, prompt="p5", text="")) == "UsageError"
    assert await told.refused(c.EditPrompt(session=session, prompt="p3", text="it runs")) == "UsageError"
    assert (await told.do(c.CancelPrompt(session=session, prompt="p4"), id="cancel")).status == "cancelled"
    assert (await told.do(c.CancelPrompt(session=session, prompt="p4"), id="again")).status == "cancelled"
    assert await told.refused(c.CancelPrompt(session=session, prompt="nonesuch")) == "UsageError"
    assert await told.refused(c.Steer(session=session, text="left")) == "Unsupported"
    assert await told.do(c.AbortSession(session=session)) is True


async def test_decisions(told: Told) -> None:
    session = await told.session(policy=Policy("ask", "ask", "ask"))
    await told.do(c.SendPrompt(session=session, prompt="p0", text="talk"))
    await told.do(c.SendPrompt(session=session, prompt="p1", text="run"))
    asks = told.executor.manager.asks
    await eventually(lambda: bool(asks.pending()), "nothing was asked", timeout=30)
    ask = asks.pending()[0]
    other = await told.session()
    answer = Answer(ask.id, "deny", reason="because")
    assert await told.refused(c.ApprovePermission(session=other, ask=ask.id, answer=answer)) == "UsageError"
    assert await told.refused(c.ApprovePermission(session=session, ask="none", answer=answer)) == "UsageError"
    wrong = c.ApprovePermission(session=session, ask=ask.id, answer=answer, digest="0" * 32)
    assert await told.refused(wrong) == "UsageError"
    approve = c.ApprovePermission(session=session, ask=ask.id, answer=answer, digest=ask.digest)
    record: AskRecord = await told.do(approve, id="approve")
    assert record.answer is not None
    assert (record.answer.decision, record.answer.by, record.answer.reason) == ("allow", "me", "because")
    assert await told.do(approve, id="approve") == record  # the same command
    assert await told.do(approve, id="its-twin-after-a-crash") == record
    deny = c.DenyPermission(session=session, ask=ask.id, answer=answer)
    assert await told.refused(deny) == "AlreadyAnswered"
    await until_done(told.bus, session, 2)


async def test_a_denial(tmp_path: Path) -> None:
    async with executor_at(tmp_path / "node", [[Run("touch made")], [Say("Refused.")]]) as (executor, bus):
        told = Told(executor, bus, str(tmp_path / "node" / "work"))
        session = await told.session(policy=Policy("ask", "ask", "ask"))
        await told.do(c.SendPrompt(session=session, prompt="p", text="run"))
        asks = executor.manager.asks
        await eventually(lambda: bool(asks.pending()), "nothing was asked", timeout=30)
        ask = asks.pending()[0]
        answer = Answer(ask.id, "allow", reason="not here")  # the command decides, whatever comes with it
        record: AskRecord = await told.do(c.DenyPermission(session=session, ask=ask.id, answer=answer))
        assert record.answer is not None
        assert (record.answer.decision, record.answer.by, record.answer.reason) == ("deny", "me", "not here")
        await until_done(bus, session)
        assert not Path(told.cwd, "made").exists()


async def test_browse_stays_at_home(told: Told, tmp_path: Path) -> None:
    home = tmp_path / "node"
    (home / "projects" / "one").mkdir(parents=True)
    (home / ".hidden").mkdir()
    (home / "file").touch()
    (tmp_path / "elsewhere" / "secret").mkdir(parents=True)
    (home / "out").symlink_to(tmp_path / "elsewhere")
    shown: DirectoryView = await told.do(c.Browse())
    assert shown.path == str(home)
    assert shown.parent == ""
    assert {"projects", "work"} <= set(shown.names)
    assert not {".hidden", "file"} & set(shown.names)
    inside: DirectoryView = await told.do(c.Browse(path=str(home / "projects")))
    assert (inside.names, inside.parent) == (("one",), str(home))
    for path in ("..", "../elsewhere", str(tmp_path), "/", "/etc", str(home / "out"), "out/../..", "a\0b", "nonesuch"):
        assert await told.refused(c.Browse(path=path)) == "UsageError"
    elsewhere = str(tmp_path / "elsewhere")
    await told.do(c.CreateSession(agent="scripted", cwd=elsewhere, policy=FULL))
    assert (await told.do(c.Browse(path=elsewhere))).names == ("secret",)  # a session works there


async def test_refused_without_an_exception(told: Told) -> None:
    session = await told.session()
    assert await told.refused(c.CreateSession(agent="nonesuch", cwd=told.cwd)) == "UnknownAgent"
    assert await told.refused(c.CreateSession(agent="scripted", cwd="/nonesuch")) == "UsageError"
    assert await told.refused(c.SendPrompt(session=session, prompt="p", text=" ")) == "UsageError"
    by_path = (Attachment(path="/etc/passwd", media_type="text/plain"),)
    assert await told.refused(c.SendPrompt(session=session, prompt="p", text="x", attachments=by_path)) == "UsageError"
    for command in (
        c.ChangeSession(session="none", title="x"),
        c.ForkSession(session="none"),
        c.CloseSession(session="none"),
        c.AbortSession(session="none"),
        c.SendPrompt(session="none", prompt="p", text="x"),
        c.Steer(session="none", text="x"),
        c.CancelPrompt(session="none", prompt="p"),
        c.MovePrompt(session="none", prompt="p"),
        c.EditPrompt(session="none", prompt="p", text="t"),
        c.GetMessages(session="none"),
        c.GetDiff(session="none"),
    ):
        assert await told.refused(command) == "UsageError", command


async def test_too_late(told: Told) -> None:
    late = c.CreateSession(session="late", agent="scripted", cwd=told.cwd)
    assert await told.refused(late, expires_at=time.time() - 1) == "expired"
    assert not told.executor.manager.owns("late")


async def test_the_same_command_at_the_same_time_is_done_once(told: Told) -> None:
    create = c.CreateSession(agent="scripted", cwd=told.cwd, policy=FULL)
    results = await asyncio.gather(*(told.result(create, id="same") for _ in range(20)))
    assert len({bytes(result.value) for result in results}) == 1
    assert [one.id for one in await told.do(c.ListSessions())] == [session_of("same")]


async def test_results_outlive_the_node(tmp_path: Path) -> None:
    """What may not happen twice is known by its command, also to the next process."""
    async with executor_at(tmp_path / "node", [[Say("x")]]) as (executor, bus):
        first = Told(executor, bus, str(tmp_path / "node" / "work"))
        session = await first.session()
        refused = await first.result(c.Steer(session=session, text="left"), id="steer")
        assert refused.refusal is not None
    async with executor_at(tmp_path / "node", [[Say("x")]]) as (executor, bus):
        again = Told(executor, bus, str(tmp_path / "node" / "work"))
        assert await again.result(c.Steer(session=session, text="left"), id="steer") == refused
        # One that died while it steered: nobody knows whether the agent heard it, so it is not said again.
        key = f"{executor.identity.id}.unsure"
        unsure = msgspec.structs.replace(refused, id="unsure", refusal=c.Refusal(code="indeterminate", message=""))
        await bus.table("results").put(key, msgspec.json.encode(unsure))
        assert await again.refused(c.Steer(session=session, text="left"), id="unsure") == "indeterminate"


async def test_without_an_agent_it_is_one_that_is_ready(tmp_path: Path) -> None:
    agents = {"off": {"type": "scripted", "enabled": False}, "other": {"type": "scripted"}}
    async with executor_at(tmp_path / "node", drivers={}, agents=agents, default_agent="off") as (executor, bus):
        told = Told(executor, bus, str(tmp_path / "node" / "work"))
        await told.do(c.Refresh())
        assert (await told.do(c.CreateSession(cwd=told.cwd, policy=FULL))).agent == "other"
        assert await told.refused(c.CreateSession(agent="off", cwd=told.cwd)) == "UsageError"  # named: not another one
    async with executor_at(tmp_path / "bare", drivers={}) as (executor, bus):
        told = Told(executor, bus, str(tmp_path / "bare" / "work"))
        await told.do(c.Refresh())
        assert await told.refused(c.CreateSession(cwd=told.cwd)) == "UsageError"  # the demo is no agent to work with


async def test_agents_are_shown_as_they_are(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    agents = {
        "off": {"type": "scripted", "enabled": False},
        "gemini": {"enabled": False},
        "lost": {"type": "scripted", "script": "/nonesuch.json"},
        "on": {"type": "scripted", "enabled": True},
    }
    config = settings(tmp_path / "node", agents=agents, default_agent="on")
    async with executor_at(tmp_path / "node", drivers={}, agents=agents, default_agent="on") as (executor, bus):
        told = Told(executor, bus, str(tmp_path / "node" / "work"))
        views: dict[str, AgentView] = {view.name: view for view in await told.do(c.Refresh())}
        assert views["on"].ready and views["on"].health == "healthy" and "deltas" in views["on"].features
        for name in ("off", "gemini"):
            assert (views[name].health, views[name].ready) == ("off", False)
            assert await told.refused(c.CreateSession(agent=name, cwd=told.cwd)) == "UsageError"
        assert views["lost"].health == "failing" and "cannot be read" in views["lost"].problem
        assert not views["codex"].found and views["codex"].problem  # none is on this PATH
        status = executor.status()
        assert status.default_agent == "on" and {one.name for one in status.agents} == set(views)
        assert (await told.do(c.CreateSession(cwd=told.cwd, policy=FULL))).agent == "on"
    assert AgentInventory(config, lambda name: executor.manager.driver(name)).off("gemini")


@pytest.mark.parametrize("method", ["prompt", "cancel"])
async def test_a_bus_that_was_away_is_not_remembered(told: Told, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Whoever asks again by the same id is not told of it for good."""
    session = await told.session()
    command: AnyCommand = c.SendPrompt(session=session, prompt="p1", text="go")
    if method == "cancel":
        command = c.CancelPrompt(session=session, prompt=(await told.do(command)).id)

    async def away(*_: Any, **__: Any) -> Any:
        raise BusUnavailable("the server is away")

    with monkeypatch.context() as patch:
        patch.setattr(told.executor.manager if method == "prompt" else told.executor.manager.prompts, method, away)
        assert await told.refused(command, id="one") == "BusUnavailable"
    again = await told.result(command, id="one")
    assert again.refusal is None or again.refusal.code != "BusUnavailable"
    assert await told.result(command, id="one") == again
