"""What agents do differently, as data: each preset against the very shapes that its agent was seen to send."""

import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tieline.api import open_session
from tieline.ask_parts import ask_parts
from tieline.drivers.acp import driver as acp
from tieline.drivers.acp.launch import launch_command
from tieline.drivers.acp_presets import PRESETS
from tieline.drivers.base import McpServer, Spec
from tieline.drivers.claude_code.tools import GOVERNED
from tieline.errors import Unsupported, UsageError
from tieline.events import (
    Answer,
    Ask,
    Command,
    Diff,
    Done,
    Edit,
    Error,
    Event,
    Init,
    Mcp,
    Text,
    Thinking,
    ToolOutput,
    ToolResult,
    ToolUse,
    Warning,
)
from tieline.policy import Policy
from tieline.sessions.session import Session
from tieline.testing.rig import scratch_env
from tieline.testing.stream_checks import collect, done, of, the
from tieline.testing.wait_for import eventually

REPLAY = Path(__file__).with_name("acp_replay.py")

pytestmark = pytest.mark.slow

Step = dict[str, Any]
END: Step = {"result": {"stopReason": "end_turn"}}
ANSWERED: Step = {"say": "answer"}
SEEN: Step = {"say": "seen"}
START: Step = {"say": "start"}
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def chunk(text: str, **more: Any) -> Step:
    return {"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, **more}}


def call(id: str = "c1", **fields: Any) -> Step:
    return {"update": {"sessionUpdate": "tool_call", "toolCallId": id, **fields}}


def update(id: str = "c1", **fields: Any) -> Step:
    return {"update": {"sessionUpdate": "tool_call_update", "toolCallId": id, **fields}}


def text(words: str) -> list[Step]:
    return [{"type": "content", "content": {"type": "text", "text": words}}]


def ask(options: Sequence[Step] = OPTIONS, **fields: Any) -> Step:
    params = {"toolCall": {"toolCallId": "c1", **fields}, "options": list(options)}
    return {"ask": "session/request_permission", "params": params}


def result(**fields: Any) -> Step:
    return {"result": {"stopReason": "end_turn", **fields}}


def yes(ask: Ask) -> bool:
    return True


def no(ask: Ask) -> bool:
    return False


class Bench:
    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.env = scratch_env(cwd / "home", path="/usr/bin:/bin")

    def session(self, preset: str, *prompts: list[Step], script: Step | None = None, **options: Any) -> Session:
        """With an agent that plays these steps, one list for each prompt."""
        traits = options.pop("traits", {})
        file = self.cwd / "script.json"
        file.write_text(json.dumps({"prompts": prompts, **MODES, **(script or {})}))
        command = [sys.executable, "-I", "-S", str(REPLAY), str(file)]
        driver = acp.create(preset, {"preset": preset, "command": command, "traits": traits})
        options = {"policy": "ask", "accept_unenforced": True, **options}
        return open_session(driver, cwd=self.cwd, env=self.env, **options)

    async def turn(self, preset: str, *steps: Step, **options: Any) -> list[Event]:
        async with self.session(preset, list(steps), **options) as session:
            return await collect(session.turn("go"))

    async def turns(self, preset: str, *prompts: list[Step], **options: Any) -> list[Done]:
        async with self.session(preset, *prompts, **options) as session:
            return [done(await collect(session.turn("go"))) for _ in prompts]


MODES: Step = {"session": {"modes": {"currentModeId": "own", "availableModes": []}}}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# --- what only a person may grant -------------------------------------------------------------------------------------

INDEX = {"toolCallId": "workspace-indexing-permission", "title": "Workspace Indexing Permission"}
INDEX_OPTIONS = [
    {"optionId": "always-enable", "name": "Always index", "kind": "allow_always"},
    {"optionId": "always-disable", "name": "Never index", "kind": "reject_always"},
    {"optionId": "session-enable", "name": "Index for this session", "kind": "allow_once"},
    {"optionId": "session-disable", "name": "Skip for this session", "kind": "reject_once"},
]
CONSENT: Step = {"ask": "session/request_permission", "params": {"toolCall": INDEX, "options": INDEX_OPTIONS}}


def allow(ask: Ask) -> Answer:
    return Answer(ask.id, "allow")


@pytest.mark.parametrize(("policy", "decide"), [("full", None), ("ask", yes), ("ask", allow)])
async def test_no_allow_gives_consent(bench: Bench, policy: str, decide: Any) -> None:
    seen = await bench.turn("auggie", CONSENT, ANSWERED, END, policy=policy, on_ask=decide)
    assert json.loads(done(seen).text)["outcome"]["optionId"] == "session-disable"
    assert not of(seen, ToolUse)


async def test_a_person_gives_consent_by_choosing(bench: Bench) -> None:
    def choose(ask: Ask) -> Answer:
        (question,) = ask.questions
        assert [choice.label for choice in question.choices] == [option["name"] for option in INDEX_OPTIONS]
        return Answer(ask.id, "allow", answers={question.id: ("Index for this session",)})

    seen = await bench.turn("auggie", CONSENT, ANSWERED, END, on_ask=choose)
    assert json.loads(done(seen).text)["outcome"]["optionId"] == "session-enable"
    assert (the(seen, Ask).kind, the(seen, Ask).remember) == ("question", ())


async def test_consent_that_is_asked_for_at_the_start_is_refused_and_told(bench: Bench) -> None:
    seen = await bench.turn("auggie", ANSWERED, END, script={"starting": [CONSENT]}, on_ask=yes, policy="full")
    assert json.loads(done(seen).text)["outcome"]["optionId"] == "session-disable"
    assert "Workspace Indexing Permission" in the(seen, Warning).message


async def test_consent_that_is_asked_for_before_the_first_turn_is_asked_for_in_it(bench: Bench) -> None:
    """Auggie asks as soon as a session is open; then somebody can be asked, only later."""

    def choose(ask: Ask) -> Answer:
        return Answer(ask.id, "allow", answers={ask.questions[0].id: ("Index for this session",)})

    asked = bench.cwd / "asked"
    steps: list[Step] = [{"wait_for": "answer"}, ANSWERED, END]
    script: Step = {"opened": [{**CONSENT, "touch": str(asked)}]}
    async with bench.session("auggie", steps, script=script, on_ask=choose) as session:
        await session.warm_up()
        await eventually(asked.exists, "it does not ask")
        seen = await collect(session.turn("go"))
    assert json.loads(done(seen).text)["outcome"]["optionId"] == "session-enable"
    assert the(seen, Ask).kind == "question" and not of(seen, Warning)


async def test_what_auggie_says_of_itself_is_no_answer(bench: Bench) -> None:
    notices = [
        "Augment would like to index your workspace to provide better suggestions.\n\nWorkspace: `/w`",
        "Indexing disabled for current workspace `/w` for this session.\n\n",
        "Indexing disabled. Your working directory `/` is the home directory.\n\n",
    ]
    seen = await bench.turn("auggie", *map(chunk, notices), chunk("Indexing is fine."), END)
    assert [text.text for text in of(seen, Text)] == ["Indexing is fine."]
    assert [warning.message for warning in of(seen, Warning)] == [notice.strip() for notice in notices]


# --- modes in which asks come -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "mode"), [("ask", "read-only"), ("edits", "read-only"), ("full", "agent-full-access")]
)
async def test_codex_asks_in_the_mode_of_the_policy(bench: Bench, policy: str, mode: str) -> None:
    bench.env["INITIAL_AGENT_MODE"] = "agent"
    seen = await bench.turn("codex-acp", START, END, policy=policy)
    assert json.loads(done(seen).text)["environment"]["INITIAL_AGENT_MODE"] == mode


