"""What a person types in a team's conversation, as the action that it means."""

from ...errors import UsageError
from ...protocol import teams as p

COMMANDS = {
    "/say WORDS": "say something, also words that begin with / or @",
    "/hold": "let no further turn begin",
    "/resume": "go on, after a hold or an end",
    "/next NAME …": "these speak next, in this order",
    "/drop NAME …": "these do not speak after all",
    "/remove NAME": "take a member out of the team",
    "/policy NAME PRESET": "hold a member to another policy from its next turn",
    "/end REASON": "end the conversation",
}
"""Each command as it is typed, and what it does."""


def parse_typed_line(line: str, speaker: str = "") -> p.AnyTeamAction:
    """Said by `speaker`; empty: the first person of the team. Raises UsageError for a command that is none, or lacks
    what it needs."""
    verb, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    names = tuple(name for name in rest.replace(",", " ").replace("@", " ").split() if name)
    match verb:
        case "/hold":
            return p.Hold()
        case "/resume":
            return p.Resume()
        case "/next" if names:
            return p.Reorder(next=names)
        case "/drop" if names:
            return p.Drop(members=names)
        case "/remove" if len(names) == 1:
            return p.RemoveMember(member=names[0])
        case "/policy" if len(names) == 2:
            return p.ChangePolicy(member=names[0], policy=names[1])
        case "/end":
            return p.EndTeam(reason=rest)
        case "/say" if rest:
            return p.Speak(text=rest, member=speaker)
        case _ if verb.startswith("@") and rest:
            return p.Speak(text=rest, to=(p.NextSpeaker(verb[1:].rstrip(",:")),), member=speaker)
        case _ if usage := next((usage for usage in COMMANDS if usage.split()[0] == verb), ""):
            raise UsageError(f"invalid use of {verb}", field="line", hint=f"Type {usage}.")
        case _ if verb.startswith("/"):
            raise UsageError(f"{verb} is not a command", field="line", hint=f"Use {', '.join(COMMANDS)}.")
        case _ if verb.startswith("@"):
            raise UsageError(f"the message to {verb} is empty", field="line", hint="Type @NAME WORDS.")
        case _:
            return p.Speak(text=line.strip(), member=speaker)
