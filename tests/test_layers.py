"""Who may import whom, as the architecture says; and what `import tieline` may load."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

SOURCE = Path(__file__).parent.parent / "src" / "tieline"

LAYERS: list[set[str]] = [
    # values
    {
        "errors",
        "policy",
        "tool_actions",
        "events",
        "script",
        "envelopes",
        "ids",
        "backoff",
        "background_tasks",
        "environment",
        "version",
        "paths",
        "ask_parts",
        "visible_text",
    },
    {
        "toml_key_lines",
        "config_schema",
        "config",
        "state_directory",
        "safe_file_read",
        "safe_file_write",
        "file_watcher",
    },
    {"wire", "processes"},
    {
        "drivers.base",
        "drivers.turn_stream",
        "drivers.acp_presets",
        "drivers.acp_recipes",
        "drivers.acp_traits",
        "drivers.launch_extras",
        "drivers.registry",
        "drivers.prestart",
        "drivers.options",
        "drivers.per_agent_file",
        "drivers.model_list",
        "drivers.observed_features",
        "drivers.unified_diff",
        "drivers.current_file",
        "drivers.claude_edits",
        "drivers.claude_project",
        "drivers.opencode_project",
        "drivers.repository_settings",
        "drivers.run_as",
        "drivers.denial_reasons",
        "drivers.version_command",
        "channels.base",
        "channels.inbound_http",
        "bus.base",
        "bus.active_lease",
        "bus.subjects",
        "bus.announcement_listeners",
        "bus.table_cache",
    },
    {"sessions"},
    {"relay"},
    {"protocol"},
    {"mesh"},
    {
        "api",
        "harnesses.attach_consent",
        "harnesses.base",
        "harnesses.editors",
        "harnesses.hook",
        "harnesses.hook_handler",
        "harnesses.hook_formats",
        "harnesses.installer",
        "harnesses.instructions",
        "harnesses.plugin_file",
        "harnesses.registry",
        "harnesses.terminals",
        "client",
    },
    {"teams", "schedules", "node", "hub"},
    {"bootstrap"},
    {"cli", "__main__"},
]
"""Lowest first. A module imports from its own layer and those below it."""

ADAPTERS = {"drivers": "drivers", "bus": "bus", "channels": "channels", "harnesses": "harnesses"}
"""Folders whose files, but for the contract ones above, are adapters: no other module imports them."""

MAY_IMPORT_ADAPTERS = ("bootstrap", "testing")
"""The composition root, and the rigs that set adapters up for tests. The registry does it by name, lazily."""

TESTS_AGENTS = "cli.commands.agents_test"
"""`tieline agents test` is a test: it has the rigs and the checks of the contract."""

LIGHT = {"msgspec", "typing_extensions"}
"""The only third-party packages that `import tieline` and its public names may load; msgspec imports the other."""


DRIVERS = {
    "terminals": "acp",
    "copilot": "acp",
    "gemini": "acp",
    "qwen": "acp",
    "vibe": "acp",
    "kimi": "acp",
    "droid": "acp",
}
"""A harness whose driver goes by another name; the records that their terminals share are like the updates of ACP."""


def reads_its_driver(name: str, target: str) -> bool:
    """What happens in a harness's terminals is read by the driver of that very agent: there is one mapping only."""
    room, _, module = name.partition(".")
    folder, _, driver = target.partition(".")
    harness = module.split(".")[0]
    own = DRIVERS.get(harness, harness)
    return (room, folder) == ("harnesses", "drivers") and own.startswith(driver.split(".")[0])


def modules() -> dict[str, Path]:
    paths: dict[str, Path] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        paths[".".join(part for part in parts if part != "__init__")] = path
    return paths


class Parsed(NamedTuple):
    """What these tests ask of a module; each is parsed once."""

    imports: list[ast.Import | ast.ImportFrom]
    types: list[str]
    """Its classes, and its aliases of types."""


def statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All statements, at whatever depth. No expression holds one, and most of a tree is expressions."""
    for node in body:
        yield node
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = getattr(node, name, ())
            if isinstance(inner, list):
                yield from statements(cast("list[ast.AST]", inner))


@cache
def parsed(path: Path) -> Parsed:
    nodes = list(statements(ast.parse(path.read_text()).body))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    types = [node.name for node in nodes if isinstance(node, ast.ClassDef)]
    types += [name for node in nodes if (name := alias_of_a_type(node))]
    return Parsed(imports, types)


def alias_of_a_type(node: ast.AST) -> str:
    """The name that an assignment gives a type; else empty. A type is named in CapWords, a constant in capitals, and
    what a call makes (a TypeVar) is no alias."""
    if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
        return ""
    name = node.targets[0].id
    named = re.fullmatch(r"_?[A-Z]\w*[a-z]\w*", name) is not None
    return name if named and isinstance(node.value, ast.Subscript | ast.BinOp | ast.Name | ast.Attribute) else ""


def imports(name: str, path: Path) -> list[str]:
    """The Tieline modules that a module imports, without the leading package; later or for types alone as well."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    package = [part for part in package if part]
    imported: list[str] = []
    for node in parsed(path).imports:
        if isinstance(node, ast.ImportFrom):
            if node.level:
                base = package[: len(package) - node.level + 1]
                base = [*base, *(node.module.split(".") if node.module else [])]
            elif node.module and node.module.split(".")[0] == "tieline":
                base = node.module.split(".")[1:]
            else:
                continue
            imported += [".".join([*base, alias.name]) for alias in node.names]
        else:
            imported += [alias.name[8:] for alias in node.names if alias.name.startswith("tieline.")]
    return imported


@cache
def layer(name: str) -> int | None:
    for number, members in enumerate(LAYERS):
        if any(name == member or name.startswith(member + ".") for member in members):
            return number
    return None


def is_adapter(name: str) -> bool:
    return name.split(".")[0] in ADAPTERS and layer(name) is None and "." in name


def family(name: str, paths: dict[str, Path]) -> str:
    """An adapter may span files: `codex`, `codex_events`, or be a folder. The shortest name is the family's."""
    words = ".".join(name.split(".")[:2]).split("_")
    heads = ("_".join(words[:count]) for count in range(1, len(words) + 1))
    return next(head for head in heads if head in paths)


def violations(paths: dict[str, Path]) -> list[str]:
    problems: list[str] = []
    for name, path in paths.items():
        for target in imports(name, path):
            target = next((m for m in (target, target.rpartition(".")[0]) if m in paths), target)
            if is_adapter(target) and not name.startswith(MAY_IMPORT_ADAPTERS):
                same = (
                    is_adapter(name)
                    and name.split(".")[0] == target.split(".")[0]
                    and family(name, paths) == family(target, paths)
                )
                if not same and not reads_its_driver(name, target):
                    problems.append(f"{name} imports the adapter {target}")
            own, other = layer(name), layer(target)
            if own is not None and other is not None and other > own:
                problems.append(f"{name} imports {target}, which is above it")
            if target.startswith("testing") and not name.startswith("testing") and name != TESTS_AGENTS:
                problems.append(f"{name} imports {target}: the product does not need its tests")
    return problems


def test_layers() -> None:
    assert violations(modules()) == []


def test_the_check_can_fail(tmp_path: Path) -> None:
    paths = dict(modules())
    for name, text in {
        "wire.bad": "from ..sessions import session\n",
        "drivers.bad": "from .scripted import Scripted\n",
        "sessions.bad": "from ..drivers import scripted\n",
        "events_bad": "import tieline.testing.http_server\n",
    }.items():
        paths[name] = tmp_path / f"{name}.py"
        paths[name].write_text(text)
    report = "\n".join(violations(paths))
    for name in ("wire.bad", "drivers.bad", "sessions.bad", "events_bad"):
        assert name in report


