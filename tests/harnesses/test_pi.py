"""What `tieline install pi` writes, and what its extension does at a real hub; in Pi itself: `tests/more_agents`."""

import asyncio
import json
import os
import shutil
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.mesh.mcp_clients import OWNER, MeshHub, mesh_hub

from tieline import paths
from tieline.harnesses import installer
from tieline.harnesses.base import InstallOptions
from tieline.harnesses.pi.integration import PiIntegration
from tieline.testing.wait_for import at_work_in, eventually

HARNESS = PiIntegration()
EXTENSION = ".pi/agent/extensions/tieline.js"
BOUND = 60.0
ROOT = Path(__file__).parents[2]


def options(home: Path, **more: Any) -> InstallOptions:
    return InstallOptions(env={"HOME": str(home), **more}, program="/bin/tieline", python="/bin/python")


def install(given: InstallOptions) -> None:
    installer.apply(installer.plan_install(HARNESS, given), given.env)


def files(folder: Path) -> dict[str, bytes]:
    regular_files = (path for path in folder.rglob("*") if path.is_file() and ".local/state" not in str(path))
    return {str(path.relative_to(folder)): path.read_bytes() for path in regular_files}


@pytest.mark.parametrize("scope", ["global", "project"])
def test_the_extension_goes_beside_those_of_the_person_and_leaves_no_trace(scope: str, tmp_path: Path) -> None:
    given = options(tmp_path / "home")
    folder, memory = tmp_path / "home/.pi/agent", tmp_path / "home/.pi/agent/AGENTS.md"
    if scope == "project":
        given = replace(given, project=str(tmp_path / "project"))
        folder, memory = tmp_path / "project/.pi", tmp_path / "project/AGENTS.md"
    (folder / "extensions").mkdir(parents=True)
    (folder / "extensions/mine.ts").write_text("export default function () {}\n")
    memory.write_text("# Mine\n")
    before = files(tmp_path)
    install(given)
    changed = {path for path, text in files(tmp_path).items() if before.get(path) != text}
    places = (folder / "extensions/tieline.js", folder / "prompts/tieline.md", memory)
    assert changed == {str(path.relative_to(tmp_path)) for path in places}
    assert {state.state for state in installer.look(HARNESS, given)} == {"installed"}
    assert installer.installed_for(HARNESS, given, str(tmp_path / "project" / "below"))
    assert any("trust" in note for note in HARNESS.notes(given)) == (scope == "project")
    installer.apply(installer.plan_uninstall(HARNESS, given), given.env)
    assert files(tmp_path) == before


def test_it_goes_where_the_person_has_moved_pi_to_and_a_file_of_theirs_is_left_alone(tmp_path: Path) -> None:
    moved = options(tmp_path, PI_CODING_AGENT_DIR=str(tmp_path / "moved"))
    install(moved)
    assert (tmp_path / "moved/extensions/tieline.js").exists() and not (tmp_path / ".pi").exists()
    theirs = tmp_path / EXTENSION
    theirs.parent.mkdir(parents=True)
    theirs.write_text("// mine\n")
    with pytest.raises(installer.CannotInstall, match="did not write"):
        installer.plan_install(HARNESS, options(tmp_path))
    assert theirs.read_text() == "// mine\n"


def test_the_extension_is_one_file_that_knows_the_hub_of_this_machine_or_the_address_of_another(tmp_path: Path) -> None:
    given = options(tmp_path)
    install(given)
    text = (tmp_path / EXTENSION).read_text()
    assert f'const SOCKET = "{paths.socket_file(given.env)}" //' in text
    assert "./hub_link.js" not in text and text.count("export ") == 1  # each export would be an extension
    install(replace(given, transport="http", url="https://hub.example"))
    text = (tmp_path / EXTENSION).read_text()
    assert 'const SOCKET = "" //' in text and 'const HUB = SOCKET || "https://hub.example"' in text


