"""Turns that a person has seen here are marked as read; others are not."""

from typing import Any

import pytest

from tieline.client import read_marks
from tieline.client.client import Client
from tieline.client.read_marks import ReadTurns
from tieline.errors import UsageError
from tieline.protocol.request_bodies import MarkChange
from tieline.protocol.stream_frames import MarkFrame, Ready, SessionFrame
from tieline.protocol.views import SessionMark, Snapshot
from tieline.sessions.records import SessionRecord


class MarkingClient(Client):
    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1", "")
        self.marked: list[int | None] = []
        self.refuses = False

    async def mark_session(self, id: str, change: MarkChange) -> SessionMark:
        if self.refuses:
            raise UsageError("no such session")
        self.marked.append(change.seen_turns)
        return SessionMark(id=id, seen_turns=change.seen_turns or 0)


def record(turns: int, id: str = "s") -> SessionRecord:
    return SessionRecord(id=id, agent="a", cwd="/", turns=turns)


def ready(turns: int, seen: int) -> Ready:
    marks = (SessionMark(id="s", seen_turns=seen),)
    snapshot = Snapshot(sessions=(record(9, "other"), record(turns)), marks=marks)
    return Ready(state="ok", epoch="e", cursor=1, snapshot=snapshot)


async def test_all_that_was_shown_is_marked_once() -> None:
    client = MarkingClient()
    read = ReadTurns(client, "s")
    frames: tuple[Any, ...] = (ready(3, 1), SessionFrame(session=record(3)), SessionFrame(session=record(7, "other")))
    for frame in (*frames, SessionFrame(session=record(4))):
        read.on_frame(frame)
        await read.mark_all()
    assert client.marked == [3, 4]


@pytest.mark.parametrize(("seen", "marked"), [(3, [4]), (2, [])], ids=["the others were read", "one was not"])
async def test_a_turn_is_marked_when_it_is_counted(seen: int, marked: list[int]) -> None:
    client = MarkingClient()
    read = ReadTurns(client, "s")
    read.on_frame(ready(3, seen))
    read.turn_started()
    assert not read.counted
    read.on_frame(SessionFrame(session=record(4)))
    assert read.counted
    await read.mark_turn()
    assert client.marked == marked


async def test_what_another_device_has_read_meanwhile_needs_no_mark() -> None:
    client = MarkingClient()
    read = ReadTurns(client, "s")
    read.on_frame(ready(1, 0))
    read.on_frame(MarkFrame(mark=SessionMark(id="s", seen_turns=1)))
    await read.mark_all()
    assert client.marked == []


async def test_nobody_waits_for_ever_and_a_refusal_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_marks, "COUNTED_S", 0.01)
    client = MarkingClient()
    read = ReadTurns(client, "s")
    await read.mark_turn()  # no turn has begun
    read.on_frame(ready(0, 0))
    read.turn_started()
    await read.mark_turn()  # it is never counted
    assert client.marked == []
    client.refuses = True
    read.on_frame(SessionFrame(session=record(1)))
    await read.mark_turn()
