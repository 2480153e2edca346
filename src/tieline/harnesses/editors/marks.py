"""The comment that says which lines are ours, and for which harnesses they are there.

Several harnesses may read one file (`AGENTS.md`, a folder of skills): the last one to be uninstalled takes it away.
"""

import re
from collections.abc import Set

OPENING = re.compile(r"tieline \[([a-z0-9 -]+)\]: written by `tieline install`, removed by `tieline uninstall`")
END = "tieline end"


def opening(users: Set[str]) -> str:
    return f"tieline [{' '.join(sorted(users))}]: written by `tieline install`, removed by `tieline uninstall`"


def users_of(mark: "re.Match[str]") -> set[str]:
    return set(mark[1].split())
