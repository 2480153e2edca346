"""Messages that the relay sends by itself at their times."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.relay.conftest import QUICK

from tieline import config as configuration
from tieline.bus import open_bus
from tieline.config import Config, ScheduleConfig
from tieline.envelopes import Envelope
from tieline.errors import UsageError
from tieline.relay import Relay
from tieline.relay.scheduled_messages import next_run
from tieline.testing.wait_for import eventually


def every(seconds: float = 3600.0, id: str = "nightly", to: str = "relay.user.me") -> ScheduleConfig:
    return ScheduleConfig(id=id, to=to, text="run the tests", every_s=seconds, answer_to="relay.user.boss")


def at(moment: str) -> float:
    return time.mktime(time.strptime(moment, "%Y-%m-%d %H:%M"))


def test_times() -> None:
    assert next_run(every(60), 61.0) == 120.0
    assert next_run(every(60), 120.0) == 180.0
    daily = ScheduleConfig(id="d", to="relay.user.me", text="x", at="07:30")
    assert next_run(daily, at("2026-03-02 07:00")) == at("2026-03-02 07:30")
    assert next_run(daily, at("2026-03-02 07:30")) == at("2026-03-03 07:30")
    workdays = ScheduleConfig(id="d", to="relay.user.me", text="x", at="07:30", days=("mon", "fri"))
    assert next_run(workdays, at("2026-03-02 08:00")) == at("2026-03-06 07:30"), "2026-03-02 is a Monday"


async def sent(tmp_path: Path, *entries: ScheduleConfig, expect: int) -> list[Envelope]:
    """What a relay, started now, has put into the inbox of relay.user.me."""
    async with (
        open_bus(f"sqlite://{tmp_path}/bus.db") as bus,
        Relay(bus, Config(schedules=entries), settings=QUICK) as relay,
    ):
        inbox = relay.inbox("relay.user.me")
        await eventually(lambda: len(inbox.unread()) >= expect, "nothing was sent", timeout=30)
        envelopes = [(await inbox.read(receipt.id)).envelope for receipt in inbox.unread()]
        return [envelope for envelope in envelopes if envelope is not None]


async def test_a_message_is_sent_at_its_time_and_says_that_it_is_the_systems(tmp_path: Path) -> None:
    first, *_ = await sent(tmp_path, every(1.0), expect=2)
    assert (first.sender, first.payload.text) == ("relay.system.schedule.nightly", "run the tests")
    assert first.reply_to == "relay.user.boss"


def more_than(relay: Relay, before: int) -> Callable[[], bool]:
    return lambda: len(relay.inbox("relay.user.me").unread()) > before


@pytest.mark.slow
async def test_once_over_a_restart(tmp_path: Path) -> None:
    """The time that just passed is made up for, and has one message however often a relay starts."""
    just = ScheduleConfig(id="just", to="relay.user.other", text="x", at=time.strftime("%H:%M", time.localtime()))
    for _ in range(3):
        async with (
            open_bus(f"sqlite://{tmp_path}/bus.db") as bus,
            Relay(bus, Config(schedules=(just, every(1.0))), settings=QUICK) as relay,
        ):
            await eventually(more_than(relay, len(relay.inbox("relay.user.me").unread())), "nothing", timeout=30)
            assert [receipt.sender for receipt in relay.inbox("relay.user.other").unread()] == [
                "relay.system.schedule.just"
            ]


async def test_one_that_cannot_be_sent_stops_no_other(tmp_path: Path) -> None:
    failures: list[tuple[str, str]] = []
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus:
        entries = (every(1.0, id="lost", to="relay.nobody.x"), every(1.0))
        relay = Relay(bus, Config(schedules=entries), settings=QUICK)
        relay.on_schedule_failed = lambda id, why: failures.append((id, why))
        async with relay:
            await eventually(
                lambda: bool(failures) and bool(relay.inbox("relay.user.me").unread()), "nothing", timeout=30
            )
    assert failures[0][0] == "lost" and "no endpoint answers for relay.nobody.x" in failures[0][1]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("", "either every_s or at"),
        ("every_s = 5\nat = '07:30'", "either every_s or at"),
        ("at = '7:30'", "a time such as 07:30"),
        ("every_s = 0.1", "at least 1"),
        ("every_s = 60\ndays = ['mon']", "days need a time"),
        ("at = '07:30'\ndays = ['someday']", "someday"),
    ],
)
def test_what_is_wrong_is_said(lines: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "tieline.toml"
    file.write_text(f"[[schedules]]\nid = 'a'\nto = 'relay.user.me'\ntext = 'x'\n{lines}\n")
    with pytest.raises(UsageError, match=problem):
        configuration.load(environ={"TIELINE_CONFIG": str(file)})
