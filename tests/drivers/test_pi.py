"""Pi without Pi: how it is started, what its records mean, and what our extension lets pass. The real one is run by
`make test-agents`."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tieline.drivers.base import Spec
from tieline.drivers.pi import driver as pi
from tieline.drivers.pi.events import PiNormaliser
from tieline.drivers.pi.launch import CONFIG_VAR, EXTENSION, MARK, launch_command
from tieline.drivers.pi.tools import action_of, read_and_preview
from tieline.errors import UsageError
from tieline.events import Command, Diff, Error, Event, Mcp, OtherAction, Text, ToolOutput, ToolResult
from tieline.policy import Policy, preset

HELD = Policy("allow", "ask", "allow")
USAGE = {"input": 10, "output": 4, "cacheRead": 3, "cacheWrite": 0, "cost": {"total": 0.25}}


def spec(policy: Policy = HELD, **options: Any) -> Spec:
    return Spec(cwd="/home/someone/shop", policy=policy, **options)


def test_what_could_act_unasked_is_loaded_only_where_nothing_is_held_back() -> None:
    held = launch_command(("pi",), (), spec(), "/scratch")
    assert {"--no-extensions", "--no-approve"} <= set(held.argv)
    assert held.argv[3:5] == ("--extension", str(EXTENSION))
    settings = json.loads(held.files[held.env[CONFIG_VAR]])
    assert "known" not in settings and "bash" not in settings["unasked"]
    free = launch_command(("pi",), (), spec(policy=preset("full")), "/scratch")
    assert not {"--no-extensions", "--no-approve"} & set(free.argv)
    assert "bash" in json.loads(free.files[free.env[CONFIG_VAR]])["known"]


def test_a_caller_cannot_take_the_place_of_our_extension() -> None:
    launch = launch_command(("pi",), (), spec(env={CONFIG_VAR: "/mine.json"}), "/scratch")
    assert launch.env[CONFIG_VAR] == "/scratch/tieline-pi.json"
    for argument in ("--approve", "-e", "--session=x", "--no-extensions"):
        with pytest.raises(UsageError, match="Tieline's own"):
            pi.create("pi", {"args": [argument]})


def test_the_system_text_is_not_taken_for_a_path() -> None:
    launch = launch_command(("pi",), (), spec(system="/etc/passwd"), "/scratch")
    path = launch.argv[launch.argv.index("--append-system-prompt") + 1]
    assert launch.files[path] == "/etc/passwd"
    assert "/etc/passwd" not in launch.argv


@pytest.mark.parametrize("id", ["../session.jsonl", "/tmp/session.jsonl", "--approve", "a b", "."])
def test_only_an_id_is_resumed(id: str) -> None:
    with pytest.raises(UsageError, match="is not the id"):
        launch_command(("pi",), (), spec(resume=id), "/scratch")


def test_actions() -> None:
    assert action_of("bash", {"command": "ls"}) == Command("ls")
    assert action_of("mcp__words__speak", {}) == Mcp("words", "speak")
    assert action_of("greet", {"x": 1}) == OtherAction()


def test_an_edit_is_placed_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\ntwo and a half\n")
    edits = [{"oldText": "three", "newText": "3"}, {"oldText": "one", "newText": "1"}]
    preview, change = read_and_preview("edit", {"path": "a.txt", "edits": edits}, str(tmp_path))
    assert change and change.after == "1\ntwo\n3\ntwo and a half\n"
    assert "-three\n" in preview.edit.diff and "+3\n" in preview.edit.diff and not preview.note
    unplaced, none = read_and_preview(
        "edit", {"path": "a.txt", "edits": [{"oldText": "two", "newText": "2"}]}, str(tmp_path)
    )
    assert none is None and "cannot be placed" in unplaced.note, "it is there twice"
    assert "+2" in unplaced.edit.diff, "and yet what it wants is shown"


def test_a_file_that_cannot_be_shown_is_not_overwritten_by_a_yes(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\xff\xfe\x00")
    preview, change = read_and_preview("write", {"path": "a.bin", "content": "x\n"}, str(tmp_path))
    assert "would be gone" in preview.withheld and change is None


class Recorder:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.normaliser = PiNormaliser(self.events.append, "/home/someone/shop")

    def message(self, stop: str, **more: Any) -> None:
        self.normaliser.feed({"type": "message_end", "message": {"role": "assistant", "stopReason": stop, **more}})


def test_tokens_are_those_of_all_model_calls() -> None:
    recorder = Recorder()
    recorder.message("toolUse", usage=USAGE)
    recorder.message("stop", usage=USAGE)
    tokens = recorder.normaliser.tokens
    assert tokens is not None and (tokens.input, tokens.output, tokens.cache_read) == (20, 8, 6)
    assert (tokens.cost_usd, recorder.normaliser.usage, recorder.normaliser.failure) == (0.5, "complete", "")


def test_a_failure_that_was_tried_again_is_none_and_its_tokens_are_not_known() -> None:
    recorder = Recorder()
    recorder.message("error", errorMessage="overloaded")
    recorder.normaliser.feed({"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "errorMessage": "overloaded"})
    recorder.message("stop", usage=USAGE)
    assert (recorder.normaliser.failure, recorder.normaliser.usage) == ("", "partial")
    assert [event.recoverable for event in recorder.events if isinstance(event, Error)] == [True]


@pytest.mark.parametrize(
    ("stop", "why"), [("error", "400"), ("length", "token limit"), ("aborted", "gave the turn up")]
)
def test_what_is_no_answer_is_no_success(stop: str, why: str) -> None:
    recorder = Recorder()
    assert recorder.normaliser.failure, "nothing was said at all"
    recorder.message(stop, **({"errorMessage": "400 no"} if stop == "error" else {}))
    assert why in recorder.normaliser.failure


def test_output_is_told_once_and_changes_after_they_were_made(tmp_path: Path) -> None:
    recorder = Recorder()
    call = {"toolCallId": "c1", "toolName": "write", "args": {"path": "/home/someone/shop/a.txt", "content": "x\n"}}
    recorder.normaliser.feed({"type": "tool_execution_start", **call})
    _, change = read_and_preview("write", {"path": str(tmp_path / "a.txt"), "content": "x\n"}, str(tmp_path))
    recorder.normaliser.propose("c1", change)
    for text in ("one", "one two"):
        recorder.normaliser.feed(
            {"type": "tool_execution_update", **call, "partialResult": {"content": [{"text": text}]}}
        )
    assert [event.text for event in recorder.events if isinstance(event, ToolOutput)] == ["one", " two"]
    assert not any(isinstance(event, Diff) for event in recorder.events)
    recorder.normaliser.feed(
        {"type": "tool_execution_end", **call, "result": {"content": [{"text": "ok"}]}, "isError": False}
    )
    assert [event.status for event in recorder.events if isinstance(event, ToolResult)] == ["ok"]
    (diff,) = [event for event in recorder.events if isinstance(event, Diff)]
    assert "+x" in diff.diff
    recorder.normaliser.feed(
        {"type": "message_update", "assistantMessageEvent": {"type": "text_end", "content": "Done."}}
    )
    assert [event.text for event in recorder.events if isinstance(event, Text)] == ["Done."]


ASKING = """
const { default: extension } = await import(process.argv[2]);
let handler;
extension({ on: (event, given) => { if (event === "tool_call") handler = given; } });
const results = [];
for (const [name, answer] of JSON.parse(process.argv[3])) {
  const event = { toolCallId: "c1", toolName: name, input: { command: "ls" } };
  const asked = [];
  const input = async (title) => {
    asked.push(title);
    if (answer === "throw") throw new Error("no dialog");
    if (answer === "change") { event.input.command = "rm -rf /"; return "allow"; }
    return answer ?? undefined;
  };
  let outcome;
  try { outcome = (await handler(event, { ui: { input } })) ?? null; } catch { outcome = "thrown"; }
  results.push([asked.length, asked[0] ?? "", outcome]);
}
console.log(JSON.stringify([results, process.env.TIELINE_PI_CONFIG ?? ""]));
"""


@pytest.mark.skipif(not shutil.which("node"), reason="the extension runs in Node.js")
@pytest.mark.parametrize("policy", [HELD, preset("full")], ids=["held", "free"])
def test_the_extension_lets_nothing_pass_without_an_answer(tmp_path: Path, policy: Policy) -> None:
    launch = launch_command(("pi",), (), spec(policy=policy), str(tmp_path))
    for path, content in launch.files.items():
        Path(path).write_text(content)
    cases = [("bash", "allow"), ("bash", "not here"), ("bash", None), ("bash", ""), ("bash", "change"),
             ("bash", "throw"), ("read", "never"), ("custom", "no")]  # fmt: skip
    env = {"PATH": os.environ["PATH"], CONFIG_VAR: launch.env[CONFIG_VAR]}
    script = tmp_path / "ask.mjs"
    script.write_text(ASKING)
    ran = subprocess.run(["node", script, EXTENSION, json.dumps(cases)], env=env, capture_output=True, timeout=60)
    results, variable = json.loads(ran.stdout)
    allowed, refused, unanswered, empty, changed, failed, read, custom = results
    assert allowed[2] is None
    assert json.loads(allowed[1].removeprefix(MARK)) == {"id": "c1", "name": "bash", "input": {"command": "ls"}}
    assert refused[2] == {"block": True, "reason": "not here"}
    assert unanswered[2]["block"] and empty[2]["block"]
    assert changed[2]["block"], "what runs is what was asked about"
    assert failed[2] == "thrown", "which blocks the tool, in Pi"
    assert read[0] == 0
    assert custom[0] == (0 if policy == preset("full") else 1)
    assert variable == "", "commands do not see it"
