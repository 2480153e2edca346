"""Devices, machines, messages, and that every page is usable without a mouse and on any screen."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest
import pytest_asyncio
import segno
from playwright.async_api import Page, expect
from tests.browser.chromium import chromium, text_size
from tests.browser.conftest import OpenPage
from tests.browser.faults import faults
from tests.browser.hub import NAME, HubProcess
from tests.browser.signed_in import settled, signed_in

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

Shot = Callable[[Page, str], Awaitable[None]]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[HubProcess, None]:
    """With an agent that is there and does not work."""
    root = tmp_path_factory.mktemp("hub")
    program = root / "torn"
    program.write_text("#!/bin/sh\necho codex-cli 0.0.1\n")
    program.chmod(0o755)
    torn = {"type": "codex", "command": [str(program)]}
    async with HubProcess(root, agents={"torn": torn}) as started:
        yield started


PAGES = (
    "/", "/new", "/settings", "/members", "/messages", "/inboxes", "/dead", "/channels", "/teams", "/teams/new",
    "/search?q=greeting", "/usage", "/schedules", "/schedules/new",
)  # fmt: skip


async def look_at_every_page(page: Page, hub: HubProcess, shot: Shot, name: str) -> None:
    title = "a session with quite a long title, longer than a phone is wide"
    session = await hub.session(prompt="go", title=title)
    own = f"/s/{session}"
    for path in (*PAGES, own, f"{own}/info", f"{own}/diff"):
        await page.goto(hub.url + path)
        await settled(page)
        if path == own:
            await expect(page.get_by_role("log").get_by_role("button", name="Allow once")).to_be_visible()
        assert await faults(page) == [], f"{path} is hard to use for some"
        shown = path.partition("?")[0].strip("/").replace("/", "-").replace(session, "x") or "home"
        await shot(page, f"{name}-{shown}")


@pytest.mark.parametrize(
    ("size", "dark"), [("phone", True), ("tablet", False), ("desktop", True), ("narrow", False), ("narrow", True)]
)
async def test_every_page_on_every_screen(
    hub: HubProcess, open_page: OpenPage, shot: Shot, size: str, dark: bool
) -> None:
    page = await open_page(hub, size, dark=dark)
    await look_at_every_page(page, hub, shot, f"{size}-{'dark' if dark else 'light'}")


@pytest.mark.parametrize(("size", "scheme"), [("narrow", "light"), ("iphone", "dark"), ("wide", "light")])
async def test_every_page_with_text_of_twice_the_size(hub: HubProcess, shot: Shot, size: str, scheme: str) -> None:
    async with chromium(more=[text_size(2)]) as browser:
        page = await signed_in(browser, hub, size, scheme)
        await look_at_every_page(page, hub, shot, f"{size}-large-{scheme}")


async def test_a_revoked_device_is_out_at_once(hub: HubProcess, open_page: OpenPage) -> None:
    before = {device["id"] for device in await hub.request("GET", "devices")}
    phone, desktop = await open_page(hub), await open_page(hub, "desktop", path="/settings")
    first = min(device["id"] for device in await hub.request("GET", "devices") if device["id"] not in before)
    await phone.goto(f"{hub.url}/settings")
    await phone.get_by_role("button", name="Add a phone or browser").click()
    link = str(await phone.get_by_label("Devices").locator("pre.command").text_content())
    await hub.request("POST", "login", {"secret": link.partition("#login=")[2], "name": "tablet"})
    await desktop.reload()
    devices = desktop.get_by_label("Devices")
    await expect(devices.get_by_text("this one")).to_be_visible()
    tablet = devices.get_by_role("listitem").filter(has_text=f"let in by Chrome on Linux ({first[-6:]})")
    await expect(tablet).to_contain_text("tablet")
    revoke = devices.get_by_role("button", name="Revoke")
    await devices.get_by_role("listitem").filter(has_text=f"({first[-6:]})").first.get_by_role("button").click()
    asked = devices.get_by_role("group", name=f"Revoke Chrome on Linux ({first[-6:]})")
    await expect(asked).to_contain_text("It let in tablet (")
    await asked.get_by_role("button", name="Cancel").click()
    await expect(asked).to_have_count(0)
    await expect(tablet).to_be_visible()
    await devices.get_by_role("listitem").filter(has_text=f"({first[-6:]})").first.get_by_role("button").click()
    await asked.get_by_role("button", name="Revoke all 2").click()
    await expect(devices.get_by_text("tablet (")).to_have_count(0)
    while count := await revoke.count():
        await revoke.first.click()
        await expect(revoke).to_have_count(count - 1)
    audit = desktop.get_by_label("Audit log")
    await audit.get_by_role("button", name="Show").click()
    revoked = audit.get_by_role("listitem").filter(has_text="revoke").filter(has_text=first[-6:])
    await expect(revoked.first).to_be_visible()
    await expect(phone.get_by_text("This device was signed out.")).to_be_visible()
    await expect(phone.get_by_text("tieline pair")).to_be_visible()
    await phone.get_by_label("Or paste the link here").fill(await hub.login())
    await phone.get_by_role("button", name="Sign in").click()
    await expect(phone.locator(".connection").first).to_have_attribute("data-hub", "online")


async def test_machines_show_their_agents_and_their_readiness(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub, path="/settings")
    machines = page.get_by_label("Machines")
    await expect(machines.get_by_text("online")).to_be_visible()
    await expect(machines.get_by_role("listitem").filter(has_text="Demo").locator(".dot.good").first).to_be_visible()
    node = (await hub.request("GET", "nodes"))[0]
    (torn,) = (agent for agent in node["agents"] if agent["name"] == "torn")
    assert torn["found"] and not torn.get("ready")
    row = machines.get_by_role("listitem").filter(has=page.locator(".dot.bad")).filter(has_text="torn")
    await expect(row.last).to_contain_text(torn.get("hint") or torn["problem"])


async def test_joining_a_machine_shows_the_command(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub, path="/settings")
    await page.get_by_role("button", name="Join a machine").click()
    command = page.get_by_label("Machines").locator("pre.command")
    await expect(command).to_have_text(re.compile(rf"^tieline node join '{re.escape(hub.url)}/#pair=.+'$"))


async def test_another_phone_is_let_in_by_its_camera(hub: HubProcess, open_page: OpenPage) -> None:
    """Where the hub is reached by a name that others know too."""
    page = await open_page(hub)
    url = hub.url.replace("127.0.0.1", NAME)
    await page.goto((await hub.login()).replace(hub.url, url))
    await expect(page.locator(".connection").first).to_have_attribute("data-hub", "online")
    await page.goto(f"{url}/settings")
    await page.get_by_role("button", name="Add a phone or browser").click()
    devices = page.get_by_label("Devices")
    code = devices.get_by_role("img", name="The link as a QR code")
    await expect(code).to_have_js_property("complete", True)
    assert await code.evaluate("one => one.naturalWidth") > 0, "the browser shows it"
    link = str(await devices.locator("pre.command").text_content())
    assert link.startswith(f"{url}/#login=")
    assert await code.get_attribute("src") == segno.make(link, error="l", micro=False).svg_data_uri(
        border=4, light="white", omitsize=True
    )
    await expect(devices.get_by_text("Only the hub’s own machine")).to_have_count(0)
    await page.get_by_role("button", name="Join a machine").click()
    await expect(page.get_by_label("Machines").locator("pre.command")).to_contain_text(f"{url}/#pair=")
    await expect(page.get_by_text("Only the hub’s own machine")).to_have_count(0)


async def test_an_address_that_nobody_else_reaches_is_no_code(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub, path="/settings")
    for label, button, advice in (
        ("Devices", "Add a phone or browser", "tieline phone"),
        ("Machines", "Join a machine", "tieline up --host 0.0.0.0"),
    ):
        section = page.get_by_label(label)
        await section.get_by_role("button", name=button).click()
        await expect(section.locator("pre.command")).to_contain_text(f"{hub.url}/#")
        await expect(section.get_by_text("Only the hub’s own machine reaches this address.")).to_be_visible()
        await expect(section.get_by_text(advice, exact=True)).to_be_visible()
        await expect(section.get_by_role("img", name="The link as a QR code")).to_have_count(0)


async def test_focus_goes_where_the_page_goes(hub: HubProcess, open_page: OpenPage) -> None:
    await hub.session(title="by keyboard")
    page = await open_page(hub)
    await page.get_by_role("link", name=re.compile("by keyboard")).focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("main")).to_be_focused()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("button", name="Back to all sessions")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("main", name="Sessions and decisions")).to_be_focused()


async def test_begin_a_thread_of_messages_and_see_its_receipt(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session(title="postbox")
    page = await open_page(hub, path="/messages")
    await page.get_by_role("button", name="New message").click()
    sheet = page.get_by_role("dialog", name="New message")
    await sheet.get_by_role("button", name=re.compile("postbox")).click()
    await expect(sheet.get_by_label("To", exact=True)).to_have_value(f"relay.agent.{session}")
    await sheet.get_by_label("Message", exact=True).fill("Please mend the greeting.")
    await sheet.get_by_role("button", name="Send").click()
    letter = page.get_by_role("article").filter(has_text="Please mend the greeting.").first
    await expect(letter.get_by_label("Delivery status")).to_contain_text("stored")
    await page.goto(f"{hub.url}/messages")
    await expect(page.get_by_role("link", name=re.compile("postbox")).first).to_be_visible()


async def test_a_dead_letter_is_sent_again(hub: HubProcess, open_page: OpenPage) -> None:
    """It says why it died and how far it got; sent again it is another message of its thread."""
    session = await hub.session(title="too late")
    body = {"to": f"relay.agent.{session}", "text": "Only if it is quick.", "limits": {"ttl_s": 1}}
    sent = await hub.request("POST", "messages", body)
    page = await open_page(hub, path="/dead")
    letter = page.get_by_role("listitem").filter(has_text="Only if it is quick.")
    await expect(letter.locator(".chip.failed")).to_be_visible()
    thread = f"{hub.url}/messages/{sent['receipt']['thread']}"
    await page.goto(thread)
    steps = page.get_by_role("article").filter(has_text="Only if it is quick.").get_by_label("Delivery status")
    for step in ("stored", "offered", "dead"):
        await expect(steps).to_contain_text(step)
    await page.goto(f"{hub.url}/dead")
    await letter.get_by_role("button", name="Send again").click()
    await expect(letter).to_have_count(0)
    await page.goto(thread)
    await expect(page.get_by_role("article").filter(has_text="Only if it is quick.")).to_have_count(2)


async def test_filter_the_list(hub: HubProcess, open_page: OpenPage) -> None:
    await hub.session(title="needle in the hay")
    page = await open_page(hub)
    rows = page.get_by_label("Sessions", exact=True).locator(".session")
    await page.get_by_label("Filter sessions").fill("needle")
    await expect(rows).to_have_count(1)
    await page.get_by_role("button", name="Archived").click()
    await expect(rows).to_have_count(0)
