"""SIGKILL between every two steps of a delivery to an agent: no message is lost, none has its effects twice, and what
the receipts say afterwards is true."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.relay.conftest import over, within
from tests.relay.crasher import ME, Life, owner, send, send_to_sink, sink

from tieline.channels.agent.channel import session_of
from tieline.envelopes import MessageReceipt
from tieline.relay import Relay
from tieline.testing.wait_for import eventually

CRASHER = Path(__file__).with_name("crasher.py")

MOMENTS = [
    ("before stored", 1), ("after stored", 1),
    ("before offered", 1), ("after offered", 1),
    ("before injected", 1), ("after injected", 1),
    ("before seen", 1), ("after seen", 1),
    ("before stored", 2), ("after stored", 2),  # the answer
    ("before parked", 1), ("after parked", 1),  # the answer, in an inbox
    ("before answered", 1), ("after answered", 1),
]  # fmt: skip


class Nursery:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def live(self, life: Life) -> None:
        """A life, up to its end by SIGKILL."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(life) + b"\n")
        line = (await within(self._process.stdout.readline())).decode().strip()
        failed = Path(life.folder, "failed")
        assert line == "killed", f"{life.moment}: {line} {failed.read_text() if failed.exists() else ''}"


@asynccontextmanager
async def nursing() -> AsyncGenerator[Nursery, None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(CRASHER),
        env={"PATH": "/usr/bin:/bin"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Nursery(process)
    finally:
        process.kill()
        await process.wait()


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_killed_between_every_two_steps(url: str, tmp_path: Path) -> None:
    ends: dict[str, str] = {}
    async with nursing() as nursery:
        for number, (moment, count) in enumerate(MOMENTS):
            name = f"m{number}"
            folder = tmp_path / name
            folder.mkdir()
            await nursery.live(Life(url, str(folder), name, moment, count))
            async with owner(url, str(folder), name) as (relay, manager):
                receipt = await end_of(relay, name, stored=number > 0)
                ends[f"{moment} {count}"] = await truth(relay, receipt, name, folder)
                session = manager.get(session_of(name, "x"))
                assert session.turns + (session.status == "failed") == 1, "its prompt ran once"
    assert ends["before stored 1"] == ends["after answered 1"] == "answered"
    assert ends["after stored 1"] == ends["before offered 1"] == ends["after offered 1"] == "answered", ends
    assert all(ends[f"{moment} {count}"] == "answered" for moment, count in MOMENTS[8:]), ends
    assert set(ends.values()) <= {"answered", "indeterminate"}


@pytest.mark.slow
async def test_killed_around_a_message_that_is_stored_as_offered(url: str, tmp_path: Path) -> None:
    """Its endpoint is told when a delivery before may have reached it; that is all that can be known."""
    expected = {
        "before stored": ["1 False"],
        "after stored": ["2 True"],  # counted, though it had not begun: it might have ended the process
        "before injected": ["1 False", "2 True"],
        "after injected": ["1 False"],
    }
    async with nursing() as nursery:
        for moment, effects in expected.items():
            name = moment.replace(" ", "-")
            folder = tmp_path / name
            folder.mkdir()
            await nursery.live(Life(url, str(folder), name, moment, sink=True))
            async with owner(url, str(folder), name) as (relay, _):
                known = await relay.recent(1000)
                if moment in ("after stored", "before injected"):
                    assert [(earlier.state, earlier.attempts, earlier.waiting) for earlier in known[:1]] == [
                        ("offered", 1, "no_channel")
                    ]
                sink(relay, name, folder)
                receipt = await over(relay, (await send_to_sink(relay, name)).id)
                assert (receipt.id in {earlier.id for earlier in known}) == (moment != "before stored")
                assert (receipt.state, receipt.attempts) == ("injected", int(effects[-1][0]))
                assert (folder / "effects").read_text().splitlines() == effects


async def end_of(relay: Relay, name: str, *, stored: bool) -> MessageReceipt:
    """Whoever does not know whether it was stored sends it again, by the same key."""
    known = {receipt.id for receipt in await relay.recent(1000)}
    receipt = await send(relay, name)
    assert (receipt.id in known) == stored, "what was stored is known, what was not is not"
    return await over(relay, receipt.id)


async def truth(relay: Relay, receipt: MessageReceipt, name: str, folder: Path) -> str:
    effects = (folder / "effects").read_text().splitlines() if (folder / "effects").exists() else []
    assert len(effects) <= 1, f"{name}: done twice"
    letters = await relay.dead_letters.list(to=f"relay.agent.{name}.>")
    assert [letter.reason for letter in letters] == ["indeterminate"] * (receipt.state == "dead")
    unread = relay.inbox(f"relay.user.{name}").unread()
    if receipt.reason == "indeterminate":  # its agent died with us in the middle of the turn
        assert (receipt.state, unread, receipt.answer) == ("dead", [], "")
        return "indeterminate"
    assert (receipt.state, receipt.reason) == ("answered", ""), receipt
    assert effects == ["ran"]
    await eventually(lambda: len(relay.inbox(f"relay.user.{name}").unread()) == 1, "the answer is not there")
    (answer,) = relay.inbox(f"relay.user.{name}").unread()
    assert receipt.answer == answer.id
    message = await relay.inbox(f"relay.user.{name}").read(answer.id)
    assert message.envelope is not None
    assert (message.envelope.payload.text, message.envelope.in_reply_to) == ("done", receipt.id)
    assert message.envelope.budget.ancestors == (ME,)
    return "answered"
