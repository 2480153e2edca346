"""A new session option takes three files of code (value, driver, CLI flag) and its documentation: one is added in a
copy of the tree, and reaches the driver by library, CLI, REST, command, relay, record, team, schedule, and on another
machine."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import httpx2 as httpx
import msgspec
import pytest
from tests.node.conftest import until
from tests.node.processes import Daemon

from tieline.bootstrap.process_lock import StartOptions
from tieline.client import Client, connect
from tieline.drivers.base import AgentOptions, AgentOptionsDict
from tieline.errors import UsageError
from tieline.events import Done, Init, decode
from tieline.protocol.request_bodies import Claim, Pairing
from tieline.script import Say

SOURCE = Path(__file__).parent.parent.parent / "src" / "tieline"
ADDED: Mapping[str, tuple[tuple[str, str], ...]] = {
    "drivers/base.py": (
        ('    effort: Annotated[str, setting("Effort', '    flavour: str = ""\n'),
        ("    effort: str | None\n", "    flavour: str | None\n"),
        ("    effort: tuple[str, ...] = ()", "    flavour: bool = False\n"),
    ),
    "drivers/scripted.py": (
        ("deltas=True, thinking=True", "flavour=True, "),
        ("self._spec.model, receipt=", "self._spec.flavour or "),
    ),
    "cli/typer_apps/options.py": (
        ("    effort: Annotated[\n", '    flavour: Annotated[str, typer.Option(help="How it tastes.")] = "",\n'),
    ),
}
"""What is put in front of what. The scripted driver tells the flavour that it got as its model."""
USE = """
import asyncio, sys
from pathlib import Path
import msgspec
from tieline import config as configuration
from tieline.api import open_session
from tieline.bus import open_bus
from tieline.channels.agent import AgentProject, _wanted
from tieline.cli.run.run_options import options_of, parse
from tieline.config import Config
from tieline.drivers.base import Features
from tieline.drivers.scripted import Scripted
from tieline.protocol.commands import CommandEnvelope, CreateSession, decode_envelope
from tieline.protocol.request_bodies import NewSession
from tieline.sessions.agent_specs import spec_of
from tieline.sessions.manager import SessionManager
from tieline.teams.team_file import read_member

cwd = sys.argv[1]
driver = Scripted()
driver.features = Features(flavour=True)
assert open_session(driver, cwd=cwd, flavour="mint", config=Config()).spec.flavour == "mint", "library"
options = options_of(parse(["a", "p", "--flavour", "mint", "--cwd", cwd]), "ask")
assert open_session(driver, config=Config(), **options).spec.flavour == "mint", "CLI"
body = msgspec.json.decode(b'{"flavour": "mint"}', type=NewSession)
request = _wanted(AgentProject(cwd=cwd, flavour="mint"))

async def stored(options):
    command = CreateSession(session="s", cwd=cwd, **options)
    envelope = msgspec.json.encode(CommandEnvelope(id="1", command=command))
    arrived = decode_envelope(envelope).command
    url = f"sqlite:///{cwd}/bus.db"
    config = Config(default_agent="scripted")
    for start in range(2):
        async with open_bus(url) as bus, SessionManager(bus, config, drivers={"scripted": driver}) as manager:
            if not start:
                await manager.create(cwd=cwd, id="s", **arrived.agent_options())
            assert spec_of(manager.get("s"), {}).flavour == "mint"

