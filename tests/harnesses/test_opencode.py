"""What `tieline install opencode` writes."""

import asyncio
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.mesh.conftest import OWNER
from tests.mesh.mcp_clients import MeshHub, mesh_hub

from tieline import paths
from tieline.harnesses import installer
from tieline.harnesses.base import InstallOptions
from tieline.harnesses.opencode.integration import OpenCodeIntegration
from tieline.harnesses.plugin_file import plugin_text
from tieline.protocol.mesh import MemberView
from tieline.testing.wait_for import eventually

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
    assert f'const SOCKET = "{paths.socket_file(options.env)}" //' in plugin.read_text()
    install(replace(options, transport="http"))
    assert 'const SOCKET = "" //' in plugin.read_text()
    config = msgspec.json.decode((tmp_path / "home/.config/opencode/opencode.json").read_bytes())
    entry = config["mcp"]["tieline"]
    assert (entry["type"], entry["url"]) == ("remote", "http://127.0.0.1:8137/mcp")
    assert entry["headers"]["Authorization"] == "Bearer {env:TIELINE_MESH_KEY}"


PROBE = """
const plugin = await import(process.argv[1])
const parents = { ses_sub: "ses_own" }
const session = { get: async ({ path: { id } }) => ({ data: { id, parentID: parents[id] } }) }
const hooks = await plugin.Tieline({ client: { session }, directory: "/p" })
const call = async (tool, sessionID, args) => {
  await hooks["tool.execute.before"]({ tool, sessionID }, { args })
  return args
}
const context = ["another plugin's"]
await hooks["experimental.session.compacting"]({}, { context })
console.log(JSON.stringify({
  calls: [
    await call("tieline_register_agent", "ses_own", { name: "x" }),
    await call("tieline_fetch_messages", "ses_sub", {}),
    await call("bash", "ses_own", { command: "ls" }),
  ],
  context,
}))
"""


RESUMED = """
const plugin = await import(process.argv[1])
const looked = []
const list = async () => ({ data: [
  { id: "ses_old", time: { updated: 1 } },
  { id: "ses_latest", time: { updated: 3 } },
  { id: "ses_sub", parentID: "ses_old", time: { updated: 5 } },
] })
const get = async ({ path: { id } }) => { looked.push(id); return {} }
await plugin.Tieline({ client: { session: { get, list } }, directory: "/p" })
await new Promise((resolve) => setTimeout(resolve))
console.log(JSON.stringify(looked))
"""


@pytest.mark.parametrize(
    ("options", "session"),
    [
        ("--session ses_old", ["ses_old"]),
        ("-s ses_old", ["ses_old"]),
        ("--session=ses_old", ["ses_old"]),
        ("--continue", ["ses_latest"]),
        ("-c", ["ses_latest"]),
        ("--session ses_old --fork", []),
        ("", []),
    ],
)
def test_the_plugin_knows_the_session_that_a_terminal_was_opened_with(
    options: str, session: list[str], tmp_path: Path
) -> None:
    assert in_node(tmp_path, RESUMED, *options.split()) == session


@pytest.mark.parametrize(("options", "session"), [("--session ses_old", ["ses_old"]), ("--continue", [])])
def test_loaded_by_a_terminal_that_was_open_before_it_takes_no_other_ones_session(
    options: str, session: list[str], tmp_path: Path
) -> None:
    assert in_node(tmp_path, f"process.uptime = () => 3600\n{RESUMED}", *options.split()) == session


def test_the_plugin_says_which_session_calls_and_what_a_summary_is_to_keep(tmp_path: Path) -> None:
    report = in_node(tmp_path, PROBE)
    assert report["calls"] == [{"name": "x", "session_id": "ses_own"}, {"session_id": "ses_own"}, {"command": "ls"}]
    own, kept = report["context"]
    assert own == "another plugin's" and "name in the Tieline mesh" in kept


AT_A_HUB = """
const plugin = await import(process.argv[1])
const info = { id: "ses_own", directory: "/p", time: { created: 1000 } }
const promptAsync = async ({ body }) => {
  const [{ text }] = body.parts
  console.log(JSON.stringify(text))
  hooks["chat.message"]({}, { message: { sessionID: info.id }, parts: [{ text }] })
  return {}
}
const session = { get: async () => ({ data: info }), promptAsync }
const request = async () => ({ data: [], response: { status: 200, headers: new Headers() } })
const tui = { showToast: async () => {} }
const hooks = await plugin.Tieline({ client: { session, tui, _client: { request } }, directory: "/p" })
await hooks.event({ event: { type: "session.created", properties: { info } } })
process.stdin.on("end", () => process.exit()).resume()
"""


def agents(hub: MeshHub) -> list[MemberView]:
    return [member for member in hub.mesh.directory.members() if member.kind == "agent"]


def is_reported(hub: MeshHub) -> bool:
    return [agent.activity for agent in agents(hub)] == ["idle"]


def is_read(hub: MeshHub) -> bool:
    return [hub.mesh.mailbox.unread(agent.address) for agent in agents(hub)] == [0]


@pytest.mark.slow
async def test_the_plugin_reports_its_session_and_hands_a_message_over_also_after_a_restart_of_the_hub(
    tmp_path: Path,
) -> None:
    given = InstallOptions(
        env={"HOME": str(tmp_path / "home"), "TIELINE_HOME": str(tmp_path / "state")}, program="", python=""
    )
    plugin = tmp_path / "tieline.mjs"
    plugin.write_text(plugin_text("opencode/plugin.js", given))
    node = shutil.which("node")
    assert node is not None, "the tests need Node.js"
    command = (node, "--input-type=module", "-e", AT_A_HUB, "--", str(plugin))
    pipe = asyncio.subprocess.PIPE  # its input ends with the tests
    process = await asyncio.create_subprocess_exec(*command, env={}, stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    try:
        for text in ("the first", "the second"):
            async with mesh_hub(tmp_path) as hub:
                await eventually(partial(is_reported, hub), "the session is not reported", timeout=60)
                (member,) = agents(hub)
                assert (member.harness, member.session, member.cwd) == ("opencode", "ses_own", "/p")
                await hub.mesh.send_message(OWNER, member.name, text)
                async with asyncio.timeout(60):
                    assert text in msgspec.json.decode(await process.stdout.readline())
                await eventually(partial(is_read, hub), "it is not confirmed", timeout=60)
    finally:
        process.kill()
        await process.wait()


def in_node(folder: Path, program: str, *arguments: str) -> Any:
    """What a program prints that loads the plugin."""
    plugin = folder / "tieline.mjs"
    nowhere = InstallOptions(env={"HOME": str(folder)}, program="", python="", transport="http")
    plugin.write_text(plugin_text("opencode/plugin.js", nowhere))
    node = shutil.which("node")
    assert node is not None, "the tests need Node.js"
    command = [node, "--input-type=module", "-e", program, "--", str(plugin), *arguments]
    done = subprocess.run(command, env={}, capture_output=True, text=True, timeout=60, check=True)
    return msgspec.json.decode(done.stdout)


def files(folder: Path) -> dict[str, bytes]:
    regular_files = (path for path in folder.rglob("*") if path.is_file() and ".local/state" not in str(path))
    return {str(path): path.read_bytes() for path in regular_files}
