"""Entries of the configuration become channels; whatever is wrong with one is said by file, channel and field."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tieline import config as configuration
from tieline.channels.base import ChannelContext
from tieline.config import ChannelConfig
from tieline.relay.channel_plugins.loader import BUILT_IN, ChannelError, build, check, known_types, unload
from tieline.relay.channel_plugins.trust import read_code

FOLDER = Path(__file__).parents[3] / "examples/channel_folder/folder_channel.py"
SOURCE = "/etc/tieline.toml"

MODULE = """
from msgspec import Struct
from tieline.channels.base import ChannelStatus, delivered

NAME = "Plain"

class CONFIG(Struct, frozen=True):
    word: str
    count: int = 1

class Plain:
    def __init__(self, id, config, context):
        self.id = id
        self.subject_prefix = f"relay.plain.{id}"
        self.display_name = config.word
    async def start(self, relay): pass
    async def stop(self): pass
    async def deliver(self, subject, envelope, context): return delivered()
    def status(self): return ChannelStatus(state="running")

create = Plain
"""


def entry(**fields: Any) -> ChannelConfig:
    own: dict[str, Any] = {"id": "plain", **fields}
    return ChannelConfig(**own)


def local(path: Path, text: str = MODULE, **config: Any) -> ChannelConfig:
    file = path / "plain_channel.py"
    file.write_text(text)
    return entry(path=str(file), config={"word": "hello", **config})


def problem(wanted: ChannelConfig, env: dict[str, str] | None = None) -> ChannelError:
    with pytest.raises(ChannelError) as refused:
        build(wanted, ChannelContext(env=env or {}), source=SOURCE)
    return refused.value


def test_a_local_file_becomes_a_channel(tmp_path: Path) -> None:
    built = build(local(tmp_path), ChannelContext())
    assert (built.channel.id, built.channel.subject_prefix, built.channel.display_name) == (
        "plain",
        "relay.plain.plain",
        "hello",
    )
    assert built.module in sys.modules
    unload(built.module)
    assert built.module not in sys.modules


def test_a_relative_path_counts_from_the_configuration_file(tmp_path: Path) -> None:
    local(tmp_path)
    wanted = entry(path="plain_channel.py", config={"word": "near"})
    built = build(wanted, ChannelContext(), source=str(tmp_path / "tieline.toml"))
    assert built.channel.display_name == "near"
    unload(built.module)


@pytest.mark.parametrize(("text", "cause"), [("def broken(:", "SyntaxError"), ("1 / 0", "ZeroDivisionError")])
def test_a_file_that_does_not_load_is_told_by_its_path(tmp_path: Path, text: str, cause: str) -> None:
    refused = problem(local(tmp_path, text))
    assert str(tmp_path / "plain_channel.py") in refused.message and cause in refused.message


def test_a_package_that_does_not_load_is_told_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tieline_broken_for_a_test.py").write_text("raise RuntimeError('oh no')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    refused = problem(entry(package="tieline_broken_for_a_test"))
    assert "tieline_broken_for_a_test" in refused.message and "oh no" in refused.message


def test_a_file_is_loaded_afresh_each_time(tmp_path: Path) -> None:
    wanted = local(tmp_path)
    first = build(wanted, ChannelContext())
    mark = read_code(wanted).fingerprint
    local(tmp_path, MODULE.replace("config.word", '"changed"'))  # within the same second, of a similar length
    second = build(wanted, ChannelContext())
    assert (first.channel.display_name, second.channel.display_name) == ("hello", "changed")
    assert first.module != second.module
    assert read_code(wanted).fingerprint != mark
    for built in (first, second):
        unload(built.module)


def test_a_package_is_an_installed_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tieline_plain_for_a_test"
    package.mkdir()
    (package / "__init__.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    built = build(entry(package="tieline_plain_for_a_test", config={"word": "packed"}), ChannelContext())
    assert built.channel.display_name == "packed"
    del sys.modules["tieline_plain_for_a_test"]


def test_a_type_may_come_from_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real distribution on the path, with an entry point in our group."""
    (tmp_path / "tieline_plain_by_type.py").write_text(MODULE)
    about = tmp_path / "tieline_plain_by_type-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tieline-plain-by-type\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[tieline.channels]\nplain = tieline_plain_by_type\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert "plain" in known_types()
    assert "tieline_plain_by_type" not in sys.modules, "being installed is not being loaded"
    built = build(entry(type="plain", config={"word": "typed"}), ChannelContext())
    assert built.channel.display_name == "typed"
    del sys.modules["tieline_plain_by_type"]


NEEDED: dict[str, dict[str, Any]] = {
    "agent": {},
    "webhook": {"to": "relay.user.ada", "secrets": ["x" * 32]},
    "telegram": {"token": "4242:TEST-bot-token", "chats": [1]},
    "notify": {"urls": ["json://localhost"]},
}
"""What each built-in type cannot do without."""


@pytest.mark.parametrize(
    "type",
    [
        pytest.param(type, marks=[pytest.mark.slow, pytest.mark.timeout(300)] if type == "telegram" else [])
        for type in sorted(BUILT_IN)
    ],
)
def test_every_built_in_type_loads(type: str) -> None:
    assert type in known_types()
    check(entry(type=type, config=NEEDED[type]), ChannelContext())
    with pytest.raises(ChannelError, match=r"channels\.plain\.config\.nonsense: no such setting"):
        check(entry(type=type, config={**NEEDED[type], "nonsense": 1}), ChannelContext())


def test_what_the_environment_has_need_not_stand_in_the_file(tmp_path: Path) -> None:
    built = build(local(tmp_path, word="env:WORD"), ChannelContext(env={"WORD": "from outside"}))
    assert built.channel.display_name == "from outside"
    unload(built.module)
    refused = problem(local(tmp_path, word="env:MISSING"))
    assert refused.field == "channels.plain.config.word"
    assert "MISSING is not set" in refused.message


