"""`tieline schedule`: add, list, show, run, pause, resume, edit, remove."""

import json
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cli.hub_process import HubProcess, Setting
from tests.cli.test_hub_verbs import completed, ok

from tieline.cli.app import app
from tieline.cli.commands import schedules
from tieline.testing.cli_process import WAIT_S


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Generator[Setting, None, None]:
    setting = Setting(tmp_path_factory.mktemp("schedule_verbs"))
    setting.env = {**setting.env, "TZ": "Europe/Berlin"}
    with HubProcess(setting):
        yield setting


def named(hub: Setting, name: str) -> dict[str, Any]:
    (schedule,) = (each for each in json.loads(ok(hub, "schedule", "--json")) if each["name"] == name)
    return schedule


@pytest.mark.slow
def test_from_adding_it_to_its_result(hub: Setting) -> None:
    output = ok(hub, "schedule", "add", "0 9 * * 1-5", "say hello", "--agent", "talker", "--policy", "read-only")
    assert output.startswith("say-hello: next ") and output.rstrip().endswith("09:00 (Europe/Berlin)")
    head, *rows = ok(hub, "schedule").splitlines()
    (row,) = (row for row in rows if row.startswith("say-hello "))
    assert head.split()[:4] == ["name", "when", "zone", "next"]
    assert "0 9 * * 1-5" in row and "Europe/Berlin" in row and "never" in row and "talker" in row
    listed = named(hub, "say-hello")
    assert listed["cwd"] == str(hub.place) and listed["policy"]["shell"] == "deny"

    assert "tieline tail" in ok(hub, "schedule", "run", "say-hello")
    deadline = time.monotonic() + WAIT_S
    while not (shown := json.loads(ok(hub, "schedule", "show", "say-hello", "--json")))["runs"][0].get("outcome"):
        assert time.monotonic() < deadline, shown
    page = ok(hub, "schedule", "show", listed["id"][-6:])
    assert "policy  file_write deny, shell deny" in page and "success" in page and "world." in page
    assert page.count("09:00") == 5, "the coming times"

    assert "paused" in ok(hub, "schedule", "pause", "say-hello")
    assert "paused" in ok(hub, "schedule", "list")
    assert "next" in ok(hub, "schedule", "resume", "say-hello")
    edited = json.loads(ok(hub, "schedule", "edit", "say-hello", "--cron", "@daily", "--rename", "nightly", "--json"))
    assert (edited["cron"], edited["name"], edited["prompt"]) == ("@daily", "nightly", "say hello")
    assert ok(hub, "schedule", "remove", "nightly") == "removed: nightly\n"
    assert "nightly" not in ok(hub, "schedule", "list")


