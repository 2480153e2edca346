"""A push, as the hub would send it, handed to the real service worker by the browser's own devtools protocol."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Page, Worker, expect
from tests.browser.conftest import OpenPage
from tests.browser.hub import HubProcess

from tieline.hub.push.triggers import AskPending, notice
from tieline.script import Run, Say
from tieline.sessions.records import AskRecord
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

WAIT_S = 30.0

CLICK = """async ([tag, action]) => {
  const [notification] = await self.registration.getNotifications({tag})
  const event = new NotificationEvent('notificationclick', {notification, action})
  // Only a browser's own event can be waited for, and the devtools protocol has none that taps a notification.
  const done = new Promise((resolve) => { event.waitUntil = (promise) => promise.then(resolve, resolve) })
  self.dispatchEvent(event)
  await done
}"""
WATCH = """() => {
  self.displays = []
  const show = self.registration.showNotification.bind(self.registration)
  self.registration.showNotification = (...given) => {
    const display = show(...given)
    self.displays.push(display)
    return display
  }
}"""
DISPLAYED = """async () => {
  while (!self.displays.length) await new Promise((resolve) => setTimeout(resolve, 20))
  await Promise.all(self.displays.splice(0))
}"""
"""It is asked for its notifications when it has displayed one: see `sw.ts`."""
TIDY = """async () => {
  const worker = (await navigator.serviceWorker.ready).active
  // Several at once: one begins to ask while another still does.
  setInterval(() => { for (const n of [1, 2, 3]) worker.postMessage({close: `ask-of-somebody-else-${n}`}) }, 1)
}"""
"""The page has the notifications of decided asks taken away, all the time."""
SHOWN = """async (tag) => (await self.registration.getNotifications({tag})).map(one => ({
  title: one.title, body: one.body, actions: one.actions.map(action => action.action), data: one.data,
}))"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[HubProcess, None]:
    hub = HubProcess(tmp_path_factory.mktemp("hub"))
    hub.agent("careful", [Run("touch allowed")], [Say("Done.")])
    hub.agent("remover", [Run("rm -rf build")], [Say("Done.")])
    async with hub:
        yield hub


async def ready(page: Page, hub: HubProcess) -> tuple[Worker, Any, str]:
    """The service worker, a devtools session, and the worker's registration."""
    await page.context.grant_permissions(["notifications"], origin=hub.url)
    devtools: Any = await page.context.new_cdp_session(page)
    ids: list[str] = []

    def registered(event: dict[str, Any]) -> None:
        ids.extend(registration["registrationId"] for registration in event["registrations"])

    devtools.on("ServiceWorker.workerRegistrationUpdated", registered)
    await page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    await devtools.send("ServiceWorker.enable")
    await page.wait_for_function("() => navigator.serviceWorker.controller !== null")
    await eventually(lambda: bool(ids and page.context.service_workers), "no service worker was told of")
    worker = page.context.service_workers[0]
    await worker.evaluate(WATCH)
    return worker, devtools, ids[-1]


async def pushed(
    hub: HubProcess, worker: Worker, devtools: Any, registration: str, ask: dict[str, Any], *, whole: bool = False
) -> str:
    """What the hub's own decision says about this ask, with all of its action or with nothing of it. It is displayed
    when this returns."""

    record = msgspec.convert(ask, AskRecord)
    notification = notice(
        AskPending(ask=record, agent="careful", machine="laptop"), content=whole, now=record.created_at
    )
    data = msgspec.json.encode(notification).decode()
    message = {"origin": hub.url, "registrationId": registration, "data": data}
    await devtools.send("ServiceWorker.deliverPushMessage", message)
    async with asyncio.timeout(WAIT_S):
        await worker.evaluate(DISPLAYED)
    return notification.tag


async def ask_of(hub: HubProcess, session: str, page: Page) -> dict[str, Any]:
    """The session's ask, once the page knows it too."""
    card = page.get_by_label("Needs you").get_by_role("article").filter(has=page.locator(f"a[href='/s/{session}']"))
    await expect(card).to_be_visible()
    return next(pending for pending in await hub.request("GET", "asks") if pending["session"] == session)


