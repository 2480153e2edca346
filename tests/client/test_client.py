"""The client against a real hub: every route, refusals as errors, and what is sent twice happens once."""

import asyncio
import re
from collections.abc import Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.client.proxy import Proxy
from tests.hub.conftest import Running, running

from tieline.client import Client, HubUnreachable, NoHub, Unauthorized, connect
from tieline.drivers.base import Driver
from tieline.drivers.scripted import Scripted
from tieline.errors import TielineError, UnknownAgent, UsageError
from tieline.events import Answer, Ask, Done, Text, TurnStarted
from tieline.protocol.phone import PhoneSetup
from tieline.protocol.request_bodies import (
    Claim,
    Decision,
    MarkChange,
    NewPrompt,
    NewSession,
    Pairing,
    PushSubscription,
    SessionChange,
)
from tieline.protocol.rules import NewRule
from tieline.protocol.schedules import NewSchedule, ScheduleChange
from tieline.protocol.stream_frames import AskFrame, EventFrame, PromptFrame, Ready
from tieline.protocol.teams import CleanTeam, Hold, NewTeam, Team
from tieline.protocol.views import CommandView, PromptView
from tieline.script import Fail, Inquire, Run, Say, Stall
from tieline.sessions.pending_asks import AlreadyAnswered
from tieline.sessions.records import AskRecord, SessionRecord
from tieline.testing.rigs.shell import JSONL, ShellRig

BOUND_S = 30.0


async def session(hub: Running, client: Client, **more: Any) -> SessionRecord:
    made = await client.create_session(
        NewSession(**{"agent": "scripted", "cwd": hub.cwd, "policy": "full", **more})  # pyright: ignore[reportArgumentType]
    )
    assert isinstance(made, SessionRecord)
    return made


async def finished(client: Client, id: str, turns: int = 1) -> Done:
    """The end of the session's last turn, when all is settled."""
    async with asyncio.timeout(BOUND_S), aclosing(client.stream(sessions=[id], by="sse")) as frames:
        async for _ in frames:  # whatever comes: look again
            record = await client.session(id)
            if record.turns >= turns and not await client.prompts(id):
                break
    (last,) = (await client.events(id, limit=1)).events
    assert isinstance(last.event, Done)
    return last.event


async def pending(client: Client) -> AskRecord:
    async with asyncio.timeout(BOUND_S), aclosing(client.stream(by="sse")) as frames:
        async for _ in frames:
            if asks := await client.asks():
                return asks[0]
    raise AssertionError("the stream ended")


# --- sessions and prompts -----------------------------------------------------------------------------------


async def test_a_session_from_its_first_prompt_to_its_end(hub: Running, client: Client) -> None:
    hub.play([Say("Hello.")], [Say("Again.")])
    made = await session(hub, client, title="greeting", prompt="say hello")
    assert (await finished(client, made.id)).status == "success"
    assert [session.id for session in await client.sessions(q="greeting")] == [made.id]
    assert await client.sessions(agent="codex") == []
    assert (await client.session(made.id)).title == "greeting"
    kinds = [message.kind for message in await client.messages(made.id)]
    assert kinds[0] == "user" and "text" in kinds and kinds[-1] == "done"
    page = await client.events(made.id, limit=2)
    assert isinstance(page.events[-1].event, Done) and len(page.events) == 2 and page.more
    earlier = await client.events(made.id, before=page.events[0].seq)
    assert isinstance(earlier.events[0].event, TurnStarted)
    later = await client.events(made.id, after=page.events[0].seq)
    assert [frame.seq for frame in later.events] == [page.events[-1].seq]

    again = await client.prompt(made.id, "again")
    assert isinstance(again, PromptView)
    changed = await client.change_session(made.id, SessionChange(archived=True))
    assert isinstance(changed, SessionRecord) and changed.archived
    assert made.id not in [session.id for session in await client.sessions()]
    assert made.id in [session.id for session in await client.sessions(archived=True)]
    closed = await client.close_session(made.id)
    assert isinstance(closed, SessionRecord) and closed.status == "closed"


