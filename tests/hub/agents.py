"""An agent in the middle of its turn that has left a door open: HTTP through it is, to the hub, by what it started."""

import shlex
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2 as httpx
from msgspec import Struct
from tests.hub.conftest import Running

from tieline.script import Reply, Run
from tieline.testing.wait_for import eventually

FORWARD = Path(__file__).parent / "forward.py"


class Inside(Struct, frozen=True):
    """What the agent of a session started: a child, and one that did all to be nobody's."""

    session: str
    child: str
    away: str
    there: Path  # where both lead: the hub's socket, or another's

    @property
    def ways(self) -> tuple[str, str]:
        return self.child, self.away


def through(hub: Running, path: str) -> httpx.AsyncClient:
    way = httpx.AsyncHTTPTransport(uds=path, verify=False)
    return httpx.AsyncClient(base_url=hub.url, transport=way, timeout=30.0)


@asynccontextmanager
async def inside(hub: Running, path: Path, script: list[Reply] | None = None) -> AsyncGenerator[Inside, None]:
    """A session of the scripted agent (which plays `script`, if it is not the hub's own) whose command runs until the
    block ends."""
    child, away = str(path / "child"), str(path / "away")
    (path / "there").symlink_to(hub.serving.socket)
    there = shlex.quote(str(path / "there"))
    forward = f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(FORWARD))}"
    command = f"{forward} --away {shlex.quote(away)} {there}; exec {forward} {shlex.quote(child)} {there}"
    (hub.replies if script is None else script).append([Run(command)])
    session = (await hub.session())["id"]
    begun = await hub.client.post(f"/api/v1/sessions/{session}/prompts", json={"text": "work"})
    assert begun.status_code == 201, begun.text
    await eventually(
        lambda: Path(child).exists() and Path(away).exists(), "the agent's command does not run", timeout=30
    )
    try:
        yield Inside(session, child, away, path / "there")
    finally:
        await hub.client.post(f"/api/v1/sessions/{session}/abort")