@pytest.mark.parametrize(("current", "sets"), [("agent", True), ("read-only", False), ("", False)])
async def test_a_mode_that_an_agent_did_not_start_in_is_set(bench: Bench, current: str, sets: bool) -> None:
    """An agent that does not know the mode of its environment starts in the one that decides alone."""
    modes: Step = {"session": {"modes": {"currentModeId": current, "availableModes": []}}}
    seen = await bench.turn("codex-acp", SEEN, END, script=modes)
    assert ("session/set_mode" in json.loads(done(seen).text)) == sets


async def test_what_makes_an_agent_ask_is_not_undone_by_the_environment(bench: Bench) -> None:
    bench.env["KILO_PERMISSION"] = '{"bash":"allow"}'
    seen = await bench.turn("kilo", START, END)
    permissions = json.loads(json.loads(done(seen).text)["environment"]["KILO_PERMISSION"])
    asks, denies = ("edit", "bash", "webfetch", "websearch"), ("question", "suggest", "task")
    assert permissions == dict.fromkeys(asks, "ask") | dict.fromkeys(denies, "deny")


PERMITS = re.compile("MODE|PERMISSION|APPROV|ALLOW|YOLO|AUTO_RUN|SANDBOX|TRUST|CONFIRM|TOOLS|AGENT")
"""What a variable is called that can decide whether an agent asks."""


@pytest.mark.parametrize("name", PRESETS)
def test_no_variable_that_makes_an_agent_ask_is_the_environments(name: str) -> None:
    """What is only a default is nothing of that kind, and the rest holds whatever the environment says."""
    preset = PRESETS[name]
    assert not [variable for variable in preset.env if PERMITS.search(variable)], "it belongs into fixed_env"
    held = {**preset.fixed_env, **preset.repository.env, **({preset.mode_env: ""} if preset.mode_env else {})}
    own = [*held, preset.settings_env, preset.directory_env, *preset.repository.files]
    hostile = {variable: "hostile" for variable in own if variable}
    spec = Spec(cwd="/", env=hostile, policy=Policy())
    launch = launch_command(preset, preset.command, spec, "/scratch", repository=False)
    assert "hostile" not in [launch.env[variable] for variable in hostile]


async def test_a_mode_is_set_that_the_session_only_says_to_be_in(bench: Bench) -> None:
    """Kimi says "default" of whichever mode its user's settings have chosen."""
    modes: Step = {"session": {"modes": {"currentModeId": "default", "availableModes": []}}}
    seen = await bench.turn("kimi", SEEN, END, script=modes)
    assert "session/set_mode" in json.loads(done(seen).text)


async def test_vibe_is_set_to_ask(bench: Bench) -> None:
    seen = await bench.turn("vibe", SEEN, END)
    assert "session/set_mode" in json.loads(done(seen).text)


async def test_auggie_is_told_to_ask(bench: Bench) -> None:
    seen = await bench.turn("auggie", START, END)
    arguments = json.loads(done(seen).text)["arguments"]
    assert arguments[0] == "--acp" and set(arguments[1::2]) == {"--permission"}
    tools = ("launch-process", "write-process", "bash", "save-file", "str-replace-editor", "apply_patch",
             "remove-files", "write", "edit", "web-fetch", "web-search")  # fmt: skip
    assert {f"{tool}:ask-user" for tool in tools} <= set(arguments[2::2])


# --- what an edit replaces --------------------------------------------------------------------------------------------


def replacing(bench: Bench, **more: Any) -> Step:
    """Auggie's edit: its input alone says what it does."""
    entries = [{"old_str": "2\n", "new_str": "two\n", "old_str_start_line_number": 2}]
    given = {"command": "str_replace", "path": "a.txt", "str_replace_entries": entries, **more}
    locations = [{"path": f"{bench.cwd}/a.txt"}]
    return call(title="Edit a.txt", kind="edit", rawInput=given, content=[], locations=locations)


async def test_what_an_edit_replaces_is_shown_in_its_file(bench: Bench) -> None:
    (bench.cwd / "a.txt").write_text("1\n2\n3\n")
    short = ask(title="Edit a.txt", kind="edit", rawInput={"path": "a.txt", "command": "str_replace"})
    seen = await bench.turn("auggie", replacing(bench), short, update(status="completed"), ANSWERED, END, on_ask=yes)
    asked = the(seen, Ask)
    assert isinstance(asked.action, Edit) and " 1\n-2\n+two\n 3\n" in asked.action.diff
    assert asked.input["str_replace_entries"], "and as it came"
    assert "-2\n+two\n" in the(seen, Diff).diff


