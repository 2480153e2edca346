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


class Caller(msgspec.Struct):
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
async def caller(tmp_path: Path) -> AsyncGenerator[Caller]:
    replies = [[Say("first")], [Run("touch made")], [Say("second")], [Stall()]]
    async with executor_at(tmp_path / "node", replies) as (executor, bus):
        yield Caller(executor, bus, str(tmp_path / "node" / "work"))


@pytest.mark.parametrize("kind", c.COMMANDS, ids=lambda kind: kind.name)
async def test_every_command_is_carried_out_or_refused_for_a_reason(caller: Caller, kind: type[AnyCommand]) -> None:
    """None is forgotten: it would be answered with nothing, as if it were done."""
    needed: dict[str, Any] = {
        field.name: {"answer": {"ask": "nonesuch", "decision": "allow"}, "paths": ["nonesuch"]}.get(
            field.name, "nonesuch"
        )
        for field in msgspec.structs.fields(kind)
        if field.required
    }
    result = await caller.result(msgspec.convert(needed, kind))
    if result.refusal is None:
        assert kind in (c.ListSessions, c.CreateSession, c.Browse, c.Refresh), "there is no such session"
        assert msgspec.json.decode(result.value, type=RESULT_TYPES[kind]) is not None
    else:
        assert result.refusal.code in ("UsageError", "UnknownAgent"), result.refusal


async def test_sessions(caller: Caller) -> None:
    record: SessionRecord = await caller.do(
        c.CreateSession(session="mine", agent="scripted", cwd=caller.cwd, policy=FULL, title="a", model="m")
    )
    assert (record.id, record.node, record.title, record.model) == ("mine", caller.executor.identity.id, "a", "m")
    again: SessionRecord = await caller.do(c.CreateSession(session="mine", agent="scripted", cwd=caller.cwd, title="b"))
    assert again.title == "a"
    changed: SessionRecord = await caller.do(c.ChangeSession(session="mine", title="c", archived=True))
    assert (changed.title, changed.archived, changed.model) == ("c", True, "m")
    assert await caller.do(c.ListSessions()) == []
    assert [session.id for session in await caller.do(c.ListSessions(archived=True))] == ["mine"]
    assert (await caller.do(c.CloseSession(session="mine"))).status == "closed"
    assert await caller.refused(c.ForkSession(session="mine")) == "Unsupported"


async def test_prompts_messages_and_diff(caller: Caller) -> None:
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q"], cwd=caller.cwd, check=True, env=GIT)
    session = await caller.session()
    prompt: PromptView = await caller.do(c.SendPrompt(session=session, prompt="p1", text="hello"))
    assert (prompt.id, prompt.by) == ("p1", "me")
    assert (await caller.do(c.SendPrompt(session=session, prompt="p1", text="hello"))).id == "p1"
    await until_done(caller.bus, session)
    messages: list[TranscriptItem] = await caller.do(c.GetMessages(session=session))
    assert [message.text for message in messages if message.kind == "text"] == ["first"]
    assert await caller.do(c.GetDiff(session=session)) == ""
    await caller.do(c.SendPrompt(session=session, prompt="p2", text="on"))
    await until_done(caller.bus, session, 2)
    assert Path(caller.cwd, "made").exists()
    assert "diff --git a/made b/made\nnew file" in await caller.do(c.GetDiff(session=session))
    await caller.do(c.SendPrompt(session=session, prompt="p3", text="stall"))
    await caller.do(c.SendPrompt(session=session, prompt="p4", text="waits"))
    await caller.do(c.SendPrompt(session=session, prompt="p5", text="waits too"))
    moved: PromptView = await caller.do(c.MovePrompt(session=session, prompt="p5", before="p4"))
    assert moved.id == "p5"
    edit = c.EditPrompt(session=session, prompt="p5", text="waits, in other words")
    assert (await caller.do(edit, id="edit")).text == "waits, in other words"
    assert await caller.refused(c.EditPrompt(session=session, prompt="p5", text="")) == "UsageError"
    assert await caller.refused(c.EditPrompt(session=session, prompt="p3", text="it runs")) == "UsageError"
    assert (await caller.do(c.CancelPrompt(session=session, prompt="p4"), id="cancel")).status == "cancelled"
    assert (await caller.do(c.CancelPrompt(session=session, prompt="p4"), id="again")).status == "cancelled"
    assert await caller.refused(c.CancelPrompt(session=session, prompt="nonesuch")) == "UsageError"
    assert await caller.refused(c.Steer(session=session, text="left")) == "Unsupported"
    assert await caller.do(c.AbortSession(session=session)) is True


