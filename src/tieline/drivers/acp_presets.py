"""ACP agents as data: how each is started, what it can do, and its known quirks. Light: the registry reads the names.

What a preset claims is either tested here (then it has a `tested` version) or what the agent's own documentation and
the protocol's public registry of agents say. Where neither says that the agent always asks, nothing is claimed.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from ..policy import Capability
from . import acp_recipes, claude_project, opencode_project
from .acp_recipes import Recipe
from .acp_traits import UNKNOWN, Replacements, Traits
from .base import Features

NO_TOOL_SEEN = "where it was tested it had no tool of its own for this"
"""Of a line of the receipt: that it would ask is what it is set to, and nobody saw it."""

Control = Literal["", "gemini-rules", "opencode-permission", "codex-filter"]
"""The agent's own rules that a policy is written into; none: the policy lives by what the agent asks."""


class RepositorySettings(Struct, frozen=True, kw_only=True):
    """What an agent reads of a repository that names programs or allows something, and what keeps it from that where
    commands are not allowed."""

    names: tuple[str, ...] = ()  # files and folders that it reads
    env: Mapping[str, str] = {}  # variables with which it reads none of them
    files: Mapping[str, str] = {}  # variables that name files of ours for that → their content
    session_meta: Mapping[str, Any] = {}  # what takes the place of the preset's `session_meta` for that
    claude_program: bool = False  # it starts Claude Code outside of its sessions too; see `claude_without_repository`
    denials: tuple[str, ...] = ()  # where in it the tools go that the repository denies, which takes nothing
    hides: tuple[str, ...] = ()  # an administrator's files whose place ours take
    # What it leaves out together with them, and is told by us: the first of these that is there.
    instructions: tuple[str, ...] = ()
    # Nor does it start MCP servers then, not even the session's: only where the repository has any of these names.
    no_servers: bool = False
    runs: Mapping[str, str] = {}  # what it runs all the same; see `file_that_runs`


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
    recipe: Recipe | None = None  # how it is set up over a scripted model; none: nobody knows
    features: Features = Features()
    node: bool = False  # a large program of Node, whose first turn is faster when it was compiled ahead
    model_args: tuple[str, ...] = ()  # arguments that choose it, "{}" is its name; none: the session's own option does
    model_env: str = ""  # the variable that chooses it instead, where the option would change the user's settings

    # the policy
    control: Control = ""
    asks: tuple[Capability, ...] = ()  # what it asks before, always, when it is started like this
    no_tools: tuple[Capability, ...] = ()  # of those, what it had no tool for where it was tested: no ask was seen
    mode: str = ""  # the session mode that this takes
    mode_full: str = ""  # the one for a policy that allows everything; none: the same
    mode_env: str = ""  # the variable that sets the mode at the start; none: it is set in the session
    fixed_env: Mapping[str, str] = {}  # variables that make it ask, whatever the caller's environment says
    settings: str = ""  # a file of settings that make it ask, whatever the user's own say
    settings_env: str = ""  # the variable that names that file
    session_meta: Mapping[str, Any] = {}  # what goes with each session of its own under `_meta`, to make it ask
    mcp_args: tuple[str, ...] = ()  # arguments that give it MCP servers, "{}" is the file that names them
    traits: Traits = UNKNOWN
    tools: Mapping[Capability, tuple[str, ...]] = {}  # its tools by capability, for its own rules
    harmless: tuple[str, ...] = ()  # tools that it would ask for and that touch nothing
    subagents: tuple[str, ...] = ()  # tools that do what is not asked about, as a subagent whose asks never reach us
    # Patterns of files that ours would hide, or that let it work unasked. Relative ones: of the session's repository;
    # `~/`: of its user.
    overriding_files: tuple[str, ...] = ()
    repository: RepositorySettings = RepositorySettings()
    lifting_commands: tuple[str, ...] = ()  # commands of its own, given as a prompt, after which it asks less
    supports_always: bool = True  # whether "allow always" has an effect
    unasked: str = ""  # which commands run all the same, for the receipt

    # quirks
    directory_env: str = ""  # the variable for a directory of its own, for a socket that its sessions would share
    # What its ask looks like where it leaves a part of the action out, and the input is not known → what that is.
    truncated_asks: Mapping[str, str] = {}
    tool_kinds: Mapping[str, str] = {}  # tool name → what kind of tool it really is
    name_separator: str = ""  # the tool's name is the part of its call's id before this
    refusal_suffixes: tuple[str, ...] = ()  # a failure that ends like this is a refusal by its own rules
    failure_prefixes: tuple[str, ...] = ()  # output of a "completed" call that begins like this tells of a failure
    mode_prefix: str = ""  # a message that begins like this is a change of mode, not content
    late_replay: bool = False  # history may still come after the answer to session/load
    record_glob: str = ""  # under HOME: the record of a session that loading it within the same minute would write over
    plan_tools: tuple[str, ...] = ()  # tools whose input is the list of steps
    claude_edits: bool = False  # its editing tools are those of Claude Code
    sends_writes: bool = False  # it sends us what it writes, declared or not, and writes it itself


