"""Codex's requests to its client: each as an ask, and its answer in Codex's words."""

from collections.abc import Callable, Mapping
from typing import Any

from ...events import (
    Answer,
    Ask,
    Choice,
    Command,
    Edit,
    Fetch,
    Mcp,
    OtherAction,
    Question,
    Remember,
)
from ...policy import Capability, Policy
from .events import Normaliser
from .policy import strictest

Params = Mapping[str, Any]
Asked = tuple[Ask, Callable[[Answer], Any]]


def asked(method: str, params: Params, normaliser: Normaliser, policy: Policy) -> Asked | None:
    """The ask in a request, and what makes Codex's response of its answer. None: a request we do not know."""
    match method:
        case "item/commandExecution/requestApproval":
            return _command(params, normaliser, policy)
        case "item/fileChange/requestApproval":
            return _file_change(params, normaliser)
        case "item/permissions/requestApproval":
            return _permissions(params, policy)
        case "item/tool/requestUserInput":
            return _user_input(params)
        case "mcpServer/elicitation/request":
            return _elicitation(params, normaliser)
        case _:
            return None


def _command(params: Params, normaliser: Normaliser, policy: Policy) -> Asked:
    item = params["itemId"]
    call = normaliser.calls.get(item)
    wanted: list[Capability] = []
    action = normaliser.actions.get(item) or Command(params.get("command") or "", params.get("cwd") or "")
    title = "Run a command"
    if host := params.get("networkApprovalContext"):
        wanted.append("network")
        title = "Let a command reach the network"
        action = Fetch(f"{host['protocol']}://{host['host']}")
    else:
        wanted.append("shell")
    if call is None or call.escalated:  # outside of the sandbox it can do what the other lines are about
        wanted += ("file_write", "network")
        title = "Run a command outside the sandbox"
    amendment = params.get("proposedExecpolicyAmendment")
    lasting = bool(amendment) and "deny" not in (policy.file_write, policy.shell, policy.network)
    remember: tuple[Remember, ...] = ("session", "always") if lasting else ("session",)
    ask = Ask(
        f"ask-{params.get('approvalId') or item}",
        "permission",
        title,
        reason=params.get("reason") or "",
        tool=item,
        action=action,
        input=dict(call.arguments) if call else {"command": params.get("command")},
        capability=strictest(policy, wanted),
        remember=remember,
    )

    def respond(answer: Answer) -> dict[str, Any]:
        if answer.decision == "allow" and answer.remember == "always" and lasting:
            return {"decision": {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": amendment}}}
        return _decision(answer)

    return ask, respond


def _file_change(params: Params, normaliser: Normaliser) -> Asked:
    item = params["itemId"]
    action = normaliser.actions.get(item)
    edit = action if isinstance(action, Edit) else Edit(())
    ask = Ask(
        f"ask-{item}",
        "permission",
        "Change files",
        reason=params.get("reason") or "",
        tool=item,
        action=edit,
        input={"paths": list(edit.paths), "diff": edit.diff},
        capability="file_write",
        remember=("session",),
    )
    return ask, _decision


def _permissions(params: Params, policy: Policy) -> Asked:
    wanted = {kind: value for kind, value in params["permissions"].items() if value}
    lines: list[Capability] = ["network"] if wanted.get("network") else []
    if wanted.get("fileSystem"):
        lines.append("file_write")
    ask = Ask(
        f"ask-{params['itemId']}",
        "permission",
        "Grant more permissions",
        reason=params.get("reason") or "",
        tool=params["itemId"],
        action=OtherAction(),
        input=wanted,
        capability=strictest(policy, lines or ["shell"]),
        remember=("session",),
    )

    def respond(answer: Answer) -> dict[str, Any]:
        if answer.decision == "deny":
            return {"permissions": {}}
        return {"permissions": wanted, "scope": "turn" if answer.remember == "once" else "session"}

    return ask, respond


def _user_input(params: Params) -> Asked:
    questions = tuple(
        Question(
            id=question["id"],
            text=question["question"],
            header=question.get("header") or "",
            choices=tuple(
                Choice(option["label"], option["label"], option.get("description") or "")
                for option in question.get("options") or ()
            ),
            free=bool(question.get("isOther") or not question.get("options")),
        )
        for question in params["questions"]
    )
    title = questions[0].text if questions else "Input is needed"

    def respond(answer: Answer) -> dict[str, Any]:
        if answer.decision == "deny":
            return {"answers": {}}
        return {"answers": {question: {"answers": list(chosen)} for question, chosen in answer.answers.items()}}

    return Ask(f"ask-{params['itemId']}", "question", title, questions=questions), respond


def _elicitation(params: Params, normaliser: Normaliser) -> Asked:
    """A question of an MCP server; without fields it is Codex's own: whether a tool of it may be called."""
    schema: Params = params.get("requestedSchema") or {}
    fields: Mapping[str, Params] = schema.get("properties") or {}
    meta: Params = params.get("_meta") or {}
    server, lasting = params["serverName"], meta.get("persist") or ()
    name = f"ask-{server}-{params.get('turnId') or ''}"
    if not fields:
        running = (call for call in normaliser.actions.items() if isinstance(call[1], Mcp) and call[1].server == server)
        tool, action = next(running, ("", Mcp(server, "")))
        given = meta.get("tool_params") or {"url": params.get("url")}
        remember: tuple[Remember, ...] = tuple(span for span in ("session", "always") if span in lasting)
        ask = Ask(
            name, "permission", params["message"], tool=tool, action=action, input=given, remember=remember
        )  # fmt: skip
    else:
        questions = tuple(_field(field, shape) for field, shape in fields.items())
        ask = Ask(name, "question", params["message"], questions=questions, input={"server": server})

    def respond(answer: Answer) -> dict[str, Any]:
        if answer.decision == "deny":
            return {"action": "decline", "content": None}
        content = {field: _value(fields[field], chosen) for field, chosen in answer.answers.items() if field in fields}
        kept = {"_meta": {"persist": answer.remember}} if answer.remember in lasting else {}
        return {"action": "accept", "content": content, **kept}

    return ask, respond


def _field(field: str, shape: Params) -> Question:
    options: list[str] = shape.get("enum") or (["true", "false"] if shape.get("type") == "boolean" else [])
    return Question(
        id=field,
        text=shape.get("description") or shape.get("title") or field,
        header=shape.get("title") or field,
        choices=tuple(Choice(option, option) for option in options),
        many=shape.get("type") == "array",
        free=not options,
    )


def _value(shape: Params, chosen: tuple[str, ...]) -> Any:
    """What was chosen, as the type that the field wants."""
    first = chosen[0] if chosen else ""
    match shape.get("type"):
        case "boolean":
            return first == "true"
        case "integer" | "number":
            return float(first) if "." in first else int(first or 0)
        case "array":
            return list(chosen)
        case _:
            return first


def _decision(answer: Answer) -> dict[str, Any]:
    if answer.decision == "deny":
        return {"decision": "decline"}  # not "cancel", which ends the turn
    return {"decision": "accept" if answer.remember == "once" else "acceptForSession"}
