"""Any agent that speaks the Agent Client Protocol (version 1) over its standard streams.

Which agent it is, how it is started and how it deviates is data: `acp_presets`. We speak the protocol ourselves over
`wire.jsonrpc`, because its official library costs a second of import and a validation per message.
"""

import asyncio
import hashlib
import re
import shutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from ...background_tasks import cancel_and_wait
from ...config import setting
from ...errors import AgentMissing, AgentStartFailed, PolicyUnenforceable, RepositoryRuns, UsageError
from ...events import Warning
from ...policy import CAPABILITIES, Capability, Policy, Receipt
from ...processes.async_process import Process
from ...wire.jsonrpc import Peer
from ..acp_presets import PRESETS, STREAM, Preset
from ..acp_recipes import Recipe
from ..acp_traits import Denial, McpPassing, Spending, SteeringMode, ToolProgress
from ..base import AskFn, Features, Probe, Program, Spec, check_args, deny_all, required_features
from ..claude_project import repository_denials
from ..model_list import ModelList
from ..observed_features import Basis, Observation, ObservedAgents
from ..registry import parse_options
from ..repository_settings import file_that_runs, repository_instructions, settings_found, settings_left_out
from ..run_as import chown_to_run_as
from ..version_command import ask_version
from .conversation import AcpConversation
from .handshake import open_session
from .launch import launch_command
from .nodejs_eager_compile import precompiled_command
from .observed_features import merge_observed, unconfirmed
from .policy import overriding_rules, receipt

START_S = 60.0
"""The longest wait for an agent to come up. Node programs on a busy machine take their time."""
VERSION = re.compile(r"(?:^|[\s/v@(])(\d+(?:\.\d+)+(?:[-+][\w.+-]*\w)?)")
SUBCOMMAND = re.compile(r"[a-z][a-z-]*")
"""A word of a command that is no path, no package and no option."""


UNSAFE_ARGS = ("--yolo", "-y", "--admin-policy", "--policy", "--allowed-tools", "--allow-all-tools", "--allow-all",
          "--dangerously-skip-permissions", "--bare", "--safe-mode")  # fmt: skip
"""Arguments of one agent or another that let it work unasked, or without its rules."""


class PresetFeatures(Struct, frozen=True, forbid_unknown_fields=True):
    """What a configured agent can do beyond the protocol's baseline."""

    model: Annotated[bool | None, setting("A model can be chosen.", True)] = None
    resume: Annotated[bool | None, setting("A conversation can be resumed.", True)] = None
    fork: Annotated[bool | None, setting("A conversation can be forked.", True)] = None
    usage: Annotated[bool | None, setting("The agent reports tokens.", True)] = None
    attachments: Annotated[tuple[str, ...] | None, setting("Media types of attachments.", ("image/*",))] = None


class TraitOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """What a configured agent does differently from others."""

    denial: Annotated[
        Denial | None,
        setting("What a denied call does: the model is `told`, or it `ends_turn`, or the turn is `cancelled`.", "told"),
    ] = None
    usage: Annotated[
        Spending | None,
        setting("Whose tokens it reports: of the `turn`, the `session`, its `process`, the `last_call`.", "turn"),
    ] = None
    mcp: Annotated[
        McpPassing | None,
        setting("How MCP servers reach it: with the `session`, or `refused` because it would lose them.", "refused"),
    ] = None
    steering: Annotated[
        SteeringMode | None,
        setting("How it is steered: `none`, `request` (`_session/steering`), `drained` (it fetches).", "request"),
    ] = None
    progress: Annotated[
        ToolProgress | None,
        setting("What a running call's content is: `output`, `arguments`, `description`.", "output"),
    ] = None
    consents: Annotated[
        tuple[str, ...] | None,
        setting("Ids of its asks that only a person may grant, whatever the policy says.", ("index-permission",)),
    ] = None
    error_texts: Annotated[
        tuple[str, ...] | None,
        setting("Patterns of whole answers that are errors of the agent's.", ("Error: .+",)),
    ] = None