@pytest.mark.parametrize(
    "more",
    [
        {"command": "insert"},
        {"str_replace_entries": [{"old_str": "", "new_str": "two"}]},
        {"str_replace_entries": [{"old_str": ["2"], "new_str": "two"}]},
        {"str_replace_entries": "2"},
    ],
)
async def test_what_is_no_replacement_is_shown_as_it_came(bench: Bench, more: Step) -> None:
    (bench.cwd / "a.txt").write_text("1\n2\n3\n")
    short = ask(title="Edit a.txt", kind="edit", rawInput={"path": "a.txt"})
    seen = await bench.turn("auggie", replacing(bench, **more), short, ANSWERED, END, on_ask=no)
    asked = the(seen, Ask)
    assert isinstance(asked.action, Edit) and not asked.action.diff
    assert all(asked.input[name] == value for name, value in more.items())


# --- no ask without its command ---------------------------------------------------------------------------------------

KIMI_CALL = [
    call(title="Bash", kind="execute", status="pending", content=text('{"comm')),
    update(status="in_progress", content=text('{"command":"rm -r build"}')),
]


def kimi_ask(words: str) -> Step:
    return ask(title="Bash", content=text(f"Requesting approval to {words}"))


@pytest.mark.parametrize("words", ["Running: rm -r b…", "Running: rm -r build", "Starting background: rm -r \ud83d…"])
async def test_kimis_ask_shows_the_command_of_its_call(bench: Bench, words: str) -> None:
    """Also where Kimi has cut it through a character, which no text can have half of."""
    command = "rm -r 😀" if "background" in words else "rm -r build"
    given = update(status="in_progress", content=text(json.dumps({"command": command})))
    steps = [KIMI_CALL[0], given, kimi_ask(words), chunk("Refused."), END]
    seen = await bench.turn("kimi", *steps, policy=Policy("ask", "ask", "ask"), on_ask=no)
    asked = the(seen, Ask)
    assert (asked.capability, asked.action, asked.withheld) == ("shell", Command(command), "")
    assert not of(seen, ToolOutput), "arguments are no output"
    assert the(seen, ToolResult).status == "denied"
    by_policy = await bench.turn("kimi", *steps, policy=Policy("ask", "deny", "ask"))
    assert (the(by_policy, Answer).by, of(by_policy, Ask)) == ("policy", [])


@pytest.mark.parametrize("words", ["Running: rm -r buil…", "Starting background: make", "Writing build/x"])
async def test_an_ask_of_kimi_about_a_call_that_it_does_not_tell_can_only_be_denied(bench: Bench, words: str) -> None:
    """A subagent's: neither the end of its command nor the folder that it runs in is told."""
    seen = await bench.turn("kimi", kimi_ask(words), ANSWERED, END, on_ask=yes)
    assert the(seen, Ask).withheld
    assert json.loads(done(seen).text)["outcome"]["optionId"] == "no"
    if "…" not in words and "Writing" not in words:
        assert the(seen, Ask).action == Command("make")


@pytest.mark.parametrize("over", ["completed", "failed", "denied"])
async def test_a_call_whose_id_was_used_before_is_another_one(bench: Bench, over: str) -> None:
    """Some models count their calls anew in each reply."""
    first = [*KIMI_CALL, kimi_ask("Running: rm -r build"), *([] if over == "denied" else [update(status=over)])]
    second = [
        call(title="Bash", kind="execute", status="pending", content=text('{"command":"rm -r src"}')),
        kimi_ask("Running: rm -r src"),
        ANSWERED,
        update(status="completed"),
        END,
    ]
    asked: list[Ask] = []

    def decide(ask: Ask) -> bool:
        asked.append(ask)
        return over != "denied"

    seen = await bench.turn("kimi", *first, *second, on_ask=decide)
    assert [ask.action for ask in asked] == [Command("rm -r build"), Command("rm -r src")]
    assert [use.action for use in of(seen, ToolUse)] == [ask.action for ask in asked]
    assert len({use.id for use in of(seen, ToolUse)}) == 2


async def test_an_ask_is_not_joined_with_the_call_of_another_command(bench: Bench) -> None:
    """A subagent counts its calls as the one does that started it."""
    seen = await bench.turn("kimi", *KIMI_CALL, kimi_ask("Running: rm -r src"), ANSWERED, END, on_ask=yes)
    asked = the(seen, Ask)
    assert asked.action == Command("rm -r src") and asked.withheld


async def test_vibes_ask_is_joined_with_its_call(bench: Bench) -> None:
    before = call(title="bash", kind="execute", status="pending", rawInput={"command": "make"})
    seen = await bench.turn("vibe", before, ask(), chunk("Refused."), END, on_ask=no)
    assert (the(seen, Ask).action, the(seen, Ask).capability) == (Command("make"), "shell")


async def test_an_ask_that_tells_nothing_is_shown_whole(bench: Bench) -> None:
    seen = await bench.turn("cursor", ask(title="Do it", _meta={"why": "no idea"}), chunk("Refused."), END, on_ask=no)
    shown = "\n".join(part.text for part in ask_parts(the(seen, Ask)))
    assert "does not say what exactly it would do" in shown
    assert "no idea" in shown and "c1" in shown


async def test_of_two_ways_to_allow_the_narrow_one_is_taken(bench: Bench) -> None:
    options = [{"optionId": id, "name": id, "kind": "allow_once"} for id in ("always_accept", "accept")]
    begun = call(title="x", rawInput={"command": "view"}, status="in_progress")
    seen = await bench.turn("openhands", begun, ask(options, title="x"), ANSWERED, END, on_ask=yes)
    assert json.loads(done(seen).text)["outcome"]["optionId"] == "accept"


# --- how a denial ends ------------------------------------------------------------------------------------------------

RUN = call(title="make", kind="execute", status="pending", rawInput={"command": "make"})
READ = call("c2", title="b", kind="read", rawInput={"path": "b"})
FAILED = update(status="failed")


