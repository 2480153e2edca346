"""What is OpenCode's own: its rules and the user's, subagents, remembered asks, efforts, one server for many."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tieline.api import open_session
from tieline.bus import open_bus
from tieline.config import Config
from tieline.drivers.base import Attachment, Prompt
from tieline.drivers.opencode.driver import create
from tieline.drivers.opencode.launch import native_binary
from tieline.drivers.prestart import prestart
from tieline.errors import AgentMissing, AgentStartFailed, Unsupported, UsageError
from tieline.events import Answer, Ask, Command, Diff, Edit, Event, OtherAction, ToolResult, ToolUse
from tieline.policy import Policy
from tieline.processes import spawn
from tieline.script import Call, Fail, Run, Say, Stall, Write
from tieline.sessions.manager import SessionManager
from tieline.sessions.session import Session
from tieline.testing.rig import scratch_env
from tieline.testing.rigs.opencode import OpenCodeRig
from tieline.testing.stream_checks import collect, done, of, the
from tieline.testing.wait_for import eventually

pytestmark = pytest.mark.real

PROGRAM = str(Path(__file__).parent.parent / "agents/node_modules/.bin/opencode")
FULL = Policy("allow", "allow", "allow")
ASK_SHELL = Policy("allow", "ask", "allow")
DENY_SHELL = Policy("allow", "deny", "allow")


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[OpenCodeRig]:
    async with OpenCodeRig(tmp_path / "home", PROGRAM) as rig:
        yield rig


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    return place


def open_(rig: OpenCodeRig, place: Path, **options: Any) -> Session:
    chosen: dict[str, Any] = {"policy": FULL, **rig.options, **options}
    return open_session(rig.driver, cwd=place, **chosen)


async def one_turn(rig: OpenCodeRig, place: Path, **options: Any) -> list[Event]:
    async with open_(rig, place, **options) as session:
        return await collect(session.turn("go"))


def yes(ask: Ask) -> bool:
    return True


class Asked:
    """Says yes, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asks: list[Ask] = []

    def __call__(self, ask: Ask) -> bool:
        self.asks.append(ask)
        return True


# --- rules: ours and the user's ----------------------------------------------------------------------------


async def test_the_users_rules_do_not_widen_a_denial(tmp_path: Path, place: Path) -> None:
    """Neither the user's configuration, nor the project's, nor an agent's, nor the environment's."""
    allow = {"permission": {"*": "allow", "bash": {"*": "allow", "touch *": "allow"}}}
    (place / "opencode.json").write_bytes(msgspec.json.encode({**allow, "agent": {"build": allow}}))
    env = {"OPENCODE_PERMISSION": '{"bash":"allow"}', "OPENCODE_CONFIG_CONTENT": '{"permission":{"bash":"allow"}}'}
    async with (
        OpenCodeRig(tmp_path / "home", PROGRAM, config=allow, env=env) as rig,
        open_(rig, place),  # keeps the server for the others
    ):
        rig.play([Run("touch denied.txt")], [Say("Refused.")])
        seen = await one_turn(rig, place, policy=DENY_SHELL)
        assert not (place / "denied.txt").exists()
        assert the(seen, ToolResult).status == "denied"
        asked = Asked()
        rig.play([Run("touch asked.txt")], [Say("Done.")])
        await one_turn(rig, place, policy=ASK_SHELL, on_ask=asked)
        assert len(asked.asks) == 1


async def test_nor_are_the_users_denials_widened(tmp_path: Path, place: Path) -> None:
    config = {"permission": {"bash": {"*": "allow", "touch *": "deny"}}}
    async with OpenCodeRig(tmp_path / "home", PROGRAM, config=config) as rig:
        rig.play([Run("touch denied.txt"), Run("echo fine")], [Say("One of them.")])
        seen = await one_turn(rig, place)
    assert not (place / "denied.txt").exists()
    assert [result.status for result in of(seen, ToolResult)] == ["denied", "ok"]


async def test_a_redirection_alone_is_not_asked_for(rig: OpenCodeRig, place: Path) -> None:
    """The receipt says so. When this fails, OpenCode has become better than our word: change the receipt."""
    (place / "kept.txt").write_text("content")
    rig.play([Run("> kept.txt")], [Say("Emptied.")])
    async with open_(rig, place, policy=ASK_SHELL) as session:
        assert "redirection" in session.receipt.shell.note
        seen = await collect(session.turn("go"))
    assert not of(seen, Ask)
    assert (place / "kept.txt").read_text() == ""