class AcpOptions(Struct, frozen=True, forbid_unknown_fields=True):
    preset: Annotated[
        str, setting("A known ACP agent, whose settings are the defaults. `type` may name it instead.", "qwen")
    ] = ""
    command: Annotated[
        tuple[str, ...],
        setting("Program and its first arguments, instead of the preset's. Required without one.", ("my-agent", "acp")),
    ] = ()
    args: tuple[str, ...] = ()  # more arguments, after the preset's
    env: Mapping[str, str] = {}  # added to its environment
    asks: Annotated[
        tuple[Capability, ...] | None,
        setting("Capabilities that the agent always asks about before it uses them.", ("file_write", "shell")),
    ] = None
    mode: Annotated[str | None, setting("Session mode to set, by the agent's own name.", "default")] = None
    can: Annotated[
        PresetFeatures, setting("What the agent can do, where the preset or the agent does not tell.", {"model": True})
    ] = PresetFeatures()
    trust_repository: Annotated[
        bool, setting("A repository's own settings count also where commands are not allowed.", True)
    ] = False
    traits: Annotated[
        TraitOptions, setting("What the agent does differently from others.", {"denial": "ends_turn"})
    ] = TraitOptions()
    recipe: Annotated[
        Recipe | None,
        setting("How `tieline agents test` sets it up over a scripted model.", {"api": "chat"}),
    ] = None


OPTIONS = AcpOptions
"""What `[agents.NAME]` may say."""


def create(name: str, options: Mapping[str, Any]) -> "Acp":
    chosen = parse_options(AcpOptions, name, options)
    if chosen.preset and chosen.preset not in PRESETS:
        hint = f"Presets: {', '.join(PRESETS)}."
        raise UsageError(f"agents.{name}: unknown preset {chosen.preset!r}", field=f"agents.{name}.preset", hint=hint)
    if not chosen.preset and not chosen.command:
        hint = 'Say what to start, for example command = ["my-agent", "acp"].'
        raise UsageError(f"agents.{name}: an ACP agent needs a command", field=f"agents.{name}.command", hint=hint)
    preset = PRESETS[chosen.preset] if chosen.preset else Preset(command=chosen.command, features=STREAM)
    ours = (*preset.args, *preset.model_args, *preset.mcp_args)
    check_args(name, chosen.args, {*UNSAFE_ARGS, *(part for part in ours if part.startswith("-"))})
    traits = replace(preset.traits, **_chosen(chosen.traits))
    if traits.mcp == "argument" and not preset.mcp_args:
        hint = 'Say mcp = "refused", or leave it out.'
        raise UsageError(f"agents.{name}: the argument for MCP servers is unknown", field="traits", hint=hint)
    able = {"mcp_servers": traits.mcp != "refused", "steer": traits.steering != "none"}
    preset = replace(
        preset,
        args=(*preset.args, *chosen.args),
        features=replace(preset.features, **able, **_chosen(chosen.can)),
        traits=traits,
        asks=preset.asks if chosen.asks is None else chosen.asks,
    )
    if chosen.mode is not None:
        preset = replace(preset, mode=chosen.mode, mode_full="")
    return Acp(
        name,
        preset,
        command=chosen.command,
        env=chosen.env,
        can=chosen.can,
        trusts_repository=chosen.trust_repository,
    )


def _chosen(options: Struct) -> dict[str, Any]:
    """What the configuration says of them."""
    return {key: value for key, value in asdict(options).items() if value is not None}


