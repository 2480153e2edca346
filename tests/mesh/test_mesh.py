"""Members of different harnesses register, find each other, exchange messages, and see where these got to."""

import time
from pathlib import Path
from typing import Any

import pytest
from tests.bus.conftest import address
from tests.mesh.conftest import OWNER, harness, open_mesh, within

from tieline.bus import open_bus
from tieline.config import Config
from tieline.envelopes import Refused, UnknownMessage
from tieline.errors import UsageError
from tieline.mesh.directory import PRUNE_S, STALE_S, Filters
from tieline.mesh.errors import NameTaken, NotRegistered, NotYours, UnknownMember
from tieline.mesh.mesh import MAX_TEXT, Mesh
from tieline.mesh.records import Caller
from tieline.relay import Relay, Settings
from tieline.relay.storage.store import MESSAGE_LOG
from tieline.testing.wait_for import eventually

ANNA, BOB, CAROL = harness("s-anna"), harness("s-bob", "codex"), harness("s-carol", "opencode")


async def members(mesh: Mesh) -> None:
    await mesh.register_agent(ANNA, name="anna", project="shop", role="backend", specialisation="payments")
    await mesh.register_agent(BOB, name="bob", project="shop", role="frontend", specialisation="checkout page")


async def test_send_fetch_reply(url: str) -> None:
    async with open_mesh(url) as mesh:
        await members(mesh)
        sent = await mesh.send_message(ANNA, "@bob", "Is the checkout done?")
        assert (sent.to, sent.state) == ("bob", "stored")

        (message,) = (await mesh.fetch_messages(BOB)).messages
        assert (message.id, message.sender, message.text) == (sent.id, "anna", "Is the checkout done?")
        assert message.reply_wanted
        assert (await mesh.message_status(ANNA, sent.id)).state == "stored"  # nobody has it for sure yet
        assert (await mesh.fetch_messages(BOB)).messages == ()  # lent out: no second way hands it over

        await mesh.confirm(BOB, [sent.id])
        assert (await mesh.message_status(ANNA, sent.id)).state == "injected"
        answer = await mesh.reply(BOB, sent.id, "Yes.")
        status = await mesh.message_status(ANNA, sent.id)
        assert (status.state, status.answer) == ("answered", answer.id)
        assert status.injected_at <= status.seen_at <= status.answered_at

        (back,) = (await within(mesh.wait_for_messages(ANNA, 30))).messages
        assert (back.sender, back.text, back.in_reply_to, back.thread) == ("bob", "Yes.", sent.id, sent.thread)


async def test_register_is_idempotent(url: str) -> None:
    async with open_mesh(url) as mesh:
        first = await mesh.register_agent(ANNA, name="anna", role="backend")
        again = await mesh.register_agent(ANNA, description="now with words")
        assert (again.member.id, again.member.name, again.known) == (first.member.id, "anna", True)
        assert (again.member.role, again.member.description) == ("backend", "now with words")
        assert mesh.whoami(Caller(token=again.token)).id == first.member.id
        with pytest.raises(NotYours):
            mesh.whoami(Caller(token=first.token))  # the newest counts


async def test_identity_and_mail_survive_a_restart(url: str) -> None:
    async with open_mesh(url) as mesh:
        await members(mesh)
        first = await mesh.register_agent(BOB)
        sent = await mesh.send_message(ANNA, "bob", "hello")
        assert len((await mesh.fetch_messages(BOB)).messages) == 1  # lent, and never confirmed
    async with open_mesh(url) as mesh:
        again = await mesh.register_agent(BOB)
        assert (again.member.id, again.member.address, again.known) == (first.member.id, first.member.address, True)
        assert [message.id for message in (await mesh.fetch_messages(BOB)).messages] == [sent.id]


