"""Code, rights and secrets of the configuration: an agent that may write files brings none of them into the hub."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.relay.channel_plugins.test_loader import MODULE
from tests.relay.channel_plugins.test_reload import Setting, following

from tieline.channels.agent import AgentConfig
from tieline.channels.base import ChannelContext
from tieline.channels.notify import NotifyConfig
from tieline.channels.telegram.settings import TelegramConfig
from tieline.channels.webhook.settings import WebhookConfig
from tieline.config import ChannelConfig
from tieline.relay.channel_plugins.loader import ChannelError, build, unload
from tieline.relay.channel_plugins.trust import HARMLESS_SETTINGS, Trust, read_code

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BUILT_IN = {"agent": AgentConfig, "webhook": WebhookConfig, "telegram": TelegramConfig, "notify": NotifyConfig}


class Canary:
    """A channel's module that leaves a trace when it is run."""

    def __init__(self, folder: Path) -> None:
        self.trace = folder / "ran"
        self.text = f"import pathlib\npathlib.Path({str(self.trace)!r}).touch()\n{MODULE}"

    @property
    def ran(self) -> bool:
        return self.trace.exists()


@pytest.fixture
def canary(tmp_path: Path) -> Canary:
    return Canary(tmp_path)


async def test_a_plugin_that_an_agent_wrote_waits_for_a_person(tmp_path: Path, canary: Canary) -> None:
    setting = Setting(tmp_path)
    setting.write(a={"path": setting.module("good")})
    async with following(tmp_path, setting):
        setting.write(a={"path": setting.module("good")}, b={"path": setting.module("evil", canary.text)})
        await setting.reported("b")
        assert setting.states() == {"a": "running", "b": "untrusted"}
        problem = setting.channels.waiting()[0]
        assert "evil.py, SHA-256 " in problem
        (tmp_path / "state/trusted-code.json").unlink()  # what happens to the record meanwhile does not count
        await setting.channels.reload()
        assert not canary.ran
        (tmp_path / "state/trusted-code.json").write_text("{}")
    async with following(tmp_path, setting):
        assert setting.states() == {"a": "untrusted", "b": "untrusted"}, "a start alone is nobody's word"
        assert not canary.ran
        changes = await setting.agree()
        assert changes.started == ("a", "b")
        assert [words.partition(":")[0] for words in changes.trusted] == ["a", "b"]
        assert canary.ran
        assert setting.states() == {"a": "running", "b": "running"}
        assert (await setting.agree()).trusted == ()
    assert (tmp_path / "state/trusted-code.json").stat().st_mode & 0o777 == 0o600
    async with following(tmp_path, setting):
        assert setting.states() == {"a": "running", "b": "running"}, "it is remembered"


async def test_code_that_changed_is_reported_and_the_old_runs_on(tmp_path: Path, canary: Canary) -> None:
    setting = Setting(tmp_path)
    code = setting.module("one")
    setting.write(a={"path": code})
    async with following(tmp_path, setting):
        before = setting.channels.channel("a")
        setting.module("one", canary.text)
        await setting.reported("a")
        assert setting.channels.channel("a") is before
        setting.write(a={"path": code, "word": "new"})  # data, but it would come with the code
        changes = await setting.channels.reload()
        assert changes.untrusted == ("a",)
        assert not canary.ran
        setting.module("one")
        assert (await setting.channels.reload()).restarted == ("a",)
        assert setting.words() == {"a": "new"}, "the data counts as soon as the code is the old one again"
        assert setting.channels.reports()[-1].problem == ""
        setting.module("one", canary.text)
    async with following(tmp_path, setting):
        assert setting.states() == {"a": "untrusted"}
        assert not canary.ran


async def test_a_package_that_nobody_agreed_to_is_not_imported(
    tmp_path: Path, canary: Canary, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tieline_evil_for_a_test.py").write_text(canary.text)
    monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore[reportUnknownMemberType]
    async with following(tmp_path) as setting:
        setting.put('[[channels]]\nid = "a"\npackage = "tieline_evil_for_a_test"\nconfig = { word = "x" }\n')
        await setting.reported("a")
        assert not canary.ran


def webhook(url: str, text: str) -> str:
    return (
        f'[[channels]]\nid = "ci"\ntype = "webhook"\n[channels.config]\n'
        f'sign_with = ["env:CI_SECRET"]\nurl = "{url}"\ntext = "{text}"\n'
    )


async def test_a_secret_goes_nowhere_new_and_data_is_hot(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    setting.env["CI_SECRET"] = SECRET
    setting.put(webhook("https://ci.example/", "one"))
    async with following(tmp_path, setting):
        before = setting.channels.channel("ci")
        assert before is not None
        setting.put(webhook("https://ci.example/", "two"))
        assert (await setting.channels.reload()).restarted in (("ci",), ())  # or the watch was quicker
        hot = setting.channels.channel("ci")
        assert hot is not before
        setting.put(webhook("https://evil.example/", "two"))
        assert (await setting.channels.reload()).untrusted == ("ci",)
        assert setting.channels.channel("ci") is hot
        problem = setting.channels.reports()[-1].problem
        seen = (await setting.channels.reload()).waiting
        setting.put(webhook("https://worse.example/", "two"))
        changes = await setting.channels.reload(trust=seen)
        assert (changes.untrusted, changes.trusted) == (("ci",), ()), "a person agrees to what they saw, and no more"
        assert setting.channels.channel("ci") is hot
        assert "it runs as before" in problem and "CI_SECRET" in problem and SECRET not in problem


async def test_rights_are_not_given_by_a_file(tmp_path: Path) -> None:
    """A project's policy is what a message's session may do."""
    async with following(tmp_path) as setting:
        setting.put(
            '[[channels]]\nid = "agent"\ntype = "agent"\nconfig = { default = { cwd = "/", policy = "full" } }\n'
        )
        assert (await setting.channels.reload()).untrusted == ("agent",)


@pytest.mark.parametrize("type", BUILT_IN)
def test_every_setting_that_is_no_data_waits(type: str) -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(BUILT_IN[type])}
    assert HARMLESS_SETTINGS[type] <= fields

    def digest(config: Mapping[str, Any]) -> str:
        return read_code(ChannelConfig(id="x", type=type, config=config)).digest

    plain = digest({})
    for name in fields:
        assert (digest({name: "other"}) == plain) == (name in HARMLESS_SETTINGS[type]), name
        assert digest({name: ["env:SECRET"]}) != plain, "a variable's value is never data"


def test_what_was_looked_at_is_what_is_run(tmp_path: Path, canary: Canary) -> None:
    file = tmp_path / "channel.py"
    file.write_text(MODULE)
    entry = ChannelConfig(id="a", path=str(file), config={"word": "hello"})
    code = read_code(entry)
    file.write_text(canary.text)
    built = build(entry, ChannelContext(), code=code)
    unload(built.module)
    assert not canary.ran


def test_a_pipe_is_no_code(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "channel.py")
    with pytest.raises(ChannelError, match="cannot be read"):
        build(ChannelConfig(id="a", path=str(tmp_path / "channel.py")), ChannelContext())


@pytest.mark.parametrize("record", [b"", b"[", b'{"a": 1}', b"\xff"])
def test_a_record_that_cannot_be_read_is_a_record_of_nothing(tmp_path: Path, record: bytes) -> None:
    (tmp_path / "record").write_bytes(record)
    trust = Trust(tmp_path / "record")
    assert trust.load()
    assert not trust.is_trusted("a", read_code(ChannelConfig(id="a", type="webhook")))
