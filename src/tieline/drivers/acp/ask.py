"""An agent's questions, and our answers to them, in ACP's words."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...events import Answer, Choice, Question

CANCELLED: Mapping[str, Any] = {"outcome": {"outcome": "cancelled"}}

Fields = Mapping[str, Any]


def choose(options: Sequence[Fields], answer: Answer, *, lasting: bool = True) -> Fields:
    """The option that an answer stands for. A denial that the agent does not offer cancels instead."""
    remember = lasting and answer.remember != "once"
    if answer.decision == "allow":
        wanted = ("allow_always", "allow_once") if remember else ("allow_once", "allow_always")
    else:
        wanted = ("reject_always", "reject_once") if remember else ("reject_once",)
    for kind in wanted:
        for option in options:
            if option.get("kind") == kind:
                return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
    return CANCELLED


def questions_of(params: Fields) -> tuple[Question, ...]:
    """The fields of a form, each as a question."""
    return tuple(_question(name, field) for name, field in _form(params).items())


def elicited(params: Fields, answer: Answer | None) -> Fields:
    """The response to `elicitation/create`."""
    if answer is None:
        return {"action": "cancel"}
    if answer.decision == "deny":
        return {"action": "decline"}
    fields = _form(params)
    content = {name: _value(fields[name], chosen) for name, chosen in answer.answers.items() if name in fields}
    return {"action": "accept", "content": content}


def _form(params: Fields) -> Fields:
    schema: Fields = params.get("requestedSchema") or {}
    return schema.get("properties") or {}


def _question(name: str, field: Fields) -> Question:
    many = field.get("type") == "array"
    choices = _choices(field.get("items") or {} if many else field)
    if field.get("type") == "boolean":
        choices = {"true": "Yes", "false": "No"}
    return Question(
        id=name,
        text=field.get("description") or field.get("title") or name,
        header=field.get("title") or "",
        choices=tuple(Choice(value, label) for value, label in choices.items()),
        many=many,
        free=not choices,
    )


def _choices(field: Fields) -> dict[str, str]:
    """Value → label."""
    titled = field.get("oneOf") or field.get("anyOf") or ()
    if titled:
        return {str(entry["const"]): str(entry.get("title") or entry["const"]) for entry in titled}
    return {str(value): str(value) for value in field.get("enum") or ()}


def _value(field: Fields, chosen: Sequence[str]) -> Any:
    many = field.get("type") == "array"
    values = {label: value for value, label in _choices(field.get("items") or {} if many else field).items()}
    picked = [values.get(label, label) for label in chosen]
    if many:
        return picked
    first = picked[0] if picked else ""
    match field.get("type"):
        case "boolean":
            return first.lower() in ("yes", "true")
        case "integer":
            return int(first)
        case "number":
            return float(first)
        case _:
            return first
