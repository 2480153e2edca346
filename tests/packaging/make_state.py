"""Makes what `test_state_of_version_1.py` opens: a state directory and its `tieline.toml`, by the release before.

    HOME=/home/ann PATH=… python make_state.py

`tieline` on PATH is the release, HOME an empty directory; `$HOME/made` has the files then. They are kept as they were
made: what a release wrote is never made again by a newer one.
"""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path

CONFIG = """\
# What somebody wrote by hand, once.
default_agent = "talker"
policy = "edits"

[agents.talker]
type = "shell"
command = ["echo", "Good morning."]

[agents.runner]
type = "scripted"

[agents.gemini]
enabled = false

[hub]
port = 0
keep_events_days = 0

[relay]
max_hops = 5
deny = ["relay.agent.> -> relay.webhook.>"]

[[channels]]
id = "shop"
type = "webhook"
enabled = false
[channels.config]
url = "http://127.0.0.1:9/hook"
secrets = ["env:SHOP_SECRET"]
"""
KEPT = {"bus.db", "node-id", "hub-id", "audit.jsonl", "trusted-code.json"}
"""What a state directory is, without the log and what says that it runs."""


def tieline(*arguments: str) -> str:
    done = subprocess.run(["tieline", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def pair(secret: str) -> None:
    from tieline.client import connect
    from tieline.protocol.request_bodies import Claim

    async with connect(dict(os.environ)) as client:
        await client.pair(Claim(secret=secret, name="Ann's script"))


def main() -> None:
    home = Path(os.environ["HOME"])
    target = home / "made"
    (target / "state").mkdir(parents=True)
    folder = home / ".config/tieline"
    folder.mkdir(parents=True)
    (folder / "tieline.toml").write_text(CONFIG)
    os.chdir(home)
    tieline("up")
    try:
        tieline("send", "--new", "talker", "say good morning", "--title", "Mornings", "--policy", "full", "--wait")
        ran = tieline("send", "--new", "runner", "run it", "--policy", "ask").split()[0]
        asks: list[dict[str, str]] = []
        while not asks:
            asks = json.loads(tieline("asks", "--json"))
        tieline("approve", asks[0]["id"])
        tieline("tail", ran, "--no-follow")  # its next ask is open when it is told to end
        tieline("message", "send", "relay.user.owner", "the build is red", "--key", "first")
        offered = json.loads(tieline("pair", "--client", "--json"))
        asyncio.run(pair(offered["secret"]))
    finally:
        tieline("down")
    state = home / ".local/state/tieline"
    shutil.copy(folder / "tieline.toml", target / "tieline.toml")
    for name in KEPT & {path.name for path in state.iterdir()}:
        shutil.copy(state / name, target / "state" / name)


if __name__ == "__main__":
    main()
