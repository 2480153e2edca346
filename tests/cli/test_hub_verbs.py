"""The verbs over a hub: sessions, send, tail, approve, deny, answer, abort, retry, queue, diff, open, nodes …"""

import asyncio
import json
import re
import socket
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from tests.cli.hub_process import HubProcess, Setting

from tieline.cli.commands.asks import chosen_labels, free_answer
from tieline.cli.commands.devices import descendants
from tieline.cli.commands.session_actions import last_failed
from tieline.cli.commands.sessions import browse
from tieline.cli.commands.usage import NUMBERS
from tieline.cli.hub_connection import pick
from tieline.cli.terminal.formatting import time_ago
from tieline.cli.terminal.tables import columns, columns_with_room, fit_widths
from tieline.client.client import Client
from tieline.errors import UsageError
from tieline.events import Choice, Question
from tieline.ids import short_id
from tieline.protocol.access import Paired
from tieline.protocol.request_bodies import Claim
from tieline.protocol.views import DeviceView, PromptView
from tieline.script import Run, Say
from tieline.sessions.records import PromptStatus
from tieline.testing.cli_process import WAIT_S, CliProcess


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Generator[Setting, None, None]:
    setting = Setting(tmp_path_factory.mktemp("hub_verbs"))
    setting.agent("twice", [Run("touch one")], [Say("Not that.")], [Run("touch two")], [Say("But that.")])
    with HubProcess(setting):
        yield setting


def ok(hub: CliProcess, *arguments: str, given: str = "") -> str:
    ended = hub.run(*arguments, given=given)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def started(hub: Setting, agent: str, text: str, *more: str) -> str:
    """A new session's id."""
    return ok(hub, "send", "--new", agent, text, *more).split()[0]


def waiting(hub: Setting, session: str) -> None:
    """Until the session waits for an answer."""
    hub.until(session, lambda record: record.status == "waiting")


# --- sessions -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sessions_are_listed_filtered_and_found(hub: Setting) -> None:
    id = started(hub, "talker", "a title to look for")
    hub.until(id, lambda record: record.turns == 1)
    listed = ok(hub, "sessions", "-q", "to look for")
    head, row = listed.splitlines()
    assert head.split()[:3] == ["id", "agent", "status"]
    assert row.split()[:3] == [short_id(id), "talker", "idle"]
    assert "1 unread · a title to look for · world." in row, "nobody has opened it"
    (session,) = json.loads(ok(hub, "sessions", "--agent", "talker", "-q", "to look for", "--json"))
    assert session["id"] == id
    node = session["node"]
    assert id in ok(hub, "sessions", "--node", node[-8:], "--status", "idle", "--limit", "50", "--json")
    assert ok(hub, "sessions", "-q", "nobody said this") == ""
    for wrong, what in ((("--status", "busy"), "status"), (("--node", "nowhere"), "node")):
        ended = hub.run("sessions", *wrong)
        assert ended.returncode == 2 and what in ended.stderr


def test_sessions_on_a_terminal(hub: Setting) -> None:
    id = started(hub, "talker", "on a terminal")
    with hub.terminal("sessions", "-q", "on a terminal", columns=140) as terminal:
        terminal.expect(short_id(id))
        terminal.expect("talker")
        assert terminal.wait() == 0


def test_ids_are_whole_on_a_narrow_terminal(hub: Setting) -> None:
    id = started(hub, "talker", "much is said about what it is to do here, more than fits")
    hub.until(id, lambda record: record.turns == 1)
    with hub.terminal("sessions", "-q", "more than fits", columns=60) as terminal:
        terminal.expect(short_id(id))
        terminal.expect("talker")
        terminal.expect("idle")
        assert terminal.wait() == 0


@pytest.mark.parametrize(
    ("needed", "room", "widths"),
    [
        ([6, 4, 20], 40, [6, 4, 20]),
        ([6, 12, 40], 30, [6, 12, 12]),
        ([6, 30, 40], 30, [6, 12, 12]),
        ([28, 10, 10], 30, [28, 1, 1]),
        ([28, 10, 10], 10, [28, 1, 1]),
        ([28], 10, [28]),
    ],
)
def test_the_widest_columns_give_way(needed: list[int], room: int, widths: list[int]) -> None:
    assert fit_widths(needed, room) == widths


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (71, ["id", "machine", "where", "what"]),
        (70, ["id", "where", "what"]),
        (59, ["id", "where", "what"]),
        (58, ["id", "what"]),
        (10, ["id", "what"]),
    ],
)
def test_a_narrow_terminal_leaves_out_what_says_least(width: int, shown: list[str]) -> None:
    titles, needed = ("id", "machine", "where", "what"), (6, 9, 23, 60)
    assert [titles[n] for n in columns_with_room(titles, needed, ("machine", "where"), width)] == shown


