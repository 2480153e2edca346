"""The agents of `make test-agents` that are written in Python, each in an environment of its own: their requirements
exclude each other's. Nothing is made anew where the pins are the same.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.packaging.pythons import find, make_environment

HERE = Path(__file__).parent
VERSIONS = ("3.12", "3.13")
"""Pythons that all of them run on."""


def binaries(agent: str) -> Path:
    """The directory with that agent's program."""
    return HERE / ".venv" / agent / "bin"


def main() -> int:
    program = next((path for version in VERSIONS if (path := find(version))), "")
    if not program:
        print(f"These agents need Python {' or '.join(VERSIONS)}: there is none on this machine.", file=sys.stderr)
        return 1
    for pins in sorted(HERE.glob("*.txt")):
        make_environment(binaries(pins.stem).parent, program, pins)
    return 0


if __name__ == "__main__":
    sys.exit(main())
