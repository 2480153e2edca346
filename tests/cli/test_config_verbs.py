"""`tieline config check` and `tieline config show`."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tieline import config as configuration
from tieline.cli.commands import config_check, config_show
from tieline.errors import UsageError
from tieline.testing.cli_process import CliProcess

WRONG = """\
polcy = "ask"
policy = "edts"
default_agent = "codx"
bus = "redis://x"
environ = { A = "1" }

[hub]
port = "80"
host = "0.0.0.0"
tls_key = "/nonesuch.pem"

[agents.mine]
command = ["x"]

[agents.reviewer]
type = "shell"
comand = ["x"]

[agents.searcher]
type = "codex"
web_search = "sometimes"

[agents.odd]
type = "frob"

[agents.opencode]
timout_s = 5

[relay]
deny = ["relay.> -> relay.>", "nonsense"]

[[pool.warm]]
agent = "codex"

[[channels]]
id = "hook"
type = "webhook"
[channels.config]
secrets = ["env:NONE"]
urll = "https://x.example"

[[channels]]
id = "hook"
type = "webhook"
[channels.config]
to = "relay.user.owner"
secrets = ["env:NONE"]

[[channels]]
id = "agents"
type = "agent"
[channels.config.projects.shop]
agent = "x"
"""

FOUND = {
    (1, "polcy", "unknown key", "Did you mean policy?"),
    (2, "policy", "unknown policy 'edts'", "Presets:"),
    (3, "default_agent", "there is no agent 'codx'", "Known agents:"),
    (4, "bus", "unsupported bus URL scheme", "Use sqlite:///path"),
    (5, "environ", "unknown key", "Known keys:"),
    (8, "hub.port", "expected whole number, found text", ""),
    (9, "hub.host", "other machines could reach it", "insecure = true"),
    (10, "hub.tls_key", "there is no such file", "PEM"),
    (10, "hub.tls_key", "tls_certificate is missing", "both"),
    (12, "agents.mine", "it has no type", "type ="),
    (15, "agents.reviewer", "command is missing", "Add command ="),
    (17, "agents.reviewer.comand", "unknown key", "Did you mean command?"),
    (21, "agents.searcher.web_search", '"disabled", found "sometimes"', ""),
    (24, "agents.odd.type", "unknown agent 'frob'", ""),
    (27, "agents.opencode.timout_s", "unknown key", "Did you mean timeout_s?"),
    (30, "relay.deny[1]", "'nonsense' is not a rule", "from-pattern"),
    (32, "pool.warm[0]", "cwd is missing", "Add cwd ="),
    (40, "channels[0].config.urll", "unknown key", "Did you mean url?"),
    (43, "channels[1].id", "another channel has the id 'hook'", "Give each"),
    (47, "channels[1].config.secrets", "the variable NONE is not set", "Set it"),
    (52, "channels[2].config.projects.shop", "cwd is missing", "Add cwd ="),
}


def test_every_mistake_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "tieline.toml"
    file.write_text(WRONG)
    checked = config_check.check({"TIELINE_CONFIG": str(file), "HOME": str(tmp_path)})
    left = list(checked.mistakes)
    for line, key, problem, hint in sorted(FOUND):
        match = [m for m in left if (m.line, m.key) == (line, key) and problem in m.problem and hint in m.hint]
        assert match, (line, key, problem, hint, checked.mistakes)
        left.remove(match[0])
    assert left == [] and not checked.good


def test_a_mistake_never_shows_the_value(tmp_path: Path) -> None:
    file = tmp_path / "tieline.toml"
    file.write_text(
        '[agents.o]\ntype = "opencode"\npassword = ["hunter2"]\n[[channels]]\nid = "t"\ntype = "telegram"\n'
        "[channels.config]\ntoken = 271828\nchats = [1]\n"
    )
    mistakes = repr(config_check.check({"TIELINE_CONFIG": str(file), "HOME": str(tmp_path)}))
    assert "agents.o.password" in mistakes and "channels[0].config.token" in mistakes
    assert "hunter2" not in mistakes and "271828" not in mistakes


def test_code_that_the_file_names_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    file = tmp_path / "tieline.toml"
    file.write_text('[[channels]]\nid = "own"\npath = "own.py"\n')
    checked = config_check.check({"TIELINE_CONFIG": str(file), "HOME": str(tmp_path)})
    assert checked.good and checked.unchecked == ("own",)
    assert not (tmp_path / "ran").exists()


def test_check_on_the_command_line(cli: CliProcess) -> None:
    (cli.place / "bad.toml").write_text('policy = "ask"\n[hub]\nprot = 1\n')
    ended = cli.run("config", "check", "bad.toml")
    assert ended.returncode == 2
    assert ended.stdout.splitlines() == ["bad.toml:3: hub.prot: unknown key", "    Did you mean port?"]
    as_json = cli.run("config", "check", "bad.toml", "--json")
    assert as_json.returncode == 2
    (mistake,) = msgspec.json.decode(as_json.stdout)["mistakes"]
    assert (mistake["file"], mistake["line"], mistake["key"]) == ("bad.toml", 3, "hub.prot")
    (cli.place / "broken.toml").write_text('policy = "ask"\nbus = \n')
    broken = cli.run("config", "check", "broken.toml")
    assert broken.returncode == 2 and broken.stdout.startswith("broken.toml:2: this is not valid TOML: ")
    assert cli.run("config", "check").stdout.endswith("tieline.toml is good\n")
    assert cli.run("config", "check", "none.toml").returncode == 2


def test_the_loader_names_file_line_and_key(tmp_path: Path) -> None:
    file = tmp_path / "tieline.toml"
    file.write_text('policy = "ask"\n\n[hub]\nport = true\nprot = 1\ntls_key = "/nonesuch.pem"\n')
    with pytest.raises(UsageError) as caught:
        configuration.load(environ={"TIELINE_CONFIG": str(file)})
    problem = "hub.port: expected whole number, found true or false"
    assert caught.value.message == f"{file}:4: {problem} (there are more: `tieline config check` lists all)"
    assert caught.value.field == "hub.port"


# --- show ----------------------------------------------------------------------------------------------------

SHOWN = """\
policy = "edits"
bus = "nats://me:hunter2@bus.example:4222?token=hunter2"