# --- send and tail --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_send_waits_and_gives_the_turns_status(hub: Setting) -> None:
    ended = hub.run("send", "--new", "talker", "-", "--wait", "--policy", "full", given="say hello")
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = ended.stdout.splitlines()
    assert lines[0] == "› say hello" and "world." in lines and lines[-1].startswith("done (")
    id = next(session.id for session in hub.sessions() if session.title == "say hello")
    again = hub.run("send", id[-7:], "again", "--wait")
    assert again.returncode == 0 and "\nDone.\n" in again.stdout  # its script is at its end
    failed = hub.run("send", "--new", "failing", "go", "--wait")
    assert failed.returncode == 1
    assert failed.stdout.count("the model is gone") == 1, "one error is one line"
    frames = [json.loads(line) for line in ok(hub, "send", id, "third", "--wait", "--json").splitlines()]
    assert {"event"} <= {frame["type"] for frame in frames} <= {"event", "delta"}  # deltas only where they come early
    assert frames[-1]["event"]["type"] == "done"


@pytest.mark.slow
def test_tail_shows_what_was_said_and_what_is_said(hub: Setting) -> None:
    id = started(hub, "talker", "for the tail")
    hub.until(id, lambda record: record.turns == 1)
    ended = hub.run("tail", short_id(id), "--no-follow")
    assert ended.returncode == 0
    assert not ended.stderr and "› for the tail\n" in ended.stdout and "Hello" in ended.stdout
    assert "\nworld.\n" in ended.stdout
    cut = hub.run("tail", short_id(id), "--no-follow", "-n", "1")
    assert cut.stdout.startswith("› for the tail\n") and "Hello" not in cut.stdout, "each turn with its prompt"
    last = ok(hub, "tail", id, "--no-follow", "-n", "1", "--json").splitlines()
    assert [json.loads(line)["event"]["type"] for line in last] == ["done"]

    process = hub.start("tail", id, "--json")
    try:
        assert process.stdout is not None
        lines = iter(process.stdout)
        seen = [json.loads(line) for line in _until_done(lines)]
        assert ok(hub, "send", id, "go on").split()[-1] in ("queued", "running", "received")
        seen += [json.loads(line) for line in _until_done(lines)]
    finally:
        process.kill()
        process.communicate()
    places = [frame["seq"] for frame in seen if frame["type"] == "event"]
    assert places == sorted(set(places))
    assert [frame["event"]["prompt"] for frame in seen if frame["event"]["type"] == "turn_started"] == [
        "for the tail",
        "go on",
    ]


