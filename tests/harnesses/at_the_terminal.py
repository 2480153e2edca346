"""What a person does in the terminal of each harness, and what it shows then."""

import msgspec
from tests.harnesses.desk import BOUND

from tieline.script import Call, Inquire, Reply, Run
from tieline.testing.harness_terminals import HarnessHome
from tieline.testing.tmux_terminal import TmuxTerminal
from tieline.testing.wait_for import eventually

# --- permissions and questions ---

QUESTIONS = {
    "claude-code": "Do you want to proceed?",
    "codex": "May I?",
    "opencode": "Permission required",
    "gemini": "Allow once",
    "qwen": "Yes, allow once",
    "copilot": "Do you want to",
    "vibe": "Permission for the",
    "kimi": "Approve once",
    "droid": "No, cancel",
}
"""What each shows when it asks for a permission. Pi asks for none, and its model asks nothing."""
YES = {"claude-code": "Enter", "codex": "y", "opencode": "Enter", "gemini": "Enter", "qwen": "Enter",
       "copilot": "Enter", "vibe": "Enter", "kimi": "Enter",
       "droid": "Enter"}  # fmt: skip
"""The key that allows it there."""
WAITING_WORDS = {
    "codex": "Messages to be submitted after next tool call",
    "opencode": "QUEUED",
    "droid": "Steering messages",
    "pi": "Steering: ",
}
"""What each shows of words that came while a tool runs."""
WAITING_RECORDS = {
    "claude-code": (".claude/projects/*/*.jsonl", '"enqueue"'),
    "kimi": (".kimi-code/sessions/*/*/agents/main/wire.jsonl", '"prompt.steered"'),
}
"""Of others, their records tell: where they are, and by what."""
OTHER_MODEL = "other"
"""A second one, where there is only one by itself."""


def asks_for_commands(harness: str, home: HarnessHome) -> None:
    """Before it runs one, also where it does not do so by itself."""
    match harness:
        case "opencode":
            other = {"scripted": {"models": {OTHER_MODEL: {"name": OTHER_MODEL}}}}
            settings = {"permission": {"bash": "ask"}, "provider": other}
            (home.project / "opencode.json").write_bytes(msgspec.json.encode(settings))
        case "gemini":
            home.argv = home.argv[: home.argv.index("--approval-mode")]
        case "copilot" | "droid" | "kimi" | "vibe":
            home.argv = home.argv[:1]
        case "pi":  # which compacts no history as short as this one
            settings = {"compaction": {"keepRecentTokens": 1}}
            (home.home / ".pi/agent/settings.json").write_bytes(msgspec.json.encode(settings))
        case "qwen":
            home.argv = (*home.argv, "--approval-mode", "default")
            file = home.home / ".qwen" / "settings.json"
            other = {"id": OTHER_MODEL, "baseUrl": home.env["OPENAI_BASE_URL"], "envKey": "OPENAI_API_KEY"}
            settings = {**msgspec.json.decode(file.read_bytes()), "modelProviders": {"openai": [other]}}
            file.write_bytes(msgspec.json.encode(settings))
        case _:
            pass


def asking(harness: str, command: str) -> Run | Call:
    """How its model asks: Codex asks nobody for what stays in its sandbox."""
    if harness != "codex":
        return Run(command)
    more = {"sandbox_permissions": "require_escalated", "justification": QUESTIONS["codex"]}
    return Call("exec_command", {"cmd": command, **more})


def inquiring(harness: str, question: str, choices: tuple[str, str]) -> Reply:
    """How its model asks a question. Codex: in its plan mode only."""
    if harness == "copilot":
        form = {"type": "object", "properties": {"colour": {"type": "string", "enum": list(choices)}}}
        return [Call("ask_user", {"message": question, "requestedSchema": form})]
    if harness == "droid":
        options = "".join(f"[option] {choice}\n" for choice in choices)
        return [Call("AskUser", {"questionnaire": f"1. [question] {question}\n[topic] Colour\n{options}"})]
    if harness != "gemini":
        return [Inquire(question, choices, "Colour")]
    options = [{"label": choice, "description": choice} for choice in choices]
    asked = {"question": question, "header": "Colour", "type": "choice", "options": options}
    return [Call("ask_user", {"questions": [asked]})]


# --- modes, models, compaction ---

