"""Permission requests and elicitations of ACP as asks, and answers as ACP responses."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from ...events import Answer, AnyAction, Ask, Choice, Edit, Question, Remember, needs
from ...wire.json_object import JsonObject
from ..acp_presets import Preset
from ..acp_traits import Traits
from ..claude_edits import preview_edit as preview_claude_edit
from ..current_file import EditPreview, note_links
from .edit_preview import preview_edit
from .tools import AcpToolCall, at_path

CANCELLED: Mapping[str, Any] = {"outcome": {"outcome": "cancelled"}}
CONSENT = "consent"
"""The id of the question that a request for consent is put as."""
TELLS_NOTHING = "The agent does not say what exactly it would do: this is all of its request."


def permission_response(
    options: Sequence[JsonObject], answer: Answer, *, lasting: bool = True, preferred: Sequence[str] = ()
) -> JsonObject:
    """The option that an answer stands for. A denial that the agent does not offer cancels instead. What is to hold
    for the session is remembered where asks are decided, for that very action."""
    remember = lasting and answer.remember == "always"
    if answer.decision == "allow":
        wanted = ("allow_always", "allow_once") if remember else ("allow_once", "allow_always")
    else:
        wanted = ("reject_always", "reject_once") if remember else ("reject_once",)
    for kind in wanted:
        of_kind = [option["optionId"] for option in options if option.get("kind") == kind]
        if of_kind:
            return _selected(next((id for id in of_kind if id in preferred), of_kind[0]))
    return CANCELLED


def is_consent(traits: Traits, request: JsonObject) -> bool:
    """Whether it asks for something that no policy speaks of and only a person may give, such as the upload of code."""
    return request["toolCall"].get("toolCallId") in traits.consents


def consent_ask(number: str, request: JsonObject) -> Ask:
    """A question, not a permission: no policy answers one, nothing remembers it, and a mere "allow" chooses nothing."""
    title = str(request["toolCall"].get("title") or request["toolCall"]["toolCallId"])
    options: Sequence[JsonObject] = request.get("options") or ()
    choices = tuple(Choice(str(option["optionId"]), _label(option)) for option in options)
    question = Question(id=CONSENT, text=title, header="consent", choices=choices, free=False)
    return Ask(number, "question", title, questions=(question,), input={"request": request["toolCall"]})


def consent_response(request: JsonObject, answer: Answer | None) -> JsonObject:
    """The chosen option; without one, a refusal."""
    options: Sequence[JsonObject] = request.get("options") or ()
    if answer is None:
        return CANCELLED
    chosen = answer.answers.get(CONSENT, ()) if answer.decision == "allow" else ()
    for option in options:
        if chosen and _label(option) == chosen[0]:
            return _selected(option["optionId"])
    return permission_response(options, Answer(answer.ask, "deny"))


def asked_questions(traits: Traits, request: JsonObject) -> tuple[Question, ...]:
    """The questions of a request for permission that is none: it asks what to answer."""
    return questions_of(at_path(request["toolCall"], traits.questions_path) or ())


def questions_of(asked: Sequence[JsonObject]) -> tuple[Question, ...]:
    return tuple(_asked_question(str(number), each) for number, each in enumerate(asked))


def _asked_question(number: str, asked: JsonObject) -> Question:
    options: Sequence[JsonObject] = asked.get("options") or ()
    choices = [Choice(str(each["label"]), str(each["label"]), str(each.get("description") or "")) for each in options]
    many = asked.get("multiSelect") is True
    return Question(
        id=number, text=asked["question"], header=asked.get("header") or "", choices=tuple(choices), many=many
    )


def answers_response(request: JsonObject, answer: Answer | None) -> JsonObject:
    """The answers, beside the option that says that they were given."""
    if answer is None:
        return CANCELLED
    response = permission_response(request.get("options") or (), answer)
    if answer.decision == "deny":
        return response
    return {**response, "answers": {number: ", ".join(chosen) for number, chosen in answer.answers.items()}}


def _selected(option: Any) -> JsonObject:
    return {"outcome": {"outcome": "selected", "optionId": option}}


def _label(option: JsonObject) -> str:
    return str(option.get("name") or option["optionId"])


async def permission_ask(
    number: str,
    tool: AcpToolCall,
    action: AnyAction,
    request: JsonObject,
    preset: Preset,
    cwd: str,
) -> Ask:
    """The ask of a request for permission. What the agent tells of the call beside its input is a part of it."""
    options: Sequence[JsonObject] = request.get("options") or ()
    plan = tool.text if tool.kind == "switch_mode" else ""
    given, notes, withheld = tool.arguments, tool.text, ""
    if tool.name in preset.subagents:
        withheld = "What is done for this call: the agent asks nobody about that."
    elif not given:
        given, notes, withheld = _describe_call(tool), "", _withheld(preset, tool)
        if not (preset.traits.title_is_action or tool.text or tool.described or tool.diffs):
            given, notes = {**given, "request": request["toolCall"]}, TELLS_NOTHING
    if isinstance(action, Edit) and (drawn := await _drawn_edit(tool, action, preset, cwd)):
        given = {name: value for name, value in given.items() if name != "diff"}  # the same in other words
        action, notes = drawn.edit, " ".join(filter(None, (notes, drawn.note)))
        withheld = withheld or drawn.withheld
    kinds = {option.get("kind") for option in options}
    only_lasting = "allow_once" not in kinds and "allow_always" in kinds
    always = next((str(option.get("name") or "") for option in options if option.get("kind") == "allow_always"), None)
    if only_lasting:
        notes = " ".join(filter(None, (notes, f"The agent has no “allow once”: to allow it is “{always}”.")))
    scopes: dict[Remember, str] = {}
    if preset.supports_always and always is not None:
        scopes["always"] = f"what the agent calls “{always}”" if always else "whatever the agent makes of it"
    ask = Ask(
        number,
        "plan" if plan else "permission",
        tool.title or tool.name,
        "" if plan else notes,
        tool=tool.id,
        action=action,
        input=given,
        capability=needs(action),
        plan=plan,
        remember=tuple(scopes),
        scopes=scopes,
        withheld=withheld,
        wider=only_lasting,
    )
    return await note_links(ask, cwd)


async def _drawn_edit(tool: AcpToolCall, edit: Edit, preset: Preset, cwd: str) -> EditPreview | None:
    """The change in its file; None: what it changes is not told."""
    drawn = await preview_claude_edit(tool.name, tool.arguments, cwd) if preset.claude_edits else None
    return drawn or (await preview_edit(edit, tool.diffs, tool.made_everywhere, cwd) if tool.diffs else None)


def _describe_call(tool: AcpToolCall) -> JsonObject:
    """What an agent says about a call instead of giving its input: Gemini writes a text, for some tools JSON."""
    with suppress(msgspec.DecodeError):
        return {**msgspec.json.decode(tool.text, type=dict[str, Any]), **({"title": tool.title} if tool.title else {})}
    description = {
        "title": tool.title,
        "text": tool.text,
        "locations": [location.get("path") for location in tool.locations],
    }
    return {name: value for name, value in description.items() if value}


def _withheld(preset: Preset, tool: AcpToolCall) -> str:
    if preset.traits.asks_together:
        return "The calls that it is about: they began before this turn."
    for pattern, words in preset.truncated_asks.items():
        if any(re.match(pattern, text, re.DOTALL) for text in (tool.title, tool.text)):
            return words
    return ""


def parse_questions(params: JsonObject, traits: Traits) -> tuple[Question, ...]:
    """The fields of a form, each as a question."""
    fields = _form_fields(params)
    notes = _note_fields(fields, traits)
    if len(fields) == 1:  # some agents have the question as the form's message, and a heading for its only field
        fields = {name: {"description": params.get("message"), **field} for name, field in fields.items()}
    return tuple(
        _question(name, field, traits, noted=name in notes)
        for name, field in fields.items()
        if name not in notes.values()
    )


def elicitation_response(params: JsonObject, answer: Answer | None, traits: Traits) -> JsonObject:
    """The response to `elicitation/create`."""
    if answer is None:
        return {"action": "cancel"}
    if answer.decision == "deny":
        return {"action": "decline"}
    fields = _form_fields(params)
    notes = _note_fields(fields, traits)
    content: dict[str, Any] = {}
    for name, chosen in answer.answers.items():
        own = [text for text in chosen if name in notes and text not in _choices(fields[name]).values()]
        if own:
            content[notes[name]] = ", ".join(own)
        elif name in fields:
            content[name] = _value(fields[name], chosen)
    return {"action": "accept", "content": content}


def _note_fields(fields: JsonObject, traits: Traits) -> Mapping[str, str]:
    """Questions → the field for an answer in one's own words, which an agent has beside the one of its choices."""
    named = {name: f"{name}{traits.note_suffix}" for name in fields if traits.note_suffix}
    return {name: note for name, note in named.items() if note in fields}


def _form_fields(params: JsonObject) -> JsonObject:
    schema: JsonObject = params.get("requestedSchema") or {}
    return schema.get("properties") or {}


def _question(name: str, field: JsonObject, traits: Traits, *, noted: bool) -> Question:
    many = field.get("type") == "array"
    choices = _choices(field.get("items") or {} if many else field)
    if field.get("type") == "boolean":
        choices = {"true": "Yes", "false": "No"}
    title, text = field.get("title") or "", field.get("description") or field.get("title") or name
    if traits.title_is_question:
        title, text = text, title
    return Question(
        id=name,
        text=text,
        header=title,
        choices=tuple(Choice(value, label) for value, label in choices.items()),
        many=many,
        free=noted or not choices,
    )


def _choices(field: JsonObject) -> dict[str, str]:
    """Value → label."""
    titled = field.get("oneOf") or field.get("anyOf") or ()
    if titled:
        return {str(entry["const"]): str(entry.get("title") or entry["const"]) for entry in titled}
    return {str(value): str(value) for value in field.get("enum") or ()}


def _value(field: JsonObject, chosen: Sequence[str]) -> Any:
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
