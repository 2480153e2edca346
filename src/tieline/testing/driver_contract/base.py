"""What the parts of the suite share: the rig, the directory, the waits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ...api import open_session
from ...errors import TielineError
from ...events import (
    Ask,
    Done,
    Event,
    Init,
)
from ...policy import Policy
from ...sessions.session import Session
from ..rig import Rig
from ..stream_checks import collect, of
from ..wait_for import at_work_in, eventually

FULL = Policy("allow", "allow", "allow")
SEEN = "seen"
"""The property of a test's report that says which feature it saw: agent, version, feature."""


class DriverContractBase:
    @pytest.fixture(autouse=True)
    def _report_what_is_seen(self, record_property: Callable[[str, object], None]) -> None:
        self._record_property = record_property

    @pytest.fixture
    async def rig(self, tmp_path: Path) -> Rig:
        raise NotImplementedError("a subclass gives its rig")

    @pytest.fixture
    def cwd(self, tmp_path: Path) -> Path:
        """The session's directory."""
        cwd = tmp_path / "place"
        cwd.mkdir()
        return cwd

    def session(self, rig: Rig, cwd: Path, **changes: Any) -> Session:
        options: dict[str, Any] = {"policy": FULL, **rig.options, **changes}
        return open_session(rig.driver, cwd=cwd, **options)

    def able(self, rig: Rig, test: str) -> None:
        if test in rig.limits:
            pytest.skip(f"{rig.driver.name}: declared as not scriptable: {test}")

    def saw(self, rig: Rig, feature: str, events: list[Event]) -> None:
        """The agent did it, in a session that began with these events. It counts if the test passes."""
        version = next((event.version for event in of(events, Init)), "")
        self._record_property(SEEN, [rig.driver.name, version, feature])

    async def attempt(self, rig: Rig, cwd: Path, **changes: Any) -> tuple[list[Event], Exception | None]:
        """Open and take one turn, where either may fail."""
        try:
            async with self.session(rig, cwd, **changes) as session:
                return await collect(session.turn("hello")), None
        except TielineError as error:  # any other is a fault of the driver's
            return [Done("error")], error

    async def nothing_left(self, cwd: Path) -> None:
        """No process works in the session's directory any more."""
        await eventually(lambda: not at_work_in(cwd), f"processes are left: {at_work_in(cwd)}")


def yes(ask: Ask) -> bool:
    return True


__all__ = ["FULL", "PNG", "PNG_BASE64", "SEEN", "DriverContractBase", "at_work_in", "eventually", "yes"]

PNG_BASE64 = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def _png() -> bytes:
    import base64

    return base64.b64decode(PNG_BASE64)


PNG = _png()
