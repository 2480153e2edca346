"""What a tool call does, so that nobody parses the tool names of vendors. Frozen values with a `kind` tag."""

from typing import ClassVar

from msgspec import Struct

from .policy import Capability


class Action(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag=""):
    kind: ClassVar[str]


class Read(Action, tag="read", frozen=True):
    path: str


class Edit(Action, tag="edit", frozen=True):
    """Writes, edits, moves or deletes files."""

    paths: tuple[str, ...]
    diff: str = ""


class Command(Action, tag="command", frozen=True):
    command: str
    cwd: str = ""


class Search(Action, tag="search", frozen=True):
    """Looks for something in files."""

    query: str
    path: str = ""


class Fetch(Action, tag="fetch", frozen=True):
    """Reads from the network: a URL, or a web search."""

    url: str = ""
    query: str = ""


class Mcp(Action, tag="mcp", frozen=True):
    server: str
    tool: str


class Task(Action, tag="task", frozen=True):
    """Hands work to a subagent."""

    title: str = ""


class OtherAction(Action, tag="other", frozen=True):
    pass


AnyAction = Read | Edit | Command | Search | Fetch | Mcp | Task | OtherAction

NEEDS: dict[type[Action], Capability] = {Edit: "file_write", Command: "shell", Fetch: "network"}
"""Which capability an action falls under; the others are not governed by the policy's three lines."""

for _action in AnyAction.__args__:
    _action.kind = str(_action.__struct_config__.tag)


def needs(action: Action) -> Capability | None:
    """The capability an action falls under, if any."""
    return NEEDS.get(type(action))
