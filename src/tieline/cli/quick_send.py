"""`tieline message send TO TEXT` without the parser and client libraries, which take many times as long as the rest.

For the plain form and the hub of this machine. Everything else, and every refusal, is left to the whole command line,
which says what is wrong.
"""

import os
from _json import encode_basestring_ascii as quoted  # `json` would import `re`

from ..environment import inherited, state_folder, variable
from ..harnesses.hook import HubSocket
from ..processes.environment_mark import mark

PATH = "/api/v1/messages"
CREATED = b"201"


def run(arguments: list[str]) -> int | None:
    """The exit status; None for what is not done here. A key is then added: sent twice, it is one message."""
    env = inherited()
    if len(arguments) != 2 or any(word.startswith("-") for word in arguments) or env.get("TIELINE_HUB"):
        return None
    try:
        hub = HubSocket(f"{state_folder(env)}/own/hub.sock")
        cwd = os.getcwd()  # noqa: PTH109 (pathlib is not imported)
    except OSError:
        return None
    key = os.urandom(16).hex()
    message = {
        "to": arguments[0],
        "text": arguments[1],
        "key": key,
        "within": variable("TIELINE_WITHIN"),
        "session": variable("TIELINE_SESSION"),
        "mark": mark(),
        "cwd": cwd,
    }
    arguments += ["--key", key]
    fields = ",".join(f"{quoted(name)}:{quoted(value)}" for name, value in message.items())
    try:
        status, _, body = hub.post(PATH, "Connection: close\r\n", f"{{{fields}}}".encode())
    except (OSError, ValueError):
        return None
    if status != CREATED:
        return None
    import json  # the message is stored by now

    view = json.loads(body)
    id = view["receipt"]["id"]
    os.write(1, f"{id}\n".encode())
    os.write(2, f"tieline: {view['state']}; `tieline message status {id}` shows its state\n".encode())
    return 0
