"""Only a person answers, with the real agents: a command that was allowed once leaves something behind, which does all
it can to allow the next one."""

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.workers import worker

from tieline import config as configuration
from tieline.bootstrap.daemon import hub_on
from tieline.bootstrap.process_lock import running_file
from tieline.client import Client, connect
from tieline.client.hub_address import RunningHub
from tieline.events import AnyEvent, Done, Init, ToolResult
from tieline.policy import Policy
from tieline.protocol.request_bodies import Decision, NewSession
from tieline.script import Run, Say
from tieline.sessions.records import AskRecord
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.real, pytest.mark.skipif(sys.platform != "linux", reason="agents have reapers on Linux")]

TIELINE = Path(sys.executable).parent / "tieline"
WORK_S = 90.0

TRIES = """
import json, os, re, socket, subprocess, sys, time, urllib.error, urllib.request
from pathlib import Path

state, url, *more = sys.argv[1:]

def by_key(key):
    request = urllib.request.Request(url + "/api/v1/asks", headers={"Authorization": "Bearer " + key})
    try:
        return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30).status
    except urllib.error.HTTPError as error:
        return error.code

def content(file):
    try:
        return Path(file).read_bytes()
    except OSError:  # a socket, or what the hub has just replaced
        return b""

def by_keys():
    words = {""}
    for folder, _, files in os.walk(state):
        for file in files:
            found = re.findall(rb"tl_[A-Za-z0-9_-]{40,}|\\b[A-Za-z0-9_-]{43}\\b", content(os.path.join(folder, file)))
            words.update(word.decode() for word in found)
    return sorted({by_key(word) for word in sorted(words)[:200]})

def by_socket(method, path, body):
    data = json.dumps(body).encode()
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(state + "/own/hub.sock")
        head = f"{method} /api/v1/{path} HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: {len(data)}\\r\\n\\r\\n"
        one.sendall(head.encode() + data)
        return one.recv(64).split()[1].decode()
"""
"""What an agent can try with the files that it may read, and with the owner's socket."""

LEFT = """
tieline, said = more
asked = Path(said).with_name("asked")
Path(said).with_name("detached").touch()

def say(*words):
    print(*words, file=open(said, "a"), flush=True)

say("keys", by_keys())
while not asked.exists():
    time.sleep(0.05)
ask = asked.read_text()
say("socket", by_socket("POST", f"asks/{ask}/answer", {"decision": "allow"}))
while True:
    ended = subprocess.run([tieline, "approve", ask], env={"TIELINE_HOME": state}, capture_output=True, text=True)
    say("approve", ended.returncode, ended.stdout, ended.stderr, "end")
"""

DENIED = """
session, cwd = more
print("keys", by_keys())
print("policy", by_socket("PATCH", "sessions/" + session, {"policy": "full"}))
new = {"agent": "writer", "cwd": cwd, "policy": "full", "prompt": "write it"}
print("start", by_socket("POST", "sessions", new))
try:
    Path(cwd, "proof").write_text("written")
except OSError:
    print("write refused")
"""


