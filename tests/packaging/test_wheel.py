"""The wheel is all that one needs: it holds the page, and runs in an empty home by what it declares alone."""

import subprocess
import sys
import urllib.request
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest
from tests.packaging.installed_wheels import closure, pack

from tieline.client.hub_address import running_hub
from tieline.testing.rig import scratch_env

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
BIN = Path(sys.executable).parent
WAIT_S = 100.0
"""For one command, however busy the machine is."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make wheel` builds it."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        ["make", "-s", "-o", "setup", "wheel", f"DIST={folder}", f"BIN={BIN}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = folder.glob("*.whl")
    assert str(file) in done.stderr, "it does not say where the wheel is"
    return file


def test_it_holds_the_page(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    static = ROOT / "src/tieline/hub/static"
    page = {f"tieline/hub/static/{file.relative_to(static)}" for file in static.rglob("*") if file.is_file()}
    assert "tieline/hub/static/index.html" in page
    assert page <= held
    assert {"tieline/py.typed", "tieline/bus/sqlite/bus.sql", "tieline/harnesses/opencode/plugin.js"} <= held
    assert not [name for name in held if not name.startswith(("tieline/", "tieline-"))]


def test_it_runs_in_an_empty_home(wheel: Path, tmp_path: Path) -> None:
    """As `uvx --from dist/…whl tieline up`, with what the wheel declares from a folder instead of an index."""
    folder, home = tmp_path / "wheels", tmp_path / "home"
    folder.mkdir()
    for name, dist in closure(text for text in requires("tieline") or () if "extra ==" not in text).items():
        pack(name, dist, folder)
    env = scratch_env(home, path="/usr/bin:/bin", UV_CACHE_DIR=str(tmp_path / "cache"))
    uvx = [str(BIN / "uvx"), "--offline", "--no-index", "--find-links", str(folder), "--python", sys.executable]

    def tieline(*arguments: str, status: int = 0) -> str:
        done = subprocess.run(
            [*uvx, "--from", str(wheel), "tieline", *arguments],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stderr if status else done.stdout

    for more in ((), ("--print",)):
        assert "runs from a cache" in tieline("service", "install", *more, status=1)
    try:
        assert "Tieline is at http://127.0.0.1:" in tieline("up", "--port", "0")
        hub = running_hub(env)
        assert hub is not None
        with urllib.request.urlopen(hub.url, timeout=WAIT_S) as answer:
            page = answer.read()
        assert page == (ROOT / "src/tieline/hub/static/index.html").read_bytes()
    finally:
        ended = tieline("down")
    assert "Tieline has ended." in ended
    assert running_hub(env) is None
