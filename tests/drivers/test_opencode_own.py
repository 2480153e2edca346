"""What is OpenCode's own: its rules and the user's, subagents, remembered asks, efforts. Most on one server."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
from tests.drivers.hostile_opencode import opencode_plugins, opencode_settings
from tests.drivers.hostile_repository import COMMANDS_NOT_ALLOWED, WORDS, HostileRepository
from tests.drivers.opencode_sessions import PROGRAM, kept_open, one_turn, open_

from tieline.api import open_session
from tieline.drivers.base import Attachment, Prompt
from tieline.drivers.opencode.driver import OpenCode, create
from tieline.drivers.opencode_project import NO_PROJECT
from tieline.errors import RepositoryRuns, Unsupported, UsageError
from tieline.events import Answer, Ask, Command, Diff, Edit, OtherAction, ToolResult, ToolUse, Warning
from tieline.policy import Policy
from tieline.script import Call, Fail, Run, Say, Stall, Write
from tieline.testing.rigs.opencode import BorrowedRig, OpenCodeRig
from tieline.testing.stream_checks import collect, done, of, the
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

FULL = Policy("allow", "allow", "allow")
ASK_SHELL = Policy("allow", "ask", "allow")
DENY_SHELL = Policy("allow", "deny", "allow")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OpenCodeRig]:
    async with kept_open(tmp_path_factory.mktemp("opencode")) as rig:
        yield rig


@pytest.fixture
def rig(server: OpenCodeRig) -> BorrowedRig:
    return server.borrow()


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    cwd = tmp_path / "place"
    cwd.mkdir()
    return cwd


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


async def test_the_users_rules_do_not_widen_a_denial(tmp_path: Path, cwd: Path) -> None:
    """Neither the user's configuration, nor the project's, nor an agent's, nor the environment's."""
    allow = {"permission": {"*": "allow", "bash": {"*": "allow", "touch *": "allow"}}}
    (cwd / "opencode.json").write_bytes(msgspec.json.encode({**allow, "agent": {"build": allow}}))
    env = {"OPENCODE_PERMISSION": '{"bash":"allow"}', "OPENCODE_CONFIG_CONTENT": '{"permission":{"bash":"allow"}}'}
    async with (
        OpenCodeRig(tmp_path / "home", PROGRAM, config=allow, env=env) as rig,
        open_(rig, cwd),  # keeps the server for the others
    ):
        rig.play([Run("touch denied.txt")], [Say("Refused.")])
        seen = await one_turn(rig, cwd, policy=DENY_SHELL)
        assert not (cwd / "denied.txt").exists()
        assert the(seen, ToolResult).status == "denied"
        asked = Asked()
        rig.play([Run("touch asked.txt")], [Say("Done.")])
        await one_turn(rig, cwd, policy=ASK_SHELL, on_ask=asked)
        assert len(asked.asks) == 1


async def test_nor_are_the_users_denials_widened(tmp_path: Path, cwd: Path) -> None:
    config = {"permission": {"bash": {"*": "allow", "touch *": "deny"}}}
    async with OpenCodeRig(tmp_path / "home", PROGRAM, config=config) as rig:
        rig.play([Run("touch denied.txt"), Run("echo fine")], [Say("One of them.")])
        seen = await one_turn(rig, cwd)
    assert not (cwd / "denied.txt").exists()
    assert [result.status for result in of(seen, ToolResult)] == ["denied", "ok"]


@COMMANDS_NOT_ALLOWED
async def test_a_repositorys_settings_run_nothing_where_commands_are_not_allowed(
    rig: BorrowedRig, tmp_path: Path, cwd: Path, policy: Policy
) -> None:
    """By themselves its MCP servers start with the session, and its formatters with an edit."""
    hostile = HostileRepository(cwd, tmp_path)
    hostile.write("opencode.json", opencode_settings(hostile))
    hostile.write("AGENTS.md", WORDS)
    rig.play([Write("new.txt", "x\n")], [Say("Done.")])
    seen = await one_turn(rig, cwd, policy=policy)
    assert not hostile.ran
    assert "opencode.json. If you trust it" in the(seen, Warning).message
    assert WORDS in rig.heard()


@pytest.mark.parametrize("way", opencode_plugins)
async def test_a_repository_with_plugins_is_refused_where_commands_are_not_allowed(
    rig: BorrowedRig, tmp_path: Path, cwd: Path, way: str
) -> None:
    """OpenCode loads them although it is told not to read the repository's settings."""
    hostile = HostileRepository(cwd, tmp_path)
    opencode_plugins[way](hostile)
    with pytest.raises(RepositoryRuns) as refused:
        await one_turn(rig, cwd, policy=ASK_SHELL)
    assert str(cwd) in refused.value.message
    rig.play([Say("Done.")])
    async with open_(rig, cwd, policy=ASK_SHELL, accept_unenforced=True) as session:
        await collect(session.turn("go"))
        await eventually(lambda: hostile.ran == {"plugin"}, "it need not be refused")