@pytest.mark.parametrize(
    ("preset", "steps"),
    [
        ("qwen", [RUN, ask(), FAILED, END]),
        ("droid", [chunk("I run it."), RUN, ask(), END]),
        ("copilot", [RUN, ask(), chunk("Info: Operation cancelled by user"), END]),
        ("grok", [RUN, ask(), result(stopReason="cancelled")]),
        ("cursor", [RUN, ask(), FAILED, READ, END]),
        # A call that begins after a denial may be of the same reply, about which the model has not been told yet.
        ("vibe", [RUN, ask(), FAILED, READ, END]),
        ("auggie", [RUN, ask(), FAILED, READ, update("c2", status="completed"), END]),
        ("gemini", [RUN, ask(), update("c2", title="b", kind="read", status="completed"), END]),
    ],
)
async def test_a_turn_that_a_denial_ended_is_no_success(bench: Bench, preset: str, steps: list[Step]) -> None:
    seen = await bench.turn(preset, *steps, on_ask=no)
    assert (done(seen).status, the(seen, Error).code) == ("error", "denied")
    assert "denied: make" in done(seen).error
    assert of(seen, ToolResult)[0].status == "denied"


@pytest.mark.parametrize(
    ("preset", "steps"),
    [
        ("vibe", [RUN, ask(), FAILED, chunk("Then not."), END]),
        ("vibe", [RUN, ask(), FAILED, READ, chunk("Then that."), END]),
        ("vibe", [RUN, ask(), FAILED, chunk("Then that."), READ, END]),
        ("copilot", [RUN, ask(), chunk("I shall not, then."), END]),
    ],
)
async def test_a_model_that_goes_on_after_a_denial_answers(bench: Bench, preset: str, steps: list[Step]) -> None:
    assert done(await bench.turn(preset, *steps, on_ask=no)).status == "success"


async def test_an_interruption_stays_one_whatever_was_denied(bench: Bench) -> None:
    steps = [RUN, ask(), chunk("Now wait."), {"wait_for": "session/cancel"}, result(stopReason="cancelled")]
    async with bench.session("codex-acp", steps, on_ask=no) as session:
        seen: list[Event] = []
        async for event in session.turn("go"):
            seen.append(event)
            if event.type == "text_delta":
                await session.interrupt()
    assert done(seen).status == "interrupted"


async def test_an_open_ask_is_withdrawn_before_the_turn_is_cancelled(bench: Bench) -> None:
    asked = asyncio.Event()

    async def decide(ask: Ask) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    async def stop(session: Session) -> None:
        await asked.wait()
        await session.interrupt()

    steps = [RUN, ask(), {"wait_for": "session/cancel"}, SEEN, result(stopReason="cancelled")]
    async with bench.session("goose", steps, on_ask=decide) as session:
        stopping = asyncio.create_task(stop(session))
        seen = await collect(session.turn("go"))
        await stopping
    order = json.loads(done(seen).text)
    assert order.index("answer") < order.index("session/cancel")
    assert done(seen).status == "interrupted"


# --- errors that are told as success ----------------------------------------------------------------------------------

FAILURES = {
    "copilot": "Error: 400 the model is not known\n(Request ID: 1)",
    "goose": "Ran into this error: Request failed: bad request (400).",
}


@pytest.mark.parametrize("preset", FAILURES)
async def test_an_error_is_no_success(bench: Bench, preset: str) -> None:
    words = FAILURES[preset]
    spent = result(usage={"inputTokens": 5, "outputTokens": 4})
    pieces = [chunk(words[:9]), chunk(words[9:])]
    worked = [chunk("Let me see."), READ, update("c2", status="completed")]
    failures = [[*pieces, END], [*worked, chunk(words), spent], [*worked, chunk("Half a sen"), chunk(words), END]]
    for end in await bench.turns(preset, *failures):
        assert (end.status, end.error) == ("error", words) and end.usage != "complete"
    spoken = [[chunk(f"It says: {words}"), END], [*worked, *pieces, END], [chunk(words), READ, chunk("Done."), END]]
    for end in await bench.turns(preset, *spoken):
        assert end.status == "success", "a model that speaks of an error"


@pytest.mark.parametrize("state", ["systemError", "idle"])
async def test_codex_says_beside_the_text_that_the_turn_has_failed(bench: Bench, state: str) -> None:
    news = {"sessionUpdate": "session_info_update", "_meta": {"codex": {"threadStatus": {"type": state}}}}
    seen = await bench.turn(
        "codex-acp", chunk("Let me see."), RUN, {"update": news}, chunk("429 Too Many Requests\n\n"), END
    )
    failed = state == "systemError"
    assert (done(seen).status, done(seen).error) == (("error", "429 Too Many Requests") if failed else ("success", ""))


async def test_the_errors_of_one_agent_are_another_ones_words(bench: Bench) -> None:
    for end in await bench.turns("gemini", *([chunk(words), END] for words in FAILURES.values())):
        assert end.status == "success"


@pytest.mark.parametrize("preset", ["kimi", "vibe"])
async def test_an_empty_end_is_an_error(bench: Bench, preset: str) -> None:
    assert [end.status for end in await bench.turns(preset, [END], [chunk(""), END])] == ["error", "error"]


async def test_an_end_without_words_is_an_error_of_an_agent_that_tells_none(bench: Bench) -> None:
    """Kimi asks its model again, and at last gives up: then the turn has failed. To others it is a model's choice."""
    worked = [chunk("Let me see."), READ, update("c2", status="completed")]
    thought: Step = {"update": {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "Hm."}}}
    turns = [[*worked, END], [*worked, thought, END], [*worked, chunk("\n"), END], [*worked, chunk("Done."), END]]
    fails = ["error", "error", "error", "success"]
    for preset, expected in (("kimi", fails), ("pi-acp", fails), ("copilot", ["success"] * 4)):
        assert [end.status for end in await bench.turns(preset, *turns)] == expected


async def test_a_version_is_told_without_what_an_agent_adds_to_it(bench: Bench) -> None:
    info: Step = {"initialize": {"agentInfo": {"name": "auggie", "version": "0.36.0 (commit 7c61e5bb)"}}}
    assert the(await bench.turn("auggie", START, END, script=info), Init).version == "0.36.0"


# --- MCP servers ------------------------------------------------------------------------------------------------------

