"""What fails between real harnesses in real terminals: the hub, the daemon of Codex, a terminal with unread mail.

Nothing is lost, nothing comes twice, every member stays who it was, and receipts and states say what happened.
"""

import os
import signal
from pathlib import Path

import msgspec
import pytest
from tests.harnesses.desk import desk, run, tool, until_exists

from tieline.protocol.messages import NewMessage
from tieline.script import Say

pytestmark = pytest.mark.real


async def test_a_hub_that_is_killed_in_the_middle_of_an_exchange_loses_and_repeats_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path, "claude-code", "codex") as at:
        claude, codex = await at.member("claude-code"), await at.member("codex")
        at.homes["codex"].rig.play([until_exists("go")])
        at.homes["claude-code"].rig.play(
            [tool("claude-code", "send_message", to=codex.id, text="The first question?")], [Say("I have asked.")]
        )
        await at.terminals["claude-code"].submit("ask the other one")
        await at.heard("codex", "The first question?")
        await at.member("claude-code")
        await at.activity("codex", "working")
        await at.kill_hub()
        # An agent's call starts a hub where none runs; it goes on with what the killed one had.
        at.homes["claude-code"].rig.play(
            [tool("claude-code", "send_message", to=codex.id, text="The second question?")], [Say("I asked again.")]
        )
        await at.terminals["claude-code"].submit("ask once more")
        await at.terminals["claude-code"].shows("I asked again.")
        first, second = await at.sent("The first question?"), await at.sent("The second question?")
        await at.reached(second, "injected")
        at.homes["codex"].rig.play(
            [tool("codex", "reply", message_id=first.receipt.id, text="The first answer.")],
            [tool("codex", "reply", message_id=second.receipt.id, text="The second answer.")],
            [Say("I have answered both.")],
        )
        await at.kill_hub()
        (tmp_path / "project" / "go").touch()
        await at.allow("codex")
        await at.terminals["codex"].shows("I have answered both.")
        await at.heard("claude-code", "The first answer.")
        await at.heard("claude-code", "The second answer.")
        assert (await at.member("claude-code")).id == claude.id
        assert (await at.member("codex")).id == codex.id
        for question in (first, second):
            await at.reached(question, "stored", "injected", "seen", "answered")
        for answer in ("The first answer.", "The second answer."):
            await at.reached(await at.sent(answer), "stored", "injected")
        assert len(await at.messages()) == 4
        assert [at.times_heard("codex", words) for words in ("The first question?", "The second question?")] == [1, 1]
        for words in ("The first answer.", "The second answer."):
            assert at.times_heard("claude-code", words) == 1


@pytest.mark.parametrize("noticed", [False, True], ids=["restarted", "dead for a while"])
async def test_what_a_killed_daemon_of_codex_had_only_in_memory_comes_when_it_is_back(
    tmp_path: Path, noticed: bool
) -> None:
    async with desk(tmp_path, "codex") as at:
        codex, terminal, rig = await at.member("codex"), at.terminals["codex"], at.homes["codex"].rig
        rig.play([Say("Hello.")], [until_exists("go")])
        await terminal.submit("say hello")
        await terminal.shows("Hello.")
        await terminal.submit("wait for the file")
        await at.activity("codex", "working")
        await at.running("codex", "go")
        steered = await at.client.send_message(NewMessage(to=codex.address, text="into the turn"))
        await at.reached(steered, "injected")
        rig.play([Say("All has come.")])
        os.kill(daemon_of_codex(tmp_path), signal.SIGKILL)
        waiting = await at.client.send_message(NewMessage(to=codex.address, text="after the kill"))
        if noticed:
            await at.ended(codex, unread=2)
            states = [(await at.client.message(message.receipt.id)).state for message in (steered, waiting)]
            assert states == ["stored"] * 2
            await at.notified(f"2 messages wait for {codex.name}")
        await run(at.homes["codex"].env, tmp_path, *at.homes["codex"].argv, "app-server", "daemon", "start")
        await terminal.shows("All has come.")  # the terminal was open all the time
        for message in (steered, waiting):
            await at.reached(message, "stored", "injected", "seen")
        assert (await at.member("codex")).id == codex.id
        assert [at.times_heard("codex", words) for words in ("into the turn", "after the kill")] == [1, 1]


async def test_mail_for_a_closed_terminal_stays_unread_until_it_is_resumed(tmp_path: Path) -> None:
    harnesses = ("claude-code", "codex", "opencode")
    async with desk(tmp_path, *harnesses) as at:
        for name in harnesses:
            at.homes[name].rig.play([Say(f"Hello from {name}.")])
            await at.terminals[name].submit("say hello")
            await at.terminals[name].shows(f"Hello from {name}.")
        members = {name: await at.member(name) for name in harnesses}
        await at.terminals["claude-code"].submit("/exit")
        await at.terminals["codex"].quit()
        await at.terminals["opencode"].quit()
        for member in members.values():
            await at.ended(member)
        sent = {
            name: await at.client.send_message(NewMessage(to=member.address, text=f"mail for {name}"))
            for name, member in members.items()
        }
        for name, member in members.items():
            await at.notified(f"A message waits for {member.name} From owner. Its session is over")
            assert (await at.client.message(sent[name].receipt.id)).state == "stored"
            assert (await at.client.member(member.id)).unread == 1
        for name, member in members.items():
            at.homes[name].rig.play([Say(f"It was there for {name}.")])
            terminal = await at.resume(member)
            await terminal.shows(f"It was there for {name}.")
            await at.reached(sent[name], "stored", "injected", "seen")
            assert (await at.member(name)).id == member.id
            assert at.times_heard(name, f"mail for {name}") == 1


def daemon_of_codex(root: Path) -> int:
    return int(msgspec.json.decode((root / "home/.codex/app-server-daemon/daemon.pid").read_bytes())["pid"])
