"""Sets an agent up over the scripted model by its recipe (`drivers/acp_recipes`), and calls its tools for a script."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from ..drivers.acp_recipes import Api, Recipe, ToolRecipe, ToolStep
from ..script import AnyStep, Call, Get, Inquire, Outline, Propose, Reply, Run, Write
from .model_apis.anthropic import AnthropicVoice
from .model_apis.augment import Augment
from .model_apis.chat import Chat
from .model_apis.gemini import PUBLIC_HOST, GeminiApi
from .model_apis.responses import Responses
from .model_server import ModelApi

APIS: Mapping[Api, type[ModelApi]] = {
    "chat": Chat,
    "responses": Responses,
    "anthropic": AnthropicVoice,
    "gemini": GeminiApi,
    "augment": Augment,
}
NEEDED: Mapping[ToolStep, str] = {
    "write": "tools",
    "run": "tools",
    "get": "fetch",
    "inquire": "question",
    "outline": "plan",
    "propose": "propose",
}
"""What no script can bring about where a recipe has no such tool."""


def limits(recipe: Recipe) -> frozenset[str]:
    return frozenset(recipe.limits) | {limit for step, limit in NEEDED.items() if step not in recipe.tools}


def variables(recipe: Recipe, *, url: str, home: Path, beside: Path | None = None) -> dict[str, str]:
    """The variables of its environment that lead it to the model; `beside` is the folder of its program."""
    values = {"url": url, "home": str(home)}
    caches = {name: (beside / folder).resolve() for name, folder in recipe.caches.items() if beside}
    cache_variables = {name: str(folder) for name, folder in caches.items() if folder.is_dir()}
    return {**{name: str(_filled(text, values)) for name, text in recipe.env.items()}, **cache_variables}


def write_files(recipe: Recipe, *, url: str, home: Path) -> None:
    for name, content in recipe.files.items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        filled = _filled(content, {"url": url, "home": str(home)})
        file.write_bytes(filled.encode() if isinstance(filled, str) else msgspec.json.encode(filled))


def tool_call(tools: Mapping[ToolStep, ToolRecipe], step: AnyStep) -> tuple[str, Mapping[str, Any]]:
    """The tool that takes such a step, and its input."""
    name, values, items = _values(step)
    tool = tools.get(name) if name else None
    if tool is None:
        raise ValueError(f"it has no tool for {step!r}")
    each = [
        _filled(tool.each, {**item, "state": tool.states.get(item.get("state", ""), item.get("state", ""))})
        for item in items
    ]
    return tool.name, _filled(tool.input, {**values, "items": each})


def with_tools_before(tools: Mapping[ToolStep, ToolRecipe], replies: Iterable[Reply]) -> Iterator[Reply]:
    """The replies, and before each one those with the tools that its own must come after."""
    for reply in replies:
        for step in reply:
            name, _, _ = _values(step)
            if name and name in tools and (before := tools[name].after):
                yield [Call(before)]
        yield reply


def _values(step: AnyStep) -> tuple[ToolStep | None, dict[str, Any], list[dict[str, str]]]:
    """The kind of tool that a step needs, its values, and its items."""
    match step:
        case Write(path, content):
            added = "".join(f"+{line}\n" for line in content.splitlines())
            return "write", {"path": path, "content": content, "added_lines": added}, []
        case Run(command):
            return "run", {"command": command}, []
        case Get(url):
            return "get", {"url": url, "public_url": url.replace("127.0.0.1", PUBLIC_HOST)}, []
        case Inquire(question, choices, header):
            return "inquire", {"question": question, "header": header}, [{"text": choice} for choice in choices]
        case Outline(steps, done):
            states = ["completed"] * done + ["in_progress"] + ["pending"] * len(steps)
            numbered = enumerate(zip(steps, states, strict=False))
            return "outline", {}, [{"text": text, "state": state, "number": str(n)} for n, (text, state) in numbered]
        case Propose(plan):
            return "propose", {"plan": plan}, []
        case _:
            return None, {}, []


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    """The template with the values in its texts, at whatever depth. What a value says is never a template itself."""
    if isinstance(template, str):
        if template[:1] == "{" and template[-1:] == "}" and template[1:-1] in values:
            return values[template[1:-1]]
        parts = template.split("{")
        return parts[0] + "".join(_part(part, values) for part in parts[1:])
    if isinstance(template, Mapping):
        table = cast("Mapping[str, Any]", template)
        return {key: _filled(each, values) for key, each in table.items()}
    if isinstance(template, list | tuple):
        return [_filled(each, values) for each in cast("list[Any]", template)]
    return template


def _part(part: str, values: Mapping[str, Any]) -> str:
    """What stands after a `{`, as text."""
    name, end, rest = part.partition("}")
    return f"{values[name]}{rest}" if end and name in values else "{" + part