[hub]
port = 9000

[agents.server]
type = "opencode"
url = "http://127.0.0.1:4096"
password = "hunter2"

[agents.plugin]
type = "from-a-package"
key = "hunter2"

[agents.codex]
type = "codex"
config = { "mcp.key" = "hunter2" }

[[channels]]
id = "ci"
type = "webhook"
[channels.config]
secrets = ["hunter2", "env:CI_SECRET"]
url = "https://hooks.example/hunter2"
headers = { Authorization = "hunter2" }
answers = true

[[channels]]
id = "own"
path = "own.py"
[channels.config]
folder = { password = "hunter2" }
"""


def shown(tmp_path: Path, text: str = SHOWN, **more: str) -> dict[str, config_show.ConfigValue]:
    file = tmp_path / "tieline.toml"
    file.write_text(text)
    env = {"TIELINE_CONFIG": str(file), "HOME": str(tmp_path), "CI_SECRET": "hunter2", **more}
    return {each.key: each for each in config_show.effective(configuration.load(environ=env)).values}


def test_where_each_value_comes_from(tmp_path: Path) -> None:
    values = shown(tmp_path, TIELINE_HOME="/srv/tieline")

    def entry(key: str) -> tuple[Any, str, int]:
        return values[key].value, values[key].source, values[key].line

    assert entry("policy") == ("edits", "file", 1)
    assert entry("hub.port") == (9000, "file", 5)
    assert entry("hub.host") == ("127.0.0.1", "default", 0)
    assert entry("relay.max_hops") == (8, "default", 0)
    assert entry("agents.server.url") == ("http://127.0.0.1:4096", "file", 9)
    assert entry("channels[0].config.answers") == (True, "file", 27)
    assert entry("state directory") == ("/srv/tieline", "environment", 0)
    assert values["state directory"].variable == "TIELINE_HOME"
    assert values["configuration file"].variable == "TIELINE_CONFIG"


def test_no_secret_is_shown(tmp_path: Path) -> None:
    values = shown(tmp_path)
    assert "hunter2" not in repr(values)
    hidden = config_show.HIDDEN
    assert values["channels[0].config.secrets"].value == [hidden, "env:CI_SECRET"]
    assert values["channels[0].config.headers"].value == {"Authorization": hidden}
    assert values["channels[1].config.folder"].value == {"password": hidden}
    assert values["agents.plugin.key"].value == hidden
    assert "bus.example:4222" in values["bus"].value


def test_show_on_the_command_line(cli: CliProcess) -> None:
    cli.configure('policy = "edits"\n')
    lines = {line.split("  ")[0]: line.split() for line in cli.run("config", "show").stdout.splitlines()}
    assert lines["policy"] == ["policy", '"edits"', "line", "1"]
    assert lines["hub.port"] == ["hub.port", "8137", "default"]
    values = msgspec.json.decode(cli.run("config", "show", "--json").stdout)["values"]
    assert {"key": "policy", "value": "edits", "source": "file", "line": 1, "variable": ""} in values
