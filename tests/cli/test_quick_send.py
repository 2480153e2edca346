"""`tieline message send TO TEXT` by the quick way, and what it must never do otherwise than the whole command line."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.hub_process import HubProcess

import tieline
from tieline.paths import running_file, socket_file
from tieline.testing.cli_process import WAIT_S, CliProcess

pytestmark = pytest.mark.slow

WHOLE = ("--key", "")
"""An option that changes nothing, but is not the plain form."""
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-z]{20,}")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Generator[CliProcess, None, None]:
    setting = CliProcess(tmp_path_factory.mktemp("quick"))
    with HubProcess(setting):
        yield setting


def send(
    cli: CliProcess,
    *words: str | bytes,
    env: Mapping[str, str] = {},
    redirect: str = "",
    before: str = "",
    cwd: Path | None = None,
) -> tuple[int, str, str]:
    """The exit status, and what is printed, without ids."""
    shell = f'{before} exec "$@" {redirect}'
    ended = subprocess.run(
        ["/bin/sh", "-c", shell, "sh", cli.program, "message", "send", *words],
        cwd=cwd or cli.place, env={**cli.env, **env}, stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT_S,
    )  # fmt: skip
    printed, problem = (ID.sub("<id>", text.decode(errors="replace")) for text in (ended.stdout, ended.stderr))
    return ended.returncode, printed, problem


def inbox(cli: CliProcess, address: str) -> list[dict[str, dict[str, Any]]]:
    ended = cli.run("inbox", address, "--json")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_the_plain_form_imports_no_library(hub: CliProcess) -> None:
    words = ("message", "send", "relay.user.dora", 'quick "ü" \n')
    code = "import tieline.cli; tieline.cli.main()"
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code, *words],
        cwd=hub.place, env=hub.env, capture_output=True, text=True, timeout=WAIT_S, check=True,
    )  # fmt: skip
    imported = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines() if line.startswith("import time")}
    assert "tieline.cli.quick_send" in imported
    left_out = {"typer", "msgspec", "httpx2", "asyncio", "pathlib", "tieline.cli.app", "tieline.version"}
    assert not left_out & imported
    (message,) = inbox(hub, "relay.user.dora")
    assert (message["receipt"]["id"], message["envelope"]["payload"]["text"]) == (ended.stdout.strip(), words[-1])


def test_a_message_leaves_before_anything_is_imported_for_its_reply(hub: CliProcess) -> None:
    code = (
        "import sys, tieline.harnesses.hook as hook\n"
        "class Watched(hook.HubSocket):\n"
        "    def post(self, *request):\n"
        "        print({'_json', 'tieline.processes'} & sys.modules.keys())\n"
        "        return super().post(*request)\n"
        "hook.HubSocket = Watched\n"
        "import tieline.cli; tieline.cli.main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-S", "-c", code, "message", "send", "relay.user.erna", "early, ümläut"],
        cwd=hub.place, env={**hub.env, "PYTHONPATH": str(Path(tieline.__file__).parent.parent)},
        capture_output=True, text=True, timeout=WAIT_S, check=True,
    )  # fmt: skip
    assert ended.stdout.splitlines()[0] == "set()"


@pytest.mark.parametrize(
    ("status", "words", "env", "redirect"),
    [
        (0, ("relay.user.bob", "hello"), {}, ""),
        (0, ("relay.user.bob", 'a "quoted" \\ word, ümläute, \U0001f600\n\tand lines'), {}, ""),
        (0, ("relay.user.bob", ""), {}, ""),
        (0, ("relay.user.bob", "hello"), {}, ">&-"),
        (0, ("relay.user.bob", "hello"), {}, "2>&-"),
        (2, ("@nobody-here", "hello"), {}, ""),
        (2, ("nowhere", "hello"), {}, ""),
        (2, ("", "hello"), {}, ""),
        (2, ("relay..bob", "hello"), {}, ""),
        (2, ("relay.user.bob", "hello"), {"TIELINE_SESSION": "no-such-session"}, ""),
        (0, ("relay.user.bob", "hello"), {"TIELINE_WITHIN": "no-such-message"}, ""),
        (1, ("relay.user.bob", b"\xff"), {}, ""),
        (1, ("relay.user.bob", "hello"), {"TIELINE_HUB": "http://127.0.0.1:9"}, ""),
        (1, ("relay.user.bob", "hello"), {"TIELINE_HOME": "/nonexistent"}, ""),
        (2, ("relay.user.bob",), {}, ""),
        (2, ("relay.user.bob", "two", "texts"), {}, ""),
    ],
)
def test_it_does_what_the_whole_command_line_does(
    hub: CliProcess, status: int, words: tuple[str | bytes, ...], env: Mapping[str, str], redirect: str
) -> None:
    quick = send(hub, *words, env=env, redirect=redirect)
    assert quick == send(hub, *words, *WHOLE, env=env, redirect=redirect)
    assert quick[0] == status, quick


def test_the_same_is_stored(hub: CliProcess) -> None:
    for words in (("relay.user.eve", "hello"), ("relay.user.eve", "hello", *WHOLE)):
        assert send(hub, *words)[0] == 0
    envelopes: list[dict[str, Any]] = [
        {**message["envelope"], "id": "", "key": "", "created_at": 0, "thread": "", "budget": {}}
        for message in inbox(hub, "relay.user.eve")
    ]
    assert len(envelopes) == 2 and envelopes[0] == envelopes[1]


@pytest.mark.parametrize("options", [(), WHOLE])
def test_a_reader_that_is_gone_is_an_error_without_words(hub: CliProcess, options: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            [hub.program, "message", "send", "relay.user.bob", "hello", *options],
            cwd=hub.place, env=hub.env, stdout=writer, stderr=subprocess.PIPE, timeout=WAIT_S,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert ended.returncode == 1 and re.fullmatch(rb"tieline: \w+; .* shows its state\n", ended.stderr), ended.stderr


@pytest.mark.parametrize("options", [(), WHOLE])
def test_a_folder_that_is_gone_is_told(hub: CliProcess, tmp_path: Path, options: tuple[str, ...]) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    ended = send(hub, "relay.user.bob", "hello", *options, cwd=gone, before='rmdir "$PWD";')
    assert (ended[0], ended[1]) == (1, "") and "No such file or directory" in ended[2]


class Between:
    """A socket in place of the hub's own, and the environment of a command line that uses it."""

    def __init__(self, cli: CliProcess, home: Path) -> None:
        self.env = {**cli.env, "TIELINE_HOME": str(home)}
        self.path = socket_file(self.env)
        self.path.parent.mkdir(parents=True)
        self.hub = str(socket_file(cli.env))
        shutil.copy(running_file(cli.env), home)

    @contextmanager
    def each(self, connection: Callable[[socket.socket], None]) -> Generator[None, None, None]:
        """Calls it with the first connection, when its request is there."""

        def serve() -> None:
            accepted, _ = listening.accept()
            with accepted:
                accepted.settimeout(WAIT_S)
                connection(accepted)

        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(self.path))
            listening.listen()
            listening.settimeout(WAIT_S)
            thread = threading.Thread(target=serve)
            thread.start()
            yield
            thread.join(WAIT_S)


