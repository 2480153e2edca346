"""The agent in a person's terminal runs as that person, and still does not answer its own asks."""

import asyncio
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.hub.conftest import Running, caller
from tests.sessions.test_attached_session import NATIVE, RecordingTerminal

from tieline.events import Answer, Ask, Command, ToolUse, TurnStarted
from tieline.hub.security.access_rules import PERSON_ONLY, TERMINAL_ONLY
from tieline.sessions.attached_session import AttachedSession
from tieline.testing.wait_for import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descent is read from /proc")

SEND = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
body = sys.argv[4].encode()
lines = [
    f"{sys.argv[2]} {sys.argv[3]} HTTP/1.1", "Host: localhost", "Connection: close", "Content-Type: application/json",
    f"Content-Length: {len(body)}",
]
connection.sendall("\\r\\n".join([*lines, "", ""]).encode() + body)
answer = b""
while more := connection.recv(65536):
    answer += more
print(answer.decode())
"""
IN_A_TERMINAL = "import pty, sys; pty.spawn(sys.argv[1:])"
Asking = tuple[AttachedSession, RecordingTerminal, str, "asyncio.Task[Answer]"]
ALLOW = '{"decision": "allow"}'


@asynccontextmanager
async def asking(hub: Running) -> AsyncGenerator[Asking, None]:
    """A session of a terminal, and its ask that waits."""
    terminal = RecordingTerminal()
    session = await hub.manager.attach("codex", NATIVE, cwd=hub.cwd, terminal=terminal)
    for event in (TurnStarted("list", "t1"), ToolUse("c1", "exec_command", Command("ls"))):
        session.tell(event)
    task = asyncio.create_task(session.ask(Ask("1", "permission", "Run ls", tool="c1", action=Command("ls")), "a1"))
    await eventually(lambda: bool(hub.manager.asks.pending()), "nothing is asked")
    (pending,) = hub.manager.asks.pending()
    await eventually(lambda: session.record.id in hub.hub.state.sessions, "the hub does not know the session")
    yield session, terminal, pending.id, task


async def run(*argv: str, terminal: RecordingTerminal | None = None) -> str:
    """What it prints; below a shell that is the harness of `terminal`, when it has one."""
    shell = ("/bin/sh", "-c", 'read go; "$@"', "sh") if terminal else ()
    process = await asyncio.create_subprocess_exec(
        *shell, *argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    if terminal:
        terminal.process = process.pid
    output, _ = await asyncio.wait_for(process.communicate(b"go\n"), 60)
    return output.decode()


async def test_what_it_starts_decides_nothing(hub: Running, tmp_path: Path) -> None:
    async with asking(hub) as (_, terminal, ask, task):
        other = (await hub.session(policy="ask"))["id"]
        send = (sys.executable, "-I", "-c", SEND, hub.serving.socket)
        bodies = {
            "pairings": '{"kind": "client"}',
            "answer": ALLOW,
            "{session}": '{"policy": "full"}',
            "{prompt}": '{"text": "remove everything"}',
        }
        for method, template in PERSON_ONLY:
            path = template.format_map(defaultdict(lambda: "x", ask=ask, session=other))
            refused = await run(*send, method, path, bodies.get(template.split("/")[-1], ""), terminal=terminal)
            assert " 403 " in refused and "from an agent in a terminal" in refused, path
        assert " 200 " in await run(*send, "GET", "/api/v1/sessions", "", terminal=terminal), "it may look"

        terminal.process = 0
        detached = await run(*send, "POST", f"/api/v1/asks/{ask}/answer", ALLOW)
        assert " 403 " in detached and "cannot tell whether a person answers" in detached
        assert not task.done()

        person = await run(sys.executable, "-c", IN_A_TERMINAL, *send, "POST", f"/api/v1/asks/{ask}/answer", ALLOW)
        assert " 200 " in person
        assert (await asyncio.wait_for(task, 30)).decision == "allow"


@pytest.mark.parametrize(("method", "template"), sorted(TERMINAL_ONLY))
async def test_what_it_detached_gets_no_lasting_power(hub: Running, method: str, template: str) -> None:
    session = (await hub.session(policy="ask"))["id"]
    path = template.format_map(defaultdict(lambda: "x", session=session))
    send = (sys.executable, "-I", "-c", SEND, hub.serving.socket, method, path)
    refusal = "cannot tell whether a person asks for this"
    assert refusal not in await run(*send, "{}"), "no agent is in a terminal"
    async with asking(hub):
        refused = await run(*send, "{}")
        assert " 403 " in refused and refusal in refused
        assert refusal not in await run(sys.executable, "-c", IN_A_TERMINAL, *send, "{}"), "a person in a terminal"


def test_it_is_for_persons_first() -> None:
    assert set(PERSON_ONLY) >= TERMINAL_ONLY


async def test_a_device_answers_from_anywhere(hub: Running) -> None:
    async with asking(hub) as (session, _, ask, task):
        async with caller(hub.url, hub.token) as phone:
            answered = await phone.post(f"/api/v1/asks/{ask}/answer", json={"decision": "deny", "reason": "not now"})
        assert answered.status_code == 200, answered.text
        assert ((await asyncio.wait_for(task, 30)).decision, session.record.kind) == ("deny", "attached")
