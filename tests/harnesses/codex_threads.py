"""Idle threads of Codex with a long history: its own daemon has them loaded, and one client of it stands for their
terminals. The histories hold what Codex itself wrote in one conversation, over and over, with ids of their own. Where
many are needed, real terminals take more memory than there is."""

import json
import os
import re
import subprocess
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from msgspec import Struct
from tests.harnesses.desk import BINARIES
from websockets.sync.client import ClientConnection, unix_connect

from tieline.harnesses.codex.terminal import PAGE
from tieline.script import Run, Say
from tieline.testing.harness_terminals import codex_home
from tieline.testing.rig import scratch_env
from tieline.testing.wait_for import eventually

ID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
OF_THE_MODEL = re.compile(rb"(?:fc|msg|call)_resp_\d+")
NUMBER = re.compile(rb'"ordinal":\d+')
START_S = 120.0


class Conversation(Struct, frozen=True):
    """What Codex wrote of a thread with two turns."""

    file: Path  # where, below its home
    config: str
    project: str
    id: str
    begin: bytes  # until the end of its first turn
    turn: bytes

    def repeated(self, size: int, id: str, project: Path) -> tuple[bytes, int]:
        """A thread of that size at least, and how many turns it has."""
        parts, length = [self.begin], len(self.begin)
        while length < size:
            new = {self.id.encode(): self.id.encode()}
            text = ID.sub(lambda match, new=new: new.setdefault(match[0], str(uuid.uuid4()).encode()), self.turn)
            parts.append(OF_THE_MODEL.sub(lambda match, at=length: match[0] + b"_%d" % at, text))
            length += len(parts[-1])
        text = (
            b"".join(parts).replace(self.id.encode(), id.encode()).replace(self.project.encode(), os.fsencode(project))
        )
        lines = (NUMBER.sub(b'"ordinal":%d' % at, line, count=1) for at, line in enumerate(text.splitlines(True)))
        return b"".join(lines), len(parts)


async def codex_conversation(root: Path) -> Conversation:
    """One that a person has in a terminal."""
    async with codex_home(root, BINARIES) as home, home.terminal() as terminal:
        files: list[Path] = []
        for number in range(2):
            home.rig.play([Say("I look."), Run("seq 900")], [Say(f"Reply {number}. " + "word " * 200)])
            await terminal.submit(f"please look at number {number}")
            await terminal.shows(f"Reply {number}.")
            files = list((home.home / ".codex" / "sessions").rglob("*.jsonl"))
            await eventually(
                lambda: files[0].read_bytes().count(b'"task_complete"') == number + 1,  # noqa: B023
                "the turn does not end",
            )
        (file,) = files
        text = file.read_bytes()
        second = text.rindex(b"\n", 0, text.rindex(b'"task_started"')) + 1
        return Conversation(
            file=file.relative_to(home.home),
            config=(home.home / ".codex" / "config.toml").read_text(),
            project=str(home.project),
            id=ID.findall(os.fsencode(file.name))[0].decode(),
            begin=text[:second],
            turn=text[second:],
        )


class CodexThreads(Struct, frozen=True):
    turns: int  # of each
    size: int  # bytes of a history's file
    told_size: int  # bytes that the daemon tells of a history, read once


@contextmanager
def codex_threads(root: Path, conversation: Conversation, count: int, size: int) -> Generator[CodexThreads, None, None]:
    """The home is `root / "home"`."""
    home, project = root / "home", root / "project"
    env = scratch_env(home, path=f"{BINARIES}:/usr/bin:/bin", SCRIPTED_KEY="dummy")
    project.mkdir(parents=True)
    sessions = home / conversation.file.parent
    sessions.mkdir(parents=True)
    (home / ".codex" / "config.toml").write_text(conversation.config.replace(conversation.project, str(project)))
    ids = [str(uuid.uuid4()) for _ in range(count)]
    text, turns = b"", 0
    for id in ids:
        text, turns = conversation.repeated(size, id, project)
        (sessions / conversation.file.name.replace(conversation.id, id)).write_bytes(text)
    socket = home / ".codex" / "app-server-control" / "app-server-control.sock"
    daemon = subprocess.Popen(
        [str(BINARIES / "codex"), "app-server", "--listen", "unix://"],
        env=env,
        cwd=project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + START_S
        while not socket.exists():
            assert daemon.poll() is None and time.monotonic() < deadline, "the daemon of Codex does not start"
            time.sleep(0.05)
        with unix_connect(os.path.realpath(socket), "ws://localhost/", compression=None, max_queue=None) as connection:
            client = _Client(connection)
            for id in ids:
                client.request("thread/resume", threadId=id, excludeTurns=True)
            yield CodexThreads(turns, len(text), client.length_of_history(ids[0]))
    finally:
        daemon.terminate()
        daemon.wait(START_S)


class _Client:
    """A client of the daemon."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._requests = 0
        about = {"name": "terminals", "title": "Terminals", "version": "1"}
        self.request("initialize", clientInfo=about, capabilities={"experimentalApi": True})
        socket.send(json.dumps({"method": "initialized"}))

    def request(self, method: str, **params: object) -> str:
        """The whole answer."""
        self._requests += 1
        self._socket.send(json.dumps({"id": self._requests, "method": method, "params": params}))
        while True:
            text = cast("str", self._socket.recv(START_S))
            answer = json.loads(text)
            if answer.get("id") == self._requests and "method" not in answer:
                assert "result" in answer, answer
                return text

    def length_of_history(self, thread: str) -> int:
        """In characters, as it is told a few turns at a time."""
        cursor: str | None = ""
        length = 0
        while cursor is not None:
            page = {
                "limit": PAGE,
                "itemsView": "full",
                "sortDirection": "asc",
                **({"cursor": cursor} if cursor else {}),
            }
            text = self.request("thread/turns/list", threadId=thread, **page)
            length += len(text)
            cursor = json.loads(text)["result"]["nextCursor"]
        return length
