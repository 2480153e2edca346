"""The authority certifies what it may, for days, and phones refuse the rest."""

import ipaddress
import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from tieline.hub.phone import local_authority
from tieline.hub.phone.local_authority import CertificateProblem, LocalAuthority

HOME = ipaddress.ip_address("192.168.1.5")
PUBLIC = ipaddress.ip_address("203.0.113.9")


def verified(authority: Path, certificate: Path, *, host: str = "", ip: str = "") -> bool:
    """As OpenSSL sees it."""
    name = ["-verify_ip", ip] if ip else ["-verify_hostname", host]
    argv = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", *name, "-CAfile", str(authority)]
    return subprocess.run([*argv, str(certificate)], capture_output=True, timeout=60).returncode == 0


async def test_its_certificates_hold_for_the_address_and_the_name_alone(tmp_path: Path) -> None:
    authority = await LocalAuthority.open(tmp_path, HOME)
    file = await authority.issue([HOME], ["box.local"])
    root = tmp_path / "authority.pem"
    assert verified(root, file, ip="192.168.1.5") and verified(root, file, host="box.local")
    assert not verified(root, file, ip="192.168.1.6") and not verified(root, file, host="other.local")
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file)
    assert ssl.PEM_cert_to_DER_cert(root.read_text()) == authority.authority


async def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "phone"
    await (await LocalAuthority.open(folder, HOME)).issue([HOME], [])
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()} == {
        "authority.key": 0o600,
        "authority.pem": 0o600,
        "certificate.pem": 0o600,
    }


@pytest.mark.parametrize("name", ["bank.example", "notlocal", "203.0.113.10"])
async def test_a_stolen_key_certifies_no_site_of_the_internet(tmp_path: Path, name: str) -> None:
    await LocalAuthority.open(tmp_path, HOME)
    forged = forge(tmp_path, name)
    is_address = name[0].isdigit()
    assert not verified(tmp_path / "authority.pem", forged, **({"ip": name} if is_address else {"host": name}))
    good = forge(tmp_path, "10.1.2.3")
    assert verified(tmp_path / "authority.pem", good, ip="10.1.2.3"), "the forger does its work"


def forge(folder: Path, name: str) -> Path:
    """A certificate signed by the authority's own key, without asking LocalAuthority."""
    key = load_pem_private_key((folder / "authority.key").read_bytes(), None)
    root = x509.load_pem_x509_certificate((folder / "authority.pem").read_bytes())
    target = x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(root.subject)
        .public_key(root.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([target]), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(root.public_key()), critical=False)  # type: ignore[arg-type]
        .sign(key, hashes.SHA256())  # type: ignore[arg-type]
    )
    file = folder / "forged.pem"
    file.write_bytes(made.public_bytes(Encoding.PEM))
    return file


async def test_it_stays_the_same_so_that_phones_go_on_trusting_it(tmp_path: Path) -> None:
    first = await LocalAuthority.open(tmp_path, HOME)
    elsewhere = ipaddress.ip_address("10.0.0.7")
    again = await LocalAuthority.open(tmp_path, elsewhere, replace=True)
    assert again.authority == first.authority
    assert verified(tmp_path / "authority.pem", await again.issue([elsewhere], []), ip="10.0.0.7")


async def test_an_address_that_it_may_not_certify_needs_a_new_one(tmp_path: Path) -> None:
    first = await LocalAuthority.open(tmp_path, HOME)
    with pytest.raises(CertificateProblem, match=r"may not certify 203\.0\.113\.9"):
        await LocalAuthority.open(tmp_path, PUBLIC)
    with pytest.raises(CertificateProblem, match="may not certify"):
        await first.issue([PUBLIC], [])
    second = await LocalAuthority.open(tmp_path, PUBLIC, replace=True)
    assert second.authority != first.authority
    assert verified(tmp_path / "authority.pem", await second.issue([PUBLIC], []), ip="203.0.113.9")
    assert not verified(tmp_path / "authority.pem", forge(tmp_path, "203.0.113.10"), ip="203.0.113.10")


async def test_its_certificates_live_for_days_and_are_renewed_before_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = await LocalAuthority.open(tmp_path, HOME)
    assert authority.is_due(), "it has issued none yet"
    made = x509.load_pem_x509_certificate((await authority.issue([HOME], [])).read_bytes())
    assert timedelta(days=13) < made.not_valid_after_utc - datetime.now(UTC) <= timedelta(days=14)
    assert not authority.is_due()

    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> "Later":
            return cls.fromtimestamp(datetime.now(UTC).timestamp() + 8 * 86400, UTC)

    monkeypatch.setattr(local_authority, "datetime", Later)
    assert authority.is_due()


async def test_a_key_that_a_crash_left_without_its_certificate_is_replaced(tmp_path: Path) -> None:
    first = await LocalAuthority.open(tmp_path, HOME)
    other = tmp_path / "other"
    await LocalAuthority.open(other, HOME)
    (other / "authority.key").replace(tmp_path / "authority.key")
    assert (await LocalAuthority.open(tmp_path, HOME)).authority != first.authority


async def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    await LocalAuthority.open(tmp_path, HOME)
    (tmp_path / "authority.key").write_text("nonsense")
    with pytest.raises(CertificateProblem, match="cannot be read") as raised:
        await LocalAuthority.open(tmp_path, HOME)
    assert "Remove that folder" in raised.value.hint
