"""The way that phones reach the hub by: set up by a person, kept over restarts, one at a time.

What was chosen is in the state directory, so that the hub comes back in the same way. The way runs as a task of this
part and reports where the hub is reached; exactly those addresses are allowed as Host and Origin, as long as they hold.
"""

import asyncio
import getpass
import socket
import time
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from starlette.types import ASGIApp

from ... import paths
from ...background_tasks import background, cancel_and_wait
from ...errors import UsageError
from ...protocol.phone import PhoneSetup, PhoneStatus, PhoneWay, PhoneWayName
from ...safe_file_write import replace_private_file
from ..http.problems import RequestRefused
from ..http.server import ServerAddress, bind, serve_at
from ..ops.logs import logger
from ..security.audit_log import AuditLog
from ..security.origins import Origins
from .local_authority import LocalAuthority
from .local_network import (
    choose_address,
    choose_port,
    mkcert_authority,
    own_authority,
    parse_address,
    run_local_network,
)
from .reach_check import check_reach
from .trust_page import OPEN_S, TrustPage, fingerprint
from .tunnels import TUNNELS, run_tunnel
from .way_status import WayStatus
from .ways import find_ways

T = TypeVar("T")

FIRST_REPORT_S = 35.0
"""For a way to say where the hub is reached, before the person who set it up is told that it is not there yet. With
the check it is less than clients wait for an answer."""


class Chosen(Struct, frozen=True, kw_only=True):
    """What a person set up."""

    way: PhoneWayName
    address: str = ""
    port: int = 0


