"""What is called tested is what the tests install: the versions in the code are the pinned ones."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

from tieline.config import Config
from tieline.drivers import registry
from tieline.drivers.acp_presets import PRESETS

TESTS = Path(__file__).parents[1]
PROGRAMS = {"codex": "@openai/codex", "opencode": "opencode-ai", "pi": "@earendil-works/pi-coding-agent"}
"""Agents with a driver of their own → the package that has them; of a preset, its install hint names it."""
NPM, PYPI = "npm install -g ", "uv tool install "


def pinned() -> dict[str, str]:
    """Package → version, as the tests' folders of agents install them."""
    pins: dict[str, str] = {}
    for file in TESTS.glob("*/package.json"):
        pins |= json.loads(file.read_text())["dependencies"]
    for file in TESTS.glob("*/python/*.in"):
        pins |= dict(re.findall(r"^([\w-]+)==(\S+)$", file.read_text(), re.MULTILINE))
    return pins


def packages() -> dict[str, str]:
    """Agent → package, of those that npm or uv installs."""
    installs = {name: preset.install for name, preset in PRESETS.items()}
    named = {name: install for name, install in installs.items() if install.startswith((NPM, PYPI))}
    bare = {name: install.partition(" (")[0] for name, install in named.items()}  # a remark may follow
    return PROGRAMS | {name: install.removeprefix(NPM).removeprefix(PYPI) for name, install in bare.items()}


def test_the_versions_in_the_code_are_the_pinned_ones() -> None:
    """Both ways: nothing else is called tested, and what the tests install is."""
    pins, config = pinned(), Config()
    tested = {name: registry.create(name, config).tested for name in packages()}
    assert tested == {name: pins.get(package, "") for name, package in packages().items()}
    assert len({version for version in tested.values() if version}) >= 3


def test_claude_code_is_the_one_that_its_sdk_brings() -> None:
    sdk = find_spec("claude_agent_sdk")
    assert sdk is not None and sdk.origin
    text = (Path(sdk.origin).parent / "_cli_version.py").read_text()
    (version,) = re.findall(r'__cli_version__ = "(.+)"', text)
    assert registry.create("claude-code", Config()).tested == version
