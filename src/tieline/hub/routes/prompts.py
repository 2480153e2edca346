"""Prompts: what is said to a session."""

from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Response, delete, get, post
from litestar.params import FromPath, FromQuery

from ...bus.base import MAX_RECORD
from ...errors import UsageError
from ...ids import new_id
from ...protocol.bodies import NewPrompt, PromptMove
from ...protocol.commands import CancelPrompt, MovePrompt, SendPrompt, Steer
from ...protocol.views import PromptView, view
from ...sessions.records import PROMPTS, PromptRecord
from ..problems import Refused
from ..request import Asked, answer, body, hub_of, once_of
from ..spec import spec
from ..telling import check_own_id, node_of, tell, told

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["prompts"]
ROOM = 4096
"""What a prompt's record holds beside what was sent."""

_decode = msgspec.json.Decoder(PromptRecord).decode


@get("/api/v1/sessions/{session:str}/prompts", tags=TAGS, opt=spec(gives=list[PromptView], problems=("NotFound",)))
async def prompts(request: Asked, session: FromPath[str], over: FromQuery[bool] = False) -> Response[bytes]:
    """Those that wait or run, in their order; with `over=true` also those that ended lately."""
    hub = hub_of(request)
    await node_of(hub, session)
    entries = await hub.bus.table(PROMPTS).entries(f"{session}.>")
    found = [one for one in (_decode(entry.value) for entry in entries) if over or not one.over]
    found.sort(key=lambda one: (one.status != "running", one.place, one.id) if not over else (False, one.place, one.id))
    return answer([view(one) for one in found])


@post(
    "/api/v1/sessions/{session:str}/prompts",
    tags=TAGS,
    opt=spec(
        body=NewPrompt,
        gives=PromptView | None,
        status=201,
        later=True,
        problems=("NotFound", "RecordTooLarge", "Unsupported", "AgentError"),
    ),
)
async def send(request: Asked, session: FromPath[str]) -> Response[bytes]:
    """Send a prompt; it runs when those before it are done. With `steer` it goes into the running turn instead.

    A prompt and its attachments (in base64) are one record: 1 MiB in all."""
    hub = hub_of(request)
    new = await body(request, NewPrompt)
    node = await node_of(hub, session)
    _check(new, len(await request.body()))
    if new.steer:
        return told(await tell(request, node, Steer(session=session, text=new.text)))
    command = SendPrompt(
        session=session,
        prompt=check_own_id("id", new.id) or once_of(request) or new_id(),
        text=new.text,
        attachments=new.attachments,
        timeout_s=new.timeout_s,
    )
    if hub.traces is not None:
        hub.traces.begin(command.prompt, session, request.headers.get("traceparent", ""))
    return told(await tell(request, node, command), 201)


@delete(
    "/api/v1/sessions/{session:str}/prompts/{prompt:str}",
    tags=TAGS,
    status_code=200,
    opt=spec(gives=PromptView, later=True, problems=("NotFound",)),
)
async def cancel(request: Asked, session: FromPath[str], prompt: FromPath[str]) -> Response[bytes]:
    """Take back a prompt that has not begun. A running one is aborted instead."""
    node = await node_of(hub_of(request), session)
    return told(await tell(request, node, CancelPrompt(session=session, prompt=check_own_id("prompt", prompt))))


@post(
    "/api/v1/sessions/{session:str}/prompts/{prompt:str}/move",
    tags=TAGS,
    status_code=200,
    opt=spec(body=PromptMove, needs_body=False, gives=PromptView, later=True, problems=("NotFound",)),
)
async def move(request: Asked, session: FromPath[str], prompt: FromPath[str]) -> Response[bytes]:
    """Put a waiting prompt before another one, or at the end."""
    wanted = await body(request, PromptMove, empty=PromptMove())
    node = await node_of(hub_of(request), session)
    command = MovePrompt(session=session, prompt=check_own_id("prompt", prompt), before=wanted.before)
    return told(await tell(request, node, command))


def routes(hub: "Hub") -> list[Any]:
    return [prompts, send, cancel, move]


def _check(new: NewPrompt, size: int) -> None:
    if not new.text and not new.attachments:
        raise UsageError("the prompt is empty", field="text")
    if new.steer and new.attachments:
        raise UsageError("a running turn takes words only", field="attachments", hint="Send them as a prompt.")
    for place, attachment in enumerate(new.attachments):
        if attachment.path:
            hint = "Send its content as `data` (base64) with its `media_type`."
            raise UsageError(
                "a path would name a file of the node's machine", field=f"attachments[{place}].path", hint=hint
            )
        if "/" in attachment.name or "\\" in attachment.name or attachment.name in (".", ".."):
            raise UsageError("a name is not a path", field=f"attachments[{place}].name")
    if size > MAX_RECORD - ROOM:
        raise Refused(
            "RecordTooLarge",
            f"a prompt with its attachments (in base64) is one record of {MAX_RECORD - ROOM:,} bytes; it has {size:,}",
            field="attachments" if new.attachments else "text",
            hint="Put large files where the agent can read them and name their path in the text.",
        )
