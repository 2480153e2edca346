"""The configuration file is watched: only what changed is made anew, and what runs comes to its end."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.relay.channel_plugins.test_loader import MODULE
from tests.relay.conftest import BOUND, QUICK, over

from tieline import config as configuration
from tieline.bus import open_bus
from tieline.channels.base import ChannelContext
from tieline.relay import Relay
from tieline.relay.channel_plugins.reload import Changes, ChannelSet
from tieline.testing.wait_for import eventually

SLOW = """
import asyncio
began, go_on = asyncio.Event(), asyncio.Event()
"""


class Setting:
    """A configuration file, and a relay that follows it."""

    def __init__(self, path: Path) -> None:
        self.file = path / "config" / "tieline" / "tieline.toml"
        self.code = path / "code"
        self.code.mkdir()
        self.env = {"XDG_CONFIG_HOME": str(path / "config"), "TIELINE_HOME": str(path / "state")}
        self.heard: asyncio.Queue[Changes] = asyncio.Queue()
        self.channels: ChannelSet
        self.relay: Relay

    def module(self, name: str, text: str = MODULE) -> str:
        file = self.code / f"{name}.py"
        file.write_text(text)
        return str(file)

    def write(self, **channels: dict[str, Any]) -> None:
        """Each channel: its file, its word, whether it is enabled."""
        parts: list[str] = []
        for id, about in channels.items():
            enabled = str(about.get("enabled", True)).lower()
            parts += ["[[channels]]", f'id = "{id}"', f'path = "{about["path"]}"', f"enabled = {enabled}"]
            parts += [f'config = {{ word = "{about.get("word", "hello")}" }}']
        self.put("\n".join(parts) + "\n")

    def put(self, text: str) -> None:
        """As editors do it: another file in the place of the old one."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        draft = self.file.with_suffix(".new")
        draft.write_text(text)
        draft.replace(self.file)

    def words(self) -> dict[str, str]:
        return {report.id: report.name for report in self.channels.reports() if report.id != "agent"}

    def states(self) -> dict[str, str]:
        return {report.id: report.state for report in self.channels.reports() if report.id != "agent"}

    async def reported(self, *ids: str) -> None:
        """These wait for a person, and it is said; fails as soon as the hub takes one of them by itself."""

        def are_untrusted() -> bool:
            reports = {report.id: report for report in self.channels.reports()}
            return all(id in reports and "is not trusted yet" in reports[id].problem for id in ids)

        async with asyncio.timeout(BOUND):
            while not are_untrusted():
                changes = await self.heard.get()
                taken = {*changes.started, *changes.restarted} & {*ids}
                assert not taken or changes.trusted, f"nobody agreed: {changes}"

    async def agree(self) -> Changes:
        """As `tieline channels reload`."""
        return await self.channels.reload(trust=(await self.channels.reload()).waiting)

    async def until(self, words: dict[str, str]) -> None:
        await eventually(lambda: self.words() == words, f"{self.words()} is not {words}", timeout=BOUND)


@asynccontextmanager
async def following(path: Path, setting: Setting | None = None) -> AsyncGenerator[Setting, None]:
    setting = setting or Setting(path)
    config = configuration.load(environ=setting.env)
    async with open_bus(f"sqlite://{path}/bus.db") as bus, Relay(bus, config, settings=QUICK) as relay:
        around = ChannelContext(env=setting.env)
        async with ChannelSet(relay, config, around, on_change=setting.heard.put_nowait) as channels:
            setting.channels, setting.relay = channels, relay
            yield setting


async def test_a_file_that_comes_later_is_seen(tmp_path: Path) -> None:
    async with following(tmp_path) as setting:
        assert setting.words() == {}
        setting.write(a={"path": setting.module("a")})  # not even its folder was there
        await setting.reported("a")
        await setting.agree()
        await setting.until({"a": "hello"})
        sent = await setting.relay.send("relay.plain.a", "hi", sender="relay.user.ada")
        assert (await over(setting.relay, sent.id)).state == "injected"


