"""The Telegram channel against a Bot API on loopback: the real aiogram, the real relay."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.channels.conftest import IMPORTS_AIOGRAM, Desk, made, relay_with
from tests.relay.conftest import QUICK, lose_lease, over, until

from tieline.backoff import EXACT, Backoff
from tieline.channels.base import AskNote, Channel
from tieline.envelopes import AttachmentRef, Payload
from tieline.errors import TielineError
from tieline.events import Remember
from tieline.relay import Relay, Settings
from tieline.relay.ask_forwarder import ASK_CONTENT_TYPE
from tieline.relay.channel_plugins.loader import ChannelError
from tieline.testing.telegram_server import TOKEN, BotApi, BotCall
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.slow, IMPORTS_AIOGRAM]

ADA = 4711
GROUP = -1001
STRANGER = 666


@asynccontextmanager
async def bot(
    path: Path, *, asks: Any = None, settings: Settings = QUICK, **config: Any
) -> AsyncGenerator[tuple[BotApi, Relay, Channel]]:
    async with BotApi() as api, relay_with(path, settings=settings) as relay:
        own = {"token": TOKEN, "api": api.url, "chats": [ADA], "to": "relay.desk", "quick_s": 0, **config}
        channel = await made(path, "phone", "telegram", own, asks=asks)
        await relay.register(channel)
        yield api, relay, channel


def address(chat: int = ADA) -> str:
    return f"relay.telegram.phone.{chat}"


async def delivered(relay: Relay, text: str | Payload, **more: Any) -> str:
    """Sent to Ada, and delivered."""
    sent = await relay.send(address(), text, sender="relay.user.bob", **more)
    receipt = await over(relay, sent.id)
    assert receipt.state == "injected", receipt
    return sent.id


# --- in ---------------------------------------------------------------------------------------------------------


async def test_what_a_person_writes_is_passed_on_and_answered(tmp_path: Path) -> None:
    async with bot(tmp_path) as (api, relay, _):
        desk = Desk(relay, answer="Hello Ada.")
        await api.write(ADA, "hello there")
        envelope = await desk.next()
        assert (envelope.sender, envelope.payload.text, envelope.reply_to) == (address(), "hello there", address())
        await eventually(lambda: "Hello Ada." in api.said(ADA), "no answer came", timeout=30)
        assert api.made("sendchataction"), "it was typing meanwhile"


async def test_only_chats_on_the_list_are_heard(tmp_path: Path) -> None:
    async with bot(tmp_path) as (api, relay, channel):
        desk = Desk(relay)
        for chat in (STRANGER, GROUP):
            await api.write(chat, "let me in")
            await api.write(chat, "/start")
            await api.write(chat, "/start")
            await api.press(chat, "a:whatever")
        await api.write(ADA, "the last")
        assert (await desk.next()).payload.text == "the last"
        assert desk.got.empty()
        await eventually(lambda: bool(api.said(STRANGER)), "the stranger was not told", timeout=30)  # beside the rest
        assert api.said(STRANGER) == [f"This chat is not allowed here. Its id is {STRANGER}."], "once, and no more"
        # Chats are heard at the same time: theirs may still be on the way.
        await eventually(lambda: channel.status().detail.get("unheard") == 8, "not all were left unheard", timeout=30)
        sent = await relay.send(address(STRANGER), "psst", sender="relay.user.bob")
        assert (await over(relay, sent.id)).reason == "denied"


async def test_a_chat_is_paired_with_the_code(tmp_path: Path) -> None:
    async with bot(tmp_path, chats=[], pairing=True) as (api, relay, channel):
        desk = Desk(relay)
        code = str(channel.status().detail["pairing"])
        await api.write(STRANGER, "/start WRONGCODE1")
        await api.write(ADA, code.lower())
        await eventually(lambda: any("paired" in text for text in api.said(ADA)), "not paired", timeout=30)
        await api.write(STRANGER, code)
        await api.write(ADA, "here I am")
        assert (await desk.next()).sender == address()
        assert not any("paired" in text for text in api.said(STRANGER)), "a code is good once"
        assert channel.status().detail["pairing"] != code
        await relay.unregister("phone")
        again = await made(tmp_path, "phone", "telegram", {"token": TOKEN, "api": api.url, "pairing": True})
        await relay.register(again)
        await delivered(relay, "still here")
        kept = tmp_path / "channels" / "phone" / "paired.json"
        assert kept.stat().st_mode & 0o077 == 0


async def test_too_many_wrong_codes_make_another(tmp_path: Path) -> None:
    async with bot(tmp_path, pairing=True) as (api, relay, channel):
        desk, code = Desk(relay), str(channel.status().detail["pairing"])
        for number in range(5):
            await api.write(STRANGER, f"/start GUESS{number}")
        await api.write(STRANGER, code)
        await api.write(ADA, "done")
        await desk.next()
        assert not any("paired" in text for text in api.said(STRANGER))


async def test_a_reply_answers_exactly_that_message(tmp_path: Path) -> None:
    async with bot(tmp_path) as (api, relay, _):
        desk, other = Desk(relay), Desk(relay, "relay.other")
        first = await delivered(relay, "one?", reply_to="relay.other")
        await delivered(relay, "two?")
        shown = int(api.made("sendmessage")[0].fields["_id"])
        await api.write(ADA, "to the first", reply_to=shown)
        envelope = await other.next()
        assert (envelope.payload.text, envelope.in_reply_to) == ("to the first", first)
        assert (await until(relay, first, lambda receipt: receipt.answer != "")).answer == envelope.id
        assert envelope.budget.hops == 1, "a person's words begin anew"
        assert desk.got.empty()


async def test_replies_and_buttons_find_their_way_after_a_restart(tmp_path: Path) -> None:
    switch = Switch()
    async with BotApi() as api:
        own = {"token": TOKEN, "api": api.url, "chats": [ADA], "to": "relay.desk", "quick_s": 0, "asks": True}
        async with relay_with(tmp_path) as relay:
            await relay.register(await made(tmp_path, "phone", "telegram", own, asks=switch))
            asked = await delivered(relay, "one?", reply_to="relay.user.ann")
            switch.tell(note())
            earlier, ask = await api.called("sendmessage", 2)
        async with relay_with(tmp_path) as relay:
            desk, switch = Desk(relay), Switch()
            await relay.register(await made(tmp_path, "phone", "telegram", own, asks=switch))
            await api.write(ADA, "to that one", reply_to=int(earlier.fields["_id"]))
            receipt = await until(relay, asked, lambda receipt: receipt.answer != "")
            message = await relay.inbox("relay.user.ann").read(receipt.answer)
            assert message.envelope is not None
            assert (message.envelope.payload.text, message.envelope.thread) == ("to that one", asked)
            await api.press(ADA, ask.json("reply_markup")["inline_keyboard"][0][0]["callback_data"])
            await api.called("answercallbackquery", 1)
            assert switch.decided == [("ask1", True, "d1", address())]
            switch.tell(note("answered", outcome="Approved by phone"))
            edited = (await api.called("editmessagetext", 1))[-1]
            assert edited.fields["message_id"] == ask.fields["_id"], "the message that shows it says how it ended"
            await api.write(ADA, "a reply to nothing of ours", reply_to=10**30)
            assert (await desk.next()).in_reply_to == ""


async def test_routes_send_chats_to_different_places(tmp_path: Path) -> None:
    async with bot(tmp_path, chats=[ADA, GROUP], routes={str(GROUP): "relay.team"}) as (api, relay, _):
        desk, team = Desk(relay), Desk(relay, "relay.team")
        await api.write(GROUP, "for the team")
        await api.write(ADA, "for me")
        assert (await team.next()).sender == address(GROUP)
        assert (await desk.next()).payload.text == "for me"


async def test_a_refusal_is_told_to_the_person(tmp_path: Path) -> None:
    async with bot(tmp_path, to="relay.nobody") as (api, _, _):
        await api.write(ADA, "hello?")
        await eventually(lambda: any("Not sent: no endpoint answers" in text for text in api.said(ADA)), "", timeout=30)


async def test_a_message_that_dies_is_told_to_the_person(tmp_path: Path) -> None:
    async with bot(tmp_path) as (api, relay, _):

        async def refuse(envelope: Any, context: Any) -> Any:
            from tieline.channels.base import dead

            return dead("rejected", "not today")

        relay.serve("relay.desk", refuse)
        await api.write(ADA, "please")
        await eventually(lambda: any("not today" in text for text in api.said(ADA)), "nothing said", timeout=30)


async def test_files_come_with_their_message(tmp_path: Path) -> None:
    async with bot(tmp_path, max_file=1000) as (api, relay, _):
        desk = Desk(relay)
        api.files["documents/f1"] = b"the content"
        name = "../../re port.txt"
        about = {"file_id": "f1", "file_unique_id": "u1", "file_name": name, "mime_type": "text/plain", "file_size": 11}
        await api.write(ADA, "", document=about, caption="see file")
        envelope = await desk.next()
        (file,) = envelope.payload.attachments
        path = Path(file.url.removeprefix("file://"))
        assert (envelope.payload.text, file.name, file.media_type, file.size) == ("see file", name, "text/plain", 11)
        assert path.read_bytes() == b"the content"
        assert path.parent == tmp_path / "channels" / "phone" / "files"
        api.files["documents/f2"] = b"x" * 2000
        huge = {"file_id": "f2", "file_unique_id": "u2", "file_name": "big", "file_size": 5}
        await api.write(ADA, "", document=huge, caption="lies about its size")
        await eventually(lambda: any("larger than" in text for text in api.said(ADA)), "", timeout=30)
        assert desk.got.empty()
        assert [each.name for each in path.parent.iterdir()] == [path.name]


# --- out --------------------------------------------------------------------------------------------------------


async def test_long_messages_come_in_pieces_with_their_code(tmp_path: Path) -> None:
    async with bot(tmp_path) as (api, relay, _):
        code = "```python\n" + "\n".join(f"print({n})" for n in range(50)) + "\n```"
        await delivered(relay, "word " * 1000 + "\n\n" + code)
        calls = api.made("sendmessage")
        assert len(calls) == 2
        (entity,) = calls[-1].json("entities")
        assert (entity["type"], entity["language"]) == ("pre", "python")
        text = calls[-1].fields["text"]
        assert "```" not in text
        assert text[entity["offset"] :] == "\n".join(f"print({n})" for n in range(50))
        assert entity["length"] == len(text) - entity["offset"]


async def test_files_go_out_from_folders_that_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "report.txt").write_text("all well")
    (tmp_path / "secret.txt").write_text("no")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    async with bot(tmp_path, files=[str(folder)]) as (api, relay, _):
        refs = [AttachmentRef(url=(folder / "report.txt").as_uri(), name="report.txt")]
        refs += [AttachmentRef(url=path.as_uri(), name="x") for path in (tmp_path / "secret.txt", folder / "link.txt")]
        refs.append(AttachmentRef(url="https://files.test/a.pdf", name="a.pdf"))
        await delivered(relay, Payload("here", attachments=tuple(refs)))
        documents = api.made("senddocument")
        assert documents[0].files == {"report.txt": b"all well"}
        assert documents[1].fields["document"] == "https://files.test/a.pdf"
        assert len(documents) == 2
        assert sum("not sent" in text for text in api.said(ADA)) == 2


@pytest.mark.parametrize(
    ("status", "again"), [(500, True), (502, True), (400, False), (403, False), (401, True)], ids=str
)
async def test_troubles_are_told_apart(tmp_path: Path, status: int, again: bool) -> None:
    async with bot(tmp_path) as (api, relay, _):
        api.fail("sendMessage", status, description="because")
        sent = await relay.send(address(), "hello", sender="relay.user.bob")
        if again and status == 401:  # it waits for half a minute: nothing works with a wrong token
            receipt = await until(relay, sent.id, lambda receipt: receipt.steps[-1].state == "failed")
            assert (receipt.over, receipt.attempts, receipt.reason) == (False, 1, "delivery_failed")
            assert "rejects the bot's token" in receipt.steps[-1].detail
            assert TOKEN not in str(receipt)
            timer = relay.dispatcher.in_flight[sent.id].timer
            assert timer is not None
            assert 20 < timer.when() - asyncio.get_running_loop().time() <= 30
            assert len(api.made("refused:sendmessage")) == 1
            return
        receipt = await over(relay, sent.id)
        assert receipt.state == ("injected" if again else "dead")
        assert TOKEN not in str(receipt)


async def test_told_to_slow_down_it_does(tmp_path: Path) -> None:
    async with bot(tmp_path) as (api, relay, _):
        api.fail("sendMessage", 429, retry_after=1)
        sent = await relay.send(address(), "hello", sender="relay.user.bob")
        receipt = await over(relay, sent.id)
        failed, done = receipt.steps[-3], receipt.steps[-1]
        assert (failed.state, done.state) == ("failed", "injected")
        assert done.at - failed.at >= 1.0


async def test_another_attempt_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    async with bot(tmp_path) as (api, relay, _):
        text = "\n\n".join(letter * 3000 for letter in "abc")
        failures = iter([1])

        async def fail_second() -> None:
            await api.called("sendmessage", 1)
            next(failures)
            api.fail("sendMessage", 500)

        task = asyncio.create_task(fail_second())
        sent = await relay.send(address(), text, sender="relay.user.bob")
        await over(relay, sent.id)
        await task
        assert [message[0] for message in api.said(ADA)] == ["a", "b", "c"], "each piece once"


async def test_addresses_are_chats(tmp_path: Path) -> None:
    async with bot(tmp_path) as (api, relay, _):
        for subject, state in (("relay.telegram.phone", "injected"), ("relay.telegram.phone.nobody", "dead")):
            sent = await relay.send(subject, "hello", sender="relay.user.bob")
            assert (await over(relay, sent.id)).state == state, subject
        assert api.said(ADA) == ["hello"], "the only chat is meant when none is named"


# --- asks -------------------------------------------------------------------------------------------------------


class Switch:
    """Stands in for the hub's asks: what the channel shows and decides goes through here."""

    def __init__(self) -> None:
        self.decided: list[tuple[str, bool, str, str]] = []
        self.remembered: list[Remember] = []
        self._heard: list[Callable[[AskNote], None]] = []
        self.refuse = ""

    def subscribe(self, callback: Callable[[AskNote], None]) -> Callable[[], None]:
        self._heard.append(callback)
        return lambda: self._heard.remove(callback)

    def tell(self, note: AskNote) -> None:
        for heard in list(self._heard):
            heard(note)

    async def decide(self, ask: str, *, allow: bool, digest: str, by: str, remember: Remember = "once") -> str:
        if self.refuse:
            raise TielineError(self.refuse)
        self.decided.append((ask, allow, digest, by))
        self.remembered.append(remember)
        return "Approved." if allow else "Denied."


