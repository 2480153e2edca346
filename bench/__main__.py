"""`make bench`: measures every ratio side by side in one run and writes docs/benchmarks.md.

`python -m bench agents sessions` measures those alone and prints them.
"""

import multiprocessing
import os
import platform
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from .rows import Row, measure

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"

BOUNDS = """
## What bounds the rows that are on the edge

- **codex, cold:** its own command is done in a quarter of a second. Ours starts and greets it before most of Tieline is
  imported; what is left is Python's own start and the end. 1.09 to 1.15 was measured; 1.20 on a faster machine, where
  the command takes a fifth of a second, with and without reapers.
- **publish to follower, p50:** two wake-ups of threads, the writer's and the loop's, about 50 µs each way.
- **publish from 64 tasks:** about 4 µs of asyncio per record. 0.53 was measured, and 0.47 where the plain table takes
  200,000 records a second.
- **How two references were chosen:** the plain table that publishing is held against has the record's columns and
  builds its rows per batch; against a bare table of prepared rows 0.38 to 0.50 was measured. Reading one subject of the
  large log is measured with ten sessions interleaved; with 10,000 taken in turns, the hardest layout (a page per
  record), it was 1.67, and 1.44 to 1.50 with fifty. By the strictest readings these two rows do not hold.
- **from the warm pool:** both agents do more in their first turn than in later ones, whoever drives them: driven by
  hand Claude Code takes 180 ms and then 45, Gemini 100 and then 17. It is their own code, run for the first time. The
  pool has Gemini compiled whole when it starts, which takes 70 ms off its first turn and holds 160 MB. Claude Code
  is one binary whose engine has nothing of the kind (its options were tried); it makes its instructions and tools
  ahead, which takes 40 ms off. The rest only runs with a prompt. One that a hook refuses leaves a trace in the
  agent's records and would not be enough (2.1 to 2.8 was measured); with a question to the vendor besides it was 1.5,
  but every agent that waits would have to ask.
  The later turns are measured when the pool is full again. While it starts the next agent they take longer: measured
  so, Claude Code's row was at 2.0.
- **the relay on SQLite:** a message is stored with its receipt and the steps it takes; a record of the bare bus is
  published, read and settled in a table. 0.40 to 0.49 was measured by itself; by processor time, which other work does
  not disturb, it is 0.43.
- **added to a turn by the hub:** 0.77 to 0.80 ms in five runs side by side with the hub before it had routes of its
  own, which took 1.01 to 1.12. Half of it is one HTTP request through uvicorn and its response; the rest are the
  frames, the deltas and the state of sessions that the hub follows on the same loop while the turn goes on.
- **event to frame:** the event is on the disk first: of 0.32 ms the writer's thread takes 0.15 (0.07 of it the disk,
  the rest SQLite and the waking of a thread that has just slept). 2.77 to 2.95 was measured.
- **a command hook, and a message by a process of its own:** most of either is the start of Python, and hcom is a native
  program. On a quiet machine Python alone takes 12 ms from its start to the end of `import os`, which is 1.9 times what
  hcom's whole exchange takes; `tieline message send` imports 3 ms more than that, and 4 to 5 ms pass in the hub and
  until the receiver's MCP client has read it. 3.30 was measured when it connected after its imports and the hub saved
  what is read at once among the unread, 3.08 since, with both programs installed as a user has them: the row does not
  hold. Since then the hub has come to need a quarter of the time to look at who has connected, and the command imports
  three modules less before it sends; that was not measured again.
- **a message to an idle terminal:** it costs Tieline a few milliseconds; the rest is the harness. A harness's own time
  from Enter to the model is 0.1 to 0.4 s and differs by half from turn to turn, so single runs of these rows lie apart:
  0.6 to 1.3 was measured for Claude Code, 0.8 to 1.0 for Codex, 0.5 to 1.6 for OpenCode (the last beside a test suite).
- **memory right after a history was read:** by the difference between 50 and 10 sessions, so without what the hub keeps
  of any work: the latest events of all sessions, for clients that come back (at most 16 MiB), and pages of the search
  index (16 MB for each connection). It was 852 KB when every session kept the part that it had read last while it
  waited for its next turn, and when glibc kept what was free. Pages of the log that are mapped into memory are not
  counted.
- **sessions of OpenCode:** measured on 2026-11-18 beside much other work, 50 sessions of 10 MB: hub start 1.15 (≤ 2),
  199 KB for an idle one and 191 KB right after reading (≤ 300; 1,157 when connections kept the body of their last
  request), 0.6 % read after a restart (≤ 1 %); but the plugins read 1.18 times the histories (≤ 1.05; 2.5 when they
  gave the hub a minute for a part). With 10 sessions it was 1.00. The hub itself gave up a part that had waited for
  two minutes, and the whole history was read again; it waits as long as the plugin now: 1.00 with 50 sessions on
  2026-11-19, beside as much other work.
- **sessions of Codex:** measured once on 2026-11-18 with its own daemon beside much other work, 50 threads of 10 MB:
  hub start 1.59 with all unread and 1.38 with all read (≤ 2), 89 KB for an idle one and 125 KB right after reading
  (≤ 300), each history told once (1.002 ≤ 1.05), 0.4 % again after a restart (≤ 1 %).
- **a turn in a person's own terminal:** single turns differ by more than half from each other, so that 5 % is below
  what some pairs beside other work can tell: with nothing of ours in its turn, Codex has 1.05 with the hub and 0.90
  with it down. Claude Code had three hooks of ours in a turn once, each of which cost it some 15 ms whoever answered,
  and 1.25; it has none since. On a quiet machine its own processor time is 0.99 with the hub and 1.04 with it down.
  OpenCode's plugin cost 8 % of its processor time with the hub, where it tells each event, and 2 % with it down: its
  row did not hold. Then each of its six or seven requests in a turn opened a connection; in OpenCode's own runtime
  that takes 1.8 to 2.0 ms of processor time (33 for the first one), by a connection that is kept 0.22 (8 to 11). With
  kept connections, on a quiet machine on 2026-11-19: 1.00 of the time (210 against 209 ms) and 1.02 of the processor
  time. A turn with one tool call is told in five requests and 12 KB. Beside much other work its terminal draws more
  often while it waits, and the row tells nothing: a terminal with the hub down then costs more than one with it.
"""