async def test_tools_that_are_offered(rig: OpenCodeRig, place: Path) -> None:
    def offered() -> set[str]:
        return {tool["function"]["name"] for tool in rig.model.requests[-1]["tools"]}

    async with open_(rig, place):  # keeps the server for the others
        await one_turn(rig, place, disallowed_tools=["grep", "write"])
        assert not {"grep", "write", "edit"} & offered(), "write and edit are one permission"
        assert {"bash", "read"} <= offered()
        await one_turn(rig, place, allowed_tools=["read", "bash"], policy=DENY_SHELL)
        assert offered() == {"read"}, "allowing a tool does not widen the policy"


async def test_outside_the_directory(rig: OpenCodeRig, place: Path, tmp_path: Path) -> None:
    """Another matter than the capability: people are asked, unless commands are allowed anyway."""
    target = tmp_path / "outside.txt"
    asked = Asked()
    async with open_(rig, place):  # keeps the server for the others
        rig.play([Write(str(target), "x\n")], [Say("Written.")])
        await one_turn(rig, place, policy=Policy("allow", "deny", "allow"), on_ask=asked)
        assert [(ask.capability, ask.action) for ask in asked.asks] == [(None, OtherAction())]
        assert "outside the session's directory" in asked.asks[0].reason
        assert target.exists()
        rig.play([Write(str(target), "y\n")], [Say("Written.")])
        seen = await one_turn(rig, place, policy=FULL)
    assert not of(seen, Ask)
    assert target.read_text() == "y\n"


# --- asks --------------------------------------------------------------------------------------------------


async def test_one_refusal_does_not_refuse_the_others(rig: OpenCodeRig, place: Path) -> None:
    both = asyncio.Event()
    asked: list[Ask] = []

    async def decide(ask: Ask) -> bool:
        asked.append(ask)
        if len(asked) == 2:
            both.set()
        await both.wait()
        return isinstance(ask.action, Command) and "allowed" in ask.action.command

    rig.play([Run("touch denied.txt"), Run("touch allowed.txt")], [Say("One of them.")])
    seen = await one_turn(rig, place, policy=ASK_SHELL, on_ask=decide)
    assert (place / "allowed.txt").exists() and not (place / "denied.txt").exists()
    assert sorted(result.status for result in of(seen, ToolResult)) == ["denied", "ok"]
    assert done(seen).text == "One of them.", "the model was told and went on"


async def test_two_refusals_at_once(rig: OpenCodeRig, place: Path) -> None:
    rig.play([Run("touch one.txt"), Run("touch two.txt")], [Say("Neither.")])
    seen = await one_turn(rig, place, policy=ASK_SHELL)
    assert [result.status for result in of(seen, ToolResult)] == ["denied", "denied"]
    assert done(seen).text == "Neither."


async def test_remembered_for_the_session(rig: OpenCodeRig, place: Path) -> None:
    """OpenCode's own `always` would hold for every session of the directory."""
    asked: list[Ask] = []

    def decide(ask: Ask) -> Answer:
        asked.append(ask)
        assert ask.remember == ("session",)
        return Answer(ask.id, "allow", by="caller", remember="session")

    rig.play([Run("touch one.txt")], [Run("touch now.txt")], [Say("1")])
    later = [[Run("touch two.txt")], [Run("mkdir made")], [Say("2")]]
    async with open_(rig, place, policy=ASK_SHELL, on_ask=decide) as first:
        await collect(first.turn("one"))
        rig.play(*later)
        await collect(first.turn("two"))
        assert (place / "two.txt").exists() and (place / "made").exists()
        commands = [ask.action.command for ask in asked if isinstance(ask.action, Command)]
        assert commands == ["touch one.txt", "touch now.txt", "mkdir made"], "its rules are those of the turn's start"
        rig.play([Run("touch three.txt")])
        assert asked[0].scopes == {"session": "commands like touch *, this session, from its next turn on"}
        async with open_(rig, place, policy=ASK_SHELL) as second:
            await collect(second.turn("three"))
    assert not (place / "three.txt").exists(), "another session is another matter"


