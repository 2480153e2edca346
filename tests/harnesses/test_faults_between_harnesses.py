"""What fails between real harnesses in real terminals: the hub, the daemon of Codex, a terminal with unread mail.

Nothing is lost, nothing comes twice, every member stays who it was, and receipts and states say what happened.
"""

from pathlib import Path

import pytest
from tests.harnesses.desk import desk, tool, until_exists

from tieline.script import Say

pytestmark = pytest.mark.real


async def test_a_hub_that_is_killed_in_the_middle_of_an_exchange_loses_and_repeats_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path, "claude-code", "codex") as at:
        claude, codex = await at.member("claude-code"), await at.member("codex")
        at.homes["codex"].rig.play([until_exists("go")])
        at.homes["claude-code"].rig.play(
            [tool("claude-code", "send_message", to=codex.id, text="The first question?")], [Say("I have asked.")]
        )
        await at.terminals["claude-code"].submit("ask the other one")
        await at.heard("codex", "The first question?")
        await at.member("claude-code")
        await at.activity("codex", "working")
        await at.kill_hub()
        # An agent's call starts a hub where none runs; it goes on with what the killed one had.
        at.homes["claude-code"].rig.play(
            [tool("claude-code", "send_message", to=codex.id, text="The second question?")], [Say("I asked again.")]
        )
        await at.terminals["claude-code"].submit("ask once more")
        await at.terminals["claude-code"].shows("I asked again.")
        first, second = await at.sent("The first question?"), await at.sent("The second question?")
        await at.reached(second, "injected")
        at.homes["codex"].rig.play(
            [tool("codex", "reply", message_id=first.receipt.id, text="The first answer.")],
            [tool("codex", "reply", message_id=second.receipt.id, text="The second answer.")],
            [Say("I have answered both.")],
        )
        await at.kill_hub()
        (tmp_path / "project" / "go").touch()
        await at.allow("codex")
        await at.terminals["codex"].shows("I have answered both.")
        await at.heard("claude-code", "The first answer.")
        await at.heard("claude-code", "The second answer.")
        assert (await at.member("claude-code")).id == claude.id
        assert (await at.member("codex")).id == codex.id
        for question in (first, second):
            await at.reached(question, "stored", "injected", "seen", "answered")
        for answer in ("The first answer.", "The second answer."):
            await at.reached(await at.sent(answer), "stored", "injected")
        assert len(await at.messages()) == 4
        assert [at.times_heard("codex", words) for words in ("The first question?", "The second question?")] == [1, 1]
        for words in ("The first answer.", "The second answer."):
            assert at.times_heard("claude-code", words) == 1