MODES = {
    "claude-code": ("BTab", "accept edits on"),
    "codex": ("/plan", "Plan mode"),
    "opencode": ("Tab", "Plan ·"),
    "gemini": ("BTab", "auto-accept edits"),
    "qwen": ("BTab", "shift + tab to cycle"),
    "copilot": ("BTab", "Plan ·"),
    "vibe": ("BTab", "auto approve"),
    "kimi": ("BTab", "Plan mode: ON"),
    "droid": ("C-l", "Auto (Low)"),
}
"""The key or the command for another mode, and what the terminal shows then. Pi has none."""
MODELS = {
    "claude-code": "claude-haiku-5-5",
    "codex": "gpt-6-sol",
    "opencode": f"scripted/{OTHER_MODEL}",
    "gemini": "gemini-2.5-pro",
    "qwen": OTHER_MODEL,
    "pi": "another",
    "vibe": "another",
    "kimi": "another",
    "droid": "custom:another",
}
"""The model that `choose_model` chooses. Copilot has no other without an account."""
COMPACT = {
    "claude-code": ("/compact", "Compacted"),
    "codex": ("/compact", "Context compacted"),
    "opencode": ("/compact", "Compaction · Scripted"),
    "gemini": ("/compress", "Compression was not beneficial"),
    "qwen": ("/compress", "history compressed from"),
    "pi": ("/compact", "Compacted"),
    "copilot": ("/compact", "Compaction completed"),
    "vibe": ("/compact", "Compaction completed"),
    "kimi": ("/compact", "Compaction complete"),
}
"""The command, and what the terminal shows when it is over. Droid's begins another session."""


async def say_in_a_turn(harness: str, terminal: TmuxTerminal, words: str) -> None:
    """So that they go into the turn that runs. Kimi keeps what is sent as always for its next turn."""
    if harness != "kimi":
        await terminal.submit(words)
        return
    await terminal.type(words)
    await terminal.key("C-s")


async def words_wait(harness: str, home: HarnessHome, terminal: TmuxTerminal) -> None:
    """The harness has them: those that come after the command begin another answer."""
    if harness in WAITING_WORDS:
        await terminal.shows(WAITING_WORDS[harness])
        return
    pattern, mark = WAITING_RECORDS[harness]
    transcripts = list(home.home.glob(pattern))
    await eventually(lambda: any(mark in each.read_text() for each in transcripts), "they do not wait", timeout=BOUND)


async def choose_mode(harness: str, terminal: TmuxTerminal) -> None:
    key, shown = MODES[harness]
    await (terminal.submit(key) if key.startswith("/") else terminal.key(key))
    await terminal.shows(shown)


async def choose_model(harness: str, terminal: TmuxTerminal) -> None:
    match harness:
        case "claude-code":
            await terminal.submit("/model haiku")
            await terminal.answer("Yes, switch to Haiku", "Enter")
            await terminal.shows("Set model to")
        case "codex":
            await terminal.submit("/model")
            await terminal.shows("3. GPT-6-Sol")
            await terminal.key("3")
            await terminal.answer("Select Reasoning Level", "Enter")
            await terminal.shows("Model changed to gpt-6-sol")
        case "opencode":
            await terminal.submit("/models")
            await terminal.shows("Select model")
            await terminal.type(OTHER_MODEL)
            await terminal.until(lambda screen: "● Scripted" not in screen, "it has found the other one")
            await terminal.key("Enter")
            await terminal.until(lambda screen: "Select model" not in screen, "it is chosen")
        case "pi":
            await terminal.submit("/model scripted/another")
            await terminal.shows("Model: another")
        case "vibe":
            await terminal.submit("/model")
            await terminal.shows("another")
            await terminal.key("Down", "Enter")
            await terminal.answer("Select Thinking Level", "Enter")
            await terminal.submit("/model")  # it says nothing when it is chosen
            await terminal.shows("› another")
            await terminal.answer("Select Model", "Escape")
        case "kimi":
            await terminal.submit("/model")
            await terminal.answer("❯ scripted", "Down")
            await terminal.answer("❯ another", "Enter")
        case "droid":
            await terminal.submit("/model")
            await terminal.shows("Select Model For This Session")
            await terminal.type("another")
            await terminal.until(lambda screen: "scripted ★" not in screen, "it has found the other one")
            await terminal.answer("Select Model For", "Enter")
            await terminal.shows("Model switched to another")
        case "gemini":
            await terminal.submit("/model set gemini-2.5-pro")
            await terminal.shows("Model set to gemini-2.5-pro")
        case _:
            await terminal.submit("/model")
            await terminal.shows(f"2. [openai] {OTHER_MODEL}")
            await terminal.key("2")
            await terminal.shows(f"Using model: {OTHER_MODEL}")
