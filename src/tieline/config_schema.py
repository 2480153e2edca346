"""What the types of the configuration say: every key with its type, default and meaning, and what a file has wrong."""

import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Union, cast, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from .toml_key_lines import KeyPath

LOADED = frozenset({"environ", "source", "problem"})
"""Fields that the loader sets. They are no keys of the file."""


class Key(Struct, frozen=True, kw_only=True):
    """One key of a table."""

    name: str
    kind: Any
    required: bool = False
    default: Any = None
    meaning: str = ""
    example: Any = None
    secret: bool = False  # its value is never shown


class Mistake(NamedTuple):
    path: KeyPath
    problem: str
    hint: str = ""


def keys(table: type[Struct]) -> list[Key]:
    entries: list[Key] = []
    for field in msgspec.structs.fields(table):
        if field.name in LOADED:
            continue
        kind, meta = unwrapped(field.type)
        required = field.required
        default = None if required else field.default
        if default is msgspec.NODEFAULT and not required:
            default = field.default_factory()
        entries.append(
            Key(
                name=field.encode_name,
                kind=kind,
                required=required,
                default=default,
                meaning=(meta.description or "") if meta else "",
                example=meta.examples[0] if meta and meta.examples else None,
                secret=bool(meta and meta.extra and meta.extra.get("secret")),
            )
        )
    return entries


def unwrapped(kind: Any) -> tuple[Any, Meta | None]:
    """A type without its annotation, and the annotation."""
    if get_origin(kind) is Annotated:
        inner, *rest = get_args(kind)
        return inner, next((each for each in rest if isinstance(each, Meta)), None)
    return kind, None


def table_in(kind: Any) -> tuple[type[Struct] | None, Literal["one", "list", "named"]]:
    """The table that a type contains, and how: as the type itself, as the items of a list or as values by name."""
    kind, _ = unwrapped(kind)
    if isinstance(kind, type) and issubclass(kind, Struct):
        return kind, "one"
    choices = _choices(kind)
    if choices != (kind,):
        inner = [inner_table for each in choices if (inner_table := table_in(each))[0] is not None]
        return inner[0] if inner else (None, "one")
    arguments = get_args(kind)
    if get_origin(kind) is tuple and arguments:
        return table_in(arguments[0])[0], "list"
    if get_origin(kind) is not None and issubclass(_origin(kind), Mapping):
        return table_in(arguments[1])[0], "named"
    return None, "one"


def type_words(kind: Any) -> str:
    """A type as somebody who writes the file calls it."""
    kind, _ = unwrapped(kind)
    simple = {str: "text", bool: "true or false", int: "whole number", float: "number", Any: "anything"}
    if kind in simple:
        return simple[kind]
    if get_origin(kind) is Literal:
        return " or ".join(f'"{each}"' for each in get_args(kind))
    options = [each for each in _choices(kind) if each is not type(None)]
    if options and options[0] is not kind:
        return " or ".join(dict.fromkeys(type_words(each) for each in options))
    arguments = get_args(kind)
    if get_origin(kind) is tuple:
        words = type_words(arguments[0])
        return f"list of {words}" if " or " not in words or words == "true or false" else f"list of: {words}"
    if get_origin(kind) is not None and issubclass(_origin(kind), Mapping):
        words = type_words(arguments[1])
        return "table" if words in ("anything", "table") else f"table of {words}"
    return "table"


def mistakes(
    content: Mapping[str, Any], table: type[Struct], path: KeyPath = (), *, whole: bool = True
) -> Iterator[Mistake]:
    """Everything that is wrong by the types, each at its key; not only the first. Without `whole`, a table's own checks
    are left out: they are for values whose `env:NAME` is replaced."""
    known = {key.name: key for key in keys(table)}
    strict = table.__struct_config__.forbid_unknown_fields
    good = True
    for name, value in content.items():
        if name not in known:
            if strict:
                good = False
                hint = nearest_key(name, list(known)) or f"Known keys: {', '.join(known)}."
                yield Mistake((*path, name), "unknown key", hint)
            continue
        for mistake in _mistakes_of(value, known[name].kind, (*path, name), whole):
            good = False
            yield mistake
    for key in known.values():
        if key.required and key.name not in content:
            good = False
            hint = f"Add {key.name} = {toml(key.example)}." if key.example is not None else f"Add {key.name}."
            yield Mistake(path, f"{key.name} is missing", hint)
    if good and whole:
        yield from _of_the_whole(content, table, path)


def nearest_key(name: str, known: Sequence[str]) -> str:
    """What somebody may have meant; empty if nothing is like it."""
    import difflib

    close = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]}?" if close else ""


def toml(value: Any) -> str:
    """A value as TOML, in one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return "{ " + ", ".join(f"{_toml_key(name)} = {toml(each)}" for name, each in items) + " }" if items else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(each) for each in cast("Sequence[Any]", value)) + "]"
    if isinstance(value, str):
        return msgspec.json.encode(value).decode()
    return str(value)


# --- inside ------------------------------------------------------------------------------------------------


def _mistakes_of(value: Any, kind: Any, path: KeyPath, whole: bool) -> Iterator[Mistake]:
    table, how = table_in(kind)
    if table is not None and how == "one" and isinstance(value, dict):
        yield from mistakes(cast("dict[str, Any]", value), table, path, whole=whole)
    elif table is not None and how == "list" and isinstance(value, list):
        for index, each in enumerate(cast("list[Any]", value)):
            yield from _mistakes_of(each, table, (*path, index), whole)
    elif table is not None and how == "named" and isinstance(value, dict):
        inner = get_args(unwrapped(kind)[0])[1]
        for name, each in cast("dict[str, Any]", value).items():
            yield from _mistakes_of(each, inner, (*path, name), whole)
    else:
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            yield Mistake(path, f"expected {type_words(kind)}, found {_describe_value(value, kind)}")


def _of_the_whole(content: Mapping[str, Any], table: type[Struct], path: KeyPath) -> Iterator[Mistake]:
    """What the table itself finds wrong in keys that are each right."""
    from .errors import UsageError

    try:
        msgspec.convert(dict(content), table)
    except msgspec.ValidationError as error:
        problem, _, key = str(error).partition(" - at `$.")  # a bound that a key's type has
        yield Mistake((*path, key.rstrip("`")) if key else path, problem.replace("`", ""))
    except UsageError as error:
        parts = tuple(error.field.split(".")) if error.field else ()
        yield Mistake((*path, *parts), error.message, error.hint)


def _describe_value(value: Any, kind: Any) -> str:
    """The kind of a value for an error message. The value itself may be a secret and is only shown if the type has
    fixed choices."""
    if "Literal[" in str(kind):
        return toml(value)
    kinds = {"dict": "a table", "list": "a list", "str": "text", "bool": "true or false", "int": "a whole number"}
    name: str = type(value).__name__  # pyright: ignore[reportUnknownMemberType]
    return kinds.get(name, "a number" if isinstance(value, float) else "a date or time")


def _choices(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _origin(kind: Any) -> type:
    origin = get_origin(kind)
    return origin if isinstance(origin, type) else object


def _toml_key(name: str) -> str:
    plain = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if plain else msgspec.json.encode(name).decode()
