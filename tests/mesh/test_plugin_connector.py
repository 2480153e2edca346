"""The way into a harness through a plugin, without a harness: the test is the plugin."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager

import pytest

from tieline.mesh import plugin_connector
from tieline.mesh.plugin_connector import PluginConnector, PluginLink, TooManyPlugins
from tieline.mesh.push import HarnessSession, Unreachable
from tieline.protocol.harness_plugins import PluginHandedOver, PluginReport, PluginSession, PluginText
from tieline.protocol.mesh import Activity

from .conftest import within
from .standin_terminals import terminal

SESSION = HarnessSession(harness="test", session="s-1", cwd="/home/me/shop", activity="idle", shared=True)


class RecordedConnector(PluginConnector):
    __test__ = False
    harness = "test"

    def __init__(self, env: Mapping[str, str], *, ending_s: float, refresh_s: float) -> None:
        super().__init__(env, ending_s=ending_s, refresh_s=refresh_s)
        self.looks: asyncio.Queue[tuple[set[str], set[int]]] = asyncio.Queue()
        self.whole = True

    async def on_first_look(self, sessions: Collection[str], heard: Collection[int]) -> bool:
        self.looks.put_nowait((set(sessions), set(heard)))
        return self.whole


class RecordingObserver:
    """An observer that keeps what it is told, and may fail."""

    def __init__(self) -> None:
        self.news: asyncio.Queue[tuple[str, HarnessSession]] = asyncio.Queue()
        self.failures = 0

    async def changed(self, session: HarnessSession) -> None:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not now")
        self.news.put_nowait(("changed", session))

    async def ended(self, session: HarnessSession) -> None:
        self.news.put_nowait(("ended", session))

    async def next(self) -> tuple[str, HarnessSession]:
        return await within(self.news.get())


@asynccontextmanager
async def opened(observer: RecordingObserver, *, refresh_s: float = 60.0) -> AsyncGenerator[RecordedConnector, None]:
    connector = RecordedConnector({}, ending_s=0.05, refresh_s=refresh_s)
    async with connector.open(observer):
        yield connector


def report(connector: PluginConnector, link: PluginLink, *sessions: tuple[str, Activity]) -> None:
    plugin_sessions = tuple(PluginSession(id=id, cwd="/home/me/shop", activity=activity) for id, activity in sessions)
    assert connector.report(PluginReport(link=link.id, sessions=plugin_sessions))


async def text_of(link: PluginLink) -> PluginText:
    command = await link.commands.get()
    assert isinstance(command, PluginText)
    return command


async def test_sessions_are_told_as_they_change_and_end() -> None:
    observer = RecordingObserver()
    async with opened(observer) as connector:
        with connector.connect() as link:
            report(connector, link, ("s-1", "idle"))
            assert await observer.next() == ("changed", SESSION)
            report(connector, link, ("s-1", "working"), ("s-2", "idle"))
            kind, session = await observer.next()
            assert (kind, session.session, session.activity) == ("changed", "s-1", "working")
            assert (await observer.next())[1].session == "s-2"
            report(connector, link, ("s-1", "working"))
            kind, session = await observer.next()
            assert (kind, session.session) == ("ended", "s-2")
        kind, session = await observer.next()
        assert (kind, session.session) == ("ended", "s-1")
        assert observer.news.empty()


async def test_a_plugin_that_comes_back_at_once_has_not_ended() -> None:
    observer = RecordingObserver()
    async with opened(observer) as connector:
        with connector.connect() as link:
            report(connector, link, ("s-1", "idle"))
            await observer.next()
        with connector.connect() as again:
            report(connector, again, ("s-1", "idle"), ("s-2", "idle"))
            assert (await observer.next())[1].session == "s-2"
            assert not connector.report(PluginReport(link=link.id)), "a link that is over"
            report(connector, again)
            assert {(await observer.next())[1].session for _ in range(2)} == {"s-1", "s-2"}


async def test_it_is_looked_again_until_every_plugin_that_runs_has_told_what_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plugin_connector, "FIRST_LOOK_S", 0.05)
    async with opened(RecordingObserver()) as connector:
        connector.whole = False
        assert await within(connector.looks.get()) == (set(), set())
        with connector.connect(7) as link:
            while connector.looks.qsize():
                connector.looks.get_nowait()
            assert await within(connector.looks.get()) == (set(), set()), "it is there, and has told nothing yet"
            report(connector, link, ("s-1", "idle"))
            while (look := await within(connector.looks.get())) == (set(), set()):
                pass
            assert look == ({"s-1"}, {7})
            connector.whole = True
            await within(connector.looks.get())
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    while True:
                        await connector.looks.get()


async def test_what_could_not_be_told_is_told_again_and_the_living_are_told_now_and_then() -> None:
    observer = RecordingObserver()
    observer.failures = 1
    async with opened(observer, refresh_s=0.2) as connector:
        with connector.connect() as link:
            report(connector, link, ("s-1", "idle"))
            assert await observer.next() == ("changed", SESSION)
            assert await observer.next() == ("changed", SESSION)


async def test_a_text_is_handed_over_when_the_plugin_says_so() -> None:
    async with opened(RecordingObserver()) as connector:
        with connector.connect() as link:
            report(connector, link, ("s-1", "idle"))
            pushing = asyncio.create_task(connector.push(SESSION, "hello", "alice"))
            text = await within(text_of(link))
            assert (text.session, text.text, text.sender) == ("s-1", "hello", "alice")
            assert not pushing.done()
            assert connector.handed_over(PluginHandedOver(link=link.id, text=text.text_id))
            await within(pushing)
            assert not connector.handed_over(PluginHandedOver(link=link.id, text=text.text_id)), "nobody waits any more"


async def test_a_text_that_the_harness_does_not_take_is_not_handed_over() -> None:
    async with opened(RecordingObserver()) as connector:
        with pytest.raises(Unreachable, match="no plugin"):
            await connector.push(SESSION, "hello", "alice")
        with connector.connect() as link:
            report(connector, link, ("s-1", "idle"))
            pushing = asyncio.create_task(connector.push(SESSION, "hello", "alice"))
            text = await within(text_of(link))
            connector.handed_over(PluginHandedOver(link=link.id, text=text.text_id, error="busy"))
            with pytest.raises(Unreachable, match="busy"):
                await within(pushing)
            pushing = asyncio.create_task(connector.push(SESSION, "hello", "alice"))
            await within(text_of(link))
        with pytest.raises(Unreachable, match="gone"):
            await within(pushing)


async def test_a_silent_plugin_and_too_many_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_connector, "HAND_OVER_S", 0.05)
    monkeypatch.setattr(plugin_connector, "MAX_LINKS", 1)
    monkeypatch.setattr(plugin_connector, "MAX_COMMANDS", 3)
    async with opened(RecordingObserver()) as connector:
        with connector.connect() as link:
            report(connector, link, ("s-1", "idle"))
            for _ in range(3):
                with pytest.raises(Unreachable, match="no answer"):
                    await connector.push(SESSION, "hello", "alice")
            with pytest.raises(Unreachable, match="too many"):
                await connector.push(SESSION, "hello", "alice")
            with pytest.raises(TooManyPlugins), connector.connect():
                pass


async def test_the_latest_link_of_a_session_gets_its_texts() -> None:
    async with opened(RecordingObserver()) as connector:
        with connector.connect() as first, connector.connect() as second:
            report(connector, first, ("s-1", "idle"))
            report(connector, second, ("s-1", "idle"))
            pushing = asyncio.create_task(connector.push(SESSION, "hello", "alice"))
            text = await within(text_of(second))
            connector.handed_over(PluginHandedOver(link=second.id, text=text.text_id))
            await within(pushing)
            assert first.commands.empty()


async def test_who_connects_later_from_another_process_gets_nothing_of_a_session() -> None:
    observer = RecordingObserver()
    async with terminal("") as process, terminal("") as other, opened(observer) as connector:
        with connector.connect(process.pid) as first, connector.connect(other.pid) as later:
            report(connector, first, ("s-1", "idle"))
            _, session = await observer.next()
            assert session.process == process.pid
            report(connector, later, ("s-1", "working"))
            assert connector.link_of("s-1") is first
            with connector.connect(process.pid) as again:  # its stream broke, and the hub has not seen it yet
                report(connector, again, ("s-1", "idle"))
                assert connector.link_of("s-1") is again
            report(connector, first)
            assert connector.link_of("s-1") is later
            with pytest.raises(Unreachable, match="no plugin"):
                await connector.push(session, "hello", "alice")
            assert later.commands.empty()
