"""A person with rules at a terminal that takes an answer only before it asks."""

from pathlib import Path

from tests.harnesses.at_the_terminal import QUESTIONS
from tests.harnesses.person import Person
from tests.more_agents.test_qwen_terminal import answers, turn

from tieline.events import Ask
from tieline.script import AnyStep, Call, Say
from tieline.testing.tmux_terminal import TmuxTerminal


async def add_rules(at: Person, directory: Path, *rules: tuple[str, ...]) -> None:
    for rule in rules:
        status, output = await at.tieline("rules", "add", *rule, "--dir", str(directory), "--yes")
        assert status == 0, output


async def decided_by_rules(
    at: Person, terminal: TmuxTerminal, count: int, *replies: AnyStep | list[AnyStep], status: str = "idle"
) -> list[tuple[str, str]]:
    """Who decided what in the `count`-th turn, in which nobody was asked anything."""
    over = f"It is over, number {count}."
    at.home.rig.play(*([reply] if isinstance(reply, AnyStep) else reply for reply in replies), [Say(over)])
    await terminal.submit(f"work by the rules, number {count}")
    told = await turn(at, terminal, count, over, status=status)
    assert not [event for event in told if isinstance(event, Ask)]
    return answers(told)


async def decided_at_the_terminal(
    harness: str, at: Person, terminal: TmuxTerminal, count: int, reply: AnyStep | list[AnyStep], key: str = "Enter"
) -> list[tuple[str, str]]:
    """Who decided what in the `count`-th turn, where the terminal asks."""
    over = f"It is over, number {count}."
    at.home.rig.play([reply] if isinstance(reply, AnyStep) else reply, [Say(over)])
    await terminal.submit(f"do what no rule answers, number {count}")
    await terminal.shows(QUESTIONS[harness])
    asked = (await at.ask()).ask
    await terminal.answer(QUESTIONS[harness], key)
    told = await turn(at, terminal, count, over)
    assert [event.id for event in told if isinstance(event, Ask)] == [asked.id]
    return answers(told)


def named(call: AnyStep) -> str:
    return call.name if isinstance(call, Call) else type(call).__name__
