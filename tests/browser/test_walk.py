"""A walk of twenty steps, as somebody takes it who has just installed Tieline: from an empty HOME to work that a real
agent did in a worktree, approved on a phone and merged. Each step is one function; each needs those before it."""

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect
from tests.browser.conftest import SIZES

from tieline.bootstrap.process_lock import running_pid
from tieline.script import Run, Say
from tieline.testing.cli_process import CliProcess
from tieline.testing.rigs.claude_code import ClaudeCodeRig
from tieline.testing.tmux_terminal import TmuxTerminal
from tieline.testing.wait_for import at_work_in, eventually

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.timeout(420),  # all of it is one test
    pytest.mark.asyncio(loop_scope="session"),
]

SLOW_MS = 90_000
SLOW_S = 90.0
NOTE = "# Notes\n\nFirst of May: the very first line.\nLast line of the note.\n"
WHY = "not before the review of Friday"


class Walk:
    """A machine with an empty HOME and a repository, and a phone."""

    def __init__(self, root: Path, rig: ClaudeCodeRig, browser: Browser) -> None:
        self.rig = rig
        self.browser = browser
        self.cli = CliProcess(root / "machine")
        self.cli.env = {**self.cli.env, **rig.options["env"]}
        self.repository = self.cli.place
        self.phone: Page
        self.port = ""
        self.session = ""
        self.worktree = Path()

    async def tieline(self, *arguments: str, status: int = 0) -> str:
        ended = await asyncio.to_thread(self.cli.run_program, *arguments, timeout=SLOW_S)
        assert ended.returncode == status, ended.stdout + ended.stderr
        return ended.stdout

    async def json(self, *arguments: str) -> Any:
        return json.loads(await self.tieline(*arguments, "--json"))

    def git(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=self.repository, env=dict(self.cli.env), check=True, capture_output=True, text=True
        ).stdout

    @property
    def thread(self) -> Locator:
        return self.phone.get_by_role("log", name="Conversation")

    # --- the steps ---

    async def step_01_the_agent_is_found(self) -> None:
        (agent,) = (agent for agent in await self.json("agents") if agent["name"] == "claude-code")
        assert agent["found"], agent

    async def step_02_the_demo_leads_on(self) -> None:
        assert "tieline up" in await self.tieline("demo")

    async def step_03_a_project_with_history(self) -> None:
        (self.repository / "README.md").write_text("# Project\n")
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "Ada")
        self.git("config", "user.email", "ada@example.org")
        self.git("add", "README.md")
        self.git("commit", "-qm", "Begin")

    async def step_04_the_hub_starts(self) -> None:
        assert "Tieline is at http://127.0.0.1:" in await self.tieline("up", "--port", "0")
        status = await self.json("status")
        assert status["sessions"] == 0
        self.port = status["url"].rpartition(":")[2]

    async def step_05_the_phone_is_let_in(self) -> None:
        link = re.search(r"http://\S+#login=\S+", await self.tieline("pair"))
        assert link, "a link to open, or to scan"
        context = await self.browser.new_context(
            viewport=SIZES["iphone"], has_touch=True, is_mobile=True, reduced_motion="reduce"
        )
        context.set_default_timeout(SLOW_MS)
        self.phone = await context.new_page()
        await self.phone.goto(link[0])
        await expect(self.phone.get_by_text("No sessions yet")).to_be_visible(timeout=SLOW_MS)
        assert [device.get("kind") for device in await self.json("devices")] == [None, "page"]

    async def step_06_a_session_in_a_worktree_is_started_on_the_phone(self) -> None:
        self.rig.play([Run(f"cat > notes.md <<'END'\n{NOTE}END")], [Say("The note is written.")])
        await self.phone.get_by_role("link", name="New", exact=True).click()
        sheet = self.phone.get_by_role("dialog", name="New session")
        await sheet.get_by_label("First prompt").fill("Write a note, please.")
        await sheet.get_by_label("Directory", exact=True).fill(str(self.repository))
        await sheet.get_by_role("radio", name=re.compile("^Claude Code")).check()
        await sheet.get_by_role("checkbox", name=re.compile("worktree")).check()
        await sheet.get_by_role("button", name="Start").click()

    async def step_07_the_ask_is_whole(self) -> None:
        ask = self.thread.get_by_role("article")
        for line in NOTE.split("\n"):
            if line:
                await expect(ask.get_by_text(line).first).to_be_visible(timeout=SLOW_MS)

    async def step_08_it_is_allowed_on_the_phone(self) -> None:
        await self.thread.get_by_role("button", name="Allow once").click()
        await expect(self.thread.get_by_text("The note is written.")).to_be_visible(timeout=SLOW_MS)
        await expect(self.thread.locator(".turn-end")).to_contain_text("Done", timeout=SLOW_MS)

    async def step_09_the_command_line_has_the_same_session(self) -> None:
        (session,) = await self.json("sessions")
        assert session["title"] == "Write a note, please." and session["turns"] == 1
        self.session, self.worktree = session["id"], Path(session["cwd"])
        assert (self.worktree / "notes.md").read_text() == NOTE
        assert not (self.repository / "notes.md").exists(), "the checkout of the person is as it was"

    async def step_10_it_says_who_allowed_what(self) -> None:
        decided = [entry for entry in await self.json("audit") if entry["what"] == "decision"]
        assert len(decided) == 1, decided

    async def step_11_the_next_prompt_comes_from_the_terminal(self) -> None:
        self.rig.play([Run("touch published")], [Say("Then not.")])
        await self.tieline("send", self.session[:12], "Publish it.")
        await expect(self.thread.get_by_role("article").last).to_contain_text("touch published", timeout=SLOW_MS)
        (ask,) = await self.json("asks")
        assert "touch published" in json.dumps(ask)

    async def step_12_it_is_denied_on_the_phone_with_a_reason(self) -> None:
        ask = self.thread.get_by_role("article").last
        await ask.get_by_role("button", name="Deny …").click()
        await ask.get_by_label("Why? The agent reads this.").fill(WHY)
        await ask.get_by_role("button", name="Deny", exact=True).click()
        await expect(self.thread.get_by_text("Then not.")).to_be_visible(timeout=SLOW_MS)

    async def step_13_the_agent_was_told_why(self) -> None:
        assert WHY in self.rig.heard(), "the reason reached the model"
        assert not (self.worktree / "published").exists()

    async def step_14_the_dashboard_shows_it(self) -> None:
        async with TmuxTerminal([self.cli.program, "top"], self.repository, self.cli.env, shared=True) as terminal:
            await terminal.shows("Write a note, please.")
            await terminal.shows("Then not.")

    async def step_15_it_is_found(self) -> None:
        hits = await self.json("search", "note")
        assert self.session in json.dumps(hits)

    async def step_16_it_is_counted(self) -> None:
        assert (await self.json("usage"))["total"]["turns"] == 2

    async def step_17_a_killed_hub_loses_nothing(self) -> None:
        os.kill(running_pid(self.cli.env), signal.SIGKILL)
        await eventually(lambda: not running_pid(self.cli.env), "it is still there")
        await self.tieline("up", "--port", self.port)  # the phone tries where the hub was
        await expect(self.phone.locator(".connection").first).to_have_attribute("data-hub", "online", timeout=SLOW_MS)
        (session,) = await self.json("sessions")
        assert (session["id"], session["turns"]) == (self.session, 2)

    async def step_18_what_merging_would_bring(self) -> None:
        diff = await self.tieline("worktree", "diff", self.session[:12])
        assert "+Last line of the note." in diff and "README.md" not in diff

    async def step_19_it_is_merged(self) -> None:
        await self.tieline("worktree", "merge", self.session[:12])
        assert (self.repository / "notes.md").read_text() == NOTE
        assert self.git("status", "--porcelain") == ""
        assert len(self.git("log", "--format=%s", "main").splitlines()) >= 2
        assert not self.worktree.exists(), "the worktree is gone"
        assert self.git("worktree", "list").count("\n") == 1

    async def step_20_the_end_leaves_nothing(self) -> None:
        await self.tieline("down")
        await expect(self.phone.locator(".connection").first).not_to_have_attribute(
            "data-hub", "online", timeout=SLOW_MS
        )
        await eventually(lambda: not at_work_in(self.cli.place.parent), "something still runs", timeout=SLOW_S)


STEPS = sorted(name for name in vars(Walk) if name.startswith("step_"))


@pytest_asyncio.fixture(loop_scope="session")
async def walk(browser: Browser, tmp_path: Path) -> AsyncGenerator[Walk, None]:
    async with ClaudeCodeRig(tmp_path / "home") as rig:
        walk = Walk(tmp_path, rig, browser)
        try:
            yield walk
        finally:
            if pid := running_pid(walk.cli.env):
                os.kill(pid, signal.SIGKILL)
            for context in browser.contexts:
                await context.close()


async def test_a_walk_of_twenty_steps(walk: Walk) -> None:
    assert len(STEPS) == 20
    for name in STEPS:
        try:
            await getattr(walk, name)()
        except Exception as problem:
            problem.add_note(f"in {name}")
            raise