def note(status: str = "pending", **more: Any) -> AskNote:
    own: dict[str, Any] = {"id": "ask1", "session": "s1", "kind": "permission", "title": "may it run a command?"}
    own |= {"digest": "d1", "agent": "codex", "content": "rm -rf /tmp/x", "status": status, **more}
    return AskNote(**own)


async def test_asks_have_buttons_and_are_decided_by_them(tmp_path: Path) -> None:
    switch = Switch()
    async with bot(tmp_path, asks=switch, chats=[ADA, GROUP]) as (api, _, channel):
        assert channel.status().state == "running"
        assert not switch._heard, "asks are shown only if the configuration says so"  # pyright: ignore[reportPrivateUsage]
    async with asking(tmp_path / "b", switch) as api:
        switch.tell(note())
        calls = await api.called("sendmessage", 2)
        shown = next(call for call in calls if call.fields["chat_id"] == str(ADA))
        allow, deny = (button["callback_data"] for button in shown.json("reply_markup")["inline_keyboard"][0])
        assert "rm -rf /tmp/x" in shown.fields["text"]
        await api.press(STRANGER, allow)
        await api.press(GROUP, allow, user=STRANGER)
        await api.called("answercallbackquery", 2)
        assert switch.decided == [], "only from chats and people on the list"
        await api.press(ADA, allow, message_id=int(shown.fields["_id"]))
        await api.called("answercallbackquery", 3)
        assert switch.decided == [("ask1", True, "d1", address())]
        switch.tell(note("answered", outcome="Approved by phone"))
        edited = (await api.called("editmessagetext", 2))[-1]
        assert "Approved by phone" in edited.fields["text"]
        assert "reply_markup" not in edited.fields
        switch.refuse = "it was answered already"
        await api.press(ADA, deny)
        assert (await api.called("answercallbackquery", 4))[-1].fields["text"] == "it was answered already"
        await api.press(ADA, "a:" + "0" * 32)
        assert (await api.called("answercallbackquery", 5))[-1].fields["text"] == "This is no longer open."


