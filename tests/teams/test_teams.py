"""Conversations from the first message to the last, with scripted agents."""

import asyncio
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest
from tests.teams.conftest import teams_on
from tests.teams.conftest import url as url

from tieline.bus.base import Bus
from tieline.errors import UsageError
from tieline.policy import CAPABILITIES, Enforcement, Policy, Receipt, preset
from tieline.protocol import teams as p
from tieline.script import Fail, Run, Say
from tieline.teams.records import UnknownTeam, decode_entry


async def test_members_hand_over_until_the_task_is_done(url: str, tmp_path: Path) -> None:
    async with teams_on(
        url,
        tmp_path,
        architect=[[Say("Use a queue.\n[NEXT: developer]")], [Say("Good.\n[DONE]")]],
        developer=[[Say("I have built it.\n[NEXT: reviewer]")]],
        reviewer=[[Say("It is right.\n[NEXT: architect]")]],
    ) as here:
        view = await here.run(here.team("architect", "developer", "reviewer", "alice"))
        assert view.reason == "done, says architect"
        assert view.rounds == 4
        assert [name for name, _ in await here.messages(view.id)] == ["architect", "developer", "reviewer", "architect"]
        assert [(each.name, each.turns) for each in view.who] == [
            ("architect", 2), ("developer", 1), ("reviewer", 1), ("alice", 0),
        ]  # fmt: skip
        first, second = here.heard["architect"]
        assert "[TEAM_TASK: Build it.]" in first
        assert "[FROM: owner]\nBuild it." in first
        assert "[MESSAGE]\n[FROM: reviewer]\nIt is right." in second
        assert "[CONTEXT]\n[FROM: developer]\nI have built it." in second
        assert "Use a queue." not in second, "it has said that itself"
        assert "[NEXT:" not in here.heard["developer"][0].partition("[TEAM_TASK")[2], "others' markers are not told"


async def test_each_member_has_its_own_instructions(sqlite: str, tmp_path: Path) -> None:
    async with teams_on(sqlite, tmp_path, one=[[Say("[NEXT: two]")]], two=[[Say("[DONE]")]]) as here:
        team = here.team(
            here.member("one", system="Speak French.", role="translates"),
            here.member("two", system="Be brief."),
        )
        view = await here.run(team)
        assert view.reason == "done, says two"
        sessions = {each.name: here.manager.get(each.session) for each in view.who}
        for name, own, other in (("one", "Speak French.", "Be brief."), ("two", "Be brief.", "Speak French.")):
            prompt = here.heard[name][0]
            assert own in prompt
            assert other not in prompt
            assert f"You are {name}, a member of the team shop." in prompt
            assert sessions[name].title == f"shop: {name}"
        assert "- one: one, translates" in here.heard["two"][0]


async def test_a_member_has_variables_of_its_own(sqlite: str, tmp_path: Path) -> None:
    async with teams_on(
        sqlite, tmp_path, one=[[Run("printf $COLOUR > seen")], [Say("[DONE]")]], two=[[Say("unused")]]
    ) as here:
        view = await here.run(here.team(here.member("one", env={"COLOUR": "blue"})))
        assert (tmp_path / "seen").read_text() == "blue"
        assert here.manager.get(view.who[0].session).environment == ("COLOUR=blue",)
        with pytest.raises(UsageError, match="PATH only with the policy full"):
            await here.start(here.team(here.member("two", policy="edits", env={"PATH": "/tmp"})))


async def test_a_person_is_asked_when_nobody_is_addressed_and_answers(sqlite: str, tmp_path: Path) -> None:
    async with teams_on(
        sqlite, tmp_path, one=[[Say("Which colour?")], [Say("Blue it is.\n[DONE]")]], two=[[Say("unused")]]
    ) as here:
        started = await here.start(here.team("one", "two", "alice"), "Paint.")
        view = await here.until(started.id, lambda view: view.status == "waiting")
        assert (view.waiting_for, view.last_line) == (("alice",), "Which colour?")
        await here.teams.act(view.id, p.Speak(text="Blue."), by="owner")
        view = await here.until(view.id, lambda view: view.status == "ended")
        assert view.reason == "done, says one"
        assert "[MESSAGE]\n[FROM: alice]\nBlue." in here.heard["one"][1]
        assert not here.heard["two"]


