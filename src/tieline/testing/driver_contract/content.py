"""What a turn says and does."""

from pathlib import Path

import pytest

from ...events import (
    Ask,
    Command,
    Edit,
    Init,
    Text,
    TextDelta,
    Thinking,
    ToolResult,
    ToolUse,
)
from ...script import Run, Say, Think, Write
from ..rig import Rig
from ..stream_checks import collect, done, of, the
from .base import FULL, DriverContractBase


class ContentContract(DriverContractBase):
    async def test_text(self, rig: Rig, cwd: Path) -> None:
        rig.play([Say("Hello there, this is the answer.", chunks=5)])
        async with self.session(rig, cwd) as session:
            seen = await collect(session.turn("say hello"))
            assert done(seen).status == "success"
            assert done(seen).text.strip() == "Hello there, this is the answer."
            assert "".join(text.text for text in of(seen, Text)).strip() == "Hello there, this is the answer."
            if rig.driver.features.deltas:
                assert of(seen, TextDelta)
                self.saw(rig, "deltas", seen)
            init = the(seen, Init)
            assert init.agent == rig.driver.name
            assert init.receipt == session.receipt == rig.driver.enforce(FULL)

    async def test_several_turns(self, rig: Rig, cwd: Path) -> None:
        rig.play([Say("first answer")], [Say("second answer")])
        async with self.session(rig, cwd) as session:
            first = await collect(session.turn("one"))
            second = await collect(session.turn("two"))
            assert done(first).text.strip() == "first answer"
            assert done(second).text.strip() == "second answer"
            assert not of(second, Init), "init comes once"

    async def test_thinking(self, rig: Rig, cwd: Path) -> None:
        self.able(rig, "thinking")
        if not rig.driver.features.thinking:
            pytest.skip(f"{rig.driver.name} shows no thinking")
        rig.play([Think("Let me consider the matter."), Say("Considered.")])
        async with self.session(rig, cwd) as session:
            seen = await collect(session.turn("think"))
            assert "consider the matter" in "".join(item.text for item in of(seen, Thinking))
            assert done(seen).text.strip() == "Considered."
            self.saw(rig, "thinking", seen)

    async def test_write_and_result(self, rig: Rig, cwd: Path) -> None:
        self.able(rig, "tools")
        target = cwd / "made.txt"
        rig.play([Write(str(target), "written by the agent\n")], [Say("Written.")])
        async with self.session(rig, cwd) as session:
            seen = await collect(session.turn("write it"))
        call = next(use for use in of(seen, ToolUse) if isinstance(use.action, Edit))
        assert isinstance(call.action, Edit)
        assert any(path.endswith("made.txt") for path in call.action.paths)
        result = next(result for result in of(seen, ToolResult) if result.id == call.id)
        assert result.status == "ok"
        assert target.read_text() == "written by the agent\n"
        assert not of(seen, Ask), "the policy allows it: nobody is asked"

    async def test_command_and_result(self, rig: Rig, cwd: Path) -> None:
        self.able(rig, "tools")
        rig.play([Run("echo out-of-the-command")], [Say("Ran.")])
        async with self.session(rig, cwd) as session:
            seen = await collect(session.turn("run it"))
        call = next(use for use in of(seen, ToolUse) if isinstance(use.action, Command))
        assert isinstance(call.action, Command)
        assert "echo out-of-the-command" in call.action.command
        result = next(result for result in of(seen, ToolResult) if result.id == call.id)
        assert result.status == "ok"
        assert "out-of-the-command" in result.output
