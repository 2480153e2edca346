"""A certificate authority of this machine's own, for its addresses in the local network.

Whoever has its key can pretend to be any name that it may certify, to each phone that trusts it. So it may certify
little: addresses of private networks and names below `.local`; a phone refuses everything else (name constraints, RFC
5280). The key stays in the state directory, mode 0600. The certificates that the hub shows live for days only.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ...background_tasks import import_in_thread
from ...errors import TielineError
from ...safe_file_write import replace_private_file

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

PRIVATE_NETWORKS = tuple(
    ipaddress.ip_network(network)
    for network in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "fc00::/7", "fe80::/10")
)
LOCAL_DOMAIN = "local"
"""Names that routers and phones find in the local network only (RFC 6762)."""
AUTHORITY_DAYS = 1825
CERTIFICATE_DAYS = 14
RENEW_DAYS = 7
"""A certificate with fewer days left is replaced."""
CLOCK_DAYS = 1
"""How far a phone's clock may be behind."""


class CertificateProblem(TielineError):
    """No certificate could be made."""


class CertificateSource(Protocol):
    """Makes the certificate of the hub's TLS listener, and tells which authority a phone must trust for it."""

    authority: bytes  # its certificate, DER

    async def issue(self, addresses: Sequence[IpAddress], names: Sequence[str]) -> Path:
        """A PEM file with a new certificate and its key. Raises CertificateProblem."""
        ...

    def is_due(self) -> bool:
        """Whether the certificate that was issued last should be replaced."""
        ...


def local_name() -> str:
    """This machine's name in the local network, where it announces one; empty if it has no proper name."""
    label = re.sub(r"[^a-z0-9-]", "", socket.gethostname().partition(".")[0].lower()).strip("-")[:63]
    return f"{label}.{LOCAL_DOMAIN}" if label and label != "localhost" else ""


class LocalAuthority:
    """`await LocalAuthority.open(folder, address)`: kept in the folder, made where there is none."""

    def __init__(self, folder: Path, key: "EllipticCurvePrivateKey", certificate: "x509.Certificate") -> None:
        from cryptography.hazmat.primitives.serialization import Encoding

        self._folder = folder
        self._key = key
        self._certificate = certificate
        self.authority = certificate.public_bytes(Encoding.DER)
        self._valid_until = datetime.min.replace(tzinfo=UTC)

    @classmethod
    async def open(cls, folder: Path, address: IpAddress, *, replace: bool = False) -> "LocalAuthority":
        """With `replace`, one that ends soon or may not certify the address gives way to a new one, which phones must
        trust anew; else that is a CertificateProblem."""
        for name in ("cryptography.x509", "cryptography.hazmat.primitives.serialization"):
            await import_in_thread(name)  # nothing of the hub may wait for it
        return await asyncio.to_thread(cls._open, folder, address, replace)

    @classmethod
    def _open(cls, folder: Path, address: IpAddress, replace: bool) -> "LocalAuthority":
        authority = cls._read(folder)
        if authority is not None and authority.covers(address) and authority._days_left() > CERTIFICATE_DAYS:
            return authority
        if authority is not None and not replace:
            why = "ends soon" if authority.covers(address) else f"may not certify {address}"
            raise CertificateProblem(
                f"the certificate authority that phones trust {why}",
                hint="`tieline phone` makes a new one, which phones must trust anew.",
            )
        return cls._make(folder, address)

    @classmethod
    def _read(cls, folder: Path) -> "LocalAuthority | None":
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key((folder / "authority.key").read_bytes(), None)
            certificate = x509.load_pem_x509_certificate((folder / "authority.pem").read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise CertificateProblem(
                f"the certificate authority in {folder} cannot be read: {error}",
                hint="Remove that folder to have a new one made; phones must then trust it anew.",
            ) from None
        if not isinstance(key, EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            return None  # of another one: a crash between the two files
        return cls(folder, key, certificate)

    @classmethod
    def _make(cls, folder: Path, address: IpAddress) -> "LocalAuthority":
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
        from cryptography.x509.oid import NameOID

        key = ec.generate_private_key(ec.SECP256R1())
        host = "".join(sign for sign in socket.gethostname() if sign.isprintable())[:40]
        name = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Tieline"),
                x509.NameAttribute(NameOID.COMMON_NAME, f"Tieline on {host or 'this machine'}"),
            ]
        )
        networks = [*PRIVATE_NETWORKS]
        if not any(address in network for network in networks):
            networks.append(ipaddress.ip_network(address))  # a local network with public addresses: only this one
        permitted = [x509.DNSName(LOCAL_DOMAIN), *map(x509.IPAddress, networks)]
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=CLOCK_DAYS))
            .not_valid_after(now + timedelta(days=AUTHORITY_DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(certificates=True), critical=True)
            .add_extension(x509.NameConstraints(permitted_subtrees=permitted, excluded_subtrees=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        replace_private_file(folder / "authority.key", private)
        replace_private_file(folder / "authority.pem", made.public_bytes(Encoding.PEM))
        return cls(folder, key, made)

    def covers(self, address: IpAddress) -> bool:
        """Whether it may certify the address."""
        from cryptography import x509

        constraints = self._certificate.extensions.get_extension_for_class(x509.NameConstraints).value
        permitted = [name.value for name in constraints.permitted_subtrees or () if isinstance(name, x509.IPAddress)]
        return any(
            address in network
            for network in permitted
            if isinstance(network, ipaddress.IPv4Network | ipaddress.IPv6Network)
        )

    async def issue(self, addresses: Sequence[IpAddress], names: Sequence[str]) -> Path:
        return await asyncio.to_thread(self._issue, addresses, names)

    def _issue(self, addresses: Sequence[IpAddress], names: Sequence[str]) -> Path:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        if outside := [address for address in addresses if not self.covers(address)]:
            raise CertificateProblem(
                f"the local certificate authority may not certify {outside[0]}",
                hint="`tieline phone` makes a new one, which phones must trust anew.",
            )
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        until = min(now + timedelta(days=CERTIFICATE_DAYS), self._certificate.not_valid_after_utc)
        alternatives = [*map(x509.IPAddress, addresses), *map(x509.DNSName, names)]
        authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Tieline hub")]))
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=CLOCK_DAYS))
            .not_valid_after(until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(authority_key, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        file = self._folder / "certificate.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        replace_private_file(file, private + made.public_bytes(Encoding.PEM))
        self._valid_until = until
        return file

    def is_due(self) -> bool:
        return self._valid_until - datetime.now(UTC) < timedelta(days=RENEW_DAYS)

    def _days_left(self) -> float:
        return (self._certificate.not_valid_after_utc - datetime.now(UTC)) / timedelta(days=1)


def _key_usage(*, certificates: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not certificates,
        key_cert_sign=certificates,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