class PhoneAccess:
    """`async with PhoneAccess(app, serving, …) as phone`: what was set up before runs again."""

    def __init__(
        self,
        app: ASGIApp,
        serving: ServerAddress,
        *,
        hub_url: str,
        env: Mapping[str, str],
        origins: Origins,
        audit: AuditLog,
    ) -> None:
        self._app = app
        self._serving = serving
        self._hub_url = hub_url
        self._env = env
        self._origins = origins
        self._audit = audit
        self._log = logger("hub")
        self._folder = paths.phone(env)
        self._chosen: Chosen | None = None
        self._reached = WayStatus()
        self._heard = asyncio.Event()  # of the way that runs: its first report
        self._running: asyncio.Task[None] | None = None
        self._trust: asyncio.Task[None] | None = None
        self._trust_url, self._trust_until = "", 0.0
        self._changing = asyncio.Lock()
        self._changes: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> "PhoneAccess":
        try:
            self._chosen = msgspec.json.decode(self._file.read_bytes(), type=Chosen)
        except FileNotFoundError:
            return self
        except (OSError, msgspec.MsgspecError) as error:
            self._log.error("phones are not let in", problem=f"{self._file} cannot be read: {error}")
            return self
        self._start(self._chosen)
        return self

    async def __aexit__(self, *_: object) -> None:
        await cancel_and_wait(*self._changes)
        await self._stop()

    @property
    def url(self) -> str:
        """Where a phone reaches the hub now; empty: nowhere."""
        return self._reached.urls[0] if self._reached.urls else ""

    def status(self) -> PhoneStatus:
        chosen, reached = self._chosen, self._reached
        if chosen is None:
            return PhoneStatus()
        trusting = bool(self._trust_url) and time.time() < self._trust_until
        return PhoneStatus(
            state="on" if reached.urls else "failed" if reached.problem else "starting",
            way=chosen.way,
            url=self.url,
            other_urls=reached.urls[1:],
            problem=reached.problem,
            hint=reached.hint,
            trust_url=self._trust_url if trusting else "",
            trust_until=self._trust_until if trusting else 0.0,
            fingerprint=fingerprint(reached.authority) if reached.authority else "",
        )

    async def ways(self) -> list[PhoneWay]:
        return await find_ways(self._env, hub_url=self._hub_url, local_url=self._serving.url, port=self._serving.port)

    async def set_up(self, wanted: PhoneSetup) -> PhoneStatus:
        """Makes a way the one that phones come by, and calls the hub by it. The same again changes nothing, but opens
        the page with the certificate once more."""
        return await self._to_its_end(self._set_up(wanted))

    async def turn_off(self) -> None:
        """Nobody reaches the hub by it any more, also not on connections that are open."""
        await self._to_its_end(self._turn_off())

    # --- inside ----------------------------------------------------------------------------------------

    async def _to_its_end(self, change: Coroutine[Any, Any, T]) -> T:
        """A change that goes on when its caller is gone: a phone may close the very way that it came by."""
        task = asyncio.create_task(change)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    async def _set_up(self, wanted: PhoneSetup) -> PhoneStatus:
        async with self._changing:
            if wanted.way == "ssh":
                return self._ssh()
            if wanted.way == "configured":
                return await self._configured()
            (way,) = (candidate for candidate in await self.ways() if candidate.name == wanted.way)
            if not way.available:
                raise RequestRefused("Conflict", f"{way.title} is not available: {way.problem}", field="way")
            chosen = await self._choose(wanted)
            if chosen != self._chosen or self._reached.problem:
                await self._stop()
                replace_private_file(self._file, msgspec.json.encode(chosen))
                self._chosen = chosen
                self._start(chosen)
            try:
                async with asyncio.timeout(FIRST_REPORT_S):
                    await self._heard.wait()
            except TimeoutError:
                return self.status()
            if self._reached.authority:
                await self._open_trust_page()
            if not self.url:
                return self.status()
            check = await check_reach(self.url, authority=self._reached.authority)
            return replace(self.status(), check=check)

    async def _turn_off(self) -> None:
        async with self._changing:
            self._file.unlink(missing_ok=True)
            self._chosen = None
            await self._stop()

    @property
    def _file(self) -> Path:
        return self._folder / "way.json"

    async def _choose(self, wanted: PhoneSetup) -> Chosen:
        if wanted.way not in ("lan", "mkcert"):
            return Chosen(way=wanted.way)
        if wanted.address:
            parse_address(wanted.address)
        address = choose_address(wanted.address)
        if address is None:
            raise RequestRefused("Conflict", "this machine is not connected to a network", field="way")
        if wanted.way == "lan":
            await LocalAuthority.open(self._folder, address, replace=True)
        before = self._chosen
        if before is not None and before.way == wanted.way and wanted.port in (0, before.port) and self.url:
            return Chosen(way=wanted.way, address=wanted.address, port=before.port)  # it listens there
        try:
            port = wanted.port or choose_port(address, self._serving.port)
        except UsageError as error:
            raise RequestRefused("Conflict", error.message, field="port") from None
        return Chosen(way=wanted.way, address=wanted.address, port=port)

    def _start(self, chosen: Chosen) -> None:
        self._heard = asyncio.Event()
        self._reached = WayStatus()
        self._running = background(self._run(chosen), "phone")

    async def _run(self, chosen: Chosen) -> None:
        env = self._env
        if chosen.way == "lan":
            source = own_authority(self._folder)
            await run_local_network(self._app, source, chosen.address, chosen.port, self._report)
        elif chosen.way == "mkcert":
            source = mkcert_authority(self._folder, env)
            await run_local_network(self._app, source, chosen.address, chosen.port, self._report)
        elif chosen.way in TUNNELS:
            await run_tunnel(TUNNELS[chosen.way], self._serving.url, env, self._report)

    def _report(self, reached: WayStatus) -> None:
        if reached == self._reached:
            return
        self._reached = reached
        way = self._chosen.way if self._chosen else ""
        self._origins.set_phone(reached.urls, hsts=way in TUNNELS)
        if reached.urls:
            self._audit.record("phone", "hub", "", way=way, url=reached.urls[0])
        self._log.info("phone", way=way, url=self.url, problem=reached.problem)
        self._heard.set()

    async def _stop(self) -> None:
        await cancel_and_wait(*(task for task in (self._running, self._trust) if task is not None))
        self._running = self._trust = None
        self._reached, self._trust_url = WayStatus(), ""
        self._origins.set_phone(())

    def _ssh(self) -> PhoneStatus:
        """Nothing runs here for it: the other computer does all."""
        port = self._serving.port
        command = f"ssh -N -L {port}:127.0.0.1:{port} {getpass.getuser()}@{socket.gethostname()}"
        return PhoneStatus(state="on", way="ssh", url=f"{self._scheme}://localhost:{port}", command=command)

    async def _configured(self) -> PhoneStatus:
        url = self._hub_url.rstrip("/")
        (way,) = (candidate for candidate in await self.ways() if candidate.name == "configured")
        if not way.available:
            raise RequestRefused("Conflict", f"{way.title}: {way.problem}", field="way")
        return PhoneStatus(state="on", way="configured", url=url, check=await check_reach(url))

    @property
    def _scheme(self) -> str:
        return "https" if self._serving.tls else "http"

    # --- the page with the certificate -----------------------------------------------------------------

    async def _open_trust_page(self) -> None:
        """For some minutes from now. A page that is open already is replaced: the address may be another."""
        if self._trust is not None:
            await cancel_and_wait(self._trust)
        opened: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def stay_open() -> None:
            try:
                async with self._trust_page() as url:
                    if not opened.done():  # else whoever waited for it is gone
                        opened.set_result(url)
                    await asyncio.sleep(OPEN_S)
            except Exception as error:  # whoever waits for the page is told
                if opened.done():
                    raise
                opened.set_exception(error)
            finally:
                opened.cancel()
                self._trust_url = ""

        self._trust = background(stay_open(), "phone-trust-page")
        self._trust_url = await opened
        self._trust_until = time.time() + OPEN_S

    @asynccontextmanager
    async def _trust_page(self) -> AsyncGenerator[str]:
        host = urlsplit(self.url).hostname or ""
        page = TrustPage(
            self._reached.authority,
            hub=self.url,
            authority=await asyncio.to_thread(_common_name, self._reached.authority),
            machine=socket.gethostname(),
        )
        try:
            bound = bind(host, self._serving.port + 1, tls=False, insecure=True)
        except UsageError:
            bound = bind(host, 0, tls=False, insecure=True)
        async with serve_at(page, bound, tls=None) as port:
            yield f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _common_name(certificate: bytes) -> str:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    names = x509.load_der_x509_certificate(certificate).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else "the certificate"