async def test_an_edit_is_asked_with_its_diff(rig: OpenCodeRig, place: Path) -> None:
    (place / "a.txt").write_text("one\ntwo\n")
    edit = {"filePath": str(place / "a.txt"), "oldString": "two", "newString": "three"}
    rig.play([Call("read", {"filePath": str(place / "a.txt")})], [Call("edit", edit)], [Say("Edited.")])
    seen = await one_turn(rig, place, policy=Policy("ask", "deny", "deny"), on_ask=yes)
    action = the(seen, Ask).action
    assert isinstance(action, Edit)
    assert "-two\n+three\n" in action.diff
    assert "-two\n+three\n" in the(seen, Diff).diff


# --- subagents ---------------------------------------------------------------------------------------------

TASK = Call("task", {"description": "Touch a file", "prompt": "touch it", "subagent_type": "general"})


@pytest.mark.parametrize("policy", [FULL, ASK_SHELL, DENY_SHELL], ids=lambda policy: policy.shell)
async def test_a_subagent_is_held_to_the_policy(rig: OpenCodeRig, place: Path, policy: Policy) -> None:
    rig.play([TASK], [Run("touch by-subagent.txt")], [Say("Sub done.")], [Say("Main done.")])
    seen = await one_turn(rig, place, policy=policy, on_ask=yes)
    assert (place / "by-subagent.txt").exists() == (policy.shell != "deny")
    assert len(of(seen, Ask)) == (policy.shell == "ask")
    task, run = of(seen, ToolUse)
    assert run.parent == task.id
    assert done(seen).text == "Main done."
    tokens = done(seen).tokens
    assert tokens is not None
    assert ((tokens.input or 0) + (tokens.cache_read or 0), tokens.output) == rig.model.told, "the subagent's count"


async def test_a_subagent_that_would_not_ask(rig: OpenCodeRig, place: Path) -> None:
    """A project brings an agent along that may run anything: it is not started where commands are to be asked for."""
    agents = place / ".opencode" / "agent"
    agents.mkdir(parents=True)
    (agents / "lax.md").write_text(
        "---\ndescription: lax\nmode: subagent\npermission:\n  bash: allow\n---\nBe quick.\n"
    )
    task = Call("task", {"description": "Touch", "prompt": "touch it", "subagent_type": "lax"})
    rig.play([task], [Say("Not started.")], [Run("touch by-lax.txt")])
    seen = await one_turn(rig, place, policy=ASK_SHELL, on_ask=yes)
    assert the(seen, ToolResult).status == "denied"
    assert not (place / "by-lax.txt").exists()


async def test_a_subagent_taken_up_again_under_a_stricter_policy(rig: OpenCodeRig, place: Path) -> None:
    async with open_(rig, place):  # keeps the server for the others
        rig.play([TASK], [Say("Sub done.")], [Say("Main done.")])
        async with open_(rig, place) as session:
            seen = await collect(session.turn("go"))
            native_id = session.native_id
        child = the(seen, ToolResult).output.split('"')[1]
        again = Call("task", {**TASK.input, "task_id": child})
        rig.play([again], [Run("touch by-subagent.txt")], [Say("Sub done.")], [Say("Main done.")])
        seen = await one_turn(rig, place, policy=DENY_SHELL, resume=native_id)
    assert not (place / "by-subagent.txt").exists()
    task, run = of(seen, ToolUse)
    assert run.parent == task.id
    assert [result.status for result in of(seen, ToolResult)] == ["denied", "ok"]


# --- options -----------------------------------------------------------------------------------------------


async def test_effort(rig: OpenCodeRig, place: Path) -> None:
    async with open_(rig, place):  # keeps the server for the others
        await one_turn(rig, place, effort="high")
        assert '"reasoning_effort":"high"' in rig.heard()
        with pytest.raises(Unsupported, match="effort 'max' with the model scripted/scripted"):
            await one_turn(rig, place, effort="max")


async def test_model_and_agent(rig: OpenCodeRig, place: Path) -> None:
    async with open_(rig, place):  # keeps the server for the others
        with pytest.raises(UsageError, match="names no provider"):
            await one_turn(rig, place, model="scripted")
        seen = await one_turn(rig, place, model="scripted/none-such")
    assert done(seen).status == "error"
    assert "Model not found" in done(seen).error
    driver = create("mine", {"command": [PROGRAM], "agent": "plan"})
    rig.play([Write(str(place / "no.txt"), "x")], [Say("I may only plan.")])
    async with open_session(driver, cwd=place, policy=FULL, **rig.options) as session:
        seen = await collect(session.turn("go"))
    assert the(seen, ToolResult).status == "denied", "the agent's own rules hold"
    with pytest.raises(UsageError, match="no agent 'none-such'"):
        driver = create("mine", {"command": [PROGRAM], "agent": "none-such"})
        async with open_session(driver, cwd=place, **rig.options):
            pass


