"""The file of a plugin of ours inside a harness: its own source with the part that all plugins share."""

import json
import re
from pathlib import Path

from .. import paths
from .base import InstallOptions

SOCKET, URL = '"@socket@"', '"@url@"'
"""Where a plugin has the path of the hub's socket, empty when the hub is on another machine, and the hub's address."""
_IMPORT = re.compile(r'^import .* from "\.\./hub_link\.js"\n', re.MULTILINE)


def plugin_text(source: str, options: InstallOptions) -> str:
    """The text of a plugin; `source` is a file of this folder. The text of hub_link.js is put into it: harnesses take
    every file in their folder, and every export of a file, for a plugin."""
    folder = Path(__file__).parent
    shared = re.sub(r"^export ", "", (folder / "hub_link.js").read_text(), flags=re.MULTILINE)
    text, count = _IMPORT.subn(lambda _: f"\n{shared}\n", (folder / source).read_text())
    if count != 1:
        raise ValueError(f"{source} does not import hub_link.js once")
    socket = str(paths.socket_file(options.env)) if options.transport == "stdio" else ""
    return text.replace(SOCKET, json.dumps(socket)).replace(URL, json.dumps(options.url))
