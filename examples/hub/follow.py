"""Through a running hub: start a session, answer what its agent asks, and watch until it is done.

Needs a hub (`tieline up`); it finds the one of this machine, or the one that TIELINE_HUB and TIELINE_TOKEN name.
"""

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path

from tieline.client import connect
from tieline.events import Done, TextDelta
from tieline.ids import new_id
from tieline.protocol.request_bodies import Decision, NewSession
from tieline.protocol.stream_frames import AskFrame, DeltaFrame, EventFrame, Ready


async def main(agent: str, prompt: str) -> None:
    new = NewSession(id=new_id(), agent=agent, cwd=str(Path.cwd()), policy="ask", prompt=prompt)
    async with connect() as client, aclosing(client.stream(sessions=[new.id])) as frames:
        async for frame in frames:
            match frame:
                case Ready():  # we listen: nothing of the turn can be missed
                    await client.create_session(new)  # by its id, doing it again is harmless
                case DeltaFrame(event=TextDelta(text=text)):
                    print(text, end="", flush=True)
                case AskFrame(ask=record) if record.status == "pending":
                    print(f"\nallowed: {record.ask.title or record.ask.kind}")
                    first = {each.id: (each.choices[0].label,) for each in record.ask.questions}
                    await client.answer(record.id, Decision(decision="allow", answers=first, digest=record.digest))
                case EventFrame(event=Done(status=status)):
                    print(f"\n{status}")
                    return
                case _:
                    pass


if __name__ == "__main__":
    asyncio.run(main(*(sys.argv[1:] or ["scripted", "Add a greeting."])))
