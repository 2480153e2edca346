"""run, run_parallel, open_session."""

import asyncio
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tieline
from tieline.config import Config
from tieline.drivers.base import Features
from tieline.drivers.scripted import Scripted
from tieline.errors import UnknownAgent, UsageError
from tieline.events import Done, Event, TextDelta
from tieline.script import Say, Stall
from tieline.testing.stream_checks import done, verify


class Obedient(Scripted):
    """It takes every option."""

    features = Features(model=True, max_turns=True, allowed_tools=True, mcp_servers=True)


async def test_run(tmp_path: Path) -> None:
    seen = [event async for event in tieline.run("scripted", "go", cwd=tmp_path, policy="full")]
    verify(seen)
    assert (tmp_path / "greeting.py").exists()
    assert done(seen).status == "success"


async def test_unknown_agent(tmp_path: Path) -> None:
    with pytest.raises(UnknownAgent, match="codx") as caught:
        tieline.open_session("codx", cwd=tmp_path)
    assert "Did you mean codex" in caught.value.hint


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "a typing error": ({"polcy": "full"}, "polcy", "Did you mean policy"),
    "no such option": ({"colour": "red"}, "colour", "Options: policy, model"),
    "a policy by another word": ({"policy": "readonly"}, "policy", "read-only, ask, edits, full"),
    "a policy as a dict": ({"policy": {"shell": "deny"}}, "policy", "It takes a Policy, or the name of a preset"),
    "a number as text": ({"max_turns": "3"}, "max_turns", "It takes int | None"),
    "one tool as text": ({"allowed_tools": "Read"}, "allowed_tools", "It takes Sequence[str]"),
    "no model": ({"model": 4}, "model", "It takes str | None"),
    "no path": ({"cwd": 3}, "cwd", "It takes str | "),
    "no place": ({"cwd": "/nowhere"}, "cwd", "Create it"),
    "an environment of numbers": ({"env": {"A": 1}}, "env", "It takes Mapping[str, str] | None"),
    "servers as dicts": ({"mcp_servers": {"a": {"command": ["x"]}}}, "mcp_servers", "McpServer(command="),
    "servers as a list": ({"mcp_servers": [tieline.McpServer(url="x")]}, "mcp_servers", "McpServer(command="),
    "a command line": ({"mcp_servers": {"a": tieline.McpServer(command="npx x")}}, "mcp_servers", '("program", '),  # type: ignore[arg-type]
    "no server": ({"mcp_servers": {"a": tieline.McpServer()}}, "mcp_servers", "either of them"),
    "no variable": ({"environment": ["A"]}, "environment", "NAME=value"),
    "too little": ({"max_turns": 0}, "max_turns", "more than zero"),
    "no function": ({"on_ask": True}, "on_ask", "policy='full'"),
    "no time": ({"ask_expiry_s": "3"}, "ask_expiry_s", "more than zero"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_option_is_named_with_what_it_takes(name: str, tmp_path: Path) -> None:
    options, field, hint = WRONG[name]
    whole: dict[str, Any] = {"cwd": tmp_path, **options}
    with pytest.raises(UsageError) as refused:
        tieline.open_session(Obedient(), **whole)
    assert (refused.value.field, hint in refused.value.hint) == (field, True), refused.value


async def test_what_is_secret_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        tieline.open_session("scripted", cwd=tmp_path, environment={"KEY": "s3cret"})  # type: ignore[arg-type]
    assert "s3cret" not in str(refused.value)


async def test_none_is_as_if_it_were_left_out(tmp_path: Path) -> None:
    nothing: dict[str, Any] = dict.fromkeys(tieline.Options.__annotations__)
    config = Config(agents={"scripted": {"model": "configured"}})
    spec = tieline.open_session("scripted", config=config, **nothing).spec
    assert spec == tieline.open_session("scripted", config=config).spec
    assert spec.model == "configured"


PROMPTS: dict[str, tuple[Any, str]] = {
    "none": (None, "prompt"),
    "bytes": (b"go", "prompt"),
    "a prompt without text": (tieline.Prompt(None), "prompt"),  # type: ignore[arg-type]
    "a path for an attachment": (tieline.Prompt("go", attachments=("/etc/hosts",)), "attachments"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", PROMPTS)
async def test_what_is_no_prompt_is_named(name: str, tmp_path: Path) -> None:
    prompt, field = PROMPTS[name]
    with pytest.raises(UsageError) as refused:
        async for _ in tieline.run("scripted", prompt, cwd=tmp_path, policy="full"):
            pass
    assert refused.value.field == field


@pytest.mark.parametrize("timeout", ["5", -1, True])
async def test_what_is_no_time_is_no_limit(timeout: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="timeout"):
        async for _ in tieline.run("scripted", "go", cwd=tmp_path, policy="full", timeout=timeout):
            pass


@pytest.mark.parametrize("agent", [None, 5, tieline])
async def test_what_is_no_agent_is_named(agent: Any) -> None:
    with pytest.raises(UsageError) as refused:
        tieline.open_session(agent)
    assert refused.value.field == "agent"


def test_every_option_is_told() -> None:
    words = (tieline.Options.__doc__ or "").replace(",", " ").split()
    assert set(tieline.Options.__annotations__) <= set(words)


async def test_two_jobs_of_one_name_are_refused(tmp_path: Path) -> None:
    jobs = [tieline.Job("scripted", "one", name="a"), tieline.Job("scripted", "two", name="a")]
    with pytest.raises(UsageError, match="two jobs are named 'a'"):
        async for _ in tieline.run_parallel(jobs, cwd=tmp_path):
            pass


async def test_a_wrong_option_of_a_job_is_that_jobs_error(tmp_path: Path) -> None:
    jobs = [tieline.Job("scripted", "go", options={"polcy": "full"}), tieline.Job("scripted", tieline.Prompt("go"))]
    ends = {
        name: event.status
        async for name, event in tieline.run_parallel(jobs, cwd=tmp_path, policy="full", timeout=60)
        if isinstance(event, Done)
    }
    assert ends == {"scripted-1": "error", "scripted-2": "success"}


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


def test_type_checkers_take_its_types() -> None:
    assert files("tieline").joinpath("py.typed").is_file()


def test_every_public_name_is_there() -> None:
    for name in tieline.__all__:
        assert getattr(tieline, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(tieline, "no_such_name")  # noqa: B009
    assert set(tieline.__all__) <= set(dir(tieline))
