"""The ACP driver against an agent made with the protocol's official library, and against agents that are broken."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tieline.api import open_session
from tieline.drivers.acp import driver as acp
from tieline.drivers.acp.handshake import offered_models
from tieline.drivers.base import Attachment, Emit, McpServer, Prompt, Spec
from tieline.errors import AgentMissing, AgentStartFailed, Unsupported
from tieline.events import (
    Answer,
    Ask,
    Command,
    Diff,
    Edit,
    Error,
    Event,
    Fetch,
    Other,
    Plan,
    Remember,
    Status,
    Text,
    Thinking,
    ToolOutput,
    ToolResult,
    ToolUse,
    Warning,
)
from tieline.policy import Policy
from tieline.sessions.session import Session
from tieline.testing.driver_contract import eventually
from tieline.testing.rig import scratch_env
from tieline.testing.stream_checks import collect, done, of, the

AGENT = Path(__file__).with_name("acp_agent.py")
ASKS = ["file_write", "shell", "network"]


def yes(ask: Ask) -> bool:
    return True


def no(ask: Ask) -> bool:
    return False


class Bench:
    def __init__(self, folder: Path) -> None:
        self.cwd = folder / "place"
        self.cwd.mkdir()
        self.env = scratch_env(folder / "home", path="/usr/bin:/bin")

    def driver(self, command: list[str] | None = None, **options: Any) -> acp.Acp:
        command = command or [sys.executable, str(AGENT)]
        can = {"model": True, "resume": True, "fork": True, "usage": True, "attachments": ["*/*"]}
        traits = {"usage": "turn", "denial": "told"}
        return acp.create("peer", {"command": command, "asks": ASKS, "can": can, "traits": traits, **options})

    def session(self, *, env: dict[str, str] | None = None, driver: acp.Acp | None = None, **options: Any) -> Session:
        options = {"policy": "ask", **options}
        return open_session(driver or self.driver(), cwd=self.cwd, env={**self.env, **(env or {})}, **options)

    async def turn(self, prompt: str | Prompt, **options: Any) -> list[Event]:
        async with self.session(**options) as session:
            return await collect(session.turn(prompt))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncGenerator[Bench, None]:
    yield Bench(tmp_path)


MODELS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({}, ()),
    ({"configOptions": [{"category": "mode", "options": [{"value": "plan"}]}]}, ()),
    (
        {"configOptions": [{"category": "model", "options": [{"value": "a"}, {"value": "b"}, {"value": "a"}]}]},
        ("a", "b"),
    ),
    (
        {
            "configOptions": [
                {"category": "model", "options": [{"group": "x", "options": [{"value": "a"}]}, {"value": "b"}]}
            ]
        },
        ("a", "b"),
    ),
    ({"models": {"currentModelId": "a", "availableModels": [{"modelId": "a"}, {"modelId": "b"}]}}, ("a", "b")),
    ({"configOptions": [{"category": "model", "options": ["a", None, {"options": 3, "value": "b"}]}]}, ("b",)),
    ({"configOptions": [{"category": "model", "options": "a"}]}, ()),
    ({"models": ["a"]}, ()),
    ({"models": {"availableModels": [{"modelId": 7}, {"modelId": ""}, {"modelId": "x" * 201}, {}]}}, ()),
    ({"models": {"availableModels": [{"modelId": str(number)} for number in range(500)]}}, tuple(map(str, range(200)))),
]


@pytest.mark.parametrize(("session", "names"), MODELS)
def test_models_are_taken_from_what_a_session_says(session: dict[str, Any], names: tuple[str, ...]) -> None:
    assert offered_models(session).names == names


class TestPeer:
    @pytest.mark.slow
    async def test_the_models_it_offers_are_known_once_it_ran(self, bench: Bench) -> None:
        driver = bench.driver()
        assert driver.offered_models.names == ()
        async with bench.session(driver=driver):
            assert driver.offered_models.names == ("small", "large")
        async with bench.session(driver=driver, resume="peer-1"):  # which says nothing of them
            assert driver.offered_models.names == ("small", "large")

    @pytest.mark.slow
    async def test_story(self, bench: Bench) -> None:
        seen = await bench.turn("story")
        assert the(seen, Thinking).text == "Let me think."
        assert the(seen, Text).text == "One. Two."
        assert [(step.text, step.status) for step in the(seen, Plan).steps] == [
            ("Look", "done"),
            ("Go", "running"),
            ("Rest", "pending"),
        ]
        assert {(status.state, status.detail) for status in of(seen, Status)} == {
            ("context", "10 of 100 tokens"),
            ("mode", "careful"),
            ("title", "A story"),
        }
        tokens = done(seen).tokens
        assert tokens is not None
        assert (tokens.input, tokens.output, tokens.reasoning, tokens.cache_read, tokens.cache_write) == (5, 4, 1, 2, 3)
        assert tokens.cost_usd == 0.25
        assert done(seen).usage == "complete"

    @pytest.mark.slow
    async def test_tools(self, bench: Bench) -> None:
        seen = await bench.turn(f"tools {bench.cwd}/a.txt")
        edit, _, command, fetch = of(seen, ToolUse)
        assert isinstance(edit.action, Edit)
        assert edit.action.paths == (f"{bench.cwd}/a.txt",)
        assert "-two\n+2\n" in edit.action.diff
        assert command.action == Command("make all")
        assert fetch.action == Fetch("http://x.test/")
        assert "".join(output.text for output in of(seen, ToolOutput)) == "a\nb\n"
        results = {result.id: (result.status, result.output) for result in of(seen, ToolResult)}
        assert results["t1"] == ("ok", "")
        assert results["t3"] == ("error", "a\nb\n")
        assert results["t4"][0] == "error", "it never ended"
        last = of(seen, Diff)[-1]
        assert last.paths == ("a.txt",)
        assert "-two\n-three\n+2\n+3\n" in last.diff, "the turn's changes, not the last call's"

    @pytest.mark.slow
    async def test_options(self, bench: Bench) -> None:
        every = "allow_always allow_once reject_once reject_always"
        cases: list[tuple[Any, Remember, str, str]] = [
            ("allow", "once", every, "o-allow_once"),
            ("allow", "always", every, "o-allow_always"),
            ("allow", "session", "allow_always allow_once", "o-allow_once"),
            ("allow", "always", "allow_always reject_once", "o-allow_always"),
            ("allow", "once", "allow_always reject_once", "o-allow_always"),
            ("deny", "once", every, "o-reject_once"),
            ("deny", "always", every, "o-reject_always"),
            ("deny", "once", "allow_once", "cancelled"),
            ("deny", "once", "allow_once reject_always", "cancelled"),
        ]
        async with bench.session() as session:
            for number, (decision, remember, offered, chosen) in enumerate(cases):
                answer = Answer("", decision, by="caller", remember=remember)
                session.on_ask = lambda ask, answer=answer: replace(answer, ask=ask.id, tool=ask.tool)
                seen = await collect(session.turn(f"permit t{number} rm-{number} {offered}"))
                assert done(seen).text == chosen, (decision, remember, offered)
                ask = the(seen, Ask)
                assert (ask.tool, ask.capability) == (f"t{number}", "shell")
                assert ask.action == Command(f"rm-{number}")
                assert ask.remember == (("session", "always") if "allow_always" in offered else ("session",))
                assert ("has no “allow once”" in ask.reason) == ask.wider == ("allow_once" not in offered)
                if "allow_always" in offered:
                    assert "allow_always" in ask.scopes["always"], "the agent's own name of it"
                call = the(seen, ToolUse)
                assert seen.index(call) < seen.index(ask), "the call first shows up in the request for permission"
                assert the(seen, ToolResult).status == ("denied" if decision == "deny" else "error")

    @pytest.mark.slow
    async def test_a_denial_that_is_ignored_is_told(self, bench: Bench) -> None:
        seen = await bench.turn("ignore", policy=Policy("allow", "deny", "allow"))
        assert the(seen, ToolResult).status == "denied"
        assert "reports that it ran" in the(seen, Warning).message

    @pytest.mark.slow
    async def test_proposed_plan(self, bench: Bench) -> None:
        seen = await bench.turn("propose", on_ask=yes)
        assert the(seen, Ask).kind == "plan"
        assert the(seen, Ask).plan == "1. Look\n2. Change"

    @pytest.mark.slow
    async def test_question(self, bench: Bench) -> None:
        def decide(ask: Ask) -> Answer:
            colour, sure, count = ask.questions
            assert (colour.text, [choice.label for choice in colour.choices]) == ("Which colour?", ["red", "blue"])
            answers = {colour.id: ("blue",), sure.id: ("Yes",), count.id: ("3",)}
            return Answer(ask.id, "allow", by="caller", answers=answers)

        seen = await bench.turn("question", on_ask=decide)
        answer = json.loads(done(seen).text)
        assert answer["action"] == "accept"
        assert "blue" in str(answer["content"])
        assert "3" in str(answer["content"])
        assert "True" in str(answer["content"]) or "true" in str(answer["content"])
        refused = await bench.turn("question", on_ask=no)
        assert json.loads(done(refused).text)["action"] == "decline"

    @pytest.mark.slow
    async def test_what_we_do_not_offer(self, bench: Bench) -> None:
        """Every request gets an answer, and is kept."""
        seen = await bench.turn(f"beyond {bench.cwd}/x")
        assert done(seen).text == "-32601 -32601 -32601 -32601"
        assert [other.source for other in of(seen, Other)] == [
            "fs/read_text_file",
            "fs/write_text_file",
            "terminal/create",
            "_vendor/thing",
        ]
        assert not (bench.cwd / "x").exists()

    @pytest.mark.slow
    async def test_odd_messages_are_kept(self, bench: Bench) -> None:
        seen = await bench.turn("odd")
        others = of(seen, Other)
        assert {"sessionUpdate": "from_the_future", "more": [1, 2]} in [other.raw for other in others]
        assert any('"plan"' in str(other.raw) for other in others), "of a known kind, in a shape we do not know"
        assert any("image/png" in str(other.raw) for other in others)
        assert any(other.source == "_vendor/note" for other in others)
        assert any(other.raw == "not a message" for other in others)
        assert done(seen).text == "odd"

    @pytest.mark.slow
    async def test_stop_reasons(self, bench: Bench) -> None:
        """An end without any answer is no success."""
        ends = {"max_tokens": "error", "max_turn_requests": "max_turns", "refusal": "error", "end_turn": "error"}
        async with bench.session() as session:
            for reason, status in ends.items():
                seen = await collect(session.turn(f"stop {reason}"))
                assert done(seen).status == status
                assert bool(done(seen).error) == (status == "error")

    @pytest.mark.slow
    async def test_error_with_details(self, bench: Bench) -> None:
        seen = await bench.turn("error")
        assert the(seen, Error).message == "Internal error: the disk is full"
        assert done(seen).status == "error"

    @pytest.mark.slow
    async def test_interrupt(self, bench: Bench) -> None:
        async with bench.session() as session:
            seen: list[Event] = []
            async for event in session.turn("wait"):
                seen.append(event)
                if event.type == "text_delta":
                    await session.interrupt()
            assert seen[-1].type == "done"
            assert done(seen).status == "interrupted"
            again = await collect(session.turn("story"))
            assert done(again).status == "success"

    @pytest.mark.slow
    async def test_interrupt_withdraws_an_ask(self, bench: Bench) -> None:
        """The agent is told that its request is cancelled, as the protocol wants it."""
        asked = asyncio.Event()

        async def decide(ask: Ask) -> bool:
            asked.set()
            await asyncio.Event().wait()
            return True

        async with bench.session(on_ask=decide) as session:

            async def stop() -> None:
                await asked.wait()
                await session.interrupt()

            stopping = asyncio.create_task(stop())
            seen = await collect(session.turn("permit t7 rm allow_once reject_once"))
            await stopping
        assert done(seen).status == "interrupted"
        assert done(seen).text == "cancelled"
        assert the(seen, ToolResult).status == "denied"
        assert the(seen, Answer).decision == "deny"

    @pytest.mark.slow
    async def test_what_comes_between_turns_is_told_in_the_next(self, bench: Bench) -> None:
        async def nobody(ask: Ask, emit: Emit) -> Answer:
            raise AssertionError("nothing is asked")

        spec = Spec(cwd=str(bench.cwd), env=bench.env)
        async with bench.driver().open(spec, nobody) as talk:
            await collect(talk.turn(Prompt("later")))
            await eventually(lambda: talk.updates_seen == 5, "what comes late never came")
            seen = await collect(talk.turn(Prompt("story")))
        assert Status("title", "Told late") in seen
        kept = [other.raw for other in of(seen, Other)]
        assert kept == [{"sessionUpdate": "from_the_future"}, {"sessionUpdate": "usage_update"}]
        assert "too late" not in [text.text for text in of(seen, Text)]

    @pytest.mark.slow
    async def test_resume_swallows_the_history(self, bench: Bench) -> None:
        async with bench.session(resume="peer-7") as session:
            assert session.native_id == "peer-7"
            seen = await collect(session.turn("story"))
        assert the(seen, Text).text == "One. Two."

    @pytest.mark.slow
    async def test_fork(self, bench: Bench) -> None:
        async with bench.session(resume="peer-7", fork=True) as session:
            assert session.native_id == "peer-7-copy"

    @pytest.mark.slow
    async def test_options_reach_the_agent(self, bench: Bench) -> None:
        servers = {
            "local": McpServer(command=("serve", "--fast"), env={"KEY": "value"}),
            "far": McpServer(url="http://127.0.0.1:1/mcp", headers={"X": "y"}),
        }
        driver = bench.driver(mode="careful")
        seen = await bench.turn("seen", driver=driver, model="large", mcp_servers=servers)
        report = json.loads(done(seen).text)
        assert report["client"] == "tieline"
        assert report["fs"] is False
        assert report["which"] == "large"
        assert report["mode"] == "careful"
        local, far = report["servers"]
        assert (local["command"], local["args"], local["env"]) == (
            "serve",
            ["--fast"],
            [{"name": "KEY", "value": "value"}],
        )
        assert (far["url"], far["headers"]) == ("http://127.0.0.1:1/mcp", [{"name": "X", "value": "y"}])

    @pytest.mark.slow
    async def test_content_of_a_prompt(self, bench: Bench) -> None:
        (bench.cwd / "notes.txt").write_text("some notes")
        attachments = (
            Attachment(data=b"\x89PNG", media_type="image/png"),
            Attachment(path=str(bench.cwd / "notes.txt"), media_type="text/plain"),
            Attachment(data=b"%PDF", media_type="application/pdf", name="a.pdf"),
        )
        seen = await bench.turn(Prompt("content", attachments), system="Be brief.")
        text, image, notes, pdf = json.loads(done(seen).text)
        assert text["text"] == "[SYSTEM]\nBe brief.\n\n[MESSAGE]\ncontent"
        assert (image["type"], image["mimeType"]) == ("image", "image/png")
        assert notes["resource"]["text"] == "some notes"
        assert notes["resource"]["uri"].endswith("notes.txt")
        assert pdf["resource"]["blob"] == "JVBERg=="

    @pytest.mark.slow
    async def test_what_this_version_does_not_offer_is_refused(self, bench: Bench) -> None:
        """The preset declares it, `initialize` does not: then it is refused where it is asked for."""
        bare = {"PEER_BARE": "1"}
        with pytest.raises(Unsupported, match="resume"):
            await bench.turn("story", env=bare, resume="x")
        with pytest.raises(Unsupported, match="fork"):
            await bench.turn("story", env=bare, resume="x", fork=True)
        with pytest.raises(Unsupported, match="URL"):
            await bench.turn("story", env=bare, mcp_servers={"far": McpServer(url="http://127.0.0.1:1/")})
        async with bench.session(env=bare) as session:
            seen = await collect(session.turn("story"))
            assert done(seen).status == "success"
            with pytest.raises(Unsupported, match="image/png"):
                await collect(session.turn(Prompt("x", (Attachment(data=b"x", media_type="image/png"),))))
            assert done(await collect(session.turn("story"))).status == "success"

    @pytest.mark.slow
    async def test_another_version_of_the_protocol(self, bench: Bench) -> None:
        with pytest.raises(AgentStartFailed, match="version 2 of ACP"):
            await bench.turn("story", env={"PEER_VERSION": "2"})

    @pytest.mark.slow
    async def test_signed_out(self, bench: Bench) -> None:
        with pytest.raises(AgentStartFailed, match="not signed in"):
            await bench.turn("story", env={"PEER_SIGNED_OUT": "1"})


class TestBroken:
    async def test_missing(self, bench: Bench) -> None:
        driver = acp.create("gemini", {"preset": "gemini", "command": ["/nowhere/gemini"]})
        with pytest.raises(AgentMissing, match="npm install -g @google/gemini-cli"):
            await bench.turn("hello", driver=driver)
        probe = await driver.probe(bench.env)
        assert not probe.found
        assert "npm install" in probe.hint

    async def test_exits_at_once(self, bench: Bench) -> None:
        driver = bench.driver(["/bin/sh", "-c", "echo no licence >&2; exit 7"])
        with pytest.raises(AgentStartFailed, match=r"status 7\n.*no licence"):
            await bench.turn("hello", driver=driver)

    async def test_exits_while_a_child_holds_its_output(self, bench: Bench) -> None:
        driver = bench.driver(["/bin/sh", "-c", "sleep 300 & exit 7"])
        with pytest.raises(AgentStartFailed, match="status 7"):
            await bench.turn("hello", driver=driver)

    async def test_prints_garbage_and_ends(self, bench: Bench) -> None:
        driver = bench.driver(["/bin/sh", "-c", "echo Welcome to the agent; echo '[1, 2]'"])
        with pytest.raises(AgentStartFailed, match="Welcome to the agent"):
            await bench.turn("hello", driver=driver)

    @pytest.mark.slow
    async def test_prints_garbage_and_stays(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(acp, "START_S", 0.5)
        driver = bench.driver(["/bin/sh", "-c", "echo What is your name?; exec sleep 300"])
        with pytest.raises(AgentStartFailed, match=r"within 0.5 s\n.*What is your name"):
            await bench.turn("hello", driver=driver)

    async def test_answers_nonsense(self, bench: Bench) -> None:
        answer = '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"one"}}'
        driver = bench.driver(["/bin/sh", "-c", f"read line; echo '{answer}'; exec cat >/dev/null"])
        with pytest.raises(AgentStartFailed, match="invalid response"):
            await bench.turn("hello", driver=driver)

    async def test_dies_in_the_middle(self, bench: Bench) -> None:
        script = """
import json, sys
for line in sys.stdin:
    call = json.loads(line)
    result = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}.get(call["method"])
    if result is None:
        sys.exit("out of luck")
    print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}), flush=True)
"""
        async with bench.session(driver=bench.driver([sys.executable, "-c", script])) as session:
            seen = await collect(session.turn("hello"))
            assert done(seen).status == "error"
            assert "status 1" in done(seen).error
            assert "out of luck" in done(seen).error
            assert "resume='s'" in done(seen).error
            after = await collect(session.turn("are you there"))
            assert done(after).status == "error"
