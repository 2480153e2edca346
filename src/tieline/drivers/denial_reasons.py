"""Reasons for denials, told to the model with the next prompt where the agent's protocol has no field for them."""

from msgspec.structs import replace

from ..events import Answer, Ask
from .base import Prompt

AUTOMATIC = frozenset({"policy", "turn-end", "agent"})
"""Denials by these carry no reason for the model."""
MAX_REASONS = 20
"""Reasons that wait for the next prompt; of more than that only the newest are worth its room."""


def refusal_message(ask: Ask, answer: Answer) -> str:
    """What the model is to hear; empty: nothing."""
    if answer.decision != "deny" or not answer.reason or answer.by in AUTOMATIC:
        return ""
    what = " ".join(ask.title.split())[:200]
    return f"[Your request was refused{f' ({what})' if what else ''}. The reason given: {answer.reason}]"


class PendingReasons:
    """Reasons that the model has not heard: they go before the next prompt."""

    def __init__(self) -> None:
        self._reasons: list[str] = []

    def add(self, reason: str) -> None:
        if reason:
            self._reasons = [*self._reasons[1 - MAX_REASONS :], reason]

    def prepend_to(self, prompt: Prompt) -> Prompt:
        """The prompt with them in front; they are said by that."""
        if not self._reasons:
            return prompt
        text = "\n".join([*self._reasons, "", prompt.text])
        self._reasons = []
        return replace(prompt, text=text)
