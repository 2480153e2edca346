"""`tieline queue`: the prompts of a session that wait; and cancel, move or edit one."""

from collections.abc import Awaitable, Callable

from ...client.client import Client
from ...errors import UsageError
from ...ids import short_id
from ...protocol.views import CommandView, PromptView
from .. import hub_connection
from ..terminal.formatting import print_json, time_ago
from ..terminal.sanitize import one_line
from ..terminal.tables import Cell, print_rows

TITLES = ("id", "status", "sent", "by", "text")
WAITING = ("received", "queued")


def show(session: str, *, json: bool) -> int:
    async def work(client: Client) -> int:
        prompts = await client.prompts((await hub_connection.find_session(client, session)).id)
        if json:
            print_json(prompts)
        else:
            print_rows(TITLES, [_row(prompt) for prompt in prompts], "No prompt runs or waits.")
        return 0

    return hub_connection.run_with_client(work)


def cancel(session: str, prompt: str, *, json: bool) -> int:
    async def change(client: Client, chosen: PromptView, _: list[PromptView]) -> PromptView | CommandView:
        return await client.cancel_prompt(chosen.session, chosen.id)

    return _change(session, prompt, "cancelled", change, json)


def move(session: str, prompt: str, *, before: str, first: bool, json: bool) -> int:
    if before and first:
        raise UsageError("give --before or --first, not both", field="before")

    async def change(client: Client, chosen: PromptView, queue: list[PromptView]) -> PromptView | CommandView:
        others = [other for other in queue if other.id != chosen.id and other.status in WAITING]
        target = hub_connection.find_prompt(before, others).id if before else ""
        if first and others:
            target = others[0].id
        return await client.move_prompt(chosen.session, chosen.id, before=target)

    return _change(session, prompt, "moved", change, json)


def edit(session: str, prompt: str, text: str, *, json: bool) -> int:
    new_text = hub_connection.read_text(text)
    if not new_text.strip():
        raise UsageError("the prompt is empty", field="text", hint="`tieline queue cancel` takes it from the queue.")

    async def change(client: Client, chosen: PromptView, _: list[PromptView]) -> PromptView | CommandView:
        return await client.edit_prompt(chosen.session, chosen.id, new_text)

    return _change(session, prompt, "edited", change, json)


def _change(
    session: str,
    prompt: str,
    became: str,
    change: Callable[[Client, PromptView, list[PromptView]], Awaitable[PromptView | CommandView]],
    json: bool,
) -> int:
    async def work(client: Client) -> int:
        queue = await client.prompts((await hub_connection.find_session(client, session)).id)
        result = await change(client, hub_connection.find_prompt(prompt, queue), queue)
        return hub_connection.print_outcome(
            result, lambda changed: f"{became}: {one_line(changed.text, 80)}", json=json
        )

    return hub_connection.run_with_client(work)


def _row(prompt: PromptView) -> list[Cell]:
    files = f" (+ {', '.join(prompt.attachments)})" if prompt.attachments else ""
    return [
        (short_id(prompt.id), "bold"),
        (prompt.status, "green" if prompt.status == "running" else ""),
        f"{time_ago(prompt.created_at)} ago",
        one_line(prompt.by, 20),
        one_line(prompt.text, 200) + one_line(files, 100),
    ]
