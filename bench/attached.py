"""Sessions that people run in their own terminals, with long histories: what they cost a hub.

The transcripts hold what Claude Code itself wrote in one conversation, over and over, with ids and times of their own;
the terminals are processes that do nothing. For OpenCode our plugin itself runs once per session, over an interface
that answers as OpenCode does. Codex's own daemon has its threads loaded, for one client in place of their terminals.
The hub runs in a process of its own, as it always does.

Right after it has read many histories a hub also holds what it keeps of any work: the latest events for clients that
come back, pages of the search index. So what a session costs then is the difference between many and few of them.
"""

import asyncio
import json
import os
import re
import statistics
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from tests.harnesses.codex_threads import codex_conversation, codex_threads
from tests.harnesses.desk import BINARIES
from tests.harnesses.idle_terminals import idle_terminals
from tests.harnesses.opencode_plugins import opencode_plugins

from tieline.client import connect
from tieline.environment import config_path
from tieline.harnesses.attach_consent import agree
from tieline.paths import bus_file
from tieline.script import Run, Say
from tieline.testing.harness_terminals import claude_code_home
from tieline.testing.rig import scratch_env
from tieline.testing.wait_for import eventually

from . import counting_hub
from .rows import Row, at_most
from .through_hub import hub, settled

SESSIONS = 50
FEW = 10
HISTORY = 10 * 10**6
STARTS = 5
KB_EACH = 300
READ_S = 600.0
COUNTING_HUB = ("-P", counting_hub.__file__)
UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


async def conversation(root: Path) -> tuple[bytes, bytes, bytes]:
    """What Claude Code writes in a terminal: of the first turn, and of the second; and the session's id."""
    async with claude_code_home(root, BINARIES) as home, home.terminal("--allowedTools", "Bash") as terminal:
        texts: list[bytes] = []
        file = home.home
        for number in range(2):
            home.rig.play([Say("I look."), Run("seq 900")], [Say(f"Reply {number}. " + "word " * 200)])
            await terminal.submit(f"please look at number {number}")
            await terminal.shows(f"Reply {number}.")
            (file,) = (home.home / ".claude" / "projects").rglob("*.jsonl")
            before = len(b"".join(texts))
            await eventually(lambda: b'"turn_duration"' in file.read_bytes()[before:], "the turn does not end")  # noqa: B023
            texts.append(file.read_bytes()[before:])
        return texts[0], texts[1], file.stem.encode()


def history(first: bytes, turn: bytes, session: bytes) -> bytes:
    """The same turn over and over, each with ids of its own."""
    parts, size = [first], len(first)
    while size < HISTORY:
        new = {session: session}
        text = UUID.sub(lambda match, new=new: new.setdefault(match[0], str(uuid.uuid4()).encode()), turn)
        parts.append(text.replace(b"toolu_", b"toolu_%d_" % size).replace(b'"msg_', b'"msg_%d_' % size))
        size += len(parts[-1])
    return b"".join(parts)


def environment(root: Path, harness: str = "claude-code") -> dict[str, str]:
    """The environment of a home where somebody agreed to be read along, before anything was said."""
    env = scratch_env(root / "home", path=os.defpath)
    config = Path(config_path(env))
    config.parent.mkdir(parents=True)
    config.write_text("[hub]\nport = 0\n")
    agree(env, harness, now=0.0)
    return env


def start(env: Mapping[str, str]) -> float:
    """Of a hub, until it says that it runs; seconds."""
    begin = time.perf_counter()
    with hub(env["HOME"], env):
        return time.perf_counter() - begin


async def turns_read(env: Mapping[str, str]) -> int:
    async with connect(env) as client:
        return sum(session.turns for session in await client.sessions())


def until_read(env: Mapping[str, str], turns: int) -> None:
    deadline = time.monotonic() + READ_S
    while (read := asyncio.run(turns_read(env))) < turns:
        assert time.monotonic() < deadline, f"{read} of {turns} turns were read"
        time.sleep(1)


