"""Tieline: any coding agent behind one event stream and one permission policy.

    async for event in tieline.run("codex", "fix the test", cwd=".", on_ask=decide): ...

Names are loaded when they are first used: `import tieline` costs nothing, so that the command line can start an agent
before it imports anything else.
"""

TYPE_CHECKING = False  # not imported from typing, which would cost more than all the rest here
if TYPE_CHECKING:
    from . import events
    from .api import Job, open_session, run, run_parallel
    from .drivers.base import Attachment, McpServer, Prompt
    from .drivers.options import Options
    from .errors import TielineError
    from .events import Answer, Ask, Done, Event
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
    "Options",
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

_HOMES = {
    "Answer": "events",
    "Ask": "events",
    "Attachment": "drivers.base",
    "Done": "events",
    "Event": "events",
    "Job": "api",
    "McpServer": "drivers.base",
    "Options": "drivers.options",
    "Policy": "policy",
    "Prompt": "drivers.base",
    "Session": "sessions.session",
    "TielineError": "errors",
    "__version__": "version",
    "open_session": "api",
    "run": "api",
    "run_parallel": "api",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "events":
        return import_module(".events", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
