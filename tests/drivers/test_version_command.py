"""What programs answer to `--version`, or to anything else that is asked so."""

import asyncio
from pathlib import Path

import pytest

from tieline.background_tasks import cancel_and_wait
from tieline.drivers import version_command
from tieline.drivers.version_command import VersionAnswer, ask_version
from tieline.testing.wait_for import at_work_in, eventually

ENV = {"PATH": "/usr/bin:/bin"}

ANSWERS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "one line": ("echo 1.2.3", ("1.2.3",), ""),
    "empty lines before it": ("printf '\\n  \\nagent 1.2.3 \\n'", ("agent 1.2.3",), ""),
    "no end of line": ("printf 1.2.3", ("1.2.3",), ""),
    "more lines than anybody wants": ("seq 1000", tuple(str(n + 1) for n in range(20)), ""),
    "not UTF-8": ("printf '1.2.3 \\377\\n'", ("1.2.3 �",), ""),
    "it reads its input": ("cat; echo 1.2.3", ("1.2.3",), ""),
    "nothing": ("true", (), "exit status 0"),
    "a failure": ("exit 4", (), "exit status 4"),
    "a failure with words": ("echo bad >&2; exit 4", (), "bad"),
    "a failure after an answer": ("echo 1.2.3; exit 4", ("1.2.3",), "exit status 4"),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_what_is_printed(name: str) -> None:
    script, lines, failure = ANSWERS[name]
    answer = await ask_version(["sh", "-c", script], ENV)
    assert (answer.lines, answer.failure) == (lines, failure)


async def test_a_line_without_end_ends_it() -> None:
    answer = await ask_version(["sh", "-c", "echo 1.2.3; exec tr '\\0' x < /dev/zero"], ENV)
    assert answer.lines in (("1.2.3",), ())
    assert answer.failure == f"exit status {answer.status}" != "exit status 0"


@pytest.mark.slow
async def test_one_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_command, "VERSION_S", 0.2)
    with pytest.raises(TimeoutError, match=r"no answer within 0\.2 s"):
        await ask_version(["sh", "-c", "echo 1.2.3; exec sleep 300"], ENV)


async def test_one_that_cannot_be_started() -> None:
    with pytest.raises(OSError, match="no-such-program"):
        await ask_version(["/no-such-program", "--version"], ENV)


def running_once(runs: Path) -> list[str]:
    """A program that writes a line when it is run, and goes on when `runs` has a neighbour `go`."""
    script = f"echo run >> {runs}; while [ ! -e {runs.parent}/go ]; do sleep 0.02; done; echo 1.2.3"
    return ["sh", "-c", script]


async def test_who_asks_the_same_at_the_same_time_gets_the_same_answer(tmp_path: Path) -> None:
    argv, runs = running_once(tmp_path / "runs"), tmp_path / "runs"
    both = [asyncio.create_task(ask_version(argv, dict(ENV))) for _ in range(3)]
    await eventually(runs.exists, "it was not run")
    both.pop().cancel()  # what one does not want any more, the others still do
    (tmp_path / "go").touch()
    assert [answer.lines for answer in await asyncio.gather(*both)] == [("1.2.3",), ("1.2.3",)]
    assert runs.read_text() == "run\n"
    await ask_version(argv, ENV)
    assert runs.read_text() == "run\nrun\n", "an answer is not kept: the program may be another one by now"


async def test_another_environment_is_another_question(tmp_path: Path) -> None:
    argv, runs = running_once(tmp_path / "runs"), tmp_path / "runs"
    (tmp_path / "go").touch()
    await asyncio.gather(ask_version(argv, ENV), ask_version(argv, {**ENV, "HOME": "/nonexistent"}))
    assert runs.read_text() == "run\nrun\n"


@pytest.mark.slow
async def test_a_program_whose_answer_nobody_wants_any_more_is_ended(tmp_path: Path) -> None:
    asking = asyncio.create_task(ask_version(running_once(tmp_path / "runs"), ENV, cwd=str(tmp_path)))
    await eventually((tmp_path / "runs").exists, "it was not run")
    await cancel_and_wait(asking)
    assert not at_work_in(tmp_path)


def test_an_answer_without_failure() -> None:
    assert VersionAnswer(("1.2.3",), 0, "a warning").failure == ""