async def test_a_redirection_alone_is_not_asked_for(rig: BorrowedRig, cwd: Path) -> None:
    """The receipt says so. When this fails, OpenCode has become better than our word: change the receipt."""
    (cwd / "kept.txt").write_text("content")
    rig.play([Run("> kept.txt")], [Say("Emptied.")])
    async with open_(rig, cwd, policy=ASK_SHELL) as session:
        assert "redirection" in session.receipt.shell.note
        seen = await collect(session.turn("go"))
    assert not of(seen, Ask)
    assert (cwd / "kept.txt").read_text() == ""


async def test_tools_that_are_offered(rig: BorrowedRig, cwd: Path) -> None:
    def offered() -> set[str]:
        return {tool["function"]["name"] for tool in rig.model.requests[-1]["tools"]}

    await one_turn(rig, cwd, disallowed_tools=["grep", "write"])
    assert not {"grep", "write", "edit"} & offered(), "write and edit are one permission"
    assert {"bash", "read"} <= offered()
    await one_turn(rig, cwd, allowed_tools=["read", "bash"], policy=DENY_SHELL)
    assert offered() == {"read"}, "allowing a tool does not widen the policy"


async def test_outside_the_directory(rig: BorrowedRig, cwd: Path, tmp_path: Path) -> None:
    """Another matter than the capability: people are asked, unless commands are allowed anyway."""
    target = tmp_path / "outside.txt"
    asked = Asked()
    rig.play([Write(str(target), "x\n")], [Say("Written.")])
    await one_turn(rig, cwd, policy=Policy("allow", "deny", "allow"), on_ask=asked)
    assert [(ask.capability, ask.action) for ask in asked.asks] == [(None, OtherAction())]
    assert "outside the session's directory" in asked.asks[0].reason
    assert target.exists()
    rig.play([Write(str(target), "y\n")], [Say("Written.")])
    seen = await one_turn(rig, cwd, policy=FULL)
    assert not of(seen, Ask)
    assert target.read_text() == "y\n"


# --- asks --------------------------------------------------------------------------------------------------


async def test_one_refusal_does_not_refuse_the_others(rig: BorrowedRig, cwd: Path) -> None:
    both = asyncio.Event()
    asked: list[Ask] = []

    async def decide(ask: Ask) -> bool:
        asked.append(ask)
        if len(asked) == 2:
            both.set()
        await both.wait()
        return isinstance(ask.action, Command) and "allowed" in ask.action.command

    rig.play([Run("touch denied.txt"), Run("touch allowed.txt")], [Say("One of them.")])
    seen = await one_turn(rig, cwd, policy=ASK_SHELL, on_ask=decide)
    assert (cwd / "allowed.txt").exists() and not (cwd / "denied.txt").exists()
    assert sorted(result.status for result in of(seen, ToolResult)) == ["denied", "ok"]
    assert done(seen).text == "One of them.", "the model was told and went on"


async def test_two_refusals_at_once(rig: BorrowedRig, cwd: Path) -> None:
    rig.play([Run("touch one.txt"), Run("touch two.txt")], [Say("Neither.")])
    seen = await one_turn(rig, cwd, policy=ASK_SHELL)
    assert [result.status for result in of(seen, ToolResult)] == ["denied", "denied"]
    assert done(seen).text == "Neither."


async def test_remembered_for_the_session(rig: BorrowedRig, cwd: Path) -> None:
    """OpenCode's own `always` would hold for every session of the directory."""
    asked: list[Ask] = []

    def decide(ask: Ask) -> Answer:
        asked.append(ask)
        assert ask.remember == ("session",)
        return Answer(ask.id, "allow", by="caller", remember="session")

    rig.play([Run("touch one.txt")], [Run("touch now.txt")], [Say("1")])
    later = [[Run("touch two.txt")], [Run("mkdir made")], [Say("2")]]
    async with open_(rig, cwd, policy=ASK_SHELL, on_ask=decide) as first:
        await collect(first.turn("one"))
        rig.play(*later)
        await collect(first.turn("two"))
        assert (cwd / "two.txt").exists() and (cwd / "made").exists()
        commands = [ask.action.command for ask in asked if isinstance(ask.action, Command)]
        assert commands == ["touch one.txt", "touch now.txt", "mkdir made"], "its rules are those of the turn's start"
        rig.play([Run("touch three.txt")])
        assert asked[0].scopes == {"session": "commands like touch *, this session, from its next turn on"}
        async with open_(rig, cwd, policy=ASK_SHELL) as second:
            await collect(second.turn("three"))
    assert not (cwd / "three.txt").exists(), "another session is another matter"


