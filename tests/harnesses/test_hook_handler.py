"""Hooks of all harnesses come in here, with a real mesh behind."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tieline.bus import open_bus
from tieline.config import Config
from tieline.errors import UsageError
from tieline.harnesses.hook_handler import DOUBLE_S, HarnessHooks
from tieline.mesh.errors import NotYours
from tieline.mesh.hook_events import HookEvents
from tieline.mesh.mesh import Mesh
from tieline.mesh.records import Caller
from tieline.protocol.mesh import MemberView
from tieline.relay import Relay

LOCAL = Caller(machine="here")
OWNER = Caller(person="owner")


class Rig:
    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.now = 1000.0
        self.hooks = HarnessHooks(HookEvents(mesh, "Talk."), "here", clock=lambda: self.now)

    @property
    def agents(self) -> list[MemberView]:
        return [each for each in self.mesh.directory.members() if each.kind == "agent"]

    async def fire(self, event: str, caller: Caller = LOCAL, harness: str = "gemini", **more: Any) -> str:
        input = {"session_id": "g-1", "cwd": "/", "hook_event_name": event, **more}
        reply = await self.hooks.handle(caller, harness, input)
        if reply.handed:
            await self.mesh.confirm(reply.caller, reply.handed)
        return reply.text


@asynccontextmanager
async def rig(folder: Path) -> AsyncGenerator[Rig]:
    folder.mkdir(exist_ok=True)
    async with (
        open_bus(f"sqlite://{folder / 'bus.db'}") as bus,
        Relay(bus, Config()) as relay,
        Mesh(bus, relay, machine="here") as mesh,
    ):
        yield Rig(mesh)


async def test_an_event_that_fires_two_hooks_is_handled_once(tmp_path: Path) -> None:
    async with rig(tmp_path) as hooks:
        await hooks.fire("BeforeAgent")
        me = hooks.mesh.whoami(Caller(machine="here", harness="gemini", session="g-1"))
        await hooks.mesh.send_message(OWNER, me.id, "first")
        assert "first" in await hooks.fire("AfterAgent", prompt_response="done")
        assert await hooks.fire("AfterAgent", prompt_response="done") == ""
        (view,) = hooks.agents
        assert view.activity == "working"  # the second hook did not end the turn that the first one kept going
        (activity,) = hooks.hooks.activity()
        assert (activity.fired, activity.event, activity.doubled_at) == (2, "AfterAgent", hooks.now)
        hooks.now += DOUBLE_S
        assert await hooks.fire("AfterAgent", prompt_response="done") == ""
        assert hooks.mesh.directory.member(me.id).activity == "idle"  # type: ignore[union-attr]


async def test_another_harness_that_runs_the_same_hook_is_told_nothing(tmp_path: Path) -> None:
    async with rig(tmp_path) as hooks:
        assert await hooks.fire("SessionStart", harness="claude-code", tool_use_id="t")
        assert await hooks.fire("SessionStart", harness="codex", tool_use_id="t", more="words") == ""
        (activity,) = hooks.hooks.activity()
        assert (activity.harness, activity.doubled_by) == ("claude-code", "codex")


async def test_a_hook_keeps_the_agents_own_token_valid(tmp_path: Path) -> None:
    async with rig(tmp_path) as hooks:
        session = Caller(machine="here", harness="gemini", session="g-1")
        token = (await hooks.mesh.register_agent(session, name="mine")).token
        await hooks.fire("BeforeAgent")
        await hooks.fire("AfterTool")
        assert hooks.mesh.whoami(replace(session, token=token)).name == "mine"


async def test_a_hook_is_for_the_session_that_its_transport_names(tmp_path: Path) -> None:
    async with rig(tmp_path) as hooks:
        with pytest.raises(NotYours, match="this is the session other"):
            await hooks.fire("AfterTool", replace(LOCAL, session="other"))
        assert await hooks.fire("SessionStart", Caller(driven="01abc")) == ""
        for input in ({}, {"session_id": 7}, {"session_id": "x" * 201}, {"session_id": "a\nb"}):
            with pytest.raises(UsageError):
                await hooks.hooks.handle(LOCAL, "gemini", input)
        with pytest.raises(UsageError, match="not known"):
            await hooks.fire("SessionStart", harness="unheard-of")
        assert hooks.agents == [] and hooks.hooks.activity() == []


async def test_the_folder_of_a_session_elsewhere_is_not_looked_up(tmp_path: Path) -> None:
    async with rig(tmp_path) as hooks:
        await hooks.fire("SessionStart", Caller(machine="laptop"), cwd=str(tmp_path))
        (member,) = hooks.agents
        assert member.machine == "laptop" and member.cwd == "" and member.project == ""


async def test_codex_is_told_by_its_hooks_what_claude_code_is(tmp_path: Path) -> None:
    all_replies: list[list[str]] = []
    for harness in ("claude-code", "codex"):
        async with rig(tmp_path / harness) as hooks:
            replies = [await hooks.fire("SessionStart", harness=harness, source="startup")]
            (member,) = hooks.agents
            for event in ("UserPromptSubmit", "PostToolUse", "Stop", "Stop"):
                if event != "Stop" or len(replies) == 3:
                    await hooks.mesh.send_message(OWNER, member.id, f"before {event}")
                hooks.now += DOUBLE_S
                replies.append(await hooks.fire(event, harness=harness, stop_hook_active=len(replies) == 4))
            all_replies.append([re.sub(r"You are \S+|[0-9a-f]{6,}", "", reply) for reply in replies])
    claude, codex = all_replies
    assert claude == codex
    assert "Talk." in codex[0] and "before PostToolUse" in codex[2]
    assert '"decision": "block"' in codex[3] and codex[4] == ""
