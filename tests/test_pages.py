"""The README and the tutorial, run from their first command to their last on machines of their own."""

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.console_page import WAIT_S, ConsolePage

from tieline.client import connect
from tieline.testing.rig import scratch_env

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent


@contextmanager
def played(page: ConsolePage) -> Generator[ConsolePage]:
    try:
        page.run()
        yield page
    finally:
        page.close()


class Phone:
    """A browser on a phone, as the hub knows it: it signs in by the link, and answers over HTTP."""

    def __init__(self) -> None:
        self._http = httpx2.Client(timeout=WAIT_S)
        self._url = ""

    def __enter__(self) -> "Phone":
        return self

    def __exit__(self, *exit: object) -> None:
        self._http.close()

    def sign_in(self, page: ConsolePage) -> None:
        self._url, _, secret = page.find(r"http://\S+/#login=[\w-]+").partition("/#login=")
        response = self._http.post(f"{self._url}/api/v1/login", json={"secret": secret}, headers={"Origin": self._url})
        assert response.status_code == 200, response.text
        self._http.headers["Authorization"] = f"Bearer {response.json()['key']}"

    def allow_everything(self, page: ConsolePage) -> None:
        """Until the turn is over."""
        deadline = time.monotonic() + WAIT_S
        allowed = 0
        while True:
            for ask in self._get("asks?status=pending"):
                answers = {each["id"]: [each["choices"][0]["label"]] for each in ask["ask"].get("questions", ())}
                body = {"decision": "allow", "digest": ask["digest"], "answers": answers}
                response = self._http.post(f"{self._url}/api/v1/asks/{ask['id']}/answer", json=body)
                assert response.status_code == 200, response.text
                allowed += 1
            sessions = self._get("sessions")
            if allowed and all(session["status"] == "idle" for session in sessions):
                return
            assert time.monotonic() < deadline, sessions
            time.sleep(0.1)

    def _get(self, path: str) -> list[dict[str, Any]]:
        response = self._http.get(f"{self._url}/api/v1/{path}")
        assert response.status_code == 200, response.text
        return response.json()


def laptop_online(page: ConsolePage) -> None:
    async def names() -> list[str]:
        async with connect(page.machine("")) as client:
            return [node.name for node in await client.nodes() if node.online]

    deadline = time.monotonic() + WAIT_S
    while "laptop" not in (online := asyncio.run(names())):
        assert time.monotonic() < deadline, online
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.timeout(600)  # some thirty commands, one after the other
def test_the_tutorial_is_true(tmp_path: Path) -> None:
    with Phone() as phone:
        actions = {
            "phone: sign in": phone.sign_in,
            "phone: allow everything": phone.allow_everything,
            "wait: laptop online": laptop_online,
        }
        with played(ConsolePage(ROOT / "docs/tutorial.md", tmp_path, actions)) as page:
            assert page.ran > 12


README = """
[agents.codex]
type = "scripted"
[agents.claude-code]
type = "scripted"
[agents.gemini]
type = "scripted"
[agents.parrot]
type = "shell"
command = ["echo", "{prompt}"]
[[channels]]
id = "agents"
type = "agent"
[channels.config.projects.website]
cwd = "/tmp"
agent = "parrot"
policy = "full"
"""


@pytest.mark.slow
@pytest.mark.timeout(600)  # some thirty commands, one after the other
def test_the_readme_is_true(tmp_path: Path) -> None:
    """The agents are scripts under the real ones' names: no key is needed."""
    page = ConsolePage(ROOT / "README.md", tmp_path, {})
    file = page.config(Path(page.machine("")["HOME"]))
    file.write_text(file.read_text() + README)
    with played(page):
        assert page.ran > 12


@pytest.mark.slow
def test_make_up_starts_the_hub(tmp_path: Path) -> None:
    """The README's first command. `make wheel` and `uvx` are run by packaging/test_wheel.py."""
    (tmp_path / "tieline.toml").write_text("[hub]\nport = 0\n")
    env = scratch_env(tmp_path / "home", path="/usr/bin:/bin", TIELINE_CONFIG=str(tmp_path / "tieline.toml"))
    make = ["make", "-s", "-o", "setup", "up", f"BIN={BIN}"]
    try:
        up = subprocess.run(make, cwd=ROOT, env=env, capture_output=True, text=True, timeout=WAIT_S)
        assert up.returncode == 0, up.stdout + up.stderr
        assert "Tieline is at http://127.0.0.1:" in up.stdout and "/#login=" in up.stdout
        assert f". {BIN}/activate" in up.stdout, "it says how this shell finds `tieline`"
    finally:
        subprocess.run([BIN / "tieline", "down"], env=env, check=True, capture_output=True, timeout=WAIT_S)


def test_the_readme_names_targets_of_make() -> None:
    named = re.findall(r"^make ([a-z-]+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert {"up", "test", "wheel"} <= set(named)
    for target in named:
        subprocess.run(["make", "-n", target], cwd=ROOT, check=True, capture_output=True, timeout=WAIT_S)


def test_a_page_that_says_something_untrue_is_seen(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.md"
    for text, problem in [
        ("```console\n$ echo one\ntwo\n```\n", "prints"),
        ("```console\n$ false\n```\n", "false"),
        ("```console no-run\n$ true\n```\n", "not run"),
        ("```console\n$ echo #pair=…\n```\n", "no command printed"),
    ]:
        wrong.write_text(text)
        with pytest.raises(AssertionError, match=problem):
            ConsolePage(wrong, tmp_path / problem, {}).run()
    wrong.write_text("```console\n$ echo 'key=4f-2 x'\nkey=… x\n$ test key=… = key=4f-2\n```\n")
    ConsolePage(wrong, tmp_path / "right", {}).run()
