"""The owner dies by SIGKILL while the real Claude Code or Codex works; the conversation goes on by resume."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.sessions.owner import Setting
from tests.sessions.test_crash import FULL, kill_when, next_owner, outcome, turns_of

from tieline.events import Text
from tieline.policy import Policy
from tieline.script import Run, Say, Stall, Step
from tieline.testing.rigs.claude_code import ClaudeCodeRig
from tieline.testing.rigs.codex import codex_rig
from tieline.testing.waiting import at_work_in, eventually

pytestmark = pytest.mark.real

CODEX = Path(__file__).parents[1] / "agents/node_modules/.bin/codex"


@pytest.fixture(params=["claude-code", "codex"])
async def agent(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[tuple[Any, dict[str, Any]], None]:
    home = tmp_path / "home"
    entry: dict[str, Any] = {"type": request.param}
    rig: AbstractAsyncContextManager[Any] = ClaudeCodeRig(home)
    if request.param == "codex":
        entry["command"] = [str(CODEX)]
        rig = codex_rig(home, CODEX)
    async with rig as opened:
        yield opened, entry


@pytest.mark.parametrize("moment", ["text_delta", "tool_use", "ask"])
async def test_the_conversation_goes_on(agent: tuple[Any, dict[str, Any]], tmp_path: Path, moment: str) -> None:
    rig, entry = agent
    place = tmp_path / "place"
    place.mkdir()
    doing: dict[str, list[Step]] = {
        "text_delta": [Say("a long story "), Stall()],
        "tool_use": [Run("touch started; sleep 300")],
        "ask": [Run("touch asked")],
    }
    rig.play([Say("I will remember albatross.")], doing[moment])
    setting = Setting(
        bus=f"sqlite://{tmp_path}/bus.db",
        cwd=str(place),
        agent=entry,
        environ=dict(rig.options["env"]),
        policy=Policy("allow", "ask", "allow") if moment == "ask" else FULL,
        prompts=(("p1", "remember the word albatross"), ("p2", "go on"), ("p3", "which word was it")),
    )
    (tmp_path / "setting.json").write_bytes(msgspec.json.encode(setting))
    await kill_when(tmp_path, "accepted p3", "done", moment)
    await eventually(lambda: not at_work_in(place), f"left over: {at_work_in(place)}")
    rig.model.reset()
    rig.play([Say("You said albatross.")])
    async with next_owner(setting) as router:
        assert await outcome(router, "p2") == "indeterminate"
        assert await outcome(router, "p3") == "done"
        turns = await turns_of(router)
        assert len(turns) == 3
        assert [event.text for event in turns[2] if isinstance(event, Text)][-1].strip() == "You said albatross."
        assert not (place / "asked").exists()
    assert "remember the word albatross" in rig.heard(), "the resumed agent knows what was said before"
    await eventually(lambda: not at_work_in(place), f"left over: {at_work_in(place)}")
