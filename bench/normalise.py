"""Recorded transcripts of 10,000 messages through each driver's normaliser, against decoding the same bytes alone."""

import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tieline.config import Config
from tieline.drivers.acp.events import AcpNormaliser as AcpNormaliser
from tieline.drivers.acp_presets import PRESETS
from tieline.drivers.claude_code.events import ClaudeCodeNormaliser as ClaudeNormaliser
from tieline.drivers.codex.events import CodexNormaliser as CodexNormaliser
from tieline.drivers.opencode.events import OpenCodeNormaliser as OpenCodeNormaliser
from tieline.drivers.registry import create
from tieline.drivers.shell.json_output import ShellNormaliser as ShellNormaliser
from tieline.events import Done, Event

from .rows import Row, at_most

ROOT = Path(__file__).parent.parent
RECORDED = ROOT / "tests" / "drivers"
MESSAGES = 10_000
ROUNDS = 7

Message = dict[str, Any]
_decode = msgspec.json.Decoder(Message).decode


def claude(lines: list[bytes]) -> int:
    normaliser, count = ClaudeNormaliser("claude-code"), 0
    for line in lines:
        for event in normaliser.feed(_decode(line)):
            count += 1
            if isinstance(event, Done):
                normaliser.turn_diff()
                normaliser.next_turn()
    return count


def codex(lines: list[bytes]) -> int:
    seen: list[Event] = []
    normaliser = CodexNormaliser(seen.append)
    for line in lines:
        message = _decode(line)
        if "id" not in message:
            normaliser.feed(message["method"], message["params"])
    return len(seen)


def opencode(lines: list[bytes]) -> int:
    normaliser: OpenCodeNormaliser | None = None
    count = 0
    for line in lines:
        message = _decode(line)
        if normaliser is None:
            normaliser = OpenCodeNormaliser(message["properties"]["sessionID"])
        count += len(normaliser.feed(message))
    return count


def acp(preset: str) -> Callable[[list[bytes]], int]:
    def play(lines: list[bytes]) -> int:
        seen: list[Event] = []
        normaliser = AcpNormaliser(PRESETS[preset], "/place")
        normaliser.begin(seen.append)
        for line in lines:
            message = _decode(line)
            match message.get("method"):
                case "session/update":
                    normaliser.feed(message["params"]["update"])
                case "session/request_permission":
                    normaliser.permission_requested(message["params"]["toolCall"])
                case _:
                    pass
        normaliser.end()
        return len(seen)

    return play


def shell() -> Callable[[list[bytes]], int]:
    table = tomllib.loads((ROOT / "examples" / "shell.toml").read_text())["agents"]["claude-command"]
    driver: Any = create("claude-command", Config(agents={"claude-command": table}))

    def play(lines: list[bytes]) -> int:
        normaliser = ShellNormaliser(driver.options, source="shell")
        return sum(len(normaliser.line(line)) for line in lines)

    return play


KINDS: dict[str, tuple[str, Callable[[list[bytes]], int]]] = {
    "claude-code": ("claude_code/tools.jsonl", claude),
    "codex": ("codex/work.jsonl", codex),
    "opencode": ("opencode/turn.jsonl", opencode),
    "acp (gemini)": ("acp/gemini.jsonl", acp("gemini")),
    "acp (opencode)": ("acp/opencode.jsonl", acp("opencode-acp")),
    "shell": ("shell/claude.jsonl", shell()),
}


def measure() -> list[Row]:
    rows: list[Row] = []
    for name, (file, normalise) in KINDS.items():
        turn = (RECORDED / file).read_bytes().splitlines()
        turns = -(-MESSAGES // len(turn))
        assert normalise(turn) > 3, f"{name}: the transcript says nothing"
        ours: list[float] = []
        decoding: list[float] = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for _ in range(turns):
                normalise(turn)
            middle = time.perf_counter()
            for _ in range(turns):
                for line in turn:
                    _decode(line)
            ours.append(middle - start)
            decoding.append(time.perf_counter() - middle)
        # The least of each: what is above it is the machine's doing.
        note = f"{turns * len(turn):,} recorded messages, decoded and normalised : only decoded"
        rows.append(at_most(f"{name}: normaliser", min(ours), min(decoding), 4.0, note))
    return rows


if __name__ == "__main__":
    for row in measure():
        print(row)
