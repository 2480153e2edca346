"""Many WebSocket clients in a process of their own: `python -m tests.hub.crowd`, told what to do on its input.

In: one line with the url, the token and which session (or all) each client follows. Out: `ready`. In: the last event of
each session. Out: one line with what every client heard, when all of them have heard that.
"""

import asyncio
import hashlib
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

import websockets
from websockets.asyncio.client import connect

PATIENCE_S = 250.0
GREETINGS = 32
"""Clients that sign in at once: of those who have not yet, the hub takes only so many of one machine."""


class Follower:
    def __init__(self, url: str, token: str, sessions: list[str] | None, greeting: asyncio.Semaphore) -> None:
        self.sessions = sessions
        self.seqs: list[int] = []
        self.drops = 0
        self.ready = asyncio.Event()
        self._url = url
        self._token = token
        self._greeting = greeting
        self._epoch = ""
        self._cursor = 0
        self._heard = asyncio.Event()

    async def run(self) -> None:
        while True:
            try:
                async with AsyncExitStack() as stack:
                    async with self._greeting:
                        options: dict[str, Any] = {"proxy": None, "compression": None, "max_size": None}
                        socket = await stack.enter_async_context(
                            connect(self._url, open_timeout=PATIENCE_S, ping_interval=None, **options)
                        )
                        await socket.send(json.dumps({"type": "authenticate", "token": self._token}))
                        self._take(str(await socket.recv()))
                    wanted = {"after": self._cursor, "epoch": self._epoch, "sessions": self.sessions}
                    await socket.send(json.dumps({"type": "subscribe", **wanted}))
                    async for text in socket:
                        self._take(str(text))
            except (websockets.ConnectionClosed, websockets.InvalidHandshake, OSError):
                pass
            self.drops += 1

    def _take(self, text: str) -> None:
        if text.startswith('{"type":"event"'):
            seq = int(text[22 : text.index(",", 22)])
            self.seqs.append(seq)
            self._cursor = seq
            self._heard.set()
        elif text.startswith('{"type":"ready"'):
            frame = json.loads(text)
            if frame["state"] == "reset":
                self._cursor = frame["cursor"]
            self._epoch = frame["epoch"]
            self.ready.set()

    async def until(self, last: dict[str, int]) -> None:
        wanted = max(last.values()) if self.sessions is None else last[self.sessions[0]]
        while not self.seqs or self.seqs[-1] < wanted:
            self._heard.clear()
            await self._heard.wait()

    def summary(self) -> dict[str, Any]:
        name = "" if self.sessions is None else self.sessions[0]
        return {"follows": name, "digest": digest(self.seqs), "count": len(self.seqs), "drops": self.drops}


def digest(seqs: list[int]) -> str:
    return hashlib.sha256(json.dumps(seqs).encode()).hexdigest()


async def main() -> None:
    loop = asyncio.get_running_loop()
    order = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    greeting = asyncio.Semaphore(GREETINGS)
    followers = [Follower(order["url"], order["token"], sessions, greeting) for sessions in order["clients"]]
    tasks = [asyncio.create_task(follower.run()) for follower in followers]
    try:
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(follower.ready.wait() for follower in followers))
            print("ready", flush=True)
            last = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
            await asyncio.gather(*(follower.until(last) for follower in followers))
        print(json.dumps([follower.summary() for follower in followers]), flush=True)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
