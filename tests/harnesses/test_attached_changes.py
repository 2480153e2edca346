"""A mode and a model that a person chooses at the terminal, as everybody else is told of them. The real harnesses in
real terminals."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
from tests.harnesses.desk import BOUND
from tests.harnesses.person import Person, person

from tieline.events import Status
from tieline.sessions.attached_session import MODE
from tieline.testing.tmux_terminal import TmuxTerminal

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

MODES = {
    "claude-code": ("BTab", "accept edits on", "acceptEdits"),
    "codex": ("/plan", "Plan mode", "plan"),
    "opencode": ("Tab", "Plan ·", "plan"),
}
"""The key or the command for another mode, what the terminal shows then, and what it is called."""

MODELS = {
    "claude-code": "claude-haiku-5-5",
    "codex": "gpt-6-sol",
    "opencode": "scripted/other",
    "gemini": "gemini-2.5-pro",
}
"""The model that is chosen at the terminal, where the first turn had another."""


@pytest.mark.parametrize("harness", MODES)
async def test_a_mode_that_is_chosen_at_the_terminal_is_told_once(harness: str, tmp_path: Path) -> None:
    key, shown, mode = MODES[harness]
    async with AsyncExitStack() as stack:
        at = await person(stack, harness, tmp_path)
        terminal = await stack.enter_async_context(at.home.terminal())
        session = await at.turn(terminal, "the first", "The first has ended.", 1)
        assert session.mode not in ("", mode)
        await (terminal.submit(key) if key.startswith("/") else terminal.key(key))
        await terminal.shows(shown)
        await at.turn(terminal, "the second", "The second has ended.", 2)
        await at.kill_hub()  # what it knew of the mode is in the record
        await at.start_hub()
        await at.session("attached", "idle", 2)
        session = await at.turn(terminal, "the third", "The third has ended.", 3)
        assert session.mode == mode
        told = [event for event in await at.log(session.id) if isinstance(event, Status) and event.state == MODE]
        assert told == [Status(MODE, mode)]


@pytest.mark.parametrize("harness", MODELS)
async def test_a_model_that_is_chosen_at_the_terminal_is_told(harness: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await person(stack, harness, tmp_path)
        if harness == "opencode":
            models = {"provider": {"scripted": {"models": {"other": {"name": "Other"}}}}}
            (at.home.project / "opencode.json").write_bytes(msgspec.json.encode(models))
        terminal = await stack.enter_async_context(at.home.terminal())
        session = await at.turn(terminal, "the first", "The first has ended.", 1)
        assert session.model not in ("", MODELS[harness])
        await choose_model(at, terminal)
        if harness != "codex":  # which tells it at once
            await at.turn(terminal, "the second", "The second has ended.", 2)
        async with asyncio.timeout(BOUND):
            while (await at.client.session(session.id)).model != MODELS[harness]:  # noqa: ASYNC110 (as a client looks)
                await asyncio.sleep(0.1)


async def choose_model(at: Person, terminal: TmuxTerminal) -> None:
    match session := (await at.client.sessions())[0].agent:
        case "claude-code":
            await terminal.submit("/model haiku")
            await terminal.answer("Yes, switch to Haiku", "Enter")
            await terminal.shows("Set model to")
        case "codex":
            await terminal.submit("/model")
            await terminal.shows("3. GPT-6-Sol")
            await terminal.key("3")
            await terminal.answer("Select Reasoning Level", "Enter")
            await terminal.shows("Model changed to gpt-6-sol")
        case "opencode":
            await terminal.submit("/models")
            await terminal.shows("Select model")
            await terminal.type("Other")
            await terminal.until(lambda screen: "● Scripted" not in screen, "it has found the other one")
            await terminal.key("Enter")
            await terminal.until(lambda screen: "Select model" not in screen, "it is chosen")
        case _:
            assert session == "gemini"
            await terminal.submit("/model set gemini-2.5-pro")
            await terminal.shows("Model set to gemini-2.5-pro")
