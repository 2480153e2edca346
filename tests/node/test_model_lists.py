"""The models of a node's agents: asked for once, kept, and held against what somebody wants."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tieline.config import Config
from tieline.drivers import registry
from tieline.drivers.base import Driver
from tieline.drivers.model_list import ModelList
from tieline.drivers.scripted import Scripted
from tieline.errors import AgentStartFailed, UnknownAgent, Unsupported, UsageError
from tieline.node.agent_inventory import AgentInventory
from tieline.testing.rig import scratch_env

PEER = Path(__file__).parents[1] / "drivers/acp_agent.py"


def settings(folder: Path) -> Config:
    environ = {**scratch_env(folder / "home", path="/usr/bin:/bin"), "TIELINE_HOME": str(folder / "state")}
    peer = {"type": "acp", "command": [sys.executable, str(PEER)], "can": {"model": True}}
    return Config(agents={"peer": peer, "plain": {"type": "shell", "command": ["true"]}}, environ=environ)


class Lister(Scripted):
    """Says what the test wants of its models, when the test wants it."""

    def __init__(self) -> None:
        super().__init__([])
        self.models = ModelList(names=("small", "large"), certain=True)
        self.of_project = self.models
        self.asked: list[str] = []
        self.broken = False
        self.may_tell = asyncio.Event()
        self.may_tell.set()

    async def list_models(self, cwd: str, env: Mapping[str, str]) -> ModelList:
        self.asked.append(cwd)
        await self.may_tell.wait()
        if self.broken:
            raise AgentStartFailed(self.name, "it did not come up")
        return self.models if cwd.endswith("no-project") else self.of_project


def inventory(folder: Path, lister: Lister) -> AgentInventory:
    config = settings(folder)

    def driver(name: str) -> Driver:
        return lister if name == "scripted" else registry.create(name, config)

    return AgentInventory(config, driver)


@pytest.mark.slow
async def test_a_list_is_asked_for_once_and_outlives_the_process(tmp_path: Path) -> None:
    config = settings(tmp_path)
    for turn in (1, 2):
        async with AgentInventory(config, lambda name: registry.create(name, config)) as agents:
            (before,) = [view for view in await agents.refresh() if view.name == "peer"]
            assert before.models == (() if turn == 1 else ("small", "large"))
            view = await agents.list_models("peer")
            assert view.models == ("small", "large") and view.models_seen_at > 0 and not view.models_stale
            assert view in agents.views, "everybody who looks sees it"
            if turn == 2:
                assert view.models_seen_at == before.models_seen_at, "it was not asked again"


@pytest.mark.slow
async def test_those_who_want_it_at_once_share_one_asking_and_nobody_else_waits(tmp_path: Path) -> None:
    lister = Lister()
    lister.may_tell.clear()
    async with inventory(tmp_path, lister) as agents:
        await agents.refresh()
        model_lists: list[tuple[str, ...]] = []
        agents.changed.append(
            lambda: model_lists.extend(view.models for view in agents.views if view.name == "scripted")
        )
        waiting = [asyncio.create_task(agents.list_models("scripted")) for _ in range(5)]
        await asyncio.sleep(0)
        await agents.refresh()  # a look at the agents goes on meanwhile
        waiting[0].cancel()
        lister.may_tell.set()
        views = await asyncio.gather(*waiting[1:])
        assert [view.models for view in views] == [("small", "large")] * 4
        assert len(lister.asked) == 1 and model_lists == [("small", "large")]
        with pytest.raises(Unsupported, match="a list of its models"):
            await agents.list_models("plain")
        with pytest.raises(UnknownAgent):
            await agents.list_models("nonesuch")


async def test_one_that_does_not_tell_is_left_alone_for_a_while(tmp_path: Path) -> None:
    lister = Lister()
    lister.broken = True
    async with inventory(tmp_path, lister) as agents:
        with pytest.raises(AgentStartFailed, match="did not come up"):
            await agents.list_models("scripted")
        lister.broken = False
        with pytest.raises(AgentStartFailed, match="it is asked again in"):
            await agents.list_models("scripted")
        assert len(lister.asked) == 1


@pytest.mark.slow
async def test_a_model_is_refused_only_by_an_agent_that_has_just_said_so(tmp_path: Path) -> None:
    lister, project = Lister(), str(tmp_path)
    async with inventory(tmp_path, lister) as agents:
        await agents.check_model("scripted", "anything", project)  # nothing is known
        assert lister.asked == []
        await agents.list_models("scripted")
        await agents.check_model("scripted", "small", project)
        assert len(lister.asked) == 1, "what is listed raises no doubt"
        with pytest.raises(UsageError, match="has no model 'smal'") as refused:
            await agents.check_model("scripted", "smal", project)
        assert refused.value.field == "model" and "small" in refused.value.hint
        assert lister.asked[1:] == [project], "it was asked where the session would work"
        lister.of_project = ModelList(names=("small", "smal"), certain=True)
        await agents.check_model("scripted", "smal", project)  # which it has there
        lister.broken = True
        await agents.check_model("scripted", "gone", project)  # it cannot be certain
        lister.broken, lister.models = False, ModelList(names=("small",))
        await agents.check_model("nonesuch", "gone", project)  # said when the session is made
    lister = Lister()
    lister.models = ModelList(names=("small", "large"))
    async with inventory(tmp_path / "other", lister) as agents:
        await agents.list_models("scripted")
        await agents.check_model("scripted", "gone", project)
        assert len(lister.asked) == 1, "its list was never meant to be complete"