def circles(edges: dict[str, set[str]]) -> list[str]:
    """The modules that can be reached from themselves."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        open_ends = [start]
        while open_ends:
            for target in edges.get(open_ends.pop(), set()) - seen:
                seen.add(target)
                open_ends.append(target)
        return seen

    return [name for name in edges if name in reached(name)]


def import_edges(paths: dict[str, Path]) -> dict[str, set[str]]:
    """Who imports whom: at once, within a function, or only for the type checker."""
    edges: dict[str, set[str]] = {}
    for name, path in paths.items():
        targets = (
            next((m for m in (target, target.rpartition(".")[0]) if m in paths), "") for target in imports(name, path)
        )
        edges[name] = {target for target in targets if target and target != name}
    return edges


def test_no_imports_in_a_circle() -> None:
    assert circles(import_edges(modules())) == []


def test_a_circle_would_be_seen(tmp_path: Path) -> None:
    paths: dict[str, Path] = {}
    for name, text in {
        "one": "from .two import x\n",
        "two": "def later():\n    from . import three\n",
        "three": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import tieline.one\n",
        "apart": "from .one import y\n",
    }.items():
        paths[name] = tmp_path / f"{name}.py"
        paths[name].write_text(text)
    assert circles(import_edges(paths)) == ["one", "two", "three"]


ARGUMENTS = "cli.typer_apps."
"""Its aliases are arguments of commands with their help, named as a person reads them there."""


def names_of_several_types(paths: dict[str, Path]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for name, path in paths.items():
        if not name.startswith(ARGUMENTS):
            for each in parsed(path).types:
                places.setdefault(each, []).append(name)
    return {name: where for name, where in places.items() if len(where) > 1}


def test_one_name_one_type() -> None:
    """Of classes and of aliases, private ones too."""
    both = {
        "ClaudeCode",
        "Codex",
    }  # the driver and the harness of one product: other code has them from their registries
    twice = names_of_several_types(modules())
    assert twice.keys() == both, "give one of each pair a name that says more"
    assert all(len(twice[name]) == 2 and all(map(is_adapter, twice[name])) for name in both)


def test_a_second_type_of_a_name_would_be_seen(tmp_path: Path) -> None:
    paths: dict[str, Path] = {}
    for name, text in {
        "one": "class Thing: ...\nclass _Part: ...\nT = TypeVar('T')\nLIMITS = (1, 2)\n",
        "two": "Thing = dict[str, int]\nT = TypeVar('T')\nLIMITS = (3,)\n",
        "three": "if True:\n    _Part = int | str\n",
    }.items():
        paths[name] = tmp_path / f"{name}.py"
        paths[name].write_text(text)
    assert names_of_several_types(paths) == {"Thing": ["one", "two"], "_Part": ["one", "three"]}


def test_every_module_has_a_room() -> None:
    roomless = [
        name
        for name in modules()
        if name and layer(name) is None and not is_adapter(name) and name.split(".")[0] not in (*ADAPTERS, "testing")
    ]
    assert roomless == []


def test_what_is_heavy_is_an_extra() -> None:
    project = tomllib.loads((SOURCE.parent.parent / "pyproject.toml").read_text())["project"]
    for extra, package in {
        "claude": "claude-agent-sdk",
        "nats": "nats-py",
        "telegram": "aiogram",
        "notify": "apprise",
        "push": "pywebpush",
        "traces": "opentelemetry-sdk",
    }.items():
        assert any(named.startswith(package) for named in project["optional-dependencies"][extra])
        assert not any(named.startswith(package) for named in project["dependencies"])


def test_types_are_checked_strictly() -> None:
    """`make check` runs the type checker; nothing here asks it to look away."""
    setting = tomllib.loads((SOURCE.parent.parent / "pyproject.toml").read_text())["tool"]["pyright"]
    assert setting["typeCheckingMode"] == "strict"
    assert "src" in setting["include"]
    assert not [name for name in setting if name.startswith("report")]
    loose = re.compile(r"# (pyright: (basic|standard|\w+ *=)|type: ignore$)", re.MULTILINE)
    assert [name for name, path in modules().items() if loose.search(path.read_text())] == []


def test_import_is_light() -> None:
    use = "import tieline; [getattr(tieline, name) for name in tieline.__all__]"
    code = f"import sys; {use}; print('\\n'.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30).stdout
    tops = {name.split(".")[0] for name in loaded.split()}
    adapters = [name for name in loaded.split() if is_adapter(name.removeprefix("tieline."))]
    assert adapters == [], "a driver, a bus or a channel is loaded when it is asked for"
    bare = subprocess.run(
        [sys.executable, "-c", "import sys; print('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout
    foreign = tops - set(sys.stdlib_module_names) - {name.split(".")[0] for name in bare.split()} - {"tieline"}
    assert {name for name in foreign if not name.startswith("_")} <= LIGHT
