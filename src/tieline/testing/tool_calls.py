"""Parts of tool calls that agents have in common, for the rigs that put a script's steps in their words."""

from typing import Any

from ..script import Inquire, Outline


def question(step: Inquire, **more: Any) -> dict[str, Any]:
    """One question with choices, in the shape that most agents' tools take. `more`: what one of them wants besides."""
    options = [{"label": choice, "description": choice} for choice in step.choices]
    return {"question": step.question, "header": step.header, "options": options, **more}


def progress(step: Outline) -> list[tuple[str, str]]:
    """Each step of a to-do list with its state."""
    states = ["completed"] * step.done + ["in_progress"] + ["pending"] * len(step.steps)
    return list(zip(step.steps, states, strict=False))
