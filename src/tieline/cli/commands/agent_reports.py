"""What there is to say about the agents of this machine. All are probed at the same time, each within a bound."""

import asyncio
import time
from collections.abc import Container, Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from ... import paths
from ...config import Config
from ...drivers import registry
from ...drivers.base import Driver, Features, StartsProgram
from ...drivers.observed_features import (
    Basis,
    CheckedAgents,
    CheckRecord,
    Proof,
    features_basis,
    proof_of,
    unverified_features,
)
from ...drivers.run_as import RunAsDriver
from ...errors import TielineError
from ..terminal.sanitize import one_line

PROBE_S = 15.0
"""An agent that does not tell its version in this time is reported as such; the others do not wait for it."""


FEATURES_LABEL: dict[Basis, str] = {
    "": "can",
    "tested": "can",
    "told": "can, by its own report",
    "unverified": "can (unverified: it never ran here)",
}


class AgentReport(Struct, frozen=True, kw_only=True):
    """One agent, as `tieline agents --json` tells it."""

    name: str
    found: bool
    type: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()  # the driver's own, then those of the configuration
    path: str = ""
    version: str = ""
    signed_in: bool | None = None
    problem: str = ""
    hint: str = ""
    floor: str = ""
    tested: str = ""  # the version that Tieline's tests run
    tested_version: bool | None = None  # whether that is the installed one; None: no version is known
    proof: Proof | None = None  # how far it is known; None: its driver cannot be loaded
    seen_version: str = ""  # with `seen`: what ran here, by its own word
    seen_at: float | None = None
    checked: CheckRecord | None = None  # what `tieline agents test` saw it do here
    run_as: str = ""
    features: Features | None = None
    basis: Basis = ""  # what the features rest on
    unverified: tuple[str, ...] = ()  # those that neither the tests nor the agent itself confirmed


async def probe_agents(names: Iterable[str], config: Config) -> list[AgentReport]:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    return list(await asyncio.gather(*(probe_agent(name, config) for name in names)))


async def probe_agent(name: str, config: Config, *, within: float = 0.0) -> AgentReport:
    """Everything about one agent. Never raises: what is wrong with it is its report."""
    within = within or PROBE_S
    try:
        driver = await asyncio.to_thread(registry.create, name, config)
    except TielineError as error:
        return AgentReport(name=name, found=False, problem=error.message, hint=error.hint)
    except Exception as error:  # a broken plugin must not hide the others
        return AgentReport(
            name=name, found=False, problem=f"its driver cannot be loaded: {type(error).__name__}: {error}"
        )
    proof, seen = proof_of(driver)
    about: dict[str, Any] = {
        "proof": proof,
        "seen_version": seen.version if seen else "",
        "seen_at": seen.when if seen else None,
        "floor": driver.floor,
        "tested": driver.tested,
        "features": driver.features,
        "basis": features_basis(driver),
        "unverified": unverified_features(driver),
        **_program(driver),
        "run_as": driver.user if isinstance(driver, RunAsDriver) else "",
    }
    try:
        async with asyncio.timeout(within):
            probe = await driver.probe(config.for_children())
    except TimeoutError:
        return AgentReport(name=name, found=False, problem=f"it did not answer within {within:g} s", **about)
    except Exception as error:
        return AgentReport(name=name, found=False, problem=f"{type(error).__name__}: {error}", **about)
    problem, hint = probe.problem, probe.hint
    if not problem and is_older(probe.version, driver.floor):
        problem = f"version {probe.version} is older than {driver.floor}, the oldest known to work"
        hint = hint or "Update it."
    return AgentReport(
        name=name,
        found=probe.found,
        checked=CheckedAgents(paths.agent_checks_file(config.environ)).get(name, probe.path) if probe.path else None,
        path=probe.path,
        version=probe.version,
        tested_version=probe.version == driver.tested if probe.version and driver.tested else None,
        signed_in=probe.signed_in,
        problem=problem,
        hint=hint,
        **about,
    )


