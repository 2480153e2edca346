"""The hub in the local network, by TLS, with a certificate of this machine's own authority (or of mkcert's).

It listens on one address of this machine beside loopback. When the machine gets another address it moves there; the
certificate is replaced long before its end, without closing a connection.
"""

import asyncio
import ipaddress
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from starlette.types import ASGIApp

from ...errors import TielineError, UsageError
from ..http.server import bind, serve_at
from .lan_addresses import IpAddress, is_own, lan_addresses
from .local_authority import CertificateProblem, CertificateSource, LocalAuthority, local_name
from .programs import find_program, run_program
from .way_status import Report, WayStatus

LOOK_S = 10.0
"""Between two looks at this machine's addresses and the certificate's age."""
MKCERT_S = 30.0

OpenSource = Callable[[IpAddress], Awaitable[CertificateSource]]


def parse_address(address: str) -> IpAddress:
    """An address of this machine, as a person gave it. Raises UsageError."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise UsageError(f"{address!r} is no IP address", field="address") from None
    if parsed.is_loopback or parsed.is_unspecified or parsed.is_multicast:
        raise UsageError(f"phones cannot reach {parsed}", field="address", hint="Give an address of the local network.")
    if not is_own(parsed):
        raise UsageError(
            f"{parsed} is not an address of this machine", field="address", hint="Leave it out to have it found."
        )
    return parsed


def choose_address(address: str) -> IpAddress | None:
    """The one that was asked for, else the likeliest of those that this machine has now."""
    if address:
        wanted = ipaddress.ip_address(address)
        return wanted if is_own(wanted) else None
    return next(iter(lan_addresses()), None)


def choose_port(address: IpAddress, preferred: int) -> int:
    """The preferred port where it is free on that address, else a free one; the same for good. Raises UsageError."""
    for port in (preferred, preferred + 1, 0):
        try:
            bound = bind(str(address), port, tls=True, insecure=False)
        except UsageError:
            if not port:
                raise
            continue
        try:
            return bound.getsockname()[1]
        finally:
            bound.close()
    raise AssertionError("port 0 is always tried")


def url_of(host: IpAddress | str, port: int) -> str:
    shown = f"[{host}]" if isinstance(host, ipaddress.IPv6Address) else host
    return f"https://{shown}:{port}"


async def run_local_network(app: ASGIApp, source: OpenSource, address: str, port: int, report: Report) -> None:
    """Until it is cancelled. `address` empty: the likeliest one, also when it changes."""
    while True:
        try:
            chosen = choose_address(address)
            if chosen is None:
                problem = f"this machine does not have the address {address} now" if address else "no network"
                report(WayStatus(problem=problem, hint="The hub waits for it."))
            else:
                await _serve_on(app, await source(chosen), chosen, port, report)
                continue
        except TielineError as error:
            report(WayStatus(problem=error.message, hint=error.hint))
        except OSError as error:  # the disk is full, the certificate does not load
            report(WayStatus(problem=f"the hub cannot listen in the local network: {error}"))
        await asyncio.sleep(LOOK_S)


async def _serve_on(app: ASGIApp, source: CertificateSource, address: IpAddress, port: int, report: Report) -> None:
    """Until this machine does not have the address any more, and has another."""
    names = [name] if (name := local_name()) else []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(await source.issue([address], names))
    try:
        bound = bind(str(address), port, tls=True, insecure=False)
    except UsageError as error:
        raise CertificateProblem(error.message, hint="`tieline phone` takes another port.") from None
    async with serve_at(app, bound, tls=context):
        report(
            WayStatus(urls=(url_of(address, port), *(url_of(name, port) for name in names)), authority=source.authority)
        )
        while is_own(address) or not lan_addresses():
            await asyncio.sleep(LOOK_S)
            if source.is_due():
                context.load_cert_chain(await source.issue([address], names))  # for connections from now on


# --- where certificates come from -----------------------------------------------------------------------------


def own_authority(folder: Path) -> OpenSource:
    """The one that phones trust. Where it does not fit the address any more, that is a problem for a person to see."""

    async def source(address: IpAddress) -> LocalAuthority:
        return await LocalAuthority.open(folder, address)

    return source


class Mkcert:
    """Certificates that mkcert makes, with the authority that it has made for this machine."""

    def __init__(self, program: str, env: Mapping[str, str], folder: Path, authority: bytes) -> None:
        self._program = program
        self._env = env
        self._folder = folder
        self.authority = authority

    async def issue(self, addresses: Sequence[IpAddress], names: Sequence[str]) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = self._folder / "mkcert.pem"
        targets = (*map(str, addresses), *names)
        argv = (self._program, "-cert-file", str(file), "-key-file", str(file), *targets)  # one file, mode 0600
        output = await run_program(argv, self._env, within=MKCERT_S)
        if output.status:
            raise CertificateProblem(f"mkcert failed: {output.complaint}")
        file.chmod(0o600)
        return file

    def is_due(self) -> bool:
        return False  # they are valid for two years, and made at each start


async def mkcert_root(program: str, env: Mapping[str, str]) -> Path | None:
    """The certificate of mkcert's authority, where it has one."""
    output = await run_program((program, "-CAROOT"), env)
    root = Path(output.stdout.strip()) / "rootCA.pem"
    return root if not output.status and root.is_absolute() and root.is_file() else None


def mkcert_authority(folder: Path, env: Mapping[str, str]) -> OpenSource:
    async def source(address: IpAddress) -> Mkcert:
        program = find_program("mkcert", env)
        root = await mkcert_root(program, env) if program else None
        if root is None:
            raise CertificateProblem("mkcert has no authority here", hint="Run `mkcert -install` once.")
        try:
            authority = ssl.PEM_cert_to_DER_cert(root.read_text())
        except (OSError, ValueError) as error:
            raise CertificateProblem(f"{root} cannot be read: {error}") from None
        return Mkcert(program, env, folder, authority)

    return source
