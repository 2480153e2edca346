"""What of an event or a message is searched: the words that a person would remember of it."""

import msgspec
from msgspec import Struct

from ...envelopes import decode_envelope
from ...events import (
    Answer,
    AnyAction,
    AnyEvent,
    Ask,
    Command,
    Done,
    Edit,
    Error,
    Fetch,
    Mcp,
    Read,
    Search,
    Task,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    TurnStarted,
    Warning,
    decode,
)
from ...protocol.search import SearchKind

HEAD = 6000
TAIL = 2000
"""Characters of a text that are searched, at its beginning and at its end."""


class Searchable(Struct, frozen=True):
    kind: SearchKind
    text: str
    message: str = ""
    thread: str = ""
    sender: str = ""


def of_event(data: bytes) -> Searchable | None:
    """None for an event without text, or one that cannot be decoded: an event of a newer version must not stop the
    rest."""
    try:
        kind_and_text = _of(decode(data))
    except msgspec.MsgspecError:
        return None
    if kind_and_text is None or not (text := kind_and_text[1].strip()):
        return None
    return Searchable(kind_and_text[0], _bounded(text))


def of_message(data: bytes) -> Searchable | None:
    try:
        envelope = decode_envelope(data)
    except msgspec.MsgspecError:
        return None
    text = f"{envelope.payload.as_text()}\n{envelope.sender} {envelope.subject}"
    return Searchable("message", _bounded(text), envelope.id, envelope.thread, envelope.sender)


def _of(event: AnyEvent) -> tuple[SearchKind, str] | None:
    match event:
        case TurnStarted(prompt):
            return "prompt", prompt
        case Text(text):
            return "text", text
        case Thinking(text):
            return "thinking", text
        case ToolUse(name=name, action=action):
            return "tool", f"{_of_action(action)}\n{name}"
        case ToolResult(output=output):
            return "output", output
        case Ask():
            asked = [event.title, event.reason, event.plan, _of_action(event.action) if event.action else ""]
            for question in event.questions:
                asked += [question.text, *(f"{choice.label} {choice.description}" for choice in question.choices)]
            return "ask", "\n".join(filter(None, asked))
        case Answer(reason=reason, answers=answers):
            return "ask", "\n".join([reason, *(text for given in answers.values() for text in given)])
        case Error(message) | Warning(message):
            return "error", message
        case Done(error=error):  # its text was said before
            return "error", error
        case _:
            return None


def _of_action(action: AnyAction) -> str:
    match action:
        case Read(path):
            return path
        case Edit(paths):
            return "\n".join(paths)
        case Command(command):
            return command
        case Search(query, path):
            return f"{query}\n{path}"
        case Fetch(url, query):
            return f"{url}\n{query}"
        case Mcp(server, tool):
            return f"{server} {tool}"
        case Task(title):
            return title
        case _:
            return ""


def _bounded(text: str) -> str:
    return text if len(text) <= HEAD + TAIL else f"{text[:HEAD]}\n…\n{text[-TAIL:]}"