async def test_a_turn_is_followed_and_answered_in_one_call(hub: Running, client: Client) -> None:
    hub.play([Run("echo hi > made.txt")], [Say("Made.")], [Run("rm made.txt")], [Say("Kept.")])
    asked: list[str] = []

    async def decide(ask: Ask) -> bool:
        asked.append(ask.id)
        return len(asked) == 1

    async with asyncio.timeout(BOUND_S):
        new = NewSession(agent="scripted", cwd=hub.cwd, policy="ask")
        first = [event async for event in client.turn(new, "make it", on_ask=decide)]
        (record,) = await client.sessions()
        second = [event async for event in client.turn(record.id, "remove it", on_ask=decide)]
    for events, prompt, text in ((first, "make it", "Made."), (second, "remove it", "Kept.")):
        assert isinstance(events[0], TurnStarted) and events[0].prompt == prompt
        assert isinstance(events[-1], Done) and (events[-1].status, events[-1].text) == ("success", text)
    assert len(asked) == 2 and Path(hub.cwd, "made.txt").read_text() == "hi\n"
    assert [event.decision for event in (*first, *second) if isinstance(event, Answer)] == ["allow", "deny"]


async def test_prompts_wait_move_and_are_taken_back(hub: Running, client: Client) -> None:
    hub.play([Stall()])
    made = await session(hub, client, prompt="work")
    two = await client.prompt(made.id, "two")
    three = await client.prompt(made.id, NewPrompt(text="three", timeout_s=60))
    assert isinstance(two, PromptView) and isinstance(three, PromptView)
    moved = await client.move_prompt(made.id, three.id, before=two.id)
    assert isinstance(moved, PromptView)
    edited = await client.edit_prompt(made.id, two.id, "two, and more")
    assert isinstance(edited, PromptView) and edited.text == "two, and more"
    waiting = [prompt.text for prompt in await client.prompts(made.id) if prompt.status == "queued"]
    assert waiting == ["three", "two, and more"]
    for prompt in (two, three):
        gone = await client.cancel_prompt(made.id, prompt.id)
        assert isinstance(gone, PromptView) and gone.status == "cancelled"
    assert await client.abort(made.id) is True
    assert (await finished(client, made.id)).status == "interrupted"
    assert await client.abort(made.id) is False
    assert {prompt.text for prompt in await client.prompts(made.id, over=True)} >= {"work", "two, and more", "three"}
    with pytest.raises(UsageError, match=r"\(status: cancelled\)"):
        await client.edit_prompt(made.id, two.id, "too late")


async def test_a_prompt_that_failed_is_sent_again_once(hub: Running, client: Client) -> None:
    hub.play([Fail()], [Stall()])
    made = await session(hub, client, prompt="try")
    assert (await finished(client, made.id)).status == "error"
    (failed,) = await client.prompts(made.id, over=True)
    again = await client.retry_prompt(made.id, failed.id)
    assert isinstance(again, PromptView) and (again.text, again.id != failed.id) == ("try", True)
    repeated = await client.retry_prompt(made.id, failed.id)
    assert isinstance(repeated, PromptView) and repeated.id == again.id
    with pytest.raises(UsageError, match=r"\(status: (queued|running)\)"):
        await client.retry_prompt(made.id, again.id)
    with pytest.raises(UsageError, match="no prompt"):
        await client.retry_prompt(made.id, "nonesuch")
    async with asyncio.timeout(BOUND_S):
        while not await client.abort(made.id):
            pass  # it has not begun yet
    assert (await finished(client, made.id, 2)).status == "interrupted"
    assert len(await client.prompts(made.id, over=True)) == 2
    hub.replies[1:] = [[Say("At last.")]]  # it may have been interrupted before it came so far
    third = await client.retry_prompt(made.id, again.id)
    assert isinstance(third, PromptView) and third.id not in (failed.id, again.id)
    assert (await finished(client, made.id, 3)).status == "success"


async def test_asks_are_decided_once(hub: Running, client: Client) -> None:
    hub.play([Run("echo hi > made.txt")], [Say("done")])
    made = await session(hub, client, policy="ask", prompt="make it")
    ask = await pending(client)
    assert (await client.ask(ask.id)).digest == ask.digest
    with pytest.raises(UsageError) as other:
        await client.answer(ask.id, Decision(decision="allow", digest="0" * 32))
    assert other.value.field == "digest"
    command = await client.answer(ask.id, Decision(decision="allow", digest=ask.digest))
    assert command.state == "applied"
    with suppress(TielineError):  # the local node's commands need no waiting
        assert (await client.command(command.id)).ask == ask.id
    with pytest.raises(AlreadyAnswered):
        await client.answer(ask.id, Decision(decision="deny"))
    assert (await finished(client, made.id)).status == "success"
    assert Path(hub.cwd, "made.txt").read_text() == "hi\n"
    assert (await client.ask(ask.id)).status == "answered"


