"""Start-up: `import tieline` and `tieline --help`, each in a fresh process of this environment."""

import subprocess
import sys
import tempfile
from pathlib import Path

from .rows import Row, at_most, side_by_side


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as cache:
        # Byte code is cached where we say, so that the caller's settings do not decide what is measured.
        env = {"HOME": cache, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONPYCACHEPREFIX": cache}

        def run(*argv: str) -> None:
            subprocess.run(argv, env=env, check=True, capture_output=True, timeout=60)

        def python(code: str) -> None:
            run(sys.executable, "-c", code)

        script = str(Path(sys.executable).parent / "tieline")
        names = "import tieline; [getattr(tieline, name) for name in tieline.__all__]"
        ours, all_names, bare, help_, library = side_by_side(
            [
                lambda: python("import tieline"),
                lambda: python(names),
                lambda: python("import asyncio, msgspec"),
                lambda: run(script, "--help"),
                lambda: python("import asyncio, msgspec, typer"),
            ],
            21,
        )
    return [
        at_most("`import tieline` : `import asyncio, msgspec`", ours, bare, 1.3, "names load when first used"),
        at_most("… with every public name used", all_names, bare, 1.3),
        at_most("`tieline --help` : `import asyncio, msgspec, typer`", help_, library, 1.3),
    ]


if __name__ == "__main__":
    for row in measure():
        print(row)
