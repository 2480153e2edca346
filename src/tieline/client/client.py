"""The typed client of a hub: everything that its REST API can do, and its stream."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from msgspec.structs import replace

from ..drivers.base import Prompt
from ..environment import inherited
from ..events import Event
from ..ids import new_id
from ..protocol.request_bodies import NewSession
from ..sessions.ask_decisions import OnAsk
from .changes import ChangesApi
from .hub_address import find_hub
from .members import MembersApi
from .messages import MessagesApi
from .nodes import AccessApi, NodesApi
from .rules import RulesApi
from .schedules import SchedulesApi
from .search import SearchApi
from .sessions import SessionsApi
from .teams import TeamsApi
from .usage import UsageApi
from .worktrees import WorktreesApi


class Client(
    SessionsApi,
    ChangesApi,
    WorktreesApi,
    NodesApi,
    AccessApi,
    MessagesApi,
    MembersApi,
    TeamsApi,
    UsageApi,
    SchedulesApi,
    SearchApi,
    RulesApi,
):
    """`async with Client(url, token) as client`; `socket` is the owner's way in, on the hub's own machine.

    Whatever changes something is sent with an id of its own and again when the connection is lost on the way: it
    happens once. What the hub refuses is raised by its name (UsageError, AlreadyAnswered, NodeOffline …).
    """

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.__aexit__()

    async def turn(
        self,
        session: NewSession | str,
        prompt: Prompt | str,
        *,
        on_ask: OnAsk | None = None,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[Event, None]:
        """One turn from its prompt to its `Done`: of a session that is made for it, or of the one with that id. The
        stream is open before the prompt is sent, so nothing is missed, the first ask neither. `on_ask` decides what is
        asked (an Answer, True or False, also awaited); without it the turn waits until another client decides. A caller
        that stops iterating early interrupts the turn."""
        from .hub_session import HubSession

        exists = isinstance(session, str)
        new = NewSession(id=session) if isinstance(session, str) else replace(session, id=session.id or new_id())
        full_prompt = Prompt(prompt) if isinstance(prompt, str) else prompt
        async with (
            HubSession(self, new, on_ask, exists=exists) as hub_session,
            aclosing(hub_session.turn(full_prompt, timeout=timeout_s)) as events,
        ):
            async for event in events:
                yield event


def connect(env: Mapping[str, str] | None = None, *, patience_s: float = 15.0) -> Client:
    """A client of the hub that TIELINE_HUB and TIELINE_TOKEN name, or of the one that runs here. Raises NoHub."""
    address = find_hub(inherited() if env is None else env)
    return Client(address.url, address.token, socket=address.socket, patience_s=patience_s)