async def test_a_question_is_answered(hub: Running, client: Client) -> None:
    hub.play([Inquire("Which?", ("Red", "Blue"))], [Say("fine")])
    made = await session(hub, client, prompt="ask me")
    ask = await pending(client)
    question = ask.ask.questions[0]
    await client.answer(ask.id, Decision(decision="allow", answers={question.id: ("Blue",)}))
    await finished(client, made.id)
    assert any(message.answer and message.answer.answers for message in await client.messages(made.id))


# --- machines and access ------------------------------------------------------------------------------------


async def test_machines_and_their_agents(hub: Running, client: Client) -> None:
    (node,) = await client.nodes()
    assert node.local and node.online
    assert (await client.node(node.id)).id == node.id
    refreshed = await client.refresh(node.id)
    assert not isinstance(refreshed, CommandView)
    assert "scripted" in [agent.name for agent in refreshed]
    assert {agent.name for agent in await client.agents()} == {agent.name for agent in refreshed}
    Path(hub.env["HOME"], "projects").mkdir()
    assert "projects" in (await client.browse(node.id)).names
    with pytest.raises(UsageError):
        await client.browse(node.id, "/etc")


async def test_devices_come_by_pairing_and_go_by_revocation(hub: Running, client: Client) -> None:
    me = await client.me()
    assert me.device.current and me.node == hub.hub.dispatcher.local
    offer = await client.pairing(Pairing(kind="client", name="laptop"))
    async with Client(hub.url) as stranger:
        with pytest.raises(Unauthorized):
            await stranger.me()
        paired = await stranger.pair(Claim(secret=offer.secret, name="laptop"))
        with pytest.raises(TielineError):
            await stranger.pair(Claim(secret=offer.secret))
    async with Client(hub.url, paired.key) as laptop:
        assert (await laptop.me()).device.name == "laptop"
        assert {device.id for device in await client.devices()} >= {me.device.id, paired.device.id}
        await client.revoke(paired.device.id)
        with pytest.raises(Unauthorized) as out:
            await laptop.sessions()
        assert "Pair again" in out.value.hint


async def test_the_service_routes(hub: Running, client: Client) -> None:
    assert (await client.health())["status"] == "ok"
    assert "tieline" in await client.metrics()
    assert msgspec.json.decode(await client.openapi())["openapi"].startswith("3.1")


# --- refusals -----------------------------------------------------------------------------------------------


async def test_refusals_are_raised_by_their_names(hub: Running, client: Client) -> None:
    with pytest.raises(UnknownAgent) as unknown:
        await client.create_session(NewSession(agent="nonesuch", cwd=hub.cwd))
    assert unknown.value.field == "agent" and "Known agents" in unknown.value.hint
    with pytest.raises(UsageError) as missing:
        await client.session("nonesuch")
    assert "nonesuch" in missing.value.message
    with pytest.raises(UsageError):
        await client.create_session(NewSession(agent="scripted", cwd="/nonesuch"))
    made = await session(hub, client)
    with pytest.raises(UsageError):
        await client.steer(made.id, "no turn runs")


async def test_another_token_is_not_let_in(hub: Running) -> None:
    async with Client(hub.url, "tl_wrong") as stranger:
        with pytest.raises(Unauthorized):
            await stranger.sessions()