async def test_text_attachment(rig: OpenCodeRig, place: Path) -> None:
    notes = Attachment(data=b"# the word is pelican\n", media_type="text/markdown", name="notes.md")
    async with open_(rig, place) as session:
        await collect(session.turn(Prompt("which word?", (notes,))))
    assert "the word is pelican" in rig.heard()


async def test_budget(rig: OpenCodeRig, place: Path) -> None:
    rig.play(*[[Run(f"echo {number}")] for number in range(5)])
    seen = await one_turn(rig, place, max_budget_usd=0.000001)
    assert done(seen).status == "max_budget"
    assert (done(seen).tokens or pytest.fail("no tokens")).cost_usd


async def test_diff_of_a_repository(rig: OpenCodeRig, place: Path) -> None:
    """With git, OpenCode takes snapshots: the diff also has what commands have changed."""
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q"], cwd=place, env=rig.env, check=True)
    rig.play([Write(str(place / "a.txt"), "one\n")], [Run("echo two > b.txt")], [Say("Both.")])
    seen = await one_turn(rig, place)
    diff = the(seen, Diff)
    assert set(diff.paths) == {"a.txt", "b.txt"}
    assert "+one" in diff.diff and "+two" in diff.diff


async def test_resume_elsewhere(rig: OpenCodeRig, place: Path, tmp_path: Path) -> None:
    async with open_(rig, place) as session:
        native_id = session.native_id
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(UsageError, match=r"is about .*place, not .*other"):
        await one_turn(rig, other, resume=native_id)


async def test_a_turn_right_after_an_interrupt_and_an_error(rig: OpenCodeRig, place: Path) -> None:
    """The last turn's echoes on the event stream end no other turn."""
    rig.play([Say("Beginning. "), Stall()], [Say("second")], [Fail(400, "wrong")], [Say("fourth")])
    async with open_(rig, place) as session:

        async def stop() -> None:
            await rig.stalled()
            await session.interrupt()

        stopping = asyncio.create_task(stop())
        statuses = [done(await collect(session.turn(str(number)))) for number in range(4)]
        await stopping
    assert [each.status for each in statuses] == ["interrupted", "success", "error", "success"]
    assert [each.text for each in statuses[1::2]] == ["second", "fourth"]


async def test_interrupt_at_once(rig: OpenCodeRig, place: Path) -> None:
    """Before the session is at work: an abort has no effect there, and yet the turn ends, and nothing goes on."""
    rig.play([Stall()], [Say("after")])
    async with open_(rig, place) as session:
        turn = session.turn("go")
        first = await anext(turn)
        await session.interrupt()
        seen = [first, *[event async for event in turn]]
        assert done(seen).status == "interrupted"
        rig.model.reset()
        rig.play([Say("after")])
        assert done(await collect(session.turn("again"))).text == "after"


# --- the server --------------------------------------------------------------------------------------------


async def test_one_server_for_many(rig: OpenCodeRig, tmp_path: Path) -> None:
    places = [tmp_path / name for name in "abc"]
    for each in places:
        each.mkdir()
    rig.model.choose = lambda body: [Run("pwd")] if body["messages"][-1]["role"] == "user" else [Say("Ran.")]
    async with open_(rig, places[0]) as one, open_(rig, places[1]) as two, open_(rig, places[1]) as three:
        assert len(spawn.live()) == 1
        turns = await asyncio.gather(*(collect(each.turn("go")) for each in (one, two, three)))
        told = [the(seen, ToolResult).output.strip() for seen in turns]
        assert told == [str(places[0]), str(places[1]), str(places[1])]
        other = {**rig.env, "SOME_OTHER": "environment"}
        async with open_(rig, places[2], env=other):
            assert len(spawn.live()) == 2, "another environment is another server"
        assert len(spawn.live()) == 1
    assert not spawn.live()


