"""Connects to Qwen Code's terminals: each has a file that tells its session, and a socket that takes a message of
a peer as a new turn and answers what became of it. What a session does, and in which mode, its hooks tell.

Only an idle session is woken over the socket: what comes during a turn waits in the memory of Qwen Code, and its hooks
hand it over sooner. A turn that a peer's message begins fires no hook at its start; the session's record grows then.

What hooks told is kept in a file, for a hub that comes later; it counts while the session's record is as it was.
"""

import asyncio
import os
import secrets
import shutil
import tempfile
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ... import paths
from ...mesh.push import HarnessSession, PushUnanswered, Rung, SessionObserver, Unreachable
from ...processes.socket_peer import peer_process
from ...protocol.mesh import Activity
from ...safe_file_read import read_regular
from ...safe_file_write import replace_private_file
from ...sessions.attacher import Attacher
from ..terminals.hooked_terminal import HookNote
from ..terminals.session_file_connector import SessionFile
from ..terminals.transcript_connector import Since, TranscriptConnector
from .terminal import IDLE_NOTE, PERMISSION_EVENT, QwenTerminal

FILE = "qwen-terminals.json"
MAX_KEPT = 1024 * 1024
RECEIPT_S = 10.0
"""Qwen Code says within this time what became of a message."""
MAX_RECEIPT = 64 * 1024
TURN_S, TURN_LOOK_S = 3.0, 0.05
"""A message that an idle session was given begins a turn within this time, unless the person has a dialog open."""
MAX_RECORD = 64 * 1024 * 1024
MAX_HOOKED = 1000
MAX_WAITING = 100
"""Hooks of a session that is not attached yet."""
ACTIVITIES: Mapping[str, Activity] = {"SessionStart": "idle", "UserPromptSubmit": "working", "PostToolUse": "working"}
"""By hooks. At `Stop` a turn may still be told to go on."""
UNREVIEWED_MODES = frozenset({"auto", "auto-edit", "yolo"})
"""In these Qwen Code does something without asking its person."""

DeliveryOutcome = Literal["delivered", "held", "denied", "refused", "expired", "misaddressed", "dropped"]
REASONS: Mapping[DeliveryOutcome, str] = {
    "held": "Qwen Code holds messages until its person accepts them (/peers); its hooks bring them with the next turn",
    "denied": "the person at the terminal declined the message",
    "refused": "Qwen Code takes no messages from other programs",
    "expired": "nobody at the terminal decided about the message",
    "misaddressed": "another session is in that terminal now",
    "dropped": "Qwen Code is given too many messages just now",
}
"""Why it was not delivered."""


class QwenSession(SessionFile, frozen=True, rename="camel"):
    socket_folder: ClassVar[str] = "qwen-socks"

    ipc_path: str = ""
    ipc_token: str = ""

    @property
    def of_a_person(self) -> bool:
        return self.kind in ("", "tui")  # none: from before it said so

    @property
    def socket(self) -> str:
        return self.ipc_path

    @property
    def started_after_boot(self) -> str:
        boot, _, start = (self.proc_start or "").partition(":")
        return start if boot == _boot() else ""


class HookedSession(Struct, frozen=True):
    """What its hooks told of a session."""

    activity: Activity = "unknown"
    mode: str = ""
    record: str = ""
    """The path of its record; empty where that is none of Qwen Code's."""


class KeptSession(Struct, frozen=True):
    hooked: HookedSession
    size: int
    """Of its record."""
    process: int = 0


class DeliveryReceipt(Struct, frozen=True, rename="camel"):
    status: DeliveryOutcome
    orig_msg_id: str