@pytest.fixture
def between(hub: CliProcess) -> Generator[Between, None, None]:
    with tempfile.TemporaryDirectory(prefix="tl-") as home:  # short enough for a socket
        yield Between(hub, Path(home))


def test_a_message_whose_reply_was_lost_is_one_message(hub: CliProcess, between: Between) -> None:
    replies: list[bytes] = []

    def forward(connection: socket.socket) -> None:
        with socket.socket(socket.AF_UNIX) as hub:
            hub.connect(between.hub)
            hub.settimeout(WAIT_S)
            hub.sendall(connection.recv(1 << 20))
            replies.append(hub.recv(1 << 20))

    with between.each(forward):
        ended = send(hub, "relay.user.frank", "once", env=between.env)
    assert ended[0] == 0, ended
    assert b" 201 " in replies[0]
    (message,) = inbox(hub, "relay.user.frank")
    assert message["envelope"]["payload"]["text"] == "once"


@pytest.mark.parametrize("options", [(), WHOLE])
def test_ctrl_c_ends_it_without_words(hub: CliProcess, between: Between, options: tuple[str, ...]) -> None:
    running = json.loads(running_file(between.env).read_bytes())
    running_file(between.env).write_text(json.dumps({**running, "socket": str(between.path)}))
    requested, over = threading.Event(), threading.Event()

    def never(connection: socket.socket) -> None:
        assert b"relay.user.bob" in connection.recv(1 << 20)
        requested.set()
        over.wait(WAIT_S)

    with between.each(never):
        with subprocess.Popen(
            [hub.program, "message", "send", "relay.user.bob", "hello", *options],
            cwd=hub.place, env=between.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            assert requested.wait(WAIT_S)
            process.send_signal(signal.SIGINT)
            printed = process.communicate(timeout=WAIT_S)
        over.set()
    assert (process.returncode, *printed) == (130, b"", b"")


def test_a_hub_that_was_killed_is_told(tmp_path: Path) -> None:
    cli = CliProcess(tmp_path)
    with HubProcess(cli) as hub:
        hub.kill()
    quick = send(cli, "relay.user.bob", "hello")
    assert quick == send(cli, "relay.user.bob", "hello", *WHOLE)
    assert quick[0] == 1 and "tieline up" in quick[2]
