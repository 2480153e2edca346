"""ACP agents as data: how each is started, what it can do, and its known quirks. Light: the registry reads the names.

What a preset claims is either tested here (then it has a `tested` version) or what the agent's own documentation and
the protocol's public registry of agents say. Where neither says that the agent always asks, nothing is claimed.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from ..policy import Capability
from .base import Features

Control = Literal["", "gemini-rules", "opencode-permission"]
"""The agent's own rules that a policy is written into; none: the policy lives by what the agent asks."""


class Preset(Struct, frozen=True, kw_only=True):
    command: tuple[str, ...]  # the program; `command` of the configuration takes its place
    args: tuple[str, ...] = ()  # always added
    env: Mapping[str, str] = {}  # unless the caller's environment says otherwise
    install: str = ""  # what to do when it is missing
    sign_in: str = ""  # what to do when it is not signed in
    api_key_vars: tuple[str, ...] = ()  # environment variables of which one is enough to be signed in
    login_files: tuple[str, ...] = ()  # files under HOME that it leaves when somebody signed in
    tested: str = ""
    floor: str = ""
    features: Features = Features()
    node: bool = False  # a large program of Node, whose first turn is faster when it was compiled ahead
    model_args: tuple[str, ...] = ()  # arguments that choose it, "{}" is its name; none: the session's own option does

    # the policy
    control: Control = ""
    asks: tuple[Capability, ...] = ()  # what it asks before, always, when it is started like this
    mode: str = ""  # the session mode that this takes
    tools: Mapping[Capability, tuple[str, ...]] = {}  # its tools by capability, for its own rules
    harmless: tuple[str, ...] = ()  # tools that it would ask for and that touch nothing
    subagents: tuple[str, ...] = ()  # tools that hand work to a subagent whose asks never reach us
    overriding_dirs: tuple[str, ...] = ()  # directories whose rules make it ignore ours
    supports_always: bool = True  # whether "allow always" has an effect

    # quirks
    truncated_asks: Mapping[
        str, str
    ] = {}  # what its ask looks like where it leaves a part of the action out → what that is
    tool_kinds: Mapping[str, str] = {}  # tool name → what kind of tool it really is
    name_separator: str = ""  # the tool's name is the part of its call's id before this
    refusal_suffixes: tuple[str, ...] = ()  # a failure that ends like this is a refusal by its own rules
    failure_prefixes: tuple[str, ...] = ()  # output of a "completed" call that begins like this tells of a failure
    mode_prefix: str = ""  # a message that begins like this is a change of mode, not content
    late_replay: bool = False  # history may still come after the answer to session/load
    record_glob: str = ""  # under HOME: the record of a session that loading it within the same minute would write over
    usage_path: tuple[str, ...] = ("usage",)  # where the prompt's result has the tokens
    usage_is_total: bool = True  # they are the whole turn's, not only those of its last model call
    plan_tools: tuple[str, ...] = ()  # tools whose input is the list of steps
    sends_writes: bool = False  # it sends us what it writes, declared or not, and writes it itself


STREAM = Features(
    warm=True, system="prompt", arguments=True, mcp_servers=True, deltas=True, thinking=True, plans=True, diffs=True
)
"""What any ACP agent can do: the protocol's baseline."""

IMAGES = ("image/*",)
TEXTS = ("text/*",)


def _features(**more: object) -> Features:
    from msgspec.structs import replace

    return replace(STREAM, **more)