SERVERS = {
    "near": McpServer(command=("serve", "--fast"), env={"KEY": "secret"}),
    "far": McpServer(url="http://127.0.0.1:1/mcp", headers={"X": "y"}),
}


async def test_mcp_servers_of_a_fork_are_refused_where_it_keeps_those_of_the_original(bench: Bench) -> None:
    forks: Step = {"initialize": {"agentCapabilities": {"sessionCapabilities": {"fork": {}}}}}
    with pytest.raises(Unsupported, match="mcp_servers of a fork"):
        async with bench.session("kimi", script=forks, resume="s", fork=True, mcp_servers={"near": SERVERS["near"]}):
            pass


@pytest.mark.parametrize("preset", [name for name, preset in PRESETS.items() if preset.traits.mcp == "refused"])
async def test_mcp_servers_are_never_silently_lost(bench: Bench, preset: str) -> None:
    with pytest.raises(Unsupported, match="mcp_servers"):
        bench.session(preset, mcp_servers=SERVERS)


async def test_mcp_servers_reach_copilot_by_its_own_argument(bench: Bench) -> None:
    """In a file: the arguments of a process are there for all users to read."""
    seen = await bench.turn("copilot", START, END, mcp_servers=SERVERS)
    report = json.loads(done(seen).text)
    flag, file = report["arguments"][-2:]
    assert flag == "--additional-mcp-config" and file.startswith("@")
    assert "secret" not in " ".join(report["arguments"])
    assert json.loads(report["files"][file]) == {
        "mcpServers": {
            "near": {
                "type": "stdio",
                "command": "serve",
                "args": ["--fast"],
                "env": {"KEY": "secret"},
                "tools": ["*"],
            },
            "far": {"type": "http", "url": "http://127.0.0.1:1/mcp", "headers": {"X": "y"}, "tools": ["*"]},
        }
    }


async def test_a_servers_command_is_quoted_for_an_agent_that_has_a_shell_read_it(bench: Bench) -> None:
    server = McpServer(command=("/opt/my server", "--say", "it's $HOME; rm -r /", "plain"))
    seen = await bench.turn("auggie", START, END, mcp_servers={"near": server})
    (seen_server,) = json.loads(done(seen).text)["servers"]
    assert shlex.split(" ".join([seen_server["command"], *seen_server["args"]])) == list(server.command)
    assert (seen_server["command"], seen_server["args"][-1]) == ("'/opt/my server'", "plain")


@pytest.mark.parametrize("resume", ["", "s"])
async def test_claude_over_acp_is_given_rules_that_ask(bench: Bench, resume: str) -> None:
    """With a new session and with one that goes on; before all that its own settings and a repository's allow."""
    able: Step = {"initialize": {"agentCapabilities": {"loadSession": True}}}
    seen = await bench.turn("claude-agent-acp", START, END, resume=resume, script=able)
    options = json.loads(done(seen).text)["meta"]["claudeCode"]["options"]
    assert set(options["settings"]["permissions"]["ask"]) == {tool for tools in GOVERNED.values() for tool in tools}
    assert options["allowDangerouslySkipPermissions"] is False
    assert json.loads(done(await bench.turn("cursor", START, END)).text)["meta"] is None


# --- usage ------------------------------------------------------------------------------------------------------------


def tokens(end: Done) -> tuple[int | None, int | None, str]:
    assert end.tokens is not None
    return end.tokens.input, end.tokens.output, end.usage


async def test_a_counter_of_the_session_becomes_the_turns(bench: Bench) -> None:
    def spent(input: int, output: int) -> list[Step]:
        return [chunk("Yes."), result(usage={"inputTokens": input, "outputTokens": output})]

    ends = await bench.turns("copilot", spent(100, 10), spent(250, 30), spent(40, 4), spent(70, 9))
    assert [tokens(end) for end in ends] == [
        (100, 10, "complete"),
        (150, 20, "complete"),
        (40, 4, "complete"),  # it counts anew
        (30, 5, "complete"),
    ]


async def test_the_counter_of_a_resumed_session_is_not_its_first_turns(bench: Bench) -> None:
    def spent(input: int) -> list[Step]:
        return [chunk("Yes."), result(usage={"inputTokens": input, "outputTokens": 1})]

    script = {"initialize": {"agentCapabilities": {"loadSession": True}}}
    counted = {"usage": "session"}
    ends = await bench.turns("copilot", spent(900), spent(950), script=script, resume="s", traits=counted)
    assert (ends[0].status, ends[0].tokens, ends[0].usage) == ("success", None, "unknown")
    assert tokens(ends[1]) == (50, 0, "complete")


async def test_tokens_of_the_last_call_are_not_the_whole(bench: Bench) -> None:
    seen = await bench.turn("goose", chunk("Yes."), result(usage={"inputTokens": 5, "outputTokens": 4}))
    assert tokens(done(seen)) == (5, 4, "partial")
    seen = await bench.turn("cursor", chunk("Yes."), result(usage={"inputTokens": 5, "outputTokens": 4}))
    assert tokens(done(seen)) == (5, 4, "partial"), "nobody knows"


async def test_qwens_usage_is_on_empty_chunks(bench: Bench) -> None:
    def usage(input: int) -> Step:
        return chunk("", _meta={"usage": {"inputTokens": input, "outputTokens": 2, "thoughtTokens": 1}})

    seen = await bench.turn("qwen", usage(10), chunk("Yes."), usage(20), END)
    assert [each.text for each in of(seen, Text)] == ["Yes."], "no empty text"
    assert tokens(done(seen)) == (30, 4, "complete")


async def test_what_claudes_subagents_spend_is_not_told(bench: Bench) -> None:
    spent = result(usage={"inputTokens": 5, "outputTokens": 4})
    task = call(title="Touch it", kind="think", _meta={"claudeCode": {"toolName": "Agent"}}, rawInput={"prompt": "x"})
    ends = await bench.turns("claude-agent-acp", [chunk("Yes."), spent], [task, chunk("Yes."), spent])
    assert [tokens(end) for end in ends] == [(5, 4, "complete"), (5, 4, "partial")]


