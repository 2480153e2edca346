"""`python -P -m tieline.bootstrap ORDER`: the daemon's process. What it does besides makes it start faster and stay
smaller."""

import gc
import sys
from collections.abc import Callable
from importlib import import_module

from ..processes.malloc_options import give_memory_back


def load() -> Callable[[str], int]:
    """The daemon, imported with as little as possible."""
    give_memory_back()
    gc.disable()  # imported objects stay: collecting among them costs a tenth of the start
    if "rich" not in sys.modules:
        # structlog would import Rich, for coloured tracebacks that no log of the daemon has.
        sys.modules["rich"] = None  # type: ignore[assignment] (Python's own way to say that there is none)
        import_module("structlog")
        del sys.modules["rich"]  # a channel of somebody's own may use it
    from .daemon import main

    gc.freeze()
    gc.enable()
    return main


if __name__ == "__main__":
    sys.exit(load()(sys.argv[1]))
