"""A thin bridge from a harness's standard input and output to the MCP server of the hub.

    harness ── a JSON-RPC message a line ──► tieline mcp ── POST /mcp over the owner's socket ──► hub

Every harness session starts one, so it imports next to nothing. It starts a hub when none runs, survives one that is
started anew, and says in each request who calls. A message of another agent counts as handed over when it was written
to standard output: only then the bridge confirms it. The harness's hooks, for which a person's turn waits, start no hub
and wait for none.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

from ...environment import inherited, state_folder
from .blocking_http import SILENCE_S, NoAnswer, Response, Target, send_request

TYPE_CHECKING = False  # not imported from typing, which costs more than all the rest here
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from typing import Any

PATH = "/mcp"
DELIVERED = "/mcp/delivered"
ACCEPT = "application/json, text/event-stream"
MAX_LINE = 16 * 1024 * 1024
MAX_AT_ONCE = 32
"""Requests under way; the harness's further ones wait in the pipe."""
MAX_IDLE = 4
"""Connections kept for the next request."""
RETRY_S = 45.0
"""How long a request waits for a hub that is away: less than harnesses wait for a tool."""
PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0)
"""Not `tieline.backoff`: with msgspec it would take most of the bridge's start."""
START_S = 40.0
GOODBYE_S = 1.0
HOOK_TOOL = "harness_hook"
HOOK_TRIES = 3
"""A kept connection may be closed, and the hub a new one."""
HOOK_S = 5.0
"""How long the turn of a person waits for the answer to a hook."""
NOTHING_TO_SAY = {"content": [{"type": "text", "text": "{}"}]}
UNREACHABLE = -32001
"""JSON-RPC error code of a request that did not reach the hub."""

