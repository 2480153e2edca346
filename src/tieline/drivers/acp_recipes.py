"""How agents are set up over a scripted model, as data: `tieline agents test` and the tests play a script by it.

The agent gets an empty HOME and an environment from scratch. In all texts of a recipe `{url}` is the address of the
model, `{home}` that HOME; in those of a tool, what the step of the script says.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Struct

from ..config import setting

Api = Literal["chat", "responses", "anthropic", "gemini", "augment"]
"""Whose wire format its model speaks: chat completions, responses (OpenAI) · messages (Anthropic) · and so on."""

ToolStep = Literal["write", "run", "get", "inquire", "outline", "propose"]
"""What a script does with the agent's tools: write a file · run a command · fetch an address · ask a question · set the
list of steps · put a plan before the person."""


class ToolRecipe(Struct, frozen=True, forbid_unknown_fields=True):
    """How one of its tools is called. A text that is nothing but `{name}` becomes the value itself.

    write: path, content, added_lines (the content, each line after a `+`) · run: command · get: url, public_url (the
    same by an address that is not loopback, which the scripted model still knows) · inquire: question, header, items ·
    outline: items · propose: plan
    """

    name: Annotated[str, setting("The tool's name.", "bash")]
    input: Annotated[Mapping[str, Any], setting("Its input.", {"command": "{command}"})] = {}
    each: Annotated[
        Any,
        setting("What one of the `{items}` is: `{text}`, and of steps `{state}` and `{number}`.", {"title": "{text}"}),
    ] = None
    states: Annotated[
        Mapping[str, str], setting("The agent's words for pending, in_progress and completed.", {"completed": "done"})
    ] = {}
    after: Annotated[str, setting("A tool that its model has to call before this one.", "EnterPlanMode")] = ""


class Recipe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    api: Annotated[Api, setting("Whose wire format its model speaks.", "chat")]
    env: Annotated[
        Mapping[str, str], setting("Variables that lead it to the model.", {"OPENAI_BASE_URL": "{url}/v1"})
    ] = {}
    files: Annotated[
        Mapping[str, Any],
        setting("Files under HOME that do: their text, or a table that is written as JSON.", {".agent.json": {}}),
    ] = {}
    model: Annotated[str, setting("The model to choose; none: its own configuration chooses.", "scripted")] = ""
    another_model: Annotated[str, setting("Another one that it can choose.", "another")] = "another"
    tools: Annotated[
        Mapping[ToolStep, ToolRecipe],
        setting("How its tools are called for what a script does.", {"run": {"name": "bash", "input": {}}}),
    ] = {}
    limits: Annotated[
        tuple[str, ...],
        setting("Checks that no script can bring about with it, beside those that need a tool.", ("usage_whole",)),
    ] = ()
    caches: Annotated[
        Mapping[str, str],
        setting("Variable → a folder, from that of its program, where it has unpacked itself; if it exists.", {}),
    ] = {}


NOWHERE = {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
"""A proxy that is none: what the agent would do in the network by itself fails at once."""

CHOICE = {"label": "{text}", "description": "{text}"}
QUESTION = {"question": "{question}", "header": "{header}", "options": "{items}"}
"""One question with choices, in the shape that most agents' tools take."""


def asking(name: str, **more: Any) -> ToolRecipe:
    return ToolRecipe(name, {"questions": [{**QUESTION, **more}]}, each=CHOICE)


GEMINI = Recipe(
    api="gemini",
    model="gemini-2.5-flash",  # a fixed one: the default first asks a classifier
    another_model="gemini-2.5-pro",
    env={"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": "dummy"},
    files={
        ".gemini/settings.json": {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
        }
    },
    tools={
        "write": ToolRecipe("write_file", {"file_path": "{path}", "content": "{content}"}),
        "run": ToolRecipe("run_shell_command", {"command": "{command}", "description": "Scripted"}),
        "get": ToolRecipe("web_fetch", {"prompt": "Read {public_url} and say what is there"}),
        "outline": ToolRecipe("write_todos", {"todos": "{items}"}, each={"description": "{text}", "status": "{state}"}),
    },
    limits=(
        "plan",  # its to-do list is not told over ACP; its question tool is switched off there
        "resumed_twice",  # it does not find a conversation again that was resumed and then broken off
    ),
)

