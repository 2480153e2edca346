"""`tieline agents test`: whether an agent works here, and does what its driver promises.

An agent that can be pointed at the scripted model runs over it: no account, no cost, a temporary HOME. Another one is
looked for and opened. Its own model is asked for a word only after its user was asked.
"""

import asyncio
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ... import config as configuration
from ... import paths
from ...api import open_session
from ...config import Config
from ...drivers import registry
from ...drivers.observed_features import CheckedAgents
from ...errors import TielineError, UnknownAgent, UsageError
from ...events import Done
from ...testing.agent_checks import AgentChecks, CheckResult
from ...testing.installed_agents import installed_rig, set_up_of
from ..errors import FAILED
from ..terminal.formatting import print_json
from ..terminal.line_prompt import ask_line
from ..terminal.sanitize import one_line
from .agent_reports import AgentReport, probe_agent, probe_agents, proof_text

OPEN_S = 60.0
"""An agent that is not open by then does not work."""
TURN_S = 300.0
OWN_PROMPT = "Reply with this one word and nothing else: switchboard"
NO_MODEL = "scripted"
"""The agent that needs no program: it is not meant where "every agent of this machine" is."""
PROBE_S = 90.0
"""An agent that is to be tested may take longer to tell its version than one in a list."""
WIDTH = 80
SIGNS = {"passed": "✓", "failed": "✗", "not offered": "–"}

OnResult = Callable[[CheckResult], None]


class AgentTestResult(Struct, frozen=True, kw_only=True):
    """As `--json` tells it."""

    name: str
    works: bool
    version: str = ""
    path: str = ""
    tested: str = ""
    signed_in: bool | None = None
    opened: bool = False
    model: Literal["", "scripted", "own"] = ""  # whose answers it was tested with; empty: none was asked
    checks: tuple[CheckResult, ...] = ()
    answer: str = ""
    problem: str = ""
    hint: str = ""


def show(names: Sequence[str], *, prompt: str, own_model: bool, yes: bool, accept_unenforced: bool, json: bool) -> int:
    config = configuration.load()
    known = registry.names(config)
    for name in names:
        if name not in known and name not in registry.ALIASES:
            raise UnknownAgent(name, known)
    wanted = list(names) or _installed(known, config)
    if not wanted:
        return _nothing_here(json)
    if own_model:
        prompt = prompt or OWN_PROMPT
        if not yes:
            _confirm(wanted, prompt)
    results: list[AgentTestResult] = []
    for name in wanted:
        report = asyncio.run(probe_agent(name, config, within=PROBE_S))
        scripted = not prompt and report.found and set_up_of(name, config) is not None
        if scripted:
            if not json:
                print(_title(report), flush=True)
            results.append(asyncio.run(run_checks(report, config, (lambda result: None) if json else _print_check)))
        else:
            accept = accept_unenforced or not prompt
            results.append(asyncio.run(open_and_ask(report, prompt, config, accept_unenforced=accept)))
        if not json:
            _print(results[-1])
    if json:
        print_json(results[0] if len(names) == 1 else results)
    return 0 if all(result.works for result in results) else FAILED


def _installed(known: Sequence[str], config: Config) -> list[str]:
    reports = asyncio.run(probe_agents([name for name in known if name != NO_MODEL], config))
    return [report.name for report in reports if report.found]


def _nothing_here(json: bool) -> int:
    if json:
        print_json([])
    print("No agent is installed here, or none is on the PATH.", file=sys.stderr)
    print("`tieline agents --all` says how to get each; for example: npm install -g @openai/codex", file=sys.stderr)
    return FAILED


def _confirm(names: Sequence[str], prompt: str) -> None:
    """Money is spent by people alone."""
    hint = "Add --yes where nobody can be asked; without --own-model nothing is spent."
    question = (
        f"This asks the own model of {', '.join(names)}, and may cost a little: {one_line(prompt, 100)!r}. [y/N] "
    )
    try:
        answer = ask_line(question) if sys.stdin.isatty() else ""
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise UsageError("the agent's own model was not asked", field="own-model", hint=hint)


