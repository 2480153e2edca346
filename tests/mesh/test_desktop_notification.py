"""Notifications on the desktop. The programs are stand-ins that write down how they were called."""

from pathlib import Path

import pytest

from tieline.mesh.desktop_notification import notify_desktop

RECORD = """#!/bin/sh
for word in "$@"; do printf '%s\\n' "$word" >> "$CALLS"; done
exit ${STATUS:-0}
"""


def program(folder: Path, name: str) -> dict[str, str]:
    (folder / name).write_text(RECORD)
    (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin", "CALLS": str(folder / "calls")}


async def test_linux_takes_the_words_as_words(tmp_path: Path) -> None:
    env = program(tmp_path, "notify-send") | {"DISPLAY": ":0"}
    assert await notify_desktop(env, "--icon=evil", "a body")
    assert (tmp_path / "calls").read_text().splitlines() == ["--app-name=Tieline", "--", "--icon=evil", "a body"]


async def test_macos_takes_the_words_as_arguments_of_the_script(tmp_path: Path) -> None:
    env = program(tmp_path, "osascript")
    assert await notify_desktop(env, 'title" & (do shell script "x")', "a body")
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[-2:] == ['title" & (do shell script "x")', "a body"]
    assert not any("do shell script" in word for word in calls[:-2])


@pytest.mark.parametrize("missing", ["program", "desktop", "success"])
async def test_a_machine_without_a_desktop_is_no_error(tmp_path: Path, missing: str) -> None:
    env = {"PATH": str(tmp_path), "DISPLAY": ":0"} if missing == "program" else program(tmp_path, "notify-send")
    if missing == "success":
        env |= {"DISPLAY": ":0", "STATUS": "1"}
    assert not await notify_desktop(env, "title", "body")
