"""run, run_parallel, open_session."""

import asyncio
from pathlib import Path

import msgspec
import pytest

import tieline
from tieline.config import Config
from tieline.errors import UnknownAgent, UsageError
from tieline.events import Done, Event, TextDelta
from tieline.script import Say, Stall
from tieline.testing.stream_checks import done, verify


async def test_run(tmp_path: Path) -> None:
    seen = [event async for event in tieline.run("scripted", "go", cwd=tmp_path, policy="full")]
    verify(seen)
    assert (tmp_path / "greeting.py").exists()
    assert done(seen).status == "success"


async def test_unknown_agent(tmp_path: Path) -> None:
    with pytest.raises(UnknownAgent, match="codx") as caught:
        tieline.open_session("codx", cwd=tmp_path)
    assert "Did you mean codex" in caught.value.hint


async def test_several_at_once(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
    jobs = [tieline.Job("scripted", "go", name=name, options={"cwd": tmp_path / name}) for name in "abc"]
    jobs.append(tieline.Job("no-such-agent", "go", options={"cwd": tmp_path}))
    seen: dict[str, list[Event]] = {}
    async for name, event in tieline.run_parallel(jobs, limit=2, policy="full"):
        seen.setdefault(name, []).append(event)
    assert set(seen) == {"a", "b", "c", "no-such-agent-4"}
    for name in "abc":
        verify(seen[name])
    ended = seen["no-such-agent-4"][-1]
    assert isinstance(ended, Done)
    assert ended.status == "error"


async def test_leaving_run_parallel_ends_the_others(tmp_path: Path) -> None:
    played = tmp_path / "script.json"
    played.write_bytes(msgspec.json.encode([[Say("begun"), Stall()]]))
    config = Config(agents={"slow": {"type": "scripted", "script": str(played)}}, environ={})
    before, begun = asyncio.all_tasks(), set[str]()
    jobs = [tieline.Job("slow", "go", name=name) for name in "abc"]
    events = tieline.run_parallel(jobs, cwd=tmp_path, policy="full", config=config)
    async with asyncio.timeout(60):  # they would never end by themselves
        async for name, event in events:
            begun |= {name} if isinstance(event, TextDelta) else set()
            if len(begun) == 3:
                break
        await events.aclose()
    assert asyncio.all_tasks() == before


async def test_no_room_for_anyone() -> None:
    with pytest.raises(UsageError, match="limit"):
        async for _ in tieline.run_parallel([], limit=0):
            pass


async def test_the_environment_is_inherited_unless_told_otherwise(tmp_path: Path) -> None:
    config = Config(environ={"PATH": "/nowhere"})
    assert tieline.open_session("scripted", cwd=tmp_path, config=config).spec.env == {"PATH": "/nowhere"}
    assert tieline.open_session("scripted", cwd=tmp_path, config=config, env={"A": "b"}).spec.env == {"A": "b"}


async def test_the_default_policy_comes_from_the_configuration(tmp_path: Path) -> None:
    session = tieline.open_session("scripted", cwd=tmp_path, config=Config(policy="full"))
    assert session.spec.policy == tieline.Policy("allow", "allow", "allow")


def test_every_public_name_is_there() -> None:
    for name in tieline.__all__:
        assert getattr(tieline, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(tieline, "no_such_name")  # noqa: B009
    assert set(tieline.__all__) <= set(dir(tieline))