def own_memory_kb(pid: int) -> float:
    """Without what is mapped from files, such as the log: the system has that in memory as long as it likes."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("RssAnon"))
    return float(line.split()[1])


def read_all(env: Mapping[str, str], turns: int) -> tuple[float, int, int]:
    """A hub that has read all: its memory when it is quiet, how many bytes it read of files, but for its log, and how
    many the daemon of Codex told it."""
    counted = Path(env["HOME"], "bytes-read")
    with hub(env["HOME"], env, COUNTING_HUB, str(counted)) as pid:
        until_read(env, turns)
        settled(pid)
        memory = own_memory_kb(pid)
    read, received = map(int, counted.read_text().split())
    return memory, read, received


def claude_code_rows(root: Path) -> list[Row]:
    first, turn, session = asyncio.run(conversation(root / "template"))
    text = history(first, turn, session)
    each_turns = text.count(b'"turn_duration"')
    ours, usual, fewer = environment(root / "ours"), environment(root / "usual"), environment(root / "few")
    with idle_terminals(root / "few", FEW, lambda id: text.replace(session, id.encode())):
        memory_few, *_ = read_all(fewer, FEW * each_turns)
    with idle_terminals(root / "ours", SESSIONS, lambda id: text.replace(session, id.encode())):
        memory, read, _ = read_all(ours, SESSIONS * each_turns)
        memory_again, read_again, _ = read_all(ours, SESSIONS * each_turns)
        memory_usual, *_ = read_all(usual, 0)
        again = [(start(ours), start(usual)) for _ in range(STARTS)]
        unread = [(start(forgetful(ours)), start(forgetful(usual))) for _ in range(STARTS)]
    size, each = SESSIONS * len(text), f"against {KB_EACH} KB"
    about = f"{SESSIONS} sessions of Claude Code, {len(text) / 1e6:.0f} MB each"
    return [
        starts(f"hub start: {about}, all unread", unread),
        starts("hub start: … read before", again),
        at_most("… memory of an idle one, KB", (memory_again - memory_usual) / SESSIONS, KB_EACH, 1, each),
        at_most("… and right after its history was read", *after_reading(memory, memory_few), AFTER_READING),
        at_most("… bytes read", read, size, 1.05, "against the histories; the line in which a part ends is read again"),
        at_most("… bytes read after a restart", read_again, size, 0.01, "against the size of the histories"),
    ]


def opencode_rows(root: Path) -> list[Row]:
    few, ours, usual = (environment(root / name, "opencode") for name in ("few", "ours", "usual"))
    with opencode_plugins(root / "few", few, FEW, HISTORY) as counter:
        memory_few, *_ = read_all(few, FEW * read_of(counter)["turns"])
    with opencode_plugins(root / "ours", ours, SESSIONS, HISTORY) as counter:
        turns, size = SESSIONS * read_of(counter)["turns"], SESSIONS * read_of(counter)["size"]
        memory, *_ = read_all(ours, turns)
        read = read_of(counter)["read"]
        memory_again, *_ = read_all(ours, turns)
        read_again = read_of(counter)["read"] - read
        memory_usual, *_ = read_all(usual, 0)
        again = [(start(ours), start(usual)) for _ in range(STARTS)]
    each = f"against {KB_EACH} KB"
    return [
        starts(f"hub start: {SESSIONS} sessions of OpenCode, {HISTORY / 1e6:.0f} MB each, read before", again),
        at_most("… memory of an idle one, KB", (memory_again - memory_usual) / SESSIONS, KB_EACH, 1, each),
        at_most("… and right after its history was read", *after_reading(memory, memory_few), AFTER_READING),
        at_most("… bytes that the plugins read", read, size, 1.05, "against the histories"),
        at_most("… bytes that they read after a restart", read_again, size, 0.01, "against the size of the histories"),
    ]


def codex_rows(root: Path) -> list[Row]:
    few, ours, usual = (environment(root / name, "codex") for name in ("few", "ours", "usual"))
    conversation = asyncio.run(codex_conversation(root / "template"))
    with codex_threads(root / "few", conversation, FEW, HISTORY) as threads:
        memory_few, *_ = read_all(few, FEW * threads.turns)
    with codex_threads(root / "ours", conversation, SESSIONS, HISTORY) as threads:
        turns, size = SESSIONS * threads.turns, SESSIONS * threads.told_size
        memory, _, read = read_all(ours, turns)
        memory_again, _, read_again = read_all(ours, turns)
        memory_usual, *_ = read_all(usual, 0)
        again = [(start(ours), start(usual)) for _ in range(STARTS)]
        unread = [(start(forgetful(ours)), start(forgetful(usual))) for _ in range(STARTS)]
    each = f"against {KB_EACH} KB"
    about = f"{SESSIONS} sessions of Codex, {threads.size / 1e6:.0f} MB each"
    return [
        starts(f"hub start: {about}, all unread", unread),
        starts("hub start: … read before", again),
        at_most("… memory of an idle one, KB", (memory_again - memory_usual) / SESSIONS, KB_EACH, 1, each),
        at_most("… and right after its history was read", *after_reading(memory, memory_few), AFTER_READING),
        at_most("… bytes that its daemon told us", read, size, 1.05, "against the histories, told once"),
        at_most("… bytes that it told us after a restart", read_again, size, 0.01, "against the histories, told once"),
    ]


def read_of(counter: Path) -> dict[str, int]:
    deadline = time.monotonic() + READ_S
    while not counter.exists():
        assert time.monotonic() < deadline, "no plugin has begun"
        time.sleep(0.1)
    return json.loads(counter.read_text())


def after_reading(memory: float, memory_few: float) -> tuple[float, float, float]:
    """What each of the sessions costs beyond a few; its limit."""
    return (memory - memory_few) / (SESSIONS - FEW), KB_EACH, 1


AFTER_READING = f"against {KB_EACH} KB; by the difference between {SESSIONS} and {FEW} of them"


def rows(root: Path) -> list[Row]:
    return [
        *claude_code_rows(root / "claude-code"),
        *codex_rows(root / "codex"),
        *opencode_rows(root / "opencode"),
    ]


def starts(name: str, taken: list[tuple[float, float]]) -> Row:
    ours, usual = (statistics.median(times) for times in zip(*taken, strict=True))
    return at_most(name, ours, usual, 2, "seconds, against none")


def forgetful(env: Mapping[str, str]) -> Mapping[str, str]:
    """The same home, as if nothing had been read yet."""
    bus = Path(bus_file(env))
    for file in bus.parent.glob(f"{bus.name}*"):
        file.unlink()
    return env


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as directory:
        return rows(Path(directory))


if __name__ == "__main__":
    for row in measure():
        print(row)
