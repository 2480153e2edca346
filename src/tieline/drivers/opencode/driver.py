"""OpenCode, over its own server (`opencode serve`): HTTP for what we say, server-sent events for what it does.

The conversations of one driver share a server as long as they need the same one: the same program and environment.
It has a password of its own, listens on loopback only, and ends with the last conversation.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...background_tasks import cancel_and_wait
from ...config import setting
from ...errors import AgentError, AgentStartFailed, RepositoryRuns, Unsupported, UsageError
from ...events import Warning
from ...policy import Policy, Receipt
from ..base import AskFn, Features, Probe, Program, Spec, check_args
from ..model_list import ModelList, mappings, model_list, nearest_models
from ..opencode_project import INSTRUCTIONS, NO_PROJECT, PROJECT_SETTINGS, RUNS
from ..registry import parse_options
from ..repository_settings import file_that_runs, repository_instructions, settings_left_out
from ..version_command import ask_version
from .conversation import OpenCodeConversation
from .event_stream import EventStream
from .launch import (
    ARGS,
    CWD,
    INSTALL,
    PROGRAM,
    RESERVED_ARGS,
    TRUST,
    launch_command,
    reads_project,
    resolve_command,
)
from .policy import CAPABILITY_OF, Rules, receipt, session_rules
from .prompt import prompt_body
from .server import OpenCodeError, OpenCodeServer, ServerUnreachable

VARIANTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Names that OpenCode has for efforts. Which of them a model takes is for the server to say."""


