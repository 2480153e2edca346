"""The HTTP requests to the OpenCode server for one session."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from ...events import Diff
from ..base import Prompt
from .prompt import file_part
from .server import OpenCodeError, OpenCodeServer, ServerUnreachable

ABORT_AGAIN_S = 0.4
"""An abort has no effect before the session is busy: it is sent again until the turn has ended."""
ABORTS_UNBEGUN = 2
"""Or until the session has stayed idle after this many aborts that came when it had the prompt: then it dropped it."""
DIFF_S = 5.0


class SessionApi:
    def __init__(self, server: OpenCodeServer, cwd: str, session: str, body: Mapping[str, Any]) -> None:
        """`body` is what every prompt carries: model, agent, variant, system."""
        self._server = server
        self._cwd = cwd
        self._session = f"/session/{session}"
        self._body = body

    async def request(self, method: str, path: str, body: Any = None, params: Mapping[str, str] | None = None) -> Any:
        return await self._server.request(method, path, self._cwd, body, params)

    async def prompt(self, prompt: Prompt, steer: str | None = None) -> None:
        """Say it; or with `steer` something in the middle of its turn."""
        parts: list[dict[str, Any]] = [{"type": "text", "text": prompt.text if steer is None else steer}]
        if steer is None:
            parts += [await asyncio.to_thread(file_part, attachment) for attachment in prompt.attachments]
        body = {**self._body, "parts": parts}
        if prompt.system:
            body["system"] = "\n\n".join(filter(None, (self._body.get("system"), prompt.system)))
        await self.request("POST", f"{self._session}/prompt_async", body)

    async def abort(self) -> None:
        await self.request("POST", f"{self._session}/abort")

    async def abort_until(self, ended: asyncio.Event, within: float, unbegun: Callable[[], bool]) -> bool:
        """Whether the turn has ended by then. `unbegun`: whether the session has the prompt and does not work on it."""
        deadline = time.monotonic() + within
        dropped = 0
        while True:
            waited = unbegun()
            with suppress(OpenCodeError, ServerUnreachable):
                await self.abort()
                dropped += waited
            with suppress(TimeoutError):
                async with asyncio.timeout(ABORT_AGAIN_S):
                    await ended.wait()
            if ended.is_set() or (dropped >= ABORTS_UNBEGUN and unbegun()):
                return True
            if time.monotonic() > deadline:
                return False

    async def diff(self, since: str) -> Diff | None:
        async def files() -> Any:
            return await self.request("GET", f"{self._session}/diff", params={"messageID": since})

        return await read_diff(files)


async def read_diff(files: Callable[[], Awaitable[Any]]) -> Diff | None:
    """What has changed since a message, by OpenCode's snapshots, which include the changes of commands. None: OpenCode
    does not say."""
    with suppress(OpenCodeError, ServerUnreachable, TimeoutError, KeyError):
        async with asyncio.timeout(DIFF_S):
            diffs = await files()
        if patch := "".join(each.get("patch") or "" for each in diffs):
            return Diff(patch, tuple(each["file"] for each in diffs))
    return None
