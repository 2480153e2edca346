"""OpenCode's server: one for many conversations, started and ended by the driver; and programs that are none."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.drivers.opencode_sessions import PROGRAM, one_turn, open_

from tieline.api import open_session
from tieline.bus import open_bus
from tieline.config import Config
from tieline.drivers.opencode.driver import create
from tieline.drivers.opencode.launch import native_binary
from tieline.drivers.prestart import prestart
from tieline.errors import AgentMissing, AgentStartFailed, UsageError
from tieline.events import ToolResult
from tieline.policy import preset
from tieline.processes import spawn
from tieline.script import Run, Say
from tieline.sessions.manager import SessionManager
from tieline.sessions.session_worker import SessionWorker
from tieline.testing.rig import scratch_env
from tieline.testing.rigs.opencode import OpenCodeRig
from tieline.testing.stream_checks import collect, done, the
from tieline.testing.wait_for import eventually

pytestmark = pytest.mark.real


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[OpenCodeRig]:
    async with OpenCodeRig(tmp_path / "home", PROGRAM) as rig:
        yield rig


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    cwd = tmp_path / "place"
    cwd.mkdir()
    return cwd


async def test_one_server_for_many(rig: OpenCodeRig, tmp_path: Path) -> None:
    places = [tmp_path / name for name in "abc"]
    for each in places:
        each.mkdir()
    rig.model.choose = lambda body: [Run("pwd")] if body["messages"][-1]["role"] == "user" else [Say("Ran.")]
    before = asyncio.all_tasks()
    async with open_(rig, places[0]) as first, open_(rig, places[1]) as second, open_(rig, places[1]) as third:
        assert len(spawn.live()) == 1
        watching = asyncio.all_tasks() - before
        turns = await asyncio.gather(*(collect(each.turn("go")) for each in (first, second, third)))
        outputs = [the(seen, ToolResult).output.strip() for seen in turns]
        assert outputs == [str(places[0]), str(places[1]), str(places[1])]
        other = {**rig.env, "SOME_OTHER": "environment"}
        async with open_(rig, places[2], env=other):
            assert len(spawn.live()) == 2, "another environment is another server"
        assert len(spawn.live()) == 1
    assert not spawn.live()
    assert watching and all(task.done() for task in watching), "whoever reads its events or watches over it has ended"


async def test_a_server_that_dies_is_noticed_and_started_again(rig: OpenCodeRig, cwd: Path, tmp_path: Path) -> None:
    """Between two turns, without anybody asking for it, and the node looks at the agent again."""
    lost: list[str] = []
    config = Config(environ=rig.env)
    async with (
        open_bus(f"sqlite://{tmp_path}/bus.db") as bus,
        SessionManager(bus, config, drivers={"opencode": rig.driver}) as manager,
    ):
        manager.lost.append(lost.append)
        session = await manager.create(
            "opencode", cwd=str(cwd), policy=preset("full"), model=str(rig.options.get("model", ""))
        )
        rig.play([Say("Before.")], [Say("After.")])
        await manager.prompt(session.id, "go")
        await eventually(lambda: manager.get(session.id).turns == 1, "no turn", timeout=90)
        runner = manager.runners[session.id]
        assert isinstance(runner, SessionWorker)
        runner._opened = 0.0  # pyright: ignore[reportPrivateUsage] (it has lived for long)
        (first,) = spawn.live().values()
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: first not in spawn.live().values() and bool(spawn.live()), "no other", timeout=60)
        await eventually(lambda: lost == ["opencode"], "nobody was told")
        await manager.prompt(session.id, "go on")
        await eventually(lambda: manager.get(session.id).turns == 2, "no turn", timeout=90)
        assert (manager.get(session.id).outcome, manager.get(session.id).last_line) == ("success", "After.")
    assert not spawn.live()


async def test_cancelled_while_it_starts(rig: OpenCodeRig, cwd: Path) -> None:
    opening = asyncio.create_task(one_turn(rig, cwd))
    await eventually(lambda: bool(spawn.live()), "it never started")
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    assert not spawn.live()
    assert done(await one_turn(rig, cwd)).status == "success", "the next one starts a server of its own"


async def test_started_ahead(rig: OpenCodeRig, cwd: Path) -> None:
    env = {**rig.env, "PATH": f"{Path(PROGRAM).parent}:{rig.env['PATH']}"}
    prestart("opencode", env)
    (early,) = spawn.live().values()
    async with open_session(create("opencode", {}), cwd=cwd, env=env) as session:
        assert list(spawn.live().values()) == [early], "the very same one"
        assert done(await collect(session.turn("go"))).status == "success"
    assert not spawn.live()


async def test_missing(cwd: Path, tmp_path: Path) -> None:
    env = scratch_env(tmp_path / "home", path="/nowhere")
    driver = create("opencode", {})
    with pytest.raises(AgentMissing, match="npm install"):
        async with open_session(driver, cwd=cwd, env=env):
            pass
    probe = await driver.probe(env)
    assert not probe.found
    assert "npm install" in probe.hint


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("echo 'wrong library' >&2; exit 3", "status 3"),
        ("while :; do echo garbage; done", "does not speak as an OpenCode server"),
        ("exit 0", "did not come up"),
        ("head -c 100000000 /dev/zero", "does not speak as an OpenCode server"),
    ],
)
async def test_a_program_that_is_none(cwd: Path, tmp_path: Path, program: str, problem: str) -> None:
    fake = tmp_path / "fake"
    fake.write_text(f"#!/bin/sh\n{program}\n")
    fake.chmod(0o755)
    env = scratch_env(tmp_path / "home", path="/usr/bin:/bin")
    with pytest.raises(AgentStartFailed, match=problem) as failure:
        async with asyncio.timeout(20), open_session(create("x", {"command": [str(fake)]}), cwd=cwd, env=env):
            pass
    if "library" in program:
        assert "wrong library" in str(failure.value)
    assert not spawn.live()


async def test_a_broken_configuration(tmp_path: Path, cwd: Path) -> None:
    async with OpenCodeRig(tmp_path / "home", PROGRAM, config={"model": 7}) as rig:
        with pytest.raises(AgentStartFailed, match=r"opencode\.json"):
            await one_turn(rig, cwd)
    with pytest.raises(UsageError, match="OPENCODE_CONFIG_CONTENT is not plain JSON"):
        await one_turn(rig, cwd, env={**rig.env, "OPENCODE_CONFIG_CONTENT": "{// a comment\n}"})


def test_options() -> None:
    with pytest.raises(UsageError, match="unknown field `colour`"):
        create("opencode", {"colour": "red"})
    with pytest.raises(UsageError, match="a url and command"):
        create("opencode", {"url": "http://127.0.0.1:1", "command": ["x"]})


def test_the_program_behind_the_wrapper(tmp_path: Path) -> None:
    import platform
    import sys

    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    wrapper = tmp_path / "node_modules/opencode-ai/bin/opencode"
    real = tmp_path / f"node_modules/opencode-{sys.platform}-{machine}/bin/opencode"
    for path, text in ((wrapper, "#!/usr/bin/env node\n"), (real, "native")):
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(0o755)
    link = tmp_path / "opencode"
    link.symlink_to(wrapper)
    assert native_binary(str(link)) == str(real)
    assert native_binary(str(real)) == str(real)
    assert native_binary(str(tmp_path / "missing")) == str(tmp_path / "missing")
