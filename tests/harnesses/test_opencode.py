"""What `tieline install opencode` writes."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tieline.harnesses import installer
from tieline.harnesses.base import InstallOptions
from tieline.harnesses.opencode import OpenCodeIntegration

HARNESS = OpenCodeIntegration()
OWN = '{\n  // mine\n  "theme": "dark",\n  "mcp": { "other": { "type": "local", "command": ["x"] } }\n}\n'


@pytest.fixture
def options(tmp_path: Path) -> InstallOptions:
    return InstallOptions(env={"HOME": str(tmp_path / "home")}, program="/bin/tieline", python="/bin/python")


def install(options: InstallOptions) -> None:
    installer.apply(installer.plan_install(HARNESS, options), options.env)


@pytest.mark.parametrize("scope", ["global", "project"])
def test_it_goes_into_the_file_that_the_person_has_and_leaves_no_trace(
    scope: str, options: InstallOptions, tmp_path: Path
) -> None:
    folder = tmp_path / "home/.config/opencode"
    if scope == "project":
        options, folder = replace(options, project=str(tmp_path / "project")), tmp_path / "project"
    folder.mkdir(parents=True)
    config = folder / "opencode.jsonc"
    config.write_text(OWN)
    before = files(tmp_path)
    install(options)
    assert "// mine" in config.read_text()
    assert not (folder / "opencode.json").exists()
    assert not installer.plan_install(HARNESS, options)
    assert {state.state for state in installer.look(HARNESS, options)} == {"installed"}
    assert installer.installed_for(HARNESS, options, str(tmp_path / "project" / "below"))
    installer.apply(installer.plan_uninstall(HARNESS, options), options.env)
    assert files(tmp_path) == before


def test_the_plugin_knows_the_socket_of_a_hub_on_this_machine(options: InstallOptions, tmp_path: Path) -> None:
    install(options)
    plugin = tmp_path / "home/.config/opencode/plugins/tieline.js"
    assert f'const SOCKET = "{tmp_path}/home/.local/state/tieline/own/hub.sock" //' in plugin.read_text()
    install(replace(options, transport="http"))
    assert 'const SOCKET = "" //' in plugin.read_text()
    config = msgspec.json.decode((tmp_path / "home/.config/opencode/opencode.json").read_bytes())
    entry = config["mcp"]["tieline"]
    assert (entry["type"], entry["url"]) == ("remote", "http://127.0.0.1:8137/mcp")
    assert entry["headers"]["Authorization"] == "Bearer {env:TIELINE_MESH_KEY}"


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and ".local/state" not in str(path))
    return {str(path): path.read_bytes() for path in found}
