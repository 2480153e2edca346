"""The parts of the Codex driver: its reading of recorded transcripts, its mapping, and broken programs."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tieline.api import open_session
from tieline.drivers.base import Prompt, Spec
from tieline.drivers.codex import server as codex_server
from tieline.drivers.codex.asks import parse_request
from tieline.drivers.codex.driver import Codex, create
from tieline.drivers.codex.events import CodexNormaliser
from tieline.drivers.codex.items import RawCall
from tieline.drivers.codex.launch import TARGETS, launch_command, machine
from tieline.drivers.codex.policy import controls, receipt
from tieline.drivers.codex.thread_params import CodexOptions, thread_params
from tieline.drivers.turn_stream import Turn
from tieline.errors import AgentMissing, AgentStartFailed, UsageError
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
    PlanStep,
    Text,
    TextDelta,
    Thinking,
    ToolResult,
    ToolUse,
    Usage,
    Warning,
)
from tieline.policy import CAPABILITIES, Policy, every_policy
from tieline.processes import spawn
from tieline.testing.policy_contract import name_of
from tieline.testing.rig import scratch_env
from tieline.testing.stream_checks import collect, done, of, the

TRANSCRIPTS = Path(__file__).parent / "codex"
DOCUMENT = Path(__file__).parent.parent.parent / "docs/drivers/codex.md"
FULL = Policy("allow", "allow", "allow")


def read(name: str) -> list[Event]:
    """The events of a recorded transcript, as the driver would make them of the messages of one thread."""
    seen: list[Event] = []
    threads: dict[str, CodexNormaliser] = {}

    def spawned(thread: str, tool: str) -> None:
        threads[thread] = CodexNormaliser(seen.append, meter=main.meter, parent=tool)

    main = CodexNormaliser(seen.append, spawned=spawned)
    for line in (TRANSCRIPTS / f"{name}.jsonl").read_bytes().splitlines():
        message = msgspec.json.decode(line, type=dict[str, Any])
        if "id" not in message:
            threads.get(message["params"].get("threadId"), main).feed(message["method"], message["params"])
    return seen


def test_work() -> None:
    seen = read("work")
    assert not of(seen, Other)
    assert the(seen, Thinking).text == "The project has no greeting."
    assert [text.text for text in of(seen, Text)] == ["I will write it.", "Done: it greets."]
    assert "".join(delta.text for delta in of(seen, TextDelta)) == "I will write it.Done: it greets."
    assert [plan.steps for plan in of(seen, Plan)] == [
        (PlanStep("Write", "running"), PlanStep("Run", "pending")),
        (PlanStep("Write", "done"), PlanStep("Run", "done")),
    ]
    patch, run, fail = of(seen, ToolUse)
    assert patch.action == Edit(
        ("/home/ada/project/greeting.sh",),
        "--- /dev/null\n+++ /home/ada/project/greeting.sh\n@@ -0,0 +1 @@\n+echo hello\n",
    )
    assert isinstance(run.action, Command)
    assert (run.action.command, fail.name) == ("sh greeting.sh", "exec_command")
    assert [(result.id, result.status, result.output) for result in of(seen, ToolResult)] == [
        (patch.id, "ok", ""),
        (run.id, "ok", "hello\n"),
        (fail.id, "error", "exit status 3"),
    ]
    (diff,) = of(seen, Diff)
    assert diff.paths == ("project/greeting.sh",)
    spent = [usage.tokens.output or 0 for usage in of(seen, Usage)]
    assert spent == sorted(spent), "tokens of the turn so far"
    assert len(spent) == 6


def test_calls_that_codex_hides_are_shown() -> None:
    patch, command = of(read("denied"), ToolUse)
    assert isinstance(patch.action, Edit) and isinstance(command.action, Command)
    statuses = {result.id: (result.status, result.output) for result in of(read("denied"), ToolResult)}
    assert statuses[patch.id] == ("denied", "")
    assert statuses[command.id] == ("denied", "unsupported call: exec_command")
    result = the(read("sandbox"), ToolResult)
    assert result.status == "error"
    assert "Read-only file system" in result.output


def test_subagent() -> None:
    seen = read("subagent")
    spawn, wait, command = of(seen, ToolUse)
    assert (spawn.name, spawn.parent, wait.parent, command.parent) == ("spawnAgent", "", "", spawn.id)
    assert [(text.text, text.parent) for text in of(seen, Text)] == [
        ("I am the child", spawn.id),
        ("child ran", spawn.id),
        ("all done", ""),
    ]


def test_errors() -> None:
    passing, last = of(read("failing"), Error)[:-1], of(read("failing"), Error)[-1]
    assert passing and all(error.recoverable for error in passing)
    assert not last.recoverable
    assert [error.recoverable for error in of(read("cut"), Error)] == [True]


async def test_a_transcript_makes_a_whole_turn() -> None:
    """Through a Turn, every call has its one result and every delta its item."""

    async def nobody(ask: Ask, emit: Any) -> Answer:
        raise AssertionError("nobody is asked")

    for name in ("work", "denied", "sandbox", "subagent", "failing", "cut"):
        turn = Turn(Prompt("main prompt"), nobody)
        for event in read(name):
            turn.emit(event)
        turn.done("success")
        await collect(turn)


def test_unknown_shapes_are_kept() -> None:
    seen: list[Event] = []
    normaliser = CodexNormaliser(seen.append)
    messages: list[tuple[str, dict[str, Any]]] = [
        ("item/somethingNew", {"threadId": "t"}),
        ("item/completed", {"item": {"type": "commandExecution", "id": "x"}}),
        ("item/completed", {"item": {"type": "somethingNew", "id": "x", "more": 1}}),
        ("turn/plan/updated", {"plan": [{"step": "a", "status": "abandoned"}]}),
        (
            "rawResponseItem/completed",
            {"item": {"type": "function_call", "name": "x", "call_id": "y", "arguments": "{"}},
        ),
    ]
    for method, params in messages:
        normaliser.feed(method, params)
    kept = [event.raw for event in of(seen, Other)]
    assert kept[0] == {"method": "item/somethingNew", "params": {"threadId": "t"}}
    assert kept[2] == {"type": "somethingNew", "id": "x", "more": 1}
    assert len(kept) == len(messages)


# --- the mapping -----------------------------------------------------------------------------------------------------


def row(policy: Policy) -> str:
    settings, got = controls(policy), receipt(policy)
    levels = " · ".join(policy.level(capability) for capability in CAPABILITIES)
    means = " · ".join(got.of(capability).means for capability in CAPABILITIES)
    network = "" if settings.sandbox == "danger-full-access" else " + network" if settings.network else ""
    shell = "yes" if settings.shell else "no"
    return (
        f"| {levels} | {settings.sandbox}{network} | {settings.approval} | {shell} | {settings.web_search} | {means} |"
    )


@pytest.mark.parametrize("policy", every_policy(), ids=name_of)
def test_the_document_has_the_mapping(policy: Policy) -> None:
    assert row(policy) in DOCUMENT.read_text().splitlines()


@pytest.mark.parametrize("policy", every_policy(), ids=name_of)
def test_the_receipt_says_what_a_command_can_still_do(policy: Policy) -> None:
    policy_receipt = receipt(policy)
    sandboxed = controls(policy).sandbox != "danger-full-access"
    notes = {capability: policy_receipt.of(capability).note for capability in CAPABILITIES}
    assert ("no command tool" in notes["shell"]) == (policy.shell == "deny")
    assert ("may run it again outside" in notes["shell"]) == (policy.shell == "ask" and sandboxed)
    assert ("rules/*.rules" in notes["shell"]) == (policy.shell == "ask" or (policy.shell == "allow" and sandboxed))
    assert ("Web search is off" in notes["network"]) == (policy.network != "allow")
    assert ("Commands have no network" in notes["network"]) == (policy.network != "allow" and policy.shell == "allow")
    asked = policy.shell == "ask"
    assert ("may run it again outside" in notes["network"]) == (asked and policy.network == "deny")
    assert ("somebody allows can do it too" in notes["network"]) == (asked and policy.network == "ask")
    assert ("rules/*.rules" in notes["network"]) == (policy.network != "allow" and policy.shell != "deny")
    assert ("somebody allows can do it too" in notes["file_write"]) == (asked and policy.file_write == "ask")
    assert ("read-only sandbox" in notes["file_write"]) == (policy.shell == "allow" and policy.file_write != "allow")
    if policy.shell == "deny":
        assert notes["file_write"] == ""


@pytest.mark.parametrize("policy", every_policy(), ids=name_of)
def test_a_turn_is_told_of_a_read_only_sandbox_with_network(policy: Policy) -> None:
    settings = controls(policy)
    read_only = {"type": "readOnly", "networkAccess": True}
    assert settings.turn_sandbox == (read_only if settings.sandbox == "read-only" and settings.network else None)


def test_thread_parameters() -> None:
    spec = Spec(cwd="/project", policy=Policy("deny", "deny", "deny"), model="m", effort="low", system="Be brief.")
    own = {"web_search": "live", "model_verbosity": "low", "features": {"shell_tool": True, "goals": False}}
    params = thread_params(spec, controls(spec.policy), own)
    assert params["approvalsReviewer"] == "user", "asks come to us, not to a model"
    assert (params["model"], params["developerInstructions"]) == ("m", "Be brief.")
    assert params["config"]["model_reasoning_effort"] == "low"
    assert params["config"]["model_verbosity"] == "low", "the agent's own options"
    assert params["config"]["features.goals"] is False
    assert params["config"]["web_search"] == "disabled", "which do not get past the policy"
    assert (params["config"]["features.shell_tool"], "features" in params["config"]) == (False, False)


def test_options() -> None:
    assert create("mine", {"command": ["codex", "--profile", "x"]}).options.command == ("codex", "--profile", "x")
    with pytest.raises(UsageError, match=r"agents\.mine.*colour"):
        create("mine", {"colour": "red"})


def test_an_elicitation_with_fields_is_a_question() -> None:
    fields = {
        "size": {"type": "string", "enum": ["S", "L"]},
        "count": {"type": "integer"},
        "gift": {"type": "boolean", "description": "Wrap it?"},
    }
    params = {"serverName": "shop", "message": "Which?", "requestedSchema": {"type": "object", "properties": fields}}
    request = parse_request("mcpServer/elicitation/request", params, CodexNormaliser(print), Policy())
    assert request is not None
    ask, respond = request
    assert [(question.id, question.free) for question in ask.questions] == [
        ("size", False),
        ("count", True),
        ("gift", False),
    ]
    answer = Answer(ask.id, "allow", answers={"size": ("L",), "count": ("2",), "gift": ("true",)})
    assert respond(answer) == {"action": "accept", "content": {"size": "L", "count": 2, "gift": True}}
    assert respond(Answer(ask.id, "deny"))["action"] == "decline"


def test_remembering_for_ever_is_not_offered_where_something_is_denied() -> None:
    """Codex would write a rule for that command that nothing of ours is asked about any more."""
    params = {"itemId": "x", "command": "ls", "proposedExecpolicyAmendment": ["ls"]}
    for policy, offered in ((Policy(), ("session", "always")), (Policy(network="deny"), ("session",))):
        request = parse_request("item/commandExecution/requestApproval", params, CodexNormaliser(print), policy)
        assert request is not None
        assert request[0].remember == offered


def test_remembering_a_connection_is_about_the_host() -> None:
    """Codex then lets every command reach that host, not this one alone."""
    context = {"host": "example.test", "protocol": "https"}
    params = {"itemId": "x", "command": "curl https://example.test/", "cwd": "/x", "networkApprovalContext": context}
    request = parse_request("item/commandExecution/requestApproval", params, CodexNormaliser(print), Policy())
    assert request is not None
    assert request[0].action == Fetch("https://example.test")
    assert request[0].scopes == {"session": "every command's connections to example.test by https, this session"}


# --- the program -----------------------------------------------------------------------------------------------------


def test_the_native_program_is_started_where_it_is_found(tmp_path: Path) -> None:
    script = tmp_path / "lib/node_modules/@openai/codex/bin/codex.js"
    script.parent.mkdir(parents=True)
    script.write_text("#!/usr/bin/env node\n")
    script.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/codex").symlink_to(script)
    env = {"PATH": str(tmp_path / "bin")}
    assert launch_command(env) == ([str(tmp_path / "bin/codex"), "app-server"], env)
    target = TARGETS[(sys.platform, machine())]
    native = script.parent.parent.parent / f"codex-{target[0]}" / "vendor" / target[1] / "bin/codex"
    native.parent.mkdir(parents=True)
    native.write_text("")
    native.chmod(0o755)
    argv, child_env = launch_command(env, ("codex", "--profile", "x"))
    assert argv == [str(native), "--profile", "x", "app-server"]
    assert child_env == {**env, "CODEX_MANAGED_BY_NPM": "1", "CODEX_MANAGED_PACKAGE_ROOT": str(script.parent.parent)}


def agent(tmp_path: Path, program: str) -> dict[str, Any]:
    """A program of one's own in Codex's place."""
    path = tmp_path / "agent.py"
    path.write_text(program)
    return {
        "agent": Codex(CodexOptions(command=(sys.executable, str(path)))),
        "env": scratch_env(tmp_path / "home", path="/bin"),
    }


async def test_missing(tmp_path: Path) -> None:
    driver = Codex(CodexOptions(command=("no-such-codex",)))
    probe = await driver.probe({"PATH": "/bin"})
    assert (probe.found, "npm install" in probe.hint) == (False, True)
    with pytest.raises(AgentMissing, match=r"no-such-codex(?s:.)*npm install"):
        async with open_session(driver, cwd=tmp_path, env={"PATH": "/bin"}):
            pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("import sys; sys.exit('no home')", r"exited with status 1(?s:.)*no home"),
        ("while True: print('What is your name?')", "invalid protocol message: 'What is your name"),
        ("print('hello')", "exited with status 0.*hello"),
        ("import os; os.close(1); input(); input(); input()", "closed its output|exited"),
        (
            'print(\'{"id":1,"error":{"code":-1,"message":"not today"}}\', flush=True); input(); input(); input()',
            "not today",
        ),
    ],
    ids=["exits", "garbage", "hello", "silent", "refuses"],
)
async def test_it_does_not_come_up(tmp_path: Path, program: str, problem: str) -> None:
    before, began = spawn.live(), time.monotonic()
    with pytest.raises(AgentStartFailed, match=problem):
        async with open_session(cwd=tmp_path, **agent(tmp_path, program)):
            pass
    assert time.monotonic() - began < 15, "at once, not when the time is up"
    assert spawn.live() == before


async def test_it_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codex_server, "START_S", 0.3)
    with pytest.raises(AgentStartFailed, match="no answer within"):
        async with open_session(cwd=tmp_path, **agent(tmp_path, "import sys\nfor line in sys.stdin: pass")):
            pass


STRANGE = """
import json, sys
def tell(**message):
    print(json.dumps(message), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            tell(id=message["id"], result={})
        case "thread/start":
            tell(id=message["id"], result={"thread": {"id": "t"}, "model": "m"})
        case "turn/start":
            tell(id=message["id"], result={"turn": {"id": "u"}})
            tell(method="turn/started", params={"threadId": "t", "turn": {"id": "u"}})
            print("What is this?", flush=True)
            tell(method="thread/dreamt", params={"threadId": "t", "of": "sheep"})
            tell(method="weather/changed", params={"to": "rain"})
            tell(id="q", method="item/dream/requestInterpretation", params={"threadId": "t", "dream": "sheep"})
            tell(id="r", method="item/fileChange/requestApproval", params={"threadId": "other"})
        case None if message["id"] == "r":
            assert "error" in message
        case None:
            status = "completed" if message["error"]["code"] == -32601 else "failed"
            tell(method="turn/completed", params={"threadId": "t", "turn": {"id": "u", "status": status}})
"""


async def test_strange_messages_are_kept_and_answered(tmp_path: Path) -> None:
    async with open_session(cwd=tmp_path, policy=FULL, **agent(tmp_path, STRANGE)) as session:
        seen = await collect(session.turn("hello"))
    assert done(seen).status == "success"
    assert done(seen).usage == "unknown"
    kept = [event.raw for event in of(seen, Other)]
    assert "What is this?" in kept
    assert {"method": "thread/dreamt", "params": {"threadId": "t", "of": "sheep"}} in kept
    assert {"method": "weather/changed", "params": {"to": "rain"}} in kept
    assert any("item/dream/requestInterpretation" in warning.message for warning in of(seen, Warning))


@pytest.mark.slow
async def test_an_interrupt_that_is_not_heard_ends_the_agent(tmp_path: Path) -> None:
    deaf = STRANGE.replace('print("What', 'while True: input()\n            print("What')
    async with open_session(cwd=tmp_path, policy=FULL, **agent(tmp_path, deaf)) as session:
        turn = asyncio.create_task(collect(session.turn("hello")))
        await asyncio.sleep(0)
        await session.interrupt()
        assert done(await turn).status == "interrupted"
        assert done(await collect(session.turn("again"))).status == "error"


def test_the_head_start_imports_little() -> None:
    """Whatever it imports, the agent starts that much later."""
    code = (
        "import sys; from tieline.drivers.prestart import prestart; prestart('codex', {}); "
        "print(*sorted({'asyncio', 'msgspec', 'pathlib', 'shutil', 'typing'} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout.split() == []


def test_no_policy_makes_codex_ask_about_single_hosts() -> None:
    """It does so only behind a proxy of its own, which its configuration has to set up: ours never does."""
    for policy in every_policy():
        settings = controls(policy)
        assert set(settings.config) == {"web_search", "features.shell_tool", "sandbox_workspace_write.network_access"}
        params = thread_params(Spec(cwd="/", policy=policy), settings, {})
        assert not [name for name in params["config"] if "proxy" in name or name.startswith("permissions")]


WIDER: dict[str, tuple[str, dict[str, Any], bool]] = {
    "a command": ("commandExecution", {}, False),
    "a command with the model's reason": ("commandExecution", {"reason": "it needs the network"}, False),
    "one that its sandbox stopped": ("commandExecution", {"reason": "command failed; retry without sandbox?"}, True),
    "a part of a call": ("commandExecution", {"approvalId": "x"}, True),
    "what is typed into one": ("commandExecution", {"kind": "writeStdin"}, True),
    "more permissions": ("commandExecution", {"additionalPermissions": {"network": {"enabled": True}}}, True),
    "a host": ("commandExecution", {"networkApprovalContext": {"host": "example.com", "protocol": "https"}}, True),
    "files": ("fileChange", {}, False),
    "files that its sandbox stopped": ("fileChange", {"reason": "retry without sandbox?"}, True),
    "a whole directory": ("fileChange", {"grantRoot": "/home/me"}, True),
}


@pytest.mark.parametrize("case", WIDER)
def test_what_grants_more_than_its_action_says_so(case: str) -> None:
    kind, more, wider = WIDER[case]
    normaliser = CodexNormaliser(print)
    normaliser.calls["i"] = RawCall("exec_command", {"cmd": "make"})
    normaliser.actions["i"] = Command("make") if kind == "commandExecution" else Edit(("a",), "x")
    params = {"itemId": "i", "command": "make", "cwd": "/x", **more}
    request = parse_request(f"item/{kind}/requestApproval", params, normaliser, Policy())
    assert request is not None and request[0].wider is wider


def test_a_command_outside_the_sandbox_grants_more() -> None:
    params = {"itemId": "i", "command": "make", "cwd": "/x"}
    unknown = parse_request("item/commandExecution/requestApproval", params, CodexNormaliser(print), Policy())
    assert unknown is not None and unknown[0].wider, "it is not known whether it is inside"
    normaliser = CodexNormaliser(print)
    normaliser.calls["i"] = RawCall("exec_command", {"cmd": "make", "sandbox_permissions": "require_escalated"})
    escalated = parse_request("item/commandExecution/requestApproval", params, normaliser, Policy())
    assert escalated is not None and escalated[0].wider
