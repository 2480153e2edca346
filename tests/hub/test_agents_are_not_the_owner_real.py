"""Only a person answers, with the real agents: a command that was allowed once leaves something behind, which does all
it can to allow the next one."""

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tieline import config as configuration
from tieline.client import Client, connect
from tieline.client.address import Running
from tieline.daemon import hub_on
from tieline.node.starting import described
from tieline.protocol.bodies import Decision, NewSession
from tieline.script import Run, Say
from tieline.sessions.records import AskRecord
from tieline.testing.rigs.claude_code import ClaudeCodeRig
from tieline.testing.rigs.codex import codex_rig
from tieline.testing.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.skipif(sys.platform != "linux", reason="agents have reapers on Linux")]

CODEX = Path(__file__).parents[1] / "agents/node_modules/.bin/codex"
TIELINE = Path(sys.executable).parent / "tieline"
WORK_S = 90.0

LEFT = """
import re, socket, subprocess, sys, time, urllib.error, urllib.request
from pathlib import Path

state, url, tieline, said = sys.argv[1:]
asked = Path(said).with_name("asked")

def say(*words):
    print(*words, file=open(said, "a"), flush=True)

def by_key(key):
    request = urllib.request.Request(url + "/api/v1/asks", headers={"Authorization": "Bearer " + key})
    try:
        return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30).status
    except urllib.error.HTTPError as error:
        return error.code

def by_socket(ask):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(state + "/own/hub.sock")
        head = f"POST /api/v1/asks/{ask}/answer HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 20\\r\\n\\r\\n"
        one.sendall(head.encode() + b'{"decision":"allow"}')
        return one.recv(64).split()[1].decode()

words = {""}
for file in Path(state).rglob("*"):
    if file.is_file():
        found = re.findall(rb"tl_[A-Za-z0-9_-]{40,}|\\b[A-Za-z0-9_-]{43}\\b", file.read_bytes())
        words.update(word.decode() for word in found)
say("keys", sorted({by_key(word) for word in sorted(words)[:200]}))
while not asked.exists():
    time.sleep(0.05)
ask = asked.read_text()
say("socket", by_socket(ask))
while True:
    ended = subprocess.run([tieline, "approve", ask], env={"TIELINE_HOME": state}, capture_output=True, text=True)
    say("approve", ended.returncode, ended.stdout, ended.stderr, "end")
"""


@pytest.fixture(params=["claude-code", "codex"])
async def agent(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[tuple[Any, str], None]:
    rig: AbstractAsyncContextManager[Any] = ClaudeCodeRig(tmp_path / "home")
    entry = '[agents.worker]\ntype = "claude-code"\n'
    if request.param == "codex":
        rig = codex_rig(tmp_path / "home", CODEX)
        entry = f'[agents.worker]\ntype = "codex"\ncommand = ["{CODEX}"]\n'
    async with rig as opened:
        yield opened, entry


async def next_ask(client: Client, *known: str) -> AskRecord:
    async with asyncio.timeout(WORK_S):
        while not (found := [one for one in await client.asks() if one.id not in known]):  # noqa: ASYNC110 (at the hub)
            await asyncio.sleep(0.05)
    return found[0]


async def test_what_a_command_left_behind_allows_nothing(agent: tuple[Any, str], tmp_path: Path) -> None:
    rig, entry = agent
    place, state, said = tmp_path / "place", tmp_path / "state", tmp_path / "said"
    place.mkdir()
    (tmp_path / "t.toml").write_text(f"[hub]\nport = 0\n{entry}")
    (tmp_path / "left.py").write_text(LEFT)
    own = {"TIELINE_HOME": str(state), "TIELINE_CONFIG": str(tmp_path / "t.toml")}
    rig.play([Run("sh ./test.sh")], [Run("touch proof")], [Say("As you wish.")])
    async with hub_on(configuration.load(environ={**rig.options["env"], **own})) as (_, serving):
        words = [sys.executable, "-I", tmp_path / "left.py", state, serving.url, TIELINE, said]
        left = shlex.join(map(str, words))
        (place / "test.sh").write_text(f"setsid env -i {left} </dev/null >/dev/null 2>&1 &\necho passed\n")
        with described(own, Running(serving.url, os.getpid(), socket=serving.socket)):
            async with connect(own) as person:
                made = NewSession(agent="worker", cwd=str(place), policy="ask", prompt="run the tests")
                session = await person.create_session(made)
                first = await next_ask(person)
                await person.answer(first.id, Decision(decision="allow", digest=first.digest))
                second = await next_ask(person, first.id)
                (tmp_path / "new").write_text(second.id)
                (tmp_path / "new").rename(tmp_path / "asked")
                await eventually(lambda: said.exists() and "end" in said.read_text(), "it never tried", timeout=WORK_S)
                tried = said.read_text()
                assert "keys [401]" in tried, "nothing on the disk opens the hub"
                assert "socket 403" in tried, tried
                assert "approve 1 " in tried and "only a person" in tried, tried
                assert (await person.ask(second.id)).status == "pending"
                await person.answer(second.id, Decision(decision="deny", digest=second.digest, reason="no"))

                async def rests() -> bool:
                    return (await person.session(session.id)).status not in ("working", "waiting")

                async with asyncio.timeout(WORK_S):
                    while not await rests():  # noqa: ASYNC110 (at the hub)
                        await asyncio.sleep(0.05)
                answers = [(await person.ask(id)).answer for id in (first.id, second.id)]
    assert not (place / "proof").exists()
    assert [(one.by, one.via.split()[0], one.decision) for one in answers if one] == [
        ("owner", "pid", "allow"),
        ("owner", "pid", "deny"),
    ]
