"""The models that an agent lets one choose from, in its own names; kept in `models.json` of the state directory.

A list helps people to choose. An agent may know more models than it lists (Codex and Claude Code pass every name on to
their vendor), so only an agent that was asked, and that takes nothing beyond its list, is held to it: see `certain`.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

import msgspec
from msgspec import Struct

from .. import paths
from ..config import Config
from ..errors import AgentStartFailed, TielineError, Unsupported
from .base import Driver, StartsProgram
from .per_agent_file import PerAgentFile

MAX_MODELS = 200
MAX_NAME = 200
MAX_EFFORTS = 20
MAX_FILE = 1024 * 1024
ASK_S = 60.0
"""The longest wait for an agent to start and to tell its models."""
FRESH_S = 24 * 3600.0
"""So long a list is believed to be the agent's present one, as long as the agent's version is the same."""


class ModelList(Struct, frozen=True, kw_only=True, omit_defaults=True):
    names: tuple[str, ...] = ()
    efforts: Mapping[str, tuple[str, ...]] = {}  # of the models whose efforts the agent told; empty: it takes none
    certain: bool = False  # the agent takes no other name


class KeptModels(Struct, frozen=True, kw_only=True):
    """A list, as an agent of some version told it at some time."""

    models: ModelList
    version: str
    when: float
    program: str  # what told it, as a digest: by the same name another program may run tomorrow

    def stale(self, version: str) -> bool:
        """Whether the agent of that version may offer others by now."""
        return self.version != version or not 0 <= time.time() - self.when <= FRESH_S


@runtime_checkable
class OffersModels(Protocol):
    """A driver of agents that say, when they run, which models they have."""

    offered_models: ModelList


@runtime_checkable
class ListsModels(Protocol):
    """A driver of agents that say which models they have before anybody talks with them."""

    async def list_models(self, cwd: str, env: Mapping[str, str]) -> ModelList:
        """As the agent has them in that directory. Raises AgentError. No model is asked for anything."""
        ...


class ModelListFile:
    """The last list of each agent. Without a file it is kept for as long as this lives."""

    def __init__(self, file: Path | None = None) -> None:
        self._records = PerAgentFile(file, KeptModels, max_file=MAX_FILE)

    def get(self, driver: object, name: str) -> KeptModels | None:
        """What this very program told last."""
        program = program_digest(driver)
        return next((kept for kept in self._records.of(name) if kept.program == program), None)

    def keep(self, driver: object, name: str, version: str, models: ModelList) -> KeptModels:
        """Never raises."""
        kept = KeptModels(models=models, version=version, when=time.time(), program=program_digest(driver))
        self._records.put(name, kept)
        return kept


async def ask_models(driver: Driver, config: Config, cwd: str = "") -> ModelList:
    """Ask the agent for its models in a directory, or by default outside of any project. Raises AgentError, and
    Unsupported for an agent that lists its models only in a session."""
    import asyncio

    if not isinstance(driver, ListsModels):
        raise Unsupported(driver.name, "a list of its models", hint="It may tell them when a session starts.")
    if not cwd:
        directory = paths.no_project(config.environ)
        try:
            await asyncio.to_thread(directory.mkdir, 0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise AgentStartFailed(driver.name, f"{directory} cannot be made: {error.strerror}") from None
        cwd = str(directory)
    try:
        async with asyncio.timeout(ASK_S):
            return await driver.list_models(cwd, config.for_children())
    except TimeoutError:
        raise AgentStartFailed(driver.name, f"it did not list its models within {ASK_S:g} s") from None
    except TielineError:
        raise
    except Exception as error:  # a driver of another package
        raise AgentStartFailed(driver.name, f"it does not list its models:  {type(error).__name__}: {error}") from None


def program_digest(driver: object) -> str:
    import hashlib

    started = msgspec.json.encode(driver.program) if isinstance(driver, StartsProgram) else b""
    return hashlib.sha256(started).hexdigest()[:16]


def nearest_models(names: Collection[str], wanted: str) -> tuple[str, ...]:
    """Those that somebody who wrote `wanted` may have meant, the likeliest first."""
    import difflib  # slow to load: only for a name that is wrong

    near = difflib.get_close_matches(wanted, names, n=3, cutoff=0.5)
    return tuple(dict.fromkeys([*near, *(name for name in names if wanted in name or name in wanted)]))[:3]


def unlisted_model(models: ModelList, wanted: str) -> str:
    """What to say of a model that is not in the list. Empty when it is there, or when there is no list."""
    if not models.names or wanted in models.names:
        return ""
    near = nearest_models(models.names, wanted)
    hint = f"; the nearest there: {', '.join(near)}" if near else ""
    return f"it is not in the agent's list of models{hint}"


def mappings(value: object) -> list[Mapping[str, object]]:
    """The mappings among the elements of a list. Empty: an agent sent something else than a list."""
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, object]", element) for element in listed if isinstance(element, Mapping)]


def model_names(names: Iterable[object]) -> tuple[str, ...]:
    """The valid names in an agent's own list."""
    return _names(names, MAX_MODELS)


def model_list(models: Iterable[tuple[object, Iterable[object] | None]], *, certain: bool = False) -> ModelList:
    """From pairs of a model and its efforts, in the agent's own words. None: the agent does not list the efforts."""
    efforts = {name: levels for name, levels in models if isinstance(name, str)}
    names = model_names(efforts)
    known = {name: _names(levels, MAX_EFFORTS) for name in names if (levels := efforts[name]) is not None}
    return ModelList(names=names, efforts=known, certain=certain and len(efforts) <= MAX_MODELS)


def _names(values: Iterable[object], limit: int) -> tuple[str, ...]:
    names = dict.fromkeys(name for name in values if isinstance(name, str) and 0 < len(name) <= MAX_NAME)
    return tuple(names)[:limit]