async def test_some_of_vibes_model_calls_are_not_told(bench: Bench) -> None:
    turns = [[chunk("Yes."), result(usage={"inputTokens": spent, "outputTokens": 4})] for spent in (5, 12)]
    assert [tokens(end) for end in await bench.turns("vibe", *turns)] == [(5, 4, "partial"), (7, 0, "partial")]


async def test_one_ask_of_openhands_is_about_all_calls_that_have_begun(bench: Bench) -> None:
    """It names none of them. They are asked about one by one, and go together."""
    options = [
        {"optionId": "risk_based", "name": "Auto-confirm", "kind": "allow_once"},
        {"optionId": "accept", "name": "Yes", "kind": "allow_once"},
        {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
        {"optionId": "always_proceed", "name": "Always proceed", "kind": "allow_always"},
    ]
    params = {"toolCall": {"toolCallId": "confirmation-1", "title": "Confirm Agent Actions"}, "options": options}
    confirm: Step = {"ask": "session/request_permission", "params": params}
    calls = [
        call(f"c{number}", kind="execute", rawInput={"command": f"touch {number}"}, status="in_progress")
        for number in range(3)
    ]
    calls.insert(1, update("c0", status="completed"))
    for decision, chosen in ((True, "accept"), (False, "reject")):

        def decide(ask: Ask, decision: bool = decision) -> bool:
            return decision or "touch 1" in str(ask.input)

        seen = await bench.turn("openhands", *calls, confirm, ANSWERED, END, on_ask=decide)
        assert [ask.action for ask in of(seen, Ask)] == [Command("touch 1"), Command("touch 2")]
        assert all("always" not in ask.remember for ask in of(seen, Ask)), "it would ask about nothing any more"
        assert json.loads(done(seen).text)["outcome"]["optionId"] == chosen
        denied = [result.id for result in of(seen, ToolResult) if result.status == "denied"]
        assert denied == ([] if decision else ["c1", "c2"])


OPENHANDS = [
    {"optionId": "accept", "name": "Yes", "kind": "allow_once"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
]


async def test_what_openhands_does_not_ask_about_cannot_be_allowed(bench: Bench) -> None:
    """The work of a subagent; and calls of a turn before, of which its ask says nothing."""
    params = {"toolCall": {"toolCallId": "confirmation-1", "title": "Confirm Agent Actions"}, "options": OPENHANDS}
    confirm: Step = {"ask": "session/request_permission", "params": params}
    task = call("c1", title="task", rawInput={"kind": "TaskAction", "prompt": "Touch it"}, status="in_progress")
    for calls in ([task], []):
        seen = await bench.turn("openhands", *calls, confirm, ANSWERED, END, on_ask=yes)
        assert the(seen, Ask).withheld and the(seen, Answer).decision == "deny"
        assert json.loads(done(seen).text)["outcome"]["optionId"] == "reject"


def confirming(*meanwhile: Step) -> Step:
    """OpenHands' ask, and what it tells after it."""
    params = {"toolCall": {"toolCallId": "confirmation-1", "title": "Confirm Agent Actions"}, "options": OPENHANDS}
    return {"ask": "session/request_permission", "params": params, "meanwhile": meanwhile}


def touching(name: str) -> Step:
    return call(name, title=name, kind="execute", rawInput={"command": f"touch {name}"}, status="in_progress")


@pytest.mark.parametrize("late", ["with the ask", "while the first is asked about"])
async def test_a_call_that_begins_after_the_ask_is_asked_about_too(bench: Bench, late: str) -> None:
    """OpenHands tells of a call when it gets to it; one with long thoughts comes after the ask."""
    pipe = bench.cwd / "told"
    os.mkfifo(pipe)
    meanwhile = [touching("late")] if late == "with the ask" else [{"read": str(pipe)}, touching("late")]

    def decide(ask: Ask) -> bool:
        if late != "with the ask" and ask.action == Command("touch early"):
            pipe.write_text("x")
        return ask.action == Command("touch early")

    seen = await bench.turn("openhands", touching("early"), confirming(*meanwhile), ANSWERED, END, on_ask=decide)
    assert [ask.action for ask in of(seen, Ask)] == [Command("touch early"), Command("touch late")]
    assert json.loads(done(seen).text)["outcome"]["optionId"] == "reject"


@pytest.mark.parametrize("policy", ["ask", Policy("ask", "allow", "ask")])
async def test_an_agent_that_runs_a_call_on_the_answer_to_another_is_ended(bench: Bench, policy: Any) -> None:
    steps = [
        touching("early"),
        confirming(),
        touching("late"),
        update("early", status="completed"),
        chunk("Done."),
        END,
    ]
    seen = await bench.turn("openhands", *steps, on_ask=yes, policy=policy)
    if policy == "ask":
        assert done(seen).status == "error" and of(seen, Error)[0].code == "denied"
        assert "late" in of(seen, Error)[0].message
    else:
        assert done(seen).status == "success", "the policy allows it anyway"


async def test_a_call_of_the_next_reply_is_none_of_that_kind(bench: Bench) -> None:
    """Whether the call before it tells its end by itself or, as the list of steps, by what it did."""
    plan: Step = {"update": {"sessionUpdate": "plan", "entries": [{"content": "one", "status": "pending"}]}}
    for end in (update("early", status="completed"), plan):
        steps = [touching("early"), confirming(), end, touching("next"), confirming(), chunk("Done."), END]
        assert done(await bench.turn("openhands", *steps, on_ask=yes)).status == "success"


async def test_openhands_system_prompt_is_no_thought(bench: Bench) -> None:
    thoughts = [
        {"update": {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": text}}}
        for text in ("System Prompt:\nYou are an agent.\n", "I think.")
    ]
    seen = await bench.turn("openhands", *thoughts, chunk("Yes."), END)
    assert [thought.text for thought in of(seen, Thinking)] == ["I think."]


# --- questions by forms -----------------------------------------------------------------------------------------------

CHOICE = {"type": "string", "oneOf": [{"const": name, "title": name} for name in ("Red", "Blue")]}
NOTED = {"choice": {**CHOICE, "title": "Which colour?", "description": "Colour"}, "choice_note": {"type": "string"}}
FORMS = {
    "codex-acp": ("Codex needs your input to continue.", NOTED),
    "kimi": ("Which colour?", {"q0": {**CHOICE, "title": "Colour"}}),
}
"""What each agent's form says and has."""
ANSWERS = [
    ("codex-acp", "Blue", {"choice": "Blue"}),
    ("codex-acp", "Rather green", {"choice_note": "Rather green"}),
    ("kimi", "Blue", {"q0": "Blue"}),
]


@pytest.mark.parametrize(("preset", "chosen", "content"), ANSWERS)
async def test_a_question_by_a_form(bench: Bench, preset: str, chosen: str, content: dict[str, str]) -> None:
    message, fields = FORMS[preset]
    form = {"mode": "form", "message": message, "requestedSchema": {"type": "object", "properties": fields}}
    steps = [{"ask": "elicitation/create", "params": form}, ANSWERED, END]

    def decide(ask: Ask) -> Answer:
        (question,) = ask.questions
        assert (question.text, question.header) == ("Which colour?", "Colour")
        return Answer(ask.id, "allow", answers={question.id: (chosen,)})

    seen = await bench.turn(preset, *steps, on_ask=decide)
    assert json.loads(done(seen).text) == {"action": "accept", "content": content}


# --- output, names ----------------------------------------------------------------------------------------------------


async def test_codex_output_beside_the_content(bench: Bench) -> None:
    pieces = [update(_meta={"terminal_output_delta": {"data": piece}}) for piece in ("one\n", "one\n")]
    seen = await bench.turn("codex-acp", RUN, *pieces, update(status="completed"), chunk("Done."), END)
    assert "".join(output.text for output in of(seen, ToolOutput)) == "one\none\n"
    assert the(seen, ToolResult).output == "one\none\n"
    with_the_end = update(status="completed", _meta={"terminal_output_delta": {"data": "one\n"}})
    seen = await bench.turn("codex-acp", RUN, with_the_end, chunk("Done."), END)
    assert (the(seen, ToolOutput).text, the(seen, ToolResult).output) == ("one\n", "one\n")


async def test_a_tool_of_a_server_is_no_command(bench: Bench) -> None:
    """Codex's adapter calls it one: a policy that allows commands would allow it."""
    given = {"server": "words", "tool": "speak", "arguments": {"text": "hello"}}
    tool_call = call(title="mcp.words.speak", kind="execute", rawInput=given, _meta={"is_mcp_tool_call": True})
    policy = Policy("allow", "allow", "ask")
    seen = await bench.turn("codex-acp", tool_call, ask(kind="execute"), chunk("No."), END, on_ask=no, policy=policy)
    asked = the(seen, Ask)
    assert (asked.action, asked.capability, asked.input) == (Mcp("words", "speak"), None, given)
    unannounced = ask(kind="execute", title="Run it?")
    unannounced["params"]["_meta"] = {"is_mcp_tool_approval": True}
    seen = await bench.turn("codex-acp", unannounced, chunk("No."), END, on_ask=no, policy=policy)
    assert the(seen, Ask).capability is None


async def test_pis_output_beside_the_content_is_whole_each_time(bench: Bench) -> None:
    pieces = [update(_meta={"terminal_output": {"data": piece}}) for piece in ("one\n", "one\ntwo\n")]
    seen = await bench.turn("pi-acp", RUN, *pieces, update(status="completed"), chunk("Done."), END)
    assert "".join(output.text for output in of(seen, ToolOutput)) == "one\ntwo\n"
    assert the(seen, ToolResult).output == "one\ntwo\n"


async def test_groks_usage_is_beside_the_result(bench: Bench) -> None:
    spent = result(_meta={"usage": {"inputTokens": 5, "outputTokens": 4}})
    assert tokens(done(await bench.turn("grok", chunk("Yes."), spent))) == (5, 4, "complete")


async def test_a_description_is_no_output(bench: Bench) -> None:
    steps = [
        RUN,
        update(status="in_progress", content=text("Builds it")),
        update(status="completed", content=text("ok")),
    ]
    seen = await bench.turn("claude-agent-acp", *steps, chunk("Done."), END)
    assert not of(seen, ToolOutput)
    assert the(seen, ToolResult).output == "ok"


async def test_names_beside_the_title(bench: Bench) -> None:
    goose = call(title="developer: write", kind="other", _meta={"goose": {"toolCall": {"toolName": "write"}}},
                 rawInput={"path": "/x"})  # fmt: skip
    use = the(await bench.turn("goose", goose, chunk("Done."), END), ToolUse)
    assert (use.name, use.action) == ("write", Edit(("/x",)))
    qwen = call(title="ReadFile: x", kind="read", rawInput={"path": "x"}, _meta={"toolName": "read_file"})
    assert the(await bench.turn("qwen", qwen, chunk("Done."), END), ToolUse).name == "read_file"


def claude(tool: str, **input: Any) -> Step:
    return {"title": tool, "kind": "other", "_meta": {"claudeCode": {"toolName": tool}}, "rawInput": input}


async def test_what_claude_watches_is_a_command(bench: Bench) -> None:
    watched = ask(**claude("Monitor", command="touch x", description="x"))
    seen = await bench.turn("claude-agent-acp", watched, chunk("No."), END, policy=Policy("allow", "deny", "allow"))
    assert isinstance(the(seen, ToolUse).action, Command)
    assert (the(seen, ToolResult).status, of(seen, Ask)) == ("denied", []), "the policy has decided"


async def test_claudes_edits_are_shown_in_their_files(bench: Bench) -> None:
    """Wherever it replaces, and what is in a notebook's cell now, which its request does not tell."""
    file, book = bench.cwd / "old.txt", bench.cwd / "book.ipynb"
    file.write_text("an old line\n" + "more\n" * 20 + "another old line\n")
    book.write_text(json.dumps({"cells": [{"id": "one", "source": "old cell"}]}))
    everywhere = claude("Edit", file_path=str(file), old_string="old", new_string="new", replace_all=True)
    diff = [{"type": "diff", "path": str(file), "oldText": "old", "newText": "new"}]
    cell = claude("NotebookEdit", notebook_path=str(book), cell_id="one", new_source="new cell")
    requests: list[tuple[Step, tuple[str, ...]]] = [
        ({**everywhere, "kind": "edit", "content": diff}, ("-an old line", "-another old line")),
        (cell, ("-old cell",)),
    ]
    for request, gone in requests:
        asked = the(await bench.turn("claude-agent-acp", ask(**request), chunk("No."), END, on_ask=no), Ask)
        assert isinstance(asked.action, Edit) and asked.capability == "file_write"
        assert all(line in asked.action.diff for line in gone), asked.action.diff
        assert not asked.withheld


# --- steering ---------------------------------------------------------------------------------------------------------


async def test_steering_by_request(bench: Bench) -> None:
    steps = [chunk("Well."), {"wait_for": "_session/steering"}, RUN, SEEN, END]
    async with bench.session("codex-acp", steps) as session:
        seen = await collect_steered(session)
    assert "mind the pelican" in done(seen).text and "promptRequired" in done(seen).text
    with pytest.raises(UsageError, match="no turn is running"):
        async with bench.session("codex-acp", steps) as session:
            await session.steer("too early")


async def collect_steered(session: Session) -> list[Event]:
    """Steers once, at the first word."""
    seen: list[Event] = []
    steered = False
    async for event in session.turn("go"):
        seen.append(event)
        if event.type == "text_delta" and not steered:
            steered = True
            await session.steer("mind the pelican")
    return seen


async def test_an_agent_that_does_not_take_it_says_so(bench: Bench) -> None:
    steps = [chunk("Well."), {"wait_for": "_session/steering"}, END]
    async with bench.session("codex-acp", steps, script={"steering": "rejected"}) as session:
        with pytest.raises(UsageError, match="rejected"):
            await collect_steered(session)


DRAIN: Step = {"ask": "craft/drainMidTurnQueue", "params": {}}


async def test_an_agent_fetches_what_was_said(bench: Bench) -> None:
    async with bench.session("qwen", [chunk("Well."), ask(title="x"), DRAIN, RUN, ANSWERED, END]) as session:

        async def decide(ask: Ask) -> bool:
            await session.steer("mind the pelican")
            return True

        session.on_ask = decide
        seen = await collect(session.turn("go"))
    assert json.loads(done(seen).text) == {"messages": ["mind the pelican"]}


async def test_what_was_not_fetched_goes_with_the_next_prompt(bench: Bench) -> None:
    async with bench.session("qwen", [ask(title="x"), chunk("Done."), END], [{"say": "prompt"}, END]) as session:

        async def decide(ask: Ask) -> bool:
            await session.steer("mind the pelican")
            return True

        session.on_ask = decide
        seen = await collect(session.turn("go"))
        assert "mind the pelican" in the(seen, Warning).message
        assert "mind the pelican" in done(await collect(session.turn("and then"))).text


async def test_questions_that_come_as_a_request_for_permission(bench: Bench) -> None:
    questions = [
        {"question": "Which colour?", "header": "Colour", "options": [{"label": "Red"}, {"label": "Blue"}]},
        {"question": "Which sizes?", "options": [{"label": "S"}, {"label": "L"}], "multiSelect": True},
    ]
    meta = {"toolName": "ask_user_question", "qwenInteractionKind": "user_question", "qwenQuestions": questions}
    asking = ask(title="Ask", kind="think", rawInput={"questions": questions}, _meta=meta)

    def decide(ask: Ask) -> Answer:
        colour, sizes = ask.questions
        assert (colour.text, [choice.label for choice in colour.choices]) == ("Which colour?", ["Red", "Blue"])
        assert (colour.many, sizes.many) == (False, True)
        return Answer(ask.id, "allow", answers={colour.id: ("Blue",), sizes.id: ("S", "L")})

    seen = await bench.turn("qwen", asking, ANSWERED, END, on_ask=decide, policy="full")
    report = json.loads(done(seen).text)
    assert (report["outcome"]["optionId"], report["answers"]) == ("yes", {"0": "Blue", "1": "S, L"})
    refused = await bench.turn("qwen", asking, END, on_ask=yes, policy="full")
    assert (done(refused).status, the(refused, ToolResult).status) == ("error", "denied"), "a mere yes chooses nothing"


# --- configuration and version ----------------------------------------------------------------------------------------


async def test_a_configured_agent_may_have_traits(bench: Bench) -> None:
    mine = {"denial": "ends_turn", "error_texts": ["Oops: .+"], "consents": ["upload"]}
    seen = await bench.turn("cursor", chunk("Oops: broken"), END, traits=mine)
    assert done(seen).status == "error"
    upload: Step = {"ask": "session/request_permission", "params": {"toolCall": {"toolCallId": "upload"}}}
    upload["params"]["options"] = OPTIONS
    seen = await bench.turn("cursor", upload, ANSWERED, END, traits=mine, policy="full", on_ask=yes)
    assert json.loads(done(seen).text)["outcome"]["optionId"] == "no"
    with pytest.raises(Unsupported, match="mcp_servers"):
        bench.session("cursor", traits={"mcp": "refused"}, mcp_servers=SERVERS)
    with pytest.raises(UsageError, match="argument for MCP servers"):
        acp.create("mine", {"command": ["x"], "traits": {"mcp": "argument"}})
    with pytest.raises(UsageError, match="denail"):
        acp.create("mine", {"command": ["x"], "traits": {"denail": "told"}})


@pytest.mark.parametrize(
    ("words", "version"),
    [
        ("GitHub Copilot CLI 1.0.102.", "1.0.102"),
        ("kimi, version 2.1.0-beta.1 (linux)", "2.1.0-beta.1"),
        ("v0.24.4", "0.24.4"),
        ("pkg/3.2.1 node-v22.1.0", "3.2.1"),
        ("no number", ""),
    ],
)
async def test_versions(bench: Bench, words: str, version: str) -> None:
    program = bench.cwd / "agent"
    program.write_text(f'#!/bin/sh\n[ "$1" = acp ] && exec cat\n[ "$1" = --version ] && echo "{words}"\n')
    program.chmod(0o700)
    for command in ([str(program)], [str(program), "acp"]):
        probe = await acp.create("mine", {"command": command}).probe(bench.env)
        assert (probe.version, bool(probe.problem)) == (version, not version)