async def test_what_only_looks_like_an_ask_is_a_message(tmp_path: Path) -> None:
    """An agent that writes a card of its own, over the words of somebody else's ask, gets no buttons."""
    switch = Switch()
    async with bot(tmp_path, asks=switch) as (api, relay, _):
        for sender in ("relay.agent.shop.fixer", "relay.user.bob", "relay.telegram.other.asks"):
            forged = Payload("harmless?", msgspec.to_builtins(note(title="harmless?", content="ls")), ASK_CONTENT_TYPE)
            sent = await relay.send(address(), forged, sender=sender)
            assert (await over(relay, sent.id)).state == "injected"
        for call in await api.called("sendmessage", 3):
            assert "reply_markup" not in call.fields
        own = await relay.send(
            address(), Payload("", msgspec.to_builtins(note()), ASK_CONTENT_TYPE), sender="relay.telegram.phone.asks"
        )
        assert (await over(relay, own.id)).state == "injected"
        assert "reply_markup" in (await api.called("sendmessage", 4))[-1].fields


@asynccontextmanager
async def asking(path: Path, switch: Switch, **config: Any) -> AsyncGenerator[BotApi]:
    path.mkdir()
    async with BotApi() as api, relay_with(path) as relay:
        own = {"token": TOKEN, "api": api.url, "chats": [ADA, GROUP], "asks": True, **config}
        await relay.register(await made(path, "phone", "telegram", own, asks=switch))
        yield api


