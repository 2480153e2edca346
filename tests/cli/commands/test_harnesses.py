"""`tieline install`, `uninstall`, `harnesses` and `status HARNESS`, run as a person does."""

import json
from pathlib import Path

import pytest

from tieline.testing.cli_process import CliProcess

SETTINGS = '{\n  // mine\n  "theme": "dark",\n}'


@pytest.fixture
def home(cli: CliProcess) -> Path:
    """With Claude Code and Codex, to judge by their folders."""
    home = Path(cli.env["HOME"])
    (home / ".claude").mkdir(parents=True)
    (home / ".claude/settings.json").write_text(SETTINGS)
    (home / ".codex").mkdir()
    return home


def ok(cli: CliProcess, *arguments: str) -> str:
    ended = cli.run(*arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_install_status_and_uninstall(cli: CliProcess, home: Path) -> None:
    output = ok(cli, "install", "claude-code", "codex")
    assert "claude-code: installed" in output and "codex: installed" in output
    assert "mcp_servers.tieline" in (home / ".codex/config.toml").read_text()
    assert cli.program in (home / ".claude.json").read_text()
    assert "is installed already" in ok(cli, "install", "codex")

    rows = [line.split()[:2] for line in ok(cli, "status", "claude", "codex").splitlines()[1:]]
    assert {state for _, state in rows} == {"installed"} and {name for name, _ in rows} == {"claude-code", "codex"}
    status = cli.run("status", "--json")
    assert [(each["harness"], each["installed"]) for each in json.loads(status.stdout)["harnesses"]] == [
        ("claude-code", "yes"),
        ("codex", "yes"),
    ]

    assert "codex: removed" in ok(cli, "uninstall", "--yes")
    assert (home / ".claude/settings.json").read_text() == SETTINGS
    assert list((home / ".codex").iterdir()) == [] and not (home / ".claude.json").exists()
    assert "Nothing is installed." in ok(cli, "uninstall", "--yes")
    missing = cli.run("status", "codex")
    assert missing.returncode == 1 and "missing" in missing.stdout


def test_harnesses_that_share_a_file_are_installed_and_removed_together(cli: CliProcess, home: Path) -> None:
    together = ("codex", "copilot", "cursor")
    output = ok(cli, "install", *together, "--yes")
    assert all(f"{name}: installed" in output for name in together)
    skill = home / ".agents/skills/tieline/SKILL.md"
    assert "is installed already" in ok(cli, "install", *together, "--yes") and skill.exists()
    assert "codex: removed" in ok(cli, "uninstall", "codex", "--yes")
    assert skill.exists(), "the others have it still"
    assert "copilot: removed" in ok(cli, "uninstall", "--yes")
    assert not skill.exists()


def test_files_are_shown_whole_and_what_is_wrong_with_one_too(cli: CliProcess, home: Path) -> None:
    with cli.terminal("install", "claude-code", "--yes", columns=80) as terminal:
        terminal.expect("skill /tieline   ~/.claude/skills/tieline/SKILL.md")
        assert terminal.wait() == 0
    (home / ".claude.json").write_text('{"theme": "dark",\n "mcpServers": oops}')
    ended = cli.run("status", "claude-code")
    assert "~/.claude.json: it is not valid JSON: a value is missing (line 2, column 16)" in ended.stdout
    assert "~/.claude/CLAUDE.md" in ended.stdout


def test_a_dry_run_shows_each_line_and_changes_nothing(cli: CliProcess, home: Path) -> None:
    output = ok(cli, "install", "--dry-run")
    assert "+[mcp_servers.tieline]" in output and '+  "hooks"' in output
    assert "4 files would change" in output
    assert (home / ".claude/settings.json").read_text() == SETTINGS and not (home / ".codex/config.toml").exists()


def test_without_names_a_person_is_asked(cli: CliProcess, home: Path) -> None:
    refused = cli.run("install")
    assert refused.returncode == 2 and "--yes" in refused.stderr
    for answer, installed in (("\n", False), ("y\n", True)):
        with cli.terminal("install", columns=200) as terminal:
            terminal.expect("Install this? [y/N]")
            terminal.send(answer)
            assert terminal.wait() == (0 if installed else 1)
        assert (home / ".codex/config.toml").exists() == installed


def test_json_tells_what_was_done(cli: CliProcess, home: Path) -> None:
    (outcome,) = json.loads(ok(cli, "install", "codex", "--hooks", "--json"))
    assert outcome["harness"] == "codex" and outcome["applied"] and not outcome["problem"]
    assert {each["what"]: each["action"] for each in outcome["changes"]}["hooks"] == "create"
    assert "/hooks" in outcome["notes"][0]


def test_one_project_only(cli: CliProcess, home: Path) -> None:
    ok(cli, "install", "claude-code", "codex", "--project", ".")
    assert (cli.place / ".mcp.json").exists() and (cli.place / ".codex/config.toml").exists()
    assert list((home / ".codex").iterdir()) == []
    ok(cli, "uninstall", "--project", ".", "--yes")
    assert list(cli.place.iterdir()) == []


def test_the_hubs_address_where_the_harness_dials_itself(cli: CliProcess, home: Path) -> None:
    cli.configure("[hub]\nport = 4321\n")
    ok(cli, "install", "claude-code", "--transport", "http")
    entry = json.loads((home / ".claude.json").read_text())["mcpServers"]["tieline"]
    assert entry["url"] == "http://127.0.0.1:4321/mcp"
    assert "installed" in ok(cli, "status", "claude-code"), "whichever the transport is"
    ok(cli, "install", "claude-code", "--transport", "http", "--url", "https://hub.example/")
    assert '"https://hub.example/mcp"' in (home / ".claude.json").read_text()


def test_one_bad_file_does_not_stop_the_others(cli: CliProcess, home: Path) -> None:
    (home / ".claude.json").write_text("{oops")
    ended = cli.run("install", "claude-code", "codex")
    assert ended.returncode == 1
    assert "line 1, column 2" in ended.stderr and "codex: installed" in ended.stdout
    assert (home / ".claude.json").read_text() == "{oops"
    assert (home / ".claude/settings.json").read_text() == SETTINGS, "nothing of a harness is half installed"


def test_harnesses_lists_what_is_known(cli: CliProcess, home: Path) -> None:
    (home / "bin").mkdir()
    (home / "bin/codex").write_text("#!/bin/sh\necho 9.8.7\n")
    (home / "bin/codex").chmod(0o755)
    cli.env = {**cli.env, "PATH": f"{home}/bin:{cli.env['PATH']}"}
    assert "9.8.7" in ok(cli, "harnesses") and "tieline install codex" in ok(cli, "harnesses")
    harnesses = {each["harness"]: each for each in json.loads(ok(cli, "harnesses", "--json"))}
    assert harnesses["codex"]["program"] == f"{home}/bin/codex" and harnesses["codex"]["installed"] == "no"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("install", "claud-code"), "Did you mean claude-code?"),
        (("install", "codex", "--project", "nowhere"), "is not a directory"),
        (("install", "codex", "--project", ".", "--global"), "exclude each other"),
        (("install", "codex", "--url", "http://127.0.0.1:1"), "--transport http"),
        (("uninstall", "emacs"), "There are:"),
    ],
)
def test_a_wrong_call_says_what_to_do(arguments: tuple[str, ...], message: str, cli: CliProcess) -> None:
    ended = cli.run(*arguments)
    assert ended.returncode == 2 and message in ended.stderr