async def test_two_hubs_see_the_same_members(tmp_path: Path) -> None:
    async with address("nats", tmp_path) as url, open_mesh(url) as first, open_mesh(url) as second:
        await members(first)
        await eventually(lambda: bool(second.directory.find("checkout page")), "the other hub knows no bob")
        assert second.directory.resolve("bob").id == first.directory.resolve("bob").id
        with pytest.raises(NameTaken):
            await second.register_agent(CAROL, name="Bob")


async def test_names(mesh: Mesh) -> None:
    await members(mesh)
    with pytest.raises(NameTaken, match="ANNA"):
        await mesh.register_agent(CAROL, name="ANNA")
    with pytest.raises(UsageError, match="person"):
        await mesh.register_agent(CAROL, name="Owner")
    with pytest.raises(UsageError, match="cannot be a name"):
        await mesh.register_agent(CAROL, name='x" from="owner')
    first = await mesh.register_agent(CAROL, project="shop")
    second = await mesh.register_agent(harness("s-other", "opencode"), project="shop")
    assert (first.member.name, second.member.name) == ("shop-opencode", "shop-opencode-2")
    await mesh.end_session(CAROL)
    assert mesh.directory.resolve("shop-opencode").ended
    await mesh.register_agent(harness("s-third"), name="shop-opencode")  # whoever has ended has given the name up
    assert (await mesh.register_agent(CAROL)).member.name == "shop-opencode-3"


async def test_strangers_are_told_to_register(mesh: Mesh) -> None:
    await members(mesh)
    with pytest.raises(NotRegistered, match="register_agent"):
        await mesh.send_message(CAROL, "bob", "hello")
    with pytest.raises(UnknownMember, match="bob"):
        await mesh.send_message(ANNA, "bobb", "hello")


