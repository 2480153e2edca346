"""The MCP server that a session in a team is given: by its tools the agent says who speaks next."""

from collections.abc import Mapping

from ..drivers.base import Driver, McpServer
from ..drivers.run_as import RunAsDriver
from ..events import Answer, Ask, Mcp
from .records import SessionRecord

SERVER = "tieline"
HAND_OVER, ASK_PERSON, DONE, SHOW_DIFF = "hand_over", "ask_person", "done", "show_diff"
TOOLS = frozenset({HAND_OVER, ASK_PERSON, DONE, SHOW_DIFF})
BY = "team"
"""Who allows these tools."""


def servers_for(record: SessionRecord, driver: Driver, server: McpServer | None) -> Mapping[str, McpServer]:
    """`server`: Tieline's own, where there is one. An agent that takes none, or runs as another user and so does not
    reach the hub, writes markers."""
    able = driver.features.mcp_servers and not isinstance(driver, RunAsDriver)
    return {SERVER: server} if record.team and server is not None and able else {}


def allowed_in_team(record: SessionRecord, ask: Ask) -> Answer | None:
    """Nobody is asked whether a member may say who speaks next, or see what another has committed for the team."""
    match ask.action:
        case Mcp(server=server, tool=tool) if record.team and server == SERVER and tool in TOOLS:
            return Answer(ask.id, "allow", by=BY, tool=ask.tool)
        case _:
            return None
