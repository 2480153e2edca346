"""A session option added to AgentOptions alone reaches the Spec by library, CLI, body, command, relay and record."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tieline.drivers.base import AgentOptions, AgentOptionsDict

SOURCE = Path(__file__).parent.parent.parent / "src" / "tieline"
ADDED = (
    ('    effort: Annotated[str, setting("Effort', '    flavour: str = ""\n'),
    ("    effort: str\n", "    flavour: str\n"),
    ("    effort: tuple[str, ...] = ()", "    flavour: bool = False\n"),
)
"""Lines put in front of others in drivers/base.py: AgentOptions, its keyword arguments, Features."""
USE = """
import asyncio, sys
import msgspec
from tieline import config as configuration
from tieline.api import open_session
from tieline.bus import open_bus
from tieline.channels.agent import Project, _wanted
from tieline.cli.run.run_options import options_of, parse
from tieline.config import Config
from tieline.drivers.base import Features
from tieline.drivers.scripted import Scripted
from tieline.protocol.commands import CommandEnvelope, CreateSession, decode_envelope
from tieline.protocol.request_bodies import NewSession
from tieline.sessions.agent_options import spec_of
from tieline.sessions.manager import SessionManager

place = sys.argv[1]
driver = Scripted()
driver.features = Features(flavour=True)
assert open_session(driver, cwd=place, flavour="mint", config=Config()).spec.flavour == "mint", "library"
options = options_of(parse(["a", "p", "--flavour", "mint", "--cwd", place]), "ask")
assert open_session(driver, config=Config(), **options).spec.flavour == "mint", "CLI"
body = msgspec.json.decode(b'{"flavour": "mint"}', type=NewSession)
request = _wanted(Project(cwd=place, flavour="mint"))

async def stored(options):
    command = CreateSession(session="s", cwd=place, **options)
    envelope = msgspec.json.encode(CommandEnvelope(id="1", command=command))
    arrived = decode_envelope(envelope).command
    url = f"sqlite:///{place}/bus.db"
    config = Config(default_agent="scripted")
    for start in range(2):
        async with open_bus(url) as bus, SessionManager(bus, config, drivers={"scripted": driver}) as manager:
            if not start:
                await manager.create(cwd=place, id="s", **arrived.agent_options())
            assert spec_of(manager.get("s"), {}).flavour == "mint"

asyncio.run(stored(body.agent_options(policy=request.policy)))
assert request.agent_options()["flavour"] == "mint", "relay"
"""


def test_keyword_arguments_are_the_options() -> None:
    assert set(AgentOptionsDict.__annotations__) == set(AgentOptions.__struct_fields__)


def test_a_new_option_arrives(tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "tieline"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__", "page", "static"))
    base = copy / "drivers" / "base.py"
    text = base.read_text()
    for anchor, line in ADDED:
        assert text.count(anchor) == 1
        text = text.replace(anchor, line + anchor)
    base.write_text(text)
    work = tmp_path / "work"
    work.mkdir()
    env = {**os.environ, "PYTHONPATH": str(copy.parent), "TIELINE_CONFIG": "", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", USE, str(work)], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
