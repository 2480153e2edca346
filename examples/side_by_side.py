"""Several agents at once, each on its own copy of a directory; who changed what, and at what cost.

python side_by_side.py [AGENT ...]
"""

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

import tieline
from tieline.events import Diff, Done

PROMPT = "Add a greeting script and run it."


async def main(agents: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder, "original")
        original.mkdir()
        (original / "README.md").write_text("# A small project\n")
        jobs: list[tieline.Job] = []
        for number, agent in enumerate(agents, 1):
            copy = Path(folder, f"{agent}-{number}")
            shutil.copytree(original, copy)
            jobs.append(tieline.Job(agent, PROMPT, name=copy.name, options={"cwd": copy}))
        changed: dict[str, set[str]] = {job.name: set() for job in jobs}
        async for name, event in tieline.run_parallel(jobs, policy="full"):
            match event:
                case Diff(paths=paths):
                    changed[name].update(paths)
                case Done():
                    print(f"{name:20} {event.status:10} {event.duration_s:6.2f} s  changed {sorted(changed[name])}")
                case _:
                    pass


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or ["scripted", "scripted", "scripted"]))
