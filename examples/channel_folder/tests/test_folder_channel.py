"""The example against the contract suite that ships with Tieline."""

import errno
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tieline.channels.base import ChannelContext
from tieline.testing.channel_contract import ID, ME, ChannelContract, FakeDeliveryContext

FILE = Path(__file__).parents[1] / "folder_channel.py"
spec = importlib.util.spec_from_file_location("folder_channel", FILE)
assert spec is not None and spec.loader is not None
folder_channel = importlib.util.module_from_spec(spec)
sys.modules["folder_channel"] = folder_channel
spec.loader.exec_module(folder_channel)


class FolderFar:
    """The other side is a folder."""

    address = f"relay.folder.{ID}"
    context = ChannelContext()

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._failures = 0
        self.config: Mapping[str, Any] = {"folder": str(folder), "to": ME, "look_s": 0.02}

    def texts(self) -> list[str]:
        return [path.read_text() for path in self._folder.glob("*.txt")]

    def fail(self, times: int) -> None:
        self._failures = times

    def write(self, path: Path, text: str) -> None:
        """Stands before the channel's own writing: the disk is full as often as it is told to be."""
        if self._failures:
            self._failures -= 1
            raise OSError(errno.ENOSPC, "no space left")
        path.write_text(text)

    async def say(self, text: str) -> bool:
        (self._folder / "out").mkdir(parents=True, exist_ok=True)
        draft = self._folder / "out" / "hello.draft"
        draft.write_text(text)
        draft.replace(self._folder / "out" / "hello.txt")
        return True


class TestFolder(ChannelContract):
    module = folder_channel

    @pytest.fixture
    def far(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderFar:
        far = FolderFar(tmp_path / "notes")
        monkeypatch.setattr(folder_channel, "_write", far.write)
        return far


async def test_a_message_is_one_file_however_often_it_comes(tmp_path: Path) -> None:
    channel = folder_channel.create(ID, folder_channel.CONFIG(folder=str(tmp_path)), ChannelContext())
    contract = TestFolder()
    far = FolderFar(tmp_path)
    for _ in range(3):
        assert (
            await channel.deliver(far.address, contract.envelope(far, "once"), FakeDeliveryContext())
        ).status == "delivered"
    assert far.texts() == ["From: relay.user.contract\n\nonce\n"]
