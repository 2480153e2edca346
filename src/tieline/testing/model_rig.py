"""What the rigs of real agents share: their scripted model."""

import msgspec

from ..script import AnyStep, Reply
from .model_server import ScriptedModel


class ModelRig:
    """A rig whose agent talks to a scripted model. A subclass enters `model` and sets its agent up."""

    limits: frozenset[str] = frozenset()
    model_name: str = ""  # the model to choose; none: the agent's configuration does
    another_model: str = "another"
    """One that can be chosen, too. After the last slash: part of the name that its provider is asked for."""
    server_tool: str = "mcp__{server}__{tool}"
    """What the agent calls the tool of an MCP server."""

    def __init__(self, model: ScriptedModel) -> None:
        self.model = model

    async def __aexit__(self, *_: object) -> None:
        await self.model.__aexit__()

    def play(self, *replies: Reply) -> None:
        self.model.play(*replies)

    def tool(self, step: AnyStep) -> str:
        """The agent's tool that takes such a step."""
        return self.model.tool_call(step)[0]

    def heard(self) -> str:
        return msgspec.json.encode(self.model.requests).decode()

    async def stalled(self) -> None:
        await self.model.stalled.wait()
        self.model.stalled.clear()
