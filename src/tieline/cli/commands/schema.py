"""`tieline schema`: the JSON Schema of every value that crosses the program's borders."""

from collections.abc import Callable
from typing import Any

import msgspec

from ... import events, policy, script
from ...drivers.base import Prompt
from ...errors import UsageError
from .agent_reports import AgentReport

SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "events": events.schema,
    "policy": lambda: _of("Tieline policy", policy.Policy),
    "receipt": lambda: _of("Tieline receipt", policy.Receipt),
    "prompt": lambda: _of("Tieline prompt", Prompt),
    "script": lambda: _of("Tieline script", list[list[script.AnyStep]]),
    "agents": lambda: _of("Tieline agents", list[AgentReport]),
}


def schema_text(name: str) -> str:
    if name not in SCHEMAS:
        raise UsageError(f"no schema {name!r}", field="name", hint=f"There are: {', '.join(SCHEMAS)}.")
    return msgspec.json.format(msgspec.json.encode(SCHEMAS[name]()), indent=2).decode()


def _of(title: str, kind: Any) -> dict[str, Any]:
    (root,), components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **root}
    return {**schema, "$defs": components} if components else schema
