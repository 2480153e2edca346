"""Channels of one's own with Tieline as people install it: from its wheel."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LOADS = """
import sys
import tieline
from tieline.channels.base import ChannelContext
from tieline.config import ChannelConfig
from tieline.relay.channel_plugins.loader import build

installed, path, folder = sys.argv[1:]
assert tieline.__file__.startswith(installed), tieline.__file__
for entry in (
    ChannelConfig(id="by-path", path=path, config={"folder": folder}),
    ChannelConfig(id="by-package", package="folder_channel", config={"folder": folder}),
    ChannelConfig(id="built-in", type="webhook", config={"secrets": ["whsec_" + "A" * 44], "to": "relay.user.me"}),
):
    print(build(entry, ChannelContext()).channel.subject_prefix)
"""


@pytest.mark.slow
def test_channels_load_by_package_and_by_path(tmp_path: Path) -> None:
    example = ROOT / "examples/channel_folder/folder_channel.py"
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(built, cwd=ROOT, check=True, capture_output=True, timeout=100)
    (wheel,) = tmp_path.glob("tieline-*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    (installed / "folder_channel.py").write_bytes(example.read_bytes())
    loaded = subprocess.run(
        [sys.executable, "-c", LOADS, str(installed), str(example), str(tmp_path / "out")],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout.split() == ["relay.folder.by-path", "relay.folder.by-package", "relay.webhook.built-in"]
