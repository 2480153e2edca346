"""A session's changes on the page: looked at, commented on, committed, taken back; and files that texts name."""

import base64
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect
from tests.browser.conftest import OpenPage
from tests.browser.faults import faults
from tests.browser.hub import HubProcess
from tests.bus.conftest import free_port
from tests.sessions.git_remotes import bare_repository, git_daemon, stand_in_gh

from tieline.events import Done, Edit, Text, ToolResult, ToolUse, TurnStarted
from tieline.script import Say
from tieline.testing.rig import scratch_env

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

Shot = Callable[[Page, str], Awaitable[None]]
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[HubProcess, None]:
    root = tmp_path_factory.mktemp("hub")
    env = scratch_env(root / "home", path=f"{root}/bin:{Path(sys.executable).parent}:/usr/bin:/bin")
    hub = HubProcess(root, env=env)
    hub.agent("listener", [Say("Ready.")], [Say("Both are done.")])
    events = [
        TurnStarted("Draw it.", "p1"),
        ToolUse("t1", "Write", Edit(("shot.png",))),
        ToolResult("t1", "ok", "written"),
        Text("It greets in greeting.py, see `greeting.py:4`, and pkg/deep/inner.py:2 for the rest."),
        Done("success"),
    ]
    await hub.fill("filed", events)
    async with hub:
        for name, value in (("user.name", "Ada Lane"), ("user.email", "ada@example.com")):
            git(hub, "config", name, value)
        await hub.session("listener", id="filed", title="Draw it")
        yield hub


def git(hub: HubProcess, *arguments: str, cwd: Path | None = None) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=cwd or hub.repository, env=hub.env, check=True, capture_output=True, text=True
    ).stdout


def change(hub: HubProcess) -> None:
    git(hub, "reset", "-q", "--hard")
    git(hub, "clean", "-qfd")
    text = (hub.repository / "greeting.py").read_text()
    (hub.repository / "greeting.py").write_text(text.replace('"Hello " + name', 'f"Hello, {name}!"'))
    (hub.repository / "pkg/deep").mkdir(parents=True, exist_ok=True)
    (hub.repository / "pkg/deep/inner.py").write_text("one = 1\ntwo = 2\n")


async def agree(page: Page, name: str) -> None:
    """Holds the button for as long as it wants."""
    button = page.get_by_role("dialog").get_by_role("button", name=name, exact=True)
    await button.focus()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Enter")


UNCOVERED_AT_THE_BOTTOM = """button => {
    button.scrollIntoView({ block: 'end', behavior: 'instant' })
    const { x, y, width, height } = button.getBoundingClientRect()
    return button.contains(document.elementFromPoint(x + width / 2, y + height / 2))
}"""


async def fits(locator: Locator) -> bool:
    return await locator.evaluate("box => box.scrollWidth <= box.clientWidth + 1")


async def test_from_a_change_to_a_commit_on_a_desktop(hub: HubProcess, open_page: OpenPage, shot: Shot) -> None:
    change(hub)
    session = await hub.session("listener", prompt="go", title="commit it")
    page = await open_page(hub, "wide", path=f"/s/{session}")
    dock = page.get_by_role("complementary", name="Changes and facts")
    await dock.get_by_role("button", name="Uncommitted").click()
    tree = dock.get_by_role("navigation", name="Changed files")
    await expect(tree.get_by_text("pkg/deep")).to_be_visible()
    await expect(tree.get_by_role("img", name="1 line added")).to_be_visible()
    await expect(tree.get_by_role("img", name="2 lines added")).to_be_visible()
    await page.get_by_role("separator", name="Width of the changes and facts").focus()
    await page.keyboard.press("End")
    await expect(dock.locator(".pair").first).to_be_visible()
    assert await faults(page) == []
    await shot(page, "desktop-side-by-side")
    await dock.get_by_role("button", name="Side by side").click()
    await expect(dock.locator(".pair")).to_have_count(0)
    await tree.get_by_role("button", name="inner.py", exact=True).click()
    await expect(dock.get_by_label(re.compile("^Changes in "))).to_have_count(1)
    await tree.get_by_role("button", name="Show all files").click()
    await tree.get_by_role("checkbox", name="Stage greeting.py").check()
    commit = dock.get_by_role("button", name="Commit 1 file")
    await expect(commit).to_be_disabled()
    await dock.get_by_label("Commit message").fill("Greet with a comma")
    await commit.click()
    await expect(dock.get_by_role("status").filter(has_text="Greet with a comma")).to_be_visible()
    assert git(hub, "log", "-1", "--format=%an: %s") == "Ada Lane: Greet with a comma\n"
    assert git(hub, "status", "--porcelain") == "?? pkg/\n"

    await tree.get_by_role("button", name="Take pkg/deep/inner.py back").click()
    plan = page.get_by_role("dialog")
    await expect(plan).to_contain_text("pkg/deep/inner.py (untracked)")
    await expect(plan).to_contain_text("two = 2")
    assert await faults(page) == []
    await shot(page, "desktop-plan")
    (hub.repository / "pkg/deep/inner.py").write_text("three = 3\n")
    await agree(page, "Take it back")
    await expect(plan.get_by_role("alert")).to_contain_text("It has changed meanwhile")
    await expect(plan).to_contain_text("three = 3")
    await agree(page, "Take it back")
    await expect(plan).to_have_count(0)
    await expect(dock.get_by_role("status").filter(has_text="git restore --source=refs/tieline/")).to_be_visible()
    assert git(hub, "status", "--porcelain") == ""
    await shot(page, "desktop-done")