async def test_only_what_changed_is_made_anew(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    code = setting.module("one")
    setting.write(a={"path": code}, b={"path": code}, c={"path": code})
    async with following(tmp_path, setting):
        before = {id: setting.channels.channel(id) for id in "abc"}
        setting.write(
            a={"path": code}, b={"path": code, "word": "changed"}, d={"path": code, "word": "new", "enabled": False}
        )
        await setting.until({"a": "hello", "b": "changed", "d": ""})
        assert setting.channels.channel("a") is before["a"]
        assert setting.channels.channel("b") is not before["b"]
        assert setting.channels.channel("c") is None
        changes = await setting.heard.get()
        assert (changes.started, changes.restarted, changes.stopped) == ((), ("b",), ("c",))
        setting.write(a={"path": code, "enabled": False}, b={"path": code, "word": "changed"})
        await eventually(lambda: setting.states() == {"a": "disabled", "b": "running"}, "not disabled", timeout=BOUND)


async def test_a_local_file_is_loaded_afresh_when_it_is_saved(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    code, other = setting.module("one"), setting.module("two")
    setting.write(a={"path": code}, b={"path": other})
    async with following(tmp_path, setting):
        kept = setting.channels.channel("b")
        for number in range(3):
            setting.module("one", MODULE.replace("config.word", f'"version {number}"'))
            await setting.reported("a")
            await setting.agree()
            await setting.until({"a": f"version {number}", "b": "hello"})
        assert setting.channels.channel("b") is kept
        loaded = [name for name in sys.modules if name.startswith("tieline_channel_a_")]
        assert len(loaded) == 1, "the old modules are gone"
    assert not [name for name in sys.modules if name.startswith("tieline_channel_a_")]


async def test_deliveries_that_run_come_to_their_end(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    text = SLOW + MODULE.replace(
        "return delivered()", "began.set(); await go_on.wait(); return delivered(text=self.display_name)"
    )
    code = setting.module("slow", text)
    setting.write(a={"path": code, "word": "old"})
    async with following(tmp_path, setting):
        channel: Any = setting.channels.channel("a")
        module = sys.modules[type(channel).__module__]
        first = await setting.relay.send("relay.plain.a", "1", sender="relay.user.ada", reply_to="relay.user.ada")
        async with asyncio.timeout(BOUND):
            await module.began.wait()
        setting.write(a={"path": code, "word": "new"})
        lane = setting.relay.dispatcher.queues.match("relay.plain.a")
        assert lane is not None
        await eventually(lambda: lane._paused, "nothing changes", timeout=BOUND)  # pyright: ignore[reportPrivateUsage]
        second = await setting.relay.send("relay.plain.a", "2", sender="relay.user.ada", reply_to="relay.user.ada")
        module.go_on.set()
        answer = await setting.relay.message((await over(setting.relay, first.id)).answer)
        assert answer.envelope is not None
        assert answer.envelope.payload.text == "old", "what ran came to its end"
        await setting.until({"a": "new"})
        successor: Any = setting.channels.channel("a")
        sys.modules[type(successor).__module__].go_on.set()
        answer = await setting.relay.message((await over(setting.relay, second.id)).answer)
        assert answer.envelope is not None
        assert answer.envelope.payload.text == "new", "and what waited was delivered by the one that came after"


async def test_a_broken_one_stops_no_other(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    good = setting.module("good")
    bad = setting.module("bad", "raise RuntimeError('oh no')")
    weak = setting.module(
        "weak", MODULE.replace("start(self, relay): pass", "start(self, relay): raise OSError('away')")
    )
    setting.write(a={"path": bad}, b={"path": good}, c={"path": weak})
    async with following(tmp_path, setting):
        assert setting.states() == {"a": "broken", "b": "running", "c": "broken"}
        reports = {report.id: report for report in setting.channels.reports()}
        assert "oh no" in reports["a"].problem
        assert str(setting.file) in reports["a"].problem
        assert reports["a"].field == "channels.a.path"
        assert "start failed" in reports["c"].problem
        setting.module("bad")
        setting.module("weak")
        await setting.reported("a", "c")
        await setting.agree()
        await setting.until({"a": "hello", "b": "hello", "c": "hello"})


async def test_a_change_that_is_no_good_leaves_the_old_one_running(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    code = setting.module("one")
    setting.write(a={"path": code})
    async with following(tmp_path, setting):
        before = setting.channels.channel("a")
        setting.module("one", "def broken(:")
        await setting.reported("a")
        await setting.agree()
        assert "SyntaxError" in setting.channels.reports()[-1].problem
        assert setting.channels.channel("a") is before
        assert setting.states() == {"a": "running"}
        setting.put("this is [ not toml")
        await eventually(lambda: "not valid TOML" in setting.channels.problem, "nothing was said", timeout=BOUND)
        assert setting.channels.channel("a") is before
        setting.module("one", MODULE.replace("config.word", '"well again"'))
        setting.write(a={"path": code})
        await setting.reported("a")
        await setting.agree()
        await setting.until({"a": "well again"})
        assert setting.channels.problem == ""


async def test_the_same_id_twice_is_told(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    code = setting.module("one")
    entry = f'[[channels]]\nid = "a"\npath = "{code}"\nconfig = {{ word = "x" }}\n'
    setting.put(entry + entry)
    async with following(tmp_path, setting):
        assert setting.states() == {"a": "running", "a (2)": "broken"}


async def test_one_that_is_switched_off_takes_no_mail(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    entry = '[[channels]]\nid = "{id}"\ntype = "notify"\nenabled = {on}\nconfig = {{ urls = ["json://127.0.0.1:9"] }}\n'
    setting.put(entry.format(id="on", on="true") + entry.format(id="off", on="true"))
    async with following(tmp_path, setting):
        assert setting.states() == {"on": "running", "off": "running"}
    setting.put(entry.format(id="on", on="true") + entry.format(id="off", on="false"))
    async with following(tmp_path, setting):
        assert setting.states() == {"on": "running", "off": "disabled"}
        subjects = {endpoint.subject for endpoint in setting.relay.endpoints()}
        assert "relay.notify.on" in subjects and "relay.notify.off" not in subjects


async def test_two_for_one_address_is_told(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    code = setting.module("one", MODULE.replace('f"relay.plain.{id}"', '"relay.plain.same"'))
    setting.write(a={"path": code}, b={"path": code})
    async with following(tmp_path, setting):
        assert sorted(setting.states().values()) == ["broken", "running"]


async def test_a_reload_by_hand_tries_broken_ones_again(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    setting.write(a={"path": str(setting.code / "later.py")})
    async with following(tmp_path, setting):
        assert setting.states() == {"a": "broken"}
        setting.module("later")
        await setting.agree()
        assert setting.words() == {"a": "hello"}
