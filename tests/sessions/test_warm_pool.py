"""The warm pool, with real processes: its bounds, what it hands out, and that nothing of it stays."""

import asyncio
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.sessions.test_manager import settled

from tieline.bus import open_bus
from tieline.config import Config, PoolConfig
from tieline.drivers.acp.driver import Acp, create
from tieline.drivers.base import Driver, Spec
from tieline.policy import Policy
from tieline.sessions.manager import SessionManager
from tieline.sessions.session import Session
from tieline.sessions.transcript import TranscriptItem
from tieline.sessions.warm_pool import Pool
from tieline.testing.rig import scratch_env
from tieline.testing.wait_for import at_work_in, eventually

AGENT = Path(__file__).with_name("acp_process.py")
ASKS = ["file_write", "shell", "network"]
WAIT = 30.0


def agent(*arguments: str) -> Acp:
    command = [sys.executable, "-S", str(AGENT), *arguments]
    return create("small", {"command": command, "asks": ASKS, "can": {"model": True}})


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return scratch_env(tmp_path / "home", path="/usr/bin:/bin")


def folder(tmp_path: Path, name: str) -> str:
    made = tmp_path / "places" / name
    made.mkdir(parents=True)
    return str(made)


async def ready(pool: Pool, number: int) -> None:
    await eventually(lambda: len(pool) == number, f"{number} should be ready", timeout=WAIT)


async def running(tmp_path: Path, number: int) -> None:
    await eventually(
        lambda: len(at_work_in(tmp_path / "places")) == number, f"{number} processes should be there", timeout=WAIT
    )


def opened(spec: Spec) -> int:
    """How many conversations were opened there so far."""
    return len(list(Path(spec.cwd).glob("opened.*")))


async def taken(pool: Pool, driver: Driver, spec: Spec) -> bool:
    """Whether there was one; it is ended."""
    session = await pool.take(driver, spec)
    if session is not None:
        await session.close()
    return session is not None


async def test_an_agent_is_told_that_nobody_waits_for_it(tmp_path: Path, env: dict[str, str]) -> None:
    """It may start slower then (Gemini is compiled whole). It is the one for those who come without saying so."""
    driver, spec = agent(), Spec(cwd=folder(tmp_path, "a"), env=env)
    async with Pool(PoolConfig(number=1)) as pool:
        pool.prepare(driver, spec)
        await ready(pool, 1)
        session = await pool.take(driver, spec)
        assert session is not None
        await session.close()
        assert session.spec == replace(spec, ahead=True)


async def test_it_is_bounded_in_number(tmp_path: Path, env: dict[str, str]) -> None:
    driver = agent()
    specs = [Spec(cwd=folder(tmp_path, name), env=env) for name in "abc"]
    async with Pool(PoolConfig(number=2)) as pool:
        for spec in specs:
            pool.prepare(driver, spec)
        await eventually(lambda: opened(specs[2]) == 1, "the last was not opened", timeout=WAIT)
        await ready(pool, 2)
        await running(tmp_path, 2)
        assert [await taken(pool, driver, spec) for spec in specs] == [False, True, True], "the oldest had to go"
    assert not at_work_in(tmp_path / "places")


async def test_those_that_are_configured_go_last(tmp_path: Path, env: dict[str, str]) -> None:
    driver = agent()
    always, second, third = (Spec(cwd=folder(tmp_path, name), env=env) for name in "abc")
    async with Pool(PoolConfig(number=2)) as pool:
        pool.prepare(driver, always, always=True)
        await ready(pool, 1)
        (process,) = at_work_in(Path(always.cwd))
        pool.prepare(driver, second)
        await ready(pool, 2)
        pool.prepare(driver, third)
        await eventually(lambda: opened(third) == 1, "the last was not opened", timeout=WAIT)
        assert at_work_in(Path(always.cwd)) == [process], "the second had to go"
        assert [await taken(pool, driver, spec) for spec in (second, third, always)] == [False, True, True]


async def test_no_pool_at_all(tmp_path: Path, env: dict[str, str]) -> None:
    async with Pool(PoolConfig(number=0)) as pool:
        spec = Spec(cwd=folder(tmp_path, "a"), env=env)
        pool.prepare(agent(), spec)
        pool.prepare(agent(), spec, always=True)
        assert await pool.take(agent(), spec) is None
        assert not at_work_in(tmp_path / "places")


