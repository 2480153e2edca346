"""A page that gives a phone the authority's certificate and says how to trust it.

It is served without encryption: a phone that does not trust the certificate yet cannot be reached otherwise. So it is
an application of its own, with two fixed answers and nothing of the hub behind it, and it is there for some minutes
only. No secret is sent to it. Somebody in the network who changed the certificate on its way is found out by its
fingerprint, which the terminal shows too.
"""

import base64
import hashlib
import html

from starlette.types import Receive, Scope, Send

OPEN_S = 600
"""As long as a link for pairing."""
CERTIFICATE_PATH = "/tieline.crt"

_STYLE = """
:root { color-scheme: light dark; font: 17px/1.5 system-ui, sans-serif; }
body { margin: 0 auto; max-width: 36rem; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
li { margin: .4rem 0; } code { overflow-wrap: anywhere; }
.button { display: block; margin: 1rem 0; padding: .9rem; border-radius: .7rem; background: #1f5fd0; color: #fff;
  text-align: center; text-decoration: none; font-weight: 600; }
"""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tieline: trust this computer</title><style>{style}</style></head>
<body>
<h1>Trust {machine}</h1>
<p>Tieline on this computer has a certificate of its own. Once this phone trusts it, the page is encrypted and can
send notifications. The certificate is good for addresses of local networks only, not for sites on the internet.</p>
<a class="button" href="{path}" download="tieline.crt">Get the certificate</a>
<h2>iPhone, iPad</h2>
<ol>
<li>Open this page in Safari, tap <b>Get the certificate</b>, then <b>Allow</b>.</li>
<li>Settings → <b>Profile Downloaded</b> (or General → VPN &amp; Device Management) → <b>Install</b>.</li>
<li>Settings → General → About → <b>Certificate Trust Settings</b>: switch on <b>{authority}</b>.</li>
<li>For notifications: open Tieline in Safari, Share → <b>Add to Home Screen</b>, and open it from there.</li>
</ol>
<h2>Android</h2>
<ol>
<li>Tap <b>Get the certificate</b>; it is saved in Downloads.</li>
<li>Settings → search <b>CA certificate</b> (Security → Encryption &amp; credentials → Install a certificate).</li>
<li><b>Install anyway</b>, and choose <code>tieline.crt</code>.</li>
</ol>
<h2>Then</h2>
<p>Go on in the terminal: its <strong>second code</strong> opens <code>{hub}</code> and signs this phone in.</p>
<h2>Compare the fingerprint</h2>
<p>Before you switch the trust on, look at the certificate's details: its SHA-256 fingerprint must be the one that the
terminal shows. If it differs, somebody in this network has replaced it: remove it.</p>
<p><code>{fingerprint}</code></p>
<p>To take the trust back later, remove the profile (iPhone) or the certificate (Android) in the same places.</p>
</body></html>
"""


def fingerprint(certificate: bytes) -> str:
    """SHA-256 of a DER certificate, as phones show it."""
    return hashlib.sha256(certificate).digest().hex(":").upper()


def _source_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


class TrustPage:
    """The application: `GET /` and the certificate."""

    def __init__(self, certificate: bytes, *, hub: str, authority: str, machine: str) -> None:
        page = _PAGE.format(
            style=_STYLE,
            hub=html.escape(hub),
            path=CERTIFICATE_PATH,
            authority=html.escape(authority),
            machine=html.escape(machine),
            fingerprint=fingerprint(certificate),
        )
        self._answers = {
            "/": (page.encode(), b"text/html; charset=utf-8"),
            CERTIFICATE_PATH: (certificate, b"application/x-x509-ca-cert"),
        }
        policy = (
            f"default-src 'none'; style-src {_source_hash(_STYLE)}; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        self._headers = [
            (b"content-security-policy", policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cache-control", b"no-store"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        status, body, media = 405, b"method not allowed", b"text/plain"
        if scope["method"] in ("GET", "HEAD"):
            status = 200 if scope["path"] in self._answers else 404
            body, media = self._answers.get(scope["path"], (b"not found", b"text/plain"))
        length = (b"content-length", str(len(body)).encode())
        headers = [(b"content-type", media), length, *self._headers]
        if status >= 400:
            headers.append((b"connection", b"close"))  # a body that nobody reads
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
