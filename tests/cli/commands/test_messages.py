"""`tieline message`, `inbox`, `dead` and `channels`: the program itself, against a hub in a process of its own."""

import json
import re
import subprocess
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.channels.conftest import SECRET
from tests.cli.hub_process import HubProcess

from tieline.bootstrap.process_lock import StartResult
from tieline.channels.webhook.signatures import check_secret
from tieline.cli.commands import daemon_control
from tieline.config import Config
from tieline.ids import short_id
from tieline.script import Say
from tieline.testing.cli_process import CliProcess

FOLDER = Path(__file__).parents[3] / "examples/channel_folder/folder_channel.py"


class Setting(CliProcess):
    url = ""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.notes = root / "notes"
        self.agent("talker", [Say("Hello from the agent.")], [Say("Hello again.")], [Say("And again.")])
        self.configure(
            f'[[channels]]\nid = "notes"\npath = "{FOLDER}"\nconfig = {{ folder = "{self.notes}" }}\n'
            f'[[channels]]\nid = "bad"\ntype = "webhook"\nconfig = {{ secrets = ["{SECRET}"], too = "relay.desk" }}\n'
            f'[[channels]]\nid = "away"\ntype = "webhook"\n'
            f'config = {{ secrets = ["{SECRET}"], url = "http://127.0.0.1:9/" }}\n'
            f'[[channels]]\nid = "ci"\ntype = "webhook"\n'
            f'config = {{ secrets = ["{SECRET}"], to = "relay.user.ci", text = "data.message" }}\n'
            f'[[channels]]\nid = "off"\ntype = "notify"\nenabled = false\n'
            f'[[channels]]\nid = "agents"\ntype = "agent"\n'
            f'[channels.config.projects.desk]\ncwd = "{self.place}"\nagent = "talker"\npolicy = "full"\n'
        )


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Generator[Setting, None, None]:
    setting = Setting(tmp_path_factory.mktemp("relay_verbs"))
    with HubProcess(setting) as process:
        setting.url = process.url
        yield setting


def ok(hub: CliProcess, *arguments: str, given: str = "") -> str:
    ended = hub.run(*arguments, given=given)
    assert ended.returncode == 0, ended.stderr + ended.stdout
    return ended.stdout


@pytest.mark.slow
def test_a_message_becomes_a_file_and_its_steps_are_shown(hub: Setting) -> None:
    id = ok(hub, "message", "send", "relay.folder.notes", "-", "--no-reply", given="from standard input\n").strip()
    tested = json.loads(ok(hub, "channels", "test", "notes", "--json"))
    assert tested["delivered"] is True
    shown = ok(hub, "message", "status", id)
    assert shown.startswith(f"{id}  injected")
    assert "relay.user.owner → relay.folder.notes" in shown
    assert [line.split()[0] for line in shown.splitlines()[4:]] == ["accepted", "stored", "offered", "injected"]
    assert "from standard input" in (hub.notes / f"{id}.txt").read_text()
    assert json.loads(ok(hub, "message", "status", id, "--json"))["state"] == "injected"
    assert id in ok(hub, "message", "list")
    with hub.terminal("message", "list", columns=80) as terminal:
        terminal.expect(short_id(id))
        assert terminal.wait() == 0
        assert id not in terminal.text
    assert id in ok(hub, "message", "trace", id[-8:])
    assert ok(hub, "message", "status", id[-8:]) == ok(hub, "message", "status", id)
    other = ok(hub, "message", "send", "relay.user.dora", "another").strip()
    ambiguous = hub.run("message", "status", id[:2])
    assert ambiguous.returncode == 2 and "Type more of it" in ambiguous.stderr
    assert {id, other} <= set(re.findall(r"\w{28}", ambiguous.stderr)) or "…" in ambiguous.stderr


@pytest.mark.slow
def test_an_agent_is_asked_and_its_answer_printed(hub: Setting) -> None:
    answer = ok(hub, "message", "ask", "relay.agent.desk.ada", "hello?", "--timeout", "30").strip()
    assert answer == "Hello from the agent."
    outcome = json.loads(ok(hub, "message", "ask", "relay.agent.desk.ada", "again?", "--timeout", "90", "--json"))
    assert outcome["answer"]["payload"]["text"].strip() == "Hello again."
    trace = json.loads(ok(hub, "message", "trace", outcome["receipt"]["id"], "--json"))
    assert trace["depth"] == [0, 1]


