"""The models that an agent lets one choose from, in its own names."""

from collections.abc import Iterable, Mapping
from typing import Protocol, cast, runtime_checkable

MAX_MODELS = 200
MAX_NAME = 200


@runtime_checkable
class OffersModels(Protocol):
    """A driver of agents that say, when they run, which models they have."""

    offered_models: tuple[str, ...]


def mappings(told: object) -> list[Mapping[str, object]]:
    """Those of a list, whatever an agent has put there."""
    listed = cast("list[object]", told) if isinstance(told, list) else []
    return [cast("Mapping[str, object]", one) for one in listed if isinstance(one, Mapping)]


def model_names(told: Iterable[object]) -> tuple[str, ...]:
    """An agent's own list, as far as it is one of names."""
    names = dict.fromkeys(name for name in told if isinstance(name, str) and 0 < len(name) <= MAX_NAME)
    return tuple(names)[:MAX_MODELS]
