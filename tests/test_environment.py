"""What agents inherit: nothing that is Tieline's own."""

from pathlib import Path

import tieline
from tieline import environment
from tieline.channels.base import ChannelContext
from tieline.config import ChannelConfig, Config
from tieline.relay.channel_plugins.loader import build
from tieline.testing.rig import scratch_env

CHANNEL = ChannelConfig(
    id="ci",
    type="webhook",
    config={"secrets": ["env:CI_SECRET"], "deep": {"list": [{"token": "env:DEEP_TOKEN"}]}},
)


def config(tmp_path: Path, **more: str) -> Config:
    return Config(
        agents={
            "printer": {"type": "shell", "command": ["/bin/sh", "-c", "env"], "prompt_by": "argument", "output": "text"}
        },
        channels=(CHANNEL,),
        environ=scratch_env(tmp_path / "home", path="/usr/bin:/bin", **more),
    )


SECRETS = {
    "CI_SECRET": "of-a-channel",
    "DEEP_TOKEN": "of-a-list",
    "TIELINE_TOKEN": "of-the-owner",
    "TIELINE_HUB": "https://user:key@example.test",
    "TIELINE_CHILD": "the-mark-of-another",
    "TIELINE_SESSION": "another-session",
}


async def test_an_agent_prints_its_environment(tmp_path: Path) -> None:
    """All of it, as the process has it."""
    setting = config(tmp_path, TIELINE_HOME=str(tmp_path), KEPT="theirs", **SECRETS)
    printed = ""
    async for event in tieline.run("printer", "print it", cwd=tmp_path, config=setting, accept_unenforced=True):
        if isinstance(event, tieline.Done):
            printed = event.text
    variables = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
    assert variables["KEPT"] == "theirs"
    assert {name for name in variables if name.startswith("TIELINE_")} == {"TIELINE_CHILD", "TIELINE_HOME"}
    for name, value in SECRETS.items():
        assert value not in printed, name


def test_what_the_caller_gives_an_agent_it_gets(tmp_path: Path) -> None:
    session = tieline.open_session("scripted", cwd=tmp_path, config=config(tmp_path), env={"CI_SECRET": "given"})
    assert session.spec.env == {"CI_SECRET": "given"}


def test_a_channel_that_comes_later_keeps_its_secret_too(tmp_path: Path) -> None:
    """The session manager has the configuration of its start; a channel may be added while it runs."""
    entry = ChannelConfig(id="later", type="webhook", config={"to": "relay.user.you", "secrets": ["env:LATER_SECRET"]})
    secret = "whsec_" + "A" * 32
    build(entry, ChannelContext(env={"LATER_SECRET": secret}))
    assert "LATER_SECRET" not in config(tmp_path, LATER_SECRET=secret).for_children()
    assert "LATER_SECRET" not in environment.for_children({"LATER_SECRET": secret})
