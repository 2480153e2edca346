"""From end to end with the real agents: a signed webhook reaches one, it works, its answer leaves through another
channel."""

import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import msgspec
import pytest
from standardwebhooks import Webhook as Library
from tests.channels.conftest import IMPORTS_AIOGRAM, OTHER, SECRET
from tests.channels.test_webhook import Receiver
from tests.channels.test_webhook_signatures import signed
from tests.hub.test_hooks import toml
from tests.workers import worker

from tieline import config as configuration
from tieline.bootstrap.daemon import hub_on
from tieline.bootstrap.process_lock import running_file
from tieline.client.hub_address import RunningHub
from tieline.script import Call, Run, Say
from tieline.testing import mcp_server
from tieline.testing.http_server import LoopbackServer
from tieline.testing.telegram_server import TOKEN, BotApi
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.real, IMPORTS_AIOGRAM]

ADA = 4711
WORK_S = 90.0


@pytest.fixture(params=["claude-code", "codex"])
async def agent(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[tuple[Any, str], None]:
    async with worker(request.param, tmp_path / "home") as opened:
        yield opened


async def test_what_an_mcp_tool_sends_inherits(agent: tuple[Any, str], tmp_path: Path) -> None:
    """It says neither who it is nor what it works on; Codex gives the servers of tools an empty environment."""
    rig, entry = agent
    shop, home = tmp_path / "shop", tmp_path / "home"
    shop.mkdir()
    (tmp_path / "t.toml").write_text(
        toml(("agents", "type agent", {}), head=f"[hub]\nport = 0\n{entry}")
        + f'[channels.config.projects.shop]\ncwd = "{shop}"\nagent = "worker"\npolicy = "full"\n'
    )
    own = {"TIELINE_HOME": str(tmp_path / "state"), "TIELINE_CONFIG": str(tmp_path / "t.toml")}
    async with hub_on(configuration.load(environ={**rig.options["env"], **own})) as (hub, serving):
        assert hub.relay is not None
        words = ("message", "send", "relay.user.boss", "by a tool")
        command = mcp_server.command_line("post", str(Path(sys.executable).parent / "tieline"), *words)
        env = {"TIELINE_HOME": own["TIELINE_HOME"]}
        if "claude" in entry:
            server = {"command": command[0], "args": command[1:], "env": env}
            (home / ".claude.json").write_bytes(msgspec.json.encode({"mcpServers": {"letters": server}}))
            rig.play([Call("mcp__letters__post")], [Say("Sent.")])
        else:
            quoted = ", ".join(msgspec.json.encode(word).decode() for word in command[1:])
            pairs = ", ".join(f'{key} = "{value}"' for key, value in env.items())
            server = f'command = "{command[0]}"\nargs = [{quoted}]\nenv = {{ {pairs} }}\n'
            with (home / ".codex/config.toml").open("a") as file:
                file.write(f"\n[mcp_servers.letters]\n{server}")
            rig.play([Call("post", {"namespace": "mcp__letters"})], [Say("Sent.")])
        with running_file(own, RunningHub(serving.url, os.getpid(), socket=serving.socket)):
            sent = await hub.relay.send("relay.agent.shop.bob", "write to my boss", sender="relay.user.me")
            inbox = hub.relay.inbox("relay.user.boss")
            await eventually(lambda: bool(inbox.unread()), "nothing came", timeout=WORK_S)
        letter = (await inbox.read(inbox.unread()[0].id)).envelope
        assert letter is not None
        assert letter.sender.startswith("relay.agent."), "stamped, not claimed"
        assert (letter.caused_by, letter.thread, letter.budget.hops) == (sent.id, sent.thread, 2)
        assert letter.budget.ancestors[:2] == ("relay.user.me", "relay.agent.shop.bob")


async def test_a_webhook_reaches_an_agent_and_its_answer_leaves_elsewhere(
    agent: tuple[Any, str], tmp_path: Path
) -> None:
    rig, entry = agent
    shop = tmp_path / "shop"
    shop.mkdir()
    rig.play([Run("echo repaired > proof.txt")], [Say("The build is **green** again.")])
    receiver = Receiver()
    async with BotApi() as api, LoopbackServer(receiver) as server:
        project = f'[channels.config.projects.shop]\ncwd = "{shop}"\nagent = "worker"\npolicy = "full"\n'
        hook = {"secrets": [SECRET], "to": "relay.agent.shop.fixer", "reply_to": f"relay.telegram.phone.{ADA}"}
        hook["text"] = "message"
        text = toml(
            ("ci", "type webhook", hook),
            ("report", "type webhook", {"sign_with": [OTHER], "url": server.url}),
            ("phone", "type telegram", {"token": TOKEN, "api": api.url, "chats": [ADA]}),
            ("agents", "type agent", {}),
            head=f"[hub]\nport = 0\n{entry}",
        )
        own = {"TIELINE_HOME": str(tmp_path / "state"), "TIELINE_CONFIG": str(tmp_path / "t.toml")}
        env = {**rig.options["env"], **own}
        (tmp_path / "t.toml").write_text(text + project)
        async with hub_on(configuration.load(environ=env)) as (hub, serving):
            assert hub.relay is not None
            assert hub.channels is not None
            channels, running = hub.channels, dict.fromkeys(("ci", "report", "phone", "agents"), "running")

            def states() -> dict[str, str]:
                return {channel.id: channel.state for channel in channels.reports()}

            assert states() in (running, {**running, "phone": "starting"})
            await eventually(lambda: states() == running, "the bot does not start", timeout=WORK_S)
            body = msgspec.json.encode({"message": "the build is red, please repair it"}).decode()
            async with httpx.AsyncClient(base_url=serving.url, timeout=30, verify=False) as outside:
                headers = {"content-type": "application/json", **signed(body=body)}
                reply = await outside.post("/hooks/in/ci", content=body, headers=headers)
            assert reply.status_code == 202, reply.text
            await eventually(
                lambda: any("green" in text for text in api.said(ADA)), "no answer came to the chat", timeout=WORK_S
            )
            assert (shop / "proof.txt").read_text() == "repaired\n"
            heard = rig.heard()
            assert "the build is red, please repair it" in heard
            assert "relay_context" in heard, "and who sent it, in the system prompt"
            receipt = await hub.relay.status(reply.json()["message"])
            assert receipt.state == "answered"
            answer = await hub.relay.message(receipt.answer)
            assert answer.envelope is not None
            onward = await hub.relay.send(
                "relay.webhook.report", answer.envelope.payload, sender=answer.envelope.subject, within=receipt.answer
            )
            await eventually(lambda: bool(receiver.got), "nothing was posted", timeout=30)
            content = Library(OTHER).verify(receiver.got[0].body, receiver.got[0].headers)
            assert "green" in content["data"]["text"]
            assert content["data"]["thread"] == receipt.thread
            assert onward.thread == receipt.thread
