"""Codex, over `codex app-server`: JSON-RPC on its standard streams, one server for many conversations.

The server is shared by the conversations of one driver that want the same program in the same environment: the first
one starts it, the last one ends it. Its parts: `launch` and `server` (the process), `conversation`
(one thread of it), `thread_params` (what it is given), `events`, `items` and `usage` (what it tells),
`asks` (what it asks), `policy` (what it is allowed), `rollout_file` (what it records).
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ...errors import AgentError, AgentStartFailed
from ...policy import Policy, Receipt
from ...wire.jsonrpc import PeerGone, RpcError
from ..base import AskFn, Features, Probe, Program, Spec, check_args
from ..model_list import MAX_MODELS, ModelList, mappings, model_list
from ..registry import parse_options
from ..version_command import ask_version
from .conversation import CodexConversation
from .launch import ARGS, RESERVED_ARGS, launch_command
from .policy import controls, receipt
from .server import CodexServer
from .thread_params import CodexOptions, prestart_input

LIST_S = 30.0


OPTIONS = CodexOptions
"""What `[agents.NAME]` may say."""


def create(name: str, options: Mapping[str, Any]) -> "Codex":
    chosen = parse_options(CodexOptions, name, options)
    check_args(name, chosen.args, RESERVED_ARGS)
    return Codex(chosen, name=name)


class Codex:
    tested = "0.166.0"
    floor = "0.166.0"
    features = Features(
        model=True,
        effort=("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"),
        resume=True,
        fork=True,
        steer=True,
        system="native",
        turn_system=True,
        arguments=True,
        mcp_servers=True,
        attachments=("image/*",),
        warm=True,
        deltas=True,
        thinking=True,
        questions=True,
        plans=True,
        diffs=True,
        usage=True,
    )

    def __init__(self, options: CodexOptions | None = None, *, name: str = "codex") -> None:
        self.name = name
        self.options = options or CodexOptions()
        self._servers: dict[Any, CodexServer] = {}
        self._starting = asyncio.Lock()

    def enforce(self, policy: Policy) -> Receipt:
        return receipt(policy)

    @property
    def program(self) -> Program:
        return Program(type="codex", command=self.options.command or ("codex",), args=(*ARGS, *self.options.args))

    @property
    def env(self) -> Mapping[str, str]:
        return self.options.env

    async def probe(self, env: Mapping[str, str]) -> Probe:
        try:
            argv, env = launch_command({**env, **self.env}, self.options.command, name=self.name)
        except AgentError as error:
            return Probe(found=False, problem=error.message, hint=error.hint)
        try:
            answer = await ask_version([*argv[:-1], "--version"], env)
        except (OSError, ValueError) as error:
            return Probe(found=False, path=argv[0], problem=f"{argv[0]} cannot be run: {error}")
        printed = "\n".join(answer.lines)
        version = printed.rpartition(" ")[2]
        if not version[:1].isdigit():
            return Probe(found=False, path=argv[0], problem=f"it is no Codex: {printed[:200]!r}")
        return Probe(found=True, path=argv[0], version=version, signed_in=_signed_in(env))

    @asynccontextmanager
    async def open(self, spec: Spec, ask: AskFn) -> AsyncGenerator[CodexConversation, None]:
        check_args(self.name, spec.arguments, RESERVED_ARGS, field="arguments")
        async with self._lease(spec, prestart_input(spec, self.options)) as server:
            conversation = CodexConversation(
                server,
                spec,
                ask,
                agent=self.name,
                receipt=self.enforce(spec.policy),
                controls=controls(spec.policy, self.options.web_search),
                config=self.options.config,
            )
            try:
                await conversation.open()
                yield conversation
            finally:
                await conversation.close(last=server.users == 1)

    async def list_models(self, cwd: str, env: Mapping[str, str]) -> ModelList:
        """The models that Codex shows to people. It takes others too: the provider decides what a name means."""
        async with self._lease(Spec(cwd=cwd, env=env)) as server:
            try:
                await server.ready()
                response: Any = await server.peer.request("model/list", {"limit": MAX_MODELS}, timeout=LIST_S)
                return model_list(
                    (model.get("model"), [level.get("reasoningEffort") for level in mappings(levels)])
                    for model in mappings(response.get("data"))
                    for levels in [model.get("supportedReasoningEfforts")]
                )
            except (PeerGone, RpcError, TimeoutError, AttributeError) as error:
                raise AgentStartFailed(self.name, f"it does not list its models:  {error or 'no answer'}") from None

    @asynccontextmanager
    async def _lease(self, spec: Spec, words: bytes = b"") -> AsyncGenerator[CodexServer, None]:
        own = {**spec.env, **self.env}
        argv, env = launch_command(own, self.options.command, (*self.options.args, *spec.arguments), name=self.name)
        key = (tuple(argv), tuple(sorted(env.items())))
        server = await self._shared_server(key, argv, env, words)
        try:
            yield server
        finally:
            server.users -= 1
            if server.users == 0:
                if self._servers.get(key) is server:
                    del self._servers[key]
                await server.close()

    async def _shared_server(self, key: Any, argv: list[str], env: dict[str, str], words: bytes) -> CodexServer:
        async with self._starting:
            server = self._servers.get(key)
            if server is None or server.unusable:
                server = CodexServer(self.name, argv, env, words)
                try:
                    await server.connect()
                except BaseException:
                    await server.close()
                    raise
                self._servers[key] = server
            server.users += 1
            return server


def _signed_in(env: Mapping[str, str]) -> bool | None:
    home = Path(env.get("CODEX_HOME") or Path(env.get("HOME") or "/") / ".codex")
    if (home / "auth.json").is_file() or env.get("OPENAI_API_KEY") or env.get("CODEX_API_KEY"):
        return True
    return None if (home / "config.toml").is_file() else False  # a provider of its own may need no login
