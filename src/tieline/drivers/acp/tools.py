"""ACP tool calls: what is known of one so far, and what it does."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec

from ...events import AnyAction, Command, Edit, Fetch, Mcp, OtherAction, Read, Search, Task
from ...wire.json_object import JsonObject
from ..acp_traits import Replacements
from ..model_list import mappings
from ..unified_diff import unified_diff

NOTHING: Mapping[str, Any] = {}
EVERYWHERE = ("replaceAll", "replace_all")
TextChange = tuple[str, str, str]
"""A path, its text before, its text after."""


class AcpToolCall:
    """One tool call. It grows over several messages."""

    __slots__ = (
        "announced",
        "arguments",
        "cached_diff",
        "content",
        "described",
        "finished",
        "id",
        "kind",
        "locations",
        "mcp",
        "name",
        "output",
        "proposed",
        "refused",
        "result",
        "title",
    )  # fmt: skip

    def __init__(self, name: str, id: str) -> None:
        self.id = id
        self.name = name
        self.title = ""
        self.kind = "other"
        self.mcp = False  # it is a tool of an MCP server, whatever its kind
        self.arguments: JsonObject = NOTHING
        self.result: Any = None
        self.content: list[JsonObject] = []
        self.locations: list[JsonObject] = []
        self.proposed: list[TextChange] = []  # what it asked to change
        self.cached_diff: tuple[list[TextChange], str] = ([], "")  # its changes, and the diff that was made of them
        self.output = ""  # what was told of its output while it runs
        self.described = ""  # what was told of its input, other than as such
        self.announced = False
        self.finished = False
        self.refused = False

    def merge(self, call: JsonObject) -> None:
        """Newer fields take the place of older ones; what is left out stays."""
        get = call.get
        if title := get("title"):
            self.title = title
        if (kind := get("kind")) and (kind != "other" or self.kind == "other"):
            self.kind = kind  # an agent that knows less now does not unsay what it knew
        if (given := get("rawInput")) and isinstance(given, dict):
            self.arguments = cast("JsonObject", given)
        if result := get("rawOutput"):
            self.result = result
        if content := get("content"):
            self.content = content
        if locations := get("locations"):
            self.locations = locations

    def take_arguments(self) -> None:
        """Its content so far is its input, written out."""
        self.described = self.text or self.described
        with suppress(msgspec.DecodeError):
            self.arguments = {**msgspec.json.decode(self.described, type=dict[str, Any]), **self.arguments}
        self.content = [block for block in self.content if block.get("type") != "content"]

    def take_replacements(self, replacements: Replacements) -> None:
        """Take the diffs of an edit of one file from its input: the agent reports them nowhere else."""
        if self.kind != "edit" or len(self.locations) != 1 or self.arguments.get("command") != replacements.command:
            return
        entries = [
            (each.get(replacements.old), each.get(replacements.new))
            for each in mappings(self.arguments.get(replacements.entries))
        ]
        if all(isinstance(old, str) and old and isinstance(new, str) for old, new in entries):
            path = self.locations[0]["path"]
            self.content = [{"type": "diff", "path": path, "oldText": old, "newText": new} for old, new in entries]

    def merge_permission_request(self, call: JsonObject) -> None:
        """What a request for permission tells of it. Its input may be put in other words there: ours stays."""
        own = self.arguments
        self.merge(call)
        if own:
            self.arguments = {**self.arguments, **own}
        self.proposed = self.diffs

    @property
    def describable(self) -> bool:
        """Whether there is enough to say what it is about, although it is still pending."""
        if self.kind == "execute":
            return "command" in self.arguments or "cmd" in self.arguments
        return bool(self.arguments or self.content or self.locations)

    @property
    def text(self) -> str:
        parts = [block["content"].get("text") or "" for block in self.content if block.get("type") == "content"]
        return "\n".join(parts)

    @property
    def result_text(self) -> str:
        """What it returned, as text."""
        return self.text or _result_text(self.result) or self.output

    @property
    def paths(self) -> tuple[str, ...]:
        changed = [block["path"] for block in self.content if block.get("type") == "diff"]
        return tuple(dict.fromkeys(changed or [location["path"] for location in self.locations]))

    @property
    def diffs(self) -> list[TextChange]:
        return [
            (block["path"], block.get("oldText") or "", block.get("newText") or "")
            for block in self.content
            if block.get("type") == "diff"
        ]

    @property
    def made_everywhere(self) -> list[bool]:
        """For each change, whether it replaces every occurrence of its text. Some agents say so once for all changes,
        others (Vibe) for each."""
        changes = mappings(self.arguments.get("changes")) or [self.arguments]
        flags = [any(change.get(name) is True for name in EVERYWHERE) for change in changes]
        count = len(self.diffs)
        return flags if len(flags) == count else [any(flags)] * count

    @property
    def metadata(self) -> JsonObject:
        """What OpenCode and its kin tell of a call beside its output."""
        result: object = self.result
        return (cast("JsonObject", result).get("metadata") or NOTHING) if isinstance(result, dict) else NOTHING

    def argument(self, *names: str) -> str:
        """The first of these arguments that it has."""
        if arguments := self.arguments:
            for name in names:
                if value := arguments.get(name):
                    return " ".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value)
        return ""

    def diff(self, cwd: str) -> str:
        """Its changes as one diff. `cwd` ends with a slash and shortens the paths."""
        changes = self.diffs
        if changes != self.cached_diff[0]:
            diff = "".join(unified_diff(path.removeprefix(cwd), old or None, new) for path, old, new in changes)
            self.cached_diff = (changes, diff)
        return self.cached_diff[1]

    def action(self, kind: str, cwd: str) -> AnyAction:
        """What it does, for a kind of tool."""
        if self.mcp:
            return Mcp(self.argument("server"), self.argument("tool") or self.title)
        match kind:
            case "edit" | "delete" | "move":
                path = self.argument("filePath", "file_path", "path", "notebook_path")
                return Edit(self.paths or ((path,) if path else ()), self.diff(cwd))
            case "execute":
                command = self.argument("command", "cmd") or self.described or self.title
                return Command(command, self.argument("cwd", "workdir"))
            case "fetch":
                url = self.argument("url") or _find_url(self.argument("prompt") or self.title)
                return Fetch(url, "" if url else self.argument("query") or self.title)
            case "read":
                path = self.argument("filePath", "file_path", "path")
                return Read(self.paths[0] if self.paths else path or self.title)
            case "search":
                return Search(self.argument("pattern", "query") or self.title, self.argument("path"))
            case "task":
                return Task(self.argument("description") or self.title)
            case _:
                return _mcp(self.name) or OtherAction()


def at_path(fields: JsonObject, path: Sequence[str]) -> Any:
    """The value at a path of names; None where there is none."""
    value: Any = fields
    for name in path:
        value = cast("JsonObject", value).get(name) if isinstance(value, dict) else None
    return value if path else None


def _mcp(name: str) -> Mcp | None:
    """`mcp__server__tool` as most write it, `mcp_server_tool` as Gemini does."""
    if not name.startswith("mcp_"):
        return None
    mark = "__" if name.startswith("mcp__") else "_"
    server, _, tool = name[len("mcp") + len(mark) :].partition(mark)
    return Mcp(server, tool) if tool else None


def _find_url(text: str) -> str:
    start = text.find("http")
    return text[start:].split(maxsplit=1)[0].rstrip("\"'),.") if start >= 0 else ""


def _result_text(result: Any) -> str:
    if result is None or isinstance(result, str):
        return result or ""
    if isinstance(result, dict):
        fields = cast("JsonObject", result)
        for name in ("output", "formatted_output", "stdout", "error", "message", "content"):
            if isinstance(fields.get(name), str):
                return fields[name]
    return msgspec.json.encode(result).decode()