def _until_done(lines: Iterator[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield line
        if b'"done"' in line:
            return


@pytest.mark.slow
def test_steer_and_bad_usage(hub: Setting) -> None:
    id = started(hub, "talker", "nothing runs here")
    hub.until(id, lambda record: record.turns == 1)
    for arguments in (
        ("send", id, "now", "--steer"),
        ("send", "--new", "talker"),
        ("send", id, "x", "--cwd", "/"),
        ("send", id, "x", "--deny", "shell"),
        ("send", id, "x", "--timeout", "0"),
        ("send", "--new", "talker", "x", "--allow", "shell", "--deny", "shell"),
        ("send", "--new", "talker", "x", "--system", "unheard of by a script"),
        ("send", "nonesuch", "x"),
        ("send", id, "x", "--attach", "nonesuch"),
        ("tail", id, "-n", "-1"),
    ):
        ended = hub.run(*arguments)
        assert ended.returncode == 2, (arguments, ended.stdout, ended.stderr)
        assert ended.stderr.startswith("tieline: "), arguments


@pytest.mark.slow
def test_a_new_session_takes_the_options_of_a_run(hub: Setting) -> None:
    (hub.place / "made.txt").unlink(missing_ok=True)
    options = ("--policy", "read-only", "--allow", "shell,file_write", "--model", "small", "--title", "by options")
    ended = hub.run("send", "--new", "worker", "make it", *options, "--timeout", "60", "--wait")
    assert ended.returncode == 0, ended.stderr + ended.stdout
    record = hub.settled("by options")
    assert (record.policy.shell, record.policy.file_write, record.policy.network) == ("allow", "allow", "deny")
    assert record.model == "small" and (hub.place / "made.txt").read_text() == "hi\n"
    default = started(hub, "talker", "by the hub's own policy")
    assert hub.until(default, lambda record: record.turns == 1).policy.shell == "ask"


# --- decisions ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_only_ask_is_approved_without_its_name(hub: Setting) -> None:
    (hub.place / "made.txt").unlink(missing_ok=True)
    nothing = hub.run("approve")
    assert nothing.returncode == 2 and "no ask is waiting" in nothing.stderr
    id = started(hub, "worker", "approved by name")
    waiting(hub, id)
    shown = ok(hub, "approve", "--remember", "session")
    assert "command: echo hi > made.txt\n" in shown, "what is allowed is shown first, whole"
    assert "--remember session: allows exactly this again, in this session\n" in shown
    assert shown.endswith("allowed: wants to run a command: $ echo hi > made.txt\n")
    hub.until(id, lambda record: record.turns == 1)
    assert (hub.place / "made.txt").read_text() == "hi\n"
    answers = [json.loads(line)["event"] for line in ok(hub, "tail", id, "--no-follow", "--json").splitlines()]
    assert [each["remember"] for each in answers if each["type"] == "answer"] == ["session"]
    past = ok(hub, "tail", id, "--no-follow")
    assert "asked: wants to run a command\n" in past and "waits for you" not in past


@pytest.mark.slow
def test_several_asks_are_listed(hub: Setting) -> None:
    first, second = (started(hub, "worker", f"number {number}") for number in (1, 2))
    for id in (first, second):
        waiting(hub, id)
    listed = hub.run("approve")
    assert listed.returncode == 2
    assert "2 asks are waiting for a decision" in listed.stderr
    row = r"^\s+\d  (\w{6})  worker on \S+ in \S+, session (\w{6}) 'number \d': wants to run a command: \$ echo hi"
    asks, sessions = zip(*re.findall(row, listed.stderr, re.MULTILINE), strict=True)
    assert set(sessions) == {short_id(first), short_id(second)}, "two asks for the same are told apart"
    whole = ok(hub, "asks")
    assert whole.count("command: echo hi > made.txt\n") == 2 and all(f"session {id}" in whole for id in sessions)
    assert {short_id(each["id"]) for each in json.loads(ok(hub, "asks", "--json"))} == set(asks)
    assert json.loads(ok(hub, "asks", asks[0], "--json"))["parts"][0] == {
        "label": "command", "text": "echo hi > made.txt", "form": "code",
    }  # fmt: skip
    wrong = hub.run("approve", asks[0], "--remember", "for-ever")
    assert wrong.returncode == 2
    command = json.loads(ok(hub, "deny", asks[0], "--reason", "not that", "--json"))
    assert command["state"] == "applied"
    late = hub.run("approve", command["ask"])
    assert late.returncode == 2 and "answered" in late.stderr
    with hub.terminal("approve") as terminal:
        terminal.expect("echo hi > made.txt")
        terminal.expect("y allow")
        terminal.send("y")
        terminal.expect("allowed:")
        assert terminal.wait() == 0 and terminal.restored
    for id in (first, second):
        hub.until(id, lambda record: record.turns == 1)
    more = [started(hub, "worker", f"number {number}") for number in (3, 4)]
    for id in more:
        waiting(hub, id)
    with hub.terminal("approve") as terminal:
        terminal.expect("which? Press 1 to 2")
        terminal.send("q")
        terminal.expect("Nothing was decided")
        assert terminal.wait() == 2 and terminal.restored
    for id in more:
        with hub.terminal("approve") as terminal:
            if id == more[0]:
                terminal.expect("which? Press 1 to 2")
                terminal.send("1")
            terminal.expect("n deny")
            terminal.send("n")
            terminal.expect("denied:")
            assert terminal.wait() == 0 and terminal.restored
    answers = [json.loads(line)["event"] for line in ok(hub, "tail", first, "--no-follow", "--json").splitlines()]
    assert [each["reason"] for each in answers if each["type"] == "answer" and each["decision"] == "deny"] == [
        "not that"
    ]


@pytest.mark.slow
def test_asks_are_decided_with_one_key_where_the_session_is_watched(hub: Setting) -> None:
    ids = [started(hub, "worker", f"watched {number}") for number in range(3)]
    for id in ids:
        waiting(hub, id)
    with hub.terminal("tail", ids[0]) as terminal:  # it waits already
        terminal.expect("echo hi > made.txt")
        terminal.expect("r deny and say why")
        terminal.send("r")
        terminal.expect("why? ")
        terminal.send("not in there\n")
        terminal.expect("✗ denied: not in there")
        terminal.expect("It is made.")
        assert terminal.text.count("denied") == 1, "what was decided here is told once"
        assert ok(hub, "send", ids[0], "again").split()[-1]
        terminal.expect("Done.")
        terminal.send("\x03")
        assert terminal.wait() == 130 and terminal.restored
    with hub.terminal("tail", ids[1]) as terminal:
        terminal.expect("y allow")
        ok(hub, "deny", *[ask["id"] for ask in json.loads(ok(hub, "asks", "--json")) if ask["session"] == ids[1]])
        terminal.expect("— no longer asked")
        terminal.expect("It is made.")
        terminal.send("\x03")
        assert terminal.wait() == 130 and terminal.restored
    with hub.terminal("approve") as terminal:
        terminal.expect("session " + short_id(ids[2]))
        terminal.expect("a allow")
        terminal.send("a")
        terminal.expect("allowed:")
        assert terminal.wait() == 0 and terminal.restored
    hub.until(ids[2], lambda record: record.turns == 1)

    def answers(id: str) -> list[tuple[str, str, str]]:
        events = [json.loads(line)["event"] for line in ok(hub, "tail", id, "--no-follow", "--json").splitlines()]
        return [
            (event["decision"], event.get("reason", ""), event.get("remember", "once"))
            for event in events
            if event["type"] == "answer"
        ]

    assert answers(ids[0]) == [("deny", "not in there", "once")]
    assert answers(ids[2]) == [("allow", "", "session")]


def unread(hub: Setting, session: str) -> int:
    """Turns that the list calls unread."""
    (title,) = (record.title for record in hub.sessions() if record.id == session)
    (row,) = (row for row in ok(hub, "sessions", "-q", title).splitlines() if row.startswith(short_id(session)))
    match = re.search(r"(\d+) unread", row)
    return int(match[1]) if match else 0


@pytest.mark.slow
def test_who_decides_what_a_prompt_asks_that_is_waited_for(hub: Setting) -> None:
    made = hub.place / "made.txt"
    made.unlink(missing_ok=True)
    work = ("send", "--new", "worker", "make it", "--policy", "ask", "--wait")
    denied = hub.run(*work, "--on-ask", "deny")
    assert denied.returncode == 0 and "denied by --on-ask deny" in denied.stdout, denied.stdout
    assert not made.exists()
    allowed = ok(hub, *work, "--on-ask", "allow", "--json")
    answers = [json.loads(line)["event"] for line in allowed.splitlines() if '"type":"answer"' in line]
    assert [(answer["decision"], answer["by"]) for answer in answers] == [("allow", "--on-ask allow")]
    assert made.read_text() == "hi\n"
    asked = ok(hub, "send", "--new", "asker", "ask", "--wait", "--on-ask", "allow")
    assert "(Choice: no answer)" in asked, "nobody chooses for a person"


@pytest.mark.slow
def test_only_the_turn_that_is_waited_for_is_decided(hub: Setting) -> None:
    id = started(hub, "twice", "asks before", "--policy", "ask")
    waiting(hub, id)
    with hub.start("send", id, "asks later", "--wait", "--on-ask", "allow") as later:
        deadline = time.monotonic() + WAIT_S
        while "asks later" not in ok(hub, "queue", id):
            assert time.monotonic() < deadline, "it waits for its turn"
        (ask,) = (ask for ask in json.loads(ok(hub, "asks", "--json")) if ask["session"] == id)
        ok(hub, "deny", ask["id"])
        assert later.wait(WAIT_S) == 0
    assert not (hub.place / "one").exists(), "the ask of before was for somebody else"
    assert (hub.place / "two").exists()


@pytest.mark.slow
def test_a_person_decides_what_a_prompt_asks_that_is_waited_for(hub: Setting) -> None:
    made = hub.place / "made.txt"
    made.unlink(missing_ok=True)
    asked = ("send", "--new", "worker", "make it", "--policy", "ask", "--wait", "--on-ask", "prompt")
    with hub.terminal(*asked) as terminal:
        terminal.expect("y allow")
        assert not made.exists()
        terminal.send("y")
        terminal.expect("✓ allowed")
        terminal.expect("✓ done")
        assert terminal.wait() == 0
    assert made.exists()


def test_on_ask_goes_with_wait_and_a_terminal(hub: Setting) -> None:
    ended = hub.run("send", "--new", "worker", "x", "--on-ask", "deny")
    assert ended.returncode == 2 and "--on-ask needs --wait" in ended.stderr
    before = len(hub.sessions())
    ended = hub.run("send", "--new", "worker", "x", "--wait", "--on-ask", "prompt")
    assert ended.returncode == 2 and "--on-ask prompt needs a terminal" in ended.stderr
    assert len(hub.sessions()) == before


def is_read(hub: Setting, session: str) -> None:
    """Waits: what is read is told after it was shown."""
    deadline = time.monotonic() + WAIT_S
    while unread(hub, session):
        assert time.monotonic() < deadline, "it stays unread"


@pytest.mark.slow
def test_what_a_terminal_shows_is_read_everywhere(hub: Setting) -> None:
    id = started(hub, "talker", "to be read")
    hub.until(id, lambda record: record.turns == 1)
    assert hub.run("tail", id, "--no-follow").returncode == 0 and unread(hub, id) == 1, "a program reads for nobody"
    with hub.terminal("send", id, "unread stays unread", "--wait") as terminal:
        terminal.expect("✓ done")
        assert terminal.wait() == 0
    assert unread(hub, id) == 2, "what nobody has seen is not read with what comes after it"
    with hub.terminal("tail", id, "--no-follow") as terminal:
        terminal.expect("to be read")
        assert terminal.wait() == 0
    assert unread(hub, id) == 0
    with hub.terminal("send", id, "watched to its end", "--wait") as terminal:
        terminal.expect("✓ done")
        assert terminal.wait() == 0
    assert unread(hub, id) == 0
    with hub.terminal("tail", id) as terminal:
        terminal.expect("watched to its end")
        ok(hub, "send", id, "while it is watched")
        terminal.expect("while it is watched")
        terminal.expect("✓ done")
        is_read(hub, id)
        terminal.send("\x03")
        assert terminal.wait() == 130
    with hub.terminal("run", "talker", "run and read") as terminal:
        terminal.expect("✓ done")
        assert terminal.wait() == 0
    (ran,) = (session.id for session in hub.sessions() if session.title == "run and read")
    assert unread(hub, ran) == 0
    ok(hub, "run", "talker", "run for a program")
    (ran,) = (session.id for session in hub.sessions() if session.title == "run for a program")
    assert unread(hub, ran) == 1


@pytest.mark.slow
def test_a_question_is_shown_and_answered(hub: Setting) -> None:
    id = started(hub, "asker", "ask me something")
    waiting(hub, id)
    shown = ok(hub, "answer")
    assert "Which colour?" in shown and "2: Blue" in shown
    ask = shown.split()[0]
    yes = hub.run("approve", ask)
    assert yes.returncode == 2 and "needs an answer" in yes.stderr
    assert hub.run("answer", ask, "1", "2").returncode == 2
    wrong = hub.run("answer", ask, "7")
    assert wrong.returncode == 2 and "1 Red, 2 Blue" in wrong.stderr, "a wrong number is no answer in words"
    assert hub.run("answer", ask, "2", "--text", "green").returncode == 2
    assert "answered: Which colour?" in hub.run_program("answer", ask, "blue").stdout  # which is told by its words
    hub.until(id, lambda record: record.turns == 1)
    shown = hub.run("tail", id, "--no-follow").stdout
    assert re.search(r"answered by owner \(pid \d+ tieline answer \S+ blue\): Blue", shown), shown


# --- what becomes of a session: rename, archive, fork; its queue; once more -------------------------------------


@pytest.mark.slow
def test_a_session_is_renamed_archived_and_listed_again(hub: Setting) -> None:
    first, second = (started(hub, "talker", f"to be put away {number}") for number in (1, 2))
    assert ok(hub, "rename", first[-8:], "put away first") == (
        f"{short_id(first)} 'to be put away 1': renamed to 'put away first'\n"
    )
    assert hub.run("rename", first, " ").returncode == 2
    (row,) = json.loads(ok(hub, "sessions", "-q", "put away first", "--json"))
    assert row["id"] == first
    nobody = hub.run("archive", first, "nonesuch")
    assert nobody.returncode == 2 and "`tieline sessions` lists them" in nobody.stderr
    assert ok(hub, "sessions", "-q", "put away first"), "all are found before one is changed"
    assert ok(hub, "archive", first, second).count(": archived\n") == 2
    assert ok(hub, "sessions", "-q", "put away") == ""
    assert {each["id"] for each in json.loads(ok(hub, "sessions", "--all", "-q", "put away", "--json"))} == {
        first,
        second,
    }
    (back,) = json.loads(ok(hub, "unarchive", first, "--json"))
    assert (back["id"], back["archived"]) == (first, False)
    assert ok(hub, "sessions", "-q", "put away").count("talker") == 1
    cannot = hub.run("fork", first, "try something else")
    assert cannot.returncode == 2 and "does not support fork" in cannot.stderr
    assert hub.run("fork", first, "--wait").returncode == 2


@pytest.mark.slow
def test_prompts_that_wait_are_listed_moved_edited_and_cancelled(hub: Setting) -> None:
    id = started(hub, "stalling", "the first one runs")
    hub.until(id, lambda record: record.status == "working")
    ids = [json.loads(ok(hub, "send", id, text, "--json"))["id"] for text in ("two", "three", "four")]
    head, *rows = ok(hub, "queue", short_id(id)).splitlines()
    assert head.split()[:2] == ["id", "status"]
    assert [row.split()[1] for row in rows] == ["running", "queued", "queued", "queued"]
    assert "edited: three, in one line" in ok(hub, "queue", "edit", id, ids[1][:20], "three, in one line")
    assert "moved" in ok(hub, "queue", "move", id, ids[2], "--before", ids[1])
    assert "moved" in ok(hub, "queue", "move", id, ids[1], "--first")
    assert "moved" in ok(hub, "queue", "move", id, ids[2])
    waiting = [prompt["text"] for prompt in json.loads(ok(hub, "queue", id, "--json")) if prompt["status"] == "queued"]
    assert waiting == ["three, in one line", "two", "four"]
    for prompt in ids:
        ok(hub, "queue", "cancel", id, prompt)
    (running,) = json.loads(ok(hub, "queue", id, "--json"))
    assert running["text"] == "the first one runs"
    late = hub.run("queue", "edit", id, running["id"], "too late")
    assert late.returncode == 2 and "(status: running)" in late.stderr and "steer" in late.stderr
    for arguments in (
        ("edit", id, ids[0], "it is gone"),
        ("edit", id, running["id"], " "),
        ("move", id, running["id"], "--first", "--before", "x"),
        ("cancel", id, running["id"]),
    ):
        ended = hub.run("queue", *arguments)
        assert ended.returncode == 2 and ended.stderr.startswith("tieline: "), arguments
    ok(hub, "abort", id)
    hub.until(id, lambda record: record.turns == 1)


@pytest.mark.slow
def test_a_prompt_that_failed_is_sent_again(hub: Setting) -> None:
    id = started(hub, "failing", "go wrong once")
    hub.until(id, lambda record: record.turns == 1)
    first, second = ok(hub, "retry", short_id(id)).splitlines()
    assert re.fullmatch(r"prompt \w{6}: failed \(.*the model is gone.*\): go wrong once", first)
    assert re.fullmatch(r"sent again as \w{6}: (received|queued|running|done)", second)
    hub.until(id, lambda record: record.turns == 2 and record.status == "idle")  # the rest of its script says Done.
    succeeded = hub.run("retry", id)
    assert succeeded.returncode == 2 and "(status of the last prompt: done): go wrong once" in succeeded.stderr
    again = json.loads(ok(hub, "retry", id, first.split()[1].strip(":"), "--json"))
    assert (short_id(again["id"]), again["status"]) == (second.split()[3].strip(":"), "done"), "not a third time"


@pytest.mark.slow
def test_nodes_are_listed_and_the_hubs_own_stays(hub: Setting) -> None:
    deadline = time.monotonic() + WAIT_S
    while "talker" not in (listed := ok(hub, "nodes")):  # the hub looks for its agents after its start
        assert time.monotonic() < deadline, listed
    head, row = listed.splitlines()
    assert head.split() == ["id", "name", "online", "version", "platform", "agents"]
    assert " yes " in row and "missing" not in row
    (node,) = json.loads(ok(hub, "nodes", "--json"))
    assert node["online"] and node["local"]
    refused = hub.run("nodes", "--remove", node["id"][:6])
    assert refused.returncode == 1 and "the hub's own node cannot be removed" in refused.stderr
    assert "tieline down" in refused.stderr
    unknown = hub.run("nodes", "--remove", "nowhere")
    assert unknown.returncode == 2 and "`tieline nodes` lists them" in unknown.stderr


# --- abort, diff, open ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_abort(hub: Setting) -> None:
    id = started(hub, "stalling", "to be aborted")
    hub.until(id, lambda record: record.status == "working")
    assert ok(hub, "abort", id) == "interrupted\n"
    hub.until(id, lambda record: record.turns == 1)
    assert ok(hub, "abort", id) == "no turn was running\n"


@pytest.mark.slow
def test_diff(hub: Setting) -> None:
    id = started(hub, "editor", "write it", "--policy", "full")
    hub.until(id, lambda record: record.turns == 1)
    assert "+two" in ok(hub, "diff", id)
    assert "+two" in json.loads(ok(hub, "diff", id, "--json"))["diff"]
    with hub.terminal("diff", id) as terminal:
        terminal.expect("note.txt")
        assert terminal.wait() == 0


@pytest.mark.slow
def test_open_prints_an_address_that_lets_one_browser_in(hub: Setting) -> None:
    id = started(hub, "talker", "to be opened")
    url = ok(hub, "open", short_id(id), "--print").strip()
    assert re.fullmatch(rf"http://127\.0\.0\.1:\d+/s/{id}#login=[\w-]{{20,}}", url)
    link = json.loads(ok(hub, "open", "--json"))
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#login=[\w-]{20,}", link["url"])


def test_the_browser_gets_no_secret_on_its_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    def browser(url: str) -> bool:
        given.append(url)
        file = Path(url.removeprefix("file://"))
        assert file.stat().st_mode & 0o777 == 0o600
        assert 'content="0;url=http://127.0.0.1:1/#login=the-secret"' in file.read_text()
        return True

    monkeypatch.setattr("webbrowser.open", browser)
    monkeypatch.setenv("TIELINE_HOME", str(tmp_path))
    browse("http://127.0.0.1:1/#login=the-secret", read_s=0)
    assert len(given) == 1 and "the-secret" not in given[0]
    assert list(tmp_path.iterdir()) == []


# --- usage ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_usage_is_told_by_day_agent_project_and_session(hub: Setting) -> None:
    id = started(hub, "talker", "something to count")
    ok(hub, "send", id, "and once more", "--wait")
    report = json.loads(ok(hub, "usage", "--by", "session", "--session", id, "--json"))
    assert [(row["key"], row["agent"], row["turns"]) for row in report["rows"]] == [(id, "talker", 2)]
    total = report["total"]
    assert total["unknown_turns"] == 0 and total["tokens"]["output"] > 0 and report["up_to_date"]
    assert total["turns_with_cost"] == 0 and "cost_usd" not in total["tokens"], "what nobody told is no zero"
    shown = ok(hub, "usage", "--by", "session", "--session", id).splitlines()
    assert shown[0].split() == ["session", "title", "agent", "project", *NUMBERS]
    assert shown[1].startswith(short_id(id)) and shown[2].startswith("total")
    assert "No cost is known for 2 turns" in shown[3]
    for by in ("day", "agent", "project"):
        assert ok(hub, "usage", "--by", by).splitlines()[0].split()[0] == by
    assert "No turns" in ok(hub, "usage", "--until", "2020-01-01", "--since", "2019-01-01")
    for wrong in (("--by", "week"), ("--since", "then"), ("--until", "2020-01-01"), ("--time-zone", "Mars")):
        ended = hub.run("usage", *wrong)
        assert ended.returncode == 2 and wrong[0].strip("-").replace("-", "_").split("_")[0] in ended.stderr, (
            ended.stderr
        )


# --- search -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_search_finds_the_place_and_leads_there(hub: Setting) -> None:
    id = started(hub, "talker", "look for the rhododendron <b>here</b>")
    ok(hub, "send", id, "and go on", "--wait")
    results = json.loads(ok(hub, "search", "rhododendron", "--kind", "prompt", "--json"))
    (hit,) = results["hits"]
    assert hit["session"] == id and hit["kind"] == "prompt" and results["indexed"] == 1
    shown = ok(hub, "search", "RHODO*", "--session", id, "--kind", "prompt").splitlines()
    assert f"tieline tail {short_id(id)} --at {hit['seq']}" in shown[0]
    assert shown[1].strip() == "look for the rhododendron <b>here</b>"
    log = ok(hub, "tail", id, "--at", str(hit["seq"]))
    assert "rhododendron" in log and "and go on" not in log
    nothing = hub.run("search", "rhododendron", "--agent", "failing")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    for wrong in (("x", "--kind", "week"), ("x", "--since", "then"), ("***",)):
        ended = hub.run("search", *wrong)
        assert ended.returncode == 2 and "sqlite" not in ended.stderr.lower(), ended.stderr


# --- devices, audit ---------------------------------------------------------------------------------------------


async def claimed(url: str, secret: str) -> Paired:
    async with Client(url) as client:
        return await client.pair(Claim(secret=secret))


@pytest.mark.slow
def test_devices_are_listed_and_revoked_with_what_they_let_in(hub: Setting, tmp_path: Path) -> None:
    pairing = json.loads(ok(hub, "pair", "--client", "--name", "first", "--json"))
    paired = asyncio.run(claimed(pairing["url"], pairing["secret"]))
    listed = ok(hub, "devices")
    assert "first" in listed and "let in by" in listed
    (device,) = [device for device in json.loads(ok(hub, "devices", "--json")) if device["name"] == "first"]
    assert device["by"] == "owner" and device["id"] == paired.device.id
    elsewhere = CliProcess(tmp_path)
    elsewhere.env = {**elsewhere.env, "TIELINE_HUB": pairing["url"], "TIELINE_TOKEN": paired.key}
    assert "first" in ok(elsewhere, "devices"), "its key opens the hub over TCP"
    assert "Revoked first" in ok(hub, "devices", "--revoke", short_id(device["id"]))
    assert "unknown or revoked token" in elsewhere.run("devices").stderr
    assert "first" not in ok(hub, "devices")
    log = ok(hub, "audit", "--since", "1h")
    assert "revoke" in log and "pairing" in log
    (line, *_) = json.loads(ok(hub, "audit", "--kind", "revoke", "--json"))
    assert line["who"] == "owner" and line["details"]["device"].startswith("first (")
    for wrong in (("--kind", "nothing"), ("--since", "then")):
        ended = hub.run("audit", *wrong)
        assert ended.returncode == 2 and wrong[0] in ended.stderr


def test_whom_a_device_let_in() -> None:
    devices = [DeviceView(id=id, name=id, by=by) for id, by in (("a", "owner"), ("c", "b"), ("b", "a"), ("d", "owner"))]
    assert [device.id for device in descendants("a", devices)] == ["c", "b"]
    assert descendants("d", devices) == []


# --- without a hub --------------------------------------------------------------------------------------------


def completed(cli: CliProcess, line: str) -> str:
    """What a shell would offer at the end of this line."""
    elsewhere = {
        **cli.env,
        "_TIELINE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }
    there, cli.env = cli.env, elsewhere
    try:
        ended = cli.run_program()
    finally:
        cli.env = there
    assert ended.stderr == "", "it never says anything"
    return ended.stdout


@pytest.mark.slow
def test_shells_complete_sessions_agents_machines_and_policies(hub: Setting) -> None:
    id = started(hub, "talker", "to be completed")
    (node,) = json.loads(ok(hub, "nodes", "--json"))
    asking = [started(hub, agent, f"{agent} to be completed") for agent in ("worker", "asker")]
    for each in asking:
        waiting(hub, each)
    permission, question = (
        next(short_id(ask["id"]) for ask in json.loads(ok(hub, "asks", "--json")) if ask["session"] == each)
        for each in asking
    )
    assert permission not in completed(hub, "tieline answer ").split()
    for line, expected in (
        ("tieline approve ", permission),
        ("tieline deny ", question),
        (f"tieline asks {permission[:3]}", permission),
        ("tieline answer ", question),
        (f"tieline tail {short_id(id)[:4]}", short_id(id)),
        (f"tieline archive {id[:20]}", id),
        ("tieline send --new tal", "talker"),
        ("tieline run talk", "talker"),
        ("tieline run x --policy ed", "edits"),
        (f"tieline sessions --node {node['name'][:2]}", node["name"]),
    ):
        deadline = time.monotonic() + 60
        while expected not in completed(hub, line).split():  # a busy machine does not make it in its second
            assert time.monotonic() < deadline, line
    for each in asking:
        ok(hub, "abort", each)


@pytest.mark.slow
def test_completion_without_a_hub_is_silent_and_soon_over(cli: CliProcess) -> None:
    assert completed(cli, "tieline tail ").split() == []
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it never answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        cli.env = {**cli.env, "TIELINE_HUB": url, "TIELINE_TOKEN": "x"}
        assert completed(cli, "tieline tail ").split() == []


@pytest.mark.parametrize("arguments", [("sessions",), ("approve",)])
def test_no_hub_is_running(cli: CliProcess, arguments: tuple[str, ...]) -> None:
    ended = cli.run(*arguments)
    assert ended.returncode == 1
    assert "no hub is running" in ended.stderr and "tieline up" in ended.stderr


# --- the parts ------------------------------------------------------------------------------------------------


def test_what_is_sent_again_is_the_last_one_and_only_if_it_failed() -> None:
    def ended(id: str, status: PromptStatus, at: float) -> PromptView:
        return PromptView(id=id, session="s", text=f"text {id}", status=status, ended_at=at)

    failed, unknown = ended("a", "failed", 1.0), ended("b", "indeterminate", 2.0)
    assert last_failed([unknown, failed]) is unknown
    waiting = PromptView(id="w", session="s", status="queued")
    assert last_failed([failed, ended("c", "cancelled", 3.0), waiting]) is failed
    for known, why in (([], "has ended"), ([waiting], "has ended"), ([failed, ended("d", "done", 4.0)], ": done")):
        with pytest.raises(UsageError, match=why):
            last_failed(known)


def test_ids_in_part() -> None:
    ids = ["01a1df60f7887ae1", "01a1df60f788ffff", "02000000000000e1"]
    assert pick("session", "02", ids, str) == ids[2]
    assert pick("session", "7ae1", ids, str) == ids[0]
    assert pick("session", ids[1], ids, str) == ids[1]
    for given in ("", "01a1", "e1", "zz"):
        with pytest.raises(UsageError):
            pick("session", given, ids, str)


def test_choices() -> None:
    labels = (Choice("a", "Red"), Choice("b", "Blue"))
    single = Question(id="q", text="?", choices=labels, free=False)
    many = Question(id="q", text="?", choices=labels, many=True)
    assert chosen_labels(single, "2") == chosen_labels(single, "blue") == ("Blue",)
    assert chosen_labels(many, "1, blue") == ("Red", "Blue")
    for wrong in ("7", "Green, please"):
        with pytest.raises(UsageError) as refused:
            chosen_labels(many, wrong)  # its own words it would take: by --text, not by a slip
        assert "1 Red, 2 Blue" in refused.value.hint and "--text" in refused.value.hint
    assert free_answer(many, "Green, please") == ("Green, please",)
    for question, text in ((single, "Green"), (many, " ")):
        with pytest.raises(UsageError):
            free_answer(question, text)
    assert chosen_labels(Question(id="q", text="?"), "anything") == ("anything",)
    for wrong in ("3", "Green", "", "1,2"):
        with pytest.raises(UsageError):
            chosen_labels(single, wrong)


def test_words() -> None:
    assert [time_ago(0, now) for now in (5, 65, 7200, 200000)] == ["5s", "1m", "2h", "2d"]
    assert columns(("a", "b"), [("longer", "x"), ("y", "")]) == "a       b\nlonger  x\ny"
