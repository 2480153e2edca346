"""Calls the hub by the address that phones use, and says what was found."""

import ssl

from ...protocol.phone import PhoneCheck

CHECK_S = 10.0


async def check_reach(url: str, *, authority: bytes = b"") -> PhoneCheck:
    """`authority`: the only one that is trusted for it (DER), as on a phone; else those that this machine trusts."""
    import httpx2 as httpx  # only here: few phones are checked, and every start of a hub would pay for it

    if authority:
        context = ssl.create_default_context(cadata=authority)
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # phones are strict too
    else:
        context = ssl.create_default_context()
    try:
        async with httpx.AsyncClient(verify=context, timeout=CHECK_S, trust_env=not authority) as client:
            answer = await client.get(f"{url}/healthz")
    except httpx.ConnectError as error:
        return PhoneCheck(ok=False, found=f"{url} was not reached: {_reason(error)}")
    except (httpx.TransportError, httpx.InvalidURL) as error:
        return PhoneCheck(ok=False, found=f"{url} did not answer: {_reason(error)}")
    if answer.status_code != 200 or '"status":"ok"' not in answer.text[:1000].replace(" ", ""):
        return PhoneCheck(ok=False, found=f"{url} answered with status {answer.status_code}, which is not the hub")
    by = "the authority that the phone trusts" if authority else "an authority that every phone trusts"
    return PhoneCheck(ok=True, found=f"{url} answers by TLS; its certificate is signed by {by}")


def _reason(error: Exception) -> str:
    """A name for those that say nothing, such as a time limit."""
    return str(error)[:200] or type(error).__name__
