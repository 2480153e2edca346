"""The real Claude Code, Codex, OpenCode and Gemini, driven from the page, over the scripted model."""

import re
import struct
import sys
import zlib
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import FilePayload, Page, expect
from tests.browser.conftest import OpenPage
from tests.browser.hub import HubProcess

from tieline.script import Run, Say, Write
from tieline.testing.rigs.acp import GeminiRig
from tieline.testing.rigs.claude_code import ClaudeCodeRig
from tieline.testing.rigs.codex import codex_rig
from tieline.testing.rigs.opencode import OpenCodeRig
from tieline.testing.wait_for import eventually

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.timeout(360),  # three waits of SLOW_MS, on a machine that does other things too
    pytest.mark.asyncio(loop_scope="session"),
]

BINARIES = Path(__file__).parents[1] / "agents/node_modules/.bin"
SLOW_MS = 90_000
"""A first start of an agent, on a machine that does other things too."""


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


DOT = (
    b"\x89PNG\r\n\x1a\n"
    + _chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    + _chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
    + _chunk(b"IEND", b"")
)
"""A picture of one red pixel."""

Shot = Callable[[Page, str], Awaitable[None]]
Scene = tuple[HubProcess, dict[str, Any]]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Scene, None]:
    """One hub whose agents are the real ones, each over a model of its own."""
    root = tmp_path_factory.mktemp("real")
    home = root / "home"
    async with AsyncExitStack() as stack:
        rigs: dict[str, Any] = {
            "Claude Code": await stack.enter_async_context(ClaudeCodeRig(home)),
            "Codex": await stack.enter_async_context(codex_rig(home, BINARIES / "codex")),
            "OpenCode": await stack.enter_async_context(OpenCodeRig(home, str(BINARIES / "opencode"))),
            "Gemini": await stack.enter_async_context(GeminiRig(home, BINARIES)),
        }
        env: dict[str, str] = {}
        for rig in rigs.values():
            env |= rig.options["env"]
        env["PATH"] = f"{BINARIES}:{Path(sys.executable).parent}:/usr/bin:/bin"
        yield await stack.enter_async_context(HubProcess(root / "hub", env=env)), rigs


@pytest.mark.parametrize(
    ("agent", "size"), [("Claude Code", "phone"), ("Codex", "desktop"), ("OpenCode", "phone"), ("Gemini", "desktop")]
)
async def test_first_approved_edit(scene: Scene, open_page: OpenPage, shot: Shot, agent: str, size: str) -> None:
    hub, rigs = scene
    rig = rigs[agent]
    name = f"{agent.lower().replace(' ', '-')}.txt"
    target = hub.repository / name
    path = str(target) if agent in ("Claude Code", "Gemini", "OpenCode") else name
    rig.model.reset()
    rig.play([Write(path, "written by a real agent\n")], [Say("It is written.")])
    page = await open_page(hub, size)
    await page.get_by_role("link", name="New", exact=True).click()
    sheet = page.get_by_role("dialog", name="New session")
    await sheet.get_by_label("Directory", exact=True).fill(str(hub.repository))
    await sheet.get_by_role("radio", name=re.compile(f"^{agent}")).check()
    if model := rig.options.get("model"):
        await sheet.get_by_label("Model").fill(model)
    await sheet.get_by_label("First prompt").fill(f"Write {name}, please.")
    await sheet.get_by_role("button", name="Start").click()
    thread = page.get_by_role("log", name="Conversation")
    ask = thread.get_by_role("article")
    await expect(ask.get_by_text("written by a real agent").first).to_be_visible(timeout=SLOW_MS)
    assert not target.exists(), "nothing is written before it is allowed"
    await shot(page, f"real-{name.removesuffix('.txt')}-{size}")
    await ask.get_by_role("button", name="Allow once").click()
    await expect(thread.get_by_text("It is written.")).to_be_visible(timeout=SLOW_MS)
    await expect(thread.locator(".turn-end")).to_contain_text("Done", timeout=SLOW_MS)
    assert target.read_text() == "written by a real agent\n"


async def test_files_and_commands_of_the_agent(scene: Scene, open_page: OpenPage) -> None:
    hub, rigs = scene
    rig = rigs["Claude Code"]
    project = hub.root / "shouting"  # of its own: the other tests' agents need no such command
    commands = project / ".claude" / "commands"
    commands.mkdir(parents=True)
    (commands / "shout.md").write_text("Say this as loud as you can: $ARGUMENTS\n")
    rig.model.reset()
    rig.play([Say("A dot, and a function.")], [Say("Is that loud enough?")])
    session = await hub.session("claude-code", cwd=str(project), policy="full")  # a repository's own count there
    page = await open_page(hub, path=f"/s/{session}")
    thread = page.get_by_role("log", name="Conversation")
    box = page.get_by_label("Message", exact=True)
    files: list[FilePayload] = [
        {"name": "main.rs", "mimeType": "", "buffer": b"fn a_function_of_mine() {}"},
        {"name": "dot.png", "mimeType": "image/png", "buffer": DOT},
    ]
    await page.locator(".composer input[type=file]").set_input_files(files)
    await expect(page.get_by_role("button", name="Remove dot.png")).to_be_visible()
    await box.fill("What are these?")
    await page.get_by_role("button", name="Send").click()
    await expect(thread.get_by_text("A dot, and a function.")).to_be_visible(timeout=SLOW_MS)
    heard = rig.heard()
    assert "fn a_function_of_mine() {}" in heard
    assert b64encode(DOT).decode() in heard
    await expect(thread.locator(".turn-end")).to_have_count(1, timeout=SLOW_MS)
    await box.fill("/sho")
    await page.get_by_label("Commands of the agent").get_by_role("button", name="/shout").click()
    await expect(box).to_have_value("/shout ")
    await box.press_sequentially("hello there")
    await page.get_by_role("button", name="Send").click()
    await expect(thread.get_by_text("Is that loud enough?")).to_be_visible(timeout=SLOW_MS)
    assert "Say this as loud as you can: hello there" in rig.heard()


async def test_steer_in_the_middle_of_a_turn(scene: Scene, open_page: OpenPage) -> None:
    hub, rigs = scene
    rig = rigs["Codex"]
    rig.model.reset()
    rig.play([Run("until [ -e go ]; do sleep 0.1; done")], [Say("As you say: blue.")])
    session = await hub.session("codex", prompt="choose a colour", policy="full")
    page = await open_page(hub, path=f"/s/{session}")
    thread = page.get_by_role("log", name="Conversation")
    await expect(thread.get_by_role("img", name="Running")).to_be_visible(timeout=SLOW_MS)
    await page.get_by_label("Message", exact=True).fill("take the blue one")
    await page.get_by_role("button", name=re.compile("Steer")).click()
    await expect(page.get_by_label("Waiting prompts")).to_have_count(0)
    (hub.repository / "go").touch()
    await expect(thread.get_by_text("As you say: blue.")).to_be_visible(timeout=SLOW_MS)
    await eventually(lambda: "take the blue one" in rig.heard(), "the model was not told what was steered")
    (hub.repository / "go").unlink()
