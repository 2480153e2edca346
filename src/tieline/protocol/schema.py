"""The JSON Schema of everything that the hub and its clients say to each other. The page's types are made from it.

`python -m tieline.protocol.schema` prints it.
"""

import sys
from importlib import import_module
from typing import Any

import msgspec
from msgspec import Struct

from ..sessions.session_worktrees import WorktreeOutcome, WorktreeStatus

PARTS = (
    "stream_frames",
    "request_bodies",
    "views",
    "access",
    "audit",
    "changes",
    "pagination",
    "problems",
    "push",
    "usage",
    "search",
    "messages",
    "mesh",
    "teams",
    "phone",
    "schedules",
    "rules",
)


def schema() -> dict[str, Any]:
    """Every named value under `$defs`. What is always written is `required`, also where it has a default."""
    kinds = [kind for part in PARTS for kind in _structs(part)] + [WorktreeStatus, WorktreeOutcome]
    _, components = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    whole = [kind for kind in _reached(kinds) if not kind.__struct_config__.omit_defaults]
    # A name that two modules have is told with its module.
    always = {kind.__name__ for kind in whole} | {f"{kind.__module__}.{kind.__name__}" for kind in whole}
    for name, component in components.items():
        if name in always and "properties" in component:
            component["required"] = list(component["properties"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tieline protocol",
        "$defs": dict(sorted(components.items())),
    }


def _structs(part: str) -> list[type[Struct]]:
    """A module's own values; those that only others are made of have no tag of their own and no fields."""
    module = import_module(f"tieline.protocol.{part}")
    structs = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Struct)]
    return [kind for kind in structs if kind.__module__ == module.__name__ and kind.__struct_config__.tag != ""]


def _reached(kinds: list[type[Struct]]) -> set[type[Struct]]:
    """The types and all that their fields name."""
    reached: set[type[Struct]] = set()
    waiting: list[Any] = [msgspec.inspect.type_info(kind) for kind in kinds]
    while waiting:
        info = waiting.pop()
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls in reached:
                continue
            reached.add(info.cls)
            waiting += [field.type for field in info.fields]
        elif isinstance(info, msgspec.inspect.UnionType):
            waiting += info.types
        elif isinstance(info, msgspec.inspect.DictType):
            waiting.append(info.value_type)
        elif hasattr(info, "item_type"):
            waiting.append(info.item_type)
        elif hasattr(info, "item_types"):
            waiting += info.item_types
    return reached


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(schema()), indent=2) + b"\n")