PRESETS: dict[str, Preset] = {
    "gemini": Preset(
        command=("gemini",),
        args=("--acp", "--skip-trust", "--approval-mode", "default"),
        # Without the first its parent process ignores SIGTERM; without the second it tells no output of commands.
        env={"GEMINI_CLI_NO_RELAUNCH": "1", "GEMINI_PTY_INFO": "child_process"},
        install="npm install -g @google/gemini-cli",
        sign_in="Run `gemini` once and sign in, or set GEMINI_API_KEY.",
        api_key_vars=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        login_files=(".gemini/oauth_creds.json",),
        tested="0.61.0",
        floor="0.61.0",
        features=_features(
            model=True,
            resume=True,
            disallowed_tools=True,
            attachments=("image/*", "audio/*", "text/*"),
            plans=False,
            usage=True,
        ),
        node=True,
        model_args=("-m", "{}"),
        control="gemini-rules",
        tools={
            "file_write": ("write_file", "replace"),
            "shell": ("run_shell_command",),
            "network": ("web_fetch", "google_web_search"),
        },
        harmless=("write_todos",),
        overriding_dirs=("/etc/gemini-cli/policies", "/Library/Application Support/GeminiCli/policies"),
        supports_always=False,
        truncated_asks={
            r"\[Payload omitted due to length": "The tool's input: Gemini leaves it out beyond 500 characters.",
            r'Processing URLs and instructions from prompt: ".{97}\.\.\."$': (
                "The end of the instruction: Gemini shows its first 97 characters, and the addresses are in there."
            ),
        },
        tool_kinds={"google_web_search": "fetch", "invoke_agent": "task"},
        name_separator="__",
        refusal_suffixes=("denied by policy.",),
        failure_prefixes=(
            "Command exited with code: ",
            "Command terminated by signal: ",
            "Command failed: ",
            "Blocked: ",
        ),
        mode_prefix="[MODE_UPDATE] ",
        late_replay=True,
        record_glob=".gemini/tmp/*/chats/session-{minute}-{id:.8}.jsonl",
        usage_path=("_meta", "quota", "token_count"),
    ),
    "opencode-acp": Preset(
        command=("opencode",),
        args=("acp",),
        install="npm install -g opencode-ai",
        sign_in="Run `opencode auth login`.",
        login_files=(".local/share/opencode/auth.json",),
        tested="1.18.18",
        floor="1.18.18",
        features=_features(model=True, resume=True, fork=True, attachments=(*IMAGES, *TEXTS)),
        control="opencode-permission",
        tools={"file_write": ("edit",), "shell": ("bash",), "network": ("webfetch", "websearch")},
        subagents=("task",),
        tool_kinds={"task": "task"},
        failure_prefixes=("The arguments provided to the tool are invalid: ",),
        usage_is_total=False,
        plan_tools=("todowrite",),
        sends_writes=True,
    ),
    "qwen": Preset(
        command=("qwen",),
        args=("--acp", "--approval-mode", "default"),
        install="npm install -g @qwen-code/qwen-code",
        sign_in="Run `qwen` once and sign in.",
        features=_features(resume=True, model=True),
        model_args=("--model", "{}"),
        asks=("file_write",),  # its read-only commands and its searches run unasked
    ),
    "copilot": Preset(
        command=("copilot",),
        args=("--acp", "--stdio"),
        install="npm install -g @github/copilot",
        sign_in="Run `copilot` once and sign in with /login.",
        api_key_vars=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"),
        features=_features(resume=True),
    ),
    "goose": Preset(
        command=("goose",),
        args=("acp",),
        env={"GOOSE_MODE": "approve"},
        install="See block.github.io/goose for how to install it.",
        sign_in="Run `goose configure`.",
        features=_features(resume=True),
        asks=("file_write", "shell", "network"),
    ),
    "cursor": Preset(
        command=("cursor-agent",),
        args=("acp",),
        install="See cursor.com/docs/cli for how to install it.",
        sign_in="Run `cursor-agent login`, or set CURSOR_API_KEY.",
        api_key_vars=("CURSOR_API_KEY",),
        features=_features(resume=True),
    ),
    "claude-agent-acp": Preset(
        command=("claude-agent-acp",),
        install="npm install -g @agentclientprotocol/claude-agent-acp",
        sign_in="Run `claude` once and sign in, or set ANTHROPIC_API_KEY.",
        api_key_vars=("ANTHROPIC_API_KEY",),
        features=_features(resume=True, fork=True, model=True, attachments=(*IMAGES, *TEXTS)),
        mode="default",
        asks=("file_write",),  # it lets read-only commands and some hosts pass unasked
    ),
    "codex-acp": Preset(
        command=("codex-acp",),
        install="npm install -g @agentclientprotocol/codex-acp",
        sign_in="Run `codex login`, or set OPENAI_API_KEY.",
        api_key_vars=("OPENAI_API_KEY", "CODEX_API_KEY"),
        features=_features(resume=True),
    ),
    "kimi": Preset(
        command=("kimi",),
        args=("acp",),
        install="uv tool install kimi-cli",
        sign_in="Run `kimi` once and use /login.",
        features=_features(resume=True),
    ),
    "auggie": Preset(
        command=("auggie",),
        args=("--acp",),
        env={"AUGMENT_DISABLE_AUTO_UPDATE": "1"},
        install="npm install -g @augmentcode/auggie",
        sign_in="Run `auggie login`.",
        features=_features(resume=True),
    ),
    "cline": Preset(
        command=("cline",),
        args=("--acp",),
        install="npm install -g cline",
        sign_in="Run `cline auth`.",
        features=_features(resume=True),
    ),
    "droid": Preset(
        command=("droid",),
        args=("exec", "--output-format", "acp-daemon"),
        env={"DROID_DISABLE_AUTO_UPDATE": "true", "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false"},
        install="npm install -g droid",
        sign_in="Run `droid` once and sign in, or set FACTORY_API_KEY.",
        api_key_vars=("FACTORY_API_KEY",),
        features=_features(resume=True),
    ),
    "kilo": Preset(
        command=("kilo",),
        args=("acp",),
        install="npm install -g @kilocode/cli",
        sign_in="Run `kilo auth`.",
        features=_features(resume=True, fork=True),
    ),
    "junie": Preset(
        command=("junie",),
        args=("--acp=true",),
        install="See junie.jetbrains.com for how to install it.",
        features=_features(resume=True, fork=True),
    ),
}
