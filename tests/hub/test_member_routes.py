"""Members of the mesh over REST, by the client: found, written to by name, and their threads."""

from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.hub.conftest import Running, running

from tieline.bootstrap.mesh import open_mesh
from tieline.bootstrap.relay import open_relay
from tieline.client import Client
from tieline.client.messages import OWNER
from tieline.errors import UsageError
from tieline.mesh.mesh import Mesh
from tieline.mesh.records import Caller
from tieline.protocol.mesh import Registration
from tieline.protocol.messages import NewAsk, NewMessage


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncGenerator[Running, None]:
    async with (
        running(tmp_path) as started,
        open_relay(started.hub, watch=False) as relay,
        open_mesh(started.hub, relay),
    ):
        yield started


@pytest.fixture
def mesh(hub: Running) -> Mesh:
    assert hub.hub.mesh is not None
    return hub.hub.mesh


@pytest.fixture
async def client(hub: Running) -> AsyncGenerator[Client, None]:
    async with Client(hub.url, hub.token) as client:
        yield client


def agent(session: str, harness: str = "codex") -> Caller:
    return Caller(machine="laptop", harness=harness, session=session)


async def register(mesh: Mesh, name: str, harness: str = "codex", **profile: str) -> Registration:
    return await mesh.register_agent(agent(f"{name}-session", harness), name, **profile)


async def test_everyone_with_an_inbox_is_listed_and_found(hub: Running, mesh: Mesh, client: Client) -> None:
    session = await hub.session(title="mend the shop")
    ada = (await register(mesh, "ada", description="database migrations", project="Shop", role="backend")).member
    await register(mesh, "bob", "claude-code", description="the shop's front page", project="shop")
    listed = await client.members()
    assert listed[0].kind == "person"
    assert {member.name for member in listed} == {"owner", session["id"], "ada", "bob"}
    assert [member.name for member in await client.members("datbase migration")] == ["ada"]
    assert [member.name for member in await client.members(harness="claude-code")] == ["bob"]
    assert {member.name for member in await client.members(project="SHOP", kind="agent")} == {"ada", "bob"}
    assert [member.name for member in await client.members(role="backend", machine="laptop")] == ["ada"]
    assert await client.members("migrations", activity="working") == []
    await mesh.heartbeat(agent("ada-session"), "working")
    assert [member.name for member in await client.members("migrations", activity="working")] == ["ada"]
    for spelling in ("@ada", "ada", ada.id, ada.address):
        assert (await client.member(spelling)).id == ada.id
    driven = await client.member(session["id"])
    node = hub.hub.node
    assert node is not None
    assert (driven.kind, driven.machine) == ("session", node.name)
    with pytest.raises(UsageError, match="no member 'adda'") as unknown:
        await client.member("adda")
    assert "ada" in unknown.value.hint
    reply = await hub.client.get("/api/v1/members", params={"activity": "asleep"})
    assert (reply.status_code, reply.json()["field"]) == (400, "activity")


async def test_who_ended_is_shown_when_asked_for(mesh: Mesh, client: Client) -> None:
    await register(mesh, "gone")
    await mesh.end_session(agent("gone-session"))
    assert "gone" not in {member.name for member in await client.members()}
    (member,) = [member for member in await client.members(ended=True) if member.name == "gone"]
    assert member.ended


async def test_a_member_is_written_to_by_its_name_and_the_thread_is_shown(mesh: Mesh, client: Client) -> None:
    ada = (await register(mesh, "ada")).member
    sent = await client.send_message(NewMessage(to="@ada", text="are you there?"))
    assert sent.receipt.subject == ada.address
    assert (await client.member("ada")).unread == 1
    assert [view.receipt.id for view in await client.inbox("@ada")] == [sent.receipt.id]
    with pytest.raises(UsageError, match="cannot mark an agent's messages as read"):
        await client.read_inbox("@ada")
    fetched = await mesh.fetch_messages(agent("ada-session"))
    await mesh.confirm(agent("ada-session"), [message.id for message in fetched.messages])
    await mesh.reply(agent("ada-session"), sent.receipt.id, "I am.")
    thread = await client.conversation("ada")
    assert [(message.sender, message.text) for message in thread] == [("ada", "I am."), ("owner", "are you there?")]
    assert thread[1].state == "answered"
    assert [message.text for message in await client.conversation("ada", before=thread[0].id)] == ["are you there?"]
    assert [view.receipt.sender for view in await client.read_inbox(OWNER)] == [ada.address]
    quiet = await client.ask_message(NewAsk(to=ada.id, text="and now?", timeout_s=0.2))
    assert quiet.receipt.subject == ada.address
    with pytest.raises(UsageError, match="no member '@nobody-here'"):
        await client.send_message(NewMessage(to="@nobody-here", text="hello?"))
    with pytest.raises(UsageError, match=r"no member 'relay\.member\.nobody'"):
        await client.send_message(NewMessage(to="relay.member.nobody", text="hello?"))


async def test_what_a_project_shares_is_shown(mesh: Mesh, client: Client) -> None:
    await register(mesh, "ada", project="My Shop")
    await mesh.shared_notes(agent("ada-session"), "put", "style", "tabs")
    await mesh.reserve_paths(agent("ada-session"), ["src/**"], note="a rewrite")
    assert [(note.key, note.text, note.by) for note in (await client.notes("My Shop")).notes] == [
        ("style", "tabs", "ada")
    ]
    (lease,) = await client.path_leases("my shop")
    assert (lease.pattern, lease.holder_name, lease.note) == ("src/**", "ada", "a rewrite")
    assert (await client.notes("elsewhere")).notes == ()


async def test_a_hub_without_a_mesh_says_so(tmp_path: Path) -> None:
    async with running(tmp_path) as started:
        reply = await started.client.get(f"/api/v1/members/{quote('@ada')}")
    assert (reply.status_code, reply.json()["detail"]) == (503, "the mesh is not running on this hub")
