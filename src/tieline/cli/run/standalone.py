"""`tieline run` without a hub: the agent is a child of this process, and ends with it."""

import asyncio
from collections.abc import AsyncGenerator

from msgspec.structs import replace

from ... import config as configuration
from ... import paths
from ...api import open_session
from ...config import Config
from ...drivers.base import Prompt, check_prompt
from ...events import Event
from ...sessions.ask_decisions import OnAsk
from ...sessions.session import Session
from ..errors import print_error
from .run_options import RunOptions, check_options, options_of, policy_of, prompt_of
from .terminal_io import TerminalIO
from .turn_runner import TurnRunner, TurnSource


def run_standalone(request: RunOptions) -> int:
    """Everything from the request to the exit status. Raises TielineError."""
    request = check_options(request)
    config = configuration.load()
    prompt = prompt_of(request)
    if request.model:
        from ..commands.agents_models import warn_of_model

        warn_of_model(request.agent, request.model, config)
    if request.in_worktree:
        from .standalone_worktree import StandaloneWorktree

        tree = StandaloneWorktree(request, prompt.text, config)
        status = _run(replace(request, cwd=tree.cwd), prompt, config)
        tree.leave()
        return status
    return _run(request, prompt, config)


def _run(request: RunOptions, prompt: Prompt, config: Config) -> int:
    options = options_of(request, config.policy)
    rules = None
    if config.bus or paths.bus_file(config.environ).exists():  # else none was ever saved here
        from .standalone_rules import saved_rules

        rules = saved_rules(config, policy_of(request, config.policy), request.agent, request.cwd, print_error)

    def opener(on_ask: OnAsk) -> TurnSource:
        session = open_session(request.agent, on_ask=on_ask, config=config, **options)
        check_prompt(session.driver, prompt)
        session.by_rules = rules
        return StandaloneTurn(session)

    return asyncio.run(TurnRunner(TerminalIO(request, config), opener, prompt, timeout=request.timeout).run())


class StandaloneTurn:
    """The TurnSource of a session in this process."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.agent = session.agent
        self.cwd = session.spec.cwd
        self.resumable = session.driver.features.resume

    async def __aenter__(self) -> "StandaloneTurn":
        await self._session.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    def turn(self, prompt: Prompt, *, timeout: float | None = None) -> AsyncGenerator[Event, None]:
        return self._session.turn(prompt, timeout=timeout)

    async def interrupt(self) -> None:
        await self._session.interrupt()
