"""Worktrees of sessions that another machine runs: made and merged there."""

from pathlib import Path

import msgspec
import pytest
from tests.hub.conftest import Running
from tests.node.conftest import hub, joined_to, until_done
from tests.node.test_hub_link import FULL, tell
from tests.sessions.repositories import git, make_repository

from tieline.client.client import Client
from tieline.errors import Unsupported
from tieline.protocol import commands as c
from tieline.protocol.request_bodies import NewSession
from tieline.protocol.views import CommandView, NodeView
from tieline.script import Run, Say
from tieline.sessions.records import SessionRecord
from tieline.sessions.session_worktrees import WorktreeOutcome, WorktreeStatus
from tieline.testing.wait_for import eventually

__all__ = ["hub"]

pytestmark = pytest.mark.slow


async def test_a_worktree_on_another_machine(hub: Running, tmp_path: Path) -> None:
    replies = [[Run("echo one > one.txt")], [Say("Done.")]]
    async with joined_to(hub, tmp_path / "node", replies) as node:
        repository = make_repository(Path(node.cwd) / "shop")
        command = c.CreateSession(session="s", agent="scripted", cwd=str(repository), policy=FULL, worktree=True)
        made = msgspec.json.decode((await tell(hub.hub, node.id, command)).value, type=SessionRecord)
        assert made.worktree is not None and made.worktree.path.startswith(str(tmp_path / "node/state"))
        await tell(hub.hub, node.id, c.SendPrompt(session="s", prompt="p", text="go"))
        await until_done(hub.hub.bus, "s")
        await eventually(lambda: node.manager.prompts.running("s") is None, "it does not end")
        result = await tell(hub.hub, node.id, c.GetWorktree(session="s"))
        status = msgspec.json.decode(result.value, type=WorktreeStatus)
        assert (status.uncommitted, status.files, status.problem) == (1, 1, "")
        diff = msgspec.json.decode((await tell(hub.hub, node.id, c.GetDiff(session="s", since="base"))).value, type=str)
        assert "+++ b/one.txt" in diff
        merged = await tell(hub.hub, node.id, c.MergeWorktree(session="s"), id="merge-it")
        again = await hub.hub.dispatcher.dispatch(node.id, c.MergeWorktree(session="s"), by="me", id="merge-it")
        assert isinstance(again, CommandView) and again.state == "applied", "told twice, it is one merge"
        assert msgspec.json.decode(merged.value, type=WorktreeOutcome).done == "merged"
        assert (repository / "one.txt").read_text() == "one\n"
        assert git(repository, "status", "--porcelain") == ""


async def test_a_machine_of_an_older_version_is_not_asked_for_one(hub: Running) -> None:
    """It would not know the word, and work in the repository itself."""
    await hub.hub.nodes.register(NodeView(id="old", limits=("worktrees",)))
    async with Client(hub.url, hub.token) as client:
        with pytest.raises(Unsupported, match="the machine old does not support worktrees"):
            await client.create_session(NewSession(node="old", agent="scripted", cwd="/", worktree=True))
    with pytest.raises(Unsupported):
        await hub.hub.dispatcher.dispatch("old", c.MergeWorktree(session="s"), by="me")