@pytest.mark.slow
def test_terminals_are_read_along_only_when_their_person_agrees(cli: CliProcess, home: Path) -> None:
    assert "Agree with `tieline install --attach`." in ok(cli, "attach")
    refused = cli.run("install", "codex", "--attach")
    assert refused.returncode == 2 and "--yes" in refused.stderr and "Tieline reads its threads" in refused.stdout
    assert not json.loads(ok(cli, "attach", "--json"))["harnesses"][0]["since"]
    with cli.terminal("install", "codex", "--attach", columns=200) as terminal:
        terminal.expect("From elsewhere you can prompt")
        terminal.expect("Install this? [y/N]")
        terminal.send("y\n")
        assert terminal.wait() == 0

    def agreed() -> dict[str, bool]:
        return {each["harness"]: bool(each["since"]) for each in json.loads(ok(cli, "attach", "--json"))["harnesses"]}

    assert agreed() == {
        "claude-code": False,
        "codex": True,
        "copilot": False,
        "gemini": False,
        "opencode": False,
        "pi": False,
        "qwen": False,
        "vibe": False,
        "kimi": False,
        "droid": False,
    }
    status = cli.run("status")
    assert "reads its threads, from the daemon that its terminals share (agreed" in status.stdout
    cannot = cli.run("install", "generic", "--attach", "--yes")
    assert (
        cannot.returncode == 2
        and "It works for claude-code, codex, gemini, opencode, copilot, qwen, pi, vibe, kimi, droid." in cannot.stderr
    )

    assert "are not read any more" in ok(cli, "attach", "off")
    shown = json.loads(ok(cli, "attach", "--json"))
    assert shown["off"] == [str(cli.place)] and not shown["here"]
    assert "are read along" in ok(cli, "attach", "on", str(cli.place))
    ok(cli, "uninstall", "codex", "--yes")
    assert not any(agreed().values())
    assert "Nothing is read along yet" in ok(cli, "attach", "on")
    assert json.loads(ok(cli, "attach", "on", "--json"))["read"] is False
    assert "will not be read along either" in ok(cli, "attach", "off")
