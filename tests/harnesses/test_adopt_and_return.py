"""A conversation moves between a person's terminal and the phone, in both directions: one conversation, one log, and
one who writes at a time. The real harnesses in real terminals, with a hub of its own process."""

import json
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
from tests.harnesses.desk import RESUME
from tests.harnesses.person import Person, person

from tieline.events import Done, TurnStarted
from tieline.protocol.request_bodies import Decision
from tieline.script import Run, Say
from tieline.testing.tmux_terminal import TmuxTerminal

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

TURNS = [f"This is turn {word}." for word in ("one", "two", "three", "four", "five", "six")]


@pytest.mark.parametrize("harness", ["claude-code", "codex", "opencode"])
async def test_six_turns_at_the_terminal_on_the_phone_and_at_the_terminal_again(harness: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        await six_turns(stack, await person(stack, harness, tmp_path))


@pytest.mark.parametrize("harness", RESUME)
async def test_a_session_of_ours_that_its_person_resumes_is_the_terminals_alone(harness: str, tmp_path: Path) -> None:
    """By the harness's own command: Tieline is not asked, and its agent writes no more. Codex opens no conversation
    that another program has, until that lets go."""
    async with AsyncExitStack() as stack:
        at = await person(stack, harness, tmp_path)
        terminal = await stack.enter_async_context(at.home.terminal())
        session = await at.turn(terminal, TURNS[0], "Answer 1.", 1)
        await terminal.hang_up()
        await at.session("attached", "closed", 1)
        status, output = await at.tieline("adopt", session.id)
        assert status == 0, output
        at.home.rig.play([Say("Answer 2.")])
        await at.client.prompt(session.id, TURNS[1])
        await at.session("driven", "idle", 2)
        argv = (*at.home.argv, *RESUME[harness], session.native_id)
        terminal = await stack.enter_async_context(TmuxTerminal(argv, at.home.project, at.home.env))
        if harness == "codex":
            await terminal.shows("open in another app")
            status, output = await at.tieline("open", session.id, "--terminal", "--print")
            assert status == 0, output
            await terminal.answer("open in another app", "r")
        await at.session("attached", "idle", 2)
        at.home.rig.play([Say("Answer 3.")])
        await at.client.prompt(session.id, TURNS[2])
        await terminal.shows("Answer 3.")
        await at.session("attached", "idle", 3)
        await at.turn(terminal, TURNS[3], "Answer 4.", 4)
        events = await at.log(session.id)
        begun = [event.prompt for event in events if isinstance(event, TurnStarted)]
        assert [turn in prompt for turn, prompt in zip(TURNS, begun, strict=False)] == [True] * 4
        given = msgspec.json.encode(at.home.rig.model.requests[-1]).decode()
        assert [given.count(prompt) for prompt in TURNS[:4]] == [1] * 4


async def six_turns(stack: AsyncExitStack, at: Person, *, asks: bool = True) -> None:
    """`asks`: under the policy that holds, the agent asks before it runs a command."""
    play, project = at.home.rig.play, at.home.project
    terminal = await stack.enter_async_context(at.home.terminal())
    for number in (1, 2, 3):
        await at.turn(terminal, TURNS[number - 1], f"Answer {number}.", number)
    session = await at.session("attached", "idle", 3)

    status, output = await at.tieline("adopt", session.id)
    assert status != 0
    assert "this session is open in a terminal" in output
    status, output = await at.tieline("open", session.id, "--terminal", "--print")
    assert status != 0
    assert "open in a terminal already" in output
    await terminal.hang_up()
    await at.session("attached", "closed", 3)
    status, output = await at.tieline("adopt", session.id, "--json")
    assert status == 0, output
    assert json.loads(output)["kind"] == "driven"

    play([Run("touch four")], [Say("Answer 4.")])
    await at.client.prompt(session.id, TURNS[3])
    if asks:
        await at.session("driven", "waiting", 3)
        status, output = await at.tieline("open", session.id, "--terminal", "--print")
        assert status != 0
        assert "a turn is running" in output
        ask = await at.ask()
        await at.client.answer(ask.id, Decision(decision="allow", digest=ask.digest))
    await at.session("driven", "idle", 4)
    assert (project / "four").exists()
    status, command = await at.tieline("open", session.id, "--terminal", "--print")
    assert status == 0, command
    await at.session("driven", "closed", 4)  # Tieline's agent has let go
    terminal = await stack.enter_async_context(at.home.terminal_of("sh", "-c", command))
    await at.session("attached", "idle", 4)
    for number in (5, 6):
        await at.turn(terminal, TURNS[number - 1], f"Answer {number}.", number)

    events = await at.log(session.id)
    assert [event.prompt for event in events if isinstance(event, TurnStarted)] == TURNS
    assert [event.status for event in events if isinstance(event, Done)] == ["success"] * 6
    given = msgspec.json.encode(at.home.rig.model.requests[-1]).decode()
    assert [given.count(prompt) for prompt in TURNS] == [1] * 6
