"""Scripts: what a model would do, written down. The scripted driver plays them in-process; the scripted model of
`tieline.testing` speaks them to real agents over their vendors' wire formats.

A script is a list of replies, one per model call, as in any agent loop: a reply with tool steps is followed by the
next reply once the tools are done; a reply without any ends the turn.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from .errors import UsageError


class Step(Struct, frozen=True, kw_only=True, tag_field="do", tag=""):
    """One thing in a reply."""

    when: Literal["always", "allowed", "denied"] = "always"
    """Played by the scripted agent only if no tool of the turn was denied so far, or only if one was."""


class Say(Step, tag="say", frozen=True):
    text: str
    chunks: int = 4  # streamed in this many pieces
    delay_s: float = 0.0  # before each piece


class Think(Step, tag="think", frozen=True):
    text: str


class Write(Step, tag="write", frozen=True):
    """Write a file with the agent's edit tool."""

    path: str
    content: str


class Run(Step, tag="run", frozen=True):
    """Run a command with the agent's shell tool."""

    command: str


class Get(Step, tag="get", frozen=True):
    """Fetch a URL with the agent's web tool."""

    url: str


class Inquire(Step, tag="inquire", frozen=True):
    """Ask the person a question with choices."""

    question: str
    choices: tuple[str, ...]
    header: str = "Choice"


class Outline(Step, tag="outline", frozen=True):
    """Set the agent's to-do list; the first `done` steps are finished."""

    steps: tuple[str, ...]
    done: int = 0


class Propose(Step, tag="propose", frozen=True):
    """Put a plan before the person and wait for approval."""

    plan: str


class Call(Step, tag="call", frozen=True):
    """Any tool, by its native name and input."""

    name: str
    input: dict[str, Any] = {}


class Fail(Step, tag="fail", frozen=True):
    """The model answers with an HTTP error."""

    status: int = 500
    message: str = "scripted failure"


class Cut(Step, tag="cut", frozen=True):
    """The model's stream breaks off here."""


class Stall(Step, tag="stall", frozen=True):
    """The model says nothing more, for this long."""

    seconds: float = 3600.0


AnyStep = Say | Think | Write | Run | Get | Inquire | Outline | Propose | Call | Fail | Cut | Stall
Reply = Sequence[AnyStep]
TOOLS = (Write, Run, Get, Inquire, Outline, Propose, Call)


def ends_turn(reply: Reply) -> bool:
    return not any(isinstance(step, TOOLS) for step in reply)


def load(path: str | Path) -> list[Reply]:
    """A script from a JSON file: a list of replies, each a list of steps (`{"do": "say", "text": …}`)."""
    try:
        return list(msgspec.json.decode(Path(path).read_bytes(), type=list[list[AnyStep]]))
    except OSError as error:
        raise UsageError(f"the script {str(path)!r} cannot be read: {error.strerror}", field="script") from None
    except msgspec.DecodeError as error:
        raise UsageError(f"the script {str(path)!r} is not valid: {error}", field="script") from None
