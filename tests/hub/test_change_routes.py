"""A session's changes through a real hub, on its own machine and on another one."""

import asyncio
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import Struct
from tests.bus.conftest import free_port
from tests.hub.agents import inside, through
from tests.hub.conftest import Running, caller
from tests.node.conftest import joined_to
from tests.sessions.git_remotes import bare_repository, git_daemon

from tieline.client import Client
from tieline.errors import TielineError, UsageError
from tieline.hub.security.access_rules import API, person_only
from tieline.protocol.request_bodies import NewSession
from tieline.sessions.git_actions import ChangeOutcome
from tieline.sessions.records import SessionRecord
from tieline.testing.wait_for import eventually

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
ACTIONS = ("stage", "unstage", "commit", "revert", "discard", "push", "pull-request")


class Checkout(Struct):
    client: Client
    session: str
    top: Path
    remote: Path

    def git(self, *arguments: str, at: Path | None = None) -> str:
        env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        return subprocess.run(
            ["git", *who, *arguments], cwd=at or self.top, env=env, check=True, capture_output=True, text=True
        ).stdout


@asynccontextmanager
async def checkout(hub: Running, tmp_path: Path, where: str) -> AsyncGenerator[Checkout]:
    """A session in a repository with a remote: on the hub's machine, or on another."""
    (tmp_path / "other").mkdir()
    remotes = tmp_path / "remotes"
    remote = bare_repository(remotes, "own/project.git")
    with git_daemon(remotes, free_port()) as url:
        async with joined_to(hub, tmp_path / "other") as node, Client(hub.url, hub.token) as client:
            cwd, id, home = (
                (hub.cwd, "", hub.env["HOME"]) if where == "here" else (node.cwd, node.id, str(tmp_path / "other"))
            )
            Path(home, ".gitconfig").write_text("[user]\n\tname = Ada Lane\n\temail = ada@example.com\n")
            made = Checkout(client, "", Path(cwd), remote)
            made.git("init", "-q", "-b", "trunk")
            (made.top / "a.txt").write_text("one\n")
            made.git("add", ".")
            made.git("commit", "-qm", "first")
            made.git("remote", "add", "origin", f"{url}/own/project.git")
            created = await client.create_session(NewSession(agent="scripted", cwd=cwd, node=id, policy="full"))
            assert isinstance(created, SessionRecord)
            made.session = created.id
            yield made


def outcome(answer: object) -> ChangeOutcome:
    assert isinstance(answer, ChangeOutcome)
    return answer


def digest(answer: object) -> str:
    plan = outcome(answer).plan
    assert plan is not None
    return plan.digest


@pytest.mark.slow
@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_from_a_change_to_the_remote(hub: Running, tmp_path: Path, where: str) -> None:
    async with checkout(hub, tmp_path, where) as at:
        client, session = at.client, at.session
        (at.top / "a.txt").write_text("two\n")
        (at.top / "new.txt").write_text("new\n")
        tree = await client.changes(session)
        assert [(file.path, file.staged, file.unstaged) for file in tree.files] == [
            ("a.txt", None, "modified"),
            ("new.txt", None, "untracked"),
        ]
        assert (tree.branch, tree.author, tree.remote) == ("trunk", "Ada Lane <ada@example.com>", "origin")
        assert "-one\n+two\n" in await client.diff(session, since="commit")

        assert outcome(await client.stage(session, ["a.txt", "new.txt"])).done == "staged 2 files"
        await client.unstage(session, ["new.txt"])
        made = outcome(await client.commit(session, "Two"))
        assert at.git("log", "-1", "--format=%H %an %s").strip() == f"{made.commit} Ada Lane Two"

        agreed = digest(await client.revert(session, ["new.txt"]))
        assert (at.top / "new.txt").exists(), "a plan changes nothing"
        (at.top / "new.txt").write_text("newer\n")
        with pytest.raises(UsageError, match="has changed since this was shown"):
            await client.revert(session, ["new.txt"], digest=agreed)
        assert (at.top / "new.txt").read_text() == "newer\n"
        done = outcome(
            await client.revert(session, ["new.txt"], digest=digest(await client.revert(session, ["new.txt"])))
        )
        assert not (at.top / "new.txt").exists()
        assert "git restore --source=refs/tieline/discarded/" in done.restore

        (at.top / "a.txt").write_text("three\n")
        await client.discard(session, digest=digest(await client.discard(session)))
        assert (at.top / "a.txt").read_text() == "two\n"

        plan = outcome(await client.push(session)).plan
        assert plan is not None and at.git("remote", "get-url", "origin").strip() in str(plan.parts)
        await client.push(session, digest=plan.digest)
        assert at.git("rev-parse", "trunk", at=at.remote).strip() == made.commit
        with pytest.raises(UsageError, match="gh is not installed"):
            await client.open_pull_request(session, "Two")

        await hub.hub.audit.flush()
        lines = await hub.hub.audit.read(kind="changes")
        assert [line.details["command"] for line in reversed(lines)] == [
            "stage_files", "stage_files", "commit_staged", "revert_files", "discard_changes", "push_branch",
        ]  # fmt: skip


