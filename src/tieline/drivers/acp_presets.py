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
    keys: tuple[str, ...] = ()  # environment variables of which one is enough to be signed in
    logins: tuple[str, ...] = ()  # files under HOME that it leaves when somebody signed in
    tested: str = ""
    floor: str = ""
    features: Features = Features()
    node: bool = False  # a large program of Node, whose first turn is faster when it was compiled ahead
    model: tuple[str, ...] = ()  # arguments that choose it, "{}" is its name; none: the session's own option does

    # the policy
    control: Control = ""
    asks: tuple[Capability, ...] = ()  # what it asks before, always, when it is started like this
    mode: str = ""  # the session mode that this takes
    tools: Mapping[Capability, tuple[str, ...]] = {}  # its tools by capability, for its own rules
    harmless: tuple[str, ...] = ()  # tools that it would ask for and that touch nothing
    subagents: tuple[str, ...] = ()  # tools that hand work to a subagent whose asks never reach us
    overruled_by: tuple[str, ...] = ()  # directories whose rules make it ignore ours
    remembers: bool = True  # whether "allow always" has an effect

    # quirks
    cuts: Mapping[str, str] = {}  # what its ask looks like where it leaves a part of the action out → what that is
    kinds: Mapping[str, str] = {}  # tool name → what kind of tool it really is
    name_in_id: str = ""  # the tool's name is the part of its call's id before this
    refusals: tuple[str, ...] = ()  # a failure that ends like this is a refusal by its own rules
    failures: tuple[str, ...] = ()  # output of a "completed" call that begins like this tells of a failure
    mode_mark: str = ""  # a message that begins like this is a change of mode, not content
    late_replay: bool = False  # history may still come after the answer to session/load
    record: str = ""  # under HOME: the record of a session that loading it within the same minute would write over
    usage: tuple[str, ...] = ("usage",)  # where the prompt's result has the tokens
    usage_whole: bool = True  # they are the whole turn's, not only those of its last model call
    todos: tuple[str, ...] = ()  # tools whose input is the list of steps
    shows_writes: bool = False  # it sends us what it writes, declared or not, and writes it itself


STREAM = Features(warm=True, system="prompt", mcp_servers=True, deltas=True, thinking=True, plans=True, diffs=True)
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
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        logins=(".gemini/oauth_creds.json",),
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
        model=("-m", "{}"),
        control="gemini-rules",
        tools={
            "file_write": ("write_file", "replace"),
            "shell": ("run_shell_command",),
            "network": ("web_fetch", "google_web_search"),
        },
        harmless=("write_todos",),
        overruled_by=("/etc/gemini-cli/policies", "/Library/Application Support/GeminiCli/policies"),
        remembers=False,
        cuts={
            r"\[Payload omitted due to length": "The tool's input: Gemini leaves it out beyond 500 characters.",
            r'Processing URLs and instructions from prompt: ".{97}\.\.\."$': (
                "The end of the instruction: Gemini shows its first 97 characters, and the addresses are in there."
            ),
        },
        kinds={"google_web_search": "fetch", "invoke_agent": "task"},
        name_in_id="__",
        refusals=("denied by policy.",),
        failures=("Command exited with code: ", "Command terminated by signal: ", "Command failed: ", "Blocked: "),
        mode_mark="[MODE_UPDATE] ",
        late_replay=True,
        record=".gemini/tmp/*/chats/session-{minute}-{id:.8}.jsonl",
        usage=("_meta", "quota", "token_count"),
    ),
    "opencode-acp": Preset(
        command=("opencode",),
        args=("acp",),
        install="npm install -g opencode-ai",
        sign_in="Run `opencode auth login`.",
        logins=(".local/share/opencode/auth.json",),
        tested="1.18.18",
        floor="1.18.18",
        features=_features(model=True, resume=True, fork=True, attachments=(*IMAGES, *TEXTS)),
        control="opencode-permission",
        tools={"file_write": ("edit",), "shell": ("bash",), "network": ("webfetch", "websearch")},
        subagents=("task",),
        kinds={"task": "task"},
        failures=("The arguments provided to the tool are invalid: ",),
        usage_whole=False,
        todos=("todowrite",),
        shows_writes=True,
    ),
    "qwen": Preset(
        command=("qwen",),
        args=("--acp", "--approval-mode", "default"),
        install="npm install -g @qwen-code/qwen-code",
        sign_in="Run `qwen` once and sign in.",
        features=_features(resume=True, model=True),
        model=("--model", "{}"),
        asks=("file_write",),  # its read-only commands and its searches run unasked
    ),
    "copilot": Preset(
        command=("copilot",),
        args=("--acp", "--stdio"),
        install="npm install -g @github/copilot",
        sign_in="Run `copilot` once and sign in with /login.",
        keys=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"),
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
        keys=("CURSOR_API_KEY",),
        features=_features(resume=True),
    ),
    "claude-agent-acp": Preset(
        command=("claude-agent-acp",),
        install="npm install -g @agentclientprotocol/claude-agent-acp",
        sign_in="Run `claude` once and sign in, or set ANTHROPIC_API_KEY.",
        keys=("ANTHROPIC_API_KEY",),
        features=_features(resume=True, fork=True, model=True, attachments=(*IMAGES, *TEXTS)),
        mode="default",
        asks=("file_write",),  # it lets read-only commands and some hosts pass unasked
    ),
    "codex-acp": Preset(
        command=("codex-acp",),
        install="npm install -g @agentclientprotocol/codex-acp",
        sign_in="Run `codex login`, or set OPENAI_API_KEY.",
        keys=("OPENAI_API_KEY", "CODEX_API_KEY"),
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
        keys=("FACTORY_API_KEY",),
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