DELIVERY_META = "tieline/delivery"
VERSION_META = "io.modelcontextprotocol/protocolVersion"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods whose subject the sessionless revision wants in a header."""
SESSION_VARIABLES = (
    ("CLAUDE_CODE_SESSION_ID", "claude-code"),
    ("GEMINI_SESSION_ID", "gemini"),
    ("COPILOT_AGENT_SESSION_ID", "copilot"),
    ("QWEN_CODE_SESSION_ID", "qwen"),
)
"""Where harnesses tell the programs that they start which session it is."""


class Bridge:
    def __init__(self, env: "Mapping[str, str]", *, harness: str, start: bool, output: int) -> None:
        self._env = env
        self._start = start
        self._output = output
        self._caller = caller_headers(env, harness)
        self._writing = threading.Lock()
        self._lock = threading.Lock()  # of everything below
        self._idle: list[socket.socket] = []
        self._running: dict[str, socket.socket] = {}  # by the request's id, as JSON
        self._mcp: dict[str, str] = {}  # headers of the MCP session
        self._opening: list[bytes] = []  # what opened it: sent again to a hub that does not know it any more
        self._count = 0
        self._starting = threading.Lock()
        self._places = threading.BoundedSemaphore(MAX_AT_ONCE)
        self._handing_over = threading.Lock()  # until what was handed over is confirmed
        self._listener: threading.Thread | None = None

    def handle(self, line: bytes) -> None:
        """One message of the harness. Requests are answered by a thread of their own, in any order."""
        try:
            message: Any = json.loads(line)
        except ValueError:
            self._write_error(None, -32700, "this line is not JSON")
            return
        if not is_object(message):
            self._write_error(None, -32600, "send one JSON-RPC message a line, and no batches")
            return
        method: str | None = message.get("method")
        if method == "initialize":
            self._opening = [line]
            self._mcp = {}
            self._answer(line, message)
            return
        if method is None or "id" not in message:
            if method == "notifications/initialized":
                self._opening = [*self._opening[:1], line]
                self._notify(line, message)
                self._listen()
            elif not (method == "notifications/cancelled" and self._cancel(message)):
                self._notify(line, message)
            return
        self._places.acquire()
        threading.Thread(target=self._answer_in_turn, args=(line, message), daemon=True).start()

    def close(self) -> None:
        """Ends the MCP session, when the hub still answers."""
        if "Mcp-Session-Id" not in self._mcp:
            return
        try:
            target = find_hub(self._env)
            if target is not None:
                connection = target.connect()
                connection.settimeout(GOODBYE_S)
                send_request(target, connection, "DELETE", PATH, {**self._caller, **self._mcp})
        except NoAnswer:
            pass

    # --- requests ------------------------------------------------------------------------------------------

    def _answer_in_turn(self, line: bytes, message: "dict[str, Any]") -> None:
        try:
            with self._handing_over:  # the harness may have sent this because of what it was handed
                pass
            self._answer(line, message)
        finally:
            self._places.release()

    def _answer(self, line: bytes, message: "dict[str, Any]") -> None:
        id = message["id"]
        if is_hook(message):
            self._answer_hook(line, message)
            return
        try:
            self._exchange(line, message)
        except NoAnswer as error:
            hint = "Start it with `tieline up`." if not self._start else "See `tieline status`."
            self._write_error(id, UNREACHABLE, f"the Tieline hub cannot be reached: {error}. {hint}")
        except NotAnMcpAnswer as error:
            self._write_error(id, UNREACHABLE, str(error))

    def _answer_hook(self, line: bytes, message: "dict[str, Any]") -> None:
        """Without a hub, or one that does not answer, there is nothing to say."""
        headers = {"X-Tieline-Hook": "1", **self._key_headers(message)}
        try:
            for _ in range(HOOK_TRIES):
                target = find_hub(self._env)
                if target is None:
                    break
                if self._exchange_once(target, line, message, headers, within=HOOK_S):
                    return
        except NoAnswer as error:
            log(f"a hook was not answered: {error}")
        except NotAnMcpAnswer as error:
            log(str(error))
        self._write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": NOTHING_TO_SAY}).encode())

    def _notify(self, line: bytes, message: "dict[str, Any]") -> None:
        try:
            self._exchange(line, message)
        except (NoAnswer, NotAnMcpAnswer) as error:
            log(str(error))

    def _exchange(self, line: bytes, message: "dict[str, Any]") -> None:
        """Sends it until the hub has answered. The key lets the hub see that it is the same request again."""
        headers = self._key_headers(message)
        deadline = time.monotonic() + RETRY_S
        attempt = 0
        while True:
            try:
                if self._exchange_once(self._hub(), line, message, headers):
                    return
            except NoAnswer as error:
                pause = PAUSES_S[min(attempt, len(PAUSES_S) - 1)]
                if time.monotonic() + pause > deadline:
                    raise
                if attempt == 0:
                    log(f"{error}; trying again")
                time.sleep(pause)
            attempt += 1

    def _key_headers(self, message: "dict[str, Any]") -> dict[str, str]:
        self._count += 1
        return {"X-Tieline-Key": f"{self._caller['X-Tieline-Bridge']}-{self._count}", **modern_headers(message)}

    def _exchange_once(
        self,
        target: Target,
        line: bytes,
        message: "dict[str, Any]",
        headers: "Mapping[str, str]",
        *,
        within: float = SILENCE_S,
    ) -> bool:
        """Whether it was answered; not, when the hub is a new one and the MCP session had to be opened again. The hub
        may be silent for `within` seconds."""
        session = {} if message.get("method") == "initialize" or "Mcp-Method" in headers else dict(self._mcp)
        connection, kept = self._connection(target)
        connection.settimeout(within)
        name = json.dumps(message.get("id"))
        with self._lock:
            self._running[name] = connection
        try:
            fields = {"Accept": ACCEPT, **self._caller, **session, **headers}
            try:
                response = send_request(target, connection, "POST", PATH, fields, line)
            except NoAnswer:
                if kept:
                    return False  # the hub had closed it meanwhile: again, on a fresh one
                raise
            if response.status == 404 and session:
                self._reopen(session)
                return False
            if response.status == 503:
                raise NoAnswer("the hub is not ready yet")
            if message.get("method") == "initialize":
                self._opened(response)
            self._pass_on(response, message)
            with self._lock:
                if len(self._idle) < MAX_IDLE and response.headers.get("connection", "").lower() != "close":
                    self._idle.append(connection)
                    connection = None
            return True
        finally:
            with self._lock:
                self._running.pop(name, None)
            if connection is not None:
                connection.close()

    def _pass_on(self, response: Response, message: "dict[str, Any]") -> None:
        """Writes what the hub answers, message by message, and confirms what was handed over by it."""
        for text in response.messages():
            if response.status >= 400 and b'"jsonrpc"' not in text:
                raise NotAnMcpAnswer(problem_text(response.status, text))
            if delivery := carried(text):
                with self._handing_over:
                    self._write(text)
                    self._confirm(delivery)
            else:
                self._write(text)
        if response.status >= 400 and "id" not in message:
            raise NotAnMcpAnswer(f"the hub refused {message.get('method')}: status {response.status}")

    def _confirm(self, delivery: str) -> None:
        body = json.dumps({"delivery": delivery}).encode()
        for _ in range(3):
            try:
                target = self._hub()
                connection, _ = self._connection(target)
                with connection:
                    response = send_request(target, connection, "POST", DELIVERED, {**self._caller}, body)
                    for _text in response.messages():
                        pass
                    return
            except NoAnswer as error:
                log(f"could not confirm that messages arrived, they may come again: {error}")

    # --- the MCP session -----------------------------------------------------------------------------------

    def _opened(self, response: Response) -> None:
        if id := response.headers.get("mcp-session-id"):
            self._mcp = {"Mcp-Session-Id": id}

    def _reopen(self, old: "Mapping[str, str]") -> None:
        """The hub was started anew: it gets the harness's own `initialize` again, whose answer nobody needs."""
        with self._starting:
            if self._mcp.get("Mcp-Session-Id") != old["Mcp-Session-Id"]:
                return  # another thread did it
            log("the hub restarted; the session continues")
            target = self._hub()
            fields = {"Accept": ACCEPT, **self._caller}
            for line in self._opening:
                connection = target.connect()
                with connection:
                    response = send_request(target, connection, "POST", PATH, fields, line)
                    for _text in response.messages():
                        pass
                    if response.status >= 400:
                        raise NoAnswer(f"the hub did not resume this session: status {response.status}")
                    if "Mcp-Session-Id" not in fields:
                        self._opened(response)
                        fields |= self._mcp

    def _cancel(self, message: "dict[str, Any]") -> bool:
        """In a sessionless revision, closing the connection cancels a request."""
        if self._mcp:
            return False
        params: dict[str, Any] = message.get("params") or {}
        name = json.dumps(params.get("requestId"))
        with self._lock:
            connection = self._running.get(name)
        if connection is not None:
            connection.close()
        return True

    def _listen(self) -> None:
        if self._listener is None and self._mcp:
            self._listener = threading.Thread(target=self._follow, daemon=True)
            self._listener.start()

    def _follow(self) -> None:
        """What the hub says by itself goes to the harness as it comes."""
        attempt = 0
        while True:
            session = dict(self._mcp)
            try:
                target = find_hub(self._env)
                if target is None:
                    raise NoAnswer("no hub runs")
                connection = target.connect()
                with connection:
                    fields = {"Accept": "text/event-stream", **self._caller, **session}
                    response = send_request(target, connection, "GET", PATH, fields)
                    if response.status == 404:
                        self._reopen(session)
                    elif not response.is_stream:
                        return  # this hub has nothing to say by itself
                    for text in response.messages():
                        attempt = 0
                        self._write(text)
            except NoAnswer:
                pass
            time.sleep(PAUSES_S[min(attempt, len(PAUSES_S) - 1)] * 5)
            attempt += 1

    # --- the hub -------------------------------------------------------------------------------------------

    def _hub(self) -> Target:
        target = find_hub(self._env)
        if target is not None:
            return target
        if not self._start:
            raise NoAnswer("no hub runs here")
        with self._starting:
            target = find_hub(self._env)
            if target is None:
                start_hub(self._env)
                target = find_hub(self._env)
        if target is None:
            raise NoAnswer("no hub runs here, and none could be started")
        return target

    def _connection(self, target: Target) -> "tuple[socket.socket, bool]":
        """And whether it was used before."""
        with self._lock:
            if self._idle:
                return self._idle.pop(), True
        return target.connect(), False

    # --- output --------------------------------------------------------------------------------------------

    def _write(self, text: bytes) -> None:
        line = text.replace(b"\n", b" ") + b"\n"  # inside JSON texts there are no raw line ends
        with self._writing:
            try:
                while line:
                    line = line[os.write(self._output, line) :]
            except OSError:
                os._exit(0)  # the harness is gone: what could not be written is not confirmed

    def _write_error(self, id: object, code: int, text: str) -> None:
        self._write(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}).encode())


