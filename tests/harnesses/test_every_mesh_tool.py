"""Every tool of the mesh, called by real agents in real terminals: Claude Code and Codex beside each other."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.harnesses.desk import desk, tool

from tieline.mesh.mcp_tools import TOOLS
from tieline.script import Call, Reply, Say
from tieline.testing.model_rig import ModelRig

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

CODEX = ("reply", "shared_notes", "reserve_paths", "send_message")
"""The tools that Codex calls, in this order. It asks its person about each."""


class Script:
    """Which tools the models called. `call` makes a call."""

    def __init__(self) -> None:
        self.called: set[str] = set()

    def call(self, harness: str, name: str, /, **arguments: object) -> Call:
        self.called.add(name)
        return tool(harness, name, **arguments)


async def test_agents_in_terminals_call_every_tool(tmp_path: Path) -> None:
    async with desk(tmp_path, "claude-code", "codex") as at:
        claude, codex = await at.member("claude-code"), await at.member("codex")
        script, first, second = Script(), at.homes["claude-code"].rig, at.homes["codex"].rig
        question = "How many are there?"

        def answer(request: Any) -> Reply:
            """Codex thanks for what it hears, until it is asked; then it makes its calls, one at a time."""
            conversation = str(request)
            asked = re.search(r'id="(\w+)" thread="\w+" reply="wanted">\\n' + re.escape(question), conversation)
            if asked is None:
                return [Say("Thank you.")]
            if "There are three." not in conversation:
                return [script.call("codex", "reply", message_id=asked[1], text="There are three.")]
            if "We use tabs." not in conversation:
                return [script.call("codex", "shared_notes", action="get", key="style")]
            if "src/one.py" not in conversation:
                return [script.call("codex", "reserve_paths", patterns=["src/one.py"])]
            if "Tell me when it is done." in conversation and "It is done." not in conversation:
                return [script.call("codex", "send_message", to=claude.id, text="It is done.")]
            return [Say("That was all.")]

        def calls(*named: tuple[str, dict[str, object]]) -> list[Reply]:
            return [[script.call("claude-code", name, **arguments)] for name, arguments in named]

        second.model.choose = answer
        first.play(
            *calls(
                ("register_agent", {"name": "shop-claude", "role": "author"}),
                ("update_agent_profile", {"specialisation": "stylesheets"}),
                ("list_agents", {"harness": "codex"}),
                ("find_agents", {"query": "codex"}),
                ("get_session_binding", {}),
                ("bind_session", {"agent_id": claude.id}),
                ("heartbeat", {"activity": "working"}),
                ("shared_notes", {"action": "put", "key": "style", "text": "We use tabs."}),
                ("reserve_paths", {"patterns": ["src/*.py"], "note": "renaming"}),
                ("broadcast_message", {"text": "I rename things in src."}),
                ("ask_agent", {"to": codex.id, "text": question, "timeout_s": 90}),
            ),
            [Say("I was told.")],
        )
        await at.terminals["claude-code"].submit("ask around")
        for name in CODEX[:-1]:
            await at.terminals["codex"].answer(f'run tool "{name}"?', "Enter")
        await at.terminals["claude-code"].shows("I was told.")
        await at.terminals["codex"].shows("That was all.")
        heard = values(first)
        assert f'"agent_id":"{claude.id}","session_id":"{claude.session}"' in heard
        assert f'"name":"{codex.name}"' in heard, "neither the list nor the search has the other"
        assert "There are three." in heard, "ask_agent did not bring the answer"
        assert '"holder_name":"shop-claude"' in values(second), "the conflict does not name the holder"
        me = await at.client.member(claude.id)
        assert (me.name, me.role, me.specialisation) == ("shop-claude", "author", "stylesheets")
        asked = await at.sent(question)
        await at.reached(await at.sent("I rename things in src."), "stored", "injected", "seen")
        await at.reached(asked, "stored", "injected", "seen", "answered")

        first.play(
            *calls(
                ("message_status", {"message_id": asked.receipt.id}),
                ("fetch_message_history", {"with": codex.id}),
                ("fetch_messages", {}),
                ("release_paths", {}),
                ("send_message", {"to": codex.id, "text": "Tell me when it is done."}),
                ("wait_for_messages", {"timeout_s": 90}),
            ),
            [Say("I waited for it.")],
        )
        await at.terminals["claude-code"].submit("look after it")
        allowed = f'run tool "{CODEX[-1]}"?'
        await at.terminals["codex"].shows(allowed)
        last = await at.sent("Tell me when it is done.")
        await at.heard("claude-code", last.receipt.id)  # it was told that it is sent: next it waits
        await at.terminals["codex"].answer(allowed, "Enter")
        await at.terminals["claude-code"].shows("I waited for it.")
        heard = values(first)
        assert f'"id":"{asked.receipt.id}"' in heard and '"state":"answered"' in heard
        assert '"messages":[],"left":0' in heard, "nothing is unread: hooks and pushes brought it"
        assert '"released":[{' in heard and await at.client.path_leases(claude.project) == []
        assert "It is done." in heard
        assert script.called == TOOLS.keys()
        assert '"is_error":true' not in heard, "a call of a tool failed"


def values(rig: ModelRig) -> str:
    """Everything that the model was told: harnesses give it the structured value of a result, as JSON in a text."""
    return rig.heard().replace("\\", "")
