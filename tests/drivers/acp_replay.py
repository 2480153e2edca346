"""An ACP agent that plays a script: what real agents were seen to send. It needs the standard library alone, and starts
in no time.

    acp_replay.py SCRIPT.json

The script has the answers to `initialize` and `session/new`, and for each prompt a list of steps; `starting` and
`opened` are steps before and after the answer to `session/new`. `update` sends a session update; `ask` (with `params`)
sends a request, may `touch` a file or take steps `meanwhile`, and waits for the answer; `read` reads a file, which may
be a pipe; `say` tells something of what came; `wait_for` waits for
a method of the client's; `result` ends the turn.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

Message = dict[str, Any]


class Replay:
    def __init__(self, script: Message) -> None:
        self.script = script
        self.seen: list[str] = []
        self.answer: Any = None
        self.prompt: Any = None
        self.meta: Any = None  # of the session
        self.servers: Any = None
        self.asked = 0

    def run(self) -> None:
        while call := self.read():
            self.take(call)

    def read(self) -> Message | None:
        line = sys.stdin.readline()
        return json.loads(line) if line else None

    def send(self, message: Message) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def take(self, call: Message) -> None:
        """A message of the client's that nobody waits for here."""
        method = call.get("method", "")
        self.seen.append(method or "answer")
        if not method:
            self.answer = call.get("result", call.get("error"))
        if "id" not in call or not method:
            return
        if method == "session/prompt":
            self.prompt = call["params"]["prompt"]
            self.play(self.script["prompts"].pop(0), call["id"])
            return
        if method in ("session/new", "session/load"):
            self.meta = call["params"].get("_meta")
            self.servers = call["params"].get("mcpServers")
        for step in self.script.get("starting", ()) if method == "session/new" else ():
            self.step(step)
        results: Message = {
            "initialize": {"protocolVersion": 1, **self.script.get("initialize", {})},
            "session/new": {"sessionId": "s", **self.script.get("session", {})},
            "session/load": self.script.get("session", {}),
            "_session/steering": {"outcome": self.script.get("steering", "injected")},
        }
        if method == "_session/steering":
            self.seen.append(json.dumps(call["params"]))
        self.send({"id": call["id"], "result": results.get(method, {})})
        for step in self.script.get("opened", ()) if method == "session/new" else ():
            self.step(step)

    def play(self, steps: list[Message], prompt: Any) -> None:
        for step in steps:
            if "result" in step:
                self.send({"id": prompt, "result": step["result"]})
            else:
                self.step(step)

    def step(self, step: Message) -> None:
        if "update" in step:
            self.update(step["update"])
        elif "ask" in step:
            self.asked += 1
            number = 1000 + self.asked
            self.send({"id": number, "method": step["ask"], "params": {"sessionId": "s", **step["params"]}})
            if "touch" in step:
                Path(step["touch"]).touch()
            for meanwhile in step.get("meanwhile", ()):
                self.step(meanwhile)
            while (call := self.read()) is not None:
                if call.get("id") == number and "method" not in call:
                    self.seen.append("answer")
                    self.answer = call.get("result", call.get("error"))
                    break
                self.take(call)
        elif "read" in step:
            Path(step["read"]).read_text()
        elif "wait_for" in step:
            while step["wait_for"] not in self.seen and (call := self.read()) is not None:
                self.take(call)
        else:
            self.say(json.dumps(self.known(step["say"])))

    def known(self, what: str) -> Any:
        match what:
            case "answer":  # to its last request
                return self.answer
            case "seen":  # methods, and answers, in the order in which they came
                return self.seen
            case "prompt":
                return self.prompt
            case _:  # how it was started
                files = {word: Path(word[1:]).read_text() for word in sys.argv if word.startswith("@")}
                started = {"environment": dict(os.environ), "arguments": sys.argv[2:], "files": files}
                return {**started, "meta": self.meta, "servers": self.servers}

    def say(self, text: str) -> None:
        self.update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})

    def update(self, update: Message) -> None:
        self.send({"method": "session/update", "params": {"sessionId": "s", "update": update}})


if __name__ == "__main__":
    Replay(json.loads(Path(sys.argv[1]).read_text())).run()
