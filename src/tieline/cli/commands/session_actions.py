"""`tieline archive|unarchive|rename|fork|retry`: what becomes of a session."""

from collections.abc import Callable, Sequence

from ...client.client import Client
from ...errors import UsageError
from ...ids import short_id
from ...protocol.request_bodies import NewPrompt, SessionChange
from ...protocol.views import CommandView, PromptView
from ...sessions.records import RETRIABLE, SessionRecord
from .. import hub_connection
from ..terminal.formatting import print_json
from ..terminal.sanitize import one_line
from .sessions import send_and_wait


def archive(given: Sequence[str], *, archived: bool, json: bool) -> int:
    async def work(client: Client) -> int:
        records = [
            await hub_connection.find_session(client, session) for session in given
        ]  # all are known before any changes
        changed = [await client.change_session(target.id, SessionChange(archived=archived)) for target in records]
        if json:
            print_json(changed)
            return 0
        for record, result in zip(records, changed, strict=True):
            hub_connection.print_outcome(
                result, _became(record, "archived" if archived else "listed again"), json=False
            )
        return 0

    return hub_connection.run_with_client(work)


def rename(given: str, title: str, *, json: bool) -> int:
    if not title.strip():
        raise UsageError("the title is empty", field="title", hint="Give a few words that the list shows.")

    async def work(client: Client) -> int:
        record = await hub_connection.find_session(client, given)
        result = await client.change_session(record.id, SessionChange(title=title.strip()))
        renamed = _became(record, f"renamed to {one_line(title.strip(), 80)!r}")
        return hub_connection.print_outcome(result, renamed, json=json)

    return hub_connection.run_with_client(work)


def fork(given: str, prompt: str, *, title: str, wait: bool, json: bool) -> int:
    if wait and not prompt:
        raise UsageError("--wait needs a prompt", field="wait", hint='tieline fork SESSION "…" --wait')
    text = hub_connection.read_text(prompt)

    async def work(client: Client) -> int:
        record = await hub_connection.find_session(client, given)
        made = await client.fork(record.id, title)
        if isinstance(made, CommandView):
            if text:
                raise UsageError(
                    "the session's machine is offline: the copy is made when it is back, without the prompt",
                    hint="`tieline sessions` lists the copy then; send the prompt to it.",
                )
            if json:
                print_json(made)
            else:
                hub_connection.print_pending(made)
            return 0
        if wait:
            return await send_and_wait(client, made, NewPrompt(text=text), json=json)
        sent = await client.prompt(made.id, text) if text else None
        if json:
            print_json({"session": made, "prompt": sent})
        elif isinstance(sent, CommandView):
            hub_connection.print_pending(sent)
        else:
            print(f"{made.id}  {made.agent}: {made.status if sent is None else sent.status}")
        return 0

    return hub_connection.run_with_client(work)


def retry(given: str, prompt: str, *, json: bool) -> int:
    async def work(client: Client) -> int:
        record = await hub_connection.find_session(client, given)
        known = await client.prompts(record.id, over=True)
        ended = hub_connection.find_prompt(prompt, known) if prompt else last_failed(known)
        result = await client.retry_prompt(record.id, ended.id)
        if json:
            print_json(result)
            return 0
        why = ended.problem or ended.outcome or "nobody knows how far it came"
        print(f"prompt {short_id(ended.id)}: {ended.status} ({one_line(why, 100)}): {one_line(ended.text, 80)}")
        if isinstance(result, CommandView):
            hub_connection.print_pending(result)
        else:
            print(f"sent again as {short_id(result.id)}: {result.status}")
        return 0

    return hub_connection.run_with_client(work)


def last_failed(prompts: Sequence[PromptView]) -> PromptView:
    """The prompt that ended last. Raises UsageError where it did not fail, or nothing ended lately."""
    ended = [prompt for prompt in prompts if prompt.ended_at and prompt.status != "cancelled"]
    if not ended:
        raise UsageError("no prompt has ended lately in this session", field="session", hint="Send one: tieline send")
    last = max(ended, key=lambda prompt: prompt.ended_at)
    if last.status not in RETRIABLE:
        raise UsageError(
            f"nothing to retry (status of the last prompt: {last.status}): {one_line(last.text, 80)}",
            field="session",
            hint="Name one that failed: `tieline retry SESSION PROMPT`.",
        )
    return last


def _became(record: SessionRecord, became: str) -> Callable[[SessionRecord], str]:
    named = f" {one_line(record.title, 60)!r}" if record.title else ""
    return lambda _: f"{short_id(record.id)}{named}: {became}"
