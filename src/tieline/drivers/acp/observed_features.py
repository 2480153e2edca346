"""The features of an agent that is not tested, once it has run: what it said and showed counts, not what a preset
expects."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ..acp_presets import Preset
from ..base import Features
from ..observed_features import ObservedFeatures

OURS = ("warm", "system", "arguments")
"""What Tieline does by itself, whatever the agent is."""


def merge_observed(preset: Preset, can: Mapping[str, Any], observed: ObservedFeatures) -> Features:
    """The features that the agent was seen to have. `can` comes from the configuration: it may switch a feature off,
    but not add one."""
    return replace(
        preset.features,
        resume=observed.resume and can.get("resume") is not False,
        fork=observed.fork and can.get("fork") is not False,
        model=(preset.features.model if _model_by_argument(preset, observed) else bool(observed.model))
        and can.get("model") is not False,
        attachments=_intersect(can.get("attachments"), observed.attachments),
        **{name: True for name in observed.shown if can.get(name) is not False},
    )


def unconfirmed(preset: Preset, features: Features, observed: ObservedFeatures) -> tuple[str, ...]:
    """The features that the agent says nothing about, and that none of its sessions has shown."""
    known = {*OURS, "resume", "fork", "attachments", *observed.shown}
    if not _model_by_argument(preset, observed):
        known.add("model")
    return tuple(name for name in features.supported() if name not in known)


def _model_by_argument(preset: Preset, observed: ObservedFeatures) -> bool:
    """Whether the model is an argument of the program, which no session reports, or no new session was opened yet."""
    return bool(preset.model_args) or observed.model is None


def _intersect(wished: tuple[str, ...] | None, taken: tuple[str, ...]) -> tuple[str, ...]:
    if wished is None or "*/*" in wished:
        return taken
    return tuple(each for each in wished if f"{each.split('/')[0]}/*" in taken)