class Acp:
    def __init__(
        self,
        name: str,
        preset: Preset,
        *,
        command: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
        can: PresetFeatures | None = None,
        trusts_repository: bool = False,
    ) -> None:
        self.name = name
        self.preset = preset
        self.observed = ObservedAgents()
        self.offered_models = ModelList()
        self._command = command or preset.command
        self.env = env or {}
        self._trusts_repository = trusts_repository
        self._trust = f"trust_repository = true under [agents.{name}] of tieline.toml."
        self._configured = asdict(can or PresetFeatures())
        started = msgspec.json.encode((self._command, preset.args))
        self._program_digest = hashlib.sha256(started).hexdigest()[:16]

    @property
    def features(self) -> Features:
        met = self._observation()
        return self.preset.features if met is None else merge_observed(self.preset, self._configured, met.features)

    @property
    def basis(self) -> Basis:
        return "tested" if self.tested else "unverified" if self._observation() is None else "told"

    @property
    def unverified(self) -> tuple[str, ...]:
        if self.tested:
            return ()
        met = self._observation()
        return self.features.supported() if met is None else unconfirmed(self.preset, self.features, met.features)

    def _observation(self) -> Observation | None:
        return None if self.tested else self.observed.get(self.name, self._program_digest)

    @property
    def tested(self) -> str:
        return self.preset.tested

    @property
    def floor(self) -> str:
        return self.preset.floor

    def enforce(self, policy: Policy) -> Receipt:
        return receipt(self.preset, policy, trusts_repository=self._trusts_repository)

    @property
    def program(self) -> Program:
        return Program(type="acp", command=self._command, args=self.preset.args)

    async def probe(self, env: Mapping[str, str]) -> Probe:
        env = {**env, **self.env}
        path = shutil.which(self._command[0], path=env.get("PATH", ""))
        if path is None:
            return Probe(found=False, problem=f"{self._command[0]} is not on the PATH", hint=self.preset.install)
        home = Path(env.get("HOME", "/"))
        signs = [env.get(key) for key in self.preset.api_key_vars] + [
            (home / file).exists() for file in self.preset.login_files
        ]
        version, problem = await self._version(path, env)
        return Probe(found=True, path=path, version=version, signed_in=any(signs) or None, problem=problem)

    @asynccontextmanager
    async def open(self, spec: Spec, ask: AskFn) -> AsyncGenerator[AcpConversation, None]:
        check_args(self.name, spec.arguments, {*UNSAFE_ARGS, *self.preset.model_args}, field="arguments")
        spec = replace(spec, env={**spec.env, **self.env})
        left_out = await asyncio.to_thread(self._left_out, spec)
        if not spec.accept_unenforced:
            await asyncio.to_thread(self._check_files, spec, left_out)
        notices = self._notices(spec, left_out)
        if left_out is not None:
            spec = await asyncio.to_thread(self._instructed, spec)
        async with AsyncExitStack() as stack:
            scratch = stack.enter_context(TemporaryDirectory(prefix="tieline-", ignore_cleanup_errors=True))
            process = await stack.enter_async_context(self._start(spec, scratch, repository=left_out is None))
            stack.push_async_callback(cancel_and_wait, asyncio.create_task(_end_below(process)))
            talk = AcpConversation(self.name, self.preset, spec, ask, process, self.enforce(spec.policy))
            talk.notices = notices
            if left_out is not None:
                talk.session_meta = await asyncio.to_thread(self._session_meta, spec.cwd)
            peer = await stack.enter_async_context(Peer(process, talk, room=talk.drain))
            await self._open_or_exit(process, talk, open_session(talk, peer))
            if talk.offered_models.names:
                self.offered_models = talk.offered_models
            if not self.tested:
                await asyncio.to_thread(self._record, talk)
                talk.unverified = tuple(name for name in required_features(spec) if name in self.unverified)
            try:
                yield talk
            finally:
                await talk.close()
                if not self.tested and talk.shown:
                    await asyncio.to_thread(self._record, talk)

    def _record(self, talk: AcpConversation) -> None:
        features = talk.initialized.observed_features(talk.chooses_model, talk.shown)
        self.observed.record(self.name, self._program_digest, talk.initialized.version, features)

    async def list_models(self, cwd: str, env: Mapping[str, str]) -> ModelList:
        """It tells them with a new session, which ends before anybody says a word in it: nothing needs to hold it."""
        spec = Spec(cwd=cwd, env=env, accept_unenforced=True)
        with TemporaryDirectory(prefix="tieline-") as elsewhere:
            try:
                await asyncio.to_thread(lambda: self._check_files(spec, self._left_out(spec)))
            except PolicyUnenforceable:
                spec = replace(spec, cwd=elsewhere)
            async with self.open(spec, deny_all) as talk:
                return talk.offered_models

    def _left_out(self, spec: Spec) -> tuple[str, ...] | None:
        """The repository's own settings that the agent does not read. None: it reads them all, or has no way to leave
        them out."""
        settings = self.preset.repository
        leaves_out = settings.env or settings.files or settings.session_meta
        if self._trusts_repository or spec.policy.shell == "allow" or not leaves_out:
            return None
        names = settings_found(spec.cwd, settings.names, spec.env.get("HOME", ""))
        return None if settings.no_servers and not names else names

    def _check_files(self, spec: Spec, left_out: tuple[str, ...] | None) -> None:
        """Files that would let it work unasked are refused. Raises PolicyUnenforceable."""
        held = [c for c in CAPABILITIES if spec.policy.level(c) != "allow"]
        home = spec.env.get("HOME", "")
        hidden = self.preset.repository.hides if left_out is not None else ()
        if held and (rules := overriding_rules(self.preset, spec.cwd, home=home, more=hidden)):
            error = PolicyUnenforceable(self.name, held)
            error.hint = f"It heeds {rules}, which can let it work unasked. {error.hint}"
            raise error
        if spec.policy.shell == "allow" or self._trusts_repository:
            return
        if runs := file_that_runs(spec.cwd, self.preset.repository.runs, home):
            raise RepositoryRuns(self.name, runs, self._trust)

    def _notices(self, spec: Spec, left_out: tuple[str, ...] | None) -> tuple[Warning, ...]:
        if not left_out:
            return ()
        warnings = settings_left_out(spec.cwd, left_out, spec.env.get("HOME", ""), self._trust)
        if not (spec.mcp_servers and self.preset.repository.no_servers):
            return warnings
        servers = ", ".join(spec.mcp_servers)
        return (*warnings, Warning(f"{self.name} starts no MCP servers in a repository that is not trusted: {servers}"))

    def _instructed(self, spec: Spec) -> Spec:
        """The options, with the repository's instructions, which the agent leaves out together with its settings."""
        instructions = repository_instructions(spec.cwd, self.preset.repository.instructions)
        return replace(spec, system="\n\n".join(filter(None, (instructions, spec.system))))

    def _session_meta(self, cwd: str) -> Mapping[str, Any]:
        """What keeps the agent from the repository's settings, but for what they deny."""
        meta, path = self.preset.repository.session_meta or self.preset.session_meta, self.preset.repository.denials
        return _with_value(meta, path, denied) if path and (denied := repository_denials(cwd)) else meta

    def _start(self, spec: Spec, scratch: str, *, repository: bool) -> Process:
        preset = replace(self.preset, settings="") if overriding_rules(self.preset) else self.preset
        launch = launch_command(preset, self._command, spec, scratch, repository=repository)
        for path, content in launch.files.items():
            Path(path).write_text(content)
            if content.startswith("#!"):
                Path(path).chmod(0o700)
        chown_to_run_as(spec.env, *launch.files, scratch)
        argv = precompiled_command(launch.argv, launch.env) if spec.ahead and self.preset.node else launch.argv
        try:
            return Process.start(argv, cwd=spec.cwd, env=launch.env)
        except FileNotFoundError:
            missing = f"{argv[0]!r} is not installed, or not on the PATH"
            raise AgentMissing(self.name, missing, hint=self.preset.install) from None
        except (OSError, ValueError) as error:
            raise AgentStartFailed(self.name, f"{argv[0]!r} cannot be started: {error}") from None

    async def _open_or_exit(self, process: Process, talk: AcpConversation, opening: Any) -> None:
        """Open the session, unless the agent exits first or takes too long."""
        task = asyncio.ensure_future(opening)
        gone = asyncio.ensure_future(process.wait(START_S))
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                exited = gone.done() and gone.result()
                raise talk.start_failed("" if exited else f"no valid response within {START_S:g} s")
            await task
        finally:
            await cancel_and_wait(task, gone)

    async def _version(self, path: str, env: Mapping[str, str]) -> tuple[str, str]:
        """The version that the program prints, and the problem if it prints none."""
        problem = ""
        rest = self._command[1:]
        # A subcommand (`my-agent acp`) may have no option --version, or speak ACP instead of printing the version.
        for given in dict.fromkeys((rest, () if all(map(SUBCOMMAND.fullmatch, rest)) else rest)):
            try:
                answer = await ask_version([path, *given, "--version"], {**self.preset.env, **env})
            except (OSError, ValueError) as error:
                return "", problem or f"its version cannot be read: {error}"
            if match := VERSION.search(" ".join(answer.lines[:5])):
                return match[1], ""
            problem = problem or f"its version cannot be read (exit status {answer.status})"
        return "", problem


async def _end_below(process: Process) -> None:
    """What was started has exited, and the agent with it: some are started by a launcher, which they would outlive."""
    await process.wait(None)
    process.kill()


def _with_value(values: Mapping[str, Any], path: Sequence[str], value: object) -> Mapping[str, Any]:
    first, *rest = path
    return {**values, first: _with_value(values.get(first, {}), rest, value) if rest else value}