@pytest.mark.parametrize(
    ("wanted", "field", "words"),
    [
        (entry(), "type", "names no code"),
        (entry(type="webhook", path="x.py"), "path", "type and path"),
        (entry(type="telgram"), "type", "unknown type 'telgram'"),
        (entry(id="No Good", type="webhook"), "id", "lowercase letters"),
        (entry(package="tieline_no_such_package"), "package", "'tieline_no_such_package' is not installed"),
        (entry(path="/no/such/file.py"), "path", "/no/such/file.py cannot be read"),
        (entry(type="webhook", config={"secret": "x"}), "config.secret", "no such setting"),
        (entry(type="webhook", config={"window_s": "long"}), "config.window_s", "Expected `float`"),
        (entry(type="notify"), "config.urls", "missing required field"),
        (entry(problem="Object contains unknown field `pth`"), "pth", "unknown field"),
    ],
)
def test_what_is_wrong_is_said_by_file_channel_and_field(wanted: ChannelConfig, field: str, words: str) -> None:
    refused = problem(wanted)
    assert refused.field == f"channels.{wanted.id}.{field}"
    assert refused.message.startswith(f"{SOURCE}: channels.{wanted.id}.{field}: ")
    assert words in refused.message


def test_hints_say_what_to_do() -> None:
    assert "Did you mean telegram?" in problem(entry(type="telgram")).hint
    assert "Did you mean secrets?" in problem(entry(type="webhook", config={"secret": "x"})).hint
    assert problem(entry(package="acme_channel")).hint == "Install it: pip install acme_channel"


def test_an_extra_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)  # as if it were not there
    refused = problem(entry(type="notify", config={"urls": ["json://localhost"]}))
    assert "'apprise'" in refused.message
    assert refused.hint == "Install it: pip install tieline[notify]"


@pytest.mark.parametrize(
    ("text", "words", "field"),
    [
        ("import nothing_of_that_name_exists", "needs 'nothing_of_that_name_exists'", "path"),
        ("def broken(:", "SyntaxError", "path"),
        ("raise SystemExit(3)", "SystemExit", "path"),
        ("1 / 0", "ZeroDivisionError", "path"),
        (MODULE.replace("create = Plain", ""), "offers no create", "path"),
        (MODULE.replace("create = Plain", "create = 5"), "offers no create", "path"),
        (MODULE.replace("class CONFIG", "class OTHER"), "offers no CONFIG", "path"),
        (MODULE.replace("create = Plain", "def create(*_): return None"), "no valid channel", ""),
        (MODULE.replace("async def stop", "async def halt"), "no valid channel: stop missing", ""),
        (MODULE.replace("self.id = id", "self.id = 'another'"), "with the id 'another'", ""),
        (MODULE.replace("relay.plain", "elsewhere"), "prefix is not an address", ""),
        (MODULE.replace("relay.plain", "relay.PLAIN"), "must be written", ""),
        (MODULE.replace("create = Plain", "def create(*_): raise OSError('disk')"), "create failed: OSError: disk", ""),
    ],
)
def test_a_module_that_is_no_channel_is_told_with_its_path(tmp_path: Path, text: str, words: str, field: str) -> None:
    before = set(sys.modules)
    refused = problem(local(tmp_path, text))
    where = ".".join(part for part in ("channels.plain", field) if part)
    assert refused.message.startswith(f"{SOURCE}: {where}: ")
    assert refused.field == where
    assert words in refused.problem
    assert (str(tmp_path / "plain_channel.py") in refused.problem) is bool(field), "what does not load has its path"
    assert refused.channel == "plain"
    assert not {name for name in set(sys.modules) - before if name.startswith("tieline_channel_")}


def test_config_is_checked_before_anything_is_built(tmp_path: Path) -> None:
    text = MODULE.replace("create = Plain", "def create(*_): raise AssertionError('too early')")
    assert problem(local(tmp_path, text, count="many")).field == "channels.plain.config.count"


def test_an_entry_that_is_not_understood_leaves_the_others(tmp_path: Path) -> None:
    file = tmp_path / "tieline.toml"
    file.write_text(
        '[[channels]]\nid = "good"\ntype = "webhook"\n'
        '[[channels]]\nid = "typo"\ntyp = "webhook"\n'
        "[[channels]]\nid = 5\n"
        '[[channels]]\nid = "sly"\nproblem = ""\n'
    )
    config = configuration.load(environ={"TIELINE_CONFIG": str(file)})
    assert [(channel.id, bool(channel.problem)) for channel in config.channels] == [
        ("good", False),
        ("typo", True),
        ("number 3", True),
        ("sly", True),
    ]
    assert "typ" in config.channels[1].problem


def test_the_example_is_a_channel(tmp_path: Path) -> None:
    wanted = ChannelConfig(id="notes", path=str(FOLDER), config={"folder": str(tmp_path)})
    built = build(wanted, ChannelContext())
    assert built.channel.subject_prefix == "relay.folder.notes"
    unload(built.module)
    relative = ChannelConfig(id="notes", path=str(FOLDER), config={"folder": "notes"})
    assert problem(relative).field == "channels.notes.config.folder"


def test_the_documentation_says_it_plainly() -> None:
    page = (Path(__file__).parents[3] / "docs/channels.md").read_text()
    assert "runs inside the hub with all its rights" in page, "what a channel may do"
    assert "There is no\nsandbox" in page
    assert "`tieline-channel-<name>`" in page, "how a package is called"
    assert "by `tieline channels reload`: it is loaded as a fresh module" in page, "when new code takes effect"
    assert "after a restart of the hub; Python keeps modules that were imported" in page
