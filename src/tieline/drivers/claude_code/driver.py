"""Drives Claude Code through its agent SDK: one warm process for many turns.

We start the `claude` process ourselves, first, and import the SDK while it comes up. The SDK serves the control
protocol (initialize, permissions, hooks, interrupt) over our transport; all else goes straight to the normaliser.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from sys import platform
from typing import Any

from ...errors import AgentMissing, AgentStartFailed, NotSignedIn
from ...policy import Policy, Receipt
from ...processes.async_process import Process
from ...safe_file_read import read_regular
from ..base import AskFn, Features, Probe, Program, Spec, check_args, deny_all
from ..model_list import ModelList
from ..registry import parse_options
from ..version_command import ask_version
from .conversation import ClaudeCodeConversation
from .launch import ARGS, INSTALL, RESERVED_ARGS, ClaudeCodeOptions, executable, launch_command, trusts_repository
from .policy import enforce
from .usage import ClaudeCodeUsageMeter, previous_usage

CREDENTIALS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK",
               "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")  # fmt: skip


MANAGED = Path("/etc/claude-code/managed-settings.json")
MAX_SETTINGS = 1024 * 1024
UNINVOLVED = ("--strict-mcp-config", "--settings", '{"disableAllHooks":true}')
"""For a start that is about the agent alone: none of the user's MCP servers and hooks run."""
SIGN_IN = "Run `claude` once and sign in, or set ANTHROPIC_API_KEY."


OPTIONS = ClaudeCodeOptions
"""What `[agents.NAME]` may say."""


def create(name: str, options: Mapping[str, Any]) -> "ClaudeCode":
    chosen = parse_options(ClaudeCodeOptions, name, options)
    check_args(name, chosen.args, RESERVED_ARGS)
    return ClaudeCode(chosen, name=name)


class ClaudeCode:
    tested = "2.1.325"
    floor = "2.1.325"
    features = Features(
        model=True,
        effort=("low", "medium", "high", "xhigh", "max"),
        max_turns=True,
        max_budget_usd=True,
        resume=True,
        fork=True,
        steer=True,
        system="native",
        turn_system=True,
        allowed_tools=True,
        disallowed_tools=True,
        arguments=True,
        mcp_servers=True,
        attachments=("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "text/*"),
        warm=True,
        deltas=True,
        thinking=True,
        questions=True,
        plans=True,
        diffs=True,
        usage=True,
    )

    def __init__(self, options: ClaudeCodeOptions | None = None, *, name: str = "claude-code") -> None:
        self.name = name
        self.options = options or ClaudeCodeOptions()
        self.offered_models = ModelList()

    @property
    def program(self) -> Program:
        args = (*ARGS, "--permission-mode", self.options.mode, *self.options.args)
        return Program(type="claude-code", command=self.options.command or ("claude",), args=args)

    @property
    def env(self) -> Mapping[str, str]:
        return self.options.env

    async def probe(self, env: Mapping[str, str]) -> Probe:
        env = {**env, **self.env}
        path = ""
        try:
            command = executable(self.name, self.options, env)
            path = command[0]
            version = _bundled_version(path) or await _version(command, env)
        except AgentMissing as missing:
            return Probe(found=False, path=path, problem=missing.message, hint=missing.hint)
        except (OSError, ValueError) as error:
            return Probe(found=False, path=path, problem=f"{path} --version: {error or type(error).__name__}")
        return Probe(found=True, path=path, version=version, signed_in=_signed_in(env))

    def enforce(self, policy: Policy) -> Receipt:
        foreign = policy.shell != "allow" and trusts_repository(policy, self.options)
        return enforce(policy, user_rules=self.options.user_rules, repository=foreign)

    @asynccontextmanager
    async def open(self, spec: Spec, ask: AskFn) -> AsyncGenerator[ClaudeCodeConversation, None]:
        check_args(self.name, spec.arguments, RESERVED_ARGS, field="arguments")
        launch = launch_command(spec, self.options, self.name)
        # A command of the user's own may bring its credentials along.
        repository = trusts_repository(spec.policy, self.options)
        settings = spec.cwd if repository else ""
        if not self.options.command and await asyncio.to_thread(_signed_in, launch.env, settings) is False:
            raise NotSignedIn(self.name, "it is not signed in", hint=SIGN_IN)
        before = await asyncio.to_thread(previous_usage, launch.env, spec.resume)
        try:
            process = Process.start(launch.argv, cwd=spec.cwd, env=launch.env)
        except FileNotFoundError:
            raise AgentMissing(self.name, f"there is no {launch.argv[0]!r}", hint=INSTALL) from None
        except OSError as error:
            raise AgentStartFailed(self.name, f"{launch.argv[0]!r} cannot be started: {error.strerror}") from None
        except ValueError as error:
            raise AgentStartFailed(self.name, f"an option cannot be passed on: {error}") from None
        talk = ClaudeCodeConversation(
            self.name,
            process,
            spec,
            ask,
            receipt=self.enforce(spec.policy),
            native_id=launch.native_id,
            meter=ClaudeCodeUsageMeter(before),
            user_rules=self.options.user_rules,
            repository=repository,
            notices=launch.notices,
        )
        async with AsyncExitStack() as stack:
            stack.push_async_callback(talk.stop)  # it reads until the process has ended
            await stack.enter_async_context(process)
            talk.start_reading()
            stack.push_async_callback(talk.disconnect)
            await talk.connect(self.options.start_timeout_s)
            offered = await talk.offered_models()
            if offered.names:
                self.offered_models = offered
            yield talk

    async def list_models(self, cwd: str, env: Mapping[str, str]) -> ModelList:
        async with self.open(Spec(cwd=cwd, env=env, arguments=UNINVOLVED), deny_all) as talk:
            return await talk.offered_models()


# --- what is installed ---------------------------------------------------------------------------------


def _bundled_version(path: str) -> str:
    with suppress(OSError):
        return Path(path).with_name("claude.version").read_text().split()[0] if "_bundled" in path else ""
    return ""


async def _version(command: tuple[str, ...], env: Mapping[str, str]) -> str:
    answer = await ask_version([*command, "--version"], env)
    if answer.failure:
        raise ValueError(answer.failure)
    return answer.lines[0].split()[0]


def _signed_in(env: Mapping[str, str], cwd: str = "") -> bool | None:
    if any(env.get(variable) for variable in CREDENTIALS):
        return True
    config = Path(env.get("CLAUDE_CONFIG_DIR") or Path(env.get("HOME") or "/", ".claude"))
    if (config / ".credentials.json").exists():
        return True
    places = [config / "settings.json", MANAGED]
    places += [Path(cwd, ".claude", name) for name in ("settings.json", "settings.local.json")] if cwd else []
    for file in places:
        with suppress(OSError, ValueError):
            text = read_regular(file, MAX_SETTINGS).decode()
            if any(f'"{name}"' in text for name in ("apiKeyHelper", *CREDENTIALS)):
                return True
    if env.get("ANTHROPIC_BASE_URL"):
        return None  # a gateway may want no key
    return None if platform == "darwin" else False  # there the keychain keeps it