def _program(driver: Driver) -> dict[str, Any]:
    own = driver.driver if isinstance(driver, RunAsDriver) else driver
    return asdict(own.program) if isinstance(own, StartsProgram) else {}


def is_older(version: str, floor: str) -> bool:
    """Whether a version is below another, as far as both are numbers."""
    ours, theirs = _numbers(version), _numbers(floor)
    return bool(ours and theirs) and ours < theirs


def _numbers(version: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for part in version.split("-")[0].split("+")[0].split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def proof_text(report: AgentReport) -> str:
    """How far it is known, in words."""
    match report.proof:
        case "tested" if report.tested_version is False:
            return f"tested with {report.tested}, not with this version"
        case "tested":
            return f"tested with {report.tested}"
        case "seen":
            day = time.strftime("%Y-%m-%d", time.localtime(report.seen_at)) if report.seen_at else ""
            return " ".join(word for word in ("seen here", report.seen_version, day) if word)
        case "unverified":
            return "unverified"
        case None:
            return ""


def checks_text(checked: CheckRecord) -> str:
    """What was seen of it here, in words."""
    day = time.strftime("%Y-%m-%d", time.localtime(checked.when))
    failed = f", failed: {', '.join(checked.failed)}" if checked.failed else ""
    return f"checked here with {checked.version or 'no version'}, {day}: {len(checked.passed)} checks passed{failed}"


def shown_first(reports: Sequence[AgentReport], names: Container[str] = ()) -> tuple[list[AgentReport], int]:
    """Those that are here, then those that must be named all the same; and how many are left out."""
    here = [report for report in reports if report.found]
    named = [report for report in reports if not report.found and report.name in names]
    return [*here, *named], len(reports) - len(here) - len(named)


def left_out_text(number: int) -> str:
    return f"{number} more agents are known and not here: `tieline agents --all` says how to get each."


def sign_in_text(report: AgentReport) -> str:
    return {True: "yes", False: "no", None: "unknown"}[report.signed_in] if report.found else ""


def feature_names(features: Features | None) -> list[str]:
    """What it can do, in words."""
    if features is None:
        return []
    can: list[str] = []
    for name in features.__struct_fields__:
        value = getattr(features, name)
        if name == "system":
            can += ["system"] if value != "none" else []
        elif name == "effort" and value:
            can.append(f"effort ({', '.join(value)})")
        elif name == "attachments" and value:
            can.append(f"attachments ({', '.join(value)})")
        elif value:
            can.append(name.replace("_", "-"))
    return can


def plain_lines(reports: Sequence[AgentReport]) -> list[str]:
    """Without a terminal: one line per agent, what is wrong below it."""
    width = max((len(report.name) for report in reports), default=0)
    lines: list[str] = []
    for report in reports:
        state = report.version or "found" if report.found else "not found"
        parts = [f"{report.name:<{width}}  {state}"]
        if report.found:
            parts.append({True: "signed in", False: "not signed in", None: "sign-in unknown"}[report.signed_in])
        if report.proof:
            parts.append(proof_text(report))
        if report.floor and report.floor != report.tested:
            parts.append(f"needs {report.floor}")
        if report.run_as:
            parts.append(f"runs as {report.run_as}")
        lines.append(", ".join(parts))
        if report.features is not None:
            lines.append(f"{'':<{width}}  {FEATURES_LABEL[report.basis]}: {', '.join(feature_names(report.features))}")
        if report.basis == "told" and report.unverified:
            lines.append(f"{'':<{width}}  unverified: {', '.join(report.unverified)}")
        if report.checked:
            lines.append(f"{'':<{width}}  {one_line(checks_text(report.checked), 400)}")
        if report.problem:
            lines.append(f"{'':<{width}}  problem: {one_line(report.problem, 400)}")
        if report.hint:
            lines.append(f"{'':<{width}}  {one_line(report.hint, 400)}")
    return lines