async def test_an_edit_is_asked_with_its_diff(rig: BorrowedRig, cwd: Path) -> None:
    (cwd / "a.txt").write_text("one\ntwo\n")
    edit = {"filePath": str(cwd / "a.txt"), "oldString": "two", "newString": "three"}
    rig.play([Call("read", {"filePath": str(cwd / "a.txt")})], [Call("edit", edit)], [Say("Edited.")])
    seen = await one_turn(rig, cwd, policy=Policy("ask", "deny", "deny"), on_ask=yes)
    action = the(seen, Ask).action
    assert isinstance(action, Edit)
    assert "-two\n+three\n" in action.diff
    assert "-two\n+three\n" in the(seen, Diff).diff


# --- subagents ---------------------------------------------------------------------------------------------

TASK = Call("task", {"description": "Touch a file", "prompt": "touch it", "subagent_type": "general"})


@pytest.mark.parametrize("policy", [FULL, ASK_SHELL, DENY_SHELL], ids=lambda policy: policy.shell)
async def test_a_subagent_is_held_to_the_policy(rig: BorrowedRig, cwd: Path, policy: Policy) -> None:
    rig.play([TASK], [Run("touch by-subagent.txt")], [Say("Sub done.")], [Say("Main done.")])
    seen = await one_turn(rig, cwd, policy=policy, on_ask=yes)
    assert (cwd / "by-subagent.txt").exists() == (policy.shell != "deny")
    assert len(of(seen, Ask)) == (policy.shell == "ask")
    task, run = of(seen, ToolUse)
    assert run.parent == task.id
    assert done(seen).text == "Main done."
    tokens = done(seen).tokens
    assert tokens is not None
    assert ((tokens.input or 0) + (tokens.cache_read or 0), tokens.output) == rig.model.reported_tokens, (
        "the subagent's count"
    )


async def test_a_subagent_that_would_not_ask(rig: BorrowedRig, cwd: Path) -> None:
    """A project brings an agent along that may run anything: it is not started where commands are to be asked for. By
    itself it is not even known; here its user trusts the repository."""
    agents = cwd / ".opencode" / "agent"
    agents.mkdir(parents=True)
    (agents / "lax.md").write_text(
        "---\ndescription: lax\nmode: subagent\npermission:\n  bash: allow\n---\nBe quick.\n"
    )
    task = Call("task", {"description": "Touch", "prompt": "touch it", "subagent_type": "lax"})
    for trust, status in (({}, "error"), ({NO_PROJECT: "0"}, "denied")):
        rig.play([task], [Say("Not started.")], [Run("touch by-lax.txt")])
        seen = await one_turn(rig, cwd, policy=ASK_SHELL, on_ask=yes, env={**rig.options["env"], **trust})
        assert the(seen, ToolResult).status == status
        assert not (cwd / "by-lax.txt").exists()
        rig.model.drop_replies()


async def test_a_subagent_taken_up_again_under_a_stricter_policy(rig: BorrowedRig, cwd: Path) -> None:
    rig.play([TASK], [Say("Sub done.")], [Say("Main done.")])
    async with open_(rig, cwd) as session:
        seen = await collect(session.turn("go"))
        native_id = session.native_id
    child = the(seen, ToolResult).output.split('"')[1]
    again = Call("task", {**TASK.input, "task_id": child})
    rig.play([again], [Run("touch by-subagent.txt")], [Say("Sub done.")], [Say("Main done.")])
    seen = await one_turn(rig, cwd, policy=DENY_SHELL, resume=native_id)
    assert not (cwd / "by-subagent.txt").exists()
    task, run = of(seen, ToolUse)
    assert run.parent == task.id
    assert [result.status for result in of(seen, ToolResult)] == ["denied", "ok"]


# --- options -----------------------------------------------------------------------------------------------