async def test_it_is_bounded_in_memory(tmp_path: Path, env: dict[str, str]) -> None:
    """Two that hold more than the bound together: one stays. One that holds more by itself: none."""
    driver = agent("60")
    first, second = (Spec(cwd=folder(tmp_path, name), env=env) for name in "ab")
    async with Pool(PoolConfig(number=4, memory_mb=110)) as pool:
        pool.prepare(driver, first)
        await ready(pool, 1)
        pool.prepare(driver, second)
        await eventually(lambda: opened(second) == 1, "it was not opened", timeout=WAIT)
        await eventually(lambda: not at_work_in(Path(first.cwd)), "the first stays", timeout=WAIT)
        assert await taken(pool, driver, second)
    async with Pool(PoolConfig(number=4, memory_mb=40)) as pool:
        pool.prepare(driver, first, always=True)
        await eventually(lambda: opened(first) == 2, "it was not tried", timeout=WAIT)
        await running(tmp_path, 0)
        assert len(pool) == 0


async def test_it_is_bounded_in_age(tmp_path: Path, env: dict[str, str]) -> None:
    driver = agent()
    spec = Spec(cwd=folder(tmp_path, "a"), env=env)
    async with Pool(PoolConfig(age_s=0.2)) as pool:
        pool.prepare(driver, spec)
        await eventually(lambda: opened(spec) == 1, "it was not opened", timeout=WAIT)
        await running(tmp_path, 0)
        assert await pool.take(driver, spec) is None


async def test_a_configured_one_is_renewed(tmp_path: Path, env: dict[str, str]) -> None:
    driver = agent()
    spec = Spec(cwd=folder(tmp_path, "a"), env=env)
    async with Pool(PoolConfig(age_s=0.3)) as pool:
        pool.prepare(driver, spec, always=True)
        await eventually(lambda: opened(spec) >= 3, "it was not opened again", timeout=WAIT)
    assert not at_work_in(tmp_path / "places")


async def test_other_options_are_never_used(tmp_path: Path, env: dict[str, str]) -> None:
    driver = agent()
    spec = Spec(cwd=folder(tmp_path, "a"), env=env, policy=Policy("ask", "ask", "ask"))
    async with Pool(PoolConfig()) as pool:
        pool.prepare(driver, spec)
        await ready(pool, 1)
        for other in (
            replace(spec, cwd=folder(tmp_path, "b")),
            replace(spec, policy=Policy("allow", "ask", "ask")),
            replace(spec, model="large"),
            replace(spec, system="Be brief."),
            replace(spec, env={**env, "MORE": "1"}),
            replace(spec, max_turns=3),
            replace(spec, disallowed_tools=("Bash",)),
            replace(spec, accept_unenforced=True),
        ):
            assert await pool.take(driver, other) is None
        assert await pool.take(create("other", {"command": ["x"]}), spec) is None
        assert await taken(pool, driver, spec)


async def outdated(pool: Pool, driver: Driver, spec: Spec) -> None:
    """It holds one for this that was opened with other instructions than there are now."""
    pool.prepare(driver, spec)
    await ready(pool, 1)
    Path(spec.cwd, "AGENTS.md").write_text("Be brief.")


async def test_one_with_old_instructions_is_never_handed_out(tmp_path: Path, env: dict[str, str]) -> None:
    driver, spec = agent(), Spec(cwd=folder(tmp_path, "a"), env=env)
    async with Pool() as pool:
        await outdated(pool, driver, spec)
        assert not await taken(pool, driver, spec)
        await running(tmp_path, 0)
        pool.prepare(driver, spec)
        await ready(pool, 1)
        assert await taken(pool, driver, spec)


