"""Makes a browser of the tests trust a certificate authority, as a person does in its settings.

Chromium on Linux reads the user's NSS database. Its library is always there with it, its `certutil` is often not.
"""

import ctypes
import ctypes.util
from pathlib import Path

TRUSTED_CA = 0x80 | 0x10 | 0x08
"""CERTDB_TRUSTED_CLIENT_CA | CERTDB_TRUSTED_CA | CERTDB_VALID_CA: `C,T` in certutil's words."""


class _Item(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("data", ctypes.c_char_p), ("length", ctypes.c_uint))


class _Trust(ctypes.Structure):
    _fields_ = (("ssl", ctypes.c_uint), ("email", ctypes.c_uint), ("objects", ctypes.c_uint))


def library() -> str:
    """Its name; empty where there is none."""
    return ctypes.util.find_library("nss3") or ""


def trust(home: Path, certificate: bytes) -> None:
    """The authority (DER) for browsers whose HOME that is. One call per process: run it in one of its own."""
    folder = home / ".pki" / "nssdb"
    folder.mkdir(parents=True, mode=0o700)
    nss = ctypes.CDLL(library())
    pointer = ctypes.c_void_p
    nss.PK11_GetInternalKeySlot.restype = pointer
    nss.CERT_GetDefaultCertDB.restype = pointer
    nss.CERT_NewTempCertificate.restype = pointer
    nss.CERT_NewTempCertificate.argtypes = (pointer, ctypes.POINTER(_Item), ctypes.c_char_p, ctypes.c_int, ctypes.c_int)
    nss.PK11_ImportCert.argtypes = (pointer, pointer, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_int)
    nss.CERT_ChangeCertTrust.argtypes = (pointer, pointer, ctypes.POINTER(_Trust))
    nss.PK11_InitPin.argtypes = (pointer, ctypes.c_char_p, ctypes.c_char_p)
    nss.CERT_DestroyCertificate.argtypes = (pointer,)
    nss.PK11_FreeSlot.argtypes = (pointer,)
    _done(nss.NSS_InitReadWrite(f"sql:{folder}".encode()), "open the database")
    slot = nss.PK11_GetInternalKeySlot()
    _done(nss.PK11_InitPin(slot, None, b""), "make it without a password")
    item, database = _Item(0, certificate, len(certificate)), nss.CERT_GetDefaultCertDB()
    decoded = nss.CERT_NewTempCertificate(database, ctypes.byref(item), None, 0, 1)
    assert decoded, "it is no certificate"
    _done(nss.PK11_ImportCert(slot, decoded, 0, b"Tieline", 0), "import the certificate")
    flags = _Trust(TRUSTED_CA, 0, 0)
    _done(nss.CERT_ChangeCertTrust(database, decoded, ctypes.byref(flags)), "trust it")
    nss.CERT_DestroyCertificate(decoded)
    nss.PK11_FreeSlot(slot)
    _done(nss.NSS_Shutdown(), "close the database")


def _done(status: int, what: str) -> None:
    assert status == 0, f"NSS could not {what}"


if __name__ == "__main__":
    import sys

    trust(Path(sys.argv[1]), Path(sys.argv[2]).read_bytes())