class QwenConnector(TranscriptConnector[QwenSession, QwenTerminal]):
    harness = "qwen"
    display_name = "Qwen Code"
    file_type = QwenSession
    transcripts = "chats"
    in_memory: frozenset[Rung] = frozenset({"idle_wake"})

    def __init__(self, env: Mapping[str, str]) -> None:
        super().__init__(Path(env.get("QWEN_HOME") or Path(env.get("HOME", "/")) / ".qwen"))
        self._kept_in = paths.state(env) / FILE
        self._hooked: dict[str, HookedSession] = {}
        self._kept: dict[str, KeptSession] = {}  # as the file has them
        self._holding: dict[str, tuple[int, str]] = {}  # session → process and mode in which it held a message
        self._waiting: dict[str, list[HookNote]] = {}  # hooks of sessions that are not attached yet
        self._ran: dict[str, int] = {}  # session → its process, at the last look

    @asynccontextmanager
    async def _read_along(self, observer: SessionObserver) -> AsyncGenerator[None, None]:
        kept = await asyncio.to_thread(self._load)
        self._hooked = {**{id: known.hooked for id, known in kept.items()}, **self._hooked}
        self._ran = {id: known.process for id, known in kept.items()}
        async with super()._read_along(observer):
            yield

    async def _after_look(self) -> None:
        running = {id: file.pid for id, file in self._files.items()}
        for id in self._ran.keys() - {id for id, pid in running.items() if self._ran.get(id) == pid}:
            self._hooked.pop(id, None)  # told by a terminal that was killed; another may resume its session
        self._ran = running
        await super()._after_look()
        self._waiting.clear()  # of sessions that are not read
        known = {id: self._hooked[id] for id in self._files if id in self._hooked}
        kept = {id: KeptSession(hooked, _size(hooked.record), running[id]) for id, hooked in known.items()}
        if kept != self._kept:
            self._kept = kept
            await asyncio.to_thread(replace_private_file, self._kept_in, msgspec.json.encode(kept))

    def _load(self) -> dict[str, KeptSession]:
        try:
            kept = msgspec.json.decode(read_regular(self._kept_in, MAX_KEPT), type=dict[str, KeptSession])
        except (OSError, msgspec.MsgspecError):
            return {}
        return {
            id: known
            if _size(known.hooked.record) == known.size
            else replace(known, hooked=replace(known.hooked, activity="unknown"))
            for id, known in kept.items()
            if self._is_record(known.hooked.record, id)
        }

    def on_hook(self, session: str, event: str, input: Mapping[str, Any], pid: int) -> None:
        if event == "SessionEnd":
            self._hooked.pop(session, None)
            self._changed.set()
            return
        if event != PERMISSION_EVENT:  # of that the terminal is told when rules have been looked at
            self._pass_on(session, HookNote(event, input))
        known = self._hooked.pop(session, HookedSession())
        activity = ACTIVITIES.get(event, known.activity)
        if event == "SessionStart" and input.get("source") == "compact":  # in the middle of a turn
            activity = known.activity
        elif event == "Notification" and input.get("notification_type") == IDLE_NOTE:
            activity = "idle"
        mode, record = input.get("permission_mode"), input.get("transcript_path")
        self._hooked[session] = HookedSession(
            activity=activity,
            mode=mode if isinstance(mode, str) else known.mode,
            record=record if isinstance(record, str) and self._is_record(record, session) else known.record,
        )
        if len(self._hooked) > MAX_HOOKED:
            del self._hooked[next(iter(self._hooked))]
        self._changed.set()

    def _pass_on(self, session: str, note: HookNote) -> None:
        if terminal := self._terminals.get(session):
            terminal.on_hook(note)
        elif self.attacher is not None and len(waiting := self._waiting.setdefault(session, [])) < MAX_WAITING:
            waiting.append(note)

    async def answer_prompt(self, session: str, input: Mapping[str, Any], pid: int) -> str:
        """At once: the terminal shows its prompt when its hook is over."""
        note = HookNote(PERMISSION_EVENT, input, pid)
        terminal = self._terminals.get(session)
        answer = await terminal.answer_by_rule(note) if terminal else None
        self._pass_on(session, replace(note, answer=answer))
        if answer is None:
            return ""
        decision = {"behavior": answer.decision, **({"message": answer.reason} if answer.reason else {})}
        output = {"hookSpecificOutput": {"hookEventName": PERMISSION_EVENT, "decision": decision}}
        return msgspec.json.encode(output).decode()

    def _is_record(self, path: str, session: str) -> bool:
        """The hook may be anybody's: no other file is read."""
        real, projects = Path(os.path.realpath(path)), Path(os.path.realpath(self._home / "projects"))
        return real.is_relative_to(projects) and real.parent.name == "chats" and real.name == f"{session}.jsonl"

    async def _transcript(self, file: QwenSession) -> Path:
        record = self._hooked.get(file.session_id, HookedSession()).record
        return Path(record) if record else await super()._transcript(file)

    async def _attach(self, attacher: Attacher, file: QwenSession, path: Path, since: Since) -> QwenTerminal:
        id, activity = file.session_id, self._activity(file)
        terminal = QwenTerminal(
            file.pid,
            id,
            file.cwd,
            path,
            since=since,
            reading=self._reading,
            push=partial(self._push_text, id),
            activity=partial(self._activity, file),
        )
        working = activity == "working"
        attached = await attacher.attach(self.harness, id, cwd=file.cwd, terminal=terminal, working=working)
        for note in self._waiting.pop(id, ()):
            terminal.on_hook(note)
        terminal.follow(attached)
        return terminal

    async def _look_at(self, terminal: QwenTerminal, file: QwenSession) -> None:
        record = self._hooked.get(file.session_id, HookedSession()).record
        terminal.look(Path(record) if record else terminal.transcript)

    def _activity(self, file: QwenSession) -> Activity:
        return self._hooked.get(file.session_id, HookedSession()).activity

    async def taken(self, session: HarnessSession, ids: set[str]) -> set[str]:
        record = self._hooked.get(session.session, HookedSession()).record
        return await asyncio.to_thread(_in_record, record, ids) if record else set()

    async def _hand_over(self, file: QwenSession, text: str) -> None:
        hooked = self._hooked.get(file.session_id, HookedSession())
        if self._holding.get(file.session_id) == (file.pid, hooked.mode):
            raise Unreachable(REASONS["held"])  # another copy would be held as well
        before = _size(hooked.record)
        outcome = await self._send(file, text, hooked.mode)
        if outcome == "held":
            self._holding[file.session_id] = (file.pid, hooked.mode)
        if outcome != "delivered":
            raise Unreachable(REASONS[outcome])
        self._holding.pop(file.session_id, None)
        if not hooked.record:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(TURN_S):
                while _size(hooked.record) == before:  # noqa: ASYNC110 (a look at its size costs less than a watch)
                    await asyncio.sleep(TURN_LOOK_S)
            now = self._hooked.get(file.session_id, hooked)
            if now is hooked:  # no hook came meanwhile, which knows better
                self._hooked[file.session_id] = replace(hooked, activity="working")
                self._changed.set()

    async def _send(self, file: QwenSession, text: str, mode: str) -> DeliveryOutcome:
        async with DeliveryReceipts(file.pid) as receipts:
            id = str(uuid.uuid4())
            frame = {
                "msgV": 1,
                "msgId": id,
                "type": "user",
                "from": receipts.path,
                "replyToken": receipts.token,
                "fromName": "Tieline",
                # The mode of the receiver: its person chose to be woken, and whoever sent it has no part in its policy.
                "fromMode": "bypass" if mode in UNREVIEWED_MODES else "prompting",
                "toSessionId": file.session_id,
                "message": {"role": "user", "content": text},
            }
            line = self._line(frame)
            async with self._connected(file) as (reader, writer):
                writer.write(self._line({"msgV": 1, "type": "auth", "token": file.ipc_token}) + line)
                writer.write_eof()
                while await reader.read(4096):
                    pass
            return await receipts.outcome(id)