asyncio.run(stored(body.agent_options(policy=request.policy)))
assert request.agent_options()["flavour"] == "mint", "relay"
member = Path(cwd, "member.toml")
member.write_text('name = "bot"\\nagent = "scripted"\\nflavour = "mint"\\n')
assert read_member(member).agent_options()["flavour"] == "mint", "team file"
"""


def test_keyword_arguments_are_the_options() -> None:
    assert set(AgentOptionsDict.__annotations__) == set(AgentOptions.__struct_fields__)


def copy_with_option(root: Path) -> str:
    """Where Python finds the package with the new option."""
    copy = root / "copy" / "tieline"
    # With its bytecode (but what is just being written): Python makes anew what was changed only.
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("static", "*.pyc.*"))
    for name, lines in ADDED.items():
        text = (copy / name).read_text()
        for anchor, added in lines:
            assert text.count(anchor) == 1, anchor
            text = text.replace(anchor, added + anchor)
        (copy / name).write_text(text)
    return str(copy.parent)


def test_a_new_option_arrives(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    env = {**os.environ, "PYTHONPATH": copy_with_option(tmp_path), "TIELINE_CONFIG": "", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", USE, str(work)], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
async def test_a_new_option_reaches_the_driver_over_rest_the_command_line_and_a_node(tmp_path: Path) -> None:
    path = copy_with_option(tmp_path)
    script = tmp_path / "script.json"
    script.write_bytes(msgspec.json.encode([[Say("Done.")]] * 8))
    agent = f'[agents.bot]\ntype = "scripted"\nscript = "{script}"\n'
    hub = Daemon(tmp_path / "hub", StartOptions(port=0), agent)
    node = Daemon(tmp_path / "node", StartOptions(what="node"), agent)
    hub.env["PYTHONPATH"] = node.env["PYTHONPATH"] = path
    async with AsyncExitStack() as stack:
        for daemon in (hub, node):
            stack.push_async_callback(daemon.kill)
        await hub.start()
        async with connect(hub.env) as owner:
            key = (await owner.pair(Claim(secret=(await owner.pairing(Pairing(kind="client"))).secret, name="me"))).key
            me = await node.join(owner, hub.url, "far")
        await node.start()
        client = await stack.enter_async_context(Client(hub.url, key))
        http = await stack.enter_async_context(
            httpx.AsyncClient(
                base_url=f"{hub.url}/api/v1", headers={"authorization": f"Bearer {key}"}, timeout=30, verify=False
            )
        )

        async def online() -> bool:
            return any(view.id == me and view.online for view in await client.nodes())

        await until(online, "the node did not join")
        for name, where, cwd in (("near", "", hub.place), ("far", me, node.place)):
            body = {"id": name, "node": where, "agent": "bot", "cwd": str(cwd), "flavour": "mint", "prompt": "go"}
            response = await http.post("/sessions", json=body)
            assert response.is_success, response.text
            assert await flavour_of(client, name) == "mint", name

        cwd = str(hub.place)
        team = {"name": "t", "members": [{"name": "one", "agent": "bot", "cwd": cwd, "flavour": "mint"}]}
        response = await http.post("/teams", json={"team": team | {"conversation": {"max_rounds": 1}}, "task": "go"})
        assert response.is_success, response.text
        assert await flavour_of(client, response.json()["who"][0]["session"]) == "mint", "team"
        schedule = {"agent": "bot", "cwd": cwd, "flavour": "mint", "prompt": "go", "cron": "0 0 1 1 *"}
        response = await http.post("/schedules", json=schedule)
        assert response.is_success, response.text
        response = await http.post(f"/schedules/{response.json()['id']}/run")
        assert response.is_success, response.text
        assert await flavour_of(client, response.json()["session"]) == "mint", "schedule"

        # `1e2` is a number that only Typer's parser takes, and --standalone is without the hub
        assert await flavour_by_cli(hub, "--timeout", "1e2") == "mint"
        assert await flavour_by_cli(hub, "--timeout", "1e2", "--standalone") == "mint"


async def flavour_of(client: Client, session: str) -> str:
    """What the driver told that it got, once its turn is over."""

    async def over() -> bool:
        with suppress(UsageError):  # a team or a schedule makes it in a moment
            return any(isinstance(frame.event, Done) for frame in (await client.events(session)).events)
        return False

    await until(over, f"the turn of {session} did not end")
    frames = (await client.events(session)).events
    return next(frame.event.model for frame in frames if isinstance(frame.event, Init))


async def flavour_by_cli(hub: Daemon, *more: str) -> str:
    words = ["run", "bot", "go", "--flavour", "mint", "--json", *more]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tieline", *words,
        cwd=hub.place, env=hub.env, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return next(event.model for event in map(decode, out.splitlines()) if isinstance(event, Init))
