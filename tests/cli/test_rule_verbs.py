"""`tieline rules`, and `tieline approve --always`."""

import json
from collections.abc import Generator
from typing import Any

import pytest
from tests.cli.hub_process import HubProcess, Setting
from tests.cli.test_hub_verbs import ok, started, waiting

from tieline.script import Run, Say


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Generator[Setting, None, None]:
    setting = Setting(tmp_path_factory.mktemp("rule_verbs"))
    setting.agent("tester", [Run("true unit tests")], [Say("They pass.")])
    setting.agent("trickster", [Run("true unit; touch escaped")], [Say("Well.")])
    with HubProcess(setting):
        yield setting


def rules(hub: Setting) -> list[dict[str, Any]]:
    return json.loads(ok(hub, "rules", "--json"))


@pytest.mark.slow
def test_an_approval_becomes_a_rule_and_ends(hub: Setting) -> None:
    first = started(hub, "tester", "first")
    waiting(hub, first)
    wrong = hub.run("approve", "--always", "host", "--yes")
    assert wrong.returncode == 2 and "by its host" in wrong.stderr and "exact, prefix" in wrong.stderr
    assert hub.run("approve", "--always", "often").returncode == 2
    alone = hub.run("approve", "--always", "prefix")
    assert alone.returncode == 2 and "Add --yes" in alone.stderr and rules(hub) == []

    with hub.terminal("approve", "--always", "prefix", columns=200) as terminal:
        terminal.expect("save this rule? [y/N]")
        terminal.send("\x03")
        assert terminal.wait() == 130 and rules(hub) == [], "Ctrl-C ends it, without a line after it"
    with hub.terminal("approve", "--always", "prefix", columns=200) as terminal:
        terminal.expect(f"the rule: allow commands that begin with `true unit tests`, in {hub.place.resolve()}")
        terminal.expect("save this rule? [y/N]")
        terminal.send("n\n")
        terminal.expect("nothing was saved")
        assert terminal.wait() == 1 and rules(hub) == []
    output = ok(hub, "approve", "--always", "prefix", "--yes")
    assert "would have allowed 1 of the last 1" in output, "it is tested before it is saved"
    assert "allow commands that begin with `true unit tests`" in output and "allowed: " in output
    assert hub.until(first, lambda record: record.outcome is not None).outcome == "success"

    second = started(hub, "tester", "second")
    assert hub.until(second, lambda record: record.outcome is not None).outcome == "success"
    shown = ok(hub, "tail", second, "--no-follow")
    assert "allowed: a rule says: allow commands that begin with `true unit tests`" in shown and "made by" in shown

    (rule,) = rules(hub)
    assert (rule["uses"], rule["directory"], rule["match"]) == (1, str(hub.place.resolve()), "prefix")
    head, row = ok(hub, "rules").splitlines()
    assert head.split()[0] == "id" and "true unit tests" in row and "once" in row and "holds" in row
    page = ok(hub, "rules", "show", rule["id"][-6:])
    assert "made" in page and "from ask" in page and "once in the last day" in page
    assert ok(hub, "rules", "revoke", rule["id"][-6:]).startswith("revoked: allow commands")
    assert "revoked" in ok(hub, "rules")

    third = started(hub, "tester", "third")
    waiting(hub, third)
    ok(hub, "deny", "--reason", "no longer")


def test_rules_that_are_typed(hub: Setting) -> None:
    session = started(hub, "tester", "asks")  # a rule is tested with what was asked
    waiting(hub, session)
    ok(hub, "deny")
    tested = json.loads(ok(hub, "rules", "test", "prefix", "true", "--json"))
    assert tested["matched"] <= tested["tested"] and "would have allowed" in tested["text"]
    assert "of the last" in ok(hub, "rules", "test", "prefix", "true", "--deny", "--everywhere")
    (hub.place / "src").mkdir()
    made = [
        json.loads(ok(hub, "rules", "add", *arguments, "--yes", "--json"))
        for arguments in (
            ("edit", "src", "--agent", "editor"),
            ("host", ".example.com", "--everywhere", "--for", "7d"),
            ("exact", "git push; x", "--deny", "--everywhere"),
        )
    ]
    assert made[0]["pattern"] == f"{hub.place.resolve()}/src/" and made[0]["directory"] == str(hub.place.resolve())
    assert made[1]["expires_at"] > made[1]["made_at"] and made[1]["directory"] == ""
    assert made[2]["decision"] == "deny"
    for rule in made:
        ok(hub, "rules", "revoke", rule["id"])


def test_a_person_is_asked_before_it_is_saved(hub: Setting) -> None:
    before = len(rules(hub))
    with hub.terminal("rules", "add", "prefix", "true never") as terminal:
        terminal.expect("save this rule?")
        terminal.send("n\r")
        assert terminal.wait() != 0
    assert len(rules(hub)) == before
    with hub.terminal("rules", "add", "prefix", "true ever") as terminal:
        terminal.expect("save this rule?")
        terminal.send("y\r")
        assert terminal.wait() == 0
    (made,) = (rule for rule in rules(hub) if rule["pattern"] == "true ever")
    ok(hub, "rules", "revoke", made["id"])


def test_a_trick_is_asked_all_the_same(hub: Setting) -> None:
    made = json.loads(ok(hub, "rules", "add", "prefix", "true unit", "--yes", "--json"))
    session = started(hub, "trickster", "go")
    waiting(hub, session)
    ok(hub, "deny")
    hub.until(session, lambda record: record.outcome is not None)
    assert not (hub.place / "escaped").exists()
    ok(hub, "rules", "revoke", made["id"])


def test_what_is_wrong_is_said(hub: Setting) -> None:
    before = rules(hub)
    for arguments, problem in (
        (("add", "prefix", "a; b", "--yes"), "not one plain command"),
        (("add", "prefix", "bash -c", "--yes"), "runs whatever comes after it"),
        (("add", "glob", "*", "--yes"), "glob"),
        (("add", "host", "https://example.com", "--yes"), "not a host"),
        (("add", "exact", "x", "--for", "ever", "--yes"), "12h, 7d"),
        (("add", "exact", "x", "--dir", ".", "--everywhere", "--yes"), "not both"),
        (("add", "exact", "x", "--machine", "nowhere", "--yes"), "nowhere"),
        (("show", "nobody"), "tieline rules"),
        (("revoke", "nobody"), "tieline rules"),
    ):
        ended = hub.run("rules", *arguments)
        assert ended.returncode == 2 and problem in ended.stderr, (arguments, ended.stderr)
    assert rules(hub) == before
