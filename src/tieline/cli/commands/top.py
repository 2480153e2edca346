"""`tieline top`: all machines and sessions, on one screen; or once, as a table or JSON."""

import sys
import time
from contextlib import aclosing

from ...client.client import Client
from ...protocol.stream_frames import Ready
from .. import hub_connection
from ..terminal.formatting import on_terminal, print_json
from ..terminal.tables import print_rows
from ..top.hub_picture import COLUMNS, HubPicture, Overview

NOTHING = 'No sessions. Start one: tieline send --new codex "your task"'


def top(*, once: bool, find: str, json: bool) -> int:
    async def work(client: Client) -> int:
        if not (once or json or find) and on_terminal() and sys.stdin.isatty():
            from ..top.app import open_top  # Textual takes its time

            await open_top(client)
            return 0
        overview = await _overview(client, find)
        if json:
            print_json(overview)
            return 0
        now = time.time()
        print_rows(COLUMNS, [row.cells(now) for row in overview.sessions], NOTHING)
        return 0

    return hub_connection.run_with_client(work)


async def _overview(client: Client, find: str) -> Overview:
    picture = HubPicture()
    async with aclosing(client.stream(events=False, deltas=False, by="sse")) as frames:
        async for frame in frames:
            picture.apply(frame)
            if isinstance(frame, Ready):
                break
    return picture.overview(find)
