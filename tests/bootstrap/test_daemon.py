"""Up, status, down: real processes, in an environment from scratch."""

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from tests.mesh.mcp_clients import bridge, call

from tieline import paths
from tieline.bootstrap.process_lock import running_pid
from tieline.node.hub_credentials import read_link_status
from tieline.script import Run, Say
from tieline.testing.cli_process import CliProcess
from tieline.testing.wait_for import at_work_in, eventually

WAIT_S = 90.0
"""For one start or end, however busy the machine is."""

pytestmark = pytest.mark.slow


class Machine(CliProcess):
    """A command line with a state directory of its own."""

    def tieline(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return self.run(*arguments, timeout=WAIT_S)

    def up(self, *more: str) -> str:
        """Start it; its address."""
        ended = self.tieline("up", "--port", "0", *more)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        match = re.search(r"Tieline is at (http://127\.0\.0\.1:\d+)", ended.stdout)
        assert match and f"{match[1]}/#login=" in ended.stdout, ended.stdout
        return match[1]

    def holder(self) -> int:
        return running_pid(self.env)

    def kill(self) -> None:
        if pid := self.holder():
            os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + WAIT_S
            while self.holder() and time.monotonic() < deadline:
                time.sleep(0.02)


@pytest.fixture
def machine(tmp_path: Path) -> Generator[Machine]:
    machine = Machine(tmp_path / "machine")
    try:
        yield machine
    finally:
        machine.kill()


def test_up_status_down(machine: Machine) -> None:
    assert machine.tieline("status").returncode == 1
    url = machine.up()
    running, socket = paths.running_file(machine.env), paths.socket_file(machine.env)
    for file in (running, socket, socket.parent, paths.log_file(machine.env), paths.bus_file(machine.env)):
        assert file.stat().st_mode & 0o077 == 0, file
    about = json.loads(running.read_text())
    assert about["url"] == url and about["pid"] == machine.holder() and about["node"] and about["version"]
    status = machine.tieline("status", "--json")
    assert status.returncode == 0, status.stderr
    report = json.loads(status.stdout)
    assert report["running"] and report["url"] == url and report["sessions"] == report["asks"] == 0
    assert [(node["online"], node["local"]) for node in report["nodes"]] == [(True, True)]
    assert url in machine.tieline("status").stdout
    again = machine.tieline("up")
    assert again.returncode == 0 and "runs here already" in again.stdout and url in again.stdout
    port = url.rpartition(":")[2]
    assert machine.tieline("up", "--host", "127.0.0.1", "--port", port).returncode == 0, "it is as it was asked for"
    for other in (["--nats"], ["--host", "0.0.0.0"], ["--port", "1"], ["--bus", "nats://127.0.0.1:1"]):
        refused = machine.tieline("up", *other)
        assert refused.returncode == 1 and f"without {' '.join(other)}" in refused.stderr, refused
        assert "tieline down" in refused.stderr and "#login=" not in refused.stdout
    pair = machine.tieline("pair", "--node")
    assert f"tieline node join '{url}/#pair=" in pair.stdout
    secret = pair.stdout.partition("#pair=")[2].partition("'")[0]
    assert secret and secret not in paths.log_file(machine.env).read_text()
    machine.configure("polcy = 'ask'\n")
    status = machine.tieline("status")
    assert status.returncode == 1 and url in status.stdout and "polcy: unknown key" in status.stdout
    assert "polcy" in json.loads(machine.tieline("status", "--json").stdout)["config_problem"]
    down = machine.tieline("down")
    assert down.returncode == 0 and "ended" in down.stdout, "a mistake in the configuration keeps nobody from ending it"
    Path(machine.env["TIELINE_CONFIG"]).write_text("")
    assert not running.exists() and not socket.exists() and not machine.holder()
    assert machine.tieline("status").returncode == 1
    assert "Nothing is running here" in machine.tieline("down").stdout


def test_up_join_leave_and_down_for_programs(tmp_path: Path, machine: Machine) -> None:
    def json_of(at: Machine, *words: str) -> dict[str, Any]:
        ended = at.tieline(*words, "--json")
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return json.loads(ended.stdout)

    assert json_of(machine, "down") == {"pid": 0, "killed": False}
    started = json_of(machine, "hub", "--port", "0")
    assert started["pid"] == machine.holder() and not started["already"]
    assert started["login"].startswith(f"{started['url']}/#login=")
    again = json_of(machine, "up")
    assert again["already"] and again["pid"] == started["pid"] and again["login"] != started["login"]
    other = Machine(tmp_path / "other")
    try:
        joined = json_of(other, "node", "join", pairing_link(machine), "--name", "far away", "--no-run")
        assert (joined["hub"], joined["name"], joined["running"]) == (started["url"], "far away", False)
        assert json_of(other, "node", "leave") == {"hub": started["url"], "problem": ""}
    finally:
        other.kill()
    assert json_of(machine, "down") == {"pid": started["pid"], "killed": False}
    assert not machine.holder()


async def test_killed_it_leaves_nothing_behind_and_comes_up_again(machine: Machine) -> None:
    machine.agent("worker", [Say("at once"), Run("touch started; sleep 300")], [Say("done")])
    machine.up()
    sent = machine.tieline("send", "--new", "worker", "work", "--policy", "full", "--cwd", str(machine.place))
    assert sent.returncode == 0, sent.stderr
    await eventually((machine.place / "started").exists, "the agent did not begin", timeout=WAIT_S)
    assert at_work_in(machine.place)
    machine.kill()
    await eventually(lambda: not at_work_in(machine.place), "its agent goes on", timeout=WAIT_S)
    assert paths.running_file(machine.env).exists()  # it had no chance to remove it
    status = machine.tieline("status")
    assert status.returncode == 1 and "Nothing is running here" in status.stdout
    machine.up()
    sessions = json.loads(machine.tieline("sessions", "--json").stdout)
    assert [(session["agent"], session["status"]) for session in sessions] == [("worker", "failed")]
    down = machine.tieline("down")
    assert down.returncode == 0, down.stdout


async def test_down_ends_the_agents_and_starts_nothing(machine: Machine) -> None:
    machine.agent("worker", [Run("echo x >> started; [ -e again ] || exec sleep 300")], [Say("Done.")])
    machine.up()
    sent = machine.tieline("send", "--new", "worker", "work", "--policy", "full", "--cwd", str(machine.place))
    assert sent.returncode == 0, sent.stderr
    started = machine.place / "started"
    await eventually(started.exists, "the agent did not begin", timeout=WAIT_S)
    session = sent.stdout.split()[0]
    assert machine.tieline("send", session, "and then this").returncode == 0
    down = machine.tieline("down")
    assert down.returncode == 0, down.stdout
    assert f"interrupting worker ({session[-6:]}): work\n" in down.stdout
    assert "1 prompt waits for the next start\n" in down.stdout
    assert not at_work_in(machine.place) and not paths.ending_file(machine.env).exists()
    assert started.read_text() == "x\n", "what waited was begun at the end"
    (machine.place / "again").touch()
    machine.up()
    await eventually(lambda: started.read_text() == "x\nx\n", "what waited did not go on", timeout=WAIT_S)
    assert machine.tieline("down").returncode == 0


ATTACK = """
import os, signal, socket, subprocess, sys, time
from pathlib import Path

place, way, ask, tieline, *environ = sys.argv[1:]

def above(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

def named(pid):
    return Path(f"/proc/{pid}/comm").read_text().strip()

if os.fork():
    time.sleep(300)
os.setsid()
if os.fork():
    os._exit(0)
while named(os.getppid()) != "tieline-reaper":
    time.sleep(0.01)
reaper = os.getppid()
guard = above(reaper)
hub = above(guard)
os.chdir("/")
os.kill(hub, signal.SIGSTOP)  # so that nobody kills us while we write
os.kill(guard, signal.SIGKILL)
os.kill(reaper, signal.SIGKILL)
while named(os.getppid()) == "tieline-reaper":
    time.sleep(0.01)
connection = socket.socket(socket.AF_UNIX)
connection.connect(way)
head = f"POST /api/v1/asks/{ask}/answer HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 20\\r\\n\\r\\n"
connection.sendall(head.encode() + b'{"decision":"allow"}')
Path(place, "new").write_text(str(os.getpid()))
Path(place, "new").rename(Path(place, "free"))
os.kill(hub, signal.SIGCONT)
while True:
    subprocess.run([tieline, "approve", ask], env=dict(word.split("=", 1) for word in environ))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has subreapers")
async def test_an_agent_that_kills_its_reaper_and_the_guard_does_not_become_a_person(machine: Machine) -> None:
    (machine.place / "attack.py").write_text(ATTACK)
    machine.agent("asker", [Run("touch proof")], [Say("done")])
    machine.agent("attacker", [Run(". ./attack.sh")], [Say("done")])
    machine.up()
    new = ("send", "--cwd", str(machine.place), "--new")
    assert machine.tieline(*new, "asker", "work", "--policy", "ask").returncode == 0
    asks: list[dict[str, object]] = []

    def waits() -> bool:
        asks[:] = json.loads(machine.tieline("asks", "--json").stdout)
        return bool(asks)

    await eventually(waits, "it does not ask", timeout=WAIT_S)
    ask = str(asks[0]["id"])
    environ = [f"{name}={machine.env[name]}" for name in ("HOME", "PATH", "TIELINE_CONFIG")]
    words = [
        sys.executable,
        "-I",
        "attack.py",
        machine.place,
        paths.socket_file(machine.env),
        ask,
        machine.program,
        *environ,
    ]
    (machine.place / "attack.sh").write_text(shlex.join(map(str, words)))
    assert machine.tieline(*new, "attacker", "attack", "--policy", "full").returncode == 0
    free = machine.place / "free"
    await eventually(free.exists, "the attack did not begin", timeout=WAIT_S)
    await eventually(lambda: not Path("/proc", free.read_text()).exists(), "it lives on", timeout=WAIT_S)
    assert [pending["id"] for pending in json.loads(machine.tieline("asks", "--json").stdout)] == [ask]
    assert not (machine.place / "proof").exists()
    assert machine.tieline("approve", ask).returncode == 0, "a person is not refused"
    await eventually((machine.place / "proof").exists, "the agent does not go on", timeout=WAIT_S)
    assert machine.tieline("down").returncode == 0


def test_why_it_does_not_come_up(machine: Machine) -> None:
    beyond = machine.tieline("up", "--port", "0", "--host", "0.0.0.0")
    assert beyond.returncode != 0 and "--insecure" in beyond.stderr
    paths.bus_file(machine.env).write_text("this is no bus file, and never was one " * 100)
    broken = machine.tieline("up", "--port", "0")
    assert broken.returncode != 0 and "not a bus file" in broken.stderr
    assert not machine.holder()


def test_in_the_foreground(machine: Machine) -> None:
    process = machine.start("up", "--foreground", "--port", "0")
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"Tieline is at http://127.0.0.1:")
        second = machine.tieline("up", "--foreground", "--port", "0")
        assert second.returncode == 1 and "already runs" in second.stderr
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.communicate()


def test_on_a_terminal_there_is_a_code_to_scan_where_a_phone_can_follow_it(machine: Machine) -> None:
    with machine.terminal("up", "--port", "0", rows=80) as terminal:
        terminal.expect("/#login=", timeout=WAIT_S)
        terminal.expect("`tieline phone` lets a phone in", timeout=WAIT_S)
        assert terminal.wait(WAIT_S) == 0
        assert "█" not in terminal.text
    machine.tieline("down")
    machine.configure('[hub]\npublic_url = "https://hub.example"\n')
    with machine.terminal("up", "--port", "0", rows=80) as terminal:
        terminal.expect("https://hub.example/#login=", timeout=WAIT_S)
        terminal.expect("█", timeout=WAIT_S)
        assert terminal.wait(WAIT_S) == 0
    machine.tieline("down")


def await_state(machine: Machine, state: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while read_link_status(machine.env).state != state and time.monotonic() < deadline:
        time.sleep(0.02)


def pairing_link(machine: Machine) -> str:
    match = re.search(r"'(http://\S+#pair=\S+)'", machine.tieline("pair", "--node").stdout)
    assert match
    return match[1]


def test_two_machines(tmp_path: Path, machine: Machine) -> None:
    """A hub alone, and another machine that joins it, leaves it, and cannot come back."""
    other = Machine(tmp_path / "other")
    other.agent("bot", [Say("from afar")])
    try:
        hub = machine.tieline("hub", "--port", "0")
        assert hub.returncode == 0, hub.stderr
        link = pairing_link(machine)
        assert other.tieline("node", "status").returncode == 1
        joined = other.tieline("node", "join", link, "--name", "far away")
        assert joined.returncode == 0, joined.stdout + joined.stderr
        assert paths.node_file(other.env).stat().st_mode & 0o077 == 0
        used = other.tieline("node", "join", link)
        assert used.returncode == 2 and "joined to a hub already" in used.stderr
        await_state(other, "joined")
        status = other.tieline("node", "status", "--json")
        assert status.returncode == 0 and json.loads(status.stdout)["state"] == "joined"
        answer = machine.tieline(
            "send", "--new", "bot", "hello", "--cwd", str(other.place), "--policy", "full", "--wait"
        )
        assert "from afar" in answer.stdout, answer.stderr
        left = other.tieline("node", "leave")
        assert left.returncode == 0, left.stdout
        assert not paths.node_file(other.env).exists()
        again = other.tieline("node", "join", link)
        assert again.returncode != 0 and "used" in again.stderr
    finally:
        other.kill()


def test_what_runs_already_joins_and_leaves_at_once(tmp_path: Path, machine: Machine) -> None:
    """`tieline up` runs on a machine that becomes a node of another hub: the same process is its node."""
    other = Machine(tmp_path / "other")
    other.agent("bot", [Say("from afar")])
    try:
        machine.up()
        other.up()
        up = other.holder()
        joined = other.tieline("node", "join", pairing_link(machine), "--name", "far away")
        assert joined.returncode == 0 and "is a node there now" in joined.stdout, joined.stdout + joined.stderr
        await_state(other, "joined")
        assert other.tieline("node", "status").returncode == 0
        nodes = {node["name"]: node["id"] for node in json.loads(machine.tieline("status", "--json").stdout)["nodes"]}
        assert len(nodes) == 2
        sent = ("send", "--new", "bot", "hello", "--node", nodes["far away"], "--cwd", str(other.place))
        answer = machine.tieline(*sent, "--policy", "full", "--wait")
        assert "from afar" in answer.stdout, answer.stderr
        left = other.tieline("node", "leave")
        assert left.returncode == 0, left.stdout
        assert json.loads(other.tieline("node", "status", "--json").stdout)["joined"] is False
        again = other.tieline("node", "join", pairing_link(machine))
        assert again.returncode == 0, again.stdout + again.stderr
        await_state(other, "joined")
        assert other.tieline("node", "status").returncode == 0
        assert other.holder() == up
    finally:
        other.kill()


# --- another bus than the configured one, and harnesses --------------------------------------------------------


def test_a_bus_named_at_the_start_counts(machine: Machine, tmp_path: Path) -> None:
    machine.up("--bus", f"sqlite://{tmp_path}/other.db")
    assert (tmp_path / "other.db").exists() and not paths.bus_file(machine.env).exists()
    assert machine.tieline("down").returncode == 0
    for wrong, message in (
        (("--bus", "redis://x"), "bus URL scheme 'redis'"),
        (("--bus", "nats://x", "--nats"), "exclude"),
    ):
        ended = machine.tieline("up", *wrong)
        assert ended.returncode == 2 and message in ended.stderr


async def test_a_nats_server_of_its_own_is_kept_and_ends_with_it(machine: Machine) -> None:
    machine.agent("talker", [Say("hello")])
    machine.up("--nats")
    folder = paths.state(machine.env) / "nats"
    assert (folder / "server.conf").stat().st_mode & 0o077 == 0

    def server() -> int:
        return next(iter(processes_of(str(folder / "server.conf"))), 0)

    first = server()
    assert first and "hello" in machine.tieline("run", "talker", "say hello").stdout
    os.kill(first, signal.SIGKILL)
    await eventually(lambda: server() not in (0, first), "it was not started again", timeout=WAIT_S)
    assert "hello" in machine.tieline("run", "talker", "say hello").stdout, "the hub goes on with it"
    assert machine.tieline("down").returncode == 0
    assert server() == 0
    machine.up("--nats")
    assert len(json.loads(machine.tieline("sessions", "--json").stdout)) == 2, "what was stored is there again"
    machine.kill()
    await eventually(lambda: server() == 0, "it outlived a killed hub", timeout=WAIT_S)


async def test_members_exchange_messages_over_a_nats_server_of_its_own(machine: Machine) -> None:
    machine.up("--nats")
    server = str(paths.state(machine.env) / "nats" / "server.conf")
    async with AsyncExitStack() as stack:
        ada, bob = [await stack.enter_async_context(Client(stdio_client(bridge(machine.env, each)))) for each in "ab"]
        for name, client in (("ada", ada), ("bob", bob)):
            await call(client, "register_agent", name=name)
        waiting = asyncio.create_task(call(bob, "wait_for_messages", timeout_s=60))
        sent = await call(ada, "send_message", to="bob", text="the first")
        (message,) = (await waiting)["messages"]
        assert "the first" in message["text"]
        await call(bob, "reply", message_id=sent["id"], text="the answer")
        (answer,) = (await call(ada, "wait_for_messages", timeout_s=60))["messages"]
        assert answer["in_reply_to"] == sent["id"]
        (first,) = processes_of(server)
        os.kill(first, signal.SIGKILL)
        long = await call(ada, "send_message", to="bob", text="x" * 400_000)
        (message,) = (await call(bob, "wait_for_messages", timeout_s=60))["messages"]
        assert message["id"] == long["id"]
        left = await call(ada, "send_message", to="bob", text="for later")
    assert machine.tieline("down").returncode == 0
    machine.up("--nats")
    async with Client(stdio_client(bridge(machine.env, "b"))) as bob:
        (message,) = (await call(bob, "fetch_messages"))["messages"]
        assert message["id"] == left["id"] and message["sender"] == "ada"
        await call(bob, "heartbeat")
    async with Client(stdio_client(bridge(machine.env, "a"))) as ada:
        assert (await call(ada, "message_status", message_id=left["id"]))["state"] == "seen"


def processes_of(word: str) -> list[int]:
    pids: list[int] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:  # it is gone
            continue
        if word.encode() in words and words[0].endswith(b"nats-server"):
            pids.append(int(entry.parent.name))
    return pids


def test_up_names_the_harnesses_without_tieline(machine: Machine) -> None:
    (Path(machine.env["HOME"]) / ".codex").mkdir()
    output = machine.tieline("up", "--port", "0").stdout
    assert "Harnesses here without Tieline: codex. `tieline install` puts it into them." in output
    assert machine.tieline("down").returncode == 0
    assert machine.tieline("install", "codex").returncode == 0
    assert "Harnesses" not in machine.tieline("up", "--port", "0").stdout
