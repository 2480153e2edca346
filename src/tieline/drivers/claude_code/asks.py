"""What Claude Code asks, call by call: what its hook says before it, the ask that people see, and the answer."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urlsplit

from ...events import Answer, Ask, Choice, Edit, Fetch, Question, Remember, needs
from ...policy import Policy
from ..claude_edits import preview_edit
from ..current_file import note_links
from .tools import EXIT_PLAN, INTERACTIVE_TOOLS, QUESTION, tool_action

if TYPE_CHECKING:
    from claude_agent_sdk import PermissionUpdate

FULL_ACCESS = Policy("allow", "allow", "allow")


DESTINATIONS = {
    "userSettings": "kept in your own settings",
    "projectSettings": "kept in the project's settings",
    "localSettings": "kept in your settings for this project",
}


class PermissionContext(Protocol):
    """What Claude Code says of a permission request beside the call itself."""

    @property
    def tool_use_id(self) -> str | None: ...
    @property
    def decision_reason(self) -> str | None: ...
    @property
    def description(self) -> str | None: ...
    @property
    def title(self) -> str | None: ...
    @property
    def blocked_path(self) -> str | None: ...
    @property
    def suggestions(self) -> "Sequence[PermissionUpdate]": ...


class ToolPermissions:
    """What one conversation's tool calls need, and what was granted for the rest of it."""

    def __init__(self, policy: Policy, cwd: str, *, user_rules: bool, repository: bool = True) -> None:
        """`repository`: its own settings count, so what is kept there holds in the next session as well."""
        self._policy = policy
        self._lasting = frozenset(DESTINATIONS) if repository else frozenset({"userSettings"})
        self._cwd = cwd
        self._user_rules = user_rules
        self._granted: set[str] = set()
        self._ask_count = 0

    def hook_decision(self, name: str, given: Mapping[str, Any]) -> Literal["allow", "ask"] | None:
        """What the hook says about a call; None: nothing, Claude Code's rules decide."""
        if name in INTERACTIVE_TOOLS:
            return None
        if self._policy == FULL_ACCESS:
            return "allow"  # what bypassPermissions would do, which Claude Code refuses to root
        capability = needs(tool_action(name, given))
        if capability is None or self._policy.level(capability) == "allow":
            return None
        if self._policy.level(capability) == "ask" and (self._user_rules or _scope(name, given) in self._granted):
            return None
        return "ask"

    async def build_ask(
        self, name: str, given: Mapping[str, Any], original: Mapping[str, Any], context: PermissionContext
    ) -> Ask:
        """The ask for a permission request. `original` is the input of the call as the model made it."""
        self._ask_count += 1
        tool = context.tool_use_id or ""
        number = f"ask-{self._ask_count}-{tool}"
        if name == QUESTION:
            questions = _questions(given)
            return Ask(number, "question", questions[0].text if questions else name, tool=tool, questions=questions)
        if name == EXIT_PLAN:
            plan = str(given.get("plan") or original.get("plan") or "")
            return Ask(number, "plan", "Approve the plan?", tool=tool, input=given, plan=plan)
        drawn = await preview_edit(name, given, self._cwd)
        action = drawn.edit if drawn else tool_action(name, given)
        reason = context.decision_reason or context.description or context.title or ""
        blocked = f"It concerns {context.blocked_path}." if context.blocked_path else ""
        scopes = self._scopes(name, given, context.suggestions)
        ask = Ask(
            number,
            "permission",
            name,
            " ".join(filter(None, (reason, blocked, drawn.note if drawn else ""))),
            tool,
            action,
            given,
            needs(action),
            remember=tuple(scopes),
            scopes=scopes,
            withheld=drawn.withheld if drawn else "",
        )
        return await note_links(ask, self._cwd)

    def permission_updates(
        self, name: str, given: Mapping[str, Any], answer: Answer, suggestions: "Sequence[PermissionUpdate]"
    ) -> "list[PermissionUpdate] | None":
        """The rules that an answer which is to be remembered adds: what `_scopes` said."""
        if answer.decision != "allow" or answer.remember == "once":
            return None
        if self._suggestions_apply(name, given, suggestions):
            from dataclasses import replace

            if answer.remember == "always":
                return list(suggestions)
            return [replace(suggestion, destination="session") for suggestion in suggestions]
        scope = _scope(name, given)
        if not scope:
            return None  # the very same command is remembered where asks are decided
        self._granted.add(scope)
        return _rule(name, scope)

    def _suggestions_apply(
        self, name: str, given: Mapping[str, Any], suggestions: "Sequence[PermissionUpdate]"
    ) -> bool:
        """Whether Claude Code's own suggestions decide: not where our hook asks again whatever its rules say."""
        return bool(suggestions) and (self._user_rules or needs(tool_action(name, given)) is None)

    def _scopes(
        self, name: str, given: Mapping[str, Any], suggestions: "Sequence[PermissionUpdate]"
    ) -> dict[Remember, str]:
        """What is permitted for the session, and for ever where Claude Code has a place to keep it."""
        if not self._suggestions_apply(name, given, suggestions):
            match _scope(name, given):
                case "":
                    return {}  # the very same again is remembered where asks are decided
                case "edits":
                    what = "all edits in this directory"
                case "search":
                    what = "every web search"
                case domain:
                    what = f"every page of {domain.removeprefix('domain:')}"
            return {"session": f"{what}, this session"}
        what = "; ".join(map(_describe_update, suggestions))
        scopes: dict[Remember, str] = {"session": f"{what}, this session"}
        kept = [
            DESTINATIONS[suggestion.destination]
            for suggestion in suggestions
            if suggestion.destination in self._lasting
        ]
        if kept:
            scopes["always"] = f"{what}, from now on ({', '.join(dict.fromkeys(kept))})"
        return scopes