@pytest.mark.parametrize("size", ["iphone", "narrow"])
async def test_comments_are_one_prompt_on_a_phone(hub: HubProcess, open_page: OpenPage, shot: Shot, size: str) -> None:
    git(hub, "reset", "-q", "--hard")
    git(hub, "clean", "-qfd")
    session = await hub.session("listener", prompt="go", title=f"comment it, {size}")
    page = await open_page(hub, size, path=f"/s/{session}")
    await expect(page.get_by_role("log").get_by_text("Ready.")).to_be_visible()
    (hub.repository / "new.py").write_text("one = 1\ntwo = 2\n")
    await page.get_by_role("button", name="Changes").click()
    sheet = page.get_by_role("dialog", name="Changes")
    file = sheet.get_by_label("Changes in new.py")
    for line, words in ((1, "why one?"), (2, "why two?")):
        await file.get_by_role("button", name=re.compile(f"^Line {line}, added")).click()
        await file.get_by_label("Comment to the agent").fill(words)
        add = file.get_by_role("button", name="Add comment")
        assert await add.evaluate(UNCOVERED_AT_THE_BOTTOM)
        await add.click()
    review = sheet.get_by_role("region", name="Comments to send")
    await expect(review).to_contain_text("2 comments")
    assert await faults(page) == []
    assert await fits(sheet.locator(".sheet-body"))
    await shot(page, f"{size}-comments")
    await sheet.get_by_role("button", name="Discard all").click()
    plan = page.get_by_role("dialog", name="Discard all changes in")
    await expect(plan).to_contain_text("new.py (untracked)")
    assert await fits(plan.locator(".sheet-body"))
    await shot(page, f"{size}-plan")
    await plan.get_by_role("button", name="Cancel").click()
    await review.get_by_role("button", name="Send as one prompt").click()
    await expect(review).to_have_count(0)
    await sheet.get_by_role("button", name="Close").click()
    log = page.get_by_role("log")
    await expect(log.get_by_text("2 comments on your changes:")).to_be_visible()
    await expect(log.get_by_text("Both are done.")).to_be_visible()
    assert (hub.repository / "new.py").exists()


