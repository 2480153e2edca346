"""`tieline message send TO TEXT` without the parser and client libraries, which take many times as long as the rest.

For the plain form and the hub of this machine; it behaves in every way as the whole command line, which does the rest.
"""

import os
import sys

from ..environment import MARK, inherited, state_folder, variable
from ..harnesses.hook import HubSocket

PATH = "/api/v1/messages"
CREATED = b"201"
FAILED, INTERRUPTED = 1, 130  # as in errors.py, which is not imported for them


class _JsonOptions:
    """Those of `json.JSONDecoder`."""

    strict, memo = True, dict[str, str]()
    object_hook = object_pairs_hook = parse_constant = None
    parse_float, parse_int = float, int


def run(arguments: list[str]) -> int | None:
    """The exit status; None for what is not done here. What may have been sent by then has a key: again, it is one."""
    env = inherited()
    if len(arguments) != 2 or any(word.startswith("-") for word in arguments) or env.get("TIELINE_HUB"):
        return None
    try:
        return _send(env, arguments)
    except KeyboardInterrupt:
        return INTERRUPTED


def _send(env: dict[str, str], arguments: list[str]) -> int | None:
    state = state_folder(env)
    key = os.urandom(16).hex()
    try:
        os.stat(f"{state}/hub.json")  # noqa: PTH116 (pathlib is not imported); a hub that is ending has removed it
        hub = HubSocket(f"{state}/own/hub.sock")
        message = {
            "to": arguments[0],
            "text": arguments[1],
            "key": key,
            "within": variable("TIELINE_WITHIN"),
            "session": variable("TIELINE_SESSION"),
            "mark": variable(MARK),  # of itself alone: the hub has looked from whom it descends
            "cwd": os.getcwd(),  # noqa: PTH109
        }
        fields = ",".join(f"{_quoted(name)}:{_quoted(value)}" for name, value in message.items())
        body = f"{{{fields}}}".encode()
        arguments += ["--key", key]
        status, _, reply = hub.post(PATH, "Connection: close\r\n", body)
    except (OSError, ValueError):  # no hub, or no text: the whole command line says so
        return None
    if status != CREATED:
        return _refused(env, int(status), reply)
    from _json import make_scanner  # `json` would import `re`, which takes longer than all of this

    view, _ = make_scanner(_JsonOptions())(reply.decode(), 0)  # pyright: ignore[reportArgumentType] (its stub is wrong)
    id = view["receipt"]["id"]
    try:
        print(id)
        _print_error(f"tieline: {view['state']}; `tieline message status {id}` shows its state")
        if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison] (it is None when closed: `>&-`)
            sys.stdout.flush()
    except BrokenPipeError:  # its reader is gone
        return FAILED
    except OSError as error:
        from .errors import report

        return report(error)
    return 0


def _quoted(text: str) -> str:
    """As JSON."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'  # as it is: the message leaves before anything is imported for it
    from _json import encode_basestring

    return encode_basestring(text)


def _print_error(message: str) -> None:
    try:
        if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]
            print(message, file=sys.stderr, flush=True)
    except OSError:  # a terminal that is gone
        pass


def _refused(env: dict[str, str], status: int, reply: bytes) -> int:
    from ..client.errors import error_from_response
    from ..client.hub_address import local_hub_address
    from .errors import run_and_report

    def work() -> int:
        hub = local_hub_address(env)
        raise error_from_response(hub.url if hub else "", status, reply)

    return run_and_report(work)
