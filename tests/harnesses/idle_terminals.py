"""Idle sessions of Claude Code with a history, as its files tell of them; in place of the program there are processes
that do nothing. Where many are needed, real ones take more memory than there is."""

import os
import re
import subprocess
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tieline.processes.process_table import process_info


@contextmanager
def idle_terminals(root: Path, count: int, transcript: Callable[[str], bytes]) -> Generator[list[Path], None, None]:
    """Gives the transcripts; `transcript` is the text of a session's, by its id. The home is `root / "home"`."""
    home, project = root / "home" / ".claude", root / "project"
    transcripts = home / "projects" / re.sub(r"[^a-zA-Z0-9]", "-", str(project))
    for folder in (home / "sessions", transcripts, project):
        folder.mkdir(parents=True)
    processes: list[subprocess.Popen[bytes]] = []
    paths: list[Path] = []
    try:
        for _ in range(count):
            id = str(uuid.uuid4())
            paths.append(transcripts / f"{id}.jsonl")
            paths[-1].write_bytes(transcript(id))
            processes.append(subprocess.Popen(["sleep", "infinity"], env={"PATH": os.defpath}))
            pid = processes[-1].pid
            info = process_info(pid)
            assert info is not None
            record = {
                "pid": pid,
                "sessionId": id,
                "cwd": str(project),
                "startedAt": time.time() * 1000,
                "procStart": str(info.start),
                "kind": "interactive",
                "entrypoint": "cli",
                "messagingSocketPath": str(root / "cc-socks" / f"{pid}.sock"),
                "status": "idle",
            }
            (home / "sessions" / f"{pid}.json").write_bytes(msgspec.json.encode(record))
        yield paths
    finally:
        for process in processes:
            process.kill()
            process.wait()
