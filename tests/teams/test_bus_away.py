"""A bus that fails for a while holds no team up, and nothing that a turn did is written twice."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.teams.conftest import teams_on

from tieline.bus import Bus
from tieline.errors import BusError
from tieline.protocol import teams as p
from tieline.script import Say
from tieline.teams import coordinator, teams
from tieline.teams.records import decode_entry


class FaultyBus:
    """Of each step of a conversation, the first try fails, and of the second one only the answer is lost."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.tries: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def publish(self, subject: str, data: bytes, **options: Any) -> int:
        entry = decode_entry(data)
        if not isinstance(entry, p.TurnBegan | p.TurnEnded | p.TeamEnded):
            return await self._bus.publish(subject, data, **options)
        step = f"{type(entry).__name__} {getattr(entry, 'turn', '')}"
        self.tries[step] += 1
        if self.tries[step] == 1:
            raise BusError("the bus is away")
        seq = await self._bus.publish(subject, data, **options)
        if self.tries[step] == 2 and not isinstance(entry, p.TeamEnded):
            raise BusError("the bus went away")
        return seq


async def test_every_step_of_a_turn_is_tried_until_it_is_written_once(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (coordinator, teams):
        monkeypatch.setattr(module, "RETRY_S", 0.01)
    buses: list[FaultyBus] = []

    def around(bus: Bus) -> Bus:
        buses.append(FaultyBus(bus))
        return buses[-1]  # type: ignore[return-value]

    async with teams_on(
        sqlite, tmp_path, around, one=[[Say("[NEXT: two]")], [Say("[DONE]")]], two=[[Say("[NEXT: one]")]]
    ) as here:
        view = await here.run(here.team("one", "two"))
        assert (view.reason, view.rounds) == ("done, says one", 3)
        entries = await here.log(view.id)
        assert [type(entry).__name__ for entry in entries] == ["Started", *["TurnBegan", "TurnEnded"] * 3, "TeamEnded"]
        assert {name: len(heard) for name, heard in here.heard.items()} == {"one": 2, "two": 1}
        (faulty,) = buses
        steps = {f"{kind} {turn}" for kind in ("TurnBegan", "TurnEnded") for turn in (1, 2, 3)}
        assert faulty.tries.keys() == steps | {"TeamEnded "}
        assert min(faulty.tries.values()) >= 2, "each failed once"
