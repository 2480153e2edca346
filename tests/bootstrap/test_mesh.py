"""The mesh as a hub runs it: people are told of what an agent does not take."""

from pathlib import Path

import msgspec
import pytest
from tests.channels.test_contract import Posted
from tests.mesh.conftest import OWNER, harness
from tests.mesh.test_desktop_notification import program

from tieline import config as configuration
from tieline.bootstrap.daemon import hub_on
from tieline.bootstrap.mesh import CONNECTORS, create_connectors
from tieline.harnesses import registry
from tieline.mesh.push import HarnessSession, Unreachable
from tieline.testing.http_server import LoopbackServer
from tieline.testing.wait_for import eventually


async def test_people_are_told_through_notify_channels_and_the_desktop(tmp_path: Path) -> None:
    posted = Posted("relay.notify.desk")
    async with LoopbackServer(posted) as server:
        file = tmp_path / "tieline.toml"
        file.write_text(f"""
[hub]
port = 0

[mesh]
notify_after_s = 0.1

[[channels]]
id = "desk"
type = "notify"
config = {{ urls = ["json://127.0.0.1:{server.port}/"] }}
""")
        state = {"HOME": str(tmp_path), "TIELINE_HOME": str(tmp_path / "state")}
        desktop = program(tmp_path, "notify-send") | {"DISPLAY": ":0"}
        config = configuration.load(environ={**state, **desktop, "TIELINE_CONFIG": str(file)})
        async with hub_on(config, node=False) as (hub, _):
            mesh, channels = hub.mesh, hub.channels
            assert mesh is not None and channels is not None
            running = lambda: [report.id for report in channels.reports() if report.state == "running"]  # noqa: E731
            await eventually(lambda: "desk" in running(), "the channel does not run", timeout=60)
            await mesh.register_agent(harness("s-1"), name="reviewer")
            await mesh.send_message(OWNER, "@reviewer", "are you there?")
            await eventually(lambda: bool(posted.bodies), "the channel was told", timeout=60)
            notification = msgspec.json.decode(posted.bodies[0])
            assert "A message waits for reviewer" in notification["message"] and "From owner" in notification["message"]
            assert "are you there?" not in notification["message"]
            calls = tmp_path / "calls"
            await eventually(lambda: calls.exists() and "From owner" in calls.read_text(), "the desktop", timeout=60)


async def test_the_live_ways_go_by_the_names_of_their_harnesses_and_are_off_without_them(tmp_path: Path) -> None:
    connectors = create_connectors({"HOME": str(tmp_path)})
    assert [connector.harness for connector in connectors] == list(CONNECTORS)
    assert set(CONNECTORS) <= set(registry.names())
    for connector in connectors:
        sessions: list[HarnessSession] = []
        assert bool(connector.rungs) == bool(registry.create(connector.harness).capabilities.idle_wake)
        async with connector.open(Observer(sessions)):
            with pytest.raises(Unreachable):
                await connector.push(HarnessSession(harness=connector.harness, session="nobody"), "hello", "alice")
        assert sessions == []


class Observer:
    def __init__(self, sessions: list[HarnessSession]) -> None:
        self._sessions = sessions

    async def changed(self, session: HarnessSession) -> None:
        self._sessions.append(session)

    async def ended(self, session: HarnessSession) -> None:
        self._sessions.append(session)