async def shown(worker: Worker, tag: str, *, count: int = 1) -> list[dict[str, Any]]:
    """The notifications with this tag, once there are so many: browsers tell nobody when one appears."""
    notifications: list[dict[str, Any]] = []

    async def there() -> bool:
        nonlocal notifications
        notifications = await worker.evaluate(SHOWN, tag)
        return len(notifications) == count

    async with asyncio.timeout(WAIT_S):
        while not await there():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return notifications


class Notified(NamedTuple):
    page: Page
    worker: Worker
    session: str
    ask: str
    tag: str

    async def tap(self, action: str) -> None:
        await self.worker.evaluate(CLICK, [self.tag, action])


async def notified(hub: HubProcess, open_page: OpenPage, agent: str, *, whole: bool = False) -> Notified:
    """An ask of this agent's, and the notification of it on the screen."""
    page = await open_page(hub)
    worker, devtools, registration = await ready(page, hub)
    session = await hub.session(agent, prompt="go")
    ask = await ask_of(hub, session, page)
    tag = await pushed(hub, worker, devtools, registration, ask, whole=whole)
    await shown(worker, tag)
    return Notified(page, worker, session, ask["id"], tag)


async def test_allow_and_deny_on_the_notification(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub)
    worker, devtools, registration = await ready(page, hub)
    for decision, whole, offered in (("allow", True, ["allow", "deny"]), ("deny", False, ["deny"])):
        session = await hub.session("careful", prompt="go")
        ask = await ask_of(hub, session, page)
        tag = await pushed(hub, worker, devtools, registration, ask, whole=whole)
        seen = await shown(worker, tag)
        assert "careful" in seen[0]["title"]
        assert ("touch" in json.dumps(seen[0]["body"])) == whole, "nothing of the tool's on the lock screen by itself"
        assert seen[0]["actions"] == offered
        await worker.evaluate(CLICK, [tag, decision])
        answered = await hub.request("GET", f"asks/{ask['id']}")
        assert (answered["status"], answered["answer"]["decision"]) == ("answered", decision)
        await shown(worker, tag, count=0)


async def test_nothing_is_allowed_by_a_notification_that_does_not_show_it(hub: HubProcess, open_page: OpenPage) -> None:
    """Also where the browser kept the button of an older page's notification."""
    notification = await notified(hub, open_page, "careful")
    await notification.tap("allow")
    await expect(notification.page).to_have_url(f"{hub.url}/s/{notification.session}")
    assert (await hub.request("GET", f"asks/{notification.ask}"))["status"] == "pending"


async def test_a_tap_opens_the_session_and_a_destructive_ask_is_not_allowed_blindly(
    hub: HubProcess, open_page: OpenPage
) -> None:
    notification = await notified(hub, open_page, "remover", whole=True)
    await notification.tap("allow")
    await expect(notification.page).to_have_url(f"{hub.url}/s/{notification.session}")
    assert (await hub.request("GET", f"asks/{notification.ask}"))["status"] == "pending"
    await expect(notification.page.get_by_role("log").get_by_role("button", name="Hold to allow")).to_be_visible()


async def test_an_answer_elsewhere_takes_the_notification_away(hub: HubProcess, open_page: OpenPage) -> None:
    notification = await notified(hub, open_page, "careful")
    await hub.request("POST", f"asks/{notification.ask}/answer", {"decision": "allow"})
    await shown(notification.worker, notification.tag, count=0)


async def test_one_that_comes_while_others_are_taken_away(hub: HubProcess, open_page: OpenPage) -> None:
    """Chromium would forget it, if it was asked for the others at the wrong moment."""
    page = await open_page(hub)
    worker, devtools, registration = await ready(page, hub)
    await page.evaluate(TIDY)
    for _ in range(8):
        session = await hub.session("careful", prompt="go")
        ask = await ask_of(hub, session, page)
        tag = await pushed(hub, worker, devtools, registration, ask)
        assert len(await shown(worker, tag)) == 1
        await hub.request("POST", f"asks/{ask['id']}/answer", {"decision": "allow"})
        await shown(worker, tag, count=0)
