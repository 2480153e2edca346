"""The 27 policies, held against what really happened: on disk and at a loopback web server, not in the stream alone.

In one turn the agent's model tries to write a file, run a command and fetch a page; in a turn each, where a denial ends
the agent's turn. Asks are answered with yes. Then for each capability: `allow` happened unasked, `ask` was asked and
happened, `deny` did not happen. Where the receipt says that nothing enforces a line, the suite expects just that:
declared = observed, drift fails either way. An `ask` by anything but a prompt is one that the agent cannot put: it must
not happen at all. A shell that is allowed in a sandbox runs, but writes no file where file_write is not allowed.

Network is judged by what arrived at the web server. The command that runs fetches a page of its own there: it arrives
where the network is allowed, never out of a sandbox that holds the network, and elsewhere only if the receipt says that
a command can.
"""

import shlex
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ..api import open_session
from ..events import Ask, Event, ToolResult, ToolUse, needs
from ..policy import CAPABILITIES, Capability, Policy, every_policy
from ..script import AnyStep, Get, Run, Say, Write
from .http_server import HttpRequest, LoopbackServer
from .rig import Rig
from .stream_checks import collect, done, of


def name_of(policy: Policy) -> str:
    return "-".join(policy.level(capability) for capability in CAPABILITIES)


class PolicyContract:
    POLICIES: tuple[Policy, ...] = tuple(every_policy())
    """Which ones: all of them, but for a second way to an agent that is held to all of them already."""

    @pytest.fixture
    async def rig(self, tmp_path: Path) -> Rig:
        raise NotImplementedError("a subclass gives its rig")

    @pytest.fixture
    async def web(self) -> AsyncGenerator["Web", None]:
        async with loopback_web() as web:
            yield web

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "policy" in metafunc.fixturenames:
            metafunc.parametrize("policy", self.POLICIES, ids=name_of)

    async def test_policy(self, rig: Rig, web: "Web", tmp_path: Path, policy: Policy) -> None:
        cwd = tmp_path / "place"
        cwd.mkdir()
        asked: list[Capability] = []

        def decide(ask: Ask) -> bool:
            assert ask.capability, f"an ask without its capability: {ask}"
            asked.append(ask.capability)
            return True

        tries: list[AnyStep] = [
            Write(str(cwd / "written.txt"), "content\n"),
            Run(f"{fetch_command(web.command_url)}; touch {cwd}/ran.txt"),
        ]
        if fetches := "fetch" not in rig.limits:
            tries.append(Get(web.url))
        ends_turn = "goes_on_when_denied" in rig.limits
        seen: list[Event] = []
        options: dict[str, Any] = {**rig.options, "accept_unenforced": True}
        async with open_session(rig.driver, cwd=cwd, policy=policy, on_ask=decide, **options) as session:
            receipt = session.receipt
            for turn in [[step] for step in tries] if ends_turn else [tries]:
                rig.play(*([step] for step in turn), *([] if ends_turn else [[Say("Tried all three.")]]))
                events = await collect(session.turn("try"))
                refused = any(result.status == "denied" for result in of(events, ToolResult))
                expected = "error" if ends_turn and refused else "success"
                assert done(events).status == expected, done(events)
                seen += events

        sandboxed = receipt.shell.means == "sandbox" and policy.file_write != "allow"
        assert not (sandboxed and (cwd / "ran.txt").exists()), "the sandbox let a command write"
        happened: dict[Capability, bool] = {
            "file_write": (cwd / "written.txt").exists(),
            "shell": (cwd / "ran.txt").exists() or stopped_by_the_system(seen),
            "network": web.fetched,
        }
        problems: list[str] = []
        for capability in CAPABILITIES if fetches else CAPABILITIES[:2]:
            line = receipt.of(capability)
            if line.means == "none":
                expected = (True, False)
            elif line.level == "ask" and line.means != "prompt":
                expected = (False, False)
            else:
                expected = {"allow": (True, False), "ask": (True, True), "deny": (False, False)}[line.level]
            observed = (happened[capability], capability in asked)
            if observed != expected:
                problems.append(
                    f"{capability}={line.level} by {line.means}: (happened, asked) should be {expected}, was {observed}"
                )
        if web.command_fetched and not happened["shell"]:
            problems.append("a command that did not run fetched a page")
        if web.command_fetched and receipt.network.means == "sandbox":
            problems.append("the sandbox let a command fetch a page")
        if web.command_fetched and policy.network != "allow" and "command" not in receipt.network.note.lower():
            problems.append("a command fetched a page, and the receipt does not say that it can")
        if happened["shell"] and policy.network == "allow" and not web.command_fetched:
            problems.append("the network is allowed, and a command that ran could not fetch a page")
        assert not problems, "\n".join([*problems, *(f"  {event}" for event in seen)])
        denied = {result.id for result in of(seen, ToolResult) if result.status == "denied"}
        for use in of(seen, ToolUse):
            capability = needs(use.action)
            if capability and not happened[capability]:
                assert use.id in denied, f"the refusal of {use} is not visible as such"


class Web:
    """Two pages that know whether somebody came: one for the agent's fetch tool, one for its command."""

    def __init__(self) -> None:
        self.server = LoopbackServer(self._answer)
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"{self.server.url}/page"

    @property
    def command_url(self) -> str:
        return f"{self.server.url}/command"

    @property
    def fetched(self) -> bool:
        """Whether the fetch tool came. A TLS handshake counts: some tools make every http address an https one."""
        return "/page" in self.requests or self.server.tls_hellos > 0

    @property
    def command_fetched(self) -> bool:
        return "/command" in self.requests

    async def _answer(self, request: HttpRequest) -> None:
        self.requests.append(request.path)
        await request.respond(200, b"<html><body>the page</body></html>", "text/html")


def fetch_command(url: str) -> str:
    """A command that fetches a page with nothing but Python, and tells when it cannot."""
    address = urlsplit(url)
    connection = f'socket.create_connection(("{address.hostname}", {address.port}), 10)'
    request = f'b"GET {address.path} HTTP/1.1\\r\\nHost: {address.netloc}\\r\\n\\r\\n"'
    code = f"import socket; page = {connection}; page.sendall({request}); assert page.recv(1)"
    return shlex.join([sys.executable, "-I", "-S", "-c", code])


def stopped_by_the_system(seen: list[Event]) -> bool:
    """Whether the command ran, and the operating system kept it from writing."""
    commands = {use.id for use in of(seen, ToolUse) if needs(use.action) == "shell"}
    results = [result for result in of(seen, ToolResult) if result.id in commands]
    return any(result.status == "error" and "Read-only file system" in result.output for result in results)


@asynccontextmanager
async def loopback_web() -> AsyncGenerator[Web, None]:
    web = Web()
    async with web.server:
        yield web
