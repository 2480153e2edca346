"""A policy, and a program that decides what the policy leaves open.

Edits are allowed, the network is not, and commands come to `decide`, which lets Python run and nothing else.

python decide.py [AGENT] [PROMPT]
"""

import asyncio
import sys
import tempfile

import tieline
from tieline.events import Answer, Ask, Command, ToolResult


def decide(ask: Ask) -> Answer | bool:
    print(f"asked: {ask.kind} {ask.action or ask.title}")
    if ask.kind == "question":
        question = ask.questions[0]
        return Answer(ask.id, "allow", by="decide.py", answers={question.id: (question.choices[0].label,)})
    if isinstance(ask.action, Command) and ask.action.command.startswith("python"):
        return True
    return Answer(ask.id, "deny", by="decide.py", reason="only Python may run here")


async def main(agent: str, prompt: str) -> None:
    policy = tieline.Policy(file_write="allow", shell="ask", network="deny")
    with tempfile.TemporaryDirectory() as folder:
        async with tieline.open_session(agent, cwd=folder, policy=policy, on_ask=decide) as session:
            for name in ("file_write", "shell", "network"):
                line = session.receipt.of(name)
                print(f"{name}: {line.level}, held by {line.means} {line.note}")
            async for event in session.turn(prompt):
                if isinstance(event, ToolResult):
                    print(f"{event.status}: {event.output.strip()}")


if __name__ == "__main__":
    arguments = [*sys.argv[1:], *["scripted", "write a greeting"][len(sys.argv) - 1 :]]
    asyncio.run(main(*arguments[:2]))
