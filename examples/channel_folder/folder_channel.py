"""A channel of one's own, in one file: what is sent to `relay.folder.<id>` becomes a file in a folder, and what
somebody puts into its `out` folder is sent on.

    [[channels]]
    id = "notes"
    path = "folder_channel.py"
    [channels.config]
    folder = "/home/me/notes"
    to = "relay.user.owner"

A module offers three names: NAME for people, CONFIG for the schema, create for the channel.
"""

import asyncio
from pathlib import Path
from typing import Literal

from msgspec import Struct

from tieline.channels.base import (
    Channel,
    ChannelContext,
    ChannelStatus,
    DeliveryContext,
    DeliveryResult,
    Envelope,
    RelayAccess,
    dead,
    delivered,
    failed,
)
from tieline.envelopes import Refused
from tieline.errors import UsageError

NAME = "Folder"


class CONFIG(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    folder: str
    to: str = ""  # where files of `out` go; empty: nothing is sent
    look_s: float = 1.0

    def __post_init__(self) -> None:
        if not Path(self.folder).is_absolute():
            raise UsageError("a folder is named by its whole path", field="folder")


class Folder:
    def __init__(self, id: str, config: CONFIG) -> None:
        self.id = id
        self.subject_prefix = f"relay.folder.{id}"
        self.display_name = f"Folder {config.folder}"
        self._config = config
        self._folder = Path(config.folder)
        self._written = 0
        self._state: Literal["starting", "running", "stopped"] = "starting"
        self._task: asyncio.Task[None] | None = None

    async def start(self, relay: RelayAccess) -> None:
        await asyncio.to_thread((self._folder / "out").mkdir, parents=True, exist_ok=True)
        if self._config.to:
            self._task = asyncio.create_task(self._watch(relay))
        self._state = "running"

    async def stop(self) -> None:
        self._state = "stopped"
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def status(self) -> ChannelStatus:
        return ChannelStatus(state=self._state, detail={"written": self._written})

    async def deliver(self, subject: str, envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        # The id is the file's name: delivered twice, it is still one file.
        path = self._folder / f"{envelope.id}.txt"
        text = envelope.payload.as_text()
        if not text:
            return dead("rejected", "there is nothing to write")
        try:
            await asyncio.to_thread(_write, path, f"From: {envelope.sender}\n\n{text}\n")
        except OSError as error:
            return failed("delivery_failed", f"{path}: {error.strerror}")
        self._written += 1
        return delivered()

    async def _watch(self, relay: RelayAccess) -> None:
        sender = relay.sender(self.subject_prefix)
        while True:
            for path in sorted(await asyncio.to_thread(_files, self._folder / "out")):
                text = await asyncio.to_thread(path.read_text)
                try:
                    # The key makes a file one message, also when we stop between these two lines.
                    await sender.send(self._config.to, text, reply_to=self.subject_prefix, key=f"file:{path.name}")
                    await asyncio.to_thread(path.unlink)
                except Refused as error:
                    relay.report(f"{path.name}: {error.message}")
            await asyncio.sleep(self._config.look_s)


def create(id: str, config: Struct, context: ChannelContext) -> Channel:
    assert isinstance(config, CONFIG)
    return Folder(id, config)


def _write(path: Path, text: str) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(path)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix == ".txt"]
