"""Real agents over the scripted model: what a rule allows needs no person in the next session; all else still does."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.hub.conftest import Running, running
from tests.hub.test_rule_routes import add, answer, answers, pending

from tieline.policy import Policy
from tieline.script import AnyStep, Run, Say, Write
from tieline.testing.rigs.claude_code import ClaudeCodeRig
from tieline.testing.rigs.codex import codex_rig
from tieline.testing.rigs.opencode import OpenCodeRig

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

BINARIES = Path(__file__).parents[2] / "agents/node_modules/.bin"
RIGS: dict[str, Callable[[Path], AbstractAsyncContextManager[Any]]] = {
    "claude-code": ClaudeCodeRig,
    "codex": lambda home: codex_rig(home, BINARIES / "codex"),
    "opencode": lambda home: OpenCodeRig(home, str(BINARIES / "opencode")),
}


class Agent:
    def __init__(self, hub: Running, rig: Any) -> None:
        self.hub = hub
        self.rig = rig

    async def asks(self, *steps: AnyStep, policy: Policy | None = None) -> str:
        """A new session whose agent does this."""
        self.rig.play(list(steps), [Say("done")])
        options = {name: value for name, value in self.rig.options.items() if name != "env"}
        record = await self.hub.manager.create("real", cwd=self.hub.cwd, policy=policy or Policy(), **options)
        await self.hub.manager.prompt(record.id, "go")
        return record.id


@asynccontextmanager
async def real_agent(name: str, path: Path) -> AsyncGenerator[Agent]:
    async with RIGS[name](path / "agent") as rig, AsyncExitStack() as stack:
        env = rig.options["env"]
        hub = await stack.enter_async_context(running(path, drivers={"real": rig.driver}, agents_env=env))
        yield Agent(hub, rig)


@pytest.mark.parametrize("name", RIGS)
async def test_a_command_by_its_first_words(name: str, tmp_path: Path) -> None:
    async with real_agent(name, tmp_path.resolve()) as agent:
        hub = agent.hub
        first = await agent.asks(Run("echo unit one"))
        ask = await pending(hub.manager, first)
        choices = (await hub.client.get(f"/api/v1/asks/{ask}/rule-choices")).json()
        (rule,) = (choice["rule"] for choice in choices if choice["rule"]["pattern"] == "echo unit")
        assert (await hub.client.post("/api/v1/rules/preview", json=rule)).json()["matched"] == 1
        made = await add(hub, **rule)
        await answer(hub, first, "allow")
        second = await agent.asks(Run("echo unit two"))
        assert [(answer.by, answer.rule) for answer in await answers(hub, second)] == [("rule", made["id"])]
        assert "unit two" in agent.rig.heard(), "it ran"
        trick = await agent.asks(Run("echo unit; touch escaped"))
        await answer(hub, trick, "deny")
        assert not Path(hub.cwd, "escaped").exists()
        denied = await agent.asks(Run("echo unit three"), policy=Policy(shell="deny"))
        assert all(answer.by != "rule" for answer in await answers(hub, denied))
        await hub.client.delete(f"/api/v1/rules/{made['id']}")
        third = await agent.asks(Run("echo unit four"))
        await answer(hub, third, "deny")


@pytest.mark.parametrize("name", RIGS)
async def test_an_edit_by_its_path(name: str, tmp_path: Path) -> None:
    async with real_agent(name, tmp_path.resolve()) as agent:
        hub, folder = agent.hub, Path(agent.hub.cwd)
        (folder / "src").mkdir()
        first = await agent.asks(Write(str(folder / "src/a.txt"), "one\n"))
        ask = await pending(hub.manager, first)
        choices = (await hub.client.get(f"/api/v1/asks/{ask}/rule-choices")).json()
        (rule,) = (choice["rule"] for choice in choices if choice["rule"]["pattern"] == f"{folder}/src/")
        await add(hub, **rule)
        await answer(hub, first, "allow")
        second = await agent.asks(Write(str(folder / "src/b.txt"), "two\n"))
        assert [answer.by for answer in await answers(hub, second)] == ["rule"]
        assert (folder / "src/b.txt").read_text() == "two\n"
        other = await agent.asks(Write(str(folder / "c.txt"), "three\n"))
        await answer(hub, other, "deny")
        assert not (folder / "c.txt").exists()