# What Pi is to its extension: lines of JSON say what Pi does and which tools its model calls; answers come likewise.
HOST = """
import { createInterface } from "node:readline"
const handlers = new Map()
const tools = new Map()
const say = (fact) => console.log(JSON.stringify(fact))
let idle = true
const pi = {
  on: (event, handler) => handlers.set(event, handler),
  registerTool: (tool) => tools.set(tool.name, tool),
  sendUserMessage: (text) => say({ prompt: text }),
  sendMessage: ({ content }, options) => say({ message: content, options }),
}
const context = {
  mode: process.argv[2], cwd: "/a project, ä", isIdle: () => idle, ui: { notify: (text) => say({ notice: text }) },
  sessionManager: { getSessionId: () => "the-session" },
}
const fire = (type, more) => handlers.get(type)?.({ type, ...more }, context)
const extension = await import(process.argv[1])
extension.default(pi)
fire("session_start")
for await (const line of createInterface({ input: process.stdin })) {
  const { tool, args, event, more, is_idle } = JSON.parse(line)
  if (is_idle != null) idle = is_idle
  if (event) fire(event, more)
  if (!tool) continue
  while (!tools.has(tool) && !process.stdin.readableEnded) await new Promise((resolve) => setTimeout(resolve, 20))
  try {
    say({ result: (await tools.get(tool).execute("1", args)).content[0].text })
  } catch (error) {
    say({ error: error.message })
  }
}
process.exit(0)
"""