async def run_checks(report: AgentReport, config: Config, tell: OnResult = lambda result: None) -> AgentTestResult:
    """The driver contract over the scripted model. Never raises for what the agent does."""
    result = replace(_result_of(report), model="scripted")
    with TemporaryDirectory(prefix="tieline-test-", ignore_cleanup_errors=True) as folder:
        home, workspace = Path(folder) / "home", Path(folder) / "work"
        workspace.mkdir()
        try:
            async with installed_rig(report.name, report.path, home, config) as rig:
                checking = AgentChecks(rig, workspace, model=rig.model, another_model=rig.another_model, report=tell)
                checks = await checking.run()
        except TielineError as error:
            return replace(result, problem=error.message, hint=error.hint)
    failed = tuple(check.name for check in checks if check.outcome == "failed")
    problem = f"{len(failed)} of {len(checks)} checks failed" if failed else ""
    passed = tuple(check.name for check in checks if check.outcome == "passed")
    checked = CheckedAgents(paths.agent_checks_file(config.environ) if config.environ else None)
    checked.record(report.name, report.path, report.version, passed, failed)
    return replace(result, works=not failed, opened=bool(passed), checks=tuple(checks), problem=problem, hint="")


async def open_and_ask(
    report: AgentReport, prompt: str, config: Config, *, accept_unenforced: bool = False
) -> AgentTestResult:
    """Never raises: what is wrong is in it. Without a prompt no model is called, so that it costs nothing."""
    result = _result_of(report)
    if not report.found or report.problem:
        return result
    if report.signed_in is False:
        return replace(result, problem="it is not signed in", hint="Use its own login command, or set its key.")
    try:
        return await _open_and_prompt(result, prompt, config, accept_unenforced)
    except TielineError as error:
        return replace(result, problem=error.message, hint=error.hint)
    except TimeoutError:
        return replace(result, problem=f"it did not open within {OPEN_S:g} s", hint="Start it by hand to see why.")


def _result_of(report: AgentReport) -> AgentTestResult:
    return AgentTestResult(
        name=report.name,
        works=False,
        version=report.version,
        path=report.path,
        tested=report.tested,
        signed_in=report.signed_in,
        problem=report.problem,
        hint=report.hint,
    )


async def _open_and_prompt(
    result: AgentTestResult, prompt: str, config: Config, accept_unenforced: bool
) -> AgentTestResult:
    """In an empty directory, where it may read and nothing else."""
    with TemporaryDirectory(prefix="tieline-test-", ignore_cleanup_errors=True) as directory:
        session = open_session(
            result.name, cwd=directory, policy="read-only", config=config, accept_unenforced=accept_unenforced
        )
        async with asyncio.timeout(OPEN_S):
            await session.__aenter__()
        try:
            result = replace(result, opened=True)
            if not prompt:
                return replace(result, works=True)
            async with aclosing(session.turn(prompt, timeout=TURN_S)) as events:
                async for event in events:
                    if isinstance(event, Done):
                        good = event.status == "success"
                        return replace(result, works=good, model="own", answer=event.text, problem=event.error)
            return result
        finally:
            await session.close()


def _title(report: AgentReport) -> str:
    version = f" {one_line(report.version, 100)}" if report.version else ""
    return f"{report.name}{version} ({proof_text(report)}), over the scripted model"


def _print_check(check: CheckResult) -> None:
    after = check.outcome if check.outcome == "not offered" else f"{check.seconds:.1f} s"
    print(f"  {SIGNS[check.outcome]} {check.title:<46} {after:>11}", flush=True)
    for line in textwrap.wrap(one_line(check.detail, 300), WIDTH - 4):
        print(f"    {line}", flush=True)


def _print(result: AgentTestResult) -> None:
    signed = {True: ", signed in", False: ", not signed in", None: ""}[result.signed_in]
    version = f" {one_line(result.version, 100)}" if result.version else ""
    if result.works and result.checks:
        offered = sum(check.outcome == "passed" for check in result.checks)
        rest = f", {len(result.checks) - offered} not offered" if offered < len(result.checks) else ""
        print(f"{result.name}{version} works: {offered} of {len(result.checks)} checks passed{rest}{signed}")
        return
    if result.works:
        print(f"{result.name}{version} works{signed}" + (": " + one_line(result.answer, 400) if result.answer else ""))
        if not result.model:
            print("  It cannot be pointed at the scripted model: `--own-model` asks its own for a word.")
        return
    print(f"{result.name}{version} does not work: {one_line(result.problem, 400)}", file=sys.stderr)
    if result.hint:
        print(f"  {one_line(result.hint, 400)}", file=sys.stderr)
