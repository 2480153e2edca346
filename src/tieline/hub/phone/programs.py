"""Other programs that open a way to the hub (tunnels, mkcert): finds them, starts them and reads their output.

They are children of the hub, below its reaper, so none outlives it. Of its environment they get only what they need to
find their own settings and the network.
"""

import asyncio
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ...processes.async_process import Process
from ...wire.lines import LineTooLong

ELSEWHERE = {"tailscale": ("/Applications/Tailscale.app/Contents/MacOS/Tailscale",)}
"""Programs that their installers do not put on the PATH."""
ANSWER_S = 10.0
"""For a question that a program answers at once."""
MAX_OUTPUT = 256 * 1024
_PASSED_ON = re.compile(
    r"HOME|PATH|USER|LOGNAME|LANG|LC_\w+|TMPDIR|TZ|XDG_\w+|SSL_CERT_(?:FILE|DIR)|(?:HTTPS?|ALL|NO)_PROXY"
    r"|(?:https?|all|no)_proxy|NGROK_\w+|TUNNEL_\w+|TS_\w+|CAROOT",
)


class Output(Struct, frozen=True, kw_only=True):
    status: int  # negative: it did not end in time, or could not be started
    stdout: str
    stderr: str

    @property
    def complaint(self) -> str:
        """The last line that says something."""
        return last_line(self.stderr) or last_line(self.stdout) or f"exit status {self.status}"


def find_program(name: str, env: Mapping[str, str]) -> str:
    """The program's absolute path; empty if it is not installed."""
    for path in (shutil.which(name, path=env.get("PATH", "")), *ELSEWHERE.get(name, ())):
        if path and Path(path).is_absolute() and Path(path).is_file():
            return path
    return ""


def program_environment(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if _PASSED_ON.fullmatch(name)}


async def run_program(argv: Sequence[str], env: Mapping[str, str], *, within: float = ANSWER_S) -> Output:
    """The program's whole output. A program that takes longer than `within` is ended."""
    output = bytearray()
    try:
        async with Process.start(argv, cwd="/", env=program_environment(env)) as process:
            try:
                async with asyncio.timeout(within):
                    async for chunk in process.chunks():
                        output += chunk
                        if len(output) > MAX_OUTPUT:
                            break
                    await process.wait(None)
            except TimeoutError:
                return Output(status=-1, stdout=_text(output), stderr=f"no answer within {within:g} s")
            return Output(status=process.returncode or 0, stdout=_text(output), stderr=process.stderr)
    except (OSError, LineTooLong) as error:
        return Output(status=-1, stdout="", stderr=str(error))


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _text(data: bytearray) -> str:
    return data.decode(errors="replace")
