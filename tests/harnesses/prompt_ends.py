"""How a prompt to a terminal ended: its record says so a moment after the log does."""

import asyncio

from tieline.sessions.manager import SessionManager

BOUND = 60.0


async def prompt_status(manager: SessionManager, session: str, prompt: str) -> str:
    """Once it is over."""
    async with asyncio.timeout(BOUND):
        while not (record := await manager.prompts.get(session, prompt)).over:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return record.status
