"""What people do with schedules, and what is refused."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.schedules.conftest import HOUR, MONDAY, SetClock

from tieline.bus import open_bus
from tieline.drivers.base import Attachment
from tieline.errors import UsageError
from tieline.policy import Policy
from tieline.protocol.schedules import NewSchedule, ScheduleChange, ScheduleView
from tieline.schedules import manager as manager_module
from tieline.schedules.due_times import last_due, name_from
from tieline.schedules.manager import ScheduleManager
from tieline.schedules.records import ScheduleRecord, UnknownSchedule


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncGenerator[ScheduleManager, None]:
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus:
        yield ScheduleManager(bus, clock=SetClock())


async def add(manager: ScheduleManager, **more: object) -> ScheduleView:
    key = str(more.pop("key", ""))
    whole: dict[str, object] = {"agent": "bot", "cwd": "/", "prompt": "Triage the new issues!", "cron": "@daily"} | more
    return await manager.add(NewSchedule(**whole), policy=Policy(), node="local", by="owner", key=key)  # type: ignore[arg-type]


async def test_the_same_request_again_is_the_same_schedule(manager: ScheduleManager) -> None:
    schedule = await add(manager, key="k")
    same = await asyncio.gather(*[add(manager, key="k") for _ in range(5)], add(manager, id="k"))
    assert {each.id for each in same} == {schedule.id}
    assert schedule.name == "triage-the-new-issues" and schedule.next[0] == MONDAY + 16 * HOUR


async def test_names(manager: ScheduleManager) -> None:
    names = [(await add(manager)).name for _ in range(3)]
    assert names == ["triage-the-new-issues", "triage-the-new-issues-2", "triage-the-new-issues-3"]
    with pytest.raises(UsageError, match="already") as error:
        await add(manager, name=names[0])
    assert error.value.field == "name"
    named = await add(manager, name="other")
    with pytest.raises(UsageError, match="already"):
        await manager.change(named.id, ScheduleChange(name=names[1]), policy=None)
    assert [each.name for each in await manager.views()] == sorted([*names, "other"])
    assert name_from("¿Qué?") == "qu" and name_from("日本") == "schedule"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"cron": ""}, "cron"),
        ({"cron": "@daily", "once": "2027-01-01 00:00"}, "cron"),
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "", "once": "2020-01-01 00:00"}, "once"),
        ({"cron": "", "once": "soon"}, "once"),
        ({"zone": "Nowhere/Else"}, "zone"),
        ({"name": "Not So"}, "name"),
        ({"name": "a.b"}, "name"),
        ({"prompt": " "}, "prompt"),
        ({"prompt": "x" * 200_001}, "prompt"),
        ({"timeout_s": 0.0}, "timeout_s"),
        ({"attachments": (Attachment(data=b"x" * 600_000),)}, "attachments"),
        ({"attachments": (Attachment(path="/etc/passwd"),)}, "attachments[0].path"),
    ],
)
async def test_what_is_wrong_is_said(manager: ScheduleManager, wrong: dict[str, object], field: str) -> None:
    with pytest.raises(UsageError) as error:
        await add(manager, **wrong)
    assert error.value.field == field
    assert await manager.views() == []


async def test_changes(manager: ScheduleManager) -> None:
    made = await add(manager, model="small", attachments=(Attachment(data=b"x", name="notes.md"),))
    assert made.attachments == ("notes.md",)
    change = ScheduleChange(cron="0 9 * * *", zone="Europe/Berlin", overlap="queue", prompt="other")
    changed = await manager.change(made.id, change, policy=Policy(shell="deny"))
    assert (changed.cron, changed.zone, changed.overlap, changed.prompt) == (
        "0 9 * * *",
        "Europe/Berlin",
        "queue",
        "other",
    )
    assert (changed.model, changed.policy.shell, changed.missed) == ("small", "deny", "once")
    once = await manager.change(made.id, ScheduleChange(once="2027-01-01 00:00"), policy=None)
    assert (once.cron, len(once.next)) == ("", 1)
    back = await manager.change(made.id, ScheduleChange(cron="@hourly"), policy=None)
    assert (back.once, back.cron) == ("", "@hourly")
    branch = await manager.change(made.id, ScheduleChange(branch="fixes"), policy=None)
    assert (branch.worktree, branch.branch) == (False, "fixes")
    none = await manager.change(made.id, ScheduleChange(worktree=False), policy=None)
    assert (none.worktree, none.branch) == (False, "")
    for wrong in (
        ScheduleChange(cron="x"),
        ScheduleChange(branch="not..one"),
        ScheduleChange(worktree=False, branch="fixes"),
        ScheduleChange(cron="@daily", once="2027-01-01 00:00"),
        ScheduleChange(name=""),
    ):
        with pytest.raises(UsageError):
            await manager.change(made.id, wrong, policy=None)
    assert (await manager.view(made.id)).cron == "@hourly"


async def test_changes_at_once_are_all_made(manager: ScheduleManager) -> None:
    made = await add(manager)
    changes = [
        ScheduleChange(model="m"),
        ScheduleChange(worktree=True),
        ScheduleChange(branch="fixes"),
        ScheduleChange(effort="e"),
        ScheduleChange(prompt="p"),
        ScheduleChange(name="n"),
    ]
    await asyncio.gather(*[manager.change(made.id, change, policy=None) for change in changes])
    view = await manager.view(made.id)
    assert (view.model, view.effort, view.prompt, view.name) == ("m", "e", "p", "n")
    assert (view.worktree, view.branch) == (True, "fixes")


@pytest.mark.parametrize("id", ["nobody", "", "a b", "*", ">", "a.b", "../x"])
async def test_one_that_is_not_there(manager: ScheduleManager, id: str) -> None:
    with pytest.raises(UnknownSchedule):
        await manager.view(id)
    with pytest.raises(UnknownSchedule):
        await manager.run_now(id, by="owner", key="k")
    with pytest.raises(UnknownSchedule):
        await manager.remove(id)


async def test_there_are_so_many_at_most(manager: ScheduleManager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager_module, "MAX_SCHEDULES", 2)
    for _ in range(2):
        await add(manager)
    with pytest.raises(UsageError, match="2 schedules"):
        await add(manager)


def test_the_last_time_that_is_due() -> None:
    """However long ago times were looked at, and however many there were since."""
    for cron, since, expected in (
        ("* * * * *", 3 * 365 * 24 * HOUR, MONDAY),
        ("30 * * * *", 3 * 365 * 24 * HOUR, MONDAY - 1800),
        ("0 9 1 1 *", 3 * 365 * 24 * HOUR, MONDAY - (319 * 24 - 1) * HOUR),
        ("0 0 29 2 *", 8 * 365 * 24 * HOUR, MONDAY - (991 * 24 + 8) * HOUR),
        ("0 9 * * *", HOUR, 0.0),
    ):
        record = ScheduleRecord(id="x", cron=cron, handled_at=MONDAY - since)
        assert last_due(record, MONDAY) == expected, cron