async def test_one_with_old_instructions_is_replaced(
    tmp_path: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tieline.sessions.warm_pool.LOOK_S", 0.05)
    driver, spec = agent(), Spec(cwd=folder(tmp_path, "a"), env=env)
    async with Pool() as pool:
        await outdated(pool, driver, spec)
        await eventually(lambda: opened(spec) == 2, "it was not opened anew", timeout=WAIT)
        await ready(pool, 1)
        await running(tmp_path, 1)
        assert await taken(pool, driver, spec)


async def test_one_that_is_replaced_is_not_wanted_more_for_that(
    tmp_path: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tieline.sessions.warm_pool.LOOK_S", 0.05)
    driver = agent()
    first, second, third = (Spec(cwd=folder(tmp_path, name), env=env) for name in "abc")
    async with Pool(PoolConfig(number=2)) as pool:
        for number, spec in enumerate((first, second), 1):
            pool.prepare(driver, spec)
            await ready(pool, number)
        Path(first.cwd, "AGENTS.md").write_text("Be brief.")
        await eventually(lambda: opened(first) == 2 and len(pool) == 2, "it was not opened anew", timeout=WAIT)
        pool.prepare(driver, third)
        await eventually(lambda: opened(third) == 1 and len(pool) == 2, "the third was not opened", timeout=WAIT)
        assert [await taken(pool, driver, spec) for spec in (first, second, third)] == [False, True, True]


async def test_a_file_system_that_hangs_holds_up_one_look_and_not_the_end(
    tmp_path: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tieline.sessions.warm_pool.LOOK_S", 0.02)
    driver, go_on, looks = agent(), threading.Event(), list[str]()

    def hang(cwd: str, env: object) -> bytes:
        looks.append(cwd)
        go_on.wait(WAIT)
        return b""

    try:
        async with asyncio.timeout(WAIT / 2), Pool() as pool:
            for number, name in enumerate("ab", 1):
                pool.prepare(driver, Spec(cwd=folder(tmp_path, name), env=env))
                await ready(pool, number)
            monkeypatch.setattr("tieline.sessions.warm_pool.fingerprint", hang)
            await eventually(lambda: bool(looks), "it does not look", timeout=WAIT)
            await asyncio.sleep(0.2)  # ten times the clock
            assert len(looks) == 1
        assert not [task for task in asyncio.all_tasks() if "_look_again" in repr(task)], "nobody looks any more"
    finally:
        go_on.set()
    assert not at_work_in(tmp_path / "places")


async def test_a_dead_one_is_never_handed_out(tmp_path: Path, env: dict[str, str]) -> None:
    driver = agent()
    spec = Spec(cwd=folder(tmp_path, "a"), env=env)
    async with Pool(PoolConfig()) as pool:
        for _ in range(5):
            pool.prepare(driver, spec)
            await ready(pool, 1)
            (process,) = [entry for entry in Path("/proc").glob("[0-9]*") if _is_in(entry, spec.cwd)]
            os.kill(int(process.name), signal.SIGKILL)
            await eventually(lambda: not at_work_in(Path(spec.cwd)), "it lives", timeout=WAIT)
            assert await pool.take(driver, spec) is None
            assert len(pool) == 0


async def test_nothing_is_left_after_its_end(tmp_path: Path, env: dict[str, str]) -> None:
    """With one ready, one that is just starting, and one that waits its turn."""
    driver = agent()
    async with Pool(PoolConfig(number=3)) as pool:
        pool.prepare(driver, Spec(cwd=folder(tmp_path, "a"), env=env))
        await ready(pool, 1)
        starting = Spec(cwd=folder(tmp_path, "b"), env=env)
        pool.prepare(driver, starting)
        pool.prepare(driver, Spec(cwd=folder(tmp_path, "c"), env=env))
        await eventually(lambda: bool(at_work_in(Path(starting.cwd))), "it does not start", timeout=WAIT)
    assert not at_work_in(tmp_path / "places")
    pool.prepare(driver, starting)
    assert await pool.take(driver, starting) is None


async def test_one_that_is_being_opened_is_waited_for(tmp_path: Path, env: dict[str, str]) -> None:
    driver = agent()
    spec = Spec(cwd=folder(tmp_path, "a"), env=env)
    async with Pool(PoolConfig()) as pool:
        pool.prepare(driver, spec)
        await asyncio.sleep(0)  # its opening has begun
        async with asyncio.timeout(WAIT):
            session = await pool.take(driver, spec)
        assert isinstance(session, Session)
        assert session.alive
        await session.close()
        assert not session.alive


async def test_sessions_are_served_from_it(tmp_path: Path, env: dict[str, str]) -> None:
    """The configured one serves the first session; then the pair was used lately, and the next is served too."""
    cwd = folder(tmp_path, "a")
    warm = {"agent": "small", "cwd": cwd, "policy": "ask"}
    config = Config(environ=env, pool=PoolConfig(number=2, warm=(warm, {**warm, "cwd": "/nowhere"})))
    async with (
        open_bus("sqlite://:memory:") as bus,
        SessionManager(bus, config, drivers={"small": agent()}) as manager,
    ):
        for number in range(3):
            await ready(manager.pool, 1)
            (waiting,) = [entry.name for entry in Path("/proc").glob("[0-9]*") if _is_in(entry, cwd)]
            session = await manager.create("small", cwd=cwd)
            prompt = await manager.prompt(session.id, "who are you?", id=f"p{number}")
            assert (await settled(manager, session.id, prompt.id)).status == "done"
            assert waiting in texts(await manager.messages(session.id)), "another process answered"
            await manager.close(session.id)
    assert not at_work_in(tmp_path / "places")


def texts(messages: list[TranscriptItem]) -> list[str]:
    return [message.text for message in messages if message.kind == "text"]


def _is_in(entry: Path, cwd: str) -> bool:
    with suppress(OSError):
        return str((entry / "cwd").readlink()) == cwd
    return False