@pytest.mark.slow
def test_an_inbox_is_looked_at_and_read(hub: Setting) -> None:
    ok(hub, "message", "send", "relay.user.bob", "first of two")
    body = json.dumps({"n": 2})
    sent = json.loads(
        ok(hub, "message", "send", "relay.user.bob", body, "--type", "application/json", "--ttl", "60", "--json")
    )
    assert sent["envelope"]["payload"]["json"] == {"n": 2}
    assert "relay.user.bob" in ok(hub, "inbox", "--all")
    assert "first of two" in ok(hub, "inbox", "relay.user.bob")
    taken = ok(hub, "inbox", "relay.user.bob", "--take")
    assert taken.index("first of two") < taken.index('"n": 2')
    assert ok(hub, "inbox", "relay.user.bob", "--take") == ""
    assert json.loads(ok(hub, "inbox", "relay.user.bob", "--json"))[0]["state"] == "seen"


@pytest.mark.slow
def test_dead_letters_are_listed_shown_retried_and_dropped(hub: Setting) -> None:
    ended = hub.run("message", "send", "relay.user.carol", "never", "--max-hops", "0")
    assert ended.returncode == 2
    assert "passed on" in ended.stderr
    (letter,) = json.loads(ok(hub, "dead", "list", "--reason", "hops_exceeded", "--json"))
    id = letter["envelope"]["id"]
    assert re.search(rf"{id}\s+hops_exceeded", ok(hub, "dead", "list", "--pattern", "relay.user.>"))
    assert "never" in ok(hub, "dead", "show", id[-8:])
    assert id in ok(hub, "dead", "retry", id[-8:])
    assert "never" in ok(hub, "inbox", "relay.user.carol")
    ended = hub.run("dead", "retry", id)
    assert ended.returncode == 1
    hub.run("message", "send", "relay.user.carol", "never", "--max-hops", "0")
    assert ok(hub, "dead", "drop", "--from", "relay.user.owner", "--pattern", "relay.user.carol") == "1 dropped\n"
    for verb in ("retry", "drop"):
        ended = hub.run("dead", verb)
        assert (ended.returncode, "--pattern" in ended.stderr) == (2, True)


def test_channels_are_listed_with_what_is_wrong(hub: Setting) -> None:
    listed = ok(hub, "channels", "list")
    rows = dict(re.findall(r"^(\w+) +(running|broken|disabled) ", listed, re.MULTILINE))
    assert {"notes": "running", "bad": "broken", "ci": "running", "off": "disabled"}.items() <= rows.items()
    assert "bad is broken: " in listed and "\n  Did you mean to?" in listed, "the reason is whole, with what to do"
    assert "off is disabled: the configuration says enabled = false\n" in listed
    channels = {channel["id"]: channel for channel in json.loads(ok(hub, "channels", "list", "--json"))}
    assert channels["bad"]["field"] == "channels.bad.config.too"
    assert channels["bad"]["hint"].startswith("Did you mean to?")


