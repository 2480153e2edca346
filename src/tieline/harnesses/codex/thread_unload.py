"""How a thread is unloaded that the daemon of Codex keeps: to archive it is the only way, and we may die before it is
back. So what we archive is written down, and brought back by the next connection."""

import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from ...errors import UsageError
from ...safe_file_write import replace_private_file
from ...wire.jsonrpc import Peer, PeerGone, RpcError
from .terminal import REQUEST_S, loaded_threads

log = logging.getLogger("tieline.mesh")


class CodexThreadUnloader:
    def __init__(self, file: Path) -> None:
        self._file = file

    async def unload(self, peer: Peer, thread: str) -> None:
        """A thread that the daemon has loaded is the daemon's alone to write: afterwards it has not."""
        try:
            if thread not in await loaded_threads(peer):
                return
            self._note(self._ours() | {thread})
            await peer.request("thread/archive", {"threadId": thread}, timeout=REQUEST_S)
            await self._bring_back(peer, thread)
        except (RpcError, PeerGone, TimeoutError) as error:
            why = str(error) or "no answer in time"
            hint = "`codex app-server daemon restart`, then try again."
            raise UsageError(f"Codex did not release this session: {why}", field="session", hint=hint) from None

    async def bring_back_all(self, peer: Peer) -> None:
        """Those that we archived, and died, or lost the daemon, before they were back."""
        for thread in self._ours():
            try:
                await self._bring_back(peer, thread)
            except RpcError as error:  # somebody else has, or has deleted it
                log.info("the session %s of Codex was not taken out of its archive: %s", thread, error)
                self._note(self._ours() - {thread})

    def check_has_not(self, thread: str) -> None:
        """Raises UsageError: it is in the archive still, and without a daemon it cannot be brought back."""
        if thread in self._ours():
            hint = f"`codex unarchive {thread}`, then try again."
            raise UsageError("this session is archived in Codex", field="session", hint=hint)

    async def _bring_back(self, peer: Peer, thread: str) -> None:
        await peer.request("thread/unarchive", {"threadId": thread}, timeout=REQUEST_S)
        self._note(self._ours() - {thread})

    def _ours(self) -> set[str]:
        with suppress(OSError, msgspec.MsgspecError):
            return set(msgspec.json.decode(self._file.read_bytes(), type=list[str]))
        return set()

    def _note(self, threads: Iterable[str]) -> None:
        replace_private_file(self._file, msgspec.json.encode(sorted(threads)))