CLAUDE = Recipe(
    api="anthropic",
    another_model="haiku",
    env={
        "ANTHROPIC_BASE_URL": "{url}",
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # The newest models are given no to-do tools by default, and the older single one can be scripted in one call.
        "CLAUDE_CODE_ENABLE_TODO_TOOLS": "1",
        "CLAUDE_CODE_ENABLE_TASKS": "0",
        # A server that never answers holds the first turn back for this long.
        "MCP_TIMEOUT": "2000",
    },
    # Without it WebFetch first asks the vendor whether it may visit a host.
    files={".claude/settings.json": {"skipWebFetchPreflight": True}},
    tools={
        "write": ToolRecipe("Write", {"file_path": "{path}", "content": "{content}"}),
        "run": ToolRecipe("Bash", {"command": "{command}", "description": "Run a command"}),
        "get": ToolRecipe("WebFetch", {"url": "{url}", "prompt": "What does it say?"}),
        "inquire": asking("AskUserQuestion", multiSelect=False),
        "outline": ToolRecipe(
            "TodoWrite",
            {"todos": "{items}"},
            each={"content": "{text}", "status": "{state}", "activeForm": "{text}"},
        ),
        "propose": ToolRecipe(
            "ExitPlanMode", {"plan": "{plan}"}, after="EnterPlanMode"
        ),  # outside there is none to approve
    },
)

CLAUDE_AGENT_ACP = Recipe(
    api=CLAUDE.api,
    another_model=CLAUDE.another_model,
    env={**CLAUDE.env, "ENABLE_TOOL_SEARCH": "false"},  # with it, the model is offered a part of the tools only
    files=CLAUDE.files,
    tools=CLAUDE.tools,
    limits=("usage_of_broken_call",),
)

CODEX = Recipe(
    api="responses",
    another_model="gpt-6-luna",
    env={"SCRIPTED_KEY": "dummy"},
    files={
        # A model that Codex knows: it decides by it which tools it offers.
        ".codex/config.toml": """\
model = "gpt-5.5"
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 2
stream_max_retries = 2
"""
    },
    tools={
        "write": ToolRecipe(
            "apply_patch", {"input": "*** Begin Patch\n*** Add File: {path}\n{added_lines}*** End Patch\n"}
        ),
        "run": ToolRecipe("exec_command", {"cmd": "{command}", "yield_time_ms": 30_000}),
        # It has none that fetches: what it has is web search, which its vendor runs.
        "get": ToolRecipe("web_search", {"type": "open_page", "url": "{url}"}),
        "inquire": asking("request_user_input", id="choice"),
        # Its plans are shown when they are made; it does not wait for a yes.
        "outline": ToolRecipe("update_plan", {"plan": "{items}"}, each={"step": "{text}", "status": "{state}"}),
    },
)

_OPENCODE_MODEL = {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}

OPENCODE_ACP = Recipe(
    api="chat",
    model="scripted/model",
    another_model="scripted/another",
    env={
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        # It knows no models but those below: to read its own list of all takes a quarter of the time of a turn.
        "OPENCODE_MODELS_PATH": "{home}/models.json",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "npm_config_offline": "true",  # it would fetch what plugins need
    },
    files={
        "models.json": {},
        ".config/opencode/opencode.json": {
            "autoupdate": False,
            "share": "disabled",
            "provider": {
                "scripted": {
                    "npm": "@ai-sdk/openai-compatible",
                    "options": {"baseURL": "{url}/v1", "apiKey": "dummy"},
                    "models": {"model": _OPENCODE_MODEL, "another": _OPENCODE_MODEL},
                }
            },
            "model": "scripted/model",
            "small_model": "scripted/model",
        },
    },
    tools={  # over ACP it offers no tool for questions
        "write": ToolRecipe("write", {"filePath": "{path}", "content": "{content}"}),
        "run": ToolRecipe("bash", {"command": "{command}", "description": "Runs a command"}),
        "get": ToolRecipe("webfetch", {"url": "{url}", "format": "text"}),
        "outline": ToolRecipe(
            "todowrite",
            {"todos": "{items}"},
            each={"content": "{text}", "status": "{state}", "priority": "medium"},
        ),
    },
    limits=("usage_whole",),  # over ACP it tells the tokens of a turn's last model call alone
)