class Host:
    """The extension in a process of its own, in the place where Pi would be."""

    def __init__(self, given: InstallOptions, mode: str = "tui", **env: str) -> None:
        self._folder = Path(given.env["HOME"])
        self._mode, self._env = mode, env
        install(given)

    async def __aenter__(self) -> "Host":
        node = shutil.which("node")
        assert node is not None, "the tests need Node.js"
        extension = self._folder / "extension.mjs"
        extension.write_text((self._folder / EXTENSION).read_text())
        command = (node, "--input-type=module", "-e", HOST, "--", str(extension), self._mode)
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, env=self._env)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(BOUND):
            await self._process.wait()

    def say(self, **words: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words).encode() + b"\n")

    async def hears(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        async with asyncio.timeout(BOUND):
            return json.loads(await self._process.stdout.readline())

    async def call(self, tool: str, **args: Any) -> dict[str, Any]:
        self.say(tool=f"tieline_{tool}", args=args)
        return await self.hears()


async def member(hub: MeshHub, activity: str) -> str:
    """The name of the only agent, once it is like that."""

    def seen() -> list[tuple[str, str, str]]:
        agents = [agent for agent in hub.mesh.directory.members() if agent.kind == "agent"]
        return [(agent.session, agent.cwd, agent.activity) for agent in agents]

    expected = [("the-session", "/a project, ä", activity)]
    await eventually(lambda: seen() == expected, f"no agent is {activity}: {seen()}", timeout=BOUND)
    return next(agent.name for agent in hub.mesh.directory.members() if agent.kind == "agent")


@pytest.mark.slow
async def test_messages_are_handed_over_as_the_session_can_take_them_and_told_truly(tmp_path: Path) -> None:
    given = options(tmp_path / "home", TIELINE_HOME=str(tmp_path / "state"))
    async with mesh_hub(tmp_path) as hub, Host(given) as host:
        name = await member(hub, "idle")

        async def injected(id: str) -> bool:
            return bool((await hub.mesh.message_status(OWNER, id)).injected_at)

        idle = await hub.mesh.send_message(OWNER, name, "for an idle one")
        assert "for an idle one" in (await host.hears())["prompt"]
        assert not await injected(idle.id)  # Pi has not begun with it
        host.say(event="agent_start", is_idle=False)
        host.say(event="message_end", more={"message": {"role": "user"}})
        assert await host.hears() == {"notice": "Message from owner"}
        await hub.receipt(idle.id, "injected_at")
        await member(hub, "working")
        busy = await hub.mesh.send_message(OWNER, name, "for a busy one")
        steer = await host.hears()
        assert "for a busy one" in steer["message"] and steer["options"] == {"deliverAs": "steer"}
        assert await host.hears() == {"notice": "Message from owner"}
        await hub.receipt(busy.id, "injected_at")
        host.say(event="agent_settled", is_idle=True)  # stopped before it had that
        assert await host.hears() == {"message": steer["message"], "options": {"triggerTurn": False}}
        await member(hub, "idle")
        # Something else keeps Pi busy, such as a compaction: the message comes when that is over.
        host.say(is_idle=False)
        assert "result" in await host.call("list_agents")  # the line before was read
        returned = asyncio.Event()
        forget = hub.mesh.mailbox.on_returned(lambda _: returned.set())
        late = await hub.mesh.send_message(OWNER, name, "for later")
        async with asyncio.timeout(BOUND):
            await returned.wait()
        forget()
        host.say(is_idle=True)
        assert "for later" in (await host.hears())["prompt"]
        assert not await injected(late.id)


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_its_model_has_the_tools_of_the_mesh_and_a_refusal_is_an_error(transport: Any, tmp_path: Path) -> None:
    async with mesh_hub(tmp_path) as hub:
        _, key = await hub.hub.devices.add("mesh", "laptop")
        given = options(tmp_path / "home", TIELINE_HOME=str(tmp_path / "state"))
        given = replace(given, transport=transport, url=hub.serving.url)
        async with Host(given, TIELINE_MESH_KEY=key) as host:
            assert "as scout" in (await host.call("register_agent", name="scout"))["result"]
            (agent,) = [member for member in hub.mesh.directory.members() if member.kind == "agent"]
            assert (agent.name, agent.harness, agent.session) == ("scout", "pi", "the-session")
            assert "no member 'nobody'" in (await host.call("send_message", to="nobody", text="?"))["error"]
            assert "message" in (await host.call("send_message", to="owner", text="news"))["result"]
            history = await hub.mesh.fetch_message_history(OWNER)
            assert [(message.sender, message.text) for message in history] == [("scout", "news")]


@pytest.mark.slow
async def test_only_a_terminal_joins_and_without_a_hub_a_tool_says_so(tmp_path: Path) -> None:
    given = options(tmp_path / "home", TIELINE_HOME=str(tmp_path / "state"))
    async with AsyncExitStack() as stack:
        async with mesh_hub(tmp_path) as hub:
            async with Host(given, "print") as host:
                host.say(event="agent_start")
            assert not [member for member in hub.mesh.directory.members(ended=True) if member.kind == "agent"]
            host = await stack.enter_async_context(Host(given))
            await member(hub, "idle")
            assert "result" in await host.call("list_agents")
        assert "`tieline up`" in (await host.call("list_agents"))["error"]
        async with mesh_hub(tmp_path) as hub:
            await member(hub, "idle")
            assert "result" in await host.call("list_agents")


TEST_RUN = """
import asyncio, sys
from pathlib import Path
from tests.harnesses.test_pi import Host, options

async def wait_for_a_tool() -> None:
    async with Host(options(Path.cwd())) as host:
        host.say(tool="of_nobody")
        print("started", flush=True)
        await host.hears()

asyncio.run(wait_for_a_tool())
"""


@pytest.mark.slow
async def test_what_stands_for_pi_ends_with_the_tests(tmp_path: Path) -> None:
    """Also if they are killed while it waits for a tool."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = asyncio.subprocess.PIPE
    run = await asyncio.create_subprocess_exec(sys.executable, "-c", TEST_RUN, cwd=tmp_path, env=env, stdout=pipe)
    assert run.stdout is not None and await run.stdout.readline() == b"started\n"
    await eventually(lambda: len(at_work_in(tmp_path)) == 2, "it was not started")
    run.kill()
    await run.wait()
    await eventually(lambda: not at_work_in(tmp_path), "it is left")
