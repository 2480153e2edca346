"""Through a running hub: one turn of a new session. What its agent asks is decided here.

Needs a hub (`tieline up`); it finds the one of this machine, or the one that TIELINE_HUB and TIELINE_TOKEN name.
"""

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path

from tieline.client import connect
from tieline.events import Answer, Ask, Done, TextDelta
from tieline.protocol.request_bodies import NewSession


def decide(ask: Ask) -> Answer:
    print(f"\nallowed: {ask.title or ask.kind}")
    return Answer(ask.id, "allow", answers={each.id: (each.choices[0].label,) for each in ask.questions})


async def main(agent: str, prompt: str) -> None:
    new = NewSession(agent=agent, cwd=str(Path.cwd()), policy="ask")
    async with connect() as client, aclosing(client.turn(new, prompt, on_ask=decide)) as events:
        async for event in events:
            match event:
                case TextDelta(text=text):
                    print(text, end="", flush=True)
                case Done(status=status):
                    print(f"\n{status}")
                case _:
                    pass


if __name__ == "__main__":
    asyncio.run(main(*(sys.argv[1:] or ["scripted", "Add a greeting."])))
