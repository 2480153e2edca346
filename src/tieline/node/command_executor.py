"""Executes the commands of a node through its session manager. Never raises: a refusal is in the result.

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
from ..errors import BusError, Conflict, TielineError, UsageError, kind_of
from ..protocol import commands as c
from ..protocol.commands import CommandEnvelope, Refusal, Result
from ..protocol.node_link import NodeStatus
from ..sessions.manager import SessionManager
from .agent_inventory import AgentInventory
from .command_handlers import CommandHandlers
from .node_identity import NodeIdentity

RESULTS = "results"
KEPT_S = 7 * 24 * 3600
"""How long a result, and with it the harmlessness of the same order again, is kept."""
REMEMBERED = 10_000
"""Results that are also held in memory."""
EXPIRED = "expired"
INDETERMINATE = "indeterminate"

ONCE = (c.ForkSession, c.Steer, c.CancelPrompt, c.MovePrompt, c.EditPrompt, *c.DECISIONS, *c.CHANGES)
"""Repeated, these would do something else: their results are durable before they are given."""

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(Result).decode


class CommandExecutor:
    """`async with CommandExecutor(router, bus, config, identity=…) as executor`. The router is entered by its owner."""

    def __init__(self, router: SessionManager, bus: Bus, config: Config, *, identity: NodeIdentity) -> None:
        self.router = router
        self.identity = identity
        self.agents = AgentInventory(config, router.driver)
        router.lost.append(self.agents.look_soon)
        router.opened.append(self.agents.look_at_models)
        self._config = config
        self._handlers = CommandHandlers(router, config, self.agents)
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
            sessions=len(self.router.sessions()),
        )

    async def execute(self, order: CommandEnvelope) -> Result:
        """Apply it, unless it was applied before or its time is up."""
        if isinstance(order.command, c.READING):
            return await self._apply(order)
        if known := self._known.get(order.id):
            return known
        if running := self._running.get(order.id):
            return await asyncio.shield(running)
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._running[order.id] = future
        try:
            result = await self._once(order)
        except BaseException as error:
            future.set_exception(error if isinstance(error, Exception) else asyncio.CancelledError())
            future.exception()  # whoever waits for it is told; nobody else need be
            raise
        finally:
            del self._running[order.id]
        future.set_result(result)
        if not _passes(result):
            self._known[order.id] = result
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return result

    async def _once(self, order: CommandEnvelope) -> Result:
        if not isinstance(order.command, ONCE) or _plans(order):
            return await self._apply(order)
        try:
            key = f"{self.identity.id}.{order.id}"
            if entry := await self._table.get(key):
                kept = _decode(entry.value)
                if kept.refusal is None or kept.refusal.code != INDETERMINATE:
                    return kept
                if isinstance(order.command, c.Steer):
                    return kept
            if isinstance(order.command, c.Steer) and not _late(order):
                # It cannot be told afterwards whether the agent heard it: better not at all than twice.
                unsure = _refused(order, INDETERMINATE, "Tieline stopped while it did this; it may have been done")
                await self._table.put(key, _encode(unsure), expect=0, ttl=KEPT_S)
            result = await self._apply(order)
            if not _passes(result):
                await self._table.put(key, _encode(result), ttl=KEPT_S)
            return result
        except Conflict:
            return _refused(order, INDETERMINATE, "the same command is being executed elsewhere")
        except TielineError as error:
            return _refusal(order, error)

    async def _apply(self, order: CommandEnvelope) -> Result:
        if _late(order):
            return _refused(order, EXPIRED, "the command has expired", "Check the current state, then send it again.")
        try:
            done = await self._handlers.handle(order)
            return Result(id=order.id, value=msgspec.Raw(_encode(done)), at=time.time())
        except TielineError as error:
            return _refusal(order, error)
        except Exception as error:  # the order is at fault or we are: either way its sender must hear of it
            return _refused(order, "InternalError", f"{order.command.name} failed: {type(error).__name__}: {error}")


def _plans(order: CommandEnvelope) -> bool:
    """A change of files without a digest changes nothing: it asks what would happen."""
    return isinstance(order.command, c.CHANGES) and getattr(order.command, "digest", None) == ""


def _late(order: CommandEnvelope) -> bool:
    return 0 < order.expires_at < time.time()


def _passes(result: Result) -> bool:
    """A failure of the bus. The same order again may go well, so it is not what becomes of it."""
    kind = kind_of(result.refusal.code) if result.refusal else None
    return kind is not None and issubclass(kind, BusError)


def _refusal(order: CommandEnvelope, error: TielineError) -> Result:
    field = error.field if isinstance(error, UsageError) else ""
    return _refused(order, type(error).__name__, error.message, error.hint, field)


def _refused(order: CommandEnvelope, code: str, message: str, hint: str = "", field: str = "") -> Result:
    return Result(id=order.id, refusal=Refusal(code=code, message=message, hint=hint, field=field), at=time.time())
