"""Teams on the page: the list, the conversation as a thread, and all that a person does in it."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, Route, expect
from tests.browser.conftest import OpenPage
from tests.browser.faults import faults
from tests.browser.hub import HubProcess

from tieline.bus import open_bus
from tieline.protocol import teams as p
from tieline.script import Fail, Reply, Run, Say
from tieline.teams.conversation import TeamConversation
from tieline.teams.records import TEAMS, encode_entry, subject

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]

Shot = Callable[[Page, str], Awaitable[None]]

PHONE = (390, 844)
LONG = 1000
LONG_NAME = "the-one-who-reads-" + "everything-" * 6 + "twice"
HOSTILE = "<img src=x onerror=alert(1)> **bold** [link](javascript:alert(1))\n\n" + "w" * 400
SCRIPTS: dict[str, list[Reply]] = {
    "architect": [
        [Say("The **plan** is ready.\n[NEXT: developer, reviewer, tester]")],
        [Say("Is that all?\n[NEXT: alice]")],
        [Say("We go on.\n[DONE]")],
    ],
    "developer": [[Say("I **begin**."), Run("touch built")], [Say("It is built.\n[NEXT: alice]")]],
    "reviewer": [[Say("Never asked.")]],
    "tester": [[Say("Tests pass.")]],
    "quiet": [[Say("What is it?")], [Say("I see.\n[NEXT: alice]")]],
    "broken": [[Fail(500, "no credit")]],
}
STARTED = """\
name = "started"

[[members]]
name = "quiet"
agent = "quiet"

[[members]]
name = "alice"
human = true
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[HubProcess, None]:
    made = HubProcess(tmp_path_factory.mktemp("hub"))
    for name, replies in SCRIPTS.items():
        made.agent(name, *replies)
    await fill_long_conversation(made)
    async with made:
        yield made