async def test_decisions(caller: Caller) -> None:
    session = await caller.session(policy=Policy("ask", "ask", "ask"))
    await caller.do(c.SendPrompt(session=session, prompt="p0", text="talk"))
    await caller.do(c.SendPrompt(session=session, prompt="p1", text="run"))
    asks = caller.executor.manager.asks
    await eventually(lambda: bool(asks.pending()), "nothing was asked", timeout=30)
    ask = asks.pending()[0]
    other = await caller.session()
    answer = Answer(ask.id, "deny", reason="because")
    assert await caller.refused(c.ApprovePermission(session=other, ask=ask.id, answer=answer)) == "UsageError"
    assert await caller.refused(c.ApprovePermission(session=session, ask="none", answer=answer)) == "UsageError"
    wrong = c.ApprovePermission(session=session, ask=ask.id, answer=answer, digest="0" * 32)
    assert await caller.refused(wrong) == "UsageError"
    approve = c.ApprovePermission(session=session, ask=ask.id, answer=answer, digest=ask.digest)
    record: AskRecord = await caller.do(approve, id="approve")
    assert record.answer is not None
    assert (record.answer.decision, record.answer.by, record.answer.reason) == ("allow", "me", "because")
    assert await caller.do(approve, id="approve") == record  # the same command
    assert await caller.do(approve, id="its-twin-after-a-crash") == record
    deny = c.DenyPermission(session=session, ask=ask.id, answer=answer)
    assert await caller.refused(deny) == "AlreadyAnswered"
    await until_done(caller.bus, session, 2)


async def test_a_denial(tmp_path: Path) -> None:
    async with executor_at(tmp_path / "node", [[Run("touch made")], [Say("Refused.")]]) as (executor, bus):
        caller = Caller(executor, bus, str(tmp_path / "node" / "work"))
        session = await caller.session(policy=Policy("ask", "ask", "ask"))
        await caller.do(c.SendPrompt(session=session, prompt="p", text="run"))
        asks = executor.manager.asks
        await eventually(lambda: bool(asks.pending()), "nothing was asked", timeout=30)
        ask = asks.pending()[0]
        answer = Answer(ask.id, "allow", reason="not here")  # the command decides, whatever comes with it
        record: AskRecord = await caller.do(c.DenyPermission(session=session, ask=ask.id, answer=answer))
        assert record.answer is not None
        assert (record.answer.decision, record.answer.by, record.answer.reason) == ("deny", "me", "not here")
        await until_done(bus, session)
        assert not Path(caller.cwd, "made").exists()


async def test_browse_stays_at_home(caller: Caller, tmp_path: Path) -> None:
    home = tmp_path / "node"
    (home / "projects" / "one").mkdir(parents=True)
    (home / ".hidden").mkdir()
    (home / "file").touch()
    (tmp_path / "elsewhere" / "secret").mkdir(parents=True)
    (home / "out").symlink_to(tmp_path / "elsewhere")
    shown: DirectoryView = await caller.do(c.Browse())
    assert shown.path == str(home)
    assert shown.parent == ""
    assert {"projects", "work"} <= set(shown.names)
    assert not {".hidden", "file"} & set(shown.names)
    inside: DirectoryView = await caller.do(c.Browse(path=str(home / "projects")))
    assert (inside.names, inside.parent) == (("one",), str(home))
    for path in ("..", "../elsewhere", str(tmp_path), "/", "/etc", str(home / "out"), "out/../..", "a\0b", "nonesuch"):
        assert await caller.refused(c.Browse(path=path)) == "UsageError"
    elsewhere = str(tmp_path / "elsewhere")
    await caller.do(c.CreateSession(agent="scripted", cwd=elsewhere, policy=FULL))
    assert (await caller.do(c.Browse(path=elsewhere))).names == ("secret",)  # a session works there


async def test_refused_without_an_exception(caller: Caller) -> None:
    session = await caller.session()
    assert await caller.refused(c.CreateSession(agent="nonesuch", cwd=caller.cwd)) == "UnknownAgent"
    assert await caller.refused(c.CreateSession(agent="scripted", cwd="/nonesuch")) == "UsageError"
    assert await caller.refused(c.SendPrompt(session=session, prompt="p", text=" ")) == "UsageError"
    by_path = (Attachment(path="/etc/passwd", media_type="text/plain"),)
    assert (
        await caller.refused(c.SendPrompt(session=session, prompt="p", text="x", attachments=by_path)) == "UsageError"
    )
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
        assert await caller.refused(command) == "UsageError", command