@pytest.fixture(params=["claude-code", "codex"])
async def agent(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[tuple[Any, str], None]:
    async with worker(request.param, tmp_path / "home") as opened:
        yield opened


async def next_ask(client: Client, *known: str) -> AskRecord:
    async with asyncio.timeout(WORK_S):
        while not (asks := [ask for ask in await client.asks() if ask.id not in known]):  # noqa: ASYNC110 (at the hub)
            await asyncio.sleep(0.05)
    return asks[0]


async def turn(client: Client, session: str) -> list[AnyEvent]:
    """All events of the session's first turn, once it is over."""
    async with asyncio.timeout(WORK_S):
        while True:
            events = [frame.event for frame in (await client.events(session)).events]
            if any(isinstance(event, Done) for event in events):
                return events
            await asyncio.sleep(0.05)


async def test_what_a_command_left_behind_allows_nothing(agent: tuple[Any, str], tmp_path: Path) -> None:
    rig, entry = agent
    folder, state, report = tmp_path / "place", tmp_path / "state", tmp_path / "said"
    folder.mkdir()
    (tmp_path / "t.toml").write_text(f"[hub]\nport = 0\n{entry}")
    (tmp_path / "left.py").write_text(TRIES + LEFT)
    own = {"TIELINE_HOME": str(state), "TIELINE_CONFIG": str(tmp_path / "t.toml")}
    rig.play([Run("sh ./test.sh")], [Run("touch proof")], [Say("As you wish.")])
    async with hub_on(configuration.load(environ={**rig.options["env"], **own})) as (_, serving):
        words = [sys.executable, "-I", tmp_path / "left.py", state, serving.url, TIELINE, report]
        left = shlex.join(map(str, words))
        detached = shlex.quote(str(tmp_path / "detached"))  # until then an agent may end it with the command
        (folder / "test.sh").write_text(
            f"setsid env -i {left} </dev/null >/dev/null 2>&1 &\n"
            f"until test -e {detached}; do sleep 0.05; done\necho passed\n"
        )
        with running_file(own, RunningHub(serving.url, os.getpid(), socket=serving.socket)):
            async with connect(own) as person:
                made = NewSession(agent="worker", cwd=str(folder), policy="ask", prompt="run the tests")
                session = await person.create_session(made)
                first = await next_ask(person)
                await person.answer(first.id, Decision(decision="allow", digest=first.digest))
                second = await next_ask(person, first.id)
                (tmp_path / "new").write_text(second.id)
                (tmp_path / "new").rename(tmp_path / "asked")
                await eventually(
                    lambda: report.exists() and "end" in report.read_text(), "it never tried", timeout=WORK_S
                )
                tried = report.read_text()
                assert "keys [401]" in tried, "nothing on the disk opens the hub"
                assert "socket 403" in tried, tried
                assert "approve 1 " in tried and "only a person" in tried, tried
                assert (await person.ask(second.id)).status == "pending"
                await person.answer(second.id, Decision(decision="deny", digest=second.digest, reason="no"))
                await turn(person, session.id)
                answers = [(await person.ask(id)).answer for id in (first.id, second.id)]
    assert not (folder / "proof").exists()
    assert [(answer.by, answer.via.split()[0], answer.decision) for answer in answers if answer] == [
        ("owner", "pid", "allow"),
        ("owner", "pid", "deny"),
    ]


async def test_a_codex_that_may_write_nothing_writes_nothing_through_the_hub(tmp_path: Path) -> None:
    """Its commands run unasked in a read-only sandbox with network; they read every file and reach the hub."""
    folder, state = tmp_path / "place", tmp_path / "state"
    folder.mkdir()
    (tmp_path / "writer.json").write_bytes(msgspec.json.encode([[Run("touch proof")]]))
    (tmp_path / "denied.py").write_text(TRIES + DENIED)
    own = {"TIELINE_HOME": str(state), "TIELINE_CONFIG": str(tmp_path / "t.toml")}
    async with worker("codex", tmp_path / "home") as (rig, entry):
        writer = f'[agents.writer]\ntype = "scripted"\nscript = "{tmp_path / "writer.json"}"\n'
        (tmp_path / "t.toml").write_text(f"[hub]\nport = 0\n{entry}{writer}")
        config = configuration.load(environ={**rig.options["env"], **own})
        async with hub_on(config) as (_, serving), Client(serving.url, socket=serving.socket) as person:
            policy = Policy(file_write="deny", shell="allow", network="allow")
            session = await person.create_session(NewSession(agent="worker", cwd=str(folder), policy=policy))
            words = [sys.executable, "-I", tmp_path / "denied.py", state, serving.url, session.id, folder]
            rig.play([Run(shlex.join(map(str, words)))], [Say("Tried.")])
            await person.prompt(session.id, "write it")
            events = await turn(person, session.id)
            (receipt,) = [event.receipt for event in events if isinstance(event, Init)]
            assert receipt and (receipt.file_write.level, receipt.file_write.means) == ("deny", "sandbox")
            (output,) = [event.output for event in events if isinstance(event, ToolResult)]
            assert output.splitlines()[-4:] == ["keys [401]", "policy 403", "start 403", "write refused"]
            assert [listed.id for listed in await person.sessions()] == [session.id]
    assert not (folder / "proof").exists()
