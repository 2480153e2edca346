"""Prompts of a session: list, send, cancel, move, edit, send again."""

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from ...errors import UsageError
from ...ids import new_id
from ...protocol.commands import CancelPrompt, EditPrompt, MovePrompt, SendPrompt, Steer
from ...protocol.request_bodies import NewPrompt, PromptEdit, PromptMove
from ...protocol.views import PromptView, view
from ...sessions.file_preview import WorkFile, shown_file
from ...sessions.prompt_queue import prompt_key
from ...sessions.records import PROMPTS, RETRIABLE, PromptRecord
from ..http.problems import NotFound
from ..http.request import Request, json_response, parse_body
from ..http.route_spec import RouteSpec
from ..http.routing import delete, get, patch, post
from ..nodes.command_helpers import (
    check_client_id,
    check_prompt_files,
    check_prompt_size,
    command_response,
    node_of_session,
    send_command,
)

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["prompts"]
_decode = msgspec.json.Decoder(PromptRecord).decode


@get("/api/v1/sessions/{session}/prompts", tags=TAGS, spec=RouteSpec(response=list[PromptView], problems=("NotFound",)))
async def prompts(request: Request, session: str, over: bool = False) -> Response:
    """Waiting and running prompts, in order; with `over=true` also those that ended recently."""
    hub = request.hub
    await node_of_session(hub, session)
    entries = await hub.bus.table(PROMPTS).entries(f"{session}.>")
    records = [record for record in (_decode(entry.value) for entry in entries) if over or not record.over]
    records.sort(
        key=lambda record: (
            (record.status != "running", record.place, record.id) if not over else (False, record.place, record.id)
        )
    )
    return json_response([view(record) for record in records])


@post(
    "/api/v1/sessions/{session}/prompts",
    tags=TAGS,
    spec=RouteSpec(
        body=NewPrompt,
        response=PromptView | None,
        status=201,
        may_be_pending=True,
        problems=("NotFound", "RecordTooLarge", "Unsupported", "AgentError"),
    ),
)
async def send(request: Request, session: str) -> Response:
    """Send a prompt; it runs when those before it are done. With `steer` it goes into the running turn instead.

    A prompt and its attachments (in base64) are one record: 1 MiB in all."""
    hub = request.hub
    new = await parse_body(request, NewPrompt)
    node = await node_of_session(hub, session)
    _check(new, len(await request.body()))
    if new.steer:
        return command_response(await send_command(request, node, Steer(session=session, text=new.text)))
    command = SendPrompt(
        session=session,
        prompt=check_client_id("id", new.id) or request.context.command_id or new_id(),
        text=new.text,
        attachments=new.attachments,
        timeout_s=new.timeout_s,
    )
    if hub.traces is not None:
        hub.traces.begin(command.prompt, session, request.headers.get("traceparent", ""))
    return command_response(await send_command(request, node, command), 201)


@delete(
    "/api/v1/sessions/{session}/prompts/{prompt}",
    tags=TAGS,
    spec=RouteSpec(response=PromptView, may_be_pending=True, problems=("NotFound",)),
)
async def cancel(request: Request, session: str, prompt: str) -> Response:
    """Cancel a prompt that has not started. A running one is aborted instead."""
    node = await node_of_session(request.hub, session)
    return command_response(
        await send_command(request, node, CancelPrompt(session=session, prompt=check_client_id("prompt", prompt)))
    )


@post(
    "/api/v1/sessions/{session}/prompts/{prompt}/move",
    tags=TAGS,
    spec=RouteSpec(
        body=PromptMove, body_required=False, response=PromptView, may_be_pending=True, problems=("NotFound",)
    ),
)
async def move(request: Request, session: str, prompt: str) -> Response:
    """Put a waiting prompt before another one, or at the end."""
    wanted = await parse_body(request, PromptMove, empty=PromptMove())
    node = await node_of_session(request.hub, session)
    command = MovePrompt(session=session, prompt=check_client_id("prompt", prompt), before=wanted.before)
    return command_response(await send_command(request, node, command))


@patch(
    "/api/v1/sessions/{session}/prompts/{prompt}",
    tags=TAGS,
    spec=RouteSpec(
        body=PromptEdit,
        response=PromptView,
        may_be_pending=True,
        problems=("NotFound", "RecordTooLarge", "Unsupported"),
    ),
)
async def edit(request: Request, session: str, prompt: str) -> Response:
    """Replace the text of a waiting prompt. Its place and its attachments stay; a running one is refused."""
    wanted = await parse_body(request, PromptEdit)
    node = await node_of_session(request.hub, session)
    check_prompt_size(len(await request.body()), field="text")
    command = EditPrompt(session=session, prompt=check_client_id("prompt", prompt), text=wanted.text)
    return command_response(await send_command(request, node, command))


@post(
    "/api/v1/sessions/{session}/prompts/{prompt}/retry",
    tags=TAGS,
    spec=RouteSpec(
        response=PromptView, status=201, may_be_pending=True, problems=("NotFound", "Unsupported", "AgentError")
    ),
)
async def retry(request: Request, session: str, prompt: str) -> Response:
    """Send a prompt again that failed, or that may have run, with its attachments. Of each prompt there is one such
    copy: retrying it once more returns what became of that."""
    hub = request.hub
    node = await node_of_session(hub, session)
    ended = await _kept(hub, session, prompt)
    if ended.status not in RETRIABLE:
        raise UsageError(
            f"prompt {prompt!r} cannot be retried (status: {ended.status})",
            field="prompt",
            hint="Only failed or indeterminate prompts can be retried.",
        )
    command = SendPrompt(
        session=session,
        prompt=hashlib.sha256(f"again {session} {prompt}".encode()).hexdigest()[:28],
        text=ended.text,
        attachments=ended.attachments,
        timeout_s=ended.timeout_s,
        system=ended.system,
    )
    if hub.traces is not None:
        hub.traces.begin(command.prompt, session, request.headers.get("traceparent", ""))
    return command_response(await send_command(request, node, command), 201)


@get(
    "/api/v1/sessions/{session}/prompts/{prompt}/attachments/{number}",
    tags=TAGS,
    spec=RouteSpec(response=WorkFile, problems=("NotFound",)),
)
async def attachment(request: Request, session: str, prompt: str, number: str) -> Response:
    """A file that was given with a prompt, by its number from 0: a text up to a limit, or an image. It is kept for as
    long as the prompt: a week after its turn."""
    await node_of_session(request.hub, session)
    kept = (await _kept(request.hub, session, prompt)).attachments
    if not number.isascii() or not number.isdigit() or len(number) > 4 or int(number) >= len(kept):
        raise NotFound("attachment", number)
    file = kept[int(number)]
    return json_response(shown_file(file.describe().name, file.data))


async def _kept(hub: "Hub", session: str, prompt: str) -> PromptRecord:
    entry = await hub.bus.table(PROMPTS).get(prompt_key(session, check_client_id("prompt", prompt)))
    if entry is None:
        raise NotFound("prompt", prompt)
    return _decode(entry.value)


def routes(hub: "Hub") -> list[Any]:
    return [prompts, send, cancel, move, edit, retry, attachment]


def _check(new: NewPrompt, size: int) -> None:
    if not new.text and not new.attachments:
        raise UsageError("the prompt is empty", field="text")
    if new.steer and new.attachments:
        raise UsageError("a running turn takes text only", field="attachments", hint="Send them as a prompt.")
    check_prompt_files(new.attachments, size)