@pytest.mark.parametrize("size", ["iphone", "narrow"])
async def test_a_branch_is_pushed_and_proposed_from_a_phone(
    hub: HubProcess, open_page: OpenPage, shot: Shot, size: str
) -> None:
    project = hub.root / f"project-{size}"
    git(hub, "clone", "-q", str(hub.repository), str(project))
    git(hub, "checkout", "-qb", "comma", cwd=project)
    for name, value in (("user.name", "Ada Lane"), ("user.email", "ada@example.com")):
        git(hub, "config", name, value, cwd=project)
    gh_log = stand_in_gh(hub.root / "bin")
    gh_log.unlink(missing_ok=True)
    folder = hub.root / f"remotes-{size}"
    remote = bare_repository(folder, "own/project.git")
    with git_daemon(folder, free_port()) as url:
        git(hub, "remote", "set-url", "origin", f"{url}/own/project.git", cwd=project)
        session = await hub.session("listener", prompt="go", title=f"push it, {size}", cwd=str(project))
        page = await open_page(hub, size, path=f"/s/{session}")
        await expect(page.get_by_role("log").get_by_text("Ready.")).to_be_visible()
        (project / "comma.py").write_text("comma = ','\n")
        await page.get_by_role("button", name="Changes").click()
        sheet = page.get_by_role("dialog", name="Changes")
        await sheet.get_by_role("button", name="Stage all").click()
        await sheet.get_by_label("Commit message").fill("A comma")
        await sheet.get_by_role("button", name="Commit 1 file").click()
        await expect(sheet.get_by_role("status").filter(has_text="A comma")).to_be_visible()

        await sheet.get_by_role("button", name="Push …").click()
        plan = page.get_by_role("dialog", name="Push comma to")
        await expect(plan).to_contain_text("A comma")
        assert await faults(page) == []
        assert await fits(plan.locator(".sheet-body"))
        await shot(page, f"{size}-push")
        assert git(hub, "for-each-ref", cwd=remote) == "", "a plan pushes nothing"
        await agree(page, "Push")
        await expect(plan).to_have_count(0)
        await expect(sheet.get_by_role("status").filter(has_text="pushed comma to")).to_be_visible()
        assert git(hub, "log", "--format=%an: %s", "-1", "comma", cwd=remote) == "Ada Lane: A comma\n"
        await expect(sheet.get_by_role("button", name="Push …")).to_have_count(0)

        # A hosted address has no port of ours; what was pushed stays pushed.
        git(hub, "remote", "set-url", "origin", "git@code.example:own/project.git", cwd=project)
        await sheet.get_by_role("button", name="Pull request …").click()
        form = page.get_by_role("dialog", name="Open a pull request")
        await form.get_by_label("Title").fill("Greet with a comma")
        await form.get_by_label("Text").fill("It reads better.")
        assert await faults(page) == []
        assert await fits(form.locator(".sheet-body"))
        await form.get_by_role("button", name="Show what would happen").click()
        plan = page.get_by_role("dialog", name="Open a pull request at code.example/own/project")
        await expect(plan).to_contain_text("--head=comma")
        assert await fits(plan.locator(".sheet-body"))
        await shot(page, f"{size}-pull-request")
        assert not gh_log.exists(), "a plan opens nothing"
        await agree(page, "Open it")
        done = sheet.get_by_role("status").filter(has_text="opened")
        await expect(done.get_by_role("link")).to_have_attribute("href", "https://example.com/own/project/pull/7")
        assert (await done.inner_text()).count("/own/project/pull/7") == 1
        assert gh_log.read_text() == (
            "pr\ncreate\n--repo=code.example/own/project\n--head=comma\n--title=Greet with a comma\n"
            "--body=It reads better.\n"
        )
        assert await fits(sheet.locator(".sheet-body"))
        await shot(page, f"{size}-proposed")


@pytest.mark.parametrize("size", ["wide", "iphone"])
async def test_a_path_opens_the_file_and_an_image_is_shown(
    hub: HubProcess, open_page: OpenPage, shot: Shot, size: str
) -> None:
    change(hub)
    (hub.repository / "shot.png").write_bytes(PIXEL)
    page = await open_page(hub, size, path="/s/filed")
    log = page.get_by_role("log")
    image = log.get_by_role("button", name="shot.png").locator("img")
    await expect(image).to_be_visible()
    assert await image.evaluate("image => image.naturalWidth") == 1
    await log.get_by_role("button", name="pkg/deep/inner.py:2").click()
    panel = (
        page.get_by_role("complementary", name="Changes and facts")
        if size == "wide"
        else page.get_by_role("dialog", name="File")
    )
    text = panel.get_by_label("Text of pkg/deep/inner.py")
    await expect(text.locator("[aria-current=location]")).to_contain_text("two = 2")
    assert await faults(page) == []
    await shot(page, f"{size}-file")
    await panel.get_by_role("button", name=re.compile("^Close")).click()
    await log.get_by_role("button", name="greeting.py:4").click()
    await expect(panel.get_by_label("Text of greeting.py")).to_contain_text("def greet")
    if size == "wide":
        await panel.get_by_role("tab", name="Changes").click()
        await expect(panel.get_by_role("tab", name="File")).to_have_count(0)