async def fill_long_conversation(hub: HubProcess) -> None:
    """One that has ended, with words and names that a page must be able to show."""
    (hub.root / "state").mkdir(mode=0o700, exist_ok=True)
    team = p.Team(
        name="long " + "winded" * 30,
        members=(
            p.TeamMember(name="one", agent="demo", cwd="/"),
            p.TeamMember(name=LONG_NAME, agent="demo", cwd="/"),
            p.TeamMember(name="alice", human=True),
        ),
        conversation=p.ConversationLimits(max_rounds=10_000),
    )
    conversation, began_at = TeamConversation("long"), time.time() - LONG
    entries: list[p.AnyEntry] = [p.Started(team=team, task="Talk.", by="owner", at=began_at)]
    for turn in range(1, LONG // 2):
        name, other = ("one", LONG_NAME) if turn % 2 else (LONG_NAME, "one")
        began = p.TurnBegan(
            turn=turn, member=name, session="s", prompt=f"p{turn}", text="x" * 5000, seen=0, at=began_at + turn
        )
        words = HOSTILE if turn == LONG // 2 - 2 else f"Words of turn {turn}."
        markers = p.Markers(next=(p.NextSpeaker(other),))
        whole = f"{words}\n[NEXT: {other}]"
        ended = p.TurnEnded(
            turn=turn, member=name, status="success", text=whole, cost_usd=0.01, markers=markers, at=began_at + turn
        )
        entries += [began, ended]
    entries.append(p.TeamEnded(reason="ended by owner", by="owner", at=began_at + LONG))
    async with open_bus(f"sqlite://{hub.root}/state/bus.db") as bus:
        for entry in entries:
            conversation.apply(entry, await bus.publish(subject("long"), encode_entry(entry)))
        await bus.table(TEAMS).put("long", msgspec.json.encode(conversation.record()))


async def start(hub: HubProcess, *agents: str, name: str, task: str, **limits: Any) -> str:
    members: list[dict[str, Any]] = [
        {"name": each, "agent": each, "cwd": str(hub.repository), "policy": "ask", "role": f"the {each}"}
        for each in agents
    ]
    members.append({"name": "alice", "human": True})
    team = {"name": name, "members": members, "conversation": limits}
    return (await hub.request("POST", "teams", {"team": team, "task": task}))["id"]


def log(page: Page) -> Locator:
    return page.get_by_role("log", name="Conversation")


def message_of(page: Page, name: str) -> Locator:
    return log(page).get_by_role("article", name=f"{name} said")


def queue(page: Page) -> Locator:
    return page.get_by_label("Who speaks next").get_by_role("listitem")


def state(page: Page) -> Locator:
    return page.get_by_role("main").locator(".pane-head .chip")


async def test_from_the_list_to_the_end(hub: HubProcess, open_page: OpenPage, shot: Shot) -> None:
    team = await start(hub, "architect", "developer", "reviewer", "tester", name="shop", task="Build the shop.")
    page = await open_page(hub)
    await page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    await page.get_by_role("link", name="Teams").click()
    row = page.get_by_role("main").get_by_role("link", name=re.compile("shop.*Build the shop"))
    await expect(row).to_contain_text("developer works")
    await expect(row).to_contain_text("Needs you")  # for an ask
    await expect(row).to_contain_text("round 2 of 30")
    await row.click()

    await expect(page.get_by_role("heading", name="shop", exact=True)).to_be_visible()
    await expect(message_of(page, "architect").locator("strong", has_text="plan")).to_be_visible()
    await expect(message_of(page, "architect")).not_to_contain_text("[NEXT")
    await expect(message_of(page, "architect").locator(".steering")).to_contain_text("developer, reviewer, tester")
    ask = log(page).get_by_role("article", name="Run this command?")
    await expect(ask.get_by_label("Command")).to_have_text("touch built")
    says = log(page).get_by_role("article", name="developer says")
    await expect(says.locator("strong", has_text="begin")).to_be_visible()  # its turn still runs
    await expect(log(page).get_by_role("link", name="Session of developer")).to_be_visible()
    await expect(queue(page)).to_have_text(["reviewer", "tester"])
    await shot(page, "team-phone-ask")

    await page.get_by_role("button", name="Hold").click()
    await expect(state(page)).to_have_text("On hold")
    await expect(log(page)).to_contain_text("Put on hold by")
    await queue(page).nth(1).get_by_role("button", name="Move tester up").press("Enter")
    await expect(queue(page)).to_have_text(["tester", "reviewer"])
    await expect(page.get_by_role("button", name="Move tester up")).to_be_focused()
    await message_of(page, "architect").get_by_role("button", name="architect").click()
    await expect(page.get_by_label("Who should answer").get_by_role("button", pressed=True)).to_have_text("architect")
    await page.get_by_label("Message", exact=True).fill("Keep it small.")
    await page.get_by_role("button", name="Send").click()
    await expect(message_of(page, "alice")).to_contain_text("Keep it small.")
    await expect(queue(page)).to_have_text(["tester", "reviewer", "architect"])
    await expect(page.get_by_label("Who should answer").get_by_role("button", pressed=True)).to_have_count(0)
    await page.get_by_role("button", name="Remove reviewer from the queue").click()
    await expect(queue(page)).to_have_text(["tester", "architect"])

    await ask.get_by_role("button", name="Allow once").click()
    await expect(message_of(page, "developer")).to_contain_text("It is built.")
    assert (hub.repository / "built").exists()
    await expect(message_of(page, "tester")).to_have_count(0)  # it is on hold
    await shot(page, "team-phone-held")
    await page.get_by_role("button", name="Resume").click()
    await expect(message_of(page, "tester")).to_contain_text("Tests pass.")
    await expect(message_of(page, "architect")).to_have_count(2)
    await expect(state(page)).to_have_text("Needs you")
    await expect(log(page).get_by_text("Waits for alice")).to_be_visible()

    await page.get_by_role("button", name="About this team").click()
    sheet = page.get_by_role("dialog", name="About this team")
    await expect(sheet.get_by_role("listitem").filter(has_text="the architect")).to_contain_text("2 turns")
    await shot(page, "team-phone-about")
    await sheet.get_by_label("Policy of tester").select_option("read-only")
    await sheet.get_by_role("button", name="Remove reviewer from the team").click()
    await sheet.get_by_role("button", name="Remove reviewer: confirm").click()
    await expect(sheet.get_by_role("listitem")).to_have_count(4)
    await sheet.get_by_role("button", name="End the conversation …").click()
    await sheet.get_by_label("End the conversation?").fill("good enough")
    await sheet.get_by_role("button", name="End it").click()
    await expect(sheet).to_have_count(0)
    await expect(state(page)).to_have_text("Ended")
    await expect(log(page)).to_contain_text("The policy of tester is now read-only")
    await expect(log(page)).to_contain_text("reviewer left the team")
    await expect(log(page)).to_contain_text("Ended: good enough")

    await page.get_by_label("More rounds").fill("3")
    await page.get_by_role("button", name="Resume").click()
    await expect(log(page)).to_contain_text("with 3 rounds more")
    await expect(state(page)).to_have_text("Needs you")
    await page.get_by_label("Message", exact=True).fill("A little more.")
    await page.get_by_role("button", name="Send").click()
    await expect(message_of(page, "architect").last).to_contain_text("We go on.")
    await expect(log(page)).to_contain_text("Ended: done, says architect")
    await page.reload()
    speakers = log(page).locator(".said .speaker")
    await expect(speakers).to_have_text(
        ["architect", "alice", "developer", "tester", "architect", "alice", "architect"]
    )
    await shot(page, "team-phone-ended")
    view = await hub.request("GET", f"teams/{team}")
    assert (view["status"], view["max_rounds"]) == ("ended", 33)

    await page.get_by_role("button", name="About this team").click()
    await sheet.get_by_label("A new conversation of the same team").fill("Build another shop.")
    await sheet.get_by_role("button", name="Start").click()
    await expect(log(page).get_by_label("Task")).to_contain_text("Build another shop.")
    await expect(log(page).get_by_role("article", name="Run this command?")).to_be_visible()
    again = page.url.rpartition("/")[2]
    assert again not in (team, "info")
    await hub.request("POST", f"teams/{again}/actions", {"do": "end"})
    await expect(state(page)).to_have_text("Ended")


async def test_what_happens_during_a_break_is_there_once_and_in_order(hub: HubProcess, open_page: OpenPage) -> None:
    team = await start(hub, "quiet", name="breaks", task="Wait.")
    page = await open_page(hub, path=f"/teams/{team}")
    await expect(state(page)).to_have_text("Needs you")
    await expect(page).to_have_title(re.compile(r"\(\d+\) Tieline"))

    await page.get_by_label("Message", exact=True).fill("Said once.")
    lost: list[str] = []

    async def lose_the_answer(route: Route) -> None:
        if lost:
            await route.fallback()
            return
        lost.append(route.request.headers["idempotency-key"])
        await route.fetch()
        await route.abort("connectionreset")

    await page.route("**/actions", lose_the_answer)
    await page.get_by_role("button", name="Send").click()
    await expect(message_of(page, "quiet").last).to_contain_text("I see.")
    async with page.expect_request("**/actions") as again:
        await page.reload()
    assert lost == [(await again.value).headers["idempotency-key"]], "the hub recognises it"
    await page.evaluate("window.same = true")
    await expect(page.locator(".bubble.outgoing")).to_have_count(0)
    await expect(log(page).get_by_text("Said once.")).to_have_count(1)

    devtools: Any = await page.context.new_cdp_session(page)
    await devtools.send("Page.setWebLifecycleState", {"state": "frozen"})
    await hub.request("POST", f"teams/{team}/actions", {"do": "hold"})
    await hub.request("POST", f"teams/{team}/actions", {"do": "speak", "text": "From elsewhere."})
    await devtools.send("Page.setWebLifecycleState", {"state": "active"})
    await expect(log(page).get_by_text("From elsewhere.")).to_have_count(1)
    await expect(state(page)).to_have_text("On hold")

    await hub.kill()
    await expect(page.locator(".thread .connection")).to_have_attribute("data-hub", re.compile("waiting|connecting"))
    await page.get_by_label("Message", exact=True).fill("While you were away.")
    await page.get_by_role("button", name="Send").click()
    await expect(log(page).get_by_label("Sending to the hub")).to_be_visible()
    await hub.start()
    await expect(page.locator(".bubble.outgoing")).to_have_count(0)
    await hub.request("POST", f"teams/{team}/actions", {"do": "resume"})
    # Its script begins anew with the hub.
    order = ["What is it?", "Said once.", "I see.", "From elsewhere.", "While you were away.", "What is it?"]
    await expect(log(page).locator(".said .prose")).to_have_text(order)
    assert await page.evaluate("window.same"), "it was not loaded anew"


async def test_a_team_is_started_from_its_file(
    hub: HubProcess, open_page: OpenPage, shot: Shot, tmp_path: Path
) -> None:
    page = await open_page(hub, path="/teams")
    await page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    await page.get_by_role("link", name="New team").click()
    form = page.get_by_role("dialog", name="New team")
    file = form.get_by_label("Team file")
    await file.fill(STARTED.replace("agent", "agnet"))
    await form.get_by_role("button", name="Start").click()
    await expect(form.get_by_role("listitem")).to_contain_text("members[0].agnet")
    await shot(page, "new-team-phone-mistake")
    assert await faults(page) == []
    await form.get_by_role("button", name="Line 5").click()
    selected = "box => box.value.slice(box.selectionStart, box.selectionEnd)"
    assert await file.evaluate(selected) == 'agnet = "quiet"'
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    path = tmp_path / "team.toml"
    path.write_text(STARTED)
    await form.get_by_label("Or open a file").set_input_files(path)
    await form.get_by_label("Directory").fill(str(hub.repository))
    await form.get_by_role("button", name="Check").click()
    await expect(form.get_by_role("status")).to_have_text("The file is valid: started, 1 agent and 1 person.")
    await form.get_by_label("Task").fill("Ask me.")
    await shot(page, "new-team-phone")
    await form.get_by_role("button", name="Start").click()
    await expect(page.get_by_role("heading", name="started", exact=True)).to_be_visible()
    await expect(message_of(page, "quiet")).to_contain_text("What is it?")
    assert await form.count() == 0


async def test_a_long_conversation_and_long_words(hub: HubProcess, open_page: OpenPage, shot: Shot) -> None:
    page = await open_page(hub, path="/teams/long", dark=True)
    await page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    await expect(log(page).get_by_text(f"Words of turn {LONG // 2 - 1}.")).to_be_in_viewport()
    await shot(page, "team-phone-dark-long-words")
    assert await log(page).locator("img").count() == 0
    assert await log(page).get_by_role("link", name="link", exact=True).count() == 0
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert await log(page).evaluate("box => box.scrollWidth <= box.clientWidth")
    assert await log(page).get_by_text("Words of turn 1.", exact=True).count() == 0
    async with asyncio.timeout(90):  # a page of entries after the other
        while await log(page).get_by_text("Words of turn 1.", exact=True).count() == 0:
            await log(page).evaluate("box => { box.scrollTop = 0; return new Promise(requestAnimationFrame) }")
    assert await log(page).locator(".said").count() < LONG / 4, "only what is near is in the document"
    await page.goto(f"{hub.url}/teams")
    await expect(page.get_by_role("main").get_by_role("link", name=re.compile("winded"))).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await shot(page, "teams-phone-dark")


async def test_a_member_that_fails_is_told_and_nothing_is_inaccessible(
    hub: HubProcess, open_page: OpenPage, shot: Shot
) -> None:
    team = await start(hub, "broken", "quiet", name="accessible", task="Try.\n\nWith `code`.")
    for dark in (False, True):
        page = await open_page(hub, "desktop", dark=dark, path=f"/teams/{team}")
        await expect(log(page)).to_contain_text("The turn of broken failed: no credit")
        await expect(state(page)).to_have_text("Needs you")
        await page.get_by_label("Who should answer").get_by_role("button", name="quiet").click()
        await shot(page, f"team-desktop-{'dark' if dark else 'light'}")
        for path in (f"/teams/{team}", f"/teams/{team}/info", "/teams"):
            await page.goto(hub.url + path)
            await expect(page.get_by_role("heading", name=re.compile("accessible|Teams|About")).first).to_be_visible()
            assert await faults(page) == []
        await expect(page.get_by_label("Needs you").get_by_role("link", name=re.compile("accessible"))).to_be_visible()
