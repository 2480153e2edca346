"""Who calls a tool: from what the transport knows, then what the harness says in the call, then what the model says.

In this order: the session's own processes (driven), the header of the bridge, `_meta` of the call (Codex), the argument
`session_id`, what the same connection said before, what the hooks of the bridge's harness said, and last the connection
itself. A model cannot name another session than the one that its harness names.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from .errors import NotYours
from .records import Caller

MAX_WORD = 200
MAX_REMEMBERED = 10_000
"""Connections whose session is remembered."""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
CLIENTS = (
    ("claude", "claude-code"),
    ("codex", "codex"),
    ("opencode", "opencode"),
    ("gemini", "gemini"),
    ("qwen", "qwen"),
    ("cursor", "cursor"),
    ("copilot", "copilot"),
    ("visual studio code", "copilot"),
    ("kiro", "kiro"),
    ("amazon", "amazon-q"),
)
"""How harnesses call themselves in `initialize`: part of the name, harness."""


class McpRequest(Struct, kw_only=True, eq=False):
    """What the transport knows of one HTTP request. `hand_over` is told which messages its response carries."""

    principal: str  # whose connection it is: the SDK lets nobody else use the MCP session
    caller: Caller  # machine, harness, session, cwd, driven
    process_session: str = ""  # of the process that started the bridge, as its hooks or files told
    connection: str = ""  # the bridge, or the MCP session
    mcp_session: str = ""
    key: str = ""  # of a request that may come again
    confirms: bool = False  # the other side says what it really handed over
    hook: bool = False  # the bridge says that it is a hook of its harness
    closed: bool = False  # nobody reads the response any more
    hand_over: Callable[[Caller, tuple[str, ...]], str]
    refused: Callable[[str, str], None]


class Callers:
    """Determines callers, and remembers what a connection said of its session."""

    def __init__(self) -> None:
        self._remembered: dict[str, tuple[str, str]] = {}  # connection → harness, session
        self._moved: dict[str, str] = {}  # connection → the session that its harness went on with

    def move(self, request: McpRequest, session: str) -> None:
        """The harness went on with another session, and kept the bridge that it started for the one before."""
        if len(self._moved) >= MAX_REMEMBERED:
            del self._moved[next(iter(self._moved))]
        self._moved[request.connection] = session[:MAX_WORD]

    def of_transport(self, request: McpRequest) -> Caller:
        moved = self._moved.get(request.connection) if request.caller.session else None
        return replace(request.caller, session=moved) if moved else request.caller

    def identify(
        self, request: McpRequest, *, meta: Mapping[str, Any], client: str, token: str = "", session_id: str = ""
    ) -> Caller:
        """`client` is the name in the client's `initialize`. Raises NotYours."""
        caller = self.of_transport(request)
        if caller.driven:
            return caller
        thread = thread_of(meta)
        session = caller.session or thread
        if session_id and session and session_id != session:
            why = f"this is the session {session}, not {session_id[:MAX_WORD]}"
            request.refused(session, why)
            raise NotYours(why, hint="Leave session_id out: your harness says it.")
        session = (session or session_id)[:MAX_WORD]
        known = self._remembered.get(request.connection) if request.connection else None
        if not session and known is not None:
            return replace(caller, harness=known[0], session=known[1], token=token)
        session = session or request.process_session
        harness = caller.harness or ("codex" if thread else "") or harness_of(client, session)
        identity = replace(caller, harness=harness, session=session or request.connection, token=token)
        if session_id and session and request.connection:
            if len(self._remembered) >= MAX_REMEMBERED:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[request.connection] = (identity.harness, identity.session)
        return identity


def thread_of(meta: Mapping[str, Any]) -> str:
    """Codex names its thread in each call."""
    for name in ("threadId", "sessionId"):
        if isinstance(value := meta.get(name), str) and value:
            return value[:MAX_WORD]
    turn = meta.get("x-codex-turn-metadata")
    value = cast("dict[str, Any]", turn).get("thread_id") if isinstance(turn, dict) else None
    return value[:MAX_WORD] if isinstance(value, str) else ""


def harness_of(client: str, session: str) -> str:
    """By the client's own name, else by the form of the session's id."""
    name = client.casefold()
    for part, harness in CLIENTS:
        if part in name:
            return harness
    if session.startswith("ses_"):
        return "opencode"
    if (uuid := _UUID.fullmatch(session)) and uuid.group(1) in "47":
        return "codex" if uuid.group(1) == "7" else "claude-code"
    return re.sub(r"[^a-z0-9]+", "-", name).strip("-")[:40] or "generic"
