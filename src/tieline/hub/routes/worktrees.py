"""The git worktrees that sessions work in: compare, merge, rebase, discard."""

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from ...errors import TielineError, UsageError
from ...protocol.commands import AnyCommand, DiscardWorktree, GetWorktree, MergeWorktree, RebaseWorktree
from ...protocol.views import CommandView
from ...sessions.records import SESSIONS, SessionRecord
from ...sessions.session_worktrees import WorktreeOutcome, WorktreeStatus
from ..http.request import Request, json_response
from ..http.route_spec import RouteSpec
from ..http.routing import get, post
from ..nodes.command_helpers import command_response, get_session, node_of_session, send_command
from ..security.auth import actor_name

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["worktrees"]
AT_ONCE = 4
"""Worktrees that are looked at at a time."""
REFUSALS = ("NotFound", "NodeOffline", "Unsupported")
CONFLICTS = ("NotFound", "MergeConflict", "NodeOffline", "Unsupported")

_session = msgspec.json.Decoder(SessionRecord).decode
_status = msgspec.json.Decoder(WorktreeStatus).decode
_outcome = msgspec.json.Decoder(WorktreeOutcome).decode


@get("/api/v1/worktrees", tags=TAGS, spec=RouteSpec(response=list[WorktreeStatus]))
async def worktrees(request: Request, ended: bool = False) -> Response:
    """Worktrees of sessions, archived ones too, the last active first. Those that were merged or discarded only with
    `ended`."""
    records = [_session(entry.value) for entry in await request.hub.bus.table(SESSIONS).entries()]
    shown = [record for record in records if record.worktree is not None and (ended or not record.worktree.ended)]
    shown.sort(key=lambda record: (record.active_at, record.id), reverse=True)
    limit = asyncio.Semaphore(AT_ONCE)

    async def look(record: SessionRecord) -> WorktreeStatus:
        assert record.worktree is not None
        async with limit:
            try:
                result = await send_command(request, record.node, GetWorktree(session=record.id))
                assert not isinstance(result, CommandView)  # it only reads
                return _status(result.value)
            except TielineError as error:
                worktree, problem = record.worktree, error.message
                return WorktreeStatus(session=record.id, title=record.title, worktree=worktree, problem=problem)

    return json_response(await asyncio.gather(*map(look, shown)))


@get(
    "/api/v1/sessions/{session}/worktree",
    tags=TAGS,
    spec=RouteSpec(response=WorktreeStatus, problems=REFUSALS),
)
async def worktree(request: Request, session: str) -> Response:
    """How a session's worktree stands to the present state of its base branch."""
    record = await _with_worktree(request, session)
    return command_response(await send_command(request, record.node, GetWorktree(session=session)))


@post(
    "/api/v1/sessions/{session}/worktree/merge",
    tags=TAGS,
    spec=RouteSpec(response=WorktreeOutcome, may_be_pending=True, problems=CONFLICTS),
)
async def merge(request: Request, session: str) -> Response:
    """Merge it into its base branch, and remove it. What is not committed is committed first. With a conflict, or
    changes in the way, nothing is merged."""
    return await _change(request, session, MergeWorktree(session=session))


@post(
    "/api/v1/sessions/{session}/worktree/rebase",
    tags=TAGS,
    spec=RouteSpec(response=WorktreeOutcome, may_be_pending=True, problems=CONFLICTS),
)
async def rebase(request: Request, session: str) -> Response:
    """Make its commits anew on the base branch as it is now. What is not committed is committed first. With a conflict
    nothing is rebased."""
    return await _change(request, session, RebaseWorktree(session=session))


@post(
    "/api/v1/sessions/{session}/worktree/discard",
    tags=TAGS,
    spec=RouteSpec(response=WorktreeOutcome, may_be_pending=True, problems=REFUSALS),
)
async def discard(request: Request, session: str) -> Response:
    """Remove it. What is not merged is kept in the repository, under the reference that `kept_as` names."""
    return await _change(request, session, DiscardWorktree(session=session))


async def _change(request: Request, session: str, command: AnyCommand) -> Response:
    record = await _with_worktree(request, session)
    result = await send_command(request, record.node, command)
    assert record.worktree is not None
    done = command.name if isinstance(result, CommandView) else _outcome(result.value).done
    details = {"session": session, "done": done, "branch": record.worktree.branch, "into": record.worktree.into}
    request.hub.audit.record("worktree", actor_name(request.context.known_device), request.context.via, **details)
    return command_response(result)


async def _with_worktree(request: Request, session: str) -> SessionRecord:
    await node_of_session(request.hub, session)
    record = await get_session(request.hub, session)
    if record.worktree is None:
        hint = "A session gets one when it begins: `tieline run --worktree`."
        raise UsageError(f"session {session} has no worktree of its own", field="session", hint=hint)
    return record


def routes(hub: "Hub") -> list[Any]:
    return [worktrees, worktree, merge, rebase, discard]
