"""`tieline run` without a hub obeys the rules that people saved, and none that its agent writes."""

import asyncio
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tieline import paths
from tieline.bus import open_bus
from tieline.script import Run, Say
from tieline.sessions.ask_rules import AskRule
from tieline.sessions.rule_book import JOINED_RULES, RULES, JoinedRules
from tieline.testing.cli_process import CliProcess

OTHER = AskRule(id="r9", match="exact", pattern="touch second", made_by="nobody")
"""One that nobody made."""
FORGE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
insert = "INSERT INTO entries (tbl, key, revision, value) VALUES ('ask-rules', 'r9', 999999, ?)"
connection.execute(insert, (sys.argv[2].encode(),))
connection.commit()
"""


def save(cli: CliProcess, *rules: AskRule, joined: bool = False) -> Path:
    file = paths.bus_file(cli.env)
    file.parent.mkdir(parents=True, exist_ok=True)

    async def put() -> None:
        async with open_bus(f"sqlite://{file}") as bus:
            for rule in rules:
                await bus.table(RULES).put(rule.id, msgspec.json.encode(rule))
            if joined:
                theirs = JoinedRules(hub="https://hub.example", rules=(OTHER,))
                await bus.table(JOINED_RULES).put("hub", msgspec.json.encode(theirs))

    asyncio.run(put())
    return file


def run(cli: CliProcess, *commands: str, policy: str = "ask", agent: str = "helper") -> str:
    cli.agent(agent, [*map(Run, commands)], [Say("Done.")])
    ended = cli.run("run", agent, "go", "--policy", policy, "--on-ask", "deny")
    return ended.stdout + ended.stderr


def made(cli: CliProcess, name: str) -> bool:
    return (cli.place / name).exists()


def test_a_saved_rule_answers_and_says_so(cli: CliProcess) -> None:
    first = AskRule(id="r1", match="exact", pattern="touch first", made_by="Phone", directory=str(cli.place))
    revoked = AskRule(id="r2", match="exact", pattern="touch revoked", revoked_at=1.0)
    elsewhere = AskRule(id="r3", match="exact", pattern="touch elsewhere", directory=str(cli.place / "below"))
    save(cli, first, revoked, elsewhere)
    output = run(cli, "touch first", "touch second", "touch revoked", "touch elsewhere")
    assert made(cli, "first") and "a rule says: allow" in output and "made by Phone" in output
    assert not any(made(cli, name) for name in ("second", "revoked", "elsewhere"))


def test_what_a_joined_machine_has_of_its_hub_holds_too(cli: CliProcess) -> None:
    save(cli, joined=True)
    run(cli, "touch second")
    assert made(cli, "second")


def test_the_policys_deny_comes_first(cli: CliProcess) -> None:
    save(cli, AskRule(id="r1", match="exact", pattern="touch first"))
    run(cli, "touch first", policy="read-only")
    assert not made(cli, "first")


def test_a_deny_rule_denies(cli: CliProcess) -> None:
    save(cli, AskRule(id="r1", match="exact", pattern="touch first", decision="deny"))
    output = run(cli, "touch first")
    assert not made(cli, "first") and "a rule says: deny" in output


def test_an_agent_gives_itself_no_rule(cli: CliProcess, tmp_path: Path) -> None:
    """With a command that is allowed it writes one into the file; what it then wants is for people all the same."""
    script = tmp_path / "forge.py"
    script.write_text(FORGE)
    file = paths.bus_file(cli.env)
    forge = f"{sys.executable} {script} {file} '{msgspec.json.encode(OTHER).decode()}'"
    save(cli, AskRule(id="r1", match="exact", pattern=forge))
    run(cli, forge, "touch second")
    with closing(sqlite3.connect(file)) as connection, connection:
        assert connection.execute("SELECT count(*) FROM entries WHERE key = 'r9'").fetchone() == (1,), "it did write it"
    assert not made(cli, "second")


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"x" * 200])
def test_a_file_that_cannot_be_read_leaves_all_to_people(cli: CliProcess, content: bytes) -> None:
    file = paths.bus_file(cli.env)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    output = run(cli, "touch first")
    assert not made(cli, "first") and "your rules for asks do not hold here" in output


def test_rules_that_only_a_hub_reads_are_said_not_to_hold(cli: CliProcess) -> None:
    cli.configure('bus = "nats://127.0.0.1:1"\n')
    output = run(cli, "touch first")
    assert not made(cli, "first")
    assert "your rules for asks do not hold here: only a running hub can read a bus of scheme 'nats'" in output
    full = cli.run("run", "helper", "go", "--policy", "full")
    assert "rules for asks" not in full.stderr, "nothing is asked"