async def test_a_server_that_dies_is_noticed_and_started_again(rig: OpenCodeRig, place: Path, tmp_path: Path) -> None:
    """Between two turns, without anybody asking for it, and the node looks at the agent again."""
    lost: list[str] = []
    config = Config(environ=rig.env)
    async with (
        open_bus(f"sqlite://{tmp_path}/bus.db") as bus,
        SessionManager(bus, config, drivers={"opencode": rig.driver}) as router,
    ):
        router.lost.append(lost.append)
        session = await router.create("opencode", cwd=str(place), policy=FULL, model=str(rig.options.get("model", "")))
        rig.play([Say("Before.")], [Say("After.")])
        await router.prompt(session.id, "go")
        await eventually(lambda: router.get(session.id).turns == 1, "no turn", timeout=90)
        router.runners[session.id]._opened = 0.0  # pyright: ignore[reportPrivateUsage] (it has lived for long)
        (first,) = spawn.live().values()
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: first not in spawn.live().values() and bool(spawn.live()), "no other", timeout=60)
        await eventually(lambda: lost == ["opencode"], "nobody was told")
        await router.prompt(session.id, "go on")
        await eventually(lambda: router.get(session.id).turns == 2, "no turn", timeout=90)
        assert (router.get(session.id).outcome, router.get(session.id).last_line) == ("success", "After.")
    assert not spawn.live()


async def test_cancelled_while_it_starts(rig: OpenCodeRig, place: Path) -> None:
    opening = asyncio.create_task(one_turn(rig, place))
    await eventually(lambda: bool(spawn.live()), "it never started")
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    assert not spawn.live()
    assert done(await one_turn(rig, place)).status == "success", "the next one starts a server of its own"


async def test_started_ahead(rig: OpenCodeRig, place: Path) -> None:
    env = {**rig.env, "PATH": f"{Path(PROGRAM).parent}:{rig.env['PATH']}"}
    prestart("opencode", env)
    (early,) = spawn.live().values()
    async with open_session(create("opencode", {}), cwd=place, env=env) as session:
        assert list(spawn.live().values()) == [early], "the very same one"
        assert done(await collect(session.turn("go"))).status == "success"
    assert not spawn.live()


async def test_missing(place: Path, tmp_path: Path) -> None:
    env = scratch_env(tmp_path / "home", path="/nowhere")
    driver = create("opencode", {})
    with pytest.raises(AgentMissing, match="npm install"):
        async with open_session(driver, cwd=place, env=env):
            pass
    probe = await driver.probe(env)
    assert not probe.found
    assert "npm install" in probe.hint


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("echo 'wrong library' >&2; exit 3", "status 3"),
        ("while :; do echo garbage; done", "does not speak as an OpenCode server"),
        ("exit 0", "did not come up"),
        ("head -c 100000000 /dev/zero", "does not speak as an OpenCode server"),
    ],
)
async def test_a_program_that_is_none(place: Path, tmp_path: Path, program: str, told: str) -> None:
    fake = tmp_path / "fake"
    fake.write_text(f"#!/bin/sh\n{program}\n")
    fake.chmod(0o755)
    env = scratch_env(tmp_path / "home", path="/usr/bin:/bin")
    with pytest.raises(AgentStartFailed, match=told) as failure:
        async with asyncio.timeout(20), open_session(create("x", {"command": [str(fake)]}), cwd=place, env=env):
            pass
    if "library" in program:
        assert "wrong library" in str(failure.value)
    assert not spawn.live()


async def test_a_broken_configuration(tmp_path: Path, place: Path) -> None:
    async with OpenCodeRig(tmp_path / "home", PROGRAM, config={"model": 7}) as rig:
        with pytest.raises(AgentStartFailed, match=r"opencode\.json"):
            await one_turn(rig, place)
    with pytest.raises(UsageError, match="OPENCODE_CONFIG_CONTENT is not plain JSON"):
        await one_turn(rig, place, env={**rig.env, "OPENCODE_CONFIG_CONTENT": "{// a comment\n}"})


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


async def test_a_prompt_brings_its_own_instruction(rig: OpenCodeRig, place: Path) -> None:
    """Beside the session's own, and for its turn alone."""
    rig.play([Say("one")], [Say("two")])
    async with open_(rig, place, system="You are a parrot.") as session:
        first = await collect(session.turn(Prompt("go", system="You were called by bob.")))
        heard = rig.heard()
        assert "You are a parrot." in heard
        assert "You were called by bob." in heard
        rig.model.reset()
        rig.play([Say("two")])
        await collect(session.turn("again"))
    assert done(first).status == "success"
    assert "You are a parrot." in rig.heard()
    assert "You were called by bob." not in rig.heard()
