"""Handles the hooks of all harnesses: reads them in the harness's hook_format, handles the event, writes the reply.

An event that fires two hooks (the integration is installed twice, or one harness also runs another's hooks) is handled
once; the second hook says nothing.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from msgspec.structs import replace

from ..errors import UsageError
from ..mesh.errors import NotYours
from ..mesh.harness_processes import nearest_process
from ..mesh.hook_events import HookEvents, NativeReply
from ..mesh.push import Connector
from ..mesh.records import Caller
from ..protocol.mesh import HookActivity
from .hook_formats import format_of

DOUBLE_S = 1.0
"""The second hook of an event comes within this time. Two real events in it differ in what they say."""
PERMISSION_EVENT = "PermissionRequest"
"""The hook of a prompt that the terminal shows: it stays open until somebody answers."""
MAX_SESSION_ID = 200
MAX_SESSIONS = 1000
MAX_RECENT = 1000


@runtime_checkable
class PermissionPrompts(Protocol):
    """Who answers the permission prompts that terminals of a harness show."""

    async def answer_prompt(self, session: str, input: Mapping[str, Any], pid: int) -> str:
        """What the hook prints, once somebody has decided; empty when the terminal did, or nobody here can. `pid` is
        the hook's process, 0 where that is not known. Cancelled: the harness asks no more."""
        ...


@runtime_checkable
class HookListener(Protocol):
    """Who learns of a harness's terminals by their hooks."""

    def on_hook(self, session: str, event: str, input: Mapping[str, Any], pid: int) -> None:
        """A hook fired on this machine; `pid` is its process, 0 where that is not known. Returns at once: the harness
        waits."""
        ...


class HarnessHooks:
    """`machine` is this one: what a session elsewhere says of its folder is not looked up here. Of the `connectors`,
    some answer permission prompts, some listen to hooks. Without `events` (no mesh is here) only that is handled."""

    def __init__(
        self,
        events: HookEvents | None,
        machine: str,
        clock: Callable[[], float] = time.time,
        *,
        connectors: Iterable[Connector] = (),
    ) -> None:
        self._events = events
        self._machine = machine
        self._clock = clock
        connectors = list(connectors)
        self._prompts = {
            connector.harness: connector for connector in connectors if isinstance(connector, PermissionPrompts)
        }
        self._listeners = {
            connector.harness: connector for connector in connectors if isinstance(connector, HookListener)
        }
        self._recent: dict[str, float] = {}  # digest of an event → when it fired
        self._activity: dict[str, HookActivity] = {}  # session → its hooks

    async def handle(self, caller: Caller, harness: str, input: Mapping[str, Any], pid: int = 0) -> NativeReply:
        """`caller` is who calls as the transport knows it; which session it is, the harness says in `input`. `pid` is
        the hook's process, where it runs on this machine."""
        hook_format = format_of(harness)
        event, name = hook_format.read(input), hook_format.event_name(input)
        if not event.session and pid:
            event = replace(event, session=nearest_process(pid, hook_format.session_processes))
        if not event.session or len(event.session) > MAX_SESSION_ID or not event.session.isprintable():
            raise UsageError("the hook's input names no session", field="session_id")
        if caller.driven:
            return NativeReply(caller=caller)
        if caller.session not in ("", event.session):
            raise NotYours(f"this is the session {caller.session}, not {event.session}")
        cwd = event.cwd or caller.cwd if caller.machine == self._machine else ""
        caller = replace(caller, harness=harness, session=event.session, cwd=cwd)
        if self._events is not None:
            self._events.check(caller)
        if self._fired_before(harness, event.session, name, hook_format.tool_use(input) or digest(input)):
            return NativeReply(caller=caller)
        if caller.machine == self._machine and (listener := self._listeners.get(harness)):
            listener.on_hook(event.session, name, input, pid)
        if name == hook_format.permission_event:
            prompts = self._prompts.get(harness) if caller.machine == self._machine else None
            answer = await prompts.answer_prompt(event.session, input, pid) if prompts else ""
            return NativeReply(caller=caller, text=answer)
        if self._events is None:
            return NativeReply(caller=caller)
        reply = await self._events.handle(caller, event)
        return NativeReply(caller=caller, text=hook_format.write(name, reply), handed=reply.handed)

    def activity(self) -> list[HookActivity]:
        """The hooks of each session since the hub started, the latest first."""
        return sorted(self._activity.values(), key=lambda each: -each.fired_at)

    def _fired_before(self, harness: str, session: str, event: str, id: str) -> bool:
        now, key = self._clock(), f"{session} {event} {id}"
        doubled = now - self._recent.pop(key, 0.0) < DOUBLE_S
        self._recent[key] = now
        if len(self._recent) > MAX_RECENT:
            del self._recent[next(iter(self._recent))]
        known = self._activity.pop(session, None) or HookActivity(
            harness=harness, session=session, event=event, fired_at=now, fired=0
        )
        if doubled:
            known = replace(known, doubled_at=now, doubled_by=harness)
        else:
            known = replace(known, event=event, fired_at=now, fired=known.fired + 1)
        self._activity[session] = known
        if len(self._activity) > MAX_SESSIONS:
            del self._activity[next(iter(self._activity))]
        return doubled


def digest(input: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(input, sort_keys=True, default=str).encode()).hexdigest()[:32]
