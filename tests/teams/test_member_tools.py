"""What members say by tools: kept at once, and in effect when their turn has ended."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.mesh.mcp_clients import call, mesh_hub, refusal
from tests.sessions.test_attached_session import RecordingTerminal
from tests.teams.conftest import TeamsHere, teams_on

from tieline.drivers.base import McpServer
from tieline.drivers.claude_code.driver import ClaudeCode
from tieline.drivers.shell import driver as shell
from tieline.errors import UsageError
from tieline.events import Ask, Command, Done, Mcp, TurnStarted
from tieline.mesh.mcp_tools import TEAM_TOOLS, TOOLS
from tieline.mesh.records import Caller
from tieline.protocol import teams as p
from tieline.script import Fail, Run, Say
from tieline.sessions.records import SessionRecord
from tieline.sessions.team_mcp_server import allowed_in_team, servers_for
from tieline.teams.member_tools import MemberTools

WAIT = Run("until test -e go; do sleep 0.05; done")


@asynccontextmanager
async def in_its_turn(
    url: str, folder: Path, *ends: Say | Fail, two: tuple[Say, ...] = (Say("[DONE]"),), people: bool = True
) -> AsyncGenerator[tuple[TeamsHere, MemberTools, p.TeamView, dict[str, str]], None]:
    """The member `one` is in its turn, until there is a file `go`; then it ends it like that."""
    scripts = {"one": [[WAIT], *([end] for end in ends)], "two": [[each] for each in two]}
    async with teams_on(url, folder, **scripts) as here:
        started = await here.start(here.team("one", "two", *(["alice"] if people else [])))
        view = await here.until(started.id, lambda view: view.speaking == ("one",))
        yield here, MemberTools(here.bus, here.teams), view, {each.name: each.session for each in view.who}


async def calls(here: TeamsHere, id: str) -> list[p.MemberCalled]:
    return [entry for entry in await here.log(id) if isinstance(entry, p.MemberCalled)]


async def test_a_hand_over_is_kept_at_once_and_holds_when_the_turn_has_ended(sqlite: str, tmp_path: Path) -> None:
    async with in_its_turn(sqlite, tmp_path, Say("I am through.")) as (here, tools, view, sessions):
        for _ in range(2):  # the same key is the same call
            made = await tools.hand_over(sessions["one"], "Two", "Look at the queue.\n[DONE]", 1, key="k")
            assert (made.team, made.turn, made.next, made.done) == ("shop", 1, ("two",), False)
        assert [(call.member, call.turn, call.markers.next) for call in await calls(here, view.id)] == [
            ("one", 1, (p.NextSpeaker("two", 1),))
        ]
        now = await here.teams.view(view.id)
        assert (now.speaking, now.queue) == (("one",), ())
        (tmp_path / "go").touch()
        view = await here.until(view.id, lambda view: view.status == "ended")
        assert view.reason == "done, says two"
        assert "[MESSAGE]\n[FROM: one]\nI am through.\n\nLook at the queue." in here.heard["two"][0]


async def test_it_asks_a_person_beside_what_its_last_words_say(sqlite: str, tmp_path: Path) -> None:
    async with in_its_turn(sqlite, tmp_path, Say("[NEXT: two]"), two=(Say("Meanwhile."),)) as (here, tools, view, who):
        made = await tools.ask_person(who["one"], "Which colour?", key="k")
        assert made.next == ("alice",)
        (tmp_path / "go").touch()
        view = await here.until(view.id, lambda view: view.status == "waiting" and view.rounds == 2)
        assert view.waiting_for == ("alice",)
        assert "[FROM: one]\nWhich colour?" in here.heard["two"][0]


async def test_it_says_that_the_task_is_done(sqlite: str, tmp_path: Path) -> None:
    async with in_its_turn(sqlite, tmp_path, Say("Bye.")) as (here, tools, view, sessions):
        assert (await tools.done(sessions["one"], "All is built.", key="k")).done
        assert (await here.teams.view(view.id)).status == "running"
        (tmp_path / "go").touch()
        view = await here.until(view.id, lambda view: view.status == "ended")
        assert view.reason == "done, says one"


async def test_what_was_said_in_a_turn_that_failed_does_not_hold(sqlite: str, tmp_path: Path) -> None:
    async with in_its_turn(sqlite, tmp_path, Fail()) as (here, tools, view, sessions):
        await tools.done(sessions["one"], "All is built.", key="k")
        (tmp_path / "go").touch()
        view = await here.until(view.id, lambda view: view.status == "waiting")
        assert view.waiting_for == ("alice",)


async def test_who_may_not_call_is_told_why(sqlite: str, tmp_path: Path) -> None:
    async with in_its_turn(sqlite, tmp_path, Say("[DONE]"), people=False) as (here, tools, view, sessions):
        assert [await tools.is_member(each) for each in (sessions["one"], sessions["two"], "", "nobody")] == [
            True, True, False, False,
        ]  # fmt: skip
        with pytest.raises(UsageError, match="not your turn in the team shop"):
            await tools.hand_over(sessions["two"], "one", key="k")
        with pytest.raises(UsageError, match="not a member of a running team"):
            await tools.done("nobody", "", key="k")
        for to, words in (("bob", "no member is called bob"), (" , ", "no member is named")):
            with pytest.raises(UsageError, match=words) as caught:
                await tools.hand_over(sessions["one"], to, key="k")
            assert caught.value.hint == "Members: one, two."
        with pytest.raises(UsageError, match="the team has no person"):
            await tools.ask_person(sessions["one"], "Well?", key="k")
        with pytest.raises(UsageError, match="two is not a person"):
            await tools.ask_person(sessions["one"], "Well?", "two", key="k")
        for number in range(20):
            await tools.hand_over(sessions["one"], "two", key=str(number))
        with pytest.raises(UsageError, match="at most 20 such calls"):
            await tools.hand_over(sessions["one"], "two", key="k")
        (tmp_path / "go").touch()
        await here.until(view.id, lambda view: view.status == "ended")
        assert not await tools.is_member(sessions["one"])


async def test_a_terminal_speaks_for_itself_alone(tmp_path: Path) -> None:
    async with mesh_hub(tmp_path) as mesh:
        assert mesh.hub.local is not None and mesh.hub.teams is not None
        manager = mesh.hub.local.manager
        here = TeamsHere(mesh.hub.teams, mesh.hub.bus, manager, tmp_path, {})
        terminal = await manager.attach("claude-code", "s1", cwd=str(tmp_path), terminal=RecordingTerminal())
        desk = p.TeamMember(name="desk", session=terminal.record.id)
        async with (
            mesh.client("s1", harness="claude-code") as own,
            mesh.client("s2", harness="claude-code") as other,
            mesh.client("s1", harness="codex") as third,
        ):
            for client in (own, other, third):
                assert TEAM_TOOLS.keys().isdisjoint({tool.name for tool in (await client.list_tools()).tools})
                assert "not registered" in await refusal(client, "done", summary="")
                await call(client, "register_agent")
                assert "not a member of a running team" in await refusal(client, "done", summary="")
            elsewhere = Caller(machine="laptop-1", harness="claude-code", session="s1")
            await mesh.mesh.register_agent(elsewhere)
            assert mesh.mesh.session_of(elsewhere) == "", "another machine's session of the same id"
            started = await here.start(here.team(desk))
            await here.until(started.id, lambda view: view.speaking == ("desk",))
            assert {tool.name for tool in (await own.list_tools()).tools} == {*TOOLS, *TEAM_TOOLS}
            for client in (other, third):
                assert "not a member of a running team" in await refusal(client, "done", summary="")
                assert "this is the session" in await refusal(client, "done", summary="", session_id="s0")
            assert await call(own, "done", summary="Counted.") == {"team": "shop", "turn": 1, "done": True}
            (entry,) = [each for each in await here.log(started.id) if isinstance(each, p.TurnBegan)]
            terminal.tell(TurnStarted(entry.text))
            terminal.tell(Done("success", "There are three."))
            view = await here.until(started.id, lambda view: view.status == "ended")
            assert view.reason == "done, says desk"


def test_members_get_the_server_where_their_agent_takes_one_and_need_no_leave_for_its_tools() -> None:
    server = McpServer(command=("tieline", "mcp"))
    member, other = (SessionRecord(id="s", agent="a", cwd="/", team=team) for team in ("t", ""))
    takes, none = ClaudeCode(), shell.create("sh", {"command": ["true"]})
    assert servers_for(member, takes, server) == {"tieline": server}
    assert (
        servers_for(member, none, server) == servers_for(other, takes, server) == servers_for(member, takes, None) == {}
    )
    allowed = allowed_in_team(member, Ask("a", "permission", "x", tool="t", action=Mcp("tieline", "hand_over")))
    assert allowed is not None and (allowed.decision, allowed.ask, allowed.tool) == ("allow", "a", "t")
    for record, action in (
        (other, Mcp("tieline", "hand_over")),
        (member, Mcp("tieline", "send_message")),
        (member, Mcp("other", "hand_over")),
        (member, Command("hand_over")),
    ):
        assert allowed_in_team(record, Ask("a", "permission", "x", action=action)) is None