async def test_no_hub(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    with pytest.raises(NoHub) as none:
        connect(env)
    assert "tieline up" in none.value.hint
    async with connect({**env, "TIELINE_HUB": "http://127.0.0.1:9", "TIELINE_TOKEN": "x"}) as client:
        with pytest.raises(HubUnreachable):
            await client.sessions()


# --- lost connections ---------------------------------------------------------------------------------------


async def test_what_is_sent_again_happens_once(hub: Running) -> None:
    hub.play([Say("once")])
    async with Proxy(hub.serving.port) as proxy, Client(proxy.url, hub.token) as client:
        await client.me()
        proxy.lose_answers = 2
        proxy.cut()
        made = await client.create_session(
            NewSession(agent="scripted", cwd=hub.cwd, policy="full", prompt="go", title="one")
        )
        assert proxy.lose_answers == 0
        assert isinstance(made, SessionRecord)
        await finished(client, made.id)
        proxy.lose_answers = 1
        proxy.cut()
        await client.prompt(made.id, "once more")
        await finished(client, made.id, turns=2)
        assert len(await client.sessions(q="one")) == 1
        assert len(await client.prompts(made.id, over=True)) == 2


async def test_a_hub_that_stays_away(hub: Running) -> None:
    async with Proxy(hub.serving.port) as proxy, Client(proxy.url, hub.token, patience_s=0.5) as client:
        await client.me()
        proxy.refuse = True
        proxy.cut()
        before = proxy.accepted
        with pytest.raises(HubUnreachable) as away:
            await client.sessions()
        assert proxy.url in away.value.message
        assert proxy.accepted > before + 1, "it tried more than once"
        proxy.refuse = False
        assert await client.sessions() == []


# --- the stream ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["websocket", "sse"])
async def test_the_stream_tells_what_happens(by: Any, hub: Running, client: Client) -> None:
    hub.play([Inquire("Which?", ("A", "B"))], [Say("Thank you.")])
    seen: list[Any] = []
    made: SessionRecord | None = None
    async with asyncio.timeout(BOUND_S), aclosing(client.stream(by=by)) as frames:
        async for frame in frames:
            seen.append(frame)
            match frame:
                case Ready():
                    assert frame.snapshot.nodes
                    made = await session(hub, client, prompt="go")
                case AskFrame(ask=ask) if ask.status == "pending":
                    await client.answer(ask.id, Decision(decision="allow", answers={ask.ask.questions[0].id: ("A",)}))
                case EventFrame(event=Done()):
                    break
                case _:
                    pass
    events = [frame.event for frame in seen if isinstance(frame, EventFrame)]
    assert isinstance(events[0], TurnStarted)
    assert any(isinstance(event, Text) and event.text == "Thank you." for event in events)
    assert any(isinstance(frame, PromptFrame) for frame in seen)
    assert made is not None
    assert {(frame.session, frame.at > 0) for frame in seen if isinstance(frame, EventFrame)} == {(made.id, True)}
    log = await client.events(made.id)
    assert [frame.seq for frame in log.events] == [frame.seq for frame in seen if isinstance(frame, EventFrame)]


async def test_one_stream_has_the_sessions_of_every_driver(tmp_path: Path) -> None:
    program = ShellRig(tmp_path / "program", JSONL)
    program.play([Say("By a program.")])
    drivers: dict[str, Driver] = {"scripted": Scripted([[Say("By a script.")]]), "scripted-shell": program.driver}
    agents: dict[str, str] = {}
    texts: dict[str, str] = {}
    async with (
        running(tmp_path, drivers=drivers) as hub,
        Client(hub.url, hub.token) as client,
        asyncio.timeout(BOUND_S),
        aclosing(client.stream()) as frames,
    ):
        async for frame in frames:
            if isinstance(frame, Ready) and not agents:
                for agent in drivers:
                    agents[(await session(hub, client, agent=agent, prompt="go")).id] = agent
            elif isinstance(frame, EventFrame) and isinstance(frame.event, Done):
                texts[agents[frame.session]] = frame.event.text
                if len(texts) == 2:
                    break
    assert texts == {"scripted": "By a script.", "scripted-shell": "By a program."}


@pytest.mark.slow
@pytest.mark.parametrize("by", ["websocket", "sse"])
async def test_the_stream_survives_lost_connections(by: Any, hub: Running) -> None:
    """Cut again and again while an agent talks: all events, each once, in order."""
    hub.play(*([Run(f"echo {number}"), Say(f"said {number}")] for number in range(60)), [Say("end")])
    states: list[str] = []
    seen: list[int] = []
    async with (
        asyncio.timeout(BOUND_S),
        Proxy(hub.serving.port) as proxy,
        Client(proxy.url, hub.token) as client,
        Client(hub.url, hub.token) as direct,
        aclosing(client.stream(by=by, on_connection=lambda connection: states.append(connection.state))) as frames,
    ):
        made = None
        async for frame in frames:
            if isinstance(frame, Ready) and made is None:
                made = await session(hub, direct, prompt="go")
            elif isinstance(frame, EventFrame):
                seen.append(frame.seq)
                if len(seen) in (5, 25, 60):
                    proxy.cut()
                if isinstance(frame.event, Done):
                    break
        assert made is not None
        log = [entry.seq for entry in (await direct.events(made.id, limit=1000)).events]
    assert seen == log
    assert states.count("connected") >= 2 and "lost" in states


@pytest.mark.parametrize("by", ["websocket", "sse"])
async def test_a_stream_from_a_cursor(by: Any, hub: Running, client: Client) -> None:
    hub.play([Say("one")])
    async with asyncio.timeout(BOUND_S):
        async with aclosing(client.stream(by=by, deltas=False)) as frames:
            ready = await anext(frames)
            assert isinstance(ready, Ready) and ready.state == "reset"
        made = await session(hub, client, prompt="go")
        await finished(client, made.id)
        seen: list[int] = []
        again = client.stream(by=by, sessions=[made.id], after=ready.cursor, epoch=ready.epoch)
        async with aclosing(again) as frames:
            async for frame in frames:
                if isinstance(frame, Ready):
                    assert frame.state == "ok"
                if isinstance(frame, EventFrame):
                    seen.append(frame.seq)
                    if isinstance(frame.event, Done):
                        break
    assert seen == [entry.seq for entry in (await client.events(made.id)).events]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["websocket", "sse"])
