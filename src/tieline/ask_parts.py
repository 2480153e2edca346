"""An ask as people see it: the one list of labelled texts that every surface displays, whole or not with an Allow.

What decides comes first, in the action's own terms; then whatever of the tool's input those do not show; the agent's
reason last, so that many words of it cannot push the action out of sight. Nothing is cut here.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from .events import Ask, Command, Edit, Fetch, Mcp, Question, Read, Remember, Search, Task, changed_paths
from .visible_text import marked

CONTENT = frozenset(
    ("content", "old_string", "new_string", "oldString", "newString", "edits", "patch", "patchText", "diff", "changes",
     "new_source", "old_source", "oldText", "newText", "file_text", "old_str", "new_str")
)  # fmt: skip
"""What agents call the text of an edit. A diff was made of it, and shows the text in its place."""


class Part(Struct, frozen=True, omit_defaults=True):
    """One labelled text, kept as it is: every surface makes its invisible characters visible."""

    label: str
    text: str
    form: Literal["text", "code", "diff"] = "text"


def ask_parts(ask: Ask) -> tuple[Part, ...]:
    """Everything that decides what will happen, each once."""
    parts = _action(ask)
    if ask.plan:
        parts.append(Part("plan", ask.plan))
    # An action's texts are fields of the input; the server and the tool of an MCP call are not, and hide no field.
    seen: set[str] = set() if isinstance(ask.action, Mcp) else {part.text for part in parts}
    diff = ask.action.diff if isinstance(ask.action, Edit) else ""
    seen.update(changed_paths(diff))
    parts += _questions(ask.questions)
    for name, value in ask.input.items():
        if value in (None, "", [], {}, ()) or (diff and _drawn(name, value)) or _shown(value, seen):
            continue
        parts.append(_given(str(name), value))
    # Only the very same text makes the title superfluous: a command that quotes the title must not remove it.
    if ask.title and all(ask.title != part.text for part in parts):
        parts.insert(0, Part("request", ask.title))
    if ask.reason and ask.reason not in seen:
        parts.append(Part("reason", ask.reason))
    return tuple(parts)


def scope_of(ask: Ask, level: Remember) -> str:
    """What remembering it permits, as it follows "allow": in the driver's words, or as far as we know."""
    how = "in this session" if level == "session" else "always"
    return ask.scopes.get(level) or f"what the agent makes of it, {how}"


def withheld_text(withheld: str, at_terminal: str) -> str:
    """What the agent does not tell, and what follows for people."""
    follows = "" if at_terminal else ", so it can only be denied"
    return f"The agent does not tell all of it{follows}: {marked(withheld)}"


def parts_text(parts: Iterable[Part]) -> str:
    """All of it as plain text with its marks. Only labels begin a line: what an agent wrote cannot pose as one."""
    return "\n".join(part_text(part) for part in parts)


def part_text(part: Part) -> str:
    label, text = marked(part.label).replace("\n", " "), marked(part.text)
    if part.form == "diff":
        text = text.removesuffix("\n")  # it ends the last line; the diff says itself where a file lacks one
    return f"{label}:\n  " + text.replace("\n", "\n  ") if "\n" in text else f"{label}: {text}"


def _action(ask: Ask) -> list[Part]:
    match ask.action:
        case Command(command, cwd):
            return _filled(Part("command", command, "code"), Part("in", cwd))
        case Edit(paths, diff):
            named = changed_paths(diff)
            files = (Part("file", path) for path in paths if path not in named)
            return _filled(*files, Part("change", diff, "diff"))
        case Read(path):
            return _filled(Part("file", path))
        case Search(query, path):
            return _filled(Part("search", query), Part("in", path))
        case Fetch(url, query):
            return _filled(Part("address", url), Part("query", query))
        case Mcp(server, tool):
            return _filled(Part("server", server), Part("tool", tool))
        case Task(title):
            return _filled(Part("task", title))
        case _:
            return []


def _questions(questions: Iterable[Question]) -> list[Part]:
    parts: list[Part] = []
    for question in questions:
        parts.append(Part(question.header or "question", question.text))
        for number, choice in enumerate(question.choices, 1):
            parts.append(Part(str(number), f"{choice.label}: {choice.description}".removesuffix(": ")))
    return parts


def _filled(*parts: Part) -> list[Part]:
    return [part for part in parts if part.text]


def _drawn(name: str, value: Any) -> bool:
    """Whether the diff shows it: a text of the edit, or several by such names. A flag among them (`replace_all`) is
    not in the diff."""
    if name not in CONTENT:
        return False
    match value:
        case str():
            return True
        case list() | tuple():
            return all(_drawn(name, each) for each in cast("Iterable[Any]", value))
        case Mapping():
            return all(_drawn(str(key), each) for key, each in cast("Mapping[Any, Any]", value).items())
        case _:
            return False


def _shown(value: Any, seen: set[str]) -> bool:
    """The very text is there already, or each of several."""
    if isinstance(value, str):
        return value in seen
    return isinstance(value, list | tuple) and all(
        isinstance(text, str) and text in seen for text in cast("Iterable[Any]", value)
    )


def _given(name: str, value: Any) -> Part:
    if isinstance(value, str):
        return Part(name, value, "code" if "\n" in value else "text")
    raw = msgspec.json.encode(value, enc_hook=repr)
    whole = msgspec.json.format(raw, indent=2 if isinstance(value, Mapping | list | tuple) else 0)
    return Part(name, whole.decode(), "code")
