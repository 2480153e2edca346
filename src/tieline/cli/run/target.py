"""Where `tieline run` runs: through this machine's hub when there is one, else on its own. Imports by need."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ... import environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...client.hub_address import HubAddress
    from .run_options import RunOptions

STANDALONE_FLAG = "--standalone"
MAX_ATTACHMENT_BYTES = 700_000
"""Bytes of all attachments together: with the prompt, in base64, they are one record of the hub's log."""
RUNNING_FILE = "hub.json"


def local_hub(env: Mapping[str, str]) -> "HubAddress | None":
    """This machine's hub, if it runs, has a node, is configured by the same file as we are, and can be reached.

    A hub elsewhere (`TIELINE_HUB`) is not meant: the directory that the agent shall work in is here.
    """
    if not os.path.isfile(f"{environment.state_folder(env)}/{RUNNING_FILE}"):  # noqa: PTH113 (pathlib is not imported yet)
        return None
    from ...client.hub_address import is_listening, local_hub_address

    address = local_hub_address(env)
    if address is None or not address.node or address.config not in (None, environment.config_file(env)):
        return None
    return address if is_listening(address.socket) else None


def execute(request: "RunOptions") -> int:
    """The exit status. Raises TielineError."""
    address = None if request.standalone else local_hub(environment.inherited())
    if address is not None and _fits(request.attach):
        from . import via_hub

        return via_hub.run_via_hub(request, address)
    if address is not None:
        from ..errors import print_error

        print_error("tieline: the attachments are too large for the hub: the agent is started here")
    from . import standalone

    return standalone.run_standalone(request)


def _fits(files: Sequence[str]) -> bool:
    total = 0
    for path in files:
        with suppress(OSError):  # it is refused in its place
            total += os.stat(os.path.expanduser(path)).st_size  # noqa: PTH111, PTH116
    return total <= MAX_ATTACHMENT_BYTES
