"""The scripted driver plays the script itself."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...drivers.scripted import Scripted
from ...script import Reply
from ..rig import scratch_env


class ScriptedRig:
    limits = frozenset({"killed", "model_error_that_stays"})  # it has no process, and no model that is tried again

    def __init__(self, home: Path) -> None:
        self._replies: list[Reply] = []
        self._inputs: list[str] = []
        self._stall = asyncio.Event()
        self.driver = Scripted(self._replies, on_model_input=self._inputs.append, on_stall=self._stall.set)
        self.options: Mapping[str, Any] = {"env": scratch_env(home, path="/usr/bin:/bin")}

    def play(self, *replies: Reply) -> None:
        self._replies.extend(replies)

    def heard(self) -> str:
        return "\n".join(self._inputs)

    async def stalled(self) -> None:
        await self._stall.wait()
        self._stall.clear()