async def test_a_model_that_it_does_not_have_is_refused_with_the_nearest(rig: BorrowedRig, cwd: Path) -> None:
    assert isinstance(rig.driver, OpenCode)
    listed = await rig.driver.list_models(str(cwd), rig.options["env"])
    assert rig.options["model"] in listed.names and listed.certain
    assert listed.efforts["scripted/scripted"] == ("low", "medium", "high")
    with pytest.raises(UsageError, match="has no model 'scripted/gpt-scriptd'") as refused:
        async with open_(rig, cwd, model="scripted/gpt-scriptd"):
            pass
    assert "scripted/gpt-scripted" in refused.value.hint and refused.value.field == "model"
    own = {"provider": {"scripted": {"models": {"of-the-project": {"name": "Of the project"}}}}}
    project = cwd / "project"
    project.mkdir()
    (project / "opencode.json").write_bytes(msgspec.json.encode(own))
    async with open_(rig, project, model="scripted/of-the-project"):
        pass  # the project's own configuration counts


async def test_an_effort_that_its_model_has_not(rig: BorrowedRig, cwd: Path) -> None:
    with pytest.raises(Unsupported, match=f"effort 'max' with the model {rig.options['model']}"):
        await one_turn(rig, cwd, effort="max")


async def test_model_and_agent(rig: BorrowedRig, cwd: Path) -> None:
    with pytest.raises(UsageError, match="names no provider"):
        await one_turn(rig, cwd, model="scripted")
    driver = create("mine", {"command": [PROGRAM], "agent": "plan"})
    rig.play([Write(str(cwd / "no.txt"), "x")], [Say("I may only plan.")])
    async with open_session(driver, cwd=cwd, policy=FULL, **rig.options) as session:
        seen = await collect(session.turn("go"))
    assert the(seen, ToolResult).status == "denied", "the agent's own rules hold"
    with pytest.raises(UsageError, match="no agent 'none-such'"):
        driver = create("mine", {"command": [PROGRAM], "agent": "none-such"})
        async with open_session(driver, cwd=cwd, **rig.options):
            pass


async def test_text_attachment(rig: BorrowedRig, cwd: Path) -> None:
    notes = Attachment(data=b"# the word is pelican\n", media_type="text/markdown", name="notes.md")
    async with open_(rig, cwd) as session:
        await collect(session.turn(Prompt("which word?", (notes,))))
    assert "the word is pelican" in rig.heard()


async def test_diff_of_a_repository(rig: BorrowedRig, cwd: Path) -> None:
    """With git, OpenCode takes snapshots: the diff also has what commands have changed."""
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q"], cwd=cwd, env=rig.options["env"], check=True)
    rig.play([Write(str(cwd / "a.txt"), "one\n")], [Run("echo two > b.txt")], [Say("Both.")])
    seen = await one_turn(rig, cwd)
    diff = the(seen, Diff)
    assert set(diff.paths) == {"a.txt", "b.txt"}
    assert "+one" in diff.diff and "+two" in diff.diff


async def test_resume_elsewhere(rig: BorrowedRig, cwd: Path, tmp_path: Path) -> None:
    async with open_(rig, cwd) as session:
        native_id = session.native_id
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(UsageError, match=r"is about .*place, not .*other"):
        await one_turn(rig, other, resume=native_id)


async def test_a_turn_right_after_an_interrupt_and_an_error(rig: BorrowedRig, cwd: Path) -> None:
    """The last turn's echoes on the event stream end no other turn."""
    rig.play([Say("Beginning. "), Stall()], [Say("second")], [Fail(400, "wrong")], [Say("fourth")])
    async with open_(rig, cwd) as session:

        async def stop() -> None:
            await rig.stalled()
            await session.interrupt()

        stopping = asyncio.create_task(stop())
        statuses = [done(await collect(session.turn(str(number)))) for number in range(4)]
        await stopping
    assert [each.status for each in statuses] == ["interrupted", "success", "error", "success"]
    assert [each.text for each in statuses[1::2]] == ["second", "fourth"]


async def test_interrupt_at_once(rig: BorrowedRig, cwd: Path) -> None:
    """Before the session is at work: an abort has no effect there, and yet the turn ends, and nothing goes on."""
    async with open_(rig, cwd) as session:
        await collect(session.turn("go"))  # the first one starts what the directory needs, which nothing can stop
        rig.play([Stall()])
        turn = session.turn("go")
        first = await anext(turn)
        await session.interrupt()
        seen = [first, *[event async for event in turn]]
        assert done(seen).status == "interrupted"
        rig.model.reset()
        rig.play([Say("after")])
        assert done(await collect(session.turn("again"))).text == "after"


async def test_a_prompt_brings_its_own_instruction(rig: BorrowedRig, cwd: Path) -> None:
    """Beside the session's own, and for its turn alone."""
    rig.play([Say("one")], [Say("two")])
    async with open_(rig, cwd, system="You are a parrot.") as session:
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
