"""`run_as`: an agent as another user, whom the system itself keeps from the hub."""

import asyncio
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hub.conftest import Running, running

from tieline.cli.commands.agent_reports import plain_lines, probe_agents
from tieline.config import Config
from tieline.drivers import registry
from tieline.drivers.run_as import chown_to_run_as
from tieline.events import Done, Init
from tieline.policy import Receipt
from tieline.processes import process_table, spawn
from tieline.processes.ancestry import agent_ancestor
from tieline.processes.async_process import Process
from tieline.testing.wait_for import eventually

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root can start a program as another user"
)
NOBODY = "nobody"
USER = pwd.getpwnam(NOBODY)

AGENT = r"""
say() { echo "$1=$2"; }
say uid "$(id -ru) $(id -u)"; say groups "$(id -G)"; say user "$USER $LOGNAME"; say home "$HOME"
say ours "$(env | grep -E '^(TIELINE_(HOME|RUN_AS)|XDG_)')"
say caps "$(grep CapEff /proc/self/status)"
say state "$(ls STATE 2>&1)"; say file "$(cat STATE/kept 2>&1)"
say kill "$(kill -0 $PPID 2>&1)"; say hub "$(kill -0 HUB 2>&1)"
say steer "$(cat /proc/$PPID/environ 2>&1)"
say connect "$(perl CONNECT SOCKET 2>&1)"
echo spoken > /dev/stderr && say stderr open
setsid env -i /bin/sh -c 'trap "" TERM HUP; echo $$ > WORK/orphan.new; mv WORK/orphan.new WORK/orphan
  while :; do sleep 300; done' < /dev/null > /dev/null 2>&1 &
while [ ! -e WORK/on ]; do sleep 0.05; done
say again "$(perl CONNECT SOCKET 2>&1 | tr '\r\n' '  ')"
"""
CONNECT = r"""
use Socket;
socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die;
connect($s, pack_sockaddr_un($ARGV[0])) or die "no: $!\n";
syswrite($s, "GET /api/v1/asks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
print while <$s>;
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that everybody may pass through: what is kept from the agent is kept by its own mode."""
    path = Path(tempfile.mkdtemp(prefix="tl-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def agent(script: Path, **more: Any) -> Config:
    mine = {"type": "shell", "command": ["/bin/sh", str(script), "{prompt}"], "run_as": NOBODY, **more}
    return Config(agents={"mine": mine}, environ={"PATH": "/usr/bin:/bin"})


def owner(pid: int) -> int:
    return int(re.findall(r"^Uid:\t(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[0])


@pytest.mark.slow
async def test_the_system_keeps_it_from_the_hub(folder: Path) -> None:
    work, state = folder / "work", folder / "state"
    work.mkdir()
    shutil.chown(work, NOBODY)
    (folder / "connect.pl").write_text(CONNECT)
    script = folder / "agent.sh"
    async with running(folder, drivers={"mine": registry.create("mine", agent(script))}) as hub:
        replacements = {"STATE": state, "WORK": work, "HUB": os.getpid(), "CONNECT": folder / "connect.pl"}
        command = AGENT.replace("SOCKET", hub.serving.socket)
        for name, value in replacements.items():
            command = command.replace(name, str(value))
        script.write_text(command)
        (state / "kept").write_text("a secret")
        session = (await hub.session(agent="mine"))["id"]
        begun = await hub.client.post(f"/api/v1/sessions/{session}/prompts", json={"text": "work"})
        assert begun.status_code == 201, begun.text
        await eventually((work / "orphan").exists, "it does not run", timeout=60)
        orphan = int((work / "orphan").read_text())
        (reaper,) = [pid for pid, mark in spawn.reapers().items() if mark == agent_ancestor(orphan)]
        assert (owner(reaper), owner(orphan)) == (0, USER.pw_uid)
        # Were the modes not there, the kernel would still say whose process it is.
        for path in (state, Path(hub.serving.socket).parent, Path(hub.serving.socket)):
            path.chmod(0o777)
        (work / "on").touch()
        receipt, facts = await turn(hub, session)
    assert facts["uid"] == f"{USER.pw_uid} {USER.pw_uid}"
    assert facts["groups"] == str(USER.pw_gid), "none of root's"
    assert facts["caps"].endswith("0000000000000000")
    assert (facts["user"], facts["home"], facts["ours"]) == (f"{NOBODY} {NOBODY}", USER.pw_dir, "")
    for refused in ("state", "file", "steer", "connect"):
        assert "Permission denied" in facts[refused], facts
    for refused in ("kill", "hub"):
        assert "not permitted" in facts[refused], facts
    assert facts["stderr"] == "open"
    assert " 403 " in facts["again"] and "for the user who runs the hub" in facts["again"]
    assert receipt is not None
    (remains,) = receipt.remains
    assert f"runs as the user {NOBODY}" in remains and "Tieline's files" in remains
    left = process_table.process_info(orphan)
    assert left is None or left.over, "nothing of it is left"


async def turn(hub: Running, session: str) -> tuple[Receipt | None, dict[str, str]]:
    """Its receipt, and what it said, once it is over."""
    receipt: Receipt | None = None
    async with asyncio.timeout(60):
        async for entry in hub.manager.events(session):
            if isinstance(entry.event, Init):
                receipt = entry.event.receipt
            if isinstance(entry.event, Done):
                facts = dict(line.split("=", 1) for line in entry.event.text.splitlines() if "=" in line)
                return receipt, facts
    raise AssertionError("it has no end")


async def test_what_it_cannot_enter_or_start_is_told(folder: Path) -> None:
    locked = folder / "locked"
    locked.mkdir(mode=0o700)
    program = folder / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    env = {"PATH": "/usr/bin:/bin", process_table.RUN_AS: NOBODY}
    for argv, cwd, at in (("/bin/true", locked, locked), (str(program), folder, program)):
        with pytest.raises(PermissionError, match=f"for {NOBODY}, who runs this agent") as caught:
            Process.start([argv], cwd=cwd, env=env)
        assert caught.value.filename == str(at)
    with pytest.raises(OSError, match="no such user"):
        Process.start(["/bin/true"], cwd=folder, env={**env, process_table.RUN_AS: "no-such-user"})


def test_what_is_written_for_it_is_its_own(folder: Path) -> None:
    file = folder / "settings"
    file.write_text("{}")
    chown_to_run_as({}, str(file))
    assert file.stat().st_uid == 0
    chown_to_run_as({process_table.RUN_AS: NOBODY}, str(file))
    assert file.stat().st_uid == USER.pw_uid


async def test_it_is_tried_as_that_user(folder: Path) -> None:
    """`tieline agents` starts its program: one that the user could have changed is not for root to run."""
    script = folder / "agent.sh"
    script.write_text("echo 1.2.$(id -u)")
    config = agent(script, version_args=["/bin/sh", str(script)], command=["/usr/bin/env"])
    (report,) = await probe_agents(["mine"], config)
    assert (report.version, report.run_as, report.problem) == (f"1.2.{USER.pw_uid}", NOBODY, "")
    assert f"runs as {NOBODY}" in "\n".join(plain_lines([report]))


def test_no_group_of_ours_is_kept() -> None:
    code = (
        "from tieline.processes.spawn import spawn\n"
        "one = spawn(['/usr/bin/id', '-G'], cwd='/', env={'TIELINE_RUN_AS': 'nobody'})\n"
        "one.child.wait(60)\n"
        "print(one.child.stdout.read().decode())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], extra_groups=[0, 4242], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.split() == [str(USER.pw_gid)]
