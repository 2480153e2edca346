"""`tieline agents models`: what an agent offers, here or on another machine; a word about one that it does not list."""

import asyncio
import sys

from msgspec import Struct

from ... import config as configuration
from ... import paths
from ...client.client import Client
from ...config import Config
from ...drivers import registry
from ...drivers.base import Driver
from ...drivers.model_list import KeptModels, ModelListFile, ask_models, unlisted_model
from ...errors import AgentMissing, TielineError, UsageError
from ...protocol.views import CommandView
from .. import hub_connection
from ..terminal.formatting import print_json, time_ago
from ..terminal.sanitize import one_line
from ..terminal.tables import print_rows


class ListedModel(Struct, frozen=True, kw_only=True):
    name: str
    efforts: tuple[str, ...] | None = None  # None: the agent does not tell them


class ModelReport(Struct, frozen=True, kw_only=True):
    agent: str
    version: str  # of the agent, when it told this
    seen_at: float
    stale: bool  # told long ago, or by another version of the agent
    certain: bool | None  # the agent takes no other model; None: another machine does not tell
    models: tuple[ListedModel, ...]
    problem: str = ""  # why it is stale
    node: str = ""  # the machine that was asked; empty: this one


def show(name: str, *, node: str, refresh: bool, json: bool) -> int:
    if node:
        return _show_of_node(name, node, refresh=refresh, json=json)
    config = configuration.load()
    driver = registry.create(name, config)
    return _print(asyncio.run(_report(driver, name, config, refresh=refresh)), json=json)


def _show_of_node(name: str, given: str, *, refresh: bool, json: bool) -> int:
    if refresh:
        raise UsageError(
            "--refresh works only on this machine",
            field="refresh",
            hint="Other machines refresh their lists daily; run it there to refresh one now.",
        )

    async def work(client: Client) -> int:
        node = await hub_connection.find_node(client, given)
        result = await client.list_models(node.id, name)
        if isinstance(result, CommandView):
            return hub_connection.print_outcome(result, str, json=json)
        models = tuple(ListedModel(name=each, efforts=result.model_efforts.get(each)) for each in result.models)
        report = ModelReport(
            agent=name,
            version=result.version,
            seen_at=result.models_seen_at,
            stale=result.models_stale,
            certain=None,
            models=models,
            problem="that machine could not ask it again" if result.models_stale else "",
            node=node.name or node.id,
        )
        return _print(report, json=json)

    return hub_connection.run_with_client(work)


def _print(report: ModelReport, *, json: bool) -> int:
    name = report.agent
    if json:
        print_json(report)
        return 0
    rows = [(one_line(model.name, 100), _efforts_text(model)) for model in report.models]
    print_rows(("model", "efforts"), rows, f"{name} lists no models.")
    others = "it takes no others" if report.certain else "it may take others too"
    seen = f"{time_ago(report.seen_at)} ago" if report.stale else "now or lately"
    where = f" on {one_line(report.node, 40)}" if report.node else ""
    print(f"As {name} {one_line(report.version, 40)}{where} told {seen}; {others}.", file=sys.stderr)
    if report.stale:
        print(f"It may offer others by now: {one_line(report.problem, 300)}", file=sys.stderr)
    return 0


async def _report(driver: Driver, name: str, config: Config, *, refresh: bool) -> ModelReport:
    """Raises TielineError when nothing is known."""
    file = ModelListFile(paths.models_file(config.environ))
    probe = await driver.probe(config.for_children())
    if not probe.found:
        raise AgentMissing(name, probe.problem or "it is not installed", hint=probe.hint)
    kept = file.get(driver, name)
    problem = ""
    if refresh or kept is None or kept.stale(probe.version):
        try:
            kept = file.keep(driver, name, probe.version, await ask_models(driver, config))
        except TielineError as error:
            if kept is None:
                raise
            problem = error.message
    models = tuple(ListedModel(name=each, efforts=kept.models.efforts.get(each)) for each in kept.models.names)
    stale = bool(problem) or kept.stale(probe.version)
    return ModelReport(
        agent=name,
        version=kept.version,
        seen_at=kept.when,
        stale=stale,
        certain=kept.models.certain,
        models=models,
        problem=problem,
    )


def _efforts_text(model: ListedModel) -> str:
    if model.efforts is None:
        return "not told"
    return one_line(", ".join(model.efforts), 100) or "none"


def warn_of_model(agent: str, model: str, config: Config) -> None:
    """On stderr, when the agent did not list the model the last time. It is not refused: the agent may know it."""
    kept: KeptModels | None = None
    if model:
        try:
            kept = ModelListFile(paths.models_file(config.environ)).get(registry.create(agent, config), agent)
        except TielineError:  # it is said in its place
            return
    if kept is not None and (explanation := unlisted_model(kept.models, model)):
        print(f"warning: the model {one_line(model, 100)}: {one_line(explanation, 400)}", file=sys.stderr)