STREAM = Features(
    warm=True, system="prompt", arguments=True, mcp_servers=True, deltas=True, thinking=True, plans=True, diffs=True
)
"""What any ACP agent can do: the protocol's baseline."""

IMAGES = ("image/*",)
TEXTS = ("text/*",)
EFFORTS = ("low", "medium", "high")
"""Those that every model of an agent with a choice has."""


def _features(**more: object) -> Features:
    from msgspec.structs import replace

    return replace(STREAM, **more)


_ADAPTED = _features(
    resume=True, fork=True, model=True, attachments=(*IMAGES, *TEXTS), usage=True, questions=True, effort=EFFORTS
)
"""Of Claude Code and Codex by way of an adapter."""


_AUGGIE_TOOLS = ("launch-process", "write-process", "bash", "shell", "save-file", "str-replace-editor", "apply_patch",
                 "remove-files", "write", "edit", "web-fetch", "web-search", "open-browser", "github-api", "linear",
                 "jira", "confluence", "notion", "supabase", "glean")  # fmt: skip
"""All that it knows of to write, run or reach something; its vendor decides which of them an account has."""
_AUGGIE_ASKS = tuple(part for tool in _AUGGIE_TOOLS for part in ("--permission", f"{tool}:ask-user"))


_VIBE_TOOLS = ("bash", "git_bash", "powershell", "write_file", "edit", "web_fetch", "web_search")
_VIBE_ASK = '{"permission":"ask","allowlist":[]}'  # on its own it lets commands pass that only read
_VIBE_ASKS = {
    "VIBE_TOOLS": "{" + ",".join(f'"{tool}":{_VIBE_ASK}' for tool in _VIBE_TOOLS) + "}",
    "VIBE_ENABLE_AUTO_APPROVE": "false",
    "VIBE_ENABLE_SUBAGENTS": "false",  # profiles of theirs lift what is asked
    "VIBE_DEFAULT_AGENT": "ask",  # the mode; its own default accepts edits
}
"""Its variables come before its files of settings, the user's and a repository's."""


_QWEN_SETTINGS = '{"permissions":{"ask":["Edit","Bash","WebFetch","WebSearch"]}}'
"""Its tools by the names of its rules; `Edit` and `Bash` stand for all that edit files and run commands."""


_COPILOT_RUNS = {
    # Its own agents, whose MCP servers start when the model hands work to them.
    **{f"{folder}/agents/{depth}*.md": r"mcp[-_]?servers|\\u00|\\x" for folder in (".github", ".claude")
       for depth in ("**/", "*/")},
    # Where a person has trusted the folder at a terminal; no option takes that back.
    **{f"{folder}/{name}": r"hooks|\\u00" for folder in (".github/copilot", ".claude")
       for name in ("settings.json", "settings.local.json")},
    ".mcp.json": r"command|\\u00",
}  # fmt: skip
"""Of a repository's own settings, what it runs without a question."""


_VIBE_RUNS = {
    ".vibe/hooks.toml": "",
    ".vibe/config.toml": "",  # MCP servers, and where more tools and profiles of agents are
    ".vibe/tools/**/*.py": "",
    ".vibe/plugins/*": "",
}
"""Of a repository's own settings, what it runs where a person has trusted the folder; no option takes that back."""


_CLAUDE_ASKS = ("Write", "Edit", "NotebookEdit", "Bash", "PowerShell", "Monitor", "WebFetch", "WebSearch")
_CLAUDE_OPTIONS = {
    "settings": {"permissions": {"ask": _CLAUDE_ASKS}},
    "allowDangerouslySkipPermissions": False,
    "promptSuggestions": False,  # a model call after each turn, whose cost it does not tell
}