async def test_the_stream_of_a_stranger_ends(by: Any, hub: Running, client: Client) -> None:
    async with Client(hub.url, "tl_wrong") as stranger:
        with pytest.raises(Unauthorized):
            async with asyncio.timeout(BOUND_S):
                await anext(stranger.stream(by=by))
    offer = await client.pairing(Pairing(kind="client"))
    async with Client(hub.url) as newcomer:
        paired = await newcomer.pair(Claim(secret=offer.secret))
    async with Client(hub.url, paired.key) as laptop:
        with pytest.raises(Unauthorized):
            async with asyncio.timeout(BOUND_S), aclosing(laptop.stream(by=by)) as frames:
                async for frame in frames:
                    if isinstance(frame, Ready):
                        await client.revoke(paired.device.id)


@pytest.mark.parametrize("by", ["websocket", "sse"])
async def test_a_stream_has_as_much_patience_as_it_is_given(by: Any, hub: Running) -> None:
    async with Proxy(hub.serving.port) as proxy, Client(proxy.url, hub.token) as client:
        with pytest.raises(HubUnreachable):
            async with asyncio.timeout(BOUND_S), aclosing(client.stream(by=by, patience_s=0.5)) as frames:
                async for frame in frames:
                    if isinstance(frame, Ready):
                        proxy.refuse = True
                        proxy.cut()


# --- all of it ----------------------------------------------------------------------------------------------

ELSEWHERE = re.compile(
    r"/api/v1/(docs|stream|link|relay|messages|inboxes|dead|channels|hooks|harness-plugins)|/hooks/|^/(?!api)"
)
"""Not JSON routes of sessions, machines and access: other parts of the client have them, a browser, or a harness."""
BY_HARNESSES = ("POST", "/api/v1/harness-hooks")