def _describe_update(update: "PermissionUpdate") -> str:
    """What a suggestion of Claude Code's permits."""
    match update.type:
        case "setMode" if update.mode == "acceptEdits":
            return "all edits in this directory, and commands that make, move or delete files there"
        case "setMode":
            return f"whatever the mode {update.mode} permits"
        case "addDirectories":
            return f"work in {', '.join(update.directories or ())}"
        case "addRules":
            return ", ".join(
                f"{rule.tool_name}({rule.rule_content})" if rule.rule_content else f"every {rule.tool_name}"
                for rule in update.rules or ()
            )
        case _:
            return str(update.to_dict())


def _scope(name: str, given: Mapping[str, Any]) -> str:
    """What a grant for the session covers, as Claude Code would suggest it: all edits, one host, web search."""
    match tool_action(name, given):
        case Edit():
            return "edits"
        case Fetch(url="", query=_):
            return "search"
        case Fetch(url=url):
            return f"domain:{urlsplit(url).hostname or ''}"
        case _:
            return ""


def _rule(name: str, scope: str) -> "list[PermissionUpdate]":
    from claude_agent_sdk import PermissionUpdate
    from claude_agent_sdk.types import PermissionRuleValue

    if scope == "edits":
        return [PermissionUpdate("setMode", mode="acceptEdits", destination="session")]
    rule = PermissionRuleValue(name, scope if scope.startswith("domain:") else None)
    return [PermissionUpdate("addRules", [rule], "allow", destination="session")]


def _questions(given: Mapping[str, Any]) -> tuple[Question, ...]:
    asked: list[Mapping[str, Any]] = given.get("questions") or []
    return tuple(
        Question(
            id=str(number),
            text=str(question.get("question") or ""),
            header=str(question.get("header") or ""),
            choices=_choices(question.get("options") or []),
            many=bool(question.get("multiSelect")),
        )
        for number, question in enumerate(asked, 1)
    )


def _choices(options: Sequence[Mapping[str, Any]]) -> tuple[Choice, ...]:
    labels = [(str(option.get("label") or ""), str(option.get("description") or "")) for option in options]
    return tuple(Choice(label, label, description) for label, description in labels)


def answered_input(given: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    """The input of a question with its answers, as Claude Code wants them back: by the question's text."""
    chosen = {question.text: ", ".join(answer.answers.get(question.id, ())) for question in _questions(given)}
    return {**given, "answers": {text: labels for text, labels in chosen.items() if labels}}
