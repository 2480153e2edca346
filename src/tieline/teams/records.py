"""Where a conversation is kept: its log, entry by entry, and a summary for lists. The log is the truth: its state is
folded from it, so that any hub on the bus can go on where another was killed."""

import msgspec

from ..errors import UsageError
from ..protocol.teams import AnyEntry, TeamRecord

TEAMS = "teams"
"""The table of summaries."""
MAX_TEXT = 200_000
"""Characters of one message; what is longer is cut, with a mark."""


def subject(team: str) -> str:
    return f"teams.{team}"


class UnknownTeam(UsageError):
    def __init__(self, id: str) -> None:
        super().__init__(f"there is no team conversation {id}", field="team", hint="`tieline team list` shows them.")


encode_entry = msgspec.json.encode
decode_entry = msgspec.json.Decoder(AnyEntry).decode
decode_record = msgspec.json.Decoder(TeamRecord).decode


def within_limit(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}\n[{len(text) - MAX_TEXT:,} more characters are in the member's own session]"
