"""Executes the commands of a node through its session manager.

A command that may not happen twice has its result stored under the command's id, and the same command again returns
that result. The others are harmless to repeat by their nature: a session and a prompt are known by their own ids.
The value of each command is in `command_handlers.RESULT_TYPES`.
"""

import asyncio
import time
from collections import OrderedDict

import msgspec

from ..bus.base import Bus, Table
from ..config import Config
from ..errors import BusError, Conflict, TielineError
from ..protocol import commands as c
from ..protocol.commands import CommandEnvelope, CommandRefused, Result, raise_if_refused, refusal_of
from ..protocol.node_link import NodeStatus
from ..sessions.manager import SessionManager
from .agent_inventory import AgentInventory
from .command_handlers import CommandHandlers
from .node_identity import NodeIdentity

RESULTS = "results"
KEPT_S = 7 * 24 * 3600
"""How long a result, and with it the harmlessness of the same command again, is kept."""
REMEMBERED = 10_000
"""Results that are also held in memory."""
EXPIRED = "expired"
INDETERMINATE = "indeterminate"

ONCE = (c.ForkSession, c.Steer, c.CancelPrompt, c.MovePrompt, c.EditPrompt, *c.DECISIONS, *c.CHANGES)
"""Repeated, these would do something else: their results are durable before they are given."""

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(Result).decode


class CommandExecutor:
    """`async with CommandExecutor(manager, bus, config, identity=…) as executor`. Its owner enters the manager."""

    def __init__(self, manager: SessionManager, bus: Bus, config: Config, *, identity: NodeIdentity) -> None:
        self.manager = manager
        self.identity = identity
        self.agents = AgentInventory(config, manager.driver)
        manager.lost.append(self.agents.look_soon)
        manager.opened.append(self.agents.look_at_models)
        self._config = config
        self._handlers = CommandHandlers(manager, config, self.agents)
        self._table: Table = bus.table(RESULTS)
        self._known: OrderedDict[str, Result] = OrderedDict()
        self._running: dict[str, asyncio.Future[Result]] = {}

    async def __aenter__(self) -> "CommandExecutor":
        await self.agents.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.agents.__aexit__()

    def status(self) -> NodeStatus:
        return NodeStatus(
            agents=self.agents.views,
            default_agent=self._config.default_agent,
            home=self._config.environ.get("HOME", ""),
            sessions=len(self.manager.sessions()),
        )

    async def execute(self, envelope: CommandEnvelope) -> Result:
        """Apply it, unless it was applied before or its time is up. Raises the error that it is refused for, and
        CommandRefused for what was refused before."""
        if isinstance(envelope.command, c.READING):
            return await self._apply(envelope)
        if known := self._known.get(envelope.id):
            return raise_if_refused(known)
        if running := self._running.get(envelope.id):
            return await asyncio.shield(running)
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._running[envelope.id] = future
        once = isinstance(envelope.command, ONCE) and not _plans(envelope)
        try:
            result = await (self._apply_once(envelope) if once else self._apply(envelope))
        except BaseException as error:
            future.set_exception(error if isinstance(error, Exception) else asyncio.CancelledError())
            future.exception()  # whoever waits for it is told; nobody else need be
            remembered = envelope.id in self._known
            if isinstance(error, TielineError) and not isinstance(error, BusError) and not remembered:
                self._remember(_refused_result(envelope, error))
            raise
        finally:
            del self._running[envelope.id]
        future.set_result(result)
        self._remember(result)
        return result

    async def result_of(self, envelope: CommandEnvelope) -> Result:
        """`execute` for a sender elsewhere: a refusal is in the result."""
        try:
            return await self.execute(envelope)
        except TielineError as error:
            return self._known.get(envelope.id) or _refused_result(envelope, error)

    def _remember(self, result: Result) -> None:
        self._known[result.id] = result
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    async def _apply_once(self, envelope: CommandEnvelope) -> Result:
        key = f"{self.identity.id}.{envelope.id}"
        steers = isinstance(envelope.command, c.Steer)
        if entry := await self._table.get(key):
            kept = _decode(entry.value)
            if steers or kept.refusal is None or kept.refusal.code != INDETERMINATE:
                self._remember(kept)
                return raise_if_refused(kept)
        if steers and not _late(envelope):
            # It cannot be told afterwards whether the agent heard it: better not at all than twice.
            unsure = CommandRefused(INDETERMINATE, "Tieline stopped while it did this; it may have been done")
            try:
                await self._table.put(key, _encode(_refused_result(envelope, unsure)), expect=0, ttl=KEPT_S)
            except Conflict:
                raise CommandRefused(INDETERMINATE, "the same command is being executed elsewhere") from None
        try:
            result = await self._apply(envelope)
        except BusError:
            raise  # the same command again may go well, so this is not what becomes of it
        except TielineError as error:
            refused = _refused_result(envelope, error)
            await self._table.put(key, _encode(refused), ttl=KEPT_S)
            self._remember(refused)
            raise
        await self._table.put(key, _encode(result), ttl=KEPT_S)
        return result

    async def _apply(self, envelope: CommandEnvelope) -> Result:
        if _late(envelope):
            hint = "Check the current state, then send it again."
            raise CommandRefused(EXPIRED, "the command has expired", hint=hint)
        try:
            value = await self._handlers.handle(envelope)
            return Result(id=envelope.id, value=msgspec.Raw(_encode(value)), at=time.time())
        except TielineError:
            raise
        except Exception as error:  # the command is at fault or we are: either way its sender must hear of it
            name = envelope.command.name
            raise CommandRefused("InternalError", f"{name} failed: {type(error).__name__}: {error}") from error


def _plans(envelope: CommandEnvelope) -> bool:
    """A change of files without a digest changes nothing: it asks what would happen."""
    return isinstance(envelope.command, c.CHANGES) and getattr(envelope.command, "digest", None) == ""


def _late(envelope: CommandEnvelope) -> bool:
    return 0 < envelope.expires_at < time.time()


def _refused_result(envelope: CommandEnvelope, error: TielineError) -> Result:
    return Result(id=envelope.id, refusal=refusal_of(error), at=time.time())