SECTIONS = {
    "start": "Start-up",
    "agents": "Turns with the real agents over the scripted model",
    "through_hub": "`tieline run` through a hub with a warm pool",
    "normalise": "From native messages to events",
    "bus": "The bus",
    "sessions": "Durable sessions",
    "relay": "The relay",
    "mesh": "The mesh",
    "waking": "A message to an idle terminal",
    "attached": "Sessions in people's own terminals",
    "terminal_turns": "A turn in a person's own terminal",
    "teams": "Teams",
    "page": "The page in a real browser",
    "hub": "The hub",
    "search": "Search in a million events",
}


def measured(name: str) -> list[Row]:
    """In a process of its own: what one section leaves in memory does not slow the next one down."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as other:
        return other.submit(measure, name).result()


def table(rows: list[Row]) -> str:
    lines = ["| what | ours | reference | ratio | limit | holds | |", "| --- | ---: | ---: | ---: | ---: | --- | --- |"]
    for row in rows:
        sign = "≥" if row.least else "≤"
        lines.append(
            f"| {row.name} | {number(row.ours)} | {number(row.reference)} | **{row.ratio:.2f}** | {sign} {row.limit:g} "
            f"| {'yes' if row.holds else '**no**'} | {row.note} |"
        )
    return "\n".join(lines)


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.4g}"


def main(names: list[str]) -> int:
    pages: list[str] = []
    missed = 0
    for name in names or SECTIONS:
        print(f"{SECTIONS[name]} …", file=sys.stderr, flush=True)
        rows = measured(name)
        missed += sum(not row.holds for row in rows)
        pages.append(f"## {SECTIONS[name]}\n\n{table(rows)}\n")
        print(pages[-1], flush=True)
    if not names:
        machine = (
            f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
        )
        PAGE.write_text(
            "# Benchmarks\n\n"
            f"Written by `make bench` on {time.strftime('%Y-%m-%d')}: {machine}.\n\n"
            "Every row compares two things measured in turns in the same run; only the ratio means anything.\n"
            "Times are medians in seconds, rates are per second.\n\n" + "\n".join(pages) + BOUNDS
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