class OpenCodeOptions(Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[
        tuple[str, ...], setting("Program and its first arguments, instead of `opencode`.", ("/opt/opencode",))
    ] = ()
    args: tuple[str, ...] = ()  # more arguments, after ours
    env: Mapping[str, str] = {}  # added to its environment
    url: Annotated[
        str, setting("A server that runs already, instead of one that Tieline starts.", "http://127.0.0.1:4096")
    ] = ""
    user: Annotated[str, setting("User name for the server at `url`.", "opencode")] = "opencode"
    password: Annotated[str, setting("Password for the server at `url`.", "s3cret", secret=True)] = ""
    agent: Annotated[str, setting("One of OpenCode's own agents: `build`, `plan`, or yours.", "plan")] = ""


OPTIONS = OpenCodeOptions
"""What `[agents.NAME]` may say."""


def create(name: str, options: Mapping[str, Any]) -> "OpenCode":
    chosen = parse_options(OpenCodeOptions, name, options)
    check_args(name, chosen.args, RESERVED_ARGS)
    return OpenCode(name, chosen)


class OpenCode:
    tested = "1.18.18"
    floor = "1.18.18"

    def __init__(self, name: str = "opencode", options: OpenCodeOptions | None = None) -> None:
        self.name = name
        self.options = options or OpenCodeOptions()
        for field in ("command", "args", "env"):
            if self.options.url and getattr(self.options, field):
                problem = f"agents.{name}: a url and {field}, which is for a server that Tieline starts"
                raise UsageError(problem, field=f"agents.{name}.{field}", hint="Give one of them.")
        self.features = Features(
            model=True,
            effort=VARIANTS,
            max_turns=True,
            max_budget_usd=True,
            resume=True,
            fork=True,
            steer=True,
            system="native",
            turn_system=True,
            allowed_tools=True,
            disallowed_tools=True,
            arguments=not self.options.url,
            mcp_servers=not self.options.url,  # a running server has its own, for everyone
            attachments=("image/*", "text/*", "application/pdf"),
            deltas=True,
            thinking=True,
            questions=True,
            plans=True,
            diffs=True,
            usage=True,
        )
        self._shared: dict[Any, _SharedServer] = {}

    @property
    def program(self) -> Program:
        if self.options.url:
            return Program(type="opencode")
        return Program(type="opencode", command=self.options.command or (PROGRAM,), args=(*ARGS, *self.options.args))

    @property
    def env(self) -> Mapping[str, str]:
        return self.options.env

    async def probe(self, env: Mapping[str, str]) -> Probe:
        env = {**env, **self.env}
        try:
            if self.options.url:
                server = OpenCodeServer(self.name, None, self.options.url, self.options.password, self.options.user)
                try:
                    await server.ready()
                finally:
                    await server.close()
                return Probe(found=True, path=self.options.url, version=server.version)
            argv = resolve_command(env, self.options.command, self.name)
            version = await _version(argv, env)
        except AgentError as error:
            return Probe(found=False, problem=error.message, hint=error.hint)
        return Probe(found=True, path=argv[0], version=version, signed_in=True if _signed_in(env) else None)

    def enforce(self, policy: Policy) -> Receipt:
        project = bool(self.options.url) or reads_project(self.env)
        return receipt(policy, foreign=bool(self.options.url), project=project)

    @asynccontextmanager
    async def open(self, spec: Spec, ask: AskFn) -> AsyncGenerator[OpenCodeConversation, None]:
        if not spec.accept_unenforced and (runs := await self._file_that_runs(spec)):
            raise RepositoryRuns(self.name, runs, TRUST)
        body = prompt_body(self.name, await self._instructed(spec), self.options.agent)
        async with self._server(spec) as shared:
            server = shared.server
            try:
                async with shared.stream(spec.cwd) as stream:
                    conversation = await self._open_session(server, stream, spec, ask, body)
                    try:
                        yield conversation
                    finally:
                        stream.leave(conversation)
                        await conversation.close()
            except (OpenCodeError, ServerUnreachable) as error:
                raise AgentStartFailed(self.name, str(error)) from error

    def _leaves_out(self, spec: Spec) -> bool:
        """Whether our own server does not read the settings of the session's repository."""
        env = {**spec.env, **self.env}
        return not (self.options.url or spec.policy.shell == "allow" or reads_project(env))

    async def _file_that_runs(self, spec: Spec) -> str:
        """A plugin of the repository that our own server would load although it does not read its settings."""
        if not self._leaves_out(spec):
            return ""
        return await asyncio.to_thread(file_that_runs, spec.cwd, RUNS, spec.env.get("HOME", ""))

    async def _left_out(self, spec: Spec) -> tuple[Warning, ...]:
        if not self._leaves_out(spec) or NO_PROJECT in {**spec.env, **self.env}:  # then its user knows
            return ()
        home = spec.env.get("HOME", "")
        return await asyncio.to_thread(settings_left_out, spec.cwd, PROJECT_SETTINGS, home, TRUST)

    async def _instructed(self, spec: Spec) -> Spec:
        """The options, with the repository's instructions, which our own server leaves out together with its
        settings."""
        if not self._leaves_out(spec):
            return spec
        instructions = await asyncio.to_thread(repository_instructions, spec.cwd, INSTRUCTIONS)
        return replace(spec, system="\n\n".join(filter(None, (instructions, spec.system))))

    async def _open_session(
        self, server: OpenCodeServer, stream: EventStream, spec: Spec, ask: AskFn, body: Mapping[str, Any]
    ) -> OpenCodeConversation:
        """Everything that a session needs, at once: nothing here waits for another but the rules for the agents."""
        opening = asyncio.create_task(stream.wait_open())
        greeting = asyncio.create_task(server.ensure_version())
        try:
            agents, config = await asyncio.gather(
                server.request("GET", "/agent", spec.cwd), server.request("GET", "/config", spec.cwd)
            )
            if spec.model or spec.effort:
                await self._check_model(server, spec, config)
            if self.options.agent and self.options.agent not in {each.get("name") for each in agents}:
                known = ", ".join(each["name"] for each in agents if not each.get("hidden"))
                raise UsageError(f"no agent {self.options.agent!r}", field="agent", hint=f"There are: {known}.")
            rules = session_rules(
                spec.policy,
                agents,
                agent=self.options.agent,
                allowed=spec.allowed_tools,
                disallowed=spec.disallowed_tools,
            )
            session, last, children = await _session(server, spec, rules)
            await asyncio.gather(opening, greeting)
        finally:
            await cancel_and_wait(opening, greeting)
        conversation = OpenCodeConversation(
            self.name,
            server,
            stream,
            session,
            spec,
            ask,
            self.enforce(spec.policy),
            rules,
            body=body,
            mcp=(*spec.mcp_servers, *(config.get("mcp") or {})),
            last=last,
            notices=await self._left_out(spec),
        )
        for each in (session, *children):
            stream.join(conversation, each)
        return conversation

    async def list_models(self, cwd: str, env: Mapping[str, str]) -> ModelList:
        spec = Spec(cwd=cwd, env=env)
        async with self._server(spec) as shared:
            try:
                directory = CWD if await self._file_that_runs(spec) else cwd
                return model_list((await _models(shared.server, directory)).items(), certain=True)
            except (OpenCodeError, ServerUnreachable) as error:
                raise AgentStartFailed(self.name, f"it does not list its models:  {error}") from error

    async def _check_model(self, server: OpenCodeServer, spec: Spec, config: Mapping[str, Any]) -> None:
        """OpenCode takes every model and effort; one that it does not have fails a turn, or is silently ignored."""
        model = spec.model or config.get("model") or ""
        if not model:
            raise UsageError("an effort needs a model", field="effort", hint="Name one: model=provider/model.")
        offered = await _models(server, spec.cwd)
        if spec.model and spec.model not in offered:
            near = nearest_models(offered, spec.model)
            hint = f"The nearest that it has: {', '.join(near)}." if near else f"`tieline agents models {self.name}`."
            raise UsageError(f"{self.name} has no model {spec.model!r}", field="model", hint=hint)
        levels = offered.get(model, ())
        if spec.effort and spec.effort not in levels:
            hint = f"It takes: {', '.join(levels)}." if levels else "It takes none."
            raise Unsupported(self.name, f"effort {spec.effort!r} with the model {model}", hint=hint)

    @asynccontextmanager
    async def _server(self, spec: Spec) -> "AsyncGenerator[_SharedServer, None]":
        check_args(self.name, spec.arguments, RESERVED_ARGS, field="arguments")
        trusted = spec.policy.shell == "allow"
        key = (tuple(sorted(spec.env.items())), spec.arguments, msgspec.json.encode(spec.mcp_servers), trusted)
        shared = self._shared.get(key)
        if shared is None or shared.server.gone:
            options = self.options
            env = {**spec.env, **self.env}
            launch = None
            if not options.url:
                args = (*options.args, *spec.arguments)
                launch = launch_command(env, options.command, spec.mcp_servers, args, name=self.name, trusted=trusted)
            shared = _SharedServer(OpenCodeServer(self.name, launch, options.url, options.password, options.user))
            self._shared[key] = shared
        shared.server.users += 1
        try:
            await shared.server.ready()
            yield shared
        finally:
            shared.server.users -= 1
            if not shared.server.users:
                if self._shared.get(key) is shared:
                    del self._shared[key]
                await shared.server.close()


class _SharedServer:
    """A server and its event streams, in use."""

    def __init__(self, server: OpenCodeServer) -> None:
        self.server = server
        self._streams: dict[str, tuple[EventStream, int]] = {}

    @asynccontextmanager
    async def stream(self, directory: str) -> AsyncGenerator[EventStream, None]:
        stream, users = self._streams.get(directory) or (EventStream(self.server, directory), 0)
        self._streams[directory] = (stream, users + 1)
        try:
            yield stream
        finally:
            stream, users = self._streams.pop(directory)
            if users > 1:
                self._streams[directory] = (stream, users - 1)
            else:
                await stream.close()


async def _models(server: OpenCodeServer, cwd: str) -> dict[str, tuple[str, ...]]:
    """The models, each with its efforts, of all providers that are set up, also by the directory's own
    configuration."""
    response = await server.request("GET", "/config/providers", cwd)
    return {
        f"{provider['id']}/{name}": tuple(model.get("variants") or ())
        for provider in mappings(response["providers"])
        for name, model in cast("Mapping[str, Mapping[str, Any]]", provider["models"]).items()
    }


async def _session(server: OpenCodeServer, spec: Spec, rules: Rules) -> tuple[str, str, list[str]]:
    """A new session, one to go on with, or a copy of it: its id, its last message so far, its subagents' sessions."""
    if not spec.resume:
        return (await server.request("POST", "/session", spec.cwd, {"permission": rules}))["id"], "", []
    try:
        session = await server.request("GET", f"/session/{spec.resume}", spec.cwd)
        if os.path.realpath(session["directory"]) != os.path.realpath(spec.cwd):
            raise UsageError(
                f"the conversation {spec.resume} is about {session['directory']}, not {spec.cwd}",
                field="resume",
                hint="Open it in its own directory.",
            )
        if spec.fork:
            session = await server.request("POST", f"/session/{spec.resume}/fork", spec.cwd, {})
    except OpenCodeError as error:
        raise UsageError(f"no conversation {spec.resume!r}: {error}", field="resume") from None
    name = session["id"]
    # A subagent's session can be taken up again: it is held to this policy too, not to the one it began under.
    children, messages = await asyncio.gather(
        server.request("GET", f"/session/{name}/children", spec.cwd),
        server.request("GET", f"/session/{name}/message", spec.cwd, params={"limit": "1"}),
    )
    held = [each for each in rules if each["permission"] in CAPABILITY_OF and each["action"] != "allow"]
    updates = [(name, rules, session), *((child["id"], held, child) for child in children if held)]
    await asyncio.gather(
        *(
            server.request("PATCH", f"/session/{each}", spec.cwd, {"permission": new})
            for each, new, was in updates
            if (was.get("permission") or [])[-len(new) :] != new
        )
    )
    return name, messages[-1]["info"]["id"] if messages else "", [child["id"] for child in children]


async def _version(argv: tuple[str, ...], env: Mapping[str, str]) -> str:
    try:
        answer = await ask_version([*argv, "--version"], env)
    except (OSError, ValueError) as error:
        raise AgentStartFailed(argv[0], f"it cannot be started: {error}", hint=INSTALL) from None
    if answer.failure:
        hint = answer.stderr.strip()[-500:] or INSTALL
        raise AgentStartFailed(argv[0], f"`--version` ended with status {answer.status}", hint=hint)
    return answer.lines[-1][:100]


def _signed_in(env: Mapping[str, str]) -> bool:
    """Whether credentials are stored. Without any, a provider may still be configured by other means."""
    home = Path(env.get("HOME", "/nonexistent"))
    data = Path(env.get("XDG_DATA_HOME") or home / ".local/share")
    try:
        return len((data / "opencode" / "auth.json").read_bytes().strip()) > len(b"{}")
    except OSError:
        return False
