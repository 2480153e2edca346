"""After a gap in the event stream: read what may have been missed.

Everything of the turn is fed again; what was told before is not told again.
"""

from typing import Protocol

from ...wire.json_object import JsonObject
from ..turn_stream import Turn
from .asks import AskingConversation, OpenCodeAsks
from .event_stream import EventStream, OpenCodeListener


class Resyncing(AskingConversation, OpenCodeListener, Protocol):
    """A conversation that reads again."""

    @property
    def native_id(self) -> str: ...


async def resync(talk: Resyncing, turn: Turn, pending: OpenCodeAsks, stream: EventStream, *, since: str) -> bool:
    """Whether the session is idle. `since` is the last message before the turn. Raises OpenCodeError, Unreachable."""
    root, normaliser = talk.native_id, talk.normaliser
    states = await talk.request("GET", "/session/status")  # before the messages: if it is idle, they are final
    for each in sorted(await _messages(talk, root, since), key=_created):
        info = each["info"]
        talk.on_message({"type": "message.updated", "properties": {"sessionID": info["sessionID"], "info": info}})
        for part in each["parts"]:
            for event in normaliser.feed_part(part):
                turn.emit(event)
    if any(use.name == "todowrite" for use in normaliser.tools.values()):
        todos = await talk.request("GET", f"/session/{root}/todo")
        talk.on_message({"type": "todo.updated", "properties": {"sessionID": root, "todos": todos}})
    ours = {root, *normaliser.children}
    for child in normaliser.children:
        stream.join(talk, child)
    for path, asked in (("/permission", pending.permission_asked), ("/question", pending.question_asked)):
        waiting = [each for each in await talk.request("GET", path) if each["sessionID"] in ours]
        pending.withdraw_except({each["id"] for each in waiting}, path)
        for each in waiting:
            asked(each)
    return root not in states


async def _messages(talk: Resyncing, session: str, since: str, began: int = 0) -> list[JsonObject]:
    """The turn's messages of a session and its subagents."""
    messages: list[JsonObject] = await talk.request("GET", f"/session/{session}/message")
    known = [each["info"]["id"] for each in messages]
    messages = [each for each in messages[known.index(since) + 1 if since in known else 0 :] if _created(each) >= began]
    for part in [part for each in messages for part in each["parts"]]:
        state: JsonObject = part.get("state") or {}
        metadata: JsonObject = state.get("metadata") or {}
        child: str = metadata.get("sessionId", "")
        if child and part.get("tool") == "task":
            messages += await _messages(talk, child, "", state["time"]["start"])
    return messages


def _created(message: JsonObject) -> int:
    return message["info"]["time"]["created"]