class NotAnMcpAnswer(Exception):
    """The hub answered, but not as an MCP server: its problem's text."""


def is_object(value: object) -> bool:
    """Of JSON."""
    return isinstance(value, dict)


def is_hook(message: "dict[str, Any]") -> bool:
    """Whether the harness calls for a hook of its own, and not for its model."""
    params: Any = message.get("params")
    return message.get("method") == "tools/call" and is_object(params) and params.get("name") == HOOK_TOOL


def carried(text: bytes) -> str:
    """The delivery of other agents' messages that this answer carries; mostly empty."""
    if f'"{DELIVERY_META}"'.encode() not in text:
        return ""
    try:
        response: Any = json.loads(text)
        return str(response["result"]["_meta"][DELIVERY_META])
    except (ValueError, LookupError, TypeError):
        return ""


def problem_text(status: int, body: bytes) -> str:
    try:
        problem: Any = json.loads(body)
        text = " ".join(str(problem.get(name)) for name in ("detail", "hint") if problem.get(name))
    except (ValueError, AttributeError):
        text = ""
    return text or f"the hub refused it: status {status}"


def modern_headers(message: "dict[str, Any]") -> dict[str, str]:
    """The sessionless revision names its version in each message, and wants it in headers as well."""
    params: Any = message.get("params")
    meta: Any = params.get("_meta") if is_object(params) else None
    version: Any = meta.get(VERSION_META) if is_object(meta) else None
    if not isinstance(version, str):
        return {}
    method = str(message.get("method"))
    headers = {"Mcp-Protocol-Version": header_value(version), "Mcp-Method": header_value(method)}
    subject: Any = params.get(NAMED.get(method, ""))
    if isinstance(subject, str):
        headers["Mcp-Name"] = header_value(subject)
    return headers


