"""The time of day, and waiting for it: a test has a clock of its own."""

import asyncio
import time


class Clock:
    def now(self) -> float:
        return time.time()

    async def wait(self, seconds: float, wake: asyncio.Event) -> None:
        """Until the time has passed, or it is woken."""
        try:
            async with asyncio.timeout(seconds):
                await wake.wait()
        except TimeoutError:
            pass
