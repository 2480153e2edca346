"""`tieline dead`: what did not arrive."""

from collections.abc import Sequence

from msgspec.structs import replace

from ...client.client import Client
from ...errors import UsageError
from ...protocol.messages import DeadSelection
from .. import hub_connection
from ..errors import FAILED
from ..terminal.formatting import listed_id, print_json, time_ago
from ..terminal.sanitize import clean, one_line
from ..terminal.tables import print_rows
from .messages import letter_line


def list_letters(pattern: str, sender: str, reason: str, *, limit: int, json: bool) -> int:
    async def work(client: Client) -> int:
        letters = await client.dead_letters(pattern=pattern, sender=sender, reason=reason, limit=limit)
        if json:
            print_json(letters)
            return 0
        print_rows(
            ("message", "why", "attempts", "when", "from", "to", "says"),
            [
                (
                    listed_id(letter.envelope.id),
                    (letter.reason, "red"),
                    str(letter.attempts),
                    time_ago(letter.at),
                    letter.envelope.sender,
                    letter.envelope.subject,
                    one_line(letter.envelope.payload.as_text(), 60),
                )
                for letter in letters
            ],
            "No dead letters.",
            optional=("attempts", "from"),
        )
        return 0

    return hub_connection.run_with_client(work)


def show(id: str, *, json: bool) -> int:
    async def work(client: Client) -> int:
        letter = await client.dead_letter(await hub_connection.find_message(client, id))
        if json:
            print_json(letter)
            return 0
        budget = letter.envelope.budget
        print(letter_line(letter))
        print(f"  {budget.hops} of {budget.max_hops} hops, {budget.calls_left} calls left, {letter.attempts} attempts")
        print(f"  came from {' → '.join(budget.ancestors) or 'nowhere'}\n")
        print(clean(letter.envelope.payload.as_text()))
        return 0

    return hub_connection.run_with_client(work)


def retry(ids: Sequence[str], pattern: str, sender: str, reason: str, *, json: bool) -> int:
    chosen = _selection(ids, pattern, sender, reason)

    async def work(client: Client) -> int:
        outcomes = await client.retry_dead(await _with_whole_ids(client, chosen))
        if json:
            print_json(outcomes)
        else:
            print_rows(
                ("dead letter", "became"),
                [(outcome.id, outcome.sent_as if outcome.done else (outcome.problem, "red")) for outcome in outcomes],
                "None fits.",
            )
        return 0 if all(outcome.done for outcome in outcomes) else FAILED

    return hub_connection.run_with_client(work)


def drop(ids: Sequence[str], pattern: str, sender: str, reason: str, *, json: bool) -> int:
    chosen = _selection(ids, pattern, sender, reason)

    async def work(client: Client) -> int:
        count = await client.drop_dead(await _with_whole_ids(client, chosen))
        if json:
            print_json({"dropped": count})
        else:
            print(f"{count} dropped")
        return 0

    return hub_connection.run_with_client(work)


def _selection(ids: Sequence[str], pattern: str, sender: str, reason: str) -> DeadSelection:
    if not (ids or pattern or sender or reason):
        raise UsageError("no dead letter is selected", field="ids", hint="Give ids, --pattern, --from or --reason.")
    return DeadSelection(ids=tuple(ids), pattern=pattern, sender=sender, reason=reason)


async def _with_whole_ids(client: Client, chosen: DeadSelection) -> DeadSelection:
    return replace(chosen, ids=tuple([await hub_connection.find_message(client, id) for id in chosen.ids]))
