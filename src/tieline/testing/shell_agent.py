"""A small command-line agent that plays a script, for testing the shell driver. Standard library only; run as a script.

    python shell_agent.py --dir DIR [--output text|jsonl] [--stdin | PROMPT] [options]

DIR holds its replies (`replies/0001.json` …, taken in order, by whichever process comes first), its sessions, and
`heard.txt`, everything that a model would have been told. Steps are those of `tieline.script`, and of its own:
`raw` (print it as it is), `exit` (leave at once), `refuse_to_leave` (ignore SIGTERM and stay), `leave_behind` (start a
process in a session of its own that holds the output open), `complain` (print on the error stream).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

VERSION = "1.4.2"
DONE: list[dict[str, Any]] = [{"do": "say", "text": "Done."}]
TOOLS = {"write": "file_write", "run": "shell", "get": "network", "call": ""}


class Agent:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.home = Path(options.dir)
        self.history: list[str] = []
        self.session = options.resume or str(uuid.uuid4())
        self.words = 0

    def main(self) -> int:
        prompt = sys.stdin.read() if self.options.stdin else self.options.prompt
        self.hear(json.dumps({"argv": sys.argv[1:], "prompt": prompt, "mood": os.environ.get("MOOD", "")}))
        kept = self.home / "sessions" / self.session
        if self.options.resume:
            if not kept.exists():
                sys.stderr.write(f"no session {self.session}\n")
                return 2
            self.history = kept.read_text().splitlines()
        self.history.append(json.dumps(prompt))
        self.hear("\n".join(self.history))
        kept.parent.mkdir(exist_ok=True)
        kept.write_text("\n".join(self.history))
        self.tell({"type": "session.started", "session": {"id": self.session, "model": self.options.model}})
        while True:
            reply = self.next_reply()
            for step in reply:
                status = self.play(step)
                if status is not None:
                    return status
            if not any(step["do"] in TOOLS for step in reply):
                break
        kept.write_text("\n".join(self.history))
        usage = {"in": len(prompt.split()), "out": self.words, "cost": 0.25}
        self.tell({"type": "turn.completed", "usage": usage})
        return 0

    def next_reply(self) -> list[dict[str, Any]]:
        """The first reply nobody has taken; renaming it takes it, so that two agents never play the same."""
        for path in sorted((self.home / "replies").glob("*.json")):
            try:
                taken = path.rename(path.with_suffix(".taken"))
            except FileNotFoundError:
                continue
            return json.loads(taken.read_text())
        return DONE

    def play(self, step: dict[str, Any]) -> int | None:
        """Play one step. A status means that the agent leaves with it."""
        kind = step["do"]
        if TOOLS.get(kind) in self.options.deny:
            self.tell({"type": "tool.refused", "tool": kind})
            return None
        play = getattr(self, f"do_{kind}", None)
        return play(step) if play else None

    def do_say(self, step: dict[str, Any]) -> None:
        text, chunks = step["text"], max(1, step.get("chunks", 4))
        self.words += len(text.split())
        size = max(1, -(-len(text) // chunks))
        for start in range(0, len(text), size):
            time.sleep(step.get("delay_s", 0.0))
            if self.options.output == "text":
                sys.stdout.write(text[start : start + size])
                sys.stdout.flush()
            else:
                self.tell({"type": "item.delta", "delta": text[start : start + size]})
        self.history.append(json.dumps(text))
        self.tell({"type": "item.completed", "item": {"kind": "message", "content": [{"text": text}, {"image": ""}]}})

    def do_think(self, step: dict[str, Any]) -> None:
        self.tell({"type": "item.completed", "item": {"kind": "thought", "content": [{"text": step["text"]}]}})

    def do_write(self, step: dict[str, Any]) -> None:
        Path(step["path"]).write_text(step["content"])
        self.tell({"type": "tool.finished", "tool": "write"})

    def do_run(self, step: dict[str, Any]) -> None:
        output = subprocess.run(["/bin/sh", "-c", step["command"]], capture_output=True, text=True, check=False)
        self.tell({"type": "tool.finished", "tool": "run", "output": output.stdout})

    def do_get(self, step: dict[str, Any]) -> None:
        import urllib.error  # takes longer than all the rest
        import urllib.request

        try:
            with urllib.request.urlopen(step["url"], timeout=10) as response:
                output = response.read().decode(errors="replace")
        except urllib.error.URLError as error:
            output = str(error)
        self.tell({"type": "tool.finished", "tool": "get", "output": output})

    def do_fail(self, step: dict[str, Any]) -> int:
        self.tell({"type": "turn.failed", "error": {"message": f"{step['status']}: {step['message']}"}})
        if self.options.output == "text":
            sys.stderr.write(f"{step['status']}: {step['message']}\n")
        return 1

    def do_cut(self, step: dict[str, Any]) -> int:
        sys.stderr.write("the model's stream broke off\n")
        return 3

    def do_stall(self, step: dict[str, Any]) -> None:
        (self.home / "stalled").touch()
        time.sleep(step.get("seconds", 3600.0))

    def do_raw(self, step: dict[str, Any]) -> None:
        sys.stdout.flush()
        os.write(1, step["text"].encode(errors="surrogateescape"))

    def do_complain(self, step: dict[str, Any]) -> None:
        sys.stderr.write(step["text"])
        sys.stderr.flush()

    def do_exit(self, step: dict[str, Any]) -> int:
        return step.get("status", 0)

    def do_refuse_to_leave(self, step: dict[str, Any]) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if step.get("completed"):
            self.tell({"type": "turn.completed", "usage": {}})
        self.do_stall(step)

    def do_leave_behind(self, step: dict[str, Any]) -> None:
        subprocess.Popen(["sleep", "300"], start_new_session=True)

    def tell(self, message: dict[str, Any]) -> None:
        if self.options.output == "jsonl":
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()

    def hear(self, text: str) -> None:
        with (self.home / "heard.txt").open("a") as file:
            file.write(text + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", required=True)
    parser.add_argument("--output", choices=("text", "jsonl"), default="text")
    parser.add_argument("--stdin", action="store_true")
    parser.add_argument("--model", default="")
    parser.add_argument("--instruction", default="")
    parser.add_argument("--resume", default="")
    parser.add_argument("--deny", action="append", default=[])
    parser.add_argument("--version", action="version", version=f"shell-agent {VERSION} (for tests)")
    parser.add_argument("prompt", nargs="?", default="")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(Agent(arguments()).main())