_QWEN_MODEL = "gpt-scripted"
"""By a name that Qwen gives pictures to."""

QWEN = Recipe(
    api="chat",
    model=_QWEN_MODEL,
    env={"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "dummy", "OPENAI_MODEL": _QWEN_MODEL},
    files={
        ".qwen/settings.json": {
            "security": {"auth": {"selectedType": "openai"}},
            "general": {"enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
            "ui": {"enableFollowupSuggestions": False},  # this and the memory would ask the model on their own
            "memory": {"enableManagedAutoMemory": False},
        }
    },
    tools={  # a plan must be begun in a mode of its own; its to-do list is switched off by default
        "write": ToolRecipe("write_file", {"file_path": "{path}", "content": "{content}"}),
        "run": ToolRecipe(
            "run_shell_command", {"command": "{command}", "description": "Scripted", "is_background": False}
        ),
        "get": ToolRecipe("web_fetch", {"url": "{url}", "prompt": "Say what is there"}),
        "inquire": asking("ask_user_question", multiSelect=False),
    },
    limits=("goes_on_when_denied",),  # a denied call ends its turn
)

COPILOT = Recipe(
    api="chat",
    model="scripted",
    # Not in its offline mode, in which it has no tool that fetches; but it reaches loopback alone.
    env={
        "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
        "COPILOT_PROVIDER_API_KEY": "a-dummy-of-this-length",  # it takes a short one out of all that it says
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_WEB_FETCH_ALLOW_LOCALHOST": "1",
        **NOWHERE,
    },
    caches={"COPILOT_PKG_CACHE_HOME": "../.cache/copilot"},  # else it unpacks 200 MB into each new HOME
    tools={  # over ACP it offers none for questions, plans and lists of steps
        "write": ToolRecipe("create", {"path": "{path}", "file_text": "{content}"}),
        "run": ToolRecipe("bash", {"command": "{command}", "description": "Scripted", "mode": "sync"}),
        "get": ToolRecipe("web_fetch", {"url": "{url}"}),
    },
    limits=("goes_on_when_denied",),  # a denied call ends its turn
)

KIMI = Recipe(
    api="chat",
    env={"KIMI_CODE_NO_AUTO_UPDATE": "1", "KIMI_DISABLE_TELEMETRY": "1"},
    files={
        ".kimi-code/config.toml": """\
default_model = "scripted"
auto_session_title = false
telemetry = false

[providers.scripted]
type = "openai"
base_url = "{url}/v1"
api_key = "dummy"

[models.scripted]
provider = "scripted"
model = "scripted"
max_context_size = 200000
capabilities = ["image_in", "tool_use"]

[models.another]
provider = "scripted"
model = "another"
max_context_size = 200000
capabilities = ["image_in", "tool_use"]
"""
    },
    tools={  # a plan must be a file that it names itself
        "write": ToolRecipe("Write", {"path": "{path}", "content": "{content}"}),
        "run": ToolRecipe("Bash", {"command": "{command}"}),
        "get": ToolRecipe("FetchURL", {"url": "{url}"}),
        "inquire": asking("AskUserQuestion"),
        "outline": ToolRecipe(
            "TodoList",
            {"todos": "{items}"},
            each={"title": "{text}", "status": "{state}"},
            states={"completed": "done"},
        ),
    },
    limits=(
        "fetch",  # it fetches nothing from the machine that it runs on
        "usage_whole",  # it tells no tokens
        "usage_of_broken_call",
    ),
)

VIBE = Recipe(
    api="chat",
    env={"SCRIPTED_API_KEY": "dummy"},
    files={
        ".vibe/config.toml": """\
active_model = "scripted"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false
enable_connectors = false

[[providers]]
name = "scripted"
api_base = "{url}/v1"
api_key_env_var = "SCRIPTED_API_KEY"

[[models]]
name = "scripted"
provider = "scripted"
alias = "scripted"
supports_images = true

[[models]]
name = "another"
provider = "scripted"
alias = "another"
supports_images = true
"""
    },
    tools={
        "write": ToolRecipe("write_file", {"path": "{path}", "content": "{content}"}),
        "run": ToolRecipe("bash", {"command": "{command}"}),
        "get": ToolRecipe("web_fetch", {"url": "{url}"}),
        "inquire": asking("ask_user_question"),
        "outline": ToolRecipe(
            "todo",
            {"action": "write", "todos": "{items}"},
            each={"id": "{number}", "content": "{text}", "status": "{state}"},
        ),
    },
    limits=(
        "fetch",  # it has no such tool without Mistral's own services
        "usage_whole",  # it does not count the model calls that are answered with a program
        "usage_of_broken_call",
    ),
)

AUGGIE = Recipe(
    api="augment",
    env={
        "AUGMENT_SESSION_AUTH": '{"accessToken":"dummy","tenantURL":"{url}","scopes":["read","write"]}',
        **NOWHERE,
    },
    # Somebody has told it never to send any code to its vendor: it would ask for that in each new directory.
    files={".augment/settings.json": {"indexingDenyDirs": ["/"]}},
    tools={  # over ACP it offers none for questions and plans
        "write": ToolRecipe(
            "save-file", {"path": "{path}", "file_content": "{content}", "add_last_line_newline": False}
        ),
        "run": ToolRecipe(
            "launch-process", {"command": "{command}", "wait": True, "max_wait_seconds": 600, "cwd": "."}
        ),
        "get": ToolRecipe("web-fetch", {"url": "{url}"}),
        "outline": ToolRecipe(
            "add_tasks",
            {"tasks": "{items}"},
            each={"name": "{text}", "description": "{text}", "state": "{state}"},
            states={"pending": "NOT_STARTED", "in_progress": "NOT_STARTED", "completed": "COMPLETE"},
        ),
    },
    limits=(
        "usage_whole",  # it tells no tokens over ACP
        "usage_of_broken_call",
    ),
)

RISK = {"security_risk": "LOW"}
"""What OpenHands' model must say of each call."""

OPENHANDS = Recipe(
    api="chat",
    env=NOWHERE,
    files={
        ".openhands/agent_settings.json": {
            "kind": "Agent",
            "llm": {
                "model": "openai/gpt-4o",  # one of which it knows that it takes pictures
                "api_key": "dummy",
                "base_url": "{url}/v1",
                "usage_id": "agent",
            },
            "tools": [{"name": name} for name in ("terminal", "file_editor", "task_tracker", "task_tool_set")],
            "system_prompt_kwargs": {"cli_mode": True},
        }
    },
    tools={  # it has none for questions and plans, and none that fetches
        "write": ToolRecipe("file_editor", {"command": "create", "path": "{path}", "file_text": "{content}", **RISK}),
        "run": ToolRecipe("terminal", {"command": "{command}", **RISK}),
        "outline": ToolRecipe(
            "task_tracker",
            {"command": "plan", "task_list": "{items}", **RISK},
            each={"title": "{text}", "notes": "", "status": "{state}"},
            states={"pending": "todo", "completed": "done"},
        ),
    },
    limits=(
        "usable_when_interrupted",  # it stops when its model has answered, which may take longer than we wait
        "usage_whole",  # what it tells of tokens is not read
        "usage_of_broken_call",
    ),
)

GOOSE = Recipe(
    api="chat",
    model="gpt-4o",  # one of which it knows that it takes pictures
    another_model="gpt-4.1",
    env={
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": "gpt-4o",
        "OPENAI_HOST": "{url}",
        "OPENAI_API_KEY": "dummy",
        "GOOSE_DISABLE_KEYRING": "1",
        "GOOSE_TELEMETRY_ENABLED": "false",
        **NOWHERE,
    },
    tools={
        "write": ToolRecipe("write", {"path": "{path}", "content": "{content}"}),
        "run": ToolRecipe("shell", {"command": "{command}"}),
    },
    limits=("usage_whole",),  # it tells the tokens of a turn's last model call alone
)

DROID = Recipe(
    api="chat",
    model="custom:scripted",
    another_model="custom:another",
    env={"FACTORY_API_KEY": "fk-dummy", **NOWHERE},
    files={
        ".factory/settings.json": {
            "customModels": [
                {
                    "model": name,
                    "displayName": name,
                    "id": f"custom:{name}",
                    "baseUrl": "{url}/v1",
                    "apiKey": "dummy",
                    "provider": "generic-chat-completion-api",
                    "maxOutputTokens": 8192,
                    "noImageSupport": False,
                }
                for name in ("scripted", "another")
            ],
        }
    },
    tools={
        "write": ToolRecipe("Create", {"file_path": "{path}", "content": "{content}"}),
        "run": ToolRecipe(
            "Execute",
            {
                "command": "{command}",
                "summary": "Runs a scripted command",
                "riskLevelReason": "It is scripted",
                "riskLevel": "low",
            },
        ),
    },
    limits=(
        "goes_on_when_denied",  # a denied call ends its turn
        "command_output",  # it is in a terminal of its own, which the protocol does not show
        "usage_whole",  # it tells no tokens
    ),
)

GROK = Recipe(
    api="chat",
    env={"XAI_API_KEY": "dummy", **NOWHERE},
    files={
        ".grok/config.toml": """\
[models]
default = "scripted"

[model.scripted]
model = "scripted"
base_url = "{url}/v1"
api_key = "dummy"

[model.another]
model = "another"
base_url = "{url}/v1"
api_key = "dummy"
"""
    },
    tools={
        "write": ToolRecipe("write", {"file_path": "{path}", "content": "{content}"}),
        "run": ToolRecipe("run_terminal_command", {"command": "{command}", "description": "Scripted"}),
        "inquire": ToolRecipe("ask_user_question", {"questions": [QUESTION]}, each=CHOICE),
        "outline": ToolRecipe(
            "todo_write",
            {"merge": False, "todos": "{items}"},
            each={"id": "{number}", "content": "{text}", "status": "{state}"},
        ),
    },
)

CLINE = Recipe(
    api="chat",
    env={"CLINE_API_KEY": "dummy", "CLINE_PROVIDER": "openai-compatible", "CLINE_MODEL": "gpt-4o", **NOWHERE},
    files={
        ".cline/data/settings/providers.json": {
            "version": 1,
            "lastUsedProvider": "openai-compatible",
            "modes": {},
            "providers": {
                "openai-compatible": {
                    "settings": {
                        "provider": "openai-compatible",
                        "apiKey": "dummy",
                        "model": "gpt-4o",
                        "baseUrl": "{url}/v1",
                    },
                    "updatedAt": "2026-01-01T00:00:00.000Z",
                    "tokenSource": "manual",
                }
            },
        }
    },
    tools={
        "run": ToolRecipe("run_commands", {"commands": ["{command}"]}),
        "get": ToolRecipe("fetch_web_content", {"requests": [{"url": "{url}", "prompt": "What is there?"}]}),
    },
    limits=(
        "attachment",  # a picture does not reach a model of this provider
        "model",  # the first of its two options for the model is the provider, which is fixed here
        "usage_whole",  # it tells no tokens
    ),
)

KILO = Recipe(
    api="chat",
    model="scripted/model",
    another_model="scripted/another",
    env={
        "KILO_DISABLE_MODELS_FETCH": "1",
        "KILO_MODELS_PATH": "{home}/models.json",
        "KILO_DISABLE_LSP_DOWNLOAD": "1",
        "KILO_DISABLE_AUTOUPDATE": "1",
        "npm_config_offline": "true",
    },
    files={
        "models.json": {},
        ".config/kilo/kilo.json": OPENCODE_ACP.files[".config/opencode/opencode.json"],
    },
    tools=OPENCODE_ACP.tools,
    limits=(
        "goes_on_when_denied",  # a denied call ends its turn
        "usage_whole",  # it tells the tokens of a turn's last model call alone
    ),
)
