"""A session holds a driver to its promises, even one that breaks them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from tieline.api import open_session
from tieline.drivers.base import AskFn, Features, Probe, Prompt, Spec
from tieline.drivers.scripted import Scripted
from tieline.errors import AgentDied, PolicyUnenforceable, SessionClosed, Unsupported, UsageError
from tieline.events import Done, Event, Text
from tieline.policy import CAPABILITIES, Enforcement, Policy, Receipt
from tieline.script import Say, Stall
from tieline.sessions.session import Session
from tieline.testing.stream_checks import collect, done

Behaviour = Callable[[], AsyncIterator[Event]]


class Unruly:
    """A driver for injecting faults: its turn is whatever the test says."""

    name = "unruly"
    tested = floor = ""
    features = Features()

    def __init__(self, behaviour: Behaviour, means: str = "prompt") -> None:
        self.behaviour = behaviour
        self.means = means
        self.interrupted = 0
        self.native_id = ""
        self.receipt = self.enforce(Policy())

    async def probe(self, env: Mapping[str, str]) -> Probe:
        return Probe(found=True)

    def enforce(self, policy: Policy) -> Receipt:
        return Receipt.from_lines({c: Enforcement(policy.level(c), self.means) for c in CAPABILITIES})  # type: ignore[arg-type]

    @asynccontextmanager
    async def open(self, spec: Spec, ask: AskFn) -> AsyncGenerator["Unruly", None]:
        yield self

    def turn(self, prompt: Prompt) -> AsyncIterator[Event]:
        return self.behaviour()

    @property
    def alive(self) -> bool:
        return True

    async def interrupt(self) -> None:
        self.interrupted += 1

    async def steer(self, text: str) -> None: ...


async def test_a_turn_without_an_end_gets_one(tmp_path: Path) -> None:
    async def stops() -> AsyncIterator[Event]:
        yield Text("half")

    async with open_session(Unruly(stops), cwd=tmp_path) as session:
        seen = await collect(session.turn("go"))
    assert done(seen).status == "error"


async def test_a_driver_that_raises_ends_the_turn(tmp_path: Path) -> None:
    async def dies() -> AsyncIterator[Event]:
        yield Text("half")
        raise AgentDied("unruly", -9)

    async with open_session(Unruly(dies), cwd=tmp_path) as session:
        seen = await collect(session.turn("go"))
    assert "signal 9" in done(seen).error


async def test_a_prompt_that_the_agent_cannot_take_leaves_nothing_behind(tmp_path: Path) -> None:
    def refuses() -> AsyncIterator[Event]:
        raise UsageError("it takes no such prompt")

    before = asyncio.all_tasks()
    async with open_session(Unruly(refuses), cwd=tmp_path) as session:
        with pytest.raises(UsageError, match="no such prompt"):
            await collect(session.turn("go", timeout=60))
        assert asyncio.all_tasks() == before


async def test_who_leaves_early_interrupts_the_turn_and_who_stays_does_not(tmp_path: Path) -> None:
    async def says() -> AsyncIterator[Event]:
        yield Text("half")
        yield Text("whole")
        yield Done("success")

    driver = Unruly(says)
    async with open_session(driver, cwd=tmp_path) as session:
        await collect(session.turn("go"))
        assert driver.interrupted == 0
        async with aclosing(session.turn("go")) as events:
            async for event in events:
                if isinstance(event, Text):
                    break
        assert driver.interrupted == 1


async def test_a_deny_that_cannot_be_held_refuses_to_open(tmp_path: Path) -> None:
    async def never() -> AsyncIterator[Event]:
        yield Text("")

    driver = Unruly(never, means="none")
    with pytest.raises(PolicyUnenforceable, match="shell"):
        open_session(driver, cwd=tmp_path, policy=Policy("allow", "deny", "allow"))
    open_session(driver, cwd=tmp_path, policy=Policy("allow", "deny", "allow"), accept_unenforced=True)
    open_session(driver, cwd=tmp_path, policy="full")


async def test_one_turn_at_a_time(tmp_path: Path) -> None:
    async with open_session(Scripted([[Say("one", delay_s=0.01)], [Say("two")]]), cwd=tmp_path) as session:
        first, second = await asyncio.gather(collect(session.turn("a")), collect(session.turn("b")))
    assert [done(first).text, done(second).text] == ["one", "two"]


async def test_a_closed_session_says_so(tmp_path: Path) -> None:
    session = open_session(Scripted(), cwd=tmp_path)
    async with session:
        pass
    with pytest.raises(SessionClosed):
        await collect(session.turn("go"))
    await session.close()


async def test_a_session_that_is_not_open_yet_says_so(tmp_path: Path) -> None:
    session = open_session(Scripted(), cwd=tmp_path)
    with pytest.raises(SessionClosed, match="not open yet") as refused:
        await collect(session.turn("go"))
    assert "async with" in refused.value.hint


async def test_an_open_session_is_not_opened_again(tmp_path: Path) -> None:
    session = open_session(Scripted([[Say("one")], [Say("two")]]), cwd=tmp_path)
    async with session:
        with pytest.raises(UsageError, match="open already"):
            async with session:
                pass
        assert done(await collect(session.turn("go"))).text == "one"
    async with session:  # it may be opened again after its end
        assert done(await collect(session.turn("go"))).text == "one"


async def test_a_turn_that_its_reader_left_and_keeps_does_not_hold_up_the_next(tmp_path: Path) -> None:
    """It would wait for itself for ever."""
    async with open_session(Scripted([[Say("one"), Stall()], [Say("two")]]), cwd=tmp_path) as session:
        kept = session.turn("go")
        async for event in kept:
            if isinstance(event, Text):
                break
        with pytest.raises(UsageError, match="not read to its end") as refused:
            await collect(session.turn("and now"))
        assert "aclosing" in refused.value.hint
        await kept.aclose()
        assert done(await collect(session.turn("and now"))).text == "two"


async def test_a_turn_that_its_reader_left_is_over_for_the_next(tmp_path: Path) -> None:
    async with open_session(Scripted([[Say("one"), Stall()], [Say("two")]]), cwd=tmp_path) as session:
        async for event in session.turn("go"):
            if isinstance(event, Text):
                break
        assert done(await collect(session.turn("and now"))).text == "two"


async def test_timeout_is_told_as_such(tmp_path: Path) -> None:
    async with open_session(Scripted([[Stall()], [Say("after")]]), cwd=tmp_path) as session:
        assert done(await collect(session.turn("go", timeout=0.05))).status == "timeout"
        assert done(await collect(session.turn("go", timeout=5))).text == "after"


async def test_what_is_not_declared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="resume"):
        open_session(Scripted(), cwd=tmp_path, resume="x")
    with pytest.raises(UsageError, match="absolute"):
        Session(Scripted(), Spec(cwd="relative"))


# --- what only some drivers can --------------------------------------------------------------------------------------


async def says_nothing() -> AsyncIterator[Event]:
    yield Done("success")


async def test_nobody_steers_an_agent_that_cannot_be_steered(tmp_path: Path) -> None:
    """Whatever its driver would do with it."""
    driver = Unruly(says_nothing)
    steered: list[str] = []

    async def steer(text: str) -> None:
        steered.append(text)

    driver.steer = steer
    async with open_session(driver, cwd=tmp_path) as session:
        with pytest.raises(Unsupported, match="steer") as refused:
            await session.steer("left")
        assert "next prompt" in refused.value.hint and steered == []
        driver.features = Features(steer=True)
        await session.steer("left")
        assert steered == ["left"]


class Warming(Unruly):
    """One that can do something ahead, and how that goes."""

    def __init__(self, problem: Exception | None = None, *, hangs: bool = False) -> None:
        super().__init__(says_nothing)
        self.problem = problem
        self.hangs = hangs
        self.warmed = 0

    async def warm_up(self) -> None:
        self.warmed += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.problem is not None:
            raise self.problem


@pytest.mark.parametrize("how", ["well", "it dies", "it hangs"])
async def test_an_agent_warms_up_and_nothing_depends_on_it(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tieline.sessions.session.WARM_UP_S", 0.05)
    driver = Warming(OSError(how) if how == "it dies" else None, hangs=how == "it hangs")
    session = open_session(driver, cwd=tmp_path)
    await session.warm_up()
    assert driver.warmed == 0, "it is not open"
    async with session:
        await session.warm_up()
        assert driver.warmed == 1
        assert done(await collect(session.turn("go"))).status == "success"


async def test_an_agent_that_cannot_warm_up_is_left_alone(tmp_path: Path) -> None:
    async with open_session(Unruly(says_nothing), cwd=tmp_path) as session:
        await session.warm_up()