def header_value(text: str) -> str:
    """As the protocol wants it: what is not plain ASCII in base64."""
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?base64?"):
        return text
    import base64

    return f"=?base64?{base64.b64encode(text.encode(errors='replace')).decode()}?="


def caller_headers(env: "Mapping[str, str]", harness: str) -> dict[str, str]:
    """Who calls, as the environment says. `harness` is of the command line; installed entries use a variable."""
    harness = harness or env.get("TIELINE_HARNESS", "")
    headers = {"X-Tieline-Bridge": os.urandom(16).hex()}
    cwd = env.get("CLAUDE_PROJECT_DIR") or os.getcwd()  # noqa: PTH109 (pathlib is not imported)
    for variable, name in SESSION_VARIABLES:
        if env.get(variable) and harness in ("", name):
            headers["X-Tieline-Session"] = header_value(env[variable])
            harness = name
            break
    if harness:
        headers["X-Tieline-Harness"] = header_value(harness)
    headers["X-Tieline-Cwd"] = header_value(cwd)
    return headers


def find_hub(env: "Mapping[str, str]") -> Target | None:
    """The hub that the environment names, else the one that runs on this machine."""
    if url := env.get("TIELINE_HUB"):
        return Target(url=url, token=env.get("TIELINE_TOKEN", ""))
    try:
        with open(f"{state_folder(env)}/hub.json", "rb") as file:  # noqa: PTH123 (pathlib is not imported)
            running: Any = json.load(file)
        os.kill(running["pid"], 0)
        return Target(path=running["socket"]) if running["socket"] else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def start_hub(env: "Mapping[str, str]") -> None:
    """Starts a hub in the background, as `tieline up` does. Raises HubUnreachable."""
    log("no hub runs here; starting one")
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "tieline", "up"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(env),
            start_new_session=True,
            timeout=START_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoAnswer(f"a hub could not be started: {error}") from None
    if done.returncode and find_hub(env) is None:
        lines = [line.strip() for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
        raise NoAnswer(f"a hub could not be started: {' '.join(lines[-2:]) or 'no output'}")  # with what to do


def log(text: str) -> None:
    """Harnesses keep what their MCP servers write to standard error."""
    with suppress(OSError):
        os.write(2, f"tieline mcp: {text}\n".encode(errors="replace"))


def run(arguments: list[str]) -> int | None:
    """Serve until standard input ends. None for arguments that are not understood here."""
    harness, start = "", True
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--no-start":
            start = False
        elif word == "--harness" and rest:
            harness = rest.pop(0)
        else:
            return None
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a person interrupts the harness, which ends us when it ends
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    output = os.dup(1)
    os.dup2(2, 1)  # nothing but the protocol gets to standard output
    bridge = Bridge(inherited(), harness=harness, start=start, output=output)
    while line := sys.stdin.buffer.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            log(f"a line of more than {MAX_LINE} bytes; giving up")
            return 1
        if line.strip():
            bridge.handle(line.strip())
    bridge.close()
    return 0
