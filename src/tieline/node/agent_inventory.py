"""The agents of this machine: installed, signed in, working, switched off. Probed in the background."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from .. import paths
from ..background_tasks import cancel_and_wait
from ..config import Config
from ..drivers import registry
from ..drivers.base import Driver, Probe
from ..drivers.model_list import KeptModels, ListsModels, ModelList, ModelListFile, ask_models, nearest_models
from ..drivers.observed_features import features_basis, offered_models
from ..errors import AgentStartFailed, TielineError, UnknownAgent, Unsupported, UsageError
from ..protocol.views import AgentView

PROBE_S = 20.0
"""An agent that does not tell its version in this time is failing; the others do not wait for it."""
AT_ONCE = 4
"""Probes start the agents' programs, and a machine at work has better to do than to start ten of them at once."""
DEMO = "scripted"
AGAIN_S = 300.0
"""After so long they are looked at again: somebody may have installed one, or signed in."""
SOON_S = 10.0
"""Agents that die again and again are looked at no more often than this."""
LIST_AGAIN_S = 60.0
"""An agent that did not tell its models is left alone for so long."""
SIGN_IN = "Not signed in: use its own login command on that machine."


class AgentInventory:
    """`async with Agents(config, driver) as agents`: `views` is what is known, `changed` are called when it changes."""

    def __init__(self, config: Config, driver: Callable[[str], Driver]) -> None:
        self.views: tuple[AgentView, ...] = ()
        self.changed: list[Callable[[], None]] = []
        self._config = config
        self._driver = driver
        self._looking: asyncio.Task[None] | None = None
        self._clock: asyncio.Task[None] | None = None
        self._again = asyncio.Event()
        self._doubted = float("-inf")
        self._models = ModelListFile(paths.models_file(config.environ) if config.environ else None)
        self._listing: dict[str, asyncio.Task[AgentView]] = {}
        self._listing_slot = asyncio.Semaphore(1)  # an agent that starts is work for the whole machine
        self._refused: dict[str, float] = {}

    async def __aenter__(self) -> "AgentInventory":
        self._clock = asyncio.create_task(self._look_again())
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [task for task in (self._clock, self._looking, *self._listing.values()) if task is not None]
        await cancel_and_wait(*tasks)

    async def refresh(self) -> tuple[AgentView, ...]:
        """Look again, now. Those who ask at the same time share one look."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        await asyncio.shield(self._looking)
        return self.views

    def look_soon(self, agent: str) -> None:
        """That agent died, or did not open: what is known of it may no longer hold."""
        now = time.monotonic()
        if self._clock is not None and now - self._doubted >= SOON_S:
            self._doubted = now
            self._again.set()

    def look_at_models(self, agent: str) -> None:
        """It has just started: it may have told which models it offers. Costs nothing."""
        models = offered_models(self._driver(agent))
        view = next((view for view in self.views if view.name == agent), None)
        if models is not None and view is not None:
            kept = self._models.get(self._driver(agent), agent)
            if kept is None or kept.models != models or kept.stale(view.version):
                self._keep_models(view, models)

    async def list_models(self, agent: str) -> AgentView:
        """Ask the agent, unless it told not long ago. Those who want it at the same time share one asking. Raises
        AgentError when it does not tell, Unsupported when it tells only in a session."""
        view = next((view for view in self.views or await self.refresh() if view.name == agent), None)
        if view is None:
            raise UnknownAgent(agent, [view.name for view in self.views])
        if view.models and not view.models_stale:
            return view
        if not view.lists_models:
            raise Unsupported(agent, "a list of its models", hint="It may tell them when a session starts.")
        if agent not in self._listing:
            self._listing[agent] = asyncio.create_task(self._ask_models(view))
            self._listing[agent].add_done_callback(lambda task: self._listed(agent, task))
        return await asyncio.shield(self._listing[agent])

    async def check_model(self, agent: str, model: str, cwd: str) -> None:
        """Raises UsageError for a model that the agent certainly does not have in that directory. What it told before
        only gives rise to doubt: then it is asked again, there."""
        try:
            driver = self._driver(agent)
            kept = self._models.get(driver, agent)
            if kept is None or not kept.models.certain or model in kept.models.names:
                return
            async with self._listing_slot:
                models = await ask_models(driver, self._config, cwd)
        except TielineError:  # what is wrong with it is said when the session is made
            return
        if models.certain and model not in models.names:
            near = nearest_models(models.names, model)
            hint = f"The nearest that it has: {', '.join(near)}." if near else f"`tieline agents models {agent}`."
            raise UsageError(f"{agent} has no model {model!r}", field="model", hint=hint)

    async def _ask_models(self, view: AgentView) -> AgentView:
        if (wait := self._refused.get(view.name, 0.0) - time.monotonic()) > 0:
            raise AgentStartFailed(view.name, f"it did not tell its models; it is asked again in {wait:.0f} s")
        async with self._listing_slot:
            try:
                models = await ask_models(self._driver(view.name), self._config)
            except TielineError:
                self._refused[view.name] = time.monotonic() + LIST_AGAIN_S
                raise
        return self._keep_models(view, models)

    def _listed(self, agent: str, task: asyncio.Task[AgentView]) -> None:
        self._listing.pop(agent, None)
        if not task.cancelled():
            task.exception()  # whoever waits is told; often nobody does

    def _keep_models(self, view: AgentView, models: ModelList) -> AgentView:
        kept = self._models.keep(self._driver(view.name), view.name, view.version, models)
        self._know(tuple(_with_models(each, kept) if each.name == view.name else each for each in self.views))
        return _with_models(view, kept)

    def chosen(self) -> str:
        """For a session whose agent nobody named: the default one, or another that is ready when that is not. Empty
        when there is none; the demo's agent is never meant."""
        default = self._config.default_agent
        ready = [view.name for view in self.views if view.ready and view.name != DEMO]
        return default if not ready or default in ready else ready[0]

    def off(self, agent: str) -> bool:
        return self._config.agents.get(agent, {}).get("enabled", True) is False

    async def _look_again(self) -> None:
        while True:
            with suppress(Exception):  # what is wrong with an agent is in its view; a look must not end the looking
                await self.refresh()
            self._again.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_S):
                    await self._again.wait()

    async def _look(self) -> None:
        slots = asyncio.Semaphore(AT_ONCE)

        async def view(name: str) -> AgentView:
            async with slots:
                return await self._view(name)

        names = await asyncio.to_thread(registry.names, self._config)  # reads the installed packages
        views = tuple(await asyncio.gather(*map(view, names)))
        self._know(views)

    def _know(self, views: tuple[AgentView, ...]) -> None:
        if views != self.views:
            self.views = views
            for tell in list(self.changed):
                tell()

    async def _view(self, name: str) -> AgentView:
        if self.off(name):
            hint = f"Set enabled = true in [agents.{name}] to have it back."
            return AgentView(name=name, health="off", problem="it is switched off", hint=hint)
        try:
            driver = self._driver(name)
            features = driver.features
            basis = features_basis(driver)
        except TielineError as error:
            return AgentView(name=name, health="failing", problem=error.message, hint=error.hint)
        except Exception as error:  # a broken plugin must not hide the others
            problem = f"its driver cannot be loaded: {type(error).__name__}: {error}"
            return AgentView(name=name, health="failing", problem=problem)
        probe = await self._probe(driver)
        wanted = probe.found or name in self._config.agents  # else it is merely not there
        view = AgentView(
            name=name,
            found=probe.found,
            version=probe.version,
            ready=probe.found and probe.signed_in is not False and not probe.problem,
            health=("failing" if wanted else "unknown") if probe.problem or not probe.found else "healthy",
            problem=probe.problem,
            hint=probe.hint or (SIGN_IN if probe.signed_in is False else ""),
            features=features.supported(),
            basis=basis,
            attachments=features.attachments,
            efforts=features.effort,
            lists_models=features.model and isinstance(driver, ListsModels),
        )
        kept = self._models.get(driver, name)
        return view if kept is None else _with_models(view, kept)

    async def _probe(self, driver: Driver) -> Probe:
        try:
            async with asyncio.timeout(PROBE_S):
                return await driver.probe(self._config.for_children())
        except TimeoutError:
            hint = "Start it by hand to see what it waits for; it is looked at again every few minutes."
            return Probe(found=True, problem=f"it did not tell its version within {PROBE_S:g} s", hint=hint)
        except Exception as error:  # a driver promises not to raise; one that does is failing
            return Probe(found=True, problem=f"{type(error).__name__}: {error}")


def _with_models(view: AgentView, kept: KeptModels) -> AgentView:
    return replace(
        view,
        models=kept.models.names,
        model_efforts=kept.models.efforts,
        models_seen_at=kept.when,
        models_stale=kept.stale(view.version),
    )
