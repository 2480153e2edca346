"""Loads the channels of the configuration and reloads those whose entry or code changed.

A broken channel does not affect the others. A channel keeps running as before if its new version is broken, or if it
brings in code or rights that no person has agreed to (see `trust`).
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from ... import config as configuration
from ... import paths
from ...background_tasks import cancel_and_wait
from ...channels.base import Channel, ChannelContext
from ...config import ChannelConfig, Config
from ...environment import config_path
from ...errors import BusError, TielineError, UsageError
from ...file_watcher import watch
from ..relay import Relay
from .channel_reports import Changes, ChannelReport, ChannelSlot, build_report, entries
from .loader import ChannelError, LoadedChannel, build, check_entry, unload
from .trust import ChannelCode, Trust, local_file, read_code

GRACE_S = 60.0
"""For deliveries that run when their channel is replaced; an agent's turn that takes longer is taken up again by the
next one."""

SLOW_TYPES = {"telegram": "relay.telegram.{id}", "notify": "relay.notify.{id}"}
"""Types whose libraries take seconds to import → their addresses: nobody waits for them, and their mail waits too."""


class ChannelSet:
    """`async with ChannelSet(relay, config, context) as channels`: loaded, and watched if there is a place for a
    configuration file. Without `wait`, those that take their time are loaded behind."""

    def __init__(
        self,
        relay: Relay,
        config: Config,
        context: ChannelContext,
        *,
        watch: bool = True,
        wait: bool = True,
        on_change: Callable[[Changes], None] = lambda changes: None,
    ) -> None:
        self._relay = relay
        self._config = config
        self._context = context
        self._on_change = on_change
        self._watch = watch
        self._wait = wait
        self._trust = Trust(paths.trusted_file(context.env))
        self._ready = asyncio.Event()
        self._slots: dict[str, ChannelSlot] = {}
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.problem = ""  # of the file as a whole

    async def __aenter__(self) -> "ChannelSet":
        self._task = asyncio.create_task(self._run())
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait({self._task, ready}, return_when=asyncio.FIRST_COMPLETED)
            if self._task.done():
                self._task.result()
        except BaseException:
            await self._end_task()
            raise
        finally:
            ready.cancel()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end_task()
        # The relay stops its channels itself, at once and not with grace.
        for slot in self._slots.values():
            unload(slot.loaded.module if slot.loaded else "")

    async def _end_task(self) -> None:
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def _run(self) -> None:
        known = await asyncio.to_thread(self._trust.load)
        changed = await self.apply(self._config, trust=() if known else None)  # a person set this up
        if not self._wait:  # a caller that waits reads the reports itself
            self._on_change(changed)
        self._ready.set()
        if self._watch and self._config_path() is not None:
            await self._watch_files()

    # --- looking ---------------------------------------------------------------------------------------

    def channel(self, id: str) -> Channel | None:
        """The one that runs under this id."""
        slot = self._slots.get(id)
        return slot.loaded.channel if slot is not None and slot.loaded is not None else None

    def starting(self, id: str) -> bool:
        slot = self._slots.get(id)
        return slot is not None and bool(slot.starting)

    def reports(self) -> list[ChannelReport]:
        return [build_report(id, slot) for id, slot in self._slots.items()]

    def waiting(self) -> tuple[str, ...]:
        """Why channels wait for a person."""
        return tuple(slot.problem for slot in self._slots.values() if slot.untrusted)

    # --- changing --------------------------------------------------------------------------------------

    async def reload(self, *, trust: Collection[str] = ()) -> Changes:
        """Look at the file now. Broken channels are tried again. `trust`: what a person has read and agrees to, in the
        words of an earlier `waiting`; what became another since then still waits."""
        try:
            config = await asyncio.to_thread(configuration.load, environ=self._config.environ)
        except UsageError as error:
            self.problem = error.message
            changed = Changes(problem=error.message, hint=error.hint)
        else:
            self.problem = ""
            changed = await self.apply(config, trust=trust)
        self._on_change(changed)
        return changed

    async def apply(self, config: Config, *, trust: Collection[str] | None = ()) -> Changes:
        """`trust` as in `reload`; None is everything."""
        async with self._lock:
            self._config = config
            wanted = entries(config)
            codes = {id: await asyncio.to_thread(read_code, entry, config.source) for id, entry in wanted.items()}
            trusted = await self._trust_new_code(wanted, codes, trust) if trust is None or trust else ()
            verdicts: dict[str, str] = {}

            async def settle(id: str, entry: ChannelConfig | None) -> None:
                verdicts[id] = await self._apply_entry(id, entry, codes.get(id), config.source)

            gone = [id for id in self._slots if id not in wanted]
            await asyncio.gather(*(settle(id, None) for id in gone))  # first: a new one may take their address
            later = {
                id
                for id, entry in wanted.items()
                if id not in self._slots and self._trust.is_trusted(id, codes[id]) and self._reserve_address(id, entry)
            }
            await asyncio.gather(*(settle(id, entry) for id, entry in wanted.items() if id not in later))
            if not self._wait:
                self._ready.set()
            await asyncio.gather(*(settle(id, wanted[id]) for id in later))
            self._slots = {id: self._slots[id] for id in wanted}

        def those(name: str) -> tuple[str, ...]:
            return tuple(id for id in (*gone, *wanted) if verdicts.get(id) == name)  # in the configuration's order

        return Changes(
            started=those("started"),
            restarted=those("restarted"),
            stopped=those("stopped"),
            unchanged=those("unchanged"),
            broken=those("broken"),
            untrusted=those("untrusted"),
            waiting=tuple(f"{id}: {codes[id].description}" for id in those("untrusted")),
            trusted=trusted,
        )

    async def _trust_new_code(
        self, wanted: Mapping[str, ChannelConfig], codes: Mapping[str, ChannelCode], trust: Collection[str] | None
    ) -> tuple[str, ...]:
        new = [
            id
            for id, entry in wanted.items()
            if entry.enabled
            and not entry.problem
            and not codes[id].unreadable
            and not self._trust.is_trusted(id, codes[id])
            if trust is None or f"{id}: {codes[id].description}" in trust
        ]
        for id in new:
            self._trust.add(id, codes[id])
        try:
            await asyncio.to_thread(self._trust.save)
        except OSError as error:  # it holds for as long as this hub runs
            self.problem = f"the agreement could not be stored: {error}"
        return tuple(f"{id}: {codes[id].description}" for id in new)

    def _reserve_address(self, id: str, entry: ChannelConfig) -> bool:
        """Whether this one is of a type that takes its time; its mail is taken from now on."""
        if entry.type not in SLOW_TYPES or not entry.enabled or entry.problem:
            return False
        try:
            self._relay.reserve_address(id, SLOW_TYPES[entry.type].format(id=id))
        except UsageError:  # no address, or another's: to make it says why
            return False
        self._slots[id] = ChannelSlot(entry, starting=SLOW_TYPES[entry.type].format(id=id))
        return True

    async def _apply_entry(self, id: str, entry: ChannelConfig | None, code: ChannelCode | None, source: str) -> str:
        """Bring one channel to what its entry says."""
        old = self._slots.get(id)
        running = old.loaded if old is not None else None
        if entry is None or code is None or (not entry.enabled and not entry.problem):
            if entry is not None:
                self._slots[id] = ChannelSlot(entry)
            if running is None:
                return "unchanged"
            await self._stop(id, running, keep=False)
            return "stopped"
        mark = code.fingerprint
        if old is not None and running is not None and old.fingerprint == mark:
            old.problem = old.hint = old.field = ""
            return "unchanged"
        try:
            check_entry(entry, source)
            if not code.unreadable and not self._trust.is_trusted(id, code):
                return self._hold_back(id, entry, code)
            built = await asyncio.to_thread(build, entry, self._context, source=source, code=code)
        except ChannelError as error:
            if old is not None and running is not None:
                problem = f"it runs as before, because the change is invalid: {error.message}"
                old.problem, old.hint, old.field = problem, error.hint, error.field
            else:
                self._slots[id] = ChannelSlot(
                    entry, fingerprint=mark, problem=error.message, hint=error.hint, field=error.field
                )
                if old is not None and old.starting:
                    await self._relay.unregister(id)
            return "broken"
        if running is not None:
            await self._stop(id, running, keep=True)
        return await self._start(id, entry, mark, built, "restarted" if running is not None else "started")

    def _hold_back(self, id: str, entry: ChannelConfig, code: ChannelCode) -> str:
        old = self._slots.get(id)
        slot = (
            old
            if old is not None and old.loaded is not None
            else ChannelSlot(entry, fingerprint=code.fingerprint, untrusted=True)
        )
        as_before = "it runs as before: " if slot is old else ""
        slot.problem = f"channels.{id}: {as_before}{code.description} is not trusted yet"
        slot.hint, slot.field = "If you have read it, run `tieline channels reload`.", f"channels.{id}"
        self._slots[id] = slot
        return "untrusted"

    async def _start(self, id: str, entry: ChannelConfig, mark: str, built: LoadedChannel, verdict: str) -> str:
        slot = self._slots[id] = ChannelSlot(entry, fingerprint=mark, loaded=built, since=time.time())
        try:
            await self._relay.register(built.channel)
        except Exception as error:
            problem = error.message if isinstance(error, TielineError) else f"{type(error).__name__}: {error}"
            slot.loaded = None
            slot.problem = f"channels.{id}: start failed: {problem}"
            slot.hint = error.hint if isinstance(error, TielineError) else ""
            with contextlib.suppress(Exception):  # what it had begun before it failed
                await built.channel.stop()
            unload(built.module)
            return "broken"
        return verdict

    async def _stop(self, id: str, built: LoadedChannel, *, keep: bool) -> None:
        await self._relay.unregister(built.channel.id, keep=keep, grace_s=GRACE_S)
        unload(built.module)

    # --- watching --------------------------------------------------------------------------------------

    def _config_path(self) -> Path | None:
        path = self._config.source or config_path(self._config.environ)
        return Path(path) if path else None

    def _files(self) -> Iterable[Path]:
        config_file = self._config_path()
        local = [local_file(slot.entry, self._config.source) for slot in self._slots.values() if slot.entry.path]
        return ([config_file] if config_file else []) + local

    async def _watch_files(self) -> None:
        first = True
        async with contextlib.aclosing(watch(self._files)) as looks:
            async for _ in looks:
                try:
                    if not first or await self._has_changed():
                        await self.reload()
                except BusError as error:  # the next change, or a reload by hand, tries again
                    self.problem = error.message
                first = False

    async def _has_changed(self) -> bool:
        """Whether something changed between loading and watching."""
        try:
            config = await asyncio.to_thread(configuration.load, environ=self._config.environ)
        except UsageError:
            return True
        marks = {
            id: (await asyncio.to_thread(read_code, slot.entry, config.source)).fingerprint
            for id, slot in self._slots.items()
            if slot.fingerprint
        }
        return config.channels != self._config.channels or any(self._slots[id].fingerprint != marks[id] for id in marks)
