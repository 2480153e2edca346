"""Runs a document as a reader would: its commands in order, on the machines that its prompts name, and compares what
they print with what the document says they print.

`$ command` is for the first machine, `laptop$ command` for a machine `laptop`. `…` in a document stands for anything;
in a command, for what an earlier command printed in its place. A block of TOML that names a file goes there, a block of
Python is run on the first machine. What a person does elsewhere is an HTML comment, `<!-- phone: allow everything -->`:
the test gives a function for it.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

STEP = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$|^<!-- (\w+: [^\n]*?) -->$", re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r"^(?:(\w+))?\$ (.*)$")
BIN = Path(sys.executable).parent
WAIT_S = 90.0
LINK = "http://127.0.0.1:8137"
"""The address that documents show. A test's hub has another port."""


class ConsolePage:
    """`page.run()` runs it to its end; `page.close()` ends what it left running, whatever happened."""

    def __init__(self, page: Path, root: Path, actions: Mapping[str, Callable[["ConsolePage"], None]]) -> None:
        self.page = page
        self.printed: list[str] = []
        self.ran = 0
        self._root = root
        self._actions = actions
        self._machines: dict[str, dict[str, str]] = {}
        self.machine("")

    def machine(self, name: str) -> dict[str, str]:
        """The environment of a machine: a home of its own."""
        if name not in self._machines:
            home = self._root / (name or "desk")
            (home / ".config/tieline").mkdir(parents=True)
            self.config(home).write_text("[hub]\nport = 0\n")
            self._machines[name] = {"HOME": str(home), "PATH": f"{BIN}:/usr/bin:/bin", "LANG": "C.UTF-8"}
        return self._machines[name]

    @staticmethod
    def config(home: Path) -> Path:
        return home / ".config/tieline/tieline.toml"

    def run(self) -> None:
        for step in STEP.finditer(self.page.read_text()):
            language, mark, body, action = step.groups()
            if action:
                self._actions[action](self)
            elif language == "console":
                assert "no-run" not in mark, f"{self.page.name} has a block that is not run"
                self._console(body)
            elif language == "python" and mark.strip() != "no-run":
                self._python(body)
            elif language == "toml" and mark.strip() == "tieline.toml":
                file = self.config(Path(self.machine("")["HOME"]))
                file.write_text(file.read_text() + body)

    def close(self) -> None:
        for env in reversed(self._machines.values()):
            subprocess.run([BIN / "tieline", "down"], env=env, capture_output=True, timeout=WAIT_S)

    def find(self, pattern: str) -> str:
        """The newest that a command printed of that form."""
        for text in reversed(self.printed):
            if matches := re.findall(pattern, text):
                return matches[-1]
        raise AssertionError(f"no command printed {pattern}:\n" + "\n".join(self.printed))

    # --- inside --------------------------------------------------------------------------------------------

    def _console(self, body: str) -> None:
        command, machine, expected = "", "", list[str]()
        for line in body.splitlines():
            if prompt := PROMPT.match(line):
                self._command(machine, command, expected)
                machine, command, expected = prompt[1] or "", prompt[2], []
            else:
                expected.append(line)
        self._command(machine, command, expected)

    def _command(self, machine: str, command: str, expected: list[str]) -> None:
        if not command:
            return
        command = re.sub(r"\S*…\S*", self._meant, command.replace(LINK, self._address(command)))
        printed = self._run(machine, ["/bin/sh", "-c", command], command)
        rest = printed
        for line in expected:
            if not line.strip():
                continue
            form = r"\s+".join(re.escape(word) for word in line.replace(LINK, self._address(line)).split())
            match = re.search(form.replace("…", ".*?"), rest)
            assert match, f"{self.page.name} says that `{command}` prints\n  {line}\nbut it prints\n{printed}"
            rest = rest[match.end() :]

    def _address(self, text: str) -> str:
        return self.find(r"http://127\.0\.0\.1:\d+") if LINK in text and self.printed else LINK

    def _meant(self, word: re.Match[str]) -> str:
        """What an earlier command printed where the document has `…`."""
        quotes = word[0][:1] if word[0][:1] in "'\"" else ""
        bare = word[0].strip("'\"")
        return quotes + self.find(re.escape(bare).replace("…", r"[\w-]+")) + quotes

    def _python(self, code: str) -> None:
        if compile(code, "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT).co_flags & 0x80:  # it awaits
            body = "\n".join(f"    {line}" for line in code.splitlines())
            code = f"import asyncio\nasync def main():\n{body}\nasyncio.run(main())\n"
        self._run("", [sys.executable, "-c", code], code)

    def _run(self, machine: str, arguments: list[str], source: str) -> str:
        env = self.machine(machine)
        done = subprocess.run(
            arguments,
            cwd=env["HOME"],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )
        assert done.returncode == 0, f"{source}\n{done.stdout}\n{done.stderr}"
        self.printed.append(done.stdout)
        self.ran += 1
        return done.stdout
