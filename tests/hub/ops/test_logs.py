"""Logs: structured, readable, and without anything that opens a door or repeats what was said."""

import io
import json
import logging
import stat
import time
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.hub.conftest import running

from tieline import script
from tieline.hub.ops import logs
from tieline.hub.ops.logs import REDACTED, Logs, logger, redact


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_json_in_the_file_and_words_on_the_terminal(tmp_path: Path) -> None:
    terminal = io.StringIO()
    with Logs(tmp_path / "logs" / "hub.log", terminal):
        logger("hub").info("hello", number=3, token="tl_verysecretvalue")
        logging.getLogger("tieline.elsewhere").warning("old style %s", "Bearer abc.def")
        logging.getLogger("uvicorn.error").error("ASGI callable returned without completing handshake.")
        logger("hub").debug("not shown")
    entries = lines(tmp_path / "logs" / "hub.log")
    assert [(entry["event"], entry["level"]) for entry in entries] == [
        ("hello", "info"),
        (f"old style Bearer {REDACTED}", "warning"),
    ]
    assert (entries[0]["number"], entries[0]["token"]) == (3, REDACTED)
    assert entries[0]["timestamp"].endswith("Z")
    assert stat.S_IMODE((tmp_path / "logs" / "hub.log").stat().st_mode) == 0o600
    assert "hello" in terminal.getvalue()
    assert "number=3" in terminal.getvalue()
    assert "verysecret" not in terminal.getvalue()
    logger("hub").info("nobody listens")
    assert len(lines(tmp_path / "logs" / "hub.log")) == 2


def test_what_libraries_log_is_among_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Logs(tmp_path / "hub.log"):
        logging.getLogger("asyncio").error("never retrieved: %s", "Bearer abc.def")
        logging.getLogger("some.library").info("not shown")
    (entry,) = lines(tmp_path / "hub.log")
    assert (entry["event"], entry["logger"]) == (f"never retrieved: Bearer {REDACTED}", "asyncio")
    assert capfd.readouterr().err == "", "the daemon's standard error is the file, in the raw"


def test_a_library_that_repeats_itself_does_not_fill_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with Logs(tmp_path / "hub.log"):
        for number in range(3):
            for _ in range(1000):
                logging.getLogger("asyncio").error("socket.accept() out of system resource")
                logger("hub").warning("each of ours counts", number=number)
            now += 61
    events = [entry["event"] for entry in lines(tmp_path / "hub.log")]
    assert events.count("socket.accept() out of system resource") == 3
    assert events.count("each of ours counts") == 3000


def test_a_full_file_gives_way_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, formatted = tmp_path / "hub.log", 0
    format = structlog.stdlib.ProcessorFormatter.format

    def counted(self: structlog.stdlib.ProcessorFormatter, record: logging.LogRecord) -> str:
        nonlocal formatted
        formatted += 1
        return format(self, record)

    monkeypatch.setattr(structlog.stdlib.ProcessorFormatter, "format", counted)
    monkeypatch.setattr(logs, "MAX_FILE", 1000)
    file.write_text("x" * 999 + "\n")  # of the last run
    with Logs(file):
        for number in range(30):
            logger("hub").info("request", number=number)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["hub.log", *(f"hub.log.{number}" for number in range(1, logs.FILES + 1))]
    assert lines(file)[-1]["number"] == 29
    assert all(path.stat().st_size < 1200 for path in tmp_path.iterdir())
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tmp_path.iterdir())
    assert formatted == 30, "a line is formatted once"


def test_tracebacks_are_kept_and_cleaned(tmp_path: Path) -> None:
    with Logs(tmp_path / "hub.log"):
        try:
            raise ValueError("with tl_abcdefghijklmnop inside")
        except ValueError as error:
            logger("hub").error("failed", exc_info=error)
    entry = lines(tmp_path / "hub.log")[0]
    assert "ValueError" in entry["exception"]
    assert "tl_abc" not in entry["exception"]


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("token", "x", REDACTED),
        ("Authorization", "Bearer x", REDACTED),
        ("secret", "x", REDACTED),
        ("set_cookie", "x", REDACTED),
        ("text", "what was said", "[13 not shown]"),
        ("prompt", "words", "[5 not shown]"),
        ("url", "http://h/#login=abcdef", f"http://h/#login={REDACTED}"),
        ("url", "http://h/#pair=abcdef&x=1", f"http://h/#pair={REDACTED}&x=1"),
        ("why", "key tl_0123456789 is wrong", f"key {REDACTED} is wrong"),
        ("why", "sk-ant-0123456789", REDACTED),
        (
            "inside",
            {"token": "x", "deep": [{"note": "tl_0123456789"}]},
            {"token": REDACTED, "deep": [{"note": REDACTED}]},
        ),
        ("path", "/api/v1/me", "/api/v1/me"),
        ("number", 7, 7),
    ],
)
def test_redaction(name: str, value: Any, shown: Any) -> None:
    assert redact(None, "info", {name: value}) == {name: shown}


async def test_a_whole_visit_leaves_no_secret_in_the_log(tmp_path: Path) -> None:
    with Logs(tmp_path / "hub.log", level=logging.DEBUG):
        async with running(tmp_path) as hub:
            hub.play((script.Say("the very private reply"),))
            offer = (await hub.client.post("/api/v1/pairings", json={"kind": "page"})).json()
            login = await hub.client.post("/api/v1/login", json={"secret": offer["secret"]})
            session = (await hub.session(title="the private title"))["id"]
            path = f"/api/v1/sessions/{session}/prompts"
            await hub.client.post(path, json={"text": "the very private prompt"})
            async for entry in hub.manager.events(session):
                if entry.event.type == "done":
                    break
            await hub.client.get("/api/v1/sessions", params={"q": "private search"})
            await hub.client.post("/api/v1/login", json={"secret": "a wrong secret"})
            await hub.client.get("/api/v1/me", headers={"Authorization": "Bearer tl_wrong_token_here"})
            secrets = [hub.token, offer["secret"], login.json()["key"]]
    log_text = (tmp_path / "hub.log").read_text()
    requests = [line for line in lines(tmp_path / "hub.log") if line["event"] == "request"]
    assert len(requests) >= 6
    assert [line["why"] for line in requests if line["status"] == 401][-1].startswith("unknown or revoked token")
    assert all(line["id"] and line["path"] for line in requests)
    for secret in (*secrets, "private", "a wrong secret", "wrong_token"):
        assert secret not in log_text
