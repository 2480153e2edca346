"""A hub and a node as processes that can be killed."""

import asyncio
import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from tieline.bootstrap.process_lock import StartOptions, StartResult
from tieline.client import Client
from tieline.node.hub_credentials import HubCredentials, write_credentials
from tieline.node.node_identity import identify
from tieline.protocol.request_bodies import Claim, Pairing
from tieline.testing.rig import scratch_env

START_S = 60.0
WITH_US = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
"""A process that ends with the test's own, should that be killed."""


class Daemon:
    """`python -m tieline.bootstrap`, in a home of its own."""

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
        self._process: asyncio.subprocess.Process | None = None

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def start(self) -> None:
        """It runs when this returns."""
        reading, writing = os.pipe()
        order = msgspec.structs.replace(self._order, ready=writing)
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *WITH_US, sys.executable, "-m", "tieline.bootstrap", msgspec.json.encode(order).decode(),
                cwd=self.place, env=self.env, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=(writing,), start_new_session=True,
            )  # fmt: skip
        os.close(writing)
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb")
        )
        try:
            async with asyncio.timeout(START_S):
                line = await reader.readline()
        finally:
            transport.close()
        started = msgspec.json.decode(line or b"{}", type=StartResult)
        assert started.url, f"{started.problem}\n{self._log.read_text()}"
        self.url = started.url

    async def kill(self, number: int = signal.SIGKILL) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.send_signal(number)
            try:
                async with asyncio.timeout(START_S):
                    await process.wait()
            finally:
                with suppress(ProcessLookupError):
                    process.kill()

    async def join(self, owner: Client, url: str, name: str) -> str:
        """Pairs it with the hub at that address, before it starts. Its id."""
        me = identify(self.env).id
        offer = await owner.pairing(Pairing(kind="node"))
        paired = await owner.pair(Claim(secret=offer.secret, name=name, node=me))
        write_credentials(self.env, HubCredentials(url=url, key=paired.key, device=paired.device.id))
        return me
