"""What the release before wrote opens unchanged: its state directory, its bus file, its `tieline.toml`."""

import os
import shutil
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tieline import config as configuration
from tieline import state_directory
from tieline.bootstrap.daemon import hub_on
from tieline.bootstrap.process_lock import running_file
from tieline.client import connect
from tieline.client.hub_address import RunningHub
from tieline.events import Answer, Ask, Text
from tieline.testing.rig import scratch_env

MADE = Path(__file__).parent / "state_of_version_1"
MADE_AT = 1794846200.0
"""Soon after it was made: what ends by age has not ended."""


async def test_all_of_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"
    shutil.copytree(MADE / "state", state)
    toml = shutil.copy(MADE / "tieline.toml", tmp_path)
    env = scratch_env(tmp_path / "home", path="/usr/bin:/bin", TIELINE_HOME=str(state), TIELINE_CONFIG=str(toml))
    began = time.monotonic()
    monkeypatch.setattr(time, "time", lambda: MADE_AT + time.monotonic() - began)
    config = configuration.load(environ=env)

    # The settings, every one of them.
    assert (config.default_agent, config.policy, config.agents["gemini"]) == ("talker", "edits", {"enabled": False})
    assert config.agents["talker"] == {"type": "shell", "command": ["echo", "Good morning."]}
    assert (config.hub.port, config.hub.keep_events_days) == (0, 0)
    assert (config.relay.max_hops, config.relay.deny) == (5, ("relay.agent.> -> relay.webhook.>",))
    (channel,) = config.channels
    assert (channel.id, channel.type, channel.enabled, channel.problem) == ("shop", "webhook", False, "")

    before = {path.name: path.read_bytes() for path in state.iterdir()}
    state_directory.prepare(env)
    assert {path.name: path.read_bytes() for path in state.iterdir() if path.name != "version"} == before
    async with hub_on(config) as (_, serving), AsyncExitStack() as stack:
        stack.enter_context(running_file(env, RunningHub(serving.url, os.getpid(), socket=serving.socket)))
        client = await stack.enter_async_context(connect(env))
        sessions = {record.title: record for record in await client.sessions(archived=True)}
        assert set(sessions) == {"Mornings", "run it"}
        mornings, run_it = sessions["Mornings"], sessions["run it"]
        assert (mornings.agent, mornings.cwd, mornings.status, mornings.turns) == ("talker", "/home/ann", "idle", 1)
        assert (mornings.policy.shell, run_it.policy.shell, run_it.agent) == ("allow", "ask", "runner")
        assert {mornings.node, run_it.node} == {(MADE / "state/node-id").read_text().strip()}
        (prompt,) = await client.prompts(mornings.id, over=True)
        assert (prompt.text, prompt.status) == ("say good morning", "done")
        morning_events = [frame.event for frame in (await client.events(mornings.id)).events]
        assert "Good morning." in "".join(event.text for event in morning_events if isinstance(event, Text))

        # One ask was allowed, the next was open when it was told to end.
        events = [frame.event for frame in (await client.events(run_it.id)).events]
        first, second = [event for event in events if isinstance(event, Ask)]
        answers = [event for event in events if isinstance(event, Answer)]
        assert (first.capability, second.capability) == ("file_write", "shell")
        assert (answers[0].decision, answers[0].by) == ("allow", "owner")
        asked = await client.ask(first.id)
        assert (asked.status, asked.session, asked.parts[-1].label) == ("answered", run_it.id, "change")
        assert await client.asks() == []

        (message,) = await client.inbox()
        assert message.envelope is not None and message.envelope.payload.text == "the build is red"
        assert message.envelope.budget.max_hops == 5
        (device,) = [device for device in await client.devices() if device.name == "Ann's script"]
        assert (device.kind, device.by) == ("client", "owner")
        kinds = [line.what for line in await client.audit()]
        assert sorted(kinds) == ["decision", "pairing", "pairing"]