async def test_people_and_limits(mesh: Mesh) -> None:
    await members(mesh)
    sent = await mesh.send_message(ANNA, "owner", "please look")
    assert [message.id for message in (await mesh.fetch_messages(OWNER)).messages] == [sent.id]
    with pytest.raises(UsageError, match="778,241 bytes as JSON, the most is 778,240"):
        await mesh.send_message(ANNA, "bob", "x" * (MAX_TEXT - 1))
    with pytest.raises(UsageError, match="as JSON"):
        await mesh.send_message(ANNA, "bob", '"' * (MAX_TEXT // 2))
    with pytest.raises(UsageError, match="50"):
        await mesh.fetch_messages(BOB, limit=51)


@pytest.mark.parametrize(
    ("limits", "problem", "hint"),
    [
        ({"rate_per_minute": 3}, "sent more than 3 messages within a minute", "Try again in"),
        ({"mailbox": 3}, "3 messages already wait for", ""),
    ],
    ids=["flooder", "flooded"],
)
async def test_a_flood_is_stopped_and_nobody_else(
    limits: dict[str, Any], problem: str, hint: str, tmp_path: Path
) -> None:
    async with open_mesh(f"sqlite://{tmp_path}/bus.db", **limits) as mesh:
        await members(mesh)
        for number in range(3):
            await mesh.send_message(ANNA, "bob", f"{number}")
        with pytest.raises(Refused, match=problem) as refused:
            await mesh.send_message(ANNA, "bob", "too much")
        assert refused.value.hint.startswith(hint)
        await mesh.send_message(BOB, "anna", "I am heard")
        assert [message.text for message in (await mesh.fetch_messages(BOB)).messages] == ["0", "1", "2"]


async def test_a_fetch_is_bounded_by_bytes_and_the_rest_stays_unread(mesh: Mesh) -> None:
    await members(mesh)
    whole, half, small = "w" * (MAX_TEXT - 2), "h" * (MAX_TEXT // 2), "s"
    sent = [(await mesh.send_message(ANNA, "bob", text)).id for text in (half, small, half, whole, half)]
    fetched: list[list[str]] = []
    for left in (2, 1, 0):
        got = await mesh.fetch_messages(BOB)
        assert got.left == left
        fetched.append([message.id for message in got.messages])
        await mesh.confirm(BOB, fetched[-1])
    assert fetched == [sent[:3], sent[3:4], sent[4:]]
    newest = await mesh.fetch_message_history(BOB)
    assert [message.id for message in newest] == sent[4:]
    older = await mesh.fetch_message_history(BOB, before=newest[-1].id)
    assert [message.id for message in older] == sent[3:4]


async def test_a_members_mail_is_its_own(tmp_path: Path) -> None:
    refused: list[str] = []
    async with open_mesh(f"sqlite://{tmp_path}/bus.db", refused=refused) as mesh:
        await members(mesh)
        token = (await mesh.register_agent(BOB)).token
        sent = await mesh.send_message(ANNA, "bob", "between us")
        await mesh.register_agent(CAROL, name="carol")
        with pytest.raises(UnknownMessage):
            await mesh.message_status(CAROL, sent.id)
        with pytest.raises(UnknownMessage):
            await mesh.reply(CAROL, sent.id, "me too")
        with pytest.raises(NotYours, match="belongs to bob"):
            await mesh.fetch_messages(Caller(machine="here", harness="opencode", session="s-carol", token=token))
        with pytest.raises(NotYours, match="another machine"):
            await mesh.fetch_messages(Caller(machine="there", token=token))
        assert len(refused) == 4


async def test_a_member_is_named_by_a_part_of_its_id(mesh: Mesh) -> None:
    await members(mesh)
    anna = mesh.whoami(ANNA)
    for part in (anna.id, anna.id[:9], anna.id[-6:]):
        assert (await mesh.send_message(BOB, part, "hello")).to == "anna"
    for part in (anna.id[-5:], anna.id[:3] + anna.id[4:]):  # too short; of nobody
        with pytest.raises(UnknownMember):
            await mesh.send_message(BOB, part, "hello")


async def test_filters(mesh: Mesh) -> None:
    await members(mesh)
    names = [member.name for member in await mesh.list_agents(OWNER, Filters(project="Shop", role="backend"))]
    assert names == ["anna"]
    assert [match.member.name for match in await mesh.find_agents(OWNER, "chekout")] == ["bob"]
    assert await mesh.find_agents(OWNER, "chekout", Filters(harness="claude-code")) == []


async def test_a_broadcast_is_a_message_to_each_in_one_thread(url: str) -> None:
    async with open_mesh(url) as mesh:
        await members(mesh)
        await mesh.register_agent(CAROL, name="carol", project="elsewhere")
        done = await mesh.broadcast_message(ANNA, "the build is red", Filters(project="shop"))
        (delivery,) = done.results  # not the sender, nobody of another project, no person
        assert (delivery.to, delivery.problem) == ("bob", "")
        (message,) = (await mesh.fetch_messages(BOB)).messages
        assert (message.thread, message.text, message.reply_wanted) == (done.thread, "the build is red", False)
        assert (await mesh.fetch_messages(CAROL)).messages == ()


async def test_history_stays_after_messages_were_fetched(url: str) -> None:
    async with open_mesh(url) as mesh:
        await members(mesh)
        sent = await mesh.send_message(ANNA, "bob", "once")
        await mesh.fetch_messages(BOB)
        await mesh.confirm(BOB, [sent.id], seen=True)
        assert (await mesh.fetch_messages(BOB)).messages == ()
        for caller, other in ((BOB, "anna"), (ANNA, "bob")):
            assert [message.text for message in await mesh.fetch_message_history(caller, with_=other)] == ["once"]


async def test_pages_of_the_history_have_each_message_once(url: str) -> None:
    """In the order in which messages came. The id of an answer that a delivery brings begins with the time of its
    question: by ids it would stand among older messages."""
    async with (
        open_bus(url) as bus,
        Relay(bus, Config(), settings=Settings(stop_s=0.2)) as relay,
        Mesh(bus, relay, machine="here") as mesh,
    ):
        await members(mesh)
        anna, bob = mesh.whoami(ANNA).address, mesh.whoami(BOB).address
        question = await relay.send(bob, "question", sender=anna, reply_to=anna, id="1")
        later = [(await relay.send(to, "later", sender=sender)).id for sender, to in ((anna, bob), (bob, anna))]
        answer = await relay.send(anna, "answer", sender=bob, in_reply_to=question.id, id="2")
        for with_, expected in (("bob", [answer.id, *reversed(later), question.id]), ("", [answer.id, later[1]])):
            pages: list[str] = []
            while page := await mesh.fetch_message_history(ANNA, with_, limit=1, before=pages[-1] if pages else ""):
                pages += [message.id for message in page]
                assert len(pages) <= len(expected)
            assert pages == expected
        await mesh.register_agent(CAROL, name="carol")
        with pytest.raises(UnknownMessage):
            await mesh.fetch_message_history(CAROL, before=answer.id)


async def test_a_session_is_bound_by_hand_or_by_what_the_transport_knows(tmp_path: Path) -> None:
    refused: list[str] = []
    async with open_mesh(f"sqlite://{tmp_path}/bus.db", refused=refused) as mesh:
        made = await mesh.register_agent(Caller(machine="here"), name="loose")
        loose = Caller(machine="here", token=made.token)
        bound = await mesh.bind_session(loose, made.member.id, "s-1", "windsurf")
        assert (bound.agent_id, bound.session_id, bound.harness) == (made.member.id, "s-1", "windsurf")
        assert await mesh.get_session_binding(loose) == bound
        assert mesh.whoami(harness("s-1", "windsurf")).name == "loose"
        other = await mesh.register_agent(Caller(machine="here"), name="other")
        detected = await mesh.bind_session(harness("s-2", "codex", token=other.token), other.member.id)
        assert (detected.session_id, detected.harness) == ("s-2", "codex")
        with pytest.raises(NotYours, match="bound to the member loose"):
            await mesh.bind_session(Caller(machine="here", token=other.token), other.member.id, "s-1", "windsurf")
        for stranger in (harness("s-9", "codex"), Caller(machine="here")):
            with pytest.raises(NotYours, match="not known to be you"):
                await mesh.bind_session(stranger, made.member.id, "s-9")
        with pytest.raises(UsageError, match="cannot be detected"):
            await mesh.bind_session(Caller(machine="here", token=other.token), other.member.id)
        assert len(refused) == 3


async def test_each_member_has_a_subject_of_its_own_in_the_log(url: str) -> None:
    async with open_mesh(url) as mesh:
        await members(mesh)
        anna, bob = (mesh.whoami(caller).address for caller in (ANNA, BOB))
        await mesh.send_message(ANNA, "bob", "for bob")
        await mesh.send_message(BOB, "anna", "for anna")
    async with open_bus(url) as bus:
        for address, text in ((anna, "for anna"), (bob, "for bob")):
            (record,) = [record async for record in bus.read(f"{MESSAGE_LOG}.{address}", follow=False)]
            assert text.encode() in record.data


async def test_a_member_without_a_sign_of_life_is_stale_and_later_pruned_unless_mail_waits(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    def later(seconds: float) -> None:
        monkeypatch.setattr(mesh.directory, "_clock", lambda: time.time() + seconds)

    await members(mesh)
    later(STALE_S - 60)
    assert not mesh.directory.resolve("anna").stale
    later(STALE_S + 60)
    assert mesh.directory.resolve("anna").stale
    sent = await mesh.send_message(BOB, "anna", "Are you there?")  # a sign of bob's life
    assert (sent.stale, mesh.directory.resolve("bob").stale) == (True, False)
    await mesh.heartbeat(ANNA, "idle")
    assert not mesh.directory.resolve("anna").stale

    later(PRUNE_S + STALE_S)
    assert await mesh.directory.prune() == []  # anna's last sign is not so long ago
    later(PRUNE_S + 3 * STALE_S)
    assert [mesh.directory.member(id) for id in await mesh.directory.prune()] == [None]
    with pytest.raises(UnknownMember):
        mesh.directory.resolve("bob")
    assert mesh.directory.resolve("anna").unread == 1, "mail waits for it"
