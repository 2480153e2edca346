"""The state of one OpenCode turn: begun, busy or over, derived from the server's messages.

A turn begins when its prompt shows up as a message. It is over when the session, having been busy, is idle and no
answer of it is still open: after an error OpenCode says `idle` twice, before the answer is closed and after.
"""

from collections.abc import Mapping
from typing import Any

from ...events import Outcome
from ..base import Spec
from ..turn_stream import Turn
from .events import OpenCodeNormaliser
from .protocol import ABORTED, OVERFLOW, error_message


class TurnState:
    def __init__(self, root: str, known: set[str]) -> None:
        """`known` are the prompts of earlier turns; this turn's are added to it."""
        self.prompt = ""  # the message that is this turn's prompt, once it has shown up
        self.busy = False
        self.answered = False
        self.failure: tuple[str, str] | None = None  # message, code
        self.aborted = False
        self.limit: tuple[Outcome, str] | None = None  # it has used up: how the turn ends then, and why
        self.steering = 0  # words said in between that have not shown up yet
        self._root = root
        self._known = known
        self._open: set[str] = set()  # answers that are not complete

    @property
    def begun(self) -> bool:
        """Whether the session is at work on the prompt."""
        return bool(self.prompt) and (self.busy or self.answered)

    @property
    def over(self) -> bool:
        """Whether the session's being idle ends the turn."""
        return bool(self.prompt) and self.busy and not self._open and not self.steering

    def message(self, info: Mapping[str, Any]) -> None:
        if info["sessionID"] != self._root:
            return
        name = info["id"]
        if info["role"] == "user":
            if name not in self._known:
                self._known.add(name)
                if not self.prompt:
                    self.prompt = name
                elif self.steering:
                    self.steering -= 1
        elif self.prompt:
            self.answered = True
            if "completed" not in info["time"]:
                self._open.add(name)
                return
            self._open.discard(name)
            error = info.get("error")
            self.aborted = bool(error) and error.get("name") == ABORTED
            self.failure = (error_message(error), error.get("name", "")) if error and not self.aborted else None

    def status(self, session: str, kind: str) -> bool:
        """Whether that ends the turn."""
        if session != self._root:
            return False
        if kind == "idle":
            return self.over
        self.busy = True
        return False

    def error(self, session: str, name: str, message: str) -> bool:
        """Whether the agent goes on in spite of it."""
        if name == ABORTED:
            self.aborted = True
        elif session != self._root or name == OVERFLOW:  # a subagent's; or it compacts, and if not, its answer says so
            return True
        else:
            self.failure = (message, name)
        return False

    def end(self, turn: Turn, normaliser: OpenCodeNormaliser) -> None:
        """End the turn with its outcome."""
        if self.limit is not None:
            status, why = self.limit
            turn.done(status, error=why, tokens=normaliser.tokens, native_id=self._root, turns=normaliser.steps)
        elif self.failure is not None and not turn.interrupted:
            turn.fail(self.failure[0], code=self.failure[1], native_id=self._root)
        elif turn.interrupted or self.aborted:
            turn.done("interrupted", native_id=self._root, turns=normaliser.steps)
        else:
            turn.done("success", tokens=normaliser.tokens, native_id=self._root, turns=normaliser.steps)


def past_limit(spec: Spec, normaliser: OpenCodeNormaliser) -> tuple[Outcome, str] | None:
    """The limit that the finished model call has reached, and why. None: no limit is reached, or the call ended the
    turn."""
    if normaliser.step_reason != "tool-calls":
        return None
    cost = normaliser.tokens.cost_usd if normaliser.tokens else None
    if spec.max_turns is not None and normaliser.steps >= spec.max_turns:
        return "max_turns", f"it was not done after {normaliser.steps} model calls"
    if spec.max_budget_usd is not None and cost is not None and cost >= spec.max_budget_usd:
        return "max_budget", f"it has cost {cost:g} USD"
    return None