PRESETS: dict[str, Preset] = {
    "gemini": Preset(
        command=("gemini",),
        args=("--acp", "--skip-trust", "--approval-mode", "default"),
        # Without the first its parent process ignores SIGTERM; without the second it tells no output of commands.
        env={"GEMINI_CLI_NO_RELAUNCH": "1", "GEMINI_PTY_INFO": "child_process"},
        recipe=acp_recipes.GEMINI,
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
        overriding_files=(
            "/etc/gemini-cli/policies/*.toml",
            "/Library/Application Support/GeminiCli/policies/*.toml",
        ),
        # Its hooks, MCP servers, discovery commands and `.env` count in a folder that a person has trusted, in all of
        # them where folder trust is off, and by chance.
        repository=RepositorySettings(
            names=(".gemini", ".agents", ".env"),
            env={"GEMINI_RESTRICTED_MODE": "true"},
            instructions=("GEMINI.md",),
            no_servers=True,
        ),
        lifting_commands=("extensions",),
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
        traits=Traits(
            denial="told",
            usage="turn",
            mcp="session",
            steering="none",
            progress="output",
            title_is_action=True,
            usage_path=("_meta", "quota", "token_count"),
        ),
    ),
    "opencode-acp": Preset(
        command=("opencode",),
        args=("acp",),
        recipe=acp_recipes.OPENCODE_ACP,
        install="npm install -g opencode-ai",
        sign_in="Run `opencode auth login`.",
        login_files=(".local/share/opencode/auth.json",),
        tested="1.18.18",
        floor="1.18.18",
        features=_features(model=True, resume=True, fork=True, attachments=(*IMAGES, *TEXTS)),
        control="opencode-permission",
        tools={"file_write": ("edit",), "shell": ("bash",), "network": ("webfetch", "websearch")},
        subagents=("task",),
        repository=RepositorySettings(
            names=opencode_project.PROJECT_SETTINGS,
            env={opencode_project.NO_PROJECT: "1"},
            instructions=opencode_project.INSTRUCTIONS,
            runs=opencode_project.RUNS,
        ),
        tool_kinds={"task": "task"},
        failure_prefixes=("The arguments provided to the tool are invalid: ",),
        plan_tools=("todowrite",),
        sends_writes=True,
        traits=Traits(denial="told", usage="last_call", mcp="session", steering="none", progress="output"),
    ),
    "qwen": Preset(
        command=("qwen",),
        args=("--acp", "--approval-mode", "default"),
        recipe=acp_recipes.QWEN,
        install="npm install -g @qwen-code/qwen-code (it wants Node.js 22 or newer)",
        sign_in="Run `qwen` once and sign in.",
        tested="0.24.4",
        floor="0.24.4",
        features=_features(
            resume=True, model=True, attachments=(*IMAGES, *TEXTS), usage=True, questions=True, plans=False
        ),
        model_args=("--model", "{}"),
        # On its own it lets read-only commands and searches pass. Rules that ask come before all that allow, whoever
        # wrote them, and are added up over all its files of settings; these stand in the lowest one.
        asks=("file_write", "shell", "network"),
        settings=_QWEN_SETTINGS,
        settings_env="QWEN_CODE_SYSTEM_DEFAULTS_PATH",
        # Modes in which it reads no rules. Not empty: a repository's .env fills what is not set.
        fixed_env={"QWEN_CODE_SAFE_MODE": "false", "QWEN_CODE_SIMPLE": "false"},
        overriding_files=(
            "/etc/qwen-code/system-defaults.json",
            "/Library/Application Support/QwenCode/system-defaults.json",
        ),
        # By default it trusts every folder: hooks run, and one for permissions answers its asks.
        repository=RepositorySettings(
            names=(".qwen", ".mcp.json", ".lsp.json", ".env"),
            files={
                "QWEN_CODE_SYSTEM_SETTINGS_PATH": '{"security":{"folderTrust":{"enabled":true}}}',
                "QWEN_CODE_TRUSTED_FOLDERS_PATH": '{"/":"DO_NOT_TRUST"}',
            },
            hides=("/etc/qwen-code/settings.json", "/Library/Application Support/QwenCode/settings.json"),
            instructions=("QWEN.md", "AGENTS.md"),
            no_servers=True,
        ),
        tool_kinds={"monitor": "execute", "web_search": "fetch", "notebook_edit": "edit"},
        traits=Traits(
            denial="ends_turn",
            usage="turn",
            mcp="session",
            steering="drained",
            progress="output",
            chunk_usage_path=("_meta", "usage"),
            name_path=("_meta", "toolName"),
            questions_path=("_meta", "qwenQuestions"),
        ),
    ),
    "copilot": Preset(
        command=("copilot",),
        args=("--acp", "--stdio"),
        recipe=acp_recipes.COPILOT,
        install="npm install -g @github/copilot",
        sign_in="Run `copilot` once and sign in with /login.",
        api_key_vars=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"),
        tested="1.0.102",
        floor="1.0.102",
        features=_features(resume=True, model=True, attachments=(*IMAGES, *TEXTS), usage=True, plans=False),
        model_args=("--model", "{}"),
        asks=("file_write", "shell", "network"),
        fixed_env={"COPILOT_ALLOW_ALL": "false"},
        repository=RepositorySettings(runs=_COPILOT_RUNS),
        overriding_files=(".github/hooks/*.json",),  # it runs them, trusted or not, and their "allow" is its answer
        lifting_commands=("allow-all", "yolo", "permissions", "autopilot", "add-dir", "plugin", "mcp", "remote"),
        mcp_args=("--additional-mcp-config", "@{}"),
        traits=Traits(
            denial="ends_turn",
            usage="process",
            mcp="argument",
            steering="none",
            progress="output",
            denial_texts=(r"Info: Operation cancelled by user\.?",),
            notice_texts=(r"Info: [^\n]+",),
            error_texts=(r"Error: .+",),
        ),
    ),
    "goose": Preset(
        command=("goose",),
        args=("acp",),
        fixed_env={"GOOSE_MODE": "approve"},  # it comes before its user's settings
        recipe=acp_recipes.GOOSE,
        install="See block.github.io/goose for how to install it.",
        sign_in="Run `goose configure`.",
        features=_features(
            resume=True, model=True, attachments=(*IMAGES, *TEXTS), usage=True, diffs=False, plans=False
        ),
        asks=("file_write", "shell", "network"),
        tool_kinds={"shell": "execute", "write": "edit", "edit": "edit", "text_editor": "edit"},
        traits=Traits(
            denial="told",
            usage="last_call",
            mcp="session",
            steering="none",
            progress="output",
            error_texts=(r"Ran into this error: .+",),
            name_path=("_meta", "goose", "toolCall", "toolName"),
        ),
    ),
    "cursor": Preset(
        command=("cursor-agent",),
        args=("acp",),
        install="See cursor.com/docs/cli for how to install it.",
        sign_in="Run `cursor-agent login`, or set CURSOR_API_KEY.",
        api_key_vars=("CURSOR_API_KEY",),
        features=_features(resume=True),
        traits=UNKNOWN,
    ),
    "claude-agent-acp": Preset(
        command=("claude-agent-acp",),
        recipe=acp_recipes.CLAUDE_AGENT_ACP,
        install="npm install -g @agentclientprotocol/claude-agent-acp (it needs Node.js 22 or newer)",
        sign_in="Run `claude` once and sign in, or set ANTHROPIC_API_KEY.",
        api_key_vars=("ANTHROPIC_API_KEY",),
        features=_ADAPTED,
        tested="0.99.1",
        floor="0.99.1",
        mode="default",
        # On its own it lets read-only commands and some hosts pass. Rules that ask come before all that allow.
        asks=("file_write", "shell", "network"),
        session_meta={"claudeCode": {"options": _CLAUDE_OPTIONS}},
        repository=RepositorySettings(
            names=claude_project.PROJECT_SETTINGS,
            session_meta={"claudeCode": {"options": {**_CLAUDE_OPTIONS, "settingSources": ("user",)}}},
            claude_program=True,
            denials=("claudeCode", "options", "disallowedTools"),
            instructions=claude_project.INSTRUCTIONS,
        ),
        lifting_commands=("config", "update-config", "fewer-permission-prompts", "auto-mode-setup", "remote-control"),
        tool_kinds={
            "Monitor": "execute",
            "PowerShell": "execute",
            "NotebookEdit": "edit",
            "WebSearch": "fetch",
            "Task": "task",
            "Agent": "task",
        },
        claude_edits=True,
        traits=Traits(
            denial="told",
            usage="turn",
            mcp="session",
            steering="request",
            progress="description",
            name_path=("_meta", "claudeCode", "toolName"),
            subagents_uncounted=True,
        ),
    ),
    "codex-acp": Preset(
        command=("codex-acp",),
        recipe=acp_recipes.CODEX,
        install="npm install -g @agentclientprotocol/codex-acp",
        sign_in="Run `codex login`, or set OPENAI_API_KEY.",
        api_key_vars=("OPENAI_API_KEY", "CODEX_API_KEY"),
        login_files=(".codex/auth.json",),
        features=_ADAPTED,
        tested="2.6.0",
        floor="2.6.0",
        # By itself a model of its own decides about asks. In this mode people do; the filter makes it ask.
        control="codex-filter",
        mode="read-only",
        mode_full="agent-full-access",
        mode_env="INITIAL_AGENT_MODE",
        supports_always=False,  # it would be a rule for all sessions to come, whatever their policy
        unasked="Commands that your own Codex rules (rules/*.rules) allow run unasked.",
        traits=Traits(
            denial="told",
            usage="turn",
            mcp="session",
            steering="request",
            progress="output",
            failure_path=("_meta", "codex", "threadStatus", "type"),
            failure="systemError",
            name_path=("name",),
            mcp_marks=("is_mcp_tool_call", "is_mcp_tool_approval"),
            title_is_question=True,
            note_suffix="_note",
            output_path=("_meta", "terminal_output_delta", "data"),
        ),
    ),
    "kimi": Preset(
        command=("kimi",),
        args=("acp",),
        recipe=acp_recipes.KIMI,
        install="npm install -g @moonshot-ai/kimi-code (it needs Node.js 22.19 or newer)",
        sign_in="Run `kimi` once and use /login.",
        env={"KIMI_CODE_NO_AUTO_UPDATE": "1"},
        tested="2.1.0",
        floor="2.1.0",
        features=_features(
            resume=True, fork=True, model=True, attachments=(*IMAGES, *TEXTS), questions=True, diffs=False
        ),
        asks=("shell",),  # what it writes in a repository, and what it fetches, it does unasked
        mode="default",
        supports_always=False,  # it would hold for the conversation, whatever the policy of a later session
        tool_kinds={
            "Bash": "execute",
            "Write": "edit",
            "Edit": "edit",
            "FetchURL": "fetch",
            "WebSearch": "fetch",
            "Agent": "task",
            "AgentSwarm": "task",
        },
        truncated_asks={
            r"Requesting approval to ": "All of its input: of a subagent's call Kimi tells only how its action begins."
        },
        traits=Traits(
            denial="told",
            usage="unknown",
            mcp="session",
            steering="none",
            progress="arguments",
            command_prefixes=("Requesting approval to Running: ", "Requesting approval to Starting background: "),
            cut_mark="…",
            fork_keeps_servers=True,
            silence_fails=True,  # a reply without words, or with thoughts alone, is a failure to it
        ),
    ),
    "vibe": Preset(
        command=("vibe-acp",),
        recipe=acp_recipes.VIBE,
        install="uv tool install mistral-vibe",
        sign_in="Run `vibe` once and sign in, or set MISTRAL_API_KEY.",
        api_key_vars=("MISTRAL_API_KEY",),
        tested="3.0.2",
        floor="3.0.2",
        features=_features(resume=True, model=True, attachments=(*IMAGES, *TEXTS), questions=True),
        asks=("file_write", "shell", "network"),
        no_tools=("network",),
        model_env="VIBE_ACTIVE_MODEL",
        mode="ask",
        fixed_env=_VIBE_ASKS,
        overriding_files=(".vibe/agents/ask.toml", "~/.vibe/agents/ask.toml"),  # comes before its variables
        repository=RepositorySettings(runs=_VIBE_RUNS),
        lifting_commands=("teleport", "reload"),
        refusal_suffixes=("Do not attempt to run this command.",),
        traits=Traits(
            denial="told",
            usage="session",
            mcp="session",
            steering="none",
            progress="output",
            name_path=("_meta", "tool_name"),
            calls_uncounted=True,  # those that the model answers with a program
        ),
    ),
    "auggie": Preset(
        command=("auggie",),
        args=("--acp", *_AUGGIE_ASKS),  # without these it asks nothing; they come before its settings
        env={"AUGMENT_DISABLE_AUTO_UPDATE": "1"},
        recipe=acp_recipes.AUGGIE,
        install="npm install -g @augmentcode/auggie",
        sign_in="Run `auggie login`.",
        api_key_vars=("AUGMENT_SESSION_AUTH", "AUGMENT_API_TOKEN"),
        login_files=(".augment/session.json",),
        tested="0.36.0",
        floor="0.36.0",
        features=_features(resume=True, model=True, attachments=IMAGES),
        model_args=("--model", "{}"),
        asks=("file_write", "shell", "network"),
        # A repository's settings: it runs their script at the start of a session, and their hooks.
        overriding_files=(".augment/settings.json", ".augment/settings.local.json"),
        tool_kinds={"bash": "execute", "shell": "execute", "write": "edit", "edit": "edit"},
        traits=Traits(
            denial="told",
            usage="unknown",
            mcp="session",
            steering="none",
            progress="output",
            mcp_by_shell=True,
            replacements=Replacements(
                command="str_replace", entries="str_replace_entries", old="old_str", new="new_str"
            ),
            consents=("workspace-indexing-permission",),  # to send the code to its vendor
            notice_texts=(r"Augment would like to index your workspace .*", r"Indexing (?:disabled|enabled)\b.*"),
        ),
    ),
    "cline": Preset(
        command=("cline",),
        args=("--acp",),
        env={"CLINE_NO_AUTO_UPDATE": "1"},
        recipe=acp_recipes.CLINE,
        install="npm install -g cline",
        sign_in="Run `cline auth`.",
        # Its option for the model is the second of that category: the first one is the provider.
        features=_features(resume=True, attachments=IMAGES, plans=False),
        tool_kinds={"spawn_agent": "task"},
        traits=Traits(denial="told", usage="unknown", mcp="refused", steering="none", progress="output"),
    ),
    "droid": Preset(
        command=("droid",),
        args=("exec", "--output-format", "acp"),
        env={"DROID_DISABLE_AUTO_UPDATE": "true", "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false"},
        recipe=acp_recipes.DROID,
        install="npm install -g droid",
        sign_in="Run `droid` once and sign in, or set FACTORY_API_KEY (its MCP servers get that, too).",
        api_key_vars=("FACTORY_API_KEY",),
        features=_features(resume=True, model=True, attachments=(*IMAGES, *TEXTS), plans=False),
        mode="normal",  # it asks before what changes something; `ls`, `git status` and the like run all the same
        tool_kinds={"FetchUrl": "fetch", "WebSearch": "fetch", "Task": "task"},
        traits=Traits(denial="ends_turn", usage="unknown", mcp="session", steering="none", progress="output"),
    ),
    "kilo": Preset(
        command=("kilo",),
        args=("acp",),
        recipe=acp_recipes.KILO,
        install="npm install -g @kilocode/cli",
        sign_in="Run `kilo auth`.",
        features=_features(resume=True, fork=True, model=True, attachments=(*IMAGES, *TEXTS), usage=True),
        # On its own it asks nothing. What these tools ask reaches nobody over ACP: the turn would wait for ever.
        fixed_env={
            "KILO_PERMISSION": '{"edit":"ask","bash":"ask","webfetch":"ask","websearch":"ask","question":"deny",'
            '"suggest":"deny","task":"deny"}'
        },
        tool_kinds={"task": "task"},
        plan_tools=("todowrite",),
        sends_writes=True,
        traits=Traits(denial="ends_turn", usage="last_call", mcp="session", steering="none", progress="output"),
    ),
    "openhands": Preset(
        command=("openhands",),
        args=("acp",),
        recipe=acp_recipes.OPENHANDS,
        install="uv tool install openhands",
        sign_in="Run `openhands` once and choose a model.",
        # Answers come whole, and what its model thinks with its calls only.
        features=_features(resume=True, attachments=(*IMAGES, *TEXTS), deltas=False, thinking=False, diffs=False),
        tested="1.16.0",
        floor="1.16.0",
        asks=("file_write", "shell", "network"),
        no_tools=("network",),
        mode="always-ask",
        mode_full="always-approve",
        directory_env="TMUX_TMPDIR",  # or commands of all sessions run below the one that was the first
        overriding_files=(".openhands/hooks.json",),  # it runs them
        lifting_commands=("confirm",),
        tool_kinds={"TaskAction": "task"},
        # A subagent asks nobody; a skill may have commands in its text, which run when it is read.
        subagents=("TaskAction", "DelegateAction", "InvokeSkillAction"),
        supports_always=False,  # it would ask about nothing any more
        traits=Traits(
            denial="told",
            usage="unknown",
            mcp="session",
            steering="none",
            progress="output",
            asks_together=True,
            notice_thoughts=(r"System Prompt:\n.*",),
            preferred_options=("accept",),  # its other "allow once" also lifts what comes after
            name_path=("rawInput", "kind"),
            load_begins=True,
        ),
    ),
    "grok": Preset(
        command=("grok",),
        args=("agent", "stdio"),
        # Model calls of its own beside the turn's, whose tokens it does not tell.
        env={"GROK_TURN_SUMMARY": "false", "GROK_SESSION_RECAP": "false", "GROK_TITLE_REFRESH": "false"},
        recipe=acp_recipes.GROK,
        install="npm install -g @xai-official/grok",
        sign_in="Run `grok` once and sign in, or set XAI_API_KEY.",
        api_key_vars=("XAI_API_KEY",),
        login_files=(".grok/auth.json",),
        features=_features(resume=True, model=True, attachments=TEXTS, usage=True),
        lifting_commands=("always-approve",),
        tool_kinds={
            "run_terminal_command": "execute",
            "monitor": "execute",
            "write": "edit",
            "search_replace": "edit",
            "web_search": "fetch",
            "web_fetch": "fetch",
            "spawn_subagent": "task",
        },
        traits=Traits(
            denial="cancelled",
            usage="turn",
            mcp="session",
            steering="none",
            progress="output",
            usage_path=("_meta", "usage"),
            name_path=("_meta", "x.ai/tool", "name"),
        ),
    ),
    "pi-acp": Preset(
        command=("pi-acp",),
        install="npm install -g pi-acp @earendil-works/pi-coding-agent (it needs Node.js 22.19 or newer)",
        sign_in="Run `pi` once and sign in.",
        features=_features(resume=True, attachments=IMAGES),
        traits=Traits(
            denial="unknown",  # it asks nothing
            usage="unknown",
            mcp="refused",
            steering="none",
            progress="output",
            output_path=("_meta", "terminal_output", "data"),
            output_whole=True,
            silence_fails=True,
        ),
    ),
    "hermes": Preset(
        command=("hermes",),
        args=("acp",),
        install="See hermes-agent.nousresearch.com for how to install it.",
        sign_in="Run `hermes setup`.",
        features=_features(resume=True, fork=True, attachments=IMAGES, usage=True),
        traits=Traits(denial="unknown", usage="session", mcp="refused", steering="none", progress="output"),
    ),
    "nanocoder": Preset(
        command=("nanocoder",),
        args=("--acp",),
        install="npm install -g @nanocollective/nanocoder (it needs Node.js 22 or newer)",
        sign_in="Write its agents.config.json.",
        features=_features(resume=True),
        traits=Traits(denial="unknown", usage="unknown", mcp="refused", steering="none", progress="output"),
    ),
    "dcode": Preset(
        command=("dcode",),
        args=("--acp",),
        install="uv tool install deepagents-code",
        sign_in="Run `dcode` once and choose a model.",
        features=_features(resume=True, attachments=IMAGES),
        traits=Traits(denial="unknown", usage="unknown", mcp="refused", steering="none", progress="output"),
    ),
    "junie": Preset(
        command=("junie",),
        args=("--acp=true",),
        install="See junie.jetbrains.com for how to install it.",
        features=_features(resume=True, fork=True),
        traits=UNKNOWN,
    ),
    "kiro": Preset(
        command=("kiro-cli",),
        args=("acp",),
        install="See kiro.dev/docs/cli for how to install it.",
        sign_in="Run `kiro-cli login`.",
        features=_features(resume=True, model=True, attachments=IMAGES),
        traits=UNKNOWN,
    ),
}
