"""A notification on this machine's desktop, by the program that the system has for it: `notify-send` or `osascript`."""

from collections.abc import Mapping
from contextlib import suppress

from ..processes.async_process import Process
from ..processes.spawn import find

TIMEOUT_S = 10.0
SCRIPT = (
    "-e", "on run argv",
    "-e", "display notification (item 2 of argv) with title (item 1 of argv)",
    "-e", "end run",
)  # fmt: skip
"""The words are arguments, never part of the script."""
DESKTOPS = ("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY")


def command(env: Mapping[str, str], title: str, body: str) -> list[str]:
    """Empty where there is no desktop or no program for it."""
    path = env.get("PATH", "")
    if program := find("osascript", path):
        return [program, *SCRIPT, title, body]
    if any(env.get(name) for name in DESKTOPS) and (program := find("notify-send", path)):
        return [program, "--app-name=Tieline", "--", title, body]
    return []


async def notify_desktop(env: Mapping[str, str], title: str, body: str) -> bool:
    """Whether it was shown. A machine without a desktop is no error."""
    words = command(env, title, body)
    if not words:
        return False
    with suppress(OSError):
        async with Process.start(words, cwd="/", env=env) as process:
            process.close_stdin()
            return await process.wait(TIMEOUT_S) and process.returncode == 0
    return False
