"""A hub and a node as processes that can be killed."""

import asyncio
import signal
import subprocess
from pathlib import Path

from tieline.bootstrap.process_lock import StartOptions
from tieline.client import Client
from tieline.node.hub_credentials import HubCredentials, write_credentials
from tieline.node.node_identity import identify
from tieline.protocol.request_bodies import Claim, Pairing
from tieline.testing.fork_server import ForkedProcess, start_hub
from tieline.testing.rig import scratch_env

START_S = 60.0


class Daemon:
    """A hub or a node, in a home of its own."""

    def __init__(self, root: Path, order: StartOptions, config: str = "") -> None:
        self.place = root / "place"
        self.place.mkdir(parents=True)
        (root / "tieline.toml").write_text(config)
        self.env = scratch_env(
            root / "home",
            path="/usr/bin:/bin",
            TIELINE_HOME=str(root / "state"),
            TIELINE_CONFIG=str(root / "tieline.toml"),
        )
        self.url = ""
        self._order = order
        self._log = root / "output"
        self._process: ForkedProcess | subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def start(self) -> None:
        """It runs when this returns."""
        self._process, started = await asyncio.to_thread(
            start_hub, self._order, cwd=self.place, env=self.env, log=self._log, timeout=START_S
        )
        assert started.url, f"{started.problem}\n{self._log.read_text()}"
        self.url = started.url

    async def kill(self, number: int = signal.SIGKILL) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            try:
                await asyncio.to_thread(process.wait, START_S)
            finally:
                process.send_signal(signal.SIGKILL)

    async def join(self, owner: Client, url: str, name: str) -> str:
        """Pairs it with the hub at that address, before it starts. Its id."""
        me = identify(self.env).id
        offer = await owner.pairing(Pairing(kind="node"))
        paired = await owner.pair(Claim(secret=offer.secret, name=name, node=me))
        write_credentials(self.env, HubCredentials(url=url, key=paired.key, device=paired.device.id))
        return me
