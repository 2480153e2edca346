"""The policy in Codex's terms: its sandbox, when it asks, and which of its tools there are.

Codex's sandbox holds its commands; its own patches are written outside of it, once they are permitted. So:
- shell: `ask` is the approval policy "untrusted" (every command and every patch is asked about), `deny` takes the
  command tool away, `allow` leaves commands to the sandbox;
- file_write: other than `allow` is a read-only sandbox, in which patches are asked about and commands cannot write;
- network: other than `allow` switches web search off, which Codex never asks about, and cuts the sandbox's network.
Where every command is asked about anyway, the sandbox need not hold what is to be asked, only what is denied.
"""

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from ...policy import Capability, Enforcement, Level, Policy, Receipt

Sandbox = Literal["read-only", "workspace-write", "danger-full-access"]
STRICTEST: tuple[Level, ...] = ("deny", "ask", "allow")

RETRY_NOTE = "A command that somebody allows starts in a sandbox; if that refuses it, Codex may run it again outside."
USER_RULES_NOTE = "Commands that your own Codex rules (rules/*.rules) allow run unasked and outside the sandbox."
COMMANDS_NOTE = "A command that somebody allows can do it too."
NO_SEARCH_NOTE = "Web search is off: Codex does not ask before it searches."
NO_SHELL_NOTE = "Codex has no command tool then, and no other way to read files: it knows what the prompt tells it."


class CodexControls(Struct, frozen=True):
    """What Codex is told."""

    sandbox: Sandbox
    network: bool
    approval: Literal["untrusted", "on-request", "never"]
    web_search: str
    shell: bool

    @property
    def trusts_repositories(self) -> bool:
        """A trusted one has rules of its own for which commands nobody is asked."""
        return self.approval == "never"

    @property
    def config(self) -> dict[str, Any]:
        """Overrides of Codex's configuration, for one thread."""
        return {
            "web_search": self.web_search,
            "features.shell_tool": self.shell,
            "sandbox_workspace_write.network_access": self.network,
        }

    @property
    def turn_sandbox(self) -> dict[str, Any] | None:
        """What only a turn can be told: a read-only sandbox with network."""
        if self.sandbox == "read-only" and self.network:
            return {"type": "readOnly", "networkAccess": True}
        return None


def controls(policy: Policy, web_search: str = "live") -> CodexControls:
    def held(level: Level) -> bool:
        """Whether the sandbox has to hold this line."""
        return level == "deny" or (level == "ask" and policy.shell != "ask")

    network = not held(policy.network)
    return CodexControls(
        sandbox="read-only" if held(policy.file_write) else "danger-full-access" if network else "workspace-write",
        network=network,
        approval="untrusted" if policy.shell == "ask" else "never" if policy == FULL_ACCESS else "on-request",
        web_search=web_search if policy.network == "allow" else "disabled",
        shell=policy.shell != "deny",
    )


def receipt(policy: Policy) -> Receipt:
    return Receipt(_file_write(policy), _shell(policy), _network(policy))


def strictest(policy: Policy, capabilities: Iterable[Capability]) -> Capability:
    """The one that the policy restricts most; the first of equals."""
    return min(capabilities, key=lambda capability: STRICTEST.index(policy.level(capability)))


FULL_ACCESS = Policy("allow", "allow", "allow")


def _file_write(policy: Policy) -> Enforcement:
    match policy.file_write, policy.shell:
        case "allow", shell if shell == "deny" or controls(policy).sandbox == "danger-full-access":
            return Enforcement("allow", "rule")
        case "allow", shell:
            note = "Commands write only in the session's directory and in temporary ones."
            return Enforcement("allow", "sandbox", _notes(note, shell == "ask" and RETRY_NOTE, USER_RULES_NOTE))
        case "ask", "ask":
            return Enforcement("ask", "prompt", _notes(COMMANDS_NOTE, USER_RULES_NOTE))
        case level, "ask":
            return Enforcement(level, "prompt", _notes(RETRY_NOTE, USER_RULES_NOTE))
        case level, "allow":
            note = "Commands run in a read-only sandbox; one that wants to leave it falls under this line."
            return Enforcement(level, "sandbox" if level == "deny" else "prompt", _notes(note, USER_RULES_NOTE))
        case level, _:
            return Enforcement(level, "prompt")


def _shell(policy: Policy) -> Enforcement:
    free = controls(policy).sandbox == "danger-full-access"
    match policy.shell:
        case "deny":
            return Enforcement("deny", "rule", NO_SHELL_NOTE)
        case "ask":
            return Enforcement("ask", "prompt", _notes(not free and RETRY_NOTE, USER_RULES_NOTE))
        case "allow":
            return Enforcement("allow", "rule" if free else "sandbox", "" if free else USER_RULES_NOTE)


def _network(policy: Policy) -> Enforcement:
    match policy.network, policy.shell:
        case "allow", _:
            return Enforcement("allow", "rule")
        case level, "allow":
            note = "Commands have no network; one that wants to leave the sandbox falls under this line."
            return Enforcement(level, "sandbox", _notes(NO_SEARCH_NOTE, note, USER_RULES_NOTE))
        case level, "ask":
            return Enforcement(
                level, "rule", _notes(NO_SEARCH_NOTE, RETRY_NOTE if level == "deny" else COMMANDS_NOTE, USER_RULES_NOTE)
            )
        case level, _:
            return Enforcement(level, "rule", NO_SEARCH_NOTE)


def _notes(*notes: str | bool) -> str:
    return " ".join(note for note in notes if isinstance(note, str))
