"""How turns of the shell driver end: by themselves, by time, by force, or before they begin; and its policy."""

import asyncio
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tieline import open_session
from tieline.drivers import turn_stream as turns
from tieline.drivers import version_command
from tieline.drivers.shell import conversation as shell_process
from tieline.drivers.shell import driver as shell
from tieline.errors import AgentMissing, PolicyUnenforceable
from tieline.events import Error, Event, TextDelta, Warning
from tieline.policy import PRESETS, Policy
from tieline.script import Say, Stall, Write
from tieline.testing.driver_contract.base import FULL
from tieline.testing.rigs.shell import JSONL, TEXT, ShellRig
from tieline.testing.shell_agent import VERSION
from tieline.testing.stream_checks import collect, done, the
from tieline.testing.wait_for import at_work_in, eventually

SAY_AND_STAY: dict[str, Any] = {"do": "refuse_to_leave", "completed": True}


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    cwd = tmp_path / "place"
    cwd.mkdir()
    return cwd


# --- how it ends -------------------------------------------------------------------------------------------


async def test_completion_event_ends_the_turn_before_the_process(
    tmp_path: Path, cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that stays, and ignores SIGTERM, is ended before the next turn begins."""
    monkeypatch.setattr(shell_process, "EXIT_GRACE_S", 0.2)
    monkeypatch.setattr(shell_process, "TERM_GRACE_S", 0.2)
    rig = ShellRig(tmp_path, JSONL)
    rig.play_steps([{"do": "say", "text": "first"}, SAY_AND_STAY], [{"do": "say", "text": "second"}])
    async with open_session(rig.driver, cwd=cwd, policy=FULL, **rig.options) as session:
        first = await collect(session.turn("one"))
        assert (done(first).status, done(first).text) == ("success", "first")
        second = await collect(session.turn("two"))
        assert (done(second).status, done(second).text) == ("success", "second")
    assert not at_work_in(cwd)


@pytest.mark.slow
async def test_a_session_that_is_left_at_once_waits_for_nothing_that_stays(tmp_path: Path, cwd: Path) -> None:
    rig = ShellRig(tmp_path, JSONL)
    rig.play_steps([{"do": "say", "text": "first"}, SAY_AND_STAY])
    assert done(await rig.turn(cwd)).status == "success"
    assert not at_work_in(cwd)


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ({"do": "exit", "status": 0}, "exited with status 0 before its completion event"),
        ({"do": "exit", "status": 7}, "exited with status 7"),
    ],
)
async def test_exit_before_the_completion_event(tmp_path: Path, cwd: Path, step: dict[str, Any], problem: str) -> None:
    rig = ShellRig(tmp_path, JSONL)
    rig.play_steps([{"do": "say", "text": "half"}, {"do": "complain", "text": "no licence"}, step])
    seen = await rig.turn(cwd)
    assert done(seen).status == "error"
    assert problem in done(seen).error
    assert "no licence" in done(seen).error
    assert the(seen, Error)
    assert done(seen).text == "half", "what it had said is kept"


async def test_exit_at_once(tmp_path: Path, cwd: Path) -> None:
    seen = await ShellRig(tmp_path, TEXT, command=["/bin/sh", "-c", "echo broken >&2; exit 3"]).turn(cwd)
    assert done(seen).status == "error"
    assert "exited with status 3" in done(seen).error
    assert "broken" in done(seen).error


async def test_error_event(tmp_path: Path, cwd: Path) -> None:
    rig = ShellRig(tmp_path, JSONL)
    rig.play_steps([{"do": "fail", "status": 429, "message": "slow down"}])
    seen = await rig.turn(cwd)
    assert (done(seen).status, done(seen).error) == ("error", "429: slow down")
    assert the(seen, Error).message == "429: slow down"


async def test_an_instruction_that_is_rejected(tmp_path: Path, cwd: Path) -> None:
    """The turn fails with the agent's own words: it is not tried again without its instruction."""
    script(cwd / "picky", '#!/bin/sh\necho x >> starts\necho "bad instruction: $*" >&2\nexit 2\n')
    seen = await ShellRig(tmp_path, JSONL, command=["./picky"]).turn(cwd, system="Be brief.")
    assert done(seen).status == "error"
    assert "bad instruction: --instruction Be brief." in done(seen).error
    assert (cwd / "starts").read_text() == "x\n"


async def test_resume_of_no_session(tmp_path: Path, cwd: Path) -> None:
    seen = await ShellRig(tmp_path, JSONL).turn(cwd, resume="nowhere")
    assert done(seen).status == "error"
    assert "no session nowhere" in done(seen).error


@pytest.mark.slow
async def test_total_time(tmp_path: Path, cwd: Path) -> None:
    # The limit holds for both turns: on a busy machine a program takes long until it says its first word.
    rig = ShellRig(tmp_path, JSONL, timeout_s=4.0)
    rig.play([Say("beginning"), Stall()], [Say("after it")])
    async with open_session(rig.driver, cwd=cwd, policy=FULL, **rig.options) as session:
        seen = await collect(session.turn("hello"))
        assert done(seen).status == "timeout"
        assert "no end within 4 s (timeout_s)" in done(seen).error
        assert done(await collect(session.turn("again"))).text == "after it"


@pytest.mark.slow
async def test_silence(tmp_path: Path, cwd: Path) -> None:
    # The limit counts from the process's start: on a busy machine a program takes long until it says its first word.
    rig = ShellRig(tmp_path, TEXT, idle_timeout_s=4.0)
    rig.play([Say("beginning"), Stall()])
    seen = await rig.turn(cwd)
    assert done(seen).status == "timeout"
    assert "silent for 4 s (idle_timeout_s)" in done(seen).error
    assert done(seen).text == "beginning"


@pytest.mark.slow
@pytest.mark.parametrize("sign", ["say", "complain"])
async def test_signs_of_life_on_either_stream(tmp_path: Path, cwd: Path, sign: str) -> None:
    # Longer in all than the limit, and the limit longer than the program's start takes on a busy machine.
    rig = ShellRig(tmp_path, TEXT, idle_timeout_s=4.0)
    rig.play_steps([step for _ in range(7) for step in ({"do": "stall", "seconds": 0.7}, {"do": sign, "text": "."})])
    seen = await rig.turn(cwd)
    assert done(seen).status == "success"
    assert done(seen).duration_s > 4.5


@pytest.mark.slow
async def test_a_machine_that_stands_still_is_not_taken_for_a_silent_agent(tmp_path: Path, cwd: Path) -> None:
    rig = ShellRig(tmp_path, TEXT, idle_timeout_s=4.0)
    rig.play_steps([{"do": "say", "text": "a"}, {"do": "stall", "seconds": 6.5}, {"do": "say", "text": "b"}])
    async with open_session(rig.driver, cwd=cwd, policy=FULL, **rig.options) as session:
        events: list[Event] = []
        async for event in session.turn("go"):
            if isinstance(event, TextDelta) and event.text.startswith("a"):
                time.sleep(6.0)  # noqa: ASYNC251 (nothing of this process runs)
            events.append(event)
    assert done(events).status == "success"


@pytest.mark.slow
async def test_timeout_of_one_that_ignores_it(tmp_path: Path, cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_process, "TERM_GRACE_S", 0.2)
    rig = ShellRig(tmp_path, TEXT, timeout_s=0.7)
    rig.play_steps([{"do": "refuse_to_leave"}])
    assert done(await rig.turn(cwd)).status == "timeout"
    assert not at_work_in(cwd)


async def test_interrupt_of_one_that_ignores_it(tmp_path: Path, cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "INTERRUPT_GRACE_S", 0.2)
    rig = ShellRig(tmp_path, JSONL)
    rig.play_steps([{"do": "say", "text": "beginning"}, {"do": "refuse_to_leave"}])
    async with open_session(rig.driver, cwd=cwd, policy=FULL, **rig.options) as session:

        async def stop() -> None:
            await rig.stalled()
            await session.interrupt()

        stopping = asyncio.create_task(stop())
        seen = await collect(session.turn("hello"))
        await stopping
        assert done(seen).status == "interrupted"
        assert done(await collect(session.turn("again"))).status == "success"


async def test_interrupt_before_it_has_started(tmp_path: Path, cwd: Path) -> None:
    rig = ShellRig(tmp_path, JSONL)
    async with open_session(rig.driver, cwd=cwd, policy=FULL, **rig.options) as session:
        seen: list[Event] = []
        async for event in session.turn("hello"):
            if not seen:
                await session.interrupt()
            seen.append(event)
        assert done(seen).status == "interrupted"
    assert not rig.heard()


@pytest.mark.slow
@pytest.mark.parametrize("base", [TEXT, JSONL], ids=["text", "jsonl"])
async def test_what_it_leaves_behind_does_not_hold_the_turn(tmp_path: Path, cwd: Path, base: Mapping[str, Any]) -> None:
    """A server that it started holds its output open: its exit counts."""
    rig = ShellRig(tmp_path, base, **({"done_when": ()} if base is JSONL else {}))
    rig.play_steps([{"do": "leave_behind"}, {"do": "say", "text": "started a server"}])
    seen = await rig.turn(cwd)
    assert (done(seen).status, done(seen).text) == ("success", "started a server")
    await eventually(lambda: not at_work_in(cwd), "it is still there")


@pytest.mark.slow
async def test_output_that_ends_before_the_process(tmp_path: Path, cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_process, "EXIT_GRACE_S", 0.2)
    rig = ShellRig(tmp_path, TEXT, command=["/bin/sh", "-c", "echo all; exec >&-; exec sleep 300"])
    seen = await rig.turn(cwd)
    assert (done(seen).status, done(seen).text) == ("success", "all")
    assert "did not exit" in the(seen, Warning).message
    assert not at_work_in(cwd)


# --- missing and broken programs ---------------------------------------------------------------------------


@pytest.mark.parametrize("program", ["no-such-agent", "./no-such-agent", "/etc/passwd", "/tmp"])
async def test_missing(tmp_path: Path, cwd: Path, program: str) -> None:
    rig = ShellRig(tmp_path, TEXT, command=[program], install="pip install no-such-agent")
    with pytest.raises(AgentMissing, match="there is no command") as caught:
        await rig.turn(cwd)
    assert caught.value.hint == "pip install no-such-agent"
    probe = await rig.driver.probe(rig.options["env"])
    assert not probe.found
    assert probe.hint == "pip install no-such-agent"


async def test_program_in_the_sessions_directory(tmp_path: Path, cwd: Path) -> None:
    """A relative path is the session's, and a wrapper of one's own is a command like any other."""
    script(cwd / "wrapper", '#!/bin/sh\necho "wrapped: $1"\n')
    seen = await ShellRig(tmp_path, TEXT, command=["./wrapper"]).turn(cwd)
    assert done(seen).text == "wrapped: hello"


async def test_program_that_is_none(tmp_path: Path, cwd: Path) -> None:
    script(cwd / "broken", "\x7fELF nonsense")
    seen = await ShellRig(tmp_path, TEXT, command=["./broken"]).turn(cwd)
    assert done(seen).status == "error"
    assert "cannot be started" in done(seen).error


@pytest.mark.slow
async def test_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ShellRig(tmp_path, JSONL)
    env = rig.options["env"]
    assert (await rig.driver.probe(env)).version == VERSION
    assert (await ShellRig(tmp_path / "a", TEXT, version_args=[]).driver.probe(env)).found
    failing = await shell.create("x", {"command": ["sh"], "version_args": ["-c", "echo bad >&2; exit 4"]}).probe(env)
    assert failing.found
    assert "exited with status 4" in failing.problem
    assert "bad" in failing.problem
    monkeypatch.setattr(version_command, "VERSION_S", 0.2)
    hanging = await shell.create("x", {"command": ["sh"], "version_args": ["-c", "exec sleep 300"]}).probe(env)
    assert "no answer within 0.2 s" in hanging.problem


# --- policy ------------------------------------------------------------------------------------------------


async def test_the_default_policy_is_refused_and_says_what_to_do(tmp_path: Path, cwd: Path) -> None:
    rig = ShellRig(tmp_path, TEXT)
    with pytest.raises(PolicyUnenforceable) as caught:
        open_session(rig.driver, cwd=cwd, **rig.options)
    message = str(caught.value)
    assert "scripted-shell cannot be kept from: file_write, shell, network" in message
    assert "policy_args" in message
    assert "--accept-unenforced" in message
    async with open_session(rig.driver, cwd=cwd, accept_unenforced=True, **rig.options) as session:
        assert done(await collect(session.turn("hello"))).status == "success"
        assert session.receipt.unenforced() == ("file_write", "shell", "network")


@pytest.mark.parametrize(("policy", "written"), [(PRESETS["read-only"], False), (FULL, True)])
async def test_policy_arguments_reach_the_agent(tmp_path: Path, cwd: Path, policy: Policy, written: bool) -> None:
    rig = ShellRig(tmp_path, JSONL)
    rig.play([Write(str(cwd / "made.txt"), "x")], [Say("tried")])
    assert done(await rig.turn(cwd, policy=policy)).status == "success"
    assert (cwd / "made.txt").exists() == written
    assert ("--deny" in rig.starts()[0]["argv"]) != written


def script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