async def test_every_route_has_its_method(hub: Running, client: Client) -> None:
    document = msgspec.json.decode(await client.openapi())
    known = {
        (method.upper(), re.sub(r"\{[^}]*\}", "x", path))
        for path, operations in document["paths"].items()
        if not ELSEWHERE.search(path)
        for method in operations
    }
    asked: set[tuple[str, str]] = {BY_HARNESSES}

    class Spy(Client):
        async def _call(self, method: str, path: str, **more: Any) -> Any:
            asked.add((method, f"/api/v1/{path}"))
            raise UsageError("only looking")

    calls: list[Callable[[Client], Any]] = [
        lambda c: c.sessions(),
        lambda c: c.session("x"),
        lambda c: c.create_session(NewSession()),
        lambda c: c.change_session("x", SessionChange()),
        lambda c: c.abort("x"),
        lambda c: c.close_session("x"),
        lambda c: c.adopt("x"),
        lambda c: c.fork("x"),
        lambda c: c.prompts("x"),
        lambda c: c.prompt("x", "y"),
        lambda c: c.steer("x", "y"),
        lambda c: c.cancel_prompt("x", "x"),
        lambda c: c.move_prompt("x", "x"),
        lambda c: c.edit_prompt("x", "x", "y"),
        lambda c: c.retry_prompt("x", "x"),
        lambda c: c.prompt_attachment("x", "x", "x"),
        lambda c: c.events("x"),
        lambda c: c.messages("x"),
        lambda c: c.diff("x"),
        lambda c: c.changes("x"),
        lambda c: c.session_file("x", "y"),
        lambda c: c.stage("x", ["y"]),
        lambda c: c.unstage("x", ["y"]),
        lambda c: c.commit("x", "y"),
        lambda c: c.revert("x", ["y"]),
        lambda c: c.discard("x"),
        lambda c: c.push("x"),
        lambda c: c.open_pull_request("x", "y"),
        lambda c: c.asks(),
        lambda c: c.ask("x"),
        lambda c: c.answer("x", Decision(decision="deny")),
        lambda c: c.command("x"),
        lambda c: c.nodes(),
        lambda c: c.node("x"),
        lambda c: c.remove_node("x"),
        lambda c: c.browse("x"),
        lambda c: c.refresh("x"),
        lambda c: c.list_models("x", "x"),
        lambda c: c.agents(),
        lambda c: c.me(),
        lambda c: c.login(Claim(secret="s")),
        lambda c: c.logout(),
        lambda c: c.pairing(Pairing()),
        lambda c: c.pair(Claim(secret="s")),
        lambda c: c.devices(),
        lambda c: c.revoke("x"),
        lambda c: c.audit(),
        lambda c: c.usage(),
        lambda c: c.search("x"),
        lambda c: c.openapi(),
        lambda c: c.push_key(),
        lambda c: c.push_subscriptions(),
        lambda c: c.subscribe_push(PushSubscription(endpoint="https://push.example/x", keys={})),
        lambda c: c.unsubscribe_push("x"),
        lambda c: c.test_push(),
        lambda c: c.message_ids("x"),
        lambda c: c.members(),
        lambda c: c.member("x"),
        lambda c: c.conversation("x"),
        lambda c: c.notes("x"),
        lambda c: c.path_leases("x"),
        lambda c: c.harness_hooks(),
        lambda c: c.teams(),
        lambda c: c.team("x"),
        lambda c: c.team_entries("x"),
        lambda c: c.start_team(NewTeam(team=Team(name="x"))),
        lambda c: c.check_team_file(""),
        lambda c: c.act_in_team("x", Hold()),
        lambda c: c.clean_team("x", CleanTeam()),
        lambda c: c.session_marks(),
        lambda c: c.mark_session("x", MarkChange()),
        lambda c: c.worktrees(),
        lambda c: c.worktree("x"),
        lambda c: c.merge_worktree("x"),
        lambda c: c.rebase_worktree("x"),
        lambda c: c.discard_worktree("x"),
        lambda c: c.schedules(),
        lambda c: c.schedule("x"),
        lambda c: c.schedule_times(cron="@daily"),
        lambda c: c.add_schedule(NewSchedule()),
        lambda c: c.change_schedule("x", ScheduleChange()),
        lambda c: c.remove_schedule("x"),
        lambda c: c.run_schedule("x"),
        lambda c: c.rules(),
        lambda c: c.rule("x"),
        lambda c: c.add_rule(NewRule(match="exact", pattern="x")),
        lambda c: c.preview_rule(NewRule(match="exact", pattern="x")),
        lambda c: c.revoke_rule("x"),
        lambda c: c.rule_choices("x"),
        lambda c: c.phone(),
        lambda c: c.phone_ways(),
        lambda c: c.set_up_phone(PhoneSetup(way="lan")),
        lambda c: c.turn_off_phone(),
    ]
    async with Spy(hub.url, "t") as spy:
        for call in calls:
            with suppress(UsageError):
                await call(spy)
    assert known <= asked, f"without a method: {sorted(known - asked)}"
    assert asked <= known, f"not a route: {sorted(asked - known)}"
