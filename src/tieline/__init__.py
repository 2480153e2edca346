"""Tieline: any coding agent behind one event stream and one permission policy.

async for event in tieline.run("codex", "fix the test", cwd=".", on_ask=decide): ...
"""

from . import events
from .drivers.base import Attachment, McpServer, Prompt
from .errors import TielineError
from .events import Answer, Ask, Done, Event
from .library import Job, open_session, run, run_parallel
from .policy import Policy
from .sessions.session import Session
from .version import __version__

__all__ = [
    "Answer",
    "Ask",
    "Attachment",
    "Done",
    "Event",
    "Job",
    "McpServer",
    "Policy",
    "Prompt",
    "Session",
    "TielineError",
    "__version__",
    "events",
    "open_session",
    "run",
    "run_parallel",
]