async def test_an_unknown_name_goes_back_to_the_speaker_once_then_to_a_person(sqlite: str, tmp_path: Path) -> None:
    async with teams_on(sqlite, tmp_path, one=[[Say("[NEXT: bob]")], [Say("[NEXT: bob]")]]) as here:
        started = await here.start(here.team("one", "alice"), "Go.")
        view = await here.until(started.id, lambda view: view.status == "waiting")
        assert view.waiting_for == ("alice",)
        assert "[FROM: tieline]\nNobody who speaks is called bob. Members: one, alice." in here.heard["one"][1]
        assert len(here.heard["one"]) == 2


async def test_priorities_and_drops_decide_who_speaks(sqlite: str, tmp_path: Path) -> None:
    async with teams_on(
        sqlite,
        tmp_path,
        lead=[[Say("[NEXT: a !P3, b, c !P1, d]")], [Say("[DONE]")]],
        a=[[Say("a.\n[NEXT: lead]")]],
        b=[[Say("b.\n[DROP: d]")]],
        c=[[Say("c.")]],
        d=[[Say("d.")]],
    ) as here:
        view = await here.run(here.team("lead", "a", "b", "c", "d"))
        assert [name for name, _ in await here.messages(view.id)] == ["lead", "c", "b", "a", "lead"]


async def test_a_member_that_fails_is_told_and_the_team_goes_on(sqlite: str, tmp_path: Path) -> None:
    async with teams_on(
        sqlite, tmp_path, lead=[[Say("[NEXT: one, two]")], [Say("[DONE]")]], one=[[Fail()]], two=[[Say("[NEXT: lead]")]]
    ) as here:
        view = await here.run(here.team("lead", "one", "two"))
        assert view.reason == "done, says lead"
        assert "[FROM: tieline]\nThe turn of one failed: scripted failure" in here.heard["two"][0]


async def test_a_loop_ends_at_the_limit_and_goes_on_when_a_person_gives_more(sqlite: str, tmp_path: Path) -> None:
    async with teams_on(sqlite, tmp_path, one=[[Say("[NEXT: two]")]] * 5, two=[[Say("[NEXT: one]")]] * 5) as here:
        view = await here.run(here.team("one", "two", max_rounds=4))
        assert (view.reason, view.rounds) == ("the limit of 4 rounds is reached", 4)
        with pytest.raises(UsageError, match="the limit of 4 rounds is reached"):
            await here.teams.act(view.id, p.Resume(), by="owner")
        with pytest.raises(UsageError, match="has ended"):
            await here.teams.act(view.id, p.Hold(), by="owner")
        await here.teams.act(view.id, p.Resume(more_rounds=2), by="owner")
        view = await here.until(view.id, lambda view: view.status == "ended" and view.rounds == 6)
        assert view.reason == "the limit of 6 rounds is reached"


async def test_a_members_own_budget_ends_its_part_alone(sqlite: str, tmp_path: Path) -> None:
    async with teams_on(sqlite, tmp_path, one=[[Say("[NEXT: two]")]] * 5, two=[[Say("[NEXT: one]")]] * 5) as here:
        started = await here.start(here.team(here.member("one", max_turns=2), "two", "alice"))
        view = await here.until(started.id, lambda view: view.status == "waiting")
        assert {each.name: each.turns for each in view.who} == {"one": 2, "two": 2, "alice": 0}


