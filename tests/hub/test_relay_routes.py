"""Messages, inboxes, dead letters and channels over REST, with the scripted agent behind the relay."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.channels.conftest import IMPORTS_AIOGRAM
from tests.hub.conftest import Running, running
from tests.hub.test_hooks import hooked, telegram, toml
from tests.relay.conftest import BOUND, over

from tieline.bootstrap.relay import open_relay
from tieline.channels.base import DeliveryContext, dead
from tieline.envelopes import Envelope
from tieline.policy import Policy
from tieline.protocol.messages import AnswerView, MessageView, ThreadView, TraceView
from tieline.script import Run, Say, Stall
from tieline.testing.telegram_server import BotApi
from tieline.testing.wait_for import eventually

ADA = 4711


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncGenerator[Running, None]:
    async with running(tmp_path) as started, open_relay(started.hub, watch=False):
        yield started


async def post(hub: Running, path: str, body: Any = None, status: int = 200, **headers: str) -> Any:
    reply = await hub.client.post(f"/api/v1/{path}", json=body if body is not None else {}, headers=headers)
    assert reply.status_code == status, reply.text
    return reply.json()


async def get(hub: Running, path: str, status: int = 200, **query: Any) -> Any:
    reply = await hub.client.get(f"/api/v1/{path}", params=query)
    assert reply.status_code == status, reply.text
    return reply.json()


async def settled(hub: Running, id: str) -> None:
    assert hub.hub.relay is not None
    await over(hub.hub.relay, id)


# --- messages ---------------------------------------------------------------------------------------------------


async def test_a_message_to_a_session_is_answered_step_by_step(hub: Running) -> None:
    hub.play([Say("Four.")])
    session = await hub.session()
    sent = await post(hub, "messages", {"to": f"relay.agent.{session['id']}", "text": "2 + 2?"}, 201)
    assert sent["envelope"]["from"] == "relay.user.owner"
    await settled(hub, sent["receipt"]["id"])
    shown = await get(hub, f"messages/{sent['receipt']['id']}")
    assert shown["state"] == "answered"
    assert shown["receipt"]["session"] == session["id"]
    steps = [step["state"] for step in shown["receipt"]["steps"]]
    places = [steps.index(state) for state in ("accepted", "stored", "offered", "injected", "seen", "answered")]
    assert places == sorted(places)
    (unread,) = await post(hub, "inboxes/relay.user.owner/read")
    assert unread["envelope"]["payload"]["text"].strip() == "Four."
    assert unread["receipt"]["id"] == shown["receipt"]["answer"]
    assert await post(hub, "inboxes/relay.user.owner/read") == []
    id = sent["receipt"]["id"]
    assert await get(hub, "message-ids", part=id[-8:]) == await get(hub, "message-ids", part=id[:20]) == [id]
    assert len(await get(hub, "message-ids", part=id[:2], limit=1)) == 1
    assert await get(hub, "message-ids", part="nonesuch") == []
    trace = await get(hub, f"messages/{sent['receipt']['id']}/trace")
    chain = [message["receipt"]["id"] for message in trace["messages"]]
    assert chain == [sent["receipt"]["id"], shown["receipt"]["answer"]]
    assert trace["depth"] == [0, 1]
    (thread,) = await get(hub, "messages")
    assert (thread["id"], thread["count"]) == (sent["receipt"]["id"], 2)
    assert thread["parties"] == ["relay.user.owner", f"relay.agent.{session['id']}"]


async def test_a_thread_whose_beginning_is_not_kept_any_longer(hub: Running) -> None:
    relay = hub.hub.relay
    assert relay is not None

    async def echo(envelope: Envelope, context: DeliveryContext) -> str:
        return envelope.payload.text

    relay.serve("relay.echo", echo)
    for text in ("old", "new"):
        sent = (await post(hub, "messages", {"to": "relay.echo", "text": text}, 201))["receipt"]["id"]
        await settled(hub, sent)
    old, new = [receipt for receipt in reversed(await relay.recent()) if receipt.subject == "relay.user.owner"]
    await relay.store._receipts.delete(old.thread)  # pyright: ignore[reportPrivateUsage]
    await relay.store._threads.delete(f"{old.thread}.{old.id}")  # pyright: ignore[reportPrivateUsage]
    threads = await get(hub, "messages")
    assert {thread["id"]: thread["count"] for thread in threads} == {old.thread: 1, new.thread: 2}
    trace = await get(hub, f"messages/{old.id}/trace")
    assert [message["receipt"]["id"] for message in trace["messages"]] == [old.id]
    assert (await get(hub, "messages", 404, thread="unknown"))["code"] == "UnknownMessage"


async def test_asking_waits_for_the_answer(hub: Running) -> None:
    hub.play([Say("Blue.")])
    session = await hub.session()
    outcome = await post(hub, "messages/ask", {"to": f"relay.agent.{session['id']}", "text": "which colour?"})
    assert outcome["answer"]["payload"]["text"].strip() == "Blue."
    assert outcome["answer"]["in_reply_to"] == outcome["receipt"]["id"]


async def test_a_turn_out_of_calls_is_ended_through_the_hub(hub: Running) -> None:
    hub.play([Run("true")], [Run("true")], [Stall()])
    session = await hub.session()
    agent = f"relay.agent.{session['id']}"
    body = {"to": agent, "text": "work", "timeout_s": 60, "limits": {"calls": 1}}
    assert (await post(hub, "messages/ask", body))["reason"] == "calls_exceeded"
    assert await get(hub, f"sessions/{session['id']}/prompts") == [], "its turn goes on"
    hub.replies[:] = [[Say("free again")]] * 4  # wherever in the script it was interrupted
    answer = await post(hub, "messages/ask", {"to": agent, "text": "and now?", "timeout_s": 60})
    assert answer["answer"]["payload"]["text"].strip() == "free again"


async def test_no_answer_has_a_reason(hub: Running) -> None:
    assert hub.hub.relay is not None

    async def silent(envelope: Envelope, context: DeliveryContext) -> Any:
        return dead("rejected", "not now")

    hub.hub.relay.serve("relay.silent", silent)
    outcome = await post(hub, "messages/ask", {"to": "relay.silent", "text": "well?", "timeout_s": 30})
    assert (outcome.get("answer"), outcome["reason"]) == (None, "rejected")
    quiet = await post(hub, "messages/ask", {"to": "relay.user.nobody", "text": "well?", "timeout_s": 0.2})
    assert quiet["reason"] in ("timeout", "ttl_expired")


async def test_refusals_carry_their_reason(hub: Running) -> None:
    for body, status, code in [
        ({"to": "relay.nobody", "text": "x"}, 422, "no_endpoint"),
        ({"to": "nonsense", "text": "x"}, 422, "bad_address"),
        ({"to": "relay.user.ada", "text": "x", "limits": {"max_hops": 0}}, 422, "hops_exceeded"),
        ({"to": "relay.user.ada", "text": "x" * 200_000, "json": "y" * 50_000, "txt": 1}, 400, "UsageError"),
        ({"text": "x"}, 400, "UsageError"),
        ({"to": "relay.user.ada", "text": "x", "session": "unknown"}, 404, "NotFound"),
    ]:
        problem = await post(hub, "messages", body, status)
        assert (problem["status"], problem["code"]) == (status, code)
    assert (await get(hub, "messages/unknown", 404))["code"] == "UnknownMessage"
    assert (await get(hub, "messages/unknown/trace", 404))["code"] == "UnknownMessage"
    assert (await get(hub, "dead/unknown", 404))["code"] == "UnknownMessage"


async def test_the_same_key_is_the_same_message(hub: Running) -> None:
    body = {"to": "relay.user.ada", "text": "once"}
    for key in ({"key": "k1"}, {}):
        header = {} if key else {"Idempotency-Key": "k2"}
        first = await post(hub, "messages", {**body, **key}, 201, **header)
        again = await post(hub, "messages", {**body, **key}, 201, **header)
        assert first["receipt"]["id"] == again["receipt"]["id"]


async def test_what_a_session_sends_is_stamped_as_its_own(hub: Running) -> None:
    session = await hub.session()
    sent = await post(hub, "messages", {"to": "relay.user.owner", "text": "done", "session": session["id"]}, 201)
    assert sent["envelope"]["from"] == f"relay.agent.{session['id']}"


# --- inboxes ----------------------------------------------------------------------------------------------------


async def test_inboxes_are_listed_and_looked_at_without_reading(hub: Running) -> None:
    for number in range(3):
        await post(hub, "messages", {"to": "relay.user.ada", "text": f"number {number}", "no_reply": True}, 201)
    boxes = {box["subject"]: box for box in await get(hub, "inboxes")}
    assert boxes["relay.user.ada"]["waiting"] == 3
    assert "relay.user.owner" in boxes
    newest = await get(hub, "inboxes/relay.user.ada", limit=2)
    assert [message["envelope"]["payload"]["text"] for message in newest] == ["number 2", "number 1"]
    oldest = await post(hub, "inboxes/relay.user.ada/read", {"limit": 1})
    assert oldest[0]["envelope"]["payload"]["text"] == "number 0"
    assert oldest[0]["state"] == "seen"
    assert {box["subject"]: box["waiting"] for box in await get(hub, "inboxes")}["relay.user.ada"] == 2
    await post(hub, "inboxes/relay.agent.x/read", status=400)
    await post(hub, "inboxes/relay.user.ada/read", {"ids": ["unknown"]}, 404)


# --- dead letters -----------------------------------------------------------------------------------------------


async def test_dead_letters_are_shown_sent_again_and_dropped(hub: Running) -> None:
    relay = hub.hub.relay
    assert relay is not None
    good = asyncio.Event()

    async def fussy(envelope: Envelope, context: DeliveryContext) -> Any:
        return "fine" if good.is_set() else dead("rejected", "not yet")

    relay.serve("relay.fussy", fussy, prefix=True)
    ids: list[str] = []
    for name in ("a", "b", "c", "d"):
        sent = await post(hub, "messages", {"to": f"relay.fussy.{name}", "text": name}, 201)
        await settled(hub, sent["receipt"]["id"])
        ids.append(sent["receipt"]["id"])
    letters = await get(hub, "dead", pattern="relay.fussy.>")
    assert [letter["envelope"]["id"] for letter in letters] == ids[::-1]
    assert letters[0]["reason"] == "rejected"
    assert await get(hub, "dead", reason="gave_up") == []
    assert (await get(hub, f"dead/{ids[0]}"))["detail"] == "not yet"
    good.set()
    outcomes = await post(hub, "dead/retry", {"ids": [ids[0], "unknown"]})
    assert {outcome["id"]: outcome["done"] for outcome in outcomes} == {ids[0]: True, "unknown": False}
    await settled(hub, next(outcome["sent_as"] for outcome in outcomes if outcome["done"]))
    many = await post(hub, "dead/retry", {"pattern": "relay.fussy.b"})
    assert [outcome["id"] for outcome in many] == [ids[1]]
    assert await post(hub, "dead/drop", {"ids": [ids[2]]}) == {"dropped": 1}
    assert await post(hub, "dead/drop", {"reason": "rejected"}) == {"dropped": 1}
    assert await get(hub, "dead") == []
    for verb in ("retry", "drop"):
        await post(hub, f"dead/{verb}", {}, 400)


# --- channels ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@IMPORTS_AIOGRAM
async def test_channels_are_listed_reloaded_and_tested(tmp_path: Path) -> None:
    broken = ("bad", "type webhook", {"secrets": ["nonsense"], "to": "relay.desk"})
    missing: tuple[str, str, dict[str, Any]] = ("gone", "package tieline_not_there", {})
    async with BotApi() as api, hooked(tmp_path, telegram(api), broken, missing) as hub:
        channels = {channel["id"]: channel for channel in await get(hub, "channels")}
        assert channels["phone"]["state"] == "running"
        assert channels["phone"]["prefix"] == "relay.telegram.phone"
        assert channels["phone"]["details"]["chats"] == 1
        assert channels["agent"]["state"] == "running"
        assert channels["bad"]["state"] == "broken"
        assert channels["bad"]["field"] == "channels.bad.config.secrets"
        assert "pip install tieline_not_there" in channels["gone"]["hint"]
        tested = await post(hub, "channels/phone/test", {"text": "is this thing on?"})
        assert tested["delivered"] is True
        assert "is this thing on?" in api.said(ADA)
        api.fail("sendMessage", 400, description="chat not found")
        tested = await post(hub, "channels/phone/test")
        assert tested["delivered"] is False
        assert tested["message"]["state"] == "dead"
        refused = await post(hub, "channels/bad/test", status=404)
        assert (refused["detail"], refused["field"]) == (channels["bad"]["problem"], channels["bad"]["field"])
        refused = await post(hub, "channels/gone/test", status=404)
        assert "pip install tieline_not_there" in refused["hint"], "what is wrong with it, not that it is not there"
        refused = await post(hub, "channels/nobody/test", status=404)
        assert refused["detail"] == "no channel 'nobody'"
        config_file = Path(hub.env["HOME"], ".config/tieline/tieline.toml")
        config_file.write_text("[[channels]]\nid = 'x'\n")
        changed = await post(hub, "channels/reload")
        assert {channel["id"] for channel in changed["channels"]} == {"agent", "x"}
        assert changed["broken"] == ["x"]
        config_file.write_text("= nonsense")
        assert "TOML" in (await post(hub, "channels/reload"))["problem"]


async def test_a_hub_without_a_relay_says_so(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        for path in ("messages", "inboxes", "dead", "channels"):
            assert (await get(hub, path, 503))["status"] == 503
        reply = await hub.client.post("/hooks/in/any", content=b"{}")
        assert reply.status_code == 503


async def test_every_view_decodes_as_what_it_says(hub: Running) -> None:
    import msgspec

    hub.play([Say("Yes.")])
    session = await hub.session()
    ask = {"to": f"relay.agent.{session['id']}", "text": "?"}
    answer = msgspec.convert(await post(hub, "messages/ask", ask), AnswerView)
    id = answer.receipt.id
    msgspec.convert(await get(hub, f"messages/{id}"), MessageView)
    msgspec.convert(await get(hub, "messages"), list[ThreadView])
    msgspec.convert(await get(hub, "messages", thread=answer.receipt.thread), list[ThreadView])
    msgspec.convert(await get(hub, f"messages/{id}/trace"), TraceView)


# --- a person in a chat and an agent ---------------------------------------------------------------------------


@pytest.mark.slow
@IMPORTS_AIOGRAM
async def test_an_agent_answers_in_the_chat_and_is_allowed_from_there(tmp_path: Path) -> None:
    """One message that is edited while the agent writes; its ask as buttons; its answer in the message's place."""
    async with BotApi() as api, running(tmp_path) as hub:
        session = await hub.manager.create("scripted", cwd=hub.cwd, policy=Policy("ask", "ask", "ask"))
        to = f"relay.agent.{session.id}"
        config = telegram(api, to=to, asks=True, stream_s=0.05)
        hub.play([Say("Let me look."), Run("touch made-by-the-agent")], [Say("It is done.")])
        config_file = Path(hub.env["HOME"], ".config/tieline/tieline.toml")
        config_file.parent.mkdir(parents=True)
        config_file.write_text(toml(config))
        async with open_relay(hub.hub):
            assert hub.hub.channels is not None
            await hub.hub.channels.reload(trust=(await hub.hub.channels.reload()).waiting)
            await api.write(ADA, "please make it")

            def asked() -> list[Any]:
                return [call for call in api.made("sendmessage") if "reply_markup" in call.fields]

            await eventually(lambda: bool(asked()), "no buttons came", timeout=BOUND)
            (call,) = asked()
            assert "touch made-by-the-agent" in call.fields["text"]
            await eventually(lambda: "Let me look. …" in api.said(ADA), "it is not shown meanwhile", timeout=BOUND)
            allow = call.json("reply_markup")["inline_keyboard"][0][0]["callback_data"]
            await api.press(ADA, allow, message_id=int(call.fields["_id"]))
            assert (await api.called("answercallbackquery"))[0].fields["text"] == "Approved."
            await eventually(lambda: "It is done." in api.said(ADA), "no answer came", timeout=BOUND)
            await eventually(
                lambda: any("Approved by relay.telegram.phone.4711" in text for text in api.said(ADA)),
                "the ask's message does not say how it ended",
                timeout=BOUND,
            )
            assert (Path(hub.cwd) / "made-by-the-agent").exists()
            assert len(api.said(ADA)) == 2, "the ask and the answer: edited, not repeated"
