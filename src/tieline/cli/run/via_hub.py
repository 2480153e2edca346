"""`tieline run` through the hub of this machine, which may have the agent started already.

The session stays at the hub after the turn. Answers given here are sent to the hub; an answer from another device
closes the prompt here.
"""

import asyncio

from ... import config as configuration
from ...client.client import Client
from ...client.hub_address import HubAddress
from ...client.hub_session import PATIENCE_S, HubSession
from ...config import Config
from ...errors import TielineError
from ...ids import new_id
from ...protocol.request_bodies import NewSession
from ...sessions.ask_decisions import OnAsk
from ..terminal.sanitize import one_line
from .run_options import RunOptions, check_options, prompt_of, session_options, with_content
from .terminal_io import TerminalIO
from .turn_runner import TurnRunner, TurnSource

TITLE = 80


def run_via_hub(request: RunOptions, address: HubAddress) -> int:
    """Everything from the request to the exit status. Raises TielineError; HubUnreachable before anything happened
    when there is no hub after all."""
    request = check_options(request)
    config = configuration.load()
    values = session_options(request, config.policy)
    prompt = with_content(prompt_of(request))
    if request.model and not address.node:  # on this machine
        from ..commands.agents_models import warn_of_model

        warn_of_model(request.agent, request.model, config)
    new = NewSession(id=new_id(), node=address.node, agent=request.agent, title=one_line(prompt.text, TITLE), **values)

    async def run_turn() -> int:
        async with Client(address.url, address.token, socket=address.socket, patience_s=PATIENCE_S) as client:
            terminal = TerminalIO(request, config)

            def opener(on_ask: OnAsk) -> TurnSource:
                return HubSession(
                    client,
                    new,
                    on_ask,
                    resumes=lambda: _resumes(request.agent, config),
                    read=terminal.is_terminal,
                )

            return await TurnRunner(terminal, opener, prompt, timeout=request.timeout).run()

    return asyncio.run(run_turn())


def _resumes(agent: str, config: Config) -> bool:
    from ...drivers import registry  # all of the driver: only for this

    try:
        return registry.create(agent, config).features.resume
    except TielineError:
        return False
