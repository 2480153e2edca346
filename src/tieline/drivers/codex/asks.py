"""Codex's requests to its client: each as an ask, and its answer in Codex's words."""

from collections.abc import Callable, Mapping
from typing import Any

from ...events import Answer, Ask, Choice, Command, Edit, Fetch, Mcp, OtherAction, Question, Remember
from ...policy import Capability, Policy
from ...wire.json_object import JsonObject
from .events import CodexNormaliser
from .policy import strictest

EXTRA_FIELDS = ("additionalPermissions", "networkApprovalContext")
"""What a request may say beyond the call that it is about."""

AskAndResponder = tuple[Ask, Callable[[Answer], Any]]


def parse_request(
    method: str, params: JsonObject, normaliser: CodexNormaliser, policy: Policy
) -> AskAndResponder | None:
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


def _command(params: JsonObject, normaliser: CodexNormaliser, policy: Policy) -> AskAndResponder:
    item = params["itemId"]
    call = normaliser.calls.get(item)
    wanted: list[Capability] = []
    action = normaliser.actions.get(item) or Command(params.get("command") or "", params.get("cwd") or "")
    title = "Run a command"
    scope = "exactly this command in this directory"
    if host := params.get("networkApprovalContext"):
        wanted.append("network")
        title = "Let a command reach the network"
        action = Fetch(f"{host['protocol']}://{host['host']}")
        scope = f"every command's connections to {host['host']} by {host['protocol']}"
    else:
        wanted.append("shell")
    if call is None or call.escalated:  # outside of the sandbox it can do what the other lines are about
        wanted += ("file_write", "network")
        title = "Run a command outside the sandbox"
    if params.get("kind") == "writeStdin":
        title = "Type into a command that runs"
    if params.get("approvalId"):  # a part of the call, or what is typed into it: not the call itself
        action = Command(params.get("command") or "", params.get("cwd") or "")
    amendment = params.get("proposedExecpolicyAmendment")
    lasting = bool(amendment) and "deny" not in (policy.file_write, policy.shell, policy.network)
    scopes: dict[Remember, str] = {"session": f"{scope}, this session"}
    if lasting:
        rule = " ".join(map(str, amendment or ()))
        scopes["always"] = f"every command that begins with `{rule}`, from now on, outside the sandbox"
    more = {name: value for name in EXTRA_FIELDS if (value := params.get(name))}
    ask = Ask(
        f"ask-{params.get('approvalId') or item}",
        "permission",
        title,
        reason=params.get("reason") or "",
        tool=item,
        action=action,
        input={**(call.arguments if call else {"command": params.get("command")}), **more},
        capability=strictest(policy, wanted),
        remember=tuple(scopes),
        scopes=scopes,
        wider=len(wanted) > 1
        or bool(more or params.get("approvalId") or params.get("kind") == "writeStdin")
        or _leaves_sandbox(params),
    )

    def respond(answer: Answer) -> dict[str, Any]:
        if answer.decision == "allow" and answer.remember == "always" and lasting:
            return {"decision": {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": amendment}}}
        return _decision(answer)

    return ask, respond


def _leaves_sandbox(params: JsonObject) -> bool:
    """Codex asks once more, about the same call, when its sandbox stopped it; only the reason tells."""
    return "sandbox" in (params.get("reason") or "")


def _file_change(params: JsonObject, normaliser: CodexNormaliser) -> AskAndResponder:
    item = params["itemId"]
    action = normaliser.actions.get(item)
    edit = action if isinstance(action, Edit) else Edit(())
    root = params.get("grantRoot")
    scope = f"every change under {root}" if root else f"every change of {', '.join(edit.paths)}"
    ask = Ask(
        f"ask-{item}",
        "permission",
        "Change files",
        reason=params.get("reason") or "",
        tool=item,
        action=edit,
        input={"grantRoot": root} if root else {},
        capability="file_write",
        remember=("session",),
        scopes={"session": f"{scope}, this session"},
        withheld="" if edit.diff or edit.paths else "Codex does not say which files it would change, nor how.",
        wider=bool(root) or _leaves_sandbox(params),
    )
    return ask, _decision


def _permissions(params: JsonObject, policy: Policy) -> AskAndResponder:
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
        scopes={"session": "these permissions for every command, this session (once: for the rest of this turn)"},
    )

    def respond(answer: Answer) -> dict[str, Any]:
        if answer.decision == "deny":
            return {"permissions": {}}
        return {"permissions": wanted, "scope": "turn" if answer.remember == "once" else "session"}

    return ask, respond


def _user_input(params: JsonObject) -> AskAndResponder:
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


def _elicitation(params: JsonObject, normaliser: CodexNormaliser) -> AskAndResponder:
    """A question of an MCP server; without fields it is Codex's own: whether a tool of it may be called."""
    schema: JsonObject = params.get("requestedSchema") or {}
    fields: Mapping[str, JsonObject] = schema.get("properties") or {}
    meta: JsonObject = params.get("_meta") or {}
    server, lasting = params["serverName"], meta.get("persist") or ()
    name = f"ask-{server}-{params.get('turnId') or ''}"
    if not fields:
        given = meta.get("tool_params") or {key: params[key] for key in ("url", "mode") if params.get(key)}
        tool, action = _find_mcp_call(server, params["message"], given, normaliser)
        remember: tuple[Remember, ...] = tuple(span for span in ("session", "always") if span in lasting)
        what = f"every call of {server}'s {action.tool or 'tool'}"
        scopes: dict[Remember, str] = {"session": f"{what}, this session", "always": f"{what}, from now on"}
        ask = Ask(
            name, "permission", params["message"], tool=tool, action=action, input=given, remember=remember,
            scopes={span: scopes[span] for span in remember},
        )  # fmt: skip
    else:
        questions = tuple(_form_question(field, shape) for field, shape in fields.items())
        ask = Ask(name, "question", params["message"], questions=questions, input={"server": server})

    def respond(answer: Answer) -> dict[str, Any]:
        if answer.decision == "deny":
            return {"action": "decline", "content": None}
        content = {field: _value(fields[field], chosen) for field, chosen in answer.answers.items() if field in fields}
        kept = {"_meta": {"persist": answer.remember}} if answer.remember in lasting else {}
        return {"action": "accept", "content": content, **kept}

    return ask, respond


def _find_mcp_call(server: str, message: str, given: JsonObject, normaliser: CodexNormaliser) -> tuple[str, Mcp]:
    """The call that an ask is about. The ask names neither the call's id nor, except in its text for people, the
    tool."""
    calls = [(tool, action) for tool, action in normaliser.actions.items() if isinstance(action, Mcp)]
    calls = [(tool, action) for tool, action in calls if action.server == server and f'"{action.tool}"' in message]
    for tool, action in calls:
        if (call := normaliser.calls.get(tool)) is not None and call.arguments == given:
            return tool, action
    return calls[0] if len(calls) == 1 else ("", Mcp(server, ""))


def _form_question(field: str, shape: JsonObject) -> Question:
    options: list[str] = shape.get("enum") or (["true", "false"] if shape.get("type") == "boolean" else [])
    return Question(
        id=field,
        text=shape.get("description") or shape.get("title") or field,
        header=shape.get("title") or field,
        choices=tuple(Choice(option, option) for option in options),
        many=shape.get("type") == "array",
        free=not options,
    )


def _value(shape: JsonObject, chosen: tuple[str, ...]) -> Any:
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
