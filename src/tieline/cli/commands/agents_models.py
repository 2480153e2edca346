"""`tieline agents models`: what an agent of this machine offers; and a word about a model that it does not list."""

import asyncio
import sys

from msgspec import Struct

from ... import config as configuration
from ... import paths
from ...config import Config
from ...drivers import registry
from ...drivers.base import Driver
from ...drivers.model_list import KeptModels, ModelListFile, ask_models, unlisted_model
from ...errors import AgentMissing, TielineError
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
    certain: bool  # the agent takes no other model
    models: tuple[ListedModel, ...]
    problem: str = ""  # why it is stale


def show(name: str, *, refresh: bool, json: bool) -> int:
    config = configuration.load()
    driver = registry.create(name, config)
    report = asyncio.run(_report(driver, name, config, refresh=refresh))
    if json:
        print_json(report)
        return 0
    rows = [(one_line(model.name, 100), _efforts_text(model)) for model in report.models]
    print_rows(("model", "efforts"), rows, f"{name} lists no models.")
    others = "it takes no others" if report.certain else "it may take others too"
    seen = f"{time_ago(report.seen_at)} ago" if report.stale else "now or lately"
    print(f"As {name} {one_line(report.version, 40)} told {seen}; {others}.", file=sys.stderr)
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
    if kept is not None and (said := unlisted_model(kept.models, model)):
        print(f"warning: the model {one_line(model, 100)}: {one_line(said, 400)}", file=sys.stderr)
