"""Another model for a session in a person's own terminal, chosen elsewhere: the real harnesses in real terminals."""

from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
from tests.harnesses.person import Person, person

from tieline.errors import TielineError
from tieline.protocol.request_bodies import NewPrompt, SessionChange
from tieline.script import Say

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

OTHER = {"codex": ("other", "other"), "opencode": ("scripted/other", "other")}
"""A model as a person names it, and as the harness asks for it."""

TYPED_TOO = {"codex"}
"""Where it holds for what is typed at the terminal as well; the others keep a choice of their own there."""


@pytest.mark.parametrize("harness", OTHER)
async def test_a_model_that_is_chosen_elsewhere_holds_from_the_next_prompt_from_there(
    harness: str, tmp_path: Path
) -> None:
    model, asked = OTHER[harness]
    async with AsyncExitStack() as stack:
        at = await person(stack, harness, tmp_path)
        if harness == "opencode":
            models = {"provider": {"scripted": {"models": {"other": {"name": "Other"}}}}}
            (at.home.project / "opencode.json").write_bytes(msgspec.json.encode(models))
        terminal = await stack.enter_async_context(at.home.terminal())
        await at.turn(terminal, "the first", "The first has ended.", 1)
        first = models_asked(at)[-1]
        session = (await at.session("attached", "idle", 1)).id
        await at.client.change_session(session, SessionChange(model=model))
        at.home.rig.play([Say("The second has ended.")])
        await at.client.prompt(session, NewPrompt(text="the second"))
        await terminal.shows("The second has ended.")
        assert first != asked
        assert models_asked(at)[-1] == asked
        record = await at.session("attached", "idle", 2)
        assert (record.model, record.model_unsent) == (model, False)
        at.home.rig.play([Say("The third has ended.")])
        await at.client.prompt(session, NewPrompt(text="the third"))
        await terminal.shows("The third has ended.")
        assert models_asked(at)[-1] == asked, "it holds from then on"
        await at.session("attached", "idle", 3)
        await at.turn(terminal, "the fourth", "The fourth has ended.", 4)
        assert (models_asked(at)[-1] == asked) == (harness in TYPED_TOO)


async def test_where_it_is_chosen_at_the_terminal_only_that_is_said(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await person(stack, "claude-code", tmp_path)
        await stack.enter_async_context(at.home.terminal())
        session = (await at.session("attached", "idle", 0)).id
        with pytest.raises(TielineError, match="model of a session in a terminal cannot be changed from here"):
            await at.client.change_session(session, SessionChange(model="sonnet"))


def models_asked(at: Person) -> list[str]:
    return [str(request.get("model")) for request in at.home.rig.model.requests]
