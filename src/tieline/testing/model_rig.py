"""What the rigs of real agents share: their scripted model."""

import msgspec

from ..script import Reply
from .model_server import ScriptedModel


class ModelRig:
    """A rig whose agent talks to a scripted model. A subclass enters `model` and sets its agent up."""

    limits: frozenset[str] = frozenset()

    def __init__(self, model: ScriptedModel) -> None:
        self.model = model

    async def __aexit__(self, *_: object) -> None:
        await self.model.__aexit__()

    def play(self, *replies: Reply) -> None:
        self.model.play(*replies)

    def heard(self) -> str:
        return msgspec.json.encode(self.model.requests).decode()

    async def stalled(self) -> None:
        await self.model.stalled.wait()
        self.model.stalled.clear()
