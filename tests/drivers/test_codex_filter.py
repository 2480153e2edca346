"""The filter between codex-acp and its Codex: what each message becomes, and what each policy makes of it."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tieline.drivers.acp.launch import launch_command
from tieline.drivers.acp.policy import codex_filter, receipt
from tieline.drivers.acp_presets import PRESETS
from tieline.drivers.base import Spec
from tieline.policy import CAPABILITIES, Policy, every_policy

ECHO = '#!/bin/sh\necho "$@"\nexec cat\n'
"""In place of Codex: says its arguments, then all that it hears."""
HELD = Policy("allow", "ask", "deny")
FULL = Policy("allow", "allow", "allow")


def passed(folder: Path, policy: Policy, *messages: dict[str, Any]) -> list[Any]:
    """What Codex hears of these."""
    codex, program = folder / "codex", folder / "filter.cjs"
    codex.write_text(ECHO)
    program.write_text(codex_filter("codex-acp", str(codex), Spec(cwd=str(folder), policy=policy)))
    codex.chmod(0o700)
    lines = "".join(f"{json.dumps(message, ensure_ascii=False)}\n" for message in messages)
    node = shutil.which("node") or "node"
    process = subprocess.run(
        [node, str(program), "app-server"], input=lines, capture_output=True, text=True, timeout=60, check=True
    )
    arguments, *heard = process.stdout.rstrip("\n").split("\n")
    assert arguments == "app-server"
    return [json.loads(line) for line in heard]


@pytest.mark.slow
def test_what_passes(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()  # a repository ends here, whatever lies above
    projects = {"projects": {"/place": {"trust_level": "trusted"}}, "features": {"theirs": False}}
    turn = {"threadId": "t", "approvalPolicy": "on-request", "approvalsReviewer": "auto_review", "permissions": "mine"}
    answers = [{"id": 5, "result": {"decision": word}} for word in ("accept", "cancel")]
    other = {"id": 6, "method": "turn/steer", "params": {"threadId": "t", "input": "\u2028 ü"}}
    thread, resumed, title, began, yes, no, same = passed(
        tmp_path,
        HELD,
        {"id": 1, "method": "thread/start", "params": {"cwd": "/place", "config": projects}},
        {"id": 2, "method": "thread/resume", "params": {"threadId": "t"}},
        {"id": 3, "method": "thread/start", "params": {"cwd": "/place", "ephemeral": True}},
        {"id": 4, "method": "turn/start", "params": turn},
        *answers,
        other,
    )
    asking = {"approvalPolicy": "untrusted", "approvalsReviewer": "user"}
    config = thread["params"].pop("config")
    here = {str(tmp_path): {"trust_level": "untrusted"}}
    assert config["projects"] == {"/place": {"trust_level": "untrusted"}, **here}
    assert config["web_search"] == "disabled"
    assert config["features"] == {"theirs": False, "default_mode_request_user_input": True}
    assert thread["params"] == {"cwd": "/place", **asking, "sandbox": "danger-full-access"}
    assert resumed["params"]["approvalPolicy"] == "untrusted"
    assert resumed["params"]["config"]["projects"] == here, "of which the adapter says nothing"
    assert (title["id"], title["method"]) == (3, "tieline/no-titles"), "which Codex does not know"
    assert began["params"] == {"threadId": "t", **asking, "sandboxPolicy": {"type": "dangerFullAccess"}}
    assert (yes, no["result"]) == (answers[0], {"decision": "decline"})
    assert same == other


@pytest.mark.slow
def test_with_everything_allowed_nothing_asks(tmp_path: Path) -> None:
    never = {"threadId": "t", "approvalPolicy": "never"}
    (turn,) = passed(tmp_path, FULL, {"id": 1, "method": "turn/start", "params": never})
    assert turn["params"] == {**never, "sandboxPolicy": {"type": "dangerFullAccess"}}


@pytest.mark.parametrize("policy", every_policy(), ids=str)
def test_every_policy(policy: Policy) -> None:
    preset = PRESETS["codex-acp"]
    launch = launch_command(preset, (), Spec(cwd="/", env={"CODEX_PATH": "/mine"}, policy=policy), "/scratch")
    program = launch.files[launch.env["CODEX_PATH"]]
    settings = json.loads(program.splitlines()[1].removeprefix("const SETTINGS = ").removesuffix(";"))
    full = policy == FULL
    assert settings["codex"] == "/mine"
    assert settings["turn"].get("approvalPolicy") == settings["thread"].get("approvalPolicy")
    assert settings["turn"].get("approvalPolicy") == (None if full else "untrusted")
    assert settings["config"]["web_search"] == ("live" if policy.network == "allow" else "disabled")
    assert launch.env["INITIAL_AGENT_MODE"] == ("agent-full-access" if full else "read-only")
    means = [receipt(preset, policy).of(capability).means for capability in CAPABILITIES]
    assert means == (["rule"] * 3 if full else ["prompt", "prompt", "rule"])