class DeliveryReceipts:
    """`async with DeliveryReceipts(pid) as receipts`: a socket where the process of that number, and nobody else, says
    what became of a message."""

    def __init__(self, pid: int) -> None:
        self.token = secrets.token_hex(32)
        self._from = (pid, os.getuid())
        self._outcomes: dict[str, DeliveryOutcome] = {}
        self._came = asyncio.Event()

    @property
    def path(self) -> str:
        return str(self._folder / "receipts.sock")

    async def __aenter__(self) -> Self:
        # Only its owner can open it; not wherever TMPDIR says, which may be too long for a socket.
        self._folder = Path(tempfile.mkdtemp(prefix="tieline-", dir="/tmp"))
        try:
            self._server = await asyncio.start_unix_server(self._receive, self.path, limit=MAX_RECEIPT)
        except BaseException:
            self._remove()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self._remove()

    async def outcome(self, id: str) -> DeliveryOutcome:
        try:
            async with asyncio.timeout(RECEIPT_S):
                while id not in self._outcomes:
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            raise PushUnanswered("Qwen Code did not report whether it delivered the message") from None
        return self._outcomes[id]

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(RECEIPT_S):
                if peer_process(writer.get_extra_info("socket")) == self._from:
                    auth: Any = msgspec.json.decode(await reader.readline())
                    receipt = msgspec.json.decode(await reader.readline(), type=DeliveryReceipt)
                    if secrets.compare_digest(str(auth["token"]), self.token):
                        self._outcomes[receipt.orig_msg_id] = receipt.status
                        self._came.set()
        except (OSError, ValueError, TypeError, LookupError):  # also what is no receipt
            pass
        finally:
            writer.close()

    def _remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _size(record: str) -> int:
    try:
        return os.stat(record).st_size  # noqa: PTH116 (it may be empty)
    except OSError:
        return 0


def _in_record(record: str, ids: set[str]) -> set[str]:
    try:
        text = read_regular(record, MAX_RECORD)
    except OSError:
        return set()
    return {id for id in ids if id.encode() in text}


@cache
def _boot() -> str:
    """Which boot of this machine this is. Empty where there is no /proc."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
