"""A hub in a process of its own, with an environment from scratch, as the page's tests need it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from tieline.bootstrap.process_lock import StartOptions
from tieline.bus import open_bus
from tieline.events import Event, encode
from tieline.script import Reply
from tieline.sessions.event_log import subject
from tieline.testing.fork_server import ForkedProcess, start_hub
from tieline.testing.rig import scratch_env

WAIT_S = 60.0
NAME = "hub.test"
"""By which other machines reach the hub; the tests' browser knows it."""
DEMO = Path(__file__).parents[2] / "src/tieline/cli/commands/demo.json"
GREETING = '"""Says hello."""\n\n\ndef greet(name: str) -> str:\n    return "Hello " + name\n'


class HubProcess:
    """`async with HubProcess(root) as hub`. `kill` and `start` again: the same state, the same port."""

    def __init__(
        self,
        root: Path,
        *,
        env: Mapping[str, str] | None = None,
        agents: Mapping[str, Any] | None = None,
        hosts: Sequence[str] = (NAME,),
        more: str = "",
    ):
        """`hosts`: names that others have for it. `more`: of its configuration file."""
        self.root = root
        self.repository = root / "greeter"
        self.repository.mkdir(parents=True)
        self.url = ""
        self.was_killed = False
        self._config = root / "tieline.toml"
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        self.env = {
            **(env or scratch_env(root / "home", path=path)),
            "TIELINE_CONFIG": str(self._config),
            "TIELINE_HOME": str(root / "state"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._agents = {"demo": {"type": "scripted", "script": str(DEMO)}, **(agents or {})}
        self._hosts = hosts
        self._more = more
        self._port = 0
        self._process: ForkedProcess | subprocess.Popen[bytes] | None = None
        (self.repository / "greeting.py").write_text(GREETING)
        (self.repository / "test_greeting.py").write_text("print('passed')\n")
        self._client: httpx2.AsyncClient | None = None

    def agent(self, name: str, *replies: Reply, attachments: Sequence[str] = ()) -> None:
        """An agent whose model is a script, and the media types that it takes. Before the hub starts."""
        script = self.root / f"{name}.json"
        script.write_bytes(msgspec.json.encode(replies))
        self._agents[name] = {"type": "scripted", "script": str(script), "attachments": list(attachments)}

    def listing_agent(self, name: str) -> None:
        """One that tells its models when it is asked: small and large. Before the hub starts."""
        peer = Path(__file__).parents[1] / "drivers/acp_agent.py"
        program = self.root / name
        program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec echo 1.0.0\nexec "{sys.executable}" "{peer}"\n')
        program.chmod(0o755)
        self._agents[name] = {"type": "acp", "command": [str(program)], "can.model": True}

    async def fill(self, session: str, events: Sequence[Event]) -> None:
        """Events of a session that is made later. Before the hub starts."""
        (self.root / "state").mkdir(mode=0o700, exist_ok=True)
        async with open_bus(f"sqlite://{self.root}/state/bus.db") as bus:
            for event in events:
                await bus.publish(subject(session), encode(event))

    async def __aenter__(self) -> "HubProcess":
        await asyncio.to_thread(self._commit)
        try:
            await self.start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    def _commit(self) -> None:
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost"]
        for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "first"]):
            subprocess.run([*git, *words], cwd=self.repository, env=self.env, check=True, timeout=WAIT_S)

    async def __aexit__(self, *_: object) -> None:
        await self.kill()
        if self._client is not None:
            await self._client.aclose()

    async def start(self) -> None:
        lines = ['default_agent = "demo"', "[hub]", "push_loopback = true", f"hosts = {json.dumps(self._hosts)}"]
        for name, entry in self._agents.items():
            lines += [f"[agents.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in entry.items())]
        self._config.write_text("\n".join(lines) + f"\n{self._more}")
        order, log = StartOptions(port=self._port), self.root / "out"
        self._process, started = await asyncio.to_thread(
            start_hub, order, cwd=self.root, env=self.env, log=log, timeout=WAIT_S
        )
        assert not started.problem, f"{started} {log.read_text()}"
        self.url = started.url
        self._port = int(self.url.rpartition(":")[2])
        if self._client is None:
            socket = json.loads((self.root / "state" / "hub.json").read_text())["socket"]
            way = httpx2.AsyncHTTPTransport(uds=socket, verify=False)
            self._client = httpx2.AsyncClient(base_url=f"{self.url}/api/v1/", transport=way, timeout=WAIT_S)

    async def kill(self) -> None:
        """As a machine dies: without a word."""
        process, self._process = self._process, None
        if process is None:
            return
        self.was_killed = True
        for pid in _family(process.pid):  # agents live in groups of their own
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        await asyncio.to_thread(process.wait, WAIT_S)

    # --- as another client -----------------------------------------------------------------------------------

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        assert self._client is not None
        response = await self._client.request(method, path, json=body)
        assert response.status_code < 400, response.text
        return response.json() if response.content else None

    async def answers(self, session: str) -> list[Any]:
        """The answers in a session's log: at least one, which may come a moment after the ask says that it has it."""
        async with asyncio.timeout(30):
            while True:
                events = (await self.request("GET", f"sessions/{session}/events"))["events"]
                if answers := [frame["event"] for frame in events if frame["event"]["type"] == "answer"]:
                    return answers
                await asyncio.sleep(0.05)

    async def outcomes(self, session: str) -> list[str]:
        """How its prompts ended, when none waits or runs any more: a turn's last words come a moment before its end."""
        async with asyncio.timeout(30):
            while await self.request("GET", f"sessions/{session}/prompts"):  # noqa: ASYNC110 (another process's)
                await asyncio.sleep(0.05)
        return [prompt["status"] for prompt in await self.request("GET", f"sessions/{session}/prompts?over=true")]

    async def login(self) -> str:
        """A one-time link to the page."""
        return (await self.request("POST", "pairings", {"kind": "page"}))["url"]

    async def session(self, agent: str = "demo", **more: Any) -> str:
        made = await self.request("POST", "sessions", {"agent": agent, "cwd": str(self.repository), **more})
        return made["id"]


def _family(pid: int) -> list[int]:
    """A process and all that it began, the youngest first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        children.setdefault(parent, []).append(int(entry.name))
    family = [pid]
    for member in family:
        family += children.get(member, [])
    return family[::-1]
