"""Helpers of routes: send commands to nodes, look up sessions, asks and nodes."""

import re
from collections.abc import Sequence

import msgspec
from starlette.responses import Response

from ...bus.base import MAX_RECORD
from ...drivers.base import Attachment
from ...errors import Unsupported, UsageError
from ...ids import new_id
from ...policy import Policy, preset
from ...protocol.commands import AnyCommand, Result
from ...protocol.views import CommandView, NodeView
from ...sessions.records import ASKS, SESSIONS, AskRecord, SessionRecord
from ..http.problems import NotFound, RequestRefused
from ..http.request import Request, json_response
from ..hub import Hub
from ..security.auth import actor_name

ACCEPTED = 202

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_session = msgspec.json.Decoder(SessionRecord).decode
_ask = msgspec.json.Decoder(AskRecord).decode


async def send_command(request: Request, node: str, command: AnyCommand, *, id: str = "") -> Result | CommandView:
    """Sends a command in the device's name. Raises what it is refused for."""
    by = actor_name(request.context.known_device)
    return await request.hub.dispatcher.dispatch(node, command, by=by, id=id or request.context.command_id or new_id())


def command_response(outcome: Result | CommandView, status: int = 200) -> Response:
    """The node's result, or 202 with the command's state when the node has not answered yet."""
    return (
        json_response(outcome, ACCEPTED)
        if isinstance(outcome, CommandView)
        else json_response(bytes(outcome.value), status)
    )


async def get_session(hub: Hub, id: str) -> SessionRecord:
    """As it is on the bus right now: whoever changed something sees it changed."""
    value = await _read_value(hub, SESSIONS, id)
    if value is None:
        raise NotFound("session", id)
    return _session(value)


async def node_of_session(hub: Hub, session: str) -> str:
    """Who runs a session. That never changes, so memory will do."""
    known = hub.state.sessions.get(session)
    return (known or await get_session(hub, session)).node


async def get_ask(hub: Hub, id: str) -> AskRecord:
    known = await _read_value(hub, ASKS, id)
    if known is None:
        raise NotFound("ask", id)
    return _ask(known)


async def choose_node(hub: Hub, id: str) -> NodeView:
    """The node that is named; without a name the hub's own, or the only one."""
    if id:
        return await hub.nodes.get(id)
    nodes = await hub.nodes.all()
    own = [node for node in nodes if hub.local is not None and node.id == hub.local.identity.id]
    if own:
        return own[0]
    if len(nodes) == 1:
        return nodes[0]
    if not nodes:
        raise RequestRefused("Conflict", "there is no node yet", field="node", hint="Start one: `tieline node join`.")
    raise UsageError(
        "there are several nodes; specify one", field="node", hint="Known: " + ", ".join(node.id for node in nodes)
    )


def check_cwd(cwd: str) -> str:
    """A directory on the node's machine."""
    if cwd and (not cwd.startswith("/") or "\0" in cwd or ".." in cwd.split("/")):
        raise UsageError("a directory is an absolute path without ..", field="cwd", hint="See nodes/{id}/browse.")
    return cwd


def chosen_policy(hub: Hub, policy: Policy | str | None) -> Policy:
    return policy if isinstance(policy, Policy) else preset(policy or hub.config.policy)


def check_client_id(field: str, id: str) -> str:
    """An id that the caller made up."""
    if id and not _ID.fullmatch(id):
        raise UsageError("an id has 1 to 64 letters, digits, - or _", field=field)
    return id


async def _read_value(hub: Hub, table: str, key: str) -> bytes | None:
    if not _ID.fullmatch(key):
        return None
    entry = await hub.bus.table(table).get(key)
    return None if entry is None else entry.value


PROMPT_ROOM = 4096
"""Bytes of a prompt's record beside the request body."""


def check_prompt_files(attachments: Sequence[Attachment], size: int) -> None:
    """Refuses files by a path, and what does not fit into a record. `size` is the request body's."""
    for index, attachment in enumerate(attachments):
        if attachment.path:
            hint = "Send its content as `data` (base64) with its `media_type`."
            raise UsageError(
                "a path would name a file of the node's machine", field=f"attachments[{index}].path", hint=hint
            )
        if "/" in attachment.name or "\\" in attachment.name or attachment.name in (".", ".."):
            raise UsageError("attachment name must not contain a path", field=f"attachments[{index}].name")
    check_prompt_size(size, field="attachments" if attachments else "text")


def check_prompt_size(size: int, *, field: str) -> None:
    if size > (room := MAX_RECORD - PROMPT_ROOM):
        raise RequestRefused(
            "RecordTooLarge",
            f"a prompt with its attachments (in base64) is one record of {room:,} bytes; it has {size:,}",
            field=field,
            hint="Put large files where the agent can read them and name their path in the text.",
        )


def check_worktrees(node: NodeView) -> None:
    """Raises Unsupported for a machine that would work in the repository itself."""
    if "worktrees" in node.limits:
        hint = "It runs another version of Tieline; update the older one."
        raise Unsupported(f"the machine {node.name or node.id}", "worktrees", hint=hint)