def test_edit_changes_all_that_add_takes(hub: Setting, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n")
    ok(hub, "schedule", "add", "@daily", "say hello", "--agent", "talker", "--name", "changed", "--timeout", "60")
    edited = json.loads(ok(
        hub, "schedule", "edit", "changed", "--allow", "shell", "--deny", "network", "--system", "Be brief.",
        "--max-turns", "7", "--max-budget-usd", "2.5", "--allowed-tools", "Read,Bash(ls)", "--disallowed-tools", "Web",
        "--environment", "DEBUG=1", "--environment", "A=b,c", "--accept-unenforced", "--attach",
        str(tmp_path / "notes.md"), "--cwd", "/tmp", "--agent", "worker", "--timeout", "0", "--json",
    ))  # fmt: skip
    assert edited["policy"] == {"file_write": "ask", "shell": "allow", "network": "deny"}, "the other line stays"
    assert (edited["system"], edited["max_turns"], edited["max_budget_usd"]) == ("Be brief.", 7, 2.5)
    assert (edited["allowed_tools"], edited["disallowed_tools"]) == (["Read", "Bash(ls)"], ["Web"])
    assert (edited["environment"], edited["accept_unenforced"]) == (["DEBUG=1", "A=b,c"], True)
    assert (edited["attachments"], edited["cwd"], edited["agent"]) == (["notes.md"], "/tmp", "worker")
    assert (edited["timeout_s"], edited["prompt"], edited["cron"]) == (None, "say hello", "@daily")
    page = ok(hub, "schedule", "show", "changed")
    assert "limits  7 model calls, 2.5 USD\n" in page and "tools   without asking Read, Bash(ls); none of Web\n" in page

    emptied = json.loads(ok(
        hub, "schedule", "edit", "changed", "--policy", "edits", "--system", "", "--max-turns", "0", "--attach", "",
        "--allowed-tools", "", "--environment", "", "--no-accept-unenforced", "--json",
    ))  # fmt: skip
    assert (emptied["policy"]["file_write"], emptied["policy"]["shell"]) == ("allow", "ask")
    assert not any(emptied[name] for name in ("system", "max_turns", "allowed_tools", "environment", "attachments"))
    assert (emptied["accept_unenforced"], emptied["max_budget_usd"]) == (False, 2.5)
    for arguments, problem in (
        (("--agent", "nobody"), "no agent 'nobody'"),
        (("--node", "nowhere"), "no node 'nowhere'"),
        (("--max-turns", "-1"), "--max-turns"),
        (("--resume", "abc"), "--fork"),
    ):
        ended = hub.run("schedule", "edit", "changed", *arguments)
        assert (ended.returncode, problem in ended.stderr) == (2, True), ended.stderr


def test_edit_has_the_options_of_add() -> None:
    verbs = getattr(typer.main.get_command(app), "commands", {})["schedule"].commands
    options = {verb: {name for param in verbs[verb].params for name in param.opts} for verb in ("add", "edit")}
    assert options["add"] - options["edit"] == {"when", "prompt", "--name", "--paused"}, (
        "by --cron, --prompt, --rename and `pause`"
    )


def test_each_run_in_a_worktree(hub: Setting) -> None:
    common = ("schedule", "add", "@daily", "look", "--agent", "talker", "--paused")
    ok(hub, *common, "--name", "with-tree", "--worktree")
    ok(hub, *common, "--name", "with-branch", "--branch", "nightly")
    assert (named(hub, "with-tree")["worktree"], named(hub, "with-branch")["branch"]) == (True, "nightly")
    assert "one for each run\n" in ok(hub, "schedule", "show", "with-tree")
    assert "one for each run, on nightly-…" in ok(hub, "schedule", "show", "with-branch")
    edited = json.loads(ok(hub, "schedule", "edit", "with-tree", "--branch", "fixes", "--json"))
    assert (edited["worktree"], edited["branch"]) == (True, "fixes")
    edited = json.loads(ok(hub, "schedule", "edit", "with-branch", "--no-worktree", "--json"))
    assert not edited.get("worktree") and not edited.get("branch")


def test_one_time(hub: Setting) -> None:
    once = ("--once", "2099-12-01 09:00", "--zone", "America/New_York", "--agent", "talker", "--name", "release")
    assert ok(hub, "schedule", "add", "release 2.0", *once) == "release: next Tue 2099-12-01 09:00 (America/New_York)\n"
    listed = named(hub, "release")
    assert (listed["prompt"], listed["once"], listed["cron"]) == ("release 2.0", "2099-12-01 09:00", "")
    ok(hub, "schedule", "remove", "release")


def test_what_is_wrong_is_said(hub: Setting) -> None:
    before = ok(hub, "schedule", "--json")
    for arguments, problem in (
        (("add", "0 9 * *", "x", "--agent", "talker"), "4 fields instead of five"),
        (("add", "@daily", "x", "--agent", "nobody"), "no agent 'nobody'"),
        (("add", "@daily", "x", "--agent", "talker", "--zone", "Mars"), "no time zone 'Mars'"),
        (("add", "@daily", "--agent", "talker"), "a time and a prompt are needed"),
        (("add", "@daily", "x", "--agent", "talker", "--resume", "abc"), "--fork"),
        (("add", "--once", "2020-01-01 00:00", "x", "--agent", "talker"), "is in the past"),
        (("add", "@daily", "x", "--agent", "talker", "--overlap", "both"), "overlap"),
        (("show", "nobody"), "tieline schedule list"),
        (("edit", "nobody"), "nothing to change"),
    ):
        ended = hub.run("schedule", *arguments)
        assert ended.returncode == 2, (arguments, ended.stderr)
        assert problem in ended.stderr, ended.stderr
    assert ok(hub, "schedule", "--json") == before


@pytest.mark.slow
def test_shells_complete_schedules(hub: Setting) -> None:
    ok(hub, "schedule", "add", "@daily", "complete me", "--agent", "talker")
    deadline = time.monotonic() + 60
    while "complete-me" not in completed(hub, "tieline schedule show com").split():  # a busy machine takes longer
        assert time.monotonic() < deadline
    ok(hub, "schedule", "remove", "complete-me")


def test_the_zone_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    link = tmp_path_factory.mktemp("zone") / "localtime"
    monkeypatch.setattr(schedules, "ZONE_LINK", link)
    for variable, target, expected in (
        (":America/New_York", "", "America/New_York"),
        ("", "/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
        ("CET-1CEST", "/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
        ("", "/somewhere/else", "UTC"),
        ("", "", "UTC"),
    ):
        monkeypatch.setenv("TZ", variable)
        link.unlink(missing_ok=True)
        if target:
            link.symlink_to(target)
        assert schedules.local_zone() == expected
