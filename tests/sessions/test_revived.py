"""An agent that dies between two turns is noticed and brought back, without anybody asking for it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.sessions.test_manager import ENV

from tieline.bus import open_bus
from tieline.config import Config
from tieline.drivers.base import AskFn, Driver, Spec
from tieline.drivers.model_list import ModelList
from tieline.drivers.scripted import Scripted, ScriptedConversation
from tieline.errors import AgentStartFailed
from tieline.node.agent_inventory import AgentInventory
from tieline.policy import Policy
from tieline.script import Say
from tieline.sessions import running_sessions, session_worker
from tieline.sessions.manager import SessionManager
from tieline.testing.wait_for import eventually

FULL = Policy("allow", "allow", "allow")


class Mortal(ScriptedConversation):
    dead = False

    @property
    def alive(self) -> bool:
        return not self.dead


class Fragile(Scripted):
    """An agent that can be resumed, and that dies when the test says so."""

    features = replace(Scripted.features, resume=True)
    offered_models = ModelList()

    def __init__(self) -> None:
        super().__init__([[Say("hello")]])
        self.opened: list[Mortal] = []
        self.resumed: list[str] = []
        self.broken = False
        self.opening = asyncio.Event()
        self.may_open = asyncio.Event()
        self.may_open.set()

    @asynccontextmanager
    async def open(self, spec: Spec, ask: AskFn) -> AsyncGenerator[ScriptedConversation, None]:
        if self.broken:
            raise AgentStartFailed(self.name, "it did not come up")
        self.opening.set()
        await self.may_open.wait()
        self.opened.append(Mortal(self, self.replies, spec, ask))
        self.resumed.append(spec.resume)
        yield self.opened[-1]
        await self.opened[-1].close()


@asynccontextmanager
async def managed(tmp_path: Path, driver: Driver) -> AsyncGenerator[tuple[SessionManager, str], None]:
    """A session that has had its first turn."""
    async with (
        open_bus(f"sqlite://{tmp_path}/bus.db") as bus,
        SessionManager(bus, Config(environ=ENV), drivers={"scripted": driver}) as manager,
    ):
        session = await manager.create("scripted", cwd=str(tmp_path), policy=FULL)
        await turn(manager, session.id)
        yield manager, session.id


async def turn(manager: SessionManager, session: str) -> None:
    before = manager.get(session).turns
    await manager.prompt(session, "go")
    await eventually(lambda: manager.get(session).turns > before, "no turn", timeout=30)


async def test_brought_back_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_sessions, "LOOK_S", 0.01)
    monkeypatch.setattr(session_worker, "SOON_S", 0.0)
    driver = Fragile()
    async with managed(tmp_path, driver) as (manager, session):
        lost: list[str] = []
        manager.lost.append(lost.append)
        driver.opened[0].dead = True
        await eventually(lambda: len(driver.opened) == 2, "it was not brought back")
        assert driver.resumed == ["", manager.get(session).native_id]
        assert lost == ["scripted"]
        await turn(manager, session)
        assert (manager.get(session).outcome, len(driver.opened)) == ("success", 2), "the one that was brought back"


async def test_a_prompt_that_comes_while_it_is_brought_back_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_sessions, "LOOK_S", 0.01)
    monkeypatch.setattr(session_worker, "SOON_S", 0.0)
    driver = Fragile()
    async with managed(tmp_path, driver) as (manager, session):
        driver.opening.clear()
        driver.may_open.clear()
        driver.opened[0].dead = True
        async with asyncio.timeout(60):
            await driver.opening.wait()
        await manager.prompt(session, "go")
        driver.may_open.set()
        await eventually(lambda: manager.get(session).turns == 2, "the prompt waits for ever", timeout=60)
        assert (manager.get(session).outcome, len(driver.opened)) == ("success", 2)


async def test_one_that_dies_at_once_is_not_started_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_sessions, "LOOK_S", 0.01)
    driver = Fragile()
    async with managed(tmp_path, driver) as (manager, session):
        driver.opened[0].dead = True
        await eventually(lambda: not manager.runners[session].resting, "it is still kept")
        assert len(driver.opened) == 1
        await turn(manager, session)
        assert (manager.get(session).outcome, len(driver.opened)) == ("success", 2), "a prompt brings it back"


async def test_a_prompt_that_comes_first_goes_on_by_resume(tmp_path: Path) -> None:
    driver = Fragile()
    async with managed(tmp_path, driver) as (manager, session):
        driver.opened[0].dead = True
        await turn(manager, session)
        assert (manager.get(session).outcome, len(driver.opened)) == ("success", 2)


async def test_the_node_looks_again_at_once(tmp_path: Path) -> None:
    """What is known of an agent that died is looked at now, not at the next round."""
    driver = Fragile()
    async with managed(tmp_path, driver) as (manager, session):
        config = Config(environ=ENV)
        async with AgentInventory(config, manager.driver) as agents:
            await agents.refresh()
            looked: list[bool] = []
            probe = driver.probe

            async def noted(env: object) -> object:
                looked.append(True)
                return await probe({})

            driver.probe = noted  # type: ignore[method-assign, assignment]
            manager.lost.append(agents.look_soon)
            driver.broken = driver.opened[0].dead = True
            await turn(manager, session)
            assert manager.get(session).outcome == "error"
            await eventually(lambda: bool(looked), "nobody looked", timeout=30)


async def test_the_models_that_an_agent_offers_are_known_once_it_ran(tmp_path: Path) -> None:
    driver = Fragile()
    async with (
        managed(tmp_path, driver) as (manager, session),
        AgentInventory(Config(environ={**ENV, "HOME": str(tmp_path)}), manager.driver) as agents,
    ):
        manager.opened.append(agents.look_at_models)
        name = manager.get(session).agent
        assert [view.models for view in await agents.refresh() if view.name == name] == [()]
        model_lists: list[tuple[str, ...]] = []
        agents.changed.append(lambda: model_lists.extend(view.models for view in agents.views if view.name == name))
        driver.offered_models = ModelList(names=("small", "large"))
        driver.opened[0].dead = True
        await turn(manager, session)  # it is opened again
        await turn(manager, session)
        assert model_lists == [("small", "large")], "told once, when it changed"


class Faulty(Fragile):
    """A driver with a fault: its next turn raises what no driver may raise."""

    fault = False

    @asynccontextmanager
    async def open(self, spec: Spec, ask: AskFn) -> AsyncGenerator[ScriptedConversation, None]:
        if self.fault:
            self.fault = False
            raise RuntimeError("nobody thought of this")
        async with super().open(spec, ask) as conversation:
            yield conversation


async def test_a_fault_of_a_driver_ends_the_prompt_and_not_the_session(tmp_path: Path) -> None:
    driver = Faulty()
    async with managed(tmp_path, driver) as (manager, session):
        await manager.close(session)
        driver.fault = True
        first = await manager.prompt(session, "go", id="p1")
        await turn(manager, session)
        prompt = await manager.prompts.get(session, first.id)
        assert (prompt.status, "nobody thought of this" in prompt.problem) == ("indeterminate", True)
        assert manager.get(session).status == "idle"