async def test_a_question_has_no_buttons_and_content_can_be_left_out(tmp_path: Path) -> None:
    switch = Switch()
    async with asking(tmp_path / "a", switch, chats=[ADA], content=False) as api:
        switch.tell(note(kind="question", title="it has a question"))
        shown = (await api.called("sendmessage"))[0]
        assert "reply_markup" not in shown.fields
        assert "rm -rf" not in shown.fields["text"]


def keys(call: BotCall) -> dict[str, str]:
    """The buttons below a message: what they say → what they send."""
    if "reply_markup" not in call.fields:
        return {}
    rows = call.json("reply_markup")["inline_keyboard"]
    return {button["text"]: button["callback_data"] for row in rows for button in row}


async def test_a_long_ask_is_shown_whole_before_its_buttons(tmp_path: Path) -> None:
    """Also what looks like Markdown: nothing is left out of it, and the buttons come last."""
    switch, long = Switch(), "command:\n  first\n  ```\n" + "x" * 20_000 + "\n  ```\n  last"
    async with asking(tmp_path / "a", switch, chats=[ADA], content=True) as api:
        switch.tell(note(content=long, offers={"session": "all edits in this directory, this session"}))
        calls = await api.called("sendmessage", 7)
        *pieces, shown = [call.fields["text"] for call in calls]
        assert "".join(piece.partition("\n")[2] for piece in pieces) == long
        assert all(len(piece) <= 4096 for piece in pieces)
        assert [sorted(keys(call)) for call in calls[:-1]] == [[]] * 6
        assert "in 6 messages" in shown
        assert "Approve for the session: all edits in this directory, this session" in shown
        approve = keys(calls[-1])
        assert list(approve) == ["Approve", "Deny", "Approve all edits in this directory, this session"]
        await api.press(ADA, approve["Approve all edits in this directory, this session"])
        await api.called("answercallbackquery", 1)
        assert (switch.decided, switch.remembered) == ([("ask1", True, "d1", address())], ["session"])


