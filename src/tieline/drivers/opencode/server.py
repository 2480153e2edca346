"""An OpenCode server: our own process, or one at a given address. One serves many conversations."""

import asyncio
import base64
import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ...background_tasks import cancel_and_wait
from ...errors import AgentDied, AgentError, AgentMissing, AgentStartFailed
from ...processes.async_process import Process
from ...wire.json_lines import decode_line
from ...wire.lines import LineTooLong
from .launch import CWD, INSTALL, PASSWORD

if TYPE_CHECKING:
    import httpx2

START_S = 60.0
"""From the start of the process to its address. It takes 2 s here; a cold disk takes its time."""
MAX_PREAMBLE = 200
"""Lines that a server may print before its address. More is not a server of ours."""
HEALTH_S = 10.0
"""For a server that should run already to say who it is. That needs no directory, so it is quick or not there."""
REQUEST_S = 60.0
"""The first request for a directory reads its configuration and starts what it names."""
HEARTBEAT_TIMEOUT_S = 35.0
"""An event stream has a heartbeat every 10 s; without any, it is dead."""

LISTENING = b"listening on "


Launch = tuple[list[str], dict[str, str]]


class OpenCodeError(Exception):
    """The server answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ServerUnreachable(ConnectionError):
    """No answer: the server is gone, or the way to it."""


class OpenCodeServer:
    def __init__(self, agent: str, launch: Launch | None, url: str = "", password: str = "", user: str = "opencode"):
        """With `launch`, arguments and environment, it is ours; else it is the one at `url`."""
        self.agent = agent
        self.users = 0
        self.version = ""
        self.gone = ""
        self._launch = launch
        self._url = url.rstrip("/")
        self._user, self._password = (user, password) if launch is None else ("opencode", launch[1][PASSWORD])
        self._process: Process | None = None
        self._client: httpx2.AsyncClient | None = None
        self._starting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._gone_callbacks: list[Callable[[str], None]] = []
        self._decoder = msgspec.json.Decoder()
        self._encoder = msgspec.json.Encoder()

    @property
    def own(self) -> bool:
        return self._launch is not None

    @property
    def exclusive(self) -> bool:
        """Whether it is ours and serves one conversation at most."""
        return self.own and self.users <= 1

    async def ready(self) -> None:
        """Wait until it is up; the first to ask starts it. Raises AgentMissing, AgentStartFailed."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        await asyncio.shield(self._starting)

    async def close(self) -> None:
        if self._starting is not None:
            await cancel_and_wait(self._starting)
        try:
            if self._client is not None:
                await self._client.aclose()
        finally:
            if self._process is not None:
                self._process.signal(signal.SIGTERM)  # it does not mind that its input is closed
                await self._process.__aexit__(None, None, None)
            if self._watching is not None:
                await cancel_and_wait(self._watching)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def on_gone(self, tell: Callable[[str], None]) -> None:
        """Have it told, once, that the server will not come back."""
        self._gone_callbacks.append(tell)

    # --- requests --------------------------------------------------------------------------------------

    async def request(
        self, method: str, path: str, directory: str = "", body: Any = None, params: Mapping[str, str] | None = None
    ) -> Any:
        """The decoded answer. Raises OpenCodeError, Unreachable."""
        import httpx2

        assert self._client is not None
        query = {**(params or {}), "directory": directory} if directory else params
        content = None if body is None else self._encoder.encode(body)
        headers = {} if body is None else {"content-type": "application/json"}
        try:
            answer = await self._client.request(method, path, params=query, content=content, headers=headers)
        except httpx2.TransportError as error:
            raise ServerUnreachable(self.gone or str(error) or type(error).__name__) from error
        try:
            reply = decode_line(self._decoder, answer.content) if answer.content else None
        except msgspec.DecodeError:
            reply = answer.text[:500]
        if answer.is_success:
            return reply
        raise OpenCodeError(
            answer.status_code, _error_reason(reply) or f"HTTP {answer.status_code} for {method} {path}"
        )

    def subscribe(self, directory: str) -> Any:
        """An open event stream, as an async context manager."""
        import httpx2

        assert self._client is not None
        patience = httpx2.Timeout(REQUEST_S, read=HEARTBEAT_TIMEOUT_S)
        plain = {"accept": "text/event-stream", "accept-encoding": "identity"}
        return self._client.stream("GET", "/event", params={"directory": directory}, headers=plain, timeout=patience)

    # --- start and end ---------------------------------------------------------------------------------

    async def _start(self) -> None:
        if self._launch is not None:
            await self._start_own(*self._launch)
        else:
            await asyncio.to_thread(_import_client)
            self._connect()
            try:
                async with asyncio.timeout(HEALTH_S):
                    await self._fetch_version()
            except (OpenCodeError, ServerUnreachable, TimeoutError) as error:
                hint = "Start it (`opencode serve`), or check the agent's url and password."
                problem = f"no OpenCode server at {self._url}: {_connect_problem(error)}"
                raise AgentStartFailed(self.agent, problem, hint=hint) from None

    async def _start_own(self, argv: list[str], env: dict[str, str]) -> None:
        try:
            process = Process.start(argv, cwd=CWD, env=env)
        except FileNotFoundError:
            raise AgentMissing(self.agent, f"there is no {argv[0]!r}", hint=INSTALL) from None
        except (OSError, ValueError) as error:
            raise AgentStartFailed(self.agent, f"{argv[0]!r} cannot be started: {error}", hint=INSTALL) from None
        importing = asyncio.create_task(asyncio.to_thread(_import_client))
        try:
            self._process = await process.__aenter__()
            self._url = await self._wait_for_url(process)
        finally:
            await importing
        self._connect()

    async def _wait_for_url(self, process: Process) -> str:
        """The server's address. Its later output is read and dropped, so that the server never blocks on a full
        pipe."""
        url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._watching = asyncio.create_task(self._watch(process, url))
        try:
            async with asyncio.timeout(START_S):
                return await url
        except TimeoutError:
            raise AgentStartFailed(
                self.agent, f"it did not print its address within {START_S:g} s", hint=INSTALL
            ) from None

    async def _watch(self, process: Process, url: asyncio.Future[str]) -> None:
        count, first = 0, b""
        problem: AgentError | None = None
        try:
            async for batch in process.lines():
                for line in batch:
                    if url.done():
                        break
                    first, count = first or line, count + 1
                    if LISTENING in line:
                        url.set_result(line.partition(LISTENING)[2].decode().strip())
                    elif count > MAX_PREAMBLE:
                        raise LineTooLong(first, MAX_PREAMBLE, [])
        except LineTooLong:
            problem = AgentStartFailed(
                self.agent, f"it does not speak as an OpenCode server does: {first[:200]!r}", hint=INSTALL
            )
            process.kill()
        await process.wait(None)
        died = AgentDied(self.agent, process.returncode, process.stderr)
        self.gone = f"{died}\n  Open it again with resume= to go on."
        if not url.done():
            words = process.stderr.strip() or first.decode(errors="replace")
            hint = f"Its last output: {words[-2000:]}" if words else INSTALL
            url.set_exception(
                problem or AgentStartFailed(self.agent, f"it did not come up: {_death_reason(died)}", hint=hint)
            )
        for tell in self._gone_callbacks:
            tell(self.gone)

    def _connect(self) -> None:
        import httpx2

        secret = base64.b64encode(f"{self._user}:{self._password}".encode()).decode()
        self._client = httpx2.AsyncClient(
            base_url=self._url,
            headers={"authorization": f"Basic {secret}"} if self._password else {},
            timeout=REQUEST_S,
            trust_env=False,
            verify=not self._url.startswith("http://"),  # certificates take longer to load than all the rest
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        )

    async def _fetch_version(self) -> None:
        health = await self.request("GET", "/global/health")
        if not isinstance(health, dict) or "version" not in health:
            raise ServerUnreachable("the server is not OpenCode")
        self.version = str(health["version"])  # type: ignore[index]

    async def ensure_version(self) -> None:
        """Learn its version, once."""
        if not self.version:
            await self._fetch_version()


def _import_client() -> None:
    import httpx2  # noqa: F401  # pyright: ignore[reportUnusedImport]


def _error_reason(reply: Any) -> str:
    """The text of an error answer, which has several shapes in OpenCode."""
    if not isinstance(reply, dict):
        return reply if isinstance(reply, str) else ""
    answer = cast(dict[str, Any], reply)
    name = str(answer.get("name") or answer.get("_tag") or "")
    data = answer.get("data")
    if not isinstance(data, dict):
        return str(answer.get("message") or name)
    details = cast(dict[str, Any], data)
    if "path" in details:  # a configuration that it cannot use
        issues = details.get("issues") or details.get("message") or ""
        return f"{name} in {details['path']}: {issues}"[:1000]
    return str(details.get("message") or name)


def _connect_problem(error: Exception) -> str:
    """Why a server is not to be used."""
    if isinstance(error, TimeoutError):
        return f"no answer within {HEALTH_S:g} s"
    return "the password is wrong" if isinstance(error, OpenCodeError) and error.status == 401 else str(error)


def _death_reason(died: AgentDied) -> str:
    return died.message.partition(": ")[2]
