"""`tieline agents test`: whether an agent works here. It is looked for, opened, and asked something if wanted."""

import asyncio
import sys
from contextlib import aclosing
from tempfile import TemporaryDirectory

from msgspec import Struct
from msgspec.structs import replace

from ... import config as configuration
from ...api import open_session
from ...config import Config
from ...drivers import registry
from ...errors import TielineError, UnknownAgent
from ...events import Done
from ..errors import FAILED
from ..terminal.formatting import print_json
from ..terminal.sanitize import one_line
from .agent_reports import probe_agent

OPEN_S = 60.0
"""An agent that is not open by then does not work."""
TURN_S = 300.0


class SmokeTestResult(Struct, frozen=True, kw_only=True):
    """As `--json` tells it."""

    name: str
    works: bool
    version: str = ""
    path: str = ""
    signed_in: bool | None = None
    opened: bool = False
    answer: str = ""
    problem: str = ""
    hint: str = ""


def show(name: str, *, prompt: str, accept_unenforced: bool, json: bool) -> int:
    config = configuration.load()
    known = registry.names(config)
    if name not in known and name not in registry.ALIASES:
        raise UnknownAgent(name, known)
    trial = asyncio.run(run_smoke_test(name, prompt, config, accept_unenforced=accept_unenforced or not prompt))
    if json:
        print_json(trial)
    else:
        _print(trial)
    return 0 if trial.works else FAILED


async def run_smoke_test(name: str, prompt: str, config: Config, *, accept_unenforced: bool = False) -> SmokeTestResult:
    """Never raises: what is wrong is in it. Without a prompt no model is called, so that it costs nothing."""
    report = await probe_agent(name, config)
    trial = SmokeTestResult(
        name=name,
        works=False,
        version=report.version,
        path=report.path,
        signed_in=report.signed_in,
        problem=report.problem,
        hint=report.hint,
    )
    if not report.found or report.problem:
        return trial
    if report.signed_in is False:
        return replace(trial, problem="it is not signed in", hint="Use its own login command, or set its key.")
    try:
        return await _open_and_prompt(trial, prompt, config, accept_unenforced)
    except TielineError as error:
        return replace(trial, problem=error.message, hint=error.hint)
    except TimeoutError:
        return replace(trial, problem=f"it did not open within {OPEN_S:g} s", hint="Start it by hand to see why.")


async def _open_and_prompt(
    trial: SmokeTestResult, prompt: str, config: Config, accept_unenforced: bool
) -> SmokeTestResult:
    """In an empty directory, where it may read and nothing else."""
    with TemporaryDirectory(prefix="tieline-test-", ignore_cleanup_errors=True) as place:
        session = open_session(
            trial.name, cwd=place, policy="read-only", config=config, accept_unenforced=accept_unenforced
        )
        async with asyncio.timeout(OPEN_S):
            await session.__aenter__()
        try:
            trial = replace(trial, opened=True)
            if not prompt:
                return replace(trial, works=True)
            async with aclosing(session.turn(prompt, timeout=TURN_S)) as events:
                async for event in events:
                    if isinstance(event, Done):
                        good = event.status == "success"
                        return replace(trial, works=good, answer=event.text, problem=event.error)
            return trial
        finally:
            await session.close()


def _print(trial: SmokeTestResult) -> None:
    signed = {True: ", signed in", False: ", not signed in", None: ""}[trial.signed_in]
    version = f" {one_line(trial.version, 100)}" if trial.version else ""
    if trial.works:
        print(f"{trial.name}{version} works{signed}" + (": " + one_line(trial.answer, 400) if trial.answer else ""))
        return
    print(f"{trial.name}{version} does not work: {one_line(trial.problem, 400)}", file=sys.stderr)
    if trial.hint:
        print(f"  {one_line(trial.hint, 400)}", file=sys.stderr)