@pytest.mark.parametrize(
    ("more", "config", "words"),
    [
        ({"content": "y" * 50_000}, {}, "17360 characters of it are not shown here"),
        ({"content": "short", "missing": 7}, {}, "7 characters of it are not shown here"),
        ({"content": "rm -rf /tmp/x"}, {"content": False}, "13 characters of it are not shown here"),
        ({"withheld": "the end of the command"}, {}, "it can only be denied: the end of the command"),
    ],
)
async def test_what_is_not_shown_whole_can_only_be_denied(
    tmp_path: Path, more: dict[str, Any], config: dict[str, Any], words: str
) -> None:
    switch = Switch()
    async with asking(tmp_path / "a", switch, chats=[ADA], **config) as api:
        switch.tell(note(offers={"session": "the same"}, **more))
        await eventually(lambda: any(map(keys, api.made("sendmessage"))), "no card came", timeout=30)
        shown = api.made("sendmessage")[-1]
        assert list(keys(shown)) == ["Deny"]
        assert words in shown.fields["text"]


async def test_what_cannot_be_seen_is_marked_in_names_too(tmp_path: Path) -> None:
    switch = Switch()
    async with asking(tmp_path / "a", switch, chats=[ADA]) as api:
        switch.tell(note(agent="co\u202edex", place="/tmp/\u200bx", offers={"session": "a\u2028b"}))
        shown = (await api.called("sendmessage"))[0]
        for mark in ("co⟨U+202E⟩dex", "/tmp/⟨U+200B⟩x", "a⟨U+2028⟩b"):
            assert mark in shown.fields["text"]
        assert "Approve a⟨U+2028⟩b" in keys(shown)


