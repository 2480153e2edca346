"""What people do with a session's changes: stage, commit, take back, push; and its files.

What cannot be undone by itself is asked twice: the first request gives a plan with its digest and changes nothing, the
second carries that digest. Both are a person's.
"""

from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from ...protocol.changes import Agreement, CommitMessage, FileChoice, NewPullRequest, Reversal
from ...protocol.commands import (
    AnyCommand,
    CommitStaged,
    DiscardChanges,
    GetWorkingTree,
    OpenPullRequest,
    PushBranch,
    ReadFile,
    RevertFiles,
    StageFiles,
)
from ...protocol.views import CommandView
from ...sessions.file_preview import WorkFile
from ...sessions.git_actions import ChangeOutcome, WorkingTree
from ..http.request import Request, parse_body
from ..http.route_spec import RouteSpec
from ..http.routing import get, post
from ..nodes.command_helpers import command_response, node_of_session, send_command
from ..security.auth import actor_name

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["changes"]
CHANGES = "/api/v1/sessions/{session}/changes"
PROBLEMS = ("NotFound", "NodeOffline", "Unsupported")

_outcome = msgspec.json.Decoder(ChangeOutcome).decode


@get(CHANGES, tags=TAGS, spec=RouteSpec(response=WorkingTree, problems=PROBLEMS))
async def changes(request: Request, session: str) -> Response:
    """Its repository: the files that differ from the last commit, the branch, and how far that is pushed."""
    node = await node_of_session(request.hub, session)
    return command_response(await send_command(request, node, GetWorkingTree(session=session)))


@get("/api/v1/sessions/{session}/file", tags=TAGS, spec=RouteSpec(response=WorkFile, problems=PROBLEMS))
async def file(request: Request, session: str, path: str) -> Response:
    """A file in its directory: a text up to a limit, or an image."""
    node = await node_of_session(request.hub, session)
    return command_response(await send_command(request, node, ReadFile(session=session, path=path)))


def _spec(body: Any, *, confirmed: bool = False, required: bool = True) -> RouteSpec:
    problems = (*PROBLEMS, "PlanChanged") if confirmed else PROBLEMS
    return RouteSpec(body=body, body_required=required, response=ChangeOutcome, may_be_pending=True, problems=problems)


@post(f"{CHANGES}/stage", tags=TAGS, spec=_spec(FileChoice))
async def stage(request: Request, session: str) -> Response:
    """Stage files as they are now."""
    wanted = await parse_body(request, FileChoice)
    return await _change(request, StageFiles(session=session, paths=wanted.paths))


@post(f"{CHANGES}/unstage", tags=TAGS, spec=_spec(FileChoice))
async def unstage(request: Request, session: str) -> Response:
    """Take files out of the next commit. The files themselves stay as they are."""
    wanted = await parse_body(request, FileChoice)
    return await _change(request, StageFiles(session=session, paths=wanted.paths, staged=False))


@post(f"{CHANGES}/commit", tags=TAGS, spec=_spec(CommitMessage))
async def commit(request: Request, session: str) -> Response:
    """Commit what is staged, as the user of that machine. Hooks and signing programs are not run."""
    wanted = await parse_body(request, CommitMessage)
    return await _change(request, CommitStaged(session=session, message=wanted.message))


@post(f"{CHANGES}/revert", tags=TAGS, spec=_spec(Reversal, confirmed=True))
async def revert(request: Request, session: str) -> Response:
    """Take files back to the last commit. What is thrown away is kept under a reference first."""
    wanted = await parse_body(request, Reversal)
    return await _change(request, RevertFiles(session=session, paths=wanted.paths, digest=wanted.digest))


@post(f"{CHANGES}/discard", tags=TAGS, spec=_spec(Agreement, confirmed=True, required=False))
async def discard(request: Request, session: str) -> Response:
    """Take all files back to the last commit. What is thrown away is kept under a reference first."""
    wanted = await parse_body(request, Agreement, empty=Agreement())
    return await _change(request, DiscardChanges(session=session, digest=wanted.digest))


@post(f"{CHANGES}/push", tags=TAGS, spec=_spec(Agreement, confirmed=True, required=False))
async def push(request: Request, session: str) -> Response:
    """Push the branch to its remote, never by force."""
    wanted = await parse_body(request, Agreement, empty=Agreement())
    return await _change(request, PushBranch(session=session, digest=wanted.digest))


@post(f"{CHANGES}/pull-request", tags=TAGS, spec=_spec(NewPullRequest, confirmed=True))
async def pull_request(request: Request, session: str) -> Response:
    """Open a pull request for the pushed branch, by the `gh` of that machine."""
    wanted = await parse_body(request, NewPullRequest)
    command = OpenPullRequest(session=session, title=wanted.title, body=wanted.body, digest=wanted.digest)
    return await _change(request, command)


async def _change(request: Request, command: AnyCommand) -> Response:
    hub = request.hub
    session = getattr(command, "session", "")
    result = await send_command(request, await node_of_session(hub, session), command)
    outcome = None if isinstance(result, CommandView) else _outcome(result.value)
    if outcome is None or outcome.plan is None:
        who, via = actor_name(request.context.known_device), request.context.via
        done = outcome.done if outcome else "not answered yet"
        hub.audit.record("changes", who, via, session=session, command=command.name, done=done)
    return command_response(result)


def routes(hub: "Hub") -> list[Any]:
    return [changes, file, stage, unstage, commit, revert, discard, push, pull_request]