async def test_a_changed_plan_is_a_conflict(hub: Running, tmp_path: Path) -> None:
    async with checkout(hub, tmp_path, "here") as at:
        (at.top / "a.txt").write_text("two\n")
        reply = await hub.client.post(f"/api/v1/sessions/{at.session}/changes/discard", json={"digest": "0" * 32})
        assert (reply.status_code, reply.json()["code"], reply.json()["field"]) == (409, "PlanChanged", "digest")


async def test_a_machine_that_is_away_is_not_told_later(hub: Running, tmp_path: Path) -> None:
    async with checkout(hub, tmp_path, "elsewhere") as at:
        session = at.session
        node = (await at.client.session(session)).node
    await eventually(lambda: not hub.hub.state.nodes[node].online, "it is still shown as online")
    async with Client(hub.url, hub.token) as client:
        for does in (client.changes(session), client.commit(session, "x"), client.session_file(session, "a.txt")):
            with pytest.raises(TielineError) as refused:
                await does
            assert "offline" in str(refused.value)


@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_files_of_the_directory_are_read_and_no_others(hub: Running, tmp_path: Path, where: str) -> None:
    async with checkout(hub, tmp_path, where) as at:
        client, session = at.client, at.session
        (tmp_path / "secret.txt").write_text("secret")
        (at.top / "src").mkdir()
        (at.top / "src/b.py").write_text("x = 1\n")
        (at.top / "image.txt").write_bytes(PNG)  # its bytes count, not its name
        (at.top / "drawing.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>")
        (at.top / "raw.bin").write_bytes(b"\0\1\2")
        (at.top / "long.txt").write_text("x" * (1024 * 1024 + 1))
        (at.top / "inner").symlink_to("src")
        (at.top / "out").symlink_to(tmp_path / "secret.txt")
        (at.top / "up").symlink_to(tmp_path)
        read = {
            name: await client.session_file(session, name)
            for name in (
                "src/b.py",
                f"{at.top}/src/b.py",
                "inner/b.py",
                "image.txt",
                "drawing.svg",
                "raw.bin",
                "long.txt",
            )
        }
        assert read["src/b.py"] == read[f"{at.top}/src/b.py"]
        assert (read["src/b.py"].path, read["src/b.py"].text) == ("src/b.py", "x = 1\n")
        assert read["inner/b.py"].text == "x = 1\n"
        assert (read["image.txt"].media_type, read["image.txt"].data) == ("image/png", PNG)
        assert (read["drawing.svg"].media_type, read["drawing.svg"].data) == ("text/plain", b"")
        assert (read["raw.bin"].media_type, read["raw.bin"].text) == ("application/octet-stream", "")
        assert (len(read["long.txt"].text), read["long.txt"].whole) == (1024 * 1024, False)
        for name in ("out", "up/secret.txt", "../secret.txt", "/etc/passwd", "src", "missing", "", "a\0b", "/dev/zero"):
            with pytest.raises(UsageError):
                await client.session_file(session, name)


async def test_an_endless_or_waiting_file_is_not_waited_for(hub: Running, tmp_path: Path) -> None:
    async with checkout(hub, tmp_path, "here") as at:
        await asyncio.to_thread(subprocess.run, ["mkfifo", str(at.top / "pipe")], check=True)
        async with asyncio.timeout(10):
            with pytest.raises(UsageError, match="not a regular file"):
                await at.client.session_file(at.session, "pipe")


async def test_only_a_person_changes_something(hub: Running, tmp_path: Path) -> None:
    session = (await hub.session())["id"]
    paths = [("POST", f"{API}/sessions/{session}/changes/{action}") for action in ACTIONS]
    paths += [("GET", f"{API}/sessions/{session}/changes"), ("GET", f"{API}/sessions/{session}/file?path=a")]
    paths += [("GET", f"{API}/sessions/{session}/prompts/p/attachments/0")]
    for kind in ("node", "mesh"):
        _, key = await hub.hub.devices.add(kind, "limited")
        async with caller(hub.url, key) as limited:
            for method, path in paths:
                assert (await limited.request(method, path)).status_code == 403, path
    (tmp_path / "in").mkdir()
    async with inside(hub, tmp_path / "in") as agent, through(hub, agent.away) as its_process:
        for method, path in paths:
            assert (await its_process.request(method, path)).status_code == 403, path
            assert person_only(method, path.partition("?")[0]), "nor may the agent in a person's terminal"
