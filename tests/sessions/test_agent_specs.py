"""What sessions and prompts are given on their way reaches the agent, also after a restart."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.sessions.test_manager import ENV, settled, until_done

from tieline.bus import open_bus
from tieline.config import Config, PoolConfig, WatchdogConfig
from tieline.drivers.base import Features, Prompt
from tieline.drivers.scripted import Scripted
from tieline.errors import PolicyUnenforceable, UsageError
from tieline.events import Done, TurnStarted
from tieline.policy import CAPABILITIES, Enforcement, Policy, Receipt, preset
from tieline.script import Say, Stall
from tieline.sessions.agent_specs import quiet_s, spec_of, warm_spec
from tieline.sessions.manager import SessionManager


class Lax(Scripted):
    """It cannot be held to anything, and takes every option."""

    features = Features(
        max_turns=True, max_budget_usd=True, allowed_tools=True, disallowed_tools=True, system="prompt", arguments=True
    )

    def enforce(self, policy: Policy) -> Receipt:
        return Receipt.from_lines({name: Enforcement(policy.level(name), "none") for name in CAPABILITIES})


@asynccontextmanager
async def managing(url: str, driver: Scripted, **settings: Any) -> AsyncGenerator[SessionManager]:
    config = Config(default_agent="scripted", environ=ENV, **settings)
    async with open_bus(url) as bus, SessionManager(bus, config, drivers={"scripted": driver}) as manager:
        yield manager


async def test_options_are_kept(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/bus.db"
    given: dict[str, Any] = {
        "accept_unenforced": True,
        "max_turns": 3,
        "max_budget_usd": 0.5,
        "allowed_tools": ("Read",),
        "disallowed_tools": ("Bash", "Web"),
        "system": "Be brief.",
        "arguments": ("--verbose",),
        "environment": ("DEBUG=1",),
    }
    async with managing(url, Lax()) as manager:
        with pytest.raises(PolicyUnenforceable):
            await manager.create(cwd=str(tmp_path), policy=Policy("deny", "deny", "deny"))
        session = await manager.create(cwd=str(tmp_path), policy=Policy("deny", "deny", "deny"), **given)
    async with managing(url, Lax()) as manager:
        kept = manager.get(session.id)
        assert {name: getattr(kept, name) for name in given} == given
        spec = spec_of(kept, ENV)
        assert {name: getattr(spec, name) for name in given} == given
        assert spec.policy == Policy("deny", "deny", "deny")
        assert spec.env == {**ENV, "DEBUG": "1"}


async def test_the_configured_policy_holds(tmp_path: Path) -> None:
    async with managing("sqlite://:memory:", Scripted(), policy="edits") as manager:
        assert (await manager.create(cwd=str(tmp_path))).policy == preset("edits")
        assert (await manager.create(cwd=str(tmp_path), policy=Policy())).policy == Policy()


@pytest.mark.parametrize("id", ["a.b", "a b", "*", ">", "x" * 65])
async def test_unusable_ids_of_sessions(tmp_path: Path, id: str) -> None:
    async with managing("sqlite://:memory:", Scripted()) as manager:
        with pytest.raises(UsageError, match="not valid"):
            await manager.create(cwd=str(tmp_path), id=id)
        assert manager.sessions() == []


async def test_a_prompt_brings_its_own_instruction(tmp_path: Path) -> None:
    """In front of the prompt, framed, for an agent that takes none beside it; the log shows what was said."""
    inputs: list[str] = []
    async with managing(
        "sqlite://:memory:", Scripted([[Say("one")], [Say("two")]], on_model_input=inputs.append)
    ) as manager:
        session = await manager.create(cwd=str(tmp_path))
        await manager.prompt(session.id, "hello", system="You were called by bob.")
        await manager.prompt(session.id, Prompt("again"))
        seen = await until_done(manager, session.id, turns=2)
    assert inputs[0] == "<system_context>\nYou were called by bob.\n</system_context>\n\nhello"
    assert "again" in inputs
    assert [event.prompt for event in seen if isinstance(event, TurnStarted)] == ["hello", "again"]


async def test_a_prompt_has_a_time_limit(tmp_path: Path) -> None:
    async with managing("sqlite://:memory:", Scripted([[Stall()], [Say("alive")]])) as manager:
        session = await manager.create(cwd=str(tmp_path))
        with pytest.raises(UsageError, match="time limit"):
            await manager.prompt(session.id, "go", timeout_s=0)
        prompt = await manager.prompt(session.id, "go", timeout_s=0.2)
        (ended,) = [event for event in await until_done(manager, session.id) if isinstance(event, Done)]
        assert ended.status == "timeout"
        record = await settled(manager, session.id, prompt.id)
        assert (record.status, record.outcome, record.timeout_s) == ("failed", "timeout", 0.2)


def test_the_watchdog_per_agent() -> None:
    config = Config(watchdog=WatchdogConfig(quiet_s=60, agents={"codex": 5}))
    assert (quiet_s(config, "codex"), quiet_s(config, "other")) == (5, 60)


@pytest.mark.parametrize(
    ("entry", "field"),
    [({}, "pool.warm[0]"), ({"cwd": "/", "modell": "x"}, "pool.warm[0]"), ({"cwd": "/"}, "pool.warm[0].agent")],
)
def test_bad_entries_of_the_pool(entry: dict[str, Any], field: str) -> None:
    with pytest.raises(UsageError) as caught:
        warm_spec(entry, 0, Config(pool=PoolConfig(warm=(entry,))))
    assert caught.value.field == field
