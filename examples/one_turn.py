"""One call, one event stream, whichever agent it is.

python one_turn.py [AGENT] [PROMPT]
"""

import asyncio
import sys
import tempfile

import tieline
from tieline.events import Done, TextDelta, ToolUse


async def main(agent: str, prompt: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        async for event in tieline.run(agent, prompt, cwd=folder, policy="full"):
            match event:
                case TextDelta(text):
                    print(text, end="", flush=True)
                case ToolUse(name=name, action=action):
                    print(f"\n[{name}: {action.kind}]")
                case Done(status=status, tokens=tokens):
                    print(f"\n{status}, {tokens}")
                    return 0 if status == "success" else 1
                case _:
                    pass
    return 1


if __name__ == "__main__":
    arguments = [*sys.argv[1:], *["scripted", "write a greeting"][len(sys.argv) - 1 :]]
    sys.exit(asyncio.run(main(*arguments[:2])))