def test_check_needs_no_hub_and_names_file_channel_and_field(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    ended = setting.run("channels", "check")
    assert ended.returncode == 2
    assert "✓ notes" in ended.stdout
    assert f"✗ bad: {setting.env['TIELINE_CONFIG']}: channels.bad.config.too: no such setting" in ended.stdout
    verdicts = {row["id"]: row["good"] for row in json.loads(setting.run("channels", "check", "--json").stdout)}
    assert verdicts == {"notes": True, "bad": False, "away": True, "ci": True, "off": True, "agents": True}


def test_a_secret_is_made_that_can_sign(tmp_path: Path) -> None:
    cli = CliProcess(tmp_path)
    printed = ok(cli, "channels", "secret").strip()
    from_json = json.loads(ok(cli, "channels", "secret", "--json"))["secret"]
    assert printed != from_json
    for secret in (printed, from_json):
        check_secret(secret)


@pytest.mark.slow
def test_the_documents_example_of_curl_is_taken(hub: Setting) -> None:
    page = (FOLDER.parents[2] / "docs/channels.md").read_text()
    (example,) = (block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "curl" in block)
    env = {"PATH": "/usr/bin:/bin", "HUB": hub.url, "CI_SECRET": SECRET}
    ended = subprocess.run(["/bin/sh", "-ec", example], env=env, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "the build failed" in ok(hub, "inbox", "relay.user.ci", "--take")
    env["CI_SECRET"] = ok(hub, "channels", "secret").strip()
    refused = subprocess.run(["/bin/sh", "-ec", example], env=env, capture_output=True, text=True, timeout=60)
    assert refused.returncode != 0 and "bad_signature" in refused.stdout


def test_a_changed_file_is_taken_up(hub: Setting) -> None:
    hub.configure('[[channels]]\nid = "late"\ntype = "nonsense"\n')
    ended = hub.run("channels", "reload", "--yes")
    assert ended.returncode == 1
    assert "unknown type 'nonsense'" in ended.stderr
    assert "late" in ok(hub, "channels", "list")


@pytest.mark.slow
def test_code_that_nobody_agreed_to_waits_for_a_reload(hub: Setting, tmp_path: Path) -> None:
    code = tmp_path / "written.py"
    code.write_text(FOLDER.read_text())
    hub.configure(f'[[channels]]\nid = "written"\npath = "{code}"\nconfig = {{ folder = "{tmp_path}" }}\n')
    until = time.monotonic() + 60
    while not (rows := [row for row in json.loads(ok(hub, "channels", "list", "--json")) if row["id"] == "written"]):
        assert time.monotonic() < until, "the file is watched"
    assert rows[0]["state"] == "untrusted"
    assert f"{code}, SHA-256 " in rows[0]["problem"]
    assert rows[0]["problem"].endswith(" is not trusted yet")
    ended = hub.run("channels", "reload")  # nobody to ask
    assert ended.returncode == 1 and "--yes" in ended.stderr
    assert f"not trusted: written: {code}, SHA-256 " in ended.stdout
    with hub.terminal("channels", "reload") as terminal:
        terminal.expect(f"written: {code}, SHA-256 ")
        terminal.expect("trust it? [y/N]")
        terminal.send("y\n")
        terminal.expect("trusted from now on: written: ")
    code.write_text(FOLDER.read_text() + "\n")
    assert f"trusted from now on: written: {code}, SHA-256 " in hub.run("channels", "reload", "--yes").stdout
    channels = {channel["id"]: channel["state"] for channel in json.loads(ok(hub, "channels", "list", "--json"))}
    assert channels["written"] == "running"
    audit = ok(hub, "audit", "--json")
    assert (
        f"written: {code}" in audit
        and "the first start" in audit
        and "a channel uses code that is not trusted yet" in audit
    )


def test_a_start_tells_what_waits(capsys: pytest.CaptureFixture[str]) -> None:
    announce = daemon_control._announce  # pyright: ignore[reportPrivateUsage]
    announce(
        Config(),
        StartResult(url="http://127.0.0.1:1", login="http://127.0.0.1:1/#x", waiting=("channels.a: nobody \x1b[2J",)),
        json=False,
    )
    output = capsys.readouterr().out
    assert "A channel waits for you: channels.a: nobody" in output and "tieline channels reload" in output
    assert "\x1b[2J" not in output


def test_a_channel_that_cannot_deliver_says_why(hub: Setting) -> None:
    ended = hub.run("channels", "test", "away")
    assert ended.returncode == 1
    assert "not delivered to relay.webhook.away" in ended.stderr
    assert hub.run("channels", "test", "nobody").returncode == 2


@pytest.mark.slow
def test_what_waits_for_a_channel_that_fails_says_so(hub: Setting) -> None:
    ids = [ok(hub, "message", "send", "relay.webhook.away", "x", "--no-reply").strip() for _ in range(5)]
    until = time.monotonic() + 60
    while "waits: circuit_open" not in (shown := ok(hub, "message", "status", ids[-1])):  # now and then one tries
        assert time.monotonic() < until, shown
    channels = {channel["id"]: channel for channel in json.loads(ok(hub, "channels", "list", "--json"))}
    assert (channels["away"]["state"], channels["away"]["circuit"]) == ("failing", "open")
    listed = ok(hub, "channels", "list")
    assert re.search(r"^away +failing, circuit open ", listed, re.MULTILINE)
    assert re.search(r"^away is failing: its last error, \w+ ago: \S", listed, re.MULTILINE)


@pytest.mark.slow
def test_bad_usage_is_told(hub: Setting) -> None:
    for arguments, words in [
        (("message", "send", "nowhere", "x"), "no member 'nowhere'"),
        (("message", "send", "relay.user.ada", "{", "--type", "application/json"), "not JSON"),
        (("message", "send", "relay.user.ada", "x", "--attach", "missing.txt"), "no file missing.txt"),
        (("message", "status", "unknown"), "no message 'unknown'"),
        (("inbox", "relay.agent.x", "--take"), "not an inbox"),
    ]:
        ended = hub.run(*arguments)
        assert ended.returncode == 2, ended
        assert words in ended.stderr


def test_without_a_hub_it_says_how_to_start_one(tmp_path: Path) -> None:
    ended = CliProcess(tmp_path).run("channels", "list")
    assert ended.returncode == 1
    assert "tieline up" in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["message send", "message ask", "dead retry", "channels test", "inbox"])
def test_help_has_examples(tmp_path: Path, verb: str) -> None:
    shown = ok(CliProcess(tmp_path), *verb.split(), "--help")
    assert f"tieline {verb}" in shown.partition("Examples")[2]
