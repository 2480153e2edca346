"""The public Python API: run one agent, run several in parallel, or keep a session open."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Unpack, cast

from msgspec import Struct

from . import config as configuration
from .config import Config
from .drivers import registry
from .drivers.base import Driver, Prompt
from .drivers.options import Options, build_spec
from .errors import TielineError, UsageError, invalid_value
from .events import Done, Error, Event
from .sessions.ask_decisions import DEFAULT_EXPIRY_S, OnAsk
from .sessions.session import Session

MAX_PARALLEL = 8
"""How many jobs `run_parallel` works on at once by default: agents are heavy processes."""


class SessionOptions(Options, total=False):
    """The options of `run` and `open_session`: those of the agent, and who decides its asks."""

    on_ask: OnAsk | None
    ask_expiry_s: float
    config: Config | None


def open_session(
    agent: str | Driver,
    *,
    on_ask: OnAsk | None = None,
    ask_expiry_s: float = DEFAULT_EXPIRY_S,
    config: Config | None = None,
    **options: Unpack[Options],
) -> Session:
    """A session with an agent, to be entered with `async with`. Many turns, one warm agent.

    `on_ask` decides what the policy leaves open: it gets the Ask and gives True, False or an Answer, also awaited.
    Without it such asks are denied, as they are when it takes longer than `ask_expiry_s`. `config` is what
    `tieline.toml` says, unless it is given. For the others (cwd, policy, model …) see `help(tieline.Options)`.

    Nothing is started here. Raises UsageError for what cannot be: UnknownAgent, Unsupported, PolicyUnenforceable.
    Entering raises AgentError: AgentMissing, NotSignedIn, AgentStartFailed.
    """
    config = config or configuration.load()
    if not isinstance(agent, str):
        if not hasattr(cast("object", agent), "features"):
            hint = 'Give a name, such as "codex", or a driver.'
            raise UsageError(f"invalid agent of type {type(agent).__name__}", field="agent", hint=hint)
        return Session(agent, build_spec(config, **options), on_ask=on_ask, ask_expiry_s=ask_expiry_s)
    return Session(
        registry.create(agent, config),
        build_spec(config, agent, **options),
        on_ask=on_ask,
        ask_expiry_s=ask_expiry_s,
        timeout_s=registry.turn_timeout_s(agent, config),
    )


async def run(
    agent: str | Driver, prompt: str | Prompt, *, timeout: float | None = None, **options: Unpack[SessionOptions]
) -> AsyncGenerator[Event, None]:
    """One turn with an agent: its events, the last of them its one `Done`. Takes the options of `open_session`.

    What goes wrong inside the turn is told by `Done`, whose status is then not `success`; an agent that cannot be
    opened raises. After `timeout` seconds the turn ends as `timeout`. Leaving the loop early ends the agent.
    """
    async with open_session(agent, **options) as session, aclosing(session.turn(prompt, timeout=timeout)) as events:
        async for event in events:
            yield event


class Job(Struct, frozen=True):
    """One run among several. `name` tells its events apart; `options` and the rest are as in `run`."""

    agent: str
    prompt: str | Prompt
    name: str = ""
    options: Mapping[str, Any] = {}


async def run_parallel(
    jobs: Iterable[Job], *, limit: int = MAX_PARALLEL, timeout: float | None = None, **options: Unpack[SessionOptions]
) -> AsyncGenerator[tuple[str, Event], None]:
    """Several runs at once: (job name, event) as they happen. A job that cannot start yields an error and a `done`.

    `timeout` and `options` are those of `run`, for all jobs; a job's own options win. Unnamed jobs are named by agent
    and position.
    """
    if limit < 1:
        raise invalid_value("limit", limit, hint="It must be at least 1.")
    named: dict[str, Job] = {}
    for number, job in enumerate(jobs, 1):
        name = job.name or f"{job.agent}-{number}"
        if name in named:
            raise UsageError(f"two jobs are named {name!r}", field="name", hint="Give each job a name of its own.")
        named[name] = job
    queue: asyncio.Queue[tuple[str, Event] | None] = asyncio.Queue(maxsize=1000)
    slots = asyncio.Semaphore(limit)

    async def work(name: str, job: Job) -> None:
        whole: dict[str, Any] = {"timeout": timeout, **options, **job.options}
        try:
            async with slots, aclosing(run(job.agent, job.prompt, **whole)) as events:
                async for event in events:
                    await queue.put((name, event))
        except TielineError as error:
            await queue.put((name, Error(str(error), type(error).__name__)))
            await queue.put((name, Done("error", error=error.message)))
        finally:
            await queue.put(None)

    tasks = [asyncio.create_task(work(name, job)) for name, job in named.items()]
    try:
        for _ in tasks:
            while (item := await queue.get()) is not None:
                yield item
        for task in tasks:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        while not all(task.done() for task in tasks):  # a session that closes may still emit events
            while not queue.empty():
                queue.get_nowait()
            await asyncio.wait(tasks, timeout=0.05)