async def test_too_late(caller: Caller) -> None:
    late = c.CreateSession(session="late", agent="scripted", cwd=caller.cwd)
    assert await caller.refused(late, expires_at=time.time() - 1) == "expired"
    assert not caller.executor.manager.owns("late")


async def test_the_same_command_at_the_same_time_is_done_once(caller: Caller) -> None:
    create = c.CreateSession(agent="scripted", cwd=caller.cwd, policy=FULL)
    results = await asyncio.gather(*(caller.result(create, id="same") for _ in range(20)))
    assert len({bytes(result.value) for result in results}) == 1
    assert [session.id for session in await caller.do(c.ListSessions())] == [session_of("same")]


async def test_results_outlive_the_node(tmp_path: Path) -> None:
    """What may not happen twice is known by its command, also to the next process."""
    async with executor_at(tmp_path / "node", [[Say("x")]]) as (executor, bus):
        first = Caller(executor, bus, str(tmp_path / "node" / "work"))
        session = await first.session()
        refused = await first.result(c.Steer(session=session, text="left"), id="steer")
        assert refused.refusal is not None
    async with executor_at(tmp_path / "node", [[Say("x")]]) as (executor, bus):
        again = Caller(executor, bus, str(tmp_path / "node" / "work"))
        assert await again.result(c.Steer(session=session, text="left"), id="steer") == refused
        # One that died while it steered: nobody knows whether the agent heard it, so it is not said again.
        key = f"{executor.identity.id}.unsure"
        unsure = msgspec.structs.replace(refused, id="unsure", refusal=c.Refusal(code="indeterminate", message=""))
        await bus.table("results").put(key, msgspec.json.encode(unsure))
        assert await again.refused(c.Steer(session=session, text="left"), id="unsure") == "indeterminate"


async def test_without_an_agent_it_is_one_that_is_ready(tmp_path: Path) -> None:
    agents = {"off": {"type": "scripted", "enabled": False}, "other": {"type": "scripted"}}
    async with executor_at(tmp_path / "node", drivers={}, agents=agents, default_agent="off") as (executor, bus):
        caller = Caller(executor, bus, str(tmp_path / "node" / "work"))
        await caller.do(c.Refresh())
        assert (await caller.do(c.CreateSession(cwd=caller.cwd, policy=FULL))).agent == "other"
        # Named: not another one.
        assert await caller.refused(c.CreateSession(agent="off", cwd=caller.cwd)) == "UsageError"
    async with executor_at(tmp_path / "bare", drivers={}) as (executor, bus):
        caller = Caller(executor, bus, str(tmp_path / "bare" / "work"))
        await caller.do(c.Refresh())
        # The demo is no agent to work with.
        assert await caller.refused(c.CreateSession(cwd=caller.cwd)) == "UsageError"


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
        caller = Caller(executor, bus, str(tmp_path / "node" / "work"))
        views: dict[str, AgentView] = {view.name: view for view in await caller.do(c.Refresh())}
        assert views["on"].ready and views["on"].health == "healthy" and "deltas" in views["on"].features
        for name in ("off", "gemini"):
            assert (views[name].health, views[name].ready) == ("off", False)
            assert await caller.refused(c.CreateSession(agent=name, cwd=caller.cwd)) == "UsageError"
        assert views["lost"].health == "failing" and "cannot be read" in views["lost"].problem
        assert not views["codex"].found and views["codex"].problem  # none is on this PATH
        status = executor.status()
        assert status.default_agent == "on" and {agent.name for agent in status.agents} == set(views)
        assert (await caller.do(c.CreateSession(cwd=caller.cwd, policy=FULL))).agent == "on"
    assert AgentInventory(config, lambda name: executor.manager.driver(name)).off("gemini")


@pytest.mark.parametrize("method", ["prompt", "cancel"])
async def test_a_bus_that_was_away_is_not_remembered(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Whoever asks again by the same id is not told of it for good."""
    session = await caller.session()
    command: AnyCommand = c.SendPrompt(session=session, prompt="p1", text="go")
    if method == "cancel":
        command = c.CancelPrompt(session=session, prompt=(await caller.do(command)).id)

    async def away(*_: Any, **__: Any) -> Any:
        raise BusUnavailable("the server is away")

    with monkeypatch.context() as patch:
        patch.setattr(caller.executor.manager if method == "prompt" else caller.executor.manager.prompts, method, away)
        assert await caller.refused(command, id="one") == "BusUnavailable"
    again = await caller.result(command, id="one")
    assert again.refusal is None or again.refusal.code != "BusUnavailable"
    assert await caller.result(command, id="one") == again