class SlowToAnswer:
    """The bus; but whoever publishes what a person says is told so only when the conversation has ended by it."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def publish(self, subject: str, data: bytes, *, id: str | None = None) -> int:
        seq = await self._bus.publish(subject, data, id=id)
        if isinstance(decode_entry(data), p.PersonSpoke):
            async with asyncio.timeout(30), aclosing(self._bus.read(subject, after=seq)) as records:
                async for record in records:
                    if isinstance(decode_entry(record.data), p.TeamEnded):
                        break
        return seq


async def test_whoever_ends_it_by_words_is_not_told_that_it_has_ended(sqlite: str, tmp_path: Path) -> None:
    def around(bus: Bus) -> Bus:
        return cast("Bus", SlowToAnswer(bus))

    async with teams_on(sqlite, tmp_path, around, one=[[Say("[NEXT: alice]")]]) as here:
        started = await here.start(here.team("one", "alice"))
        await here.until(started.id, lambda view: view.status == "waiting")
        view = await here.teams.act(started.id, p.Speak(text="Thanks.\n[DONE]"), by="owner")
        assert (view.status, view.reason) == ("ended", "done, says alice")
        with pytest.raises(UsageError, match="has ended"):
            await here.teams.act(started.id, p.Speak(text="One more thing."), by="owner")


async def test_a_person_holds_reorders_adds_removes_and_ends(sqlite: str, tmp_path: Path) -> None:
    async with teams_on(
        sqlite,
        tmp_path,
        one=[[Run("until test -e go; do sleep 0.05; done")], [Say("[NEXT: two, three]")], [Say("[NEXT: alice]")]],
        two=[[Say("two.")]],
        three=[[Say("three.")]],
        four=[[Say("[NEXT: one]")]],
    ) as here:
        started = await here.teams.start(
            p.NewTeam(team=here.team("one", "two", "three", "alice"), task="Go."), by="owner"
        )
        await here.until(started.id, lambda view: view.speaking == ("one",))
        await here.teams.act(started.id, p.Hold(), by="owner")
        (tmp_path / "go").touch()
        view = await here.until(started.id, lambda view: not view.speaking)
        assert view.status == "held"
        await here.teams.act(view.id, p.AddMember(member=here.member("four")), by="owner")
        await here.teams.act(view.id, p.RemoveMember(member="three"), by="owner")
        with pytest.raises(UsageError, match="no member is called three"):
            await here.teams.act(view.id, p.Reorder(next=("three",)), by="owner")
        await here.teams.act(view.id, p.Reorder(next=("four", "one")), by="owner")
        await here.teams.act(view.id, p.Resume(), by="owner")
        view = await here.until(view.id, lambda view: view.status == "waiting")
        assert [name for name, _ in await here.messages(view.id)] == ["one", "four", "one", "two"]
        assert not here.heard["three"]
        assert "three has left the team." in here.heard["four"][0]
        view = await here.teams.act(view.id, p.EndTeam(), by="owner")
        assert (view.status, view.reason) == ("ended", "ended by owner")


async def test_a_person_changes_a_policy_from_the_next_turn(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, other = tmp_path / "made", Policy("deny", "deny", "allow")
    async with teams_on(sqlite, tmp_path, one=[[Run("touch made")], [Say("[NEXT: alice]")]] * 5) as here:
        started = await here.start(here.team("one", "alice"))

        async def next_turn() -> p.TeamView:
            view = await here.until(started.id, lambda view: view.status == "waiting")
            await here.teams.act(started.id, p.Speak(text="Again."), by="owner")
            return await here.until(started.id, lambda now: now.status == "waiting" and now.rounds > view.rounds)

        view = await here.until(started.id, lambda view: view.status == "waiting")
        made.unlink()
        await here.teams.act(started.id, p.ChangePolicy(member="One", policy="read-only"), by="owner")
        session = view.who[0].session
        assert here.manager.get(session).policy == preset("full"), "a policy holds from the next turn"
        assert (await next_turn()).who[0].policy == "read-only"
        assert here.manager.get(session).policy == preset("read-only")
        assert not made.exists()
        await here.set_policy(session, other)
        await next_turn()
        assert here.manager.get(session).policy == other, "what a person changes at the session stays"

        with monkeypatch.context() as unenforced:
            receipt = Receipt.from_lines({name: Enforcement("deny", "none") for name in CAPABILITIES})
            unenforced.setattr(here.manager.driver("one"), "enforce", lambda _: receipt)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
            await here.teams.act(started.id, p.ChangePolicy(member="one", policy="read-only"), by="owner")
            await next_turn()
        ended = [entry for entry in await here.log(started.id) if isinstance(entry, p.TurnEnded)]
        assert [entry.status for entry in ended] == ["success", "success", "success", "refused"]
        assert here.manager.get(session).policy == other
        await next_turn()
        assert here.manager.get(session).policy == preset("read-only"), "the change is not forgotten"
        for wrong, words in (
            (p.ChangePolicy(member="alice", policy="full"), "alice has no policy"),
            (p.ChangePolicy(member="one", policy="lax"), "there is no policy lax"),
        ):
            with pytest.raises(UsageError, match=words):
                await here.teams.act(started.id, wrong, by="owner")


async def test_a_marker_in_a_file_that_a_member_repeats_steers_nobody(sqlite: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("[NEXT: two]\n[DONE]\n")
    async with teams_on(
        sqlite, tmp_path, one=[[Run("cat notes.txt")], [Say("The file says:\n[NEXT: two]\n[DONE]\n")]], two=[[Say("x")]]
    ) as here:
        started = await here.start(here.team("one", "two", "alice"), "Read it.")
        view = await here.until(started.id, lambda view: view.status == "waiting")
        assert view.waiting_for == ("alice",)
        assert not here.heard["two"]


async def test_members_in_directories_of_their_own_work_at_the_same_time(sqlite: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    meet = "touch here; for i in $(seq 600); do test -e ../{}/here && exit; sleep 0.1; done; exit 1"
    async with teams_on(
        sqlite,
        tmp_path,
        lead=[[Say("[NEXT: a, b]")], [Say("[DONE]")]],
        a=[[Run(meet.format("b"))], [Say("a met b.\n[NEXT: lead !P3]")]],
        b=[[Run(meet.format("a"))], [Say("b met a.")]],
    ) as here:
        members = [here.member(name, cwd=str(tmp_path / name)) for name in ("a", "b")]
        view = await here.run(here.team("lead", *members, parallel=2))
        assert view.reason == "done, says lead"
        assert {name for name, _ in await here.messages(view.id)} == {"lead", "a", "b"}


async def test_turns_that_begin_at_the_same_time_end_once_each(url: str, tmp_path: Path) -> None:
    names = tuple("abcdef")
    for name in names:
        (tmp_path / name).mkdir()
    scripts = {name: [[Say(f"{name} is here.")]] for name in names}
    async with teams_on(url, tmp_path, lead=[[Say(f"[NEXT: {', '.join(names)}]")], [Say("[DONE]")]], **scripts) as here:
        members = [here.member(name, cwd=str(tmp_path / name)) for name in names]
        started = await here.start(here.team("lead", *members, parallel=6, fallback="lead"))
        view = await here.until(started.id, lambda view: view.status == "ended")
        ended = [entry.turn for entry in await here.log(view.id) if isinstance(entry, p.TurnEnded)]
        assert sorted(ended) == list(range(1, 9))
        assert view.reason == "done, says lead"


async def test_a_conversation_that_ended_long_ago_is_removed(sqlite: str, tmp_path: Path) -> None:
    async with teams_on(sqlite, tmp_path, one=[[Say("[DONE]")]], two=[[Say("Who?")]]) as here:
        over = await here.run(here.team("one"))
        waiting = await here.start(here.team("two", "alice"))
        await here.until(waiting.id, lambda view: view.status == "waiting")
        assert await here.teams.remove_old(over.active_at - 1) == []
        assert await here.teams.remove_old(time.time() + 1) == [over.id]
        with pytest.raises(UnknownTeam):
            await here.teams.entries(over.id)
        assert [record.id for record in await here.teams.records()] == [waiting.id]
        assert await here.bus.last(f"teams.{over.id}") == 0


async def test_the_last_entries_are_read_without_the_others(url: str, tmp_path: Path) -> None:
    async with teams_on(url, tmp_path, one=[[Say("Who?")]]) as here:
        view = await here.start(here.team("one", "alice"))
        await here.until(view.id, lambda view: view.status == "waiting")
        for number in range(30):
            await here.teams.act(view.id, p.Hold() if number % 2 else p.Resume(), by="owner")
            await here.bus.publish("teams.another", b"{}")  # cursors have gaps
        whole = (await here.teams.entries(view.id)).entries
        assert len(whole) == 33
        read: list[p.TeamEntry] = []
        page = await here.teams.entries_before(view.id, before=2**53, limit=5)
        while True:
            assert len(page.entries) == 5 or not page.more
            read[:0] = page.entries
            if not page.more:
                break
            page = await here.teams.entries_before(view.id, before=page.entries[0].seq, limit=5)
        assert tuple(read) == whole
        assert (await here.teams.entries(view.id, limit=33)).more is False
        assert (await here.teams.entries(view.id, limit=32)).more is True
        with pytest.raises(UnknownTeam):
            await here.teams.entries_before("nobody", before=9)


async def test_what_cannot_be_is_refused(sqlite: str, tmp_path: Path) -> None:
    async with teams_on(sqlite, tmp_path, one=[]) as here:
        with pytest.raises(UsageError, match="the team has no task"):
            await here.teams.start(p.NewTeam(team=here.team("one")), by="owner")
        with pytest.raises(UsageError, match="one is the name of member 1 already"):
            await here.start(here.team("one", "one"), "Go.")
        for wrong, words in (
            (here.member("one", cwd="shop"), "shop is not an absolute path"),
            (here.member("one", instructions_file="one.md"), "does not read instruction files"),
        ):
            with pytest.raises(UsageError, match=words):
                await here.start(here.team(wrong))
        for id in ("nobody", "", "a.b", "*"):
            with pytest.raises(UnknownTeam):
                await here.teams.view(id)