def test_a_button_that_cannot_say_all_that_it_permits_is_not_there() -> None:
    from tieline.channels.telegram.ask_card import buttons, card

    for words, offered in (("w" * 700, True), ("w" * 900, False)):
        long = note(offers={"session": words, "always": "more"})
        made = card(long, content=True)
        keyboard = buttons(long, allow=made.allow)
        assert keyboard is not None
        assert (words in made.text, len(keyboard.inline_keyboard)) == (offered, 3 if offered else 1)


def test_a_title_or_a_directory_adds_no_lines_to_a_card() -> None:
    from tieline.channels.telegram.ask_card import card

    made = card(note(agent="a\nb", title="c\n\nAll of it is above", place="/d\ne"), content=True)
    assert made.text.startswith("a b asks: c  All of it is above\n/d e\n\n")


# --- trouble ----------------------------------------------------------------------------------------------------


async def test_it_goes_on_after_the_api_was_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.channels.telegram.channel.BACKOFF", Backoff(0.01, 0.05, EXACT))
    async with bot(tmp_path) as (api, relay, channel):
        desk = Desk(relay)
        for status in (500, 502, 409, 404, 429):
            api.fail("getUpdates", status, retry_after=60 if status == 429 else 0)
            await api.write(ADA, f"after {status}")
            assert (await desk.next()).payload.text == f"after {status}"
        await eventually(lambda: channel.status().state == "running", "it is well again", timeout=30)
        view = relay.channels()[0]
        assert (view.state, view.problem, "rate limit" in view.last_error) == ("running", "", True), view


async def test_a_lost_lease_is_no_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows whether it arrives: the update is given again, and is the same message."""
    monkeypatch.setattr("tieline.channels.telegram.channel.BACKOFF", Backoff(0.01, 0.05, EXACT))
    async with bot(tmp_path, settings=replace(QUICK, lease_s=3)) as (api, relay, _):
        desk = Desk(relay)
        lose_lease(relay)
        await api.write(ADA, "hello")
        assert (await desk.next()).payload.text == "hello"
        await api.write(ADA, "still there?")
        assert (await desk.next()).payload.text == "still there?"
        assert api.said(ADA) == [], "told that it was not sent"


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"token": "nonsense", "chats": [1]}, "token"),
        ({"token": TOKEN}, "chats"),
        ({"token": TOKEN, "chats": ["me"]}, "chats[0]"),
        ({"token": TOKEN, "chats": [1], "to": "nowhere"}, "to"),
        ({"token": TOKEN, "chats": [1], "routes": {"x": "relay.desk"}}, "routes.x"),
        ({"token": TOKEN, "chats": [1], "api": "ftp://x"}, "api"),
        ({"token": TOKEN, "chats": [1], "mode": "webhook"}, "webhook_url"),
        ({"token": TOKEN, "chats": [1], "mode": "telepathy"}, "mode"),
        ({"token": TOKEN, "chats": [1], "secret": "with space"}, "secret"),
    ],
)
async def test_a_bad_configuration_names_its_field(tmp_path: Path, config: dict[str, Any], field: str) -> None:
    with pytest.raises(ChannelError) as refused:
        await made(tmp_path, "phone", "telegram", config)
    assert refused.value.field == f"channels.phone.config.{field}"
    assert TOKEN not in str(refused.value)
