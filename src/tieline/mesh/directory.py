"""Who is in the mesh: agents in harnesses, driven sessions and people, found by name, id, address or what they do.

Agents are rows of the table `members`, held in memory and kept current by the table's watch, so every hub on a bus
knows the same. A second table makes a name belong to one member, whichever hubs are asked at the same time.
"""

import asyncio
import hashlib
import heapq
import logging
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from ..background_tasks import background, cancel_and_wait
from ..bus.base import Bus
from ..bus.table_cache import TableCache
from ..envelopes import address as normalize_address
from ..envelopes import under
from ..errors import BusError, Conflict, UsageError
from ..ids import SHORT, fits_id
from ..processes.process_table import running_process
from ..protocol.mesh import MAX_MEMBERS, Activity, MemberMatch, MemberView
from ..sessions.records import SessionRecord
from .errors import NameTaken, NoteConflict, NotRegistered, NotYours, UnknownMember
from .names import check_name, default_name, name_key
from .project import project_name
from .records import (
    MEMBER_PREFIX,
    MEMBERS,
    OWNER_NAME,
    PERSON_PREFIX,
    SESSION_PREFIX,
    Member,
    decode_member,
    encode,
    member_id,
)
from .search import MemberIndex

MEMBER_NAMES = "member_names"
STALE_S = 15 * 60.0
"""Without a sign of life for so long, a member is marked as stale."""
PRUNE_S = 7 * 86400.0
"""Without a sign of life for so long, a member with an empty inbox is removed."""
UPKEEP_S = 60.0
"""How often signs of life are written down, and old members are removed."""
TRIES = 16
"""Of a write that another hub was faster with."""
MAX_SUFFIX = 1000

_PERSON, _SESSION = "person ", "session "
"""Keys of the index that are no members of the table begin with one of these."""

log = logging.getLogger("tieline.mesh")


class Filters(Struct, frozen=True, kw_only=True):
    """Which members are meant; an empty field means any."""

    project: str = ""
    role: str = ""
    specialisation: str = ""
    activity: str = ""
    machine: str = ""
    harness: str = ""
    kind: str = ""

    def facets(self) -> dict[str, str]:
        """What is asked for, in the spelling that is kept."""
        asked = {name: value for name in self.__struct_fields__ if (value := getattr(self, name))}
        return {**asked, "project": project_name(self.project)} if self.project else asked


NO_FILTERS = Filters()


class Profile(Struct, frozen=True, kw_only=True):
    """What a member says of itself; an empty field leaves what is known."""

    description: str = ""
    project: str = ""
    role: str = ""
    specialisation: str = ""
    branch: str = ""
    cwd: str = ""

    def changes(self) -> dict[str, str]:
        limits = {"description": 2000, "cwd": 4096}
        return {
            name: value[: limits.get(name, 200)] for name in self.__struct_fields__ if (value := getattr(self, name))
        }


class Directory:
    """`async with Directory(bus, unread)`. `unread` says how many messages wait at an address, `people` who has an
    inbox."""

    def __init__(
        self,
        bus: Bus,
        unread: Callable[[str], int] = lambda address: 0,
        people: Callable[[], Iterable[str]] = lambda: (),
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._table = bus.table(MEMBERS)
        self._names = bus.table(MEMBER_NAMES)
        self._unread = unread
        self._people = people
        self._clock = clock
        self._members: dict[str, Member] = {}
        self._sessions: dict[str, MemberView] = {}
        self._session_ids: dict[str, str] = {}  # by address, which has no capitals
        self._by_name: dict[str, dict[str, None]] = {}
        self._by_process: dict[str, dict[str, None]] = {}
        self._by_token: dict[str, str] = {}
        self._by_session: dict[tuple[str, str, str], str] = {}
        self._seen: dict[str, float] = {}  # later than what is written
        self._index = MemberIndex()
        self._lock = asyncio.Lock()
        self._cache = TableCache(self._table, self._apply)
        self._upkeep: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Directory":
        await self._cache.__aenter__()
        self._upkeep = background(self._keep_up(), "mesh-directory")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._upkeep is not None:
            await cancel_and_wait(self._upkeep)
        await self._cache.__aexit__()
        with suppress(BusError):
            await self._write_seen()

    # --- looking ---

    def member(self, id: str) -> Member | None:
        return self._members.get(id)

    def by_token(self, token: str) -> Member | None:
        return self._members.get(self._by_token.get(_digest(token), ""))

    def by_session(self, machine: str, harness: str, session: str) -> Member | None:
        return self._members.get(self._by_session.get((machine, harness, session), ""))

    def runs_in(self, process: str) -> bool:
        """Whether this process, by its `process_key`, is the harness of a member whose session is not over."""
        return any(not self._members[id].ended for id in self._by_process.get(process, ())) if process else False

    def any_runs(self) -> bool:
        """Whether the harness of any member of this machine runs."""
        return any(running_process(process) and self.runs_in(process) for process in self._by_process)

    def view(self, member: Member) -> MemberView:
        seen = self._seen_at(member)
        return MemberView(
            id=member.id,
            name=member.name,
            address=member.address,
            kind=member.kind,
            description=member.description,
            project=member.project,
            role=member.role,
            specialisation=member.specialisation,
            branch=member.branch,
            harness=member.harness,
            session=member.session,
            machine=member.machine,
            cwd=member.cwd,
            activity=member.activity,
            stale=not member.ended and self._clock() - seen > STALE_S,
            ended=member.ended,
            unread=self._unread(member.address),
            created_at=member.created_at,
            seen_at=seen,
        )

    def session_view(self, session: str) -> MemberView:
        if view := self._sessions.get(session):
            return self._show(view)
        raise UnknownMember(session)

    def person_view(self, name: str) -> MemberView:
        address = normalize_address(f"{PERSON_PREFIX}.{name}")
        return MemberView(id=address, name=name, kind="person", address=address, unread=self._unread(address))

    def members(
        self, filters: Filters = NO_FILTERS, *, limit: int = MAX_MEMBERS, ended: bool = False
    ) -> list[MemberView]:
        """All members: people first, then the others, the last seen first. With `ended`, also members whose session is
        over."""
        self._index_people()
        records = [record for key in self._index.having(filters.facets()) if (record := self._record(key)) is not None]
        if ended:
            records += [member for member in self._members.values() if member.ended and _fits(member, filters)]
        newest = heapq.nlargest(min(limit, MAX_MEMBERS), records, key=self._order)
        return [self._show(record) for record in newest]

    def find(self, query: str, filters: Filters = NO_FILTERS, *, limit: int = 20) -> list[MemberMatch]:
        """The best matches first; among equals, the last seen. An empty query matches every member."""
        if not any(character.isalnum() for character in query):
            return [MemberMatch(member=view) for view in self.members(filters, limit=limit)]
        self._index_people()
        facets = filters.facets()
        matches = [
            (score, record)
            for key, score in self._index.find(query, self._index.having(facets) if facets else None)
            if (record := self._record(key)) is not None
        ]
        matches.sort(key=lambda match: (match[0], self._order(match[1])), reverse=True)
        return [MemberMatch(member=self._show(record), score=score) for score, record in matches[:limit]]

    def resolve(self, text: str) -> MemberView:
        """By `@name`, name, member id, session id or whole address; also by a part of an id that fits no other."""
        text = text.strip()
        if text.casefold().startswith("relay."):
            return self._by_address(normalize_address(text))
        name = text.removeprefix("@")
        if member := self._members.get(name) or self._live(name):
            return self.view(member)
        if name in self._sessions:
            return self.session_view(name)
        for person in self._person_names():
            if name_key(person) == name_key(name):
                return self.person_view(person)
        ids = [id for id in (*self._members, *self._sessions) if len(name) >= SHORT and fits_id(id, name)]
        if len(ids) == 1:
            return self.resolve(ids[0])
        raise UnknownMember(text, tuple(match.member.name for match in self.find(name, limit=3)))

    def _by_address(self, address: str) -> MemberView:
        id = address.removeprefix(MEMBER_PREFIX + ".")
        if member := self._members.get(id):
            return self.view(member)
        if (key := self._session_ids.get(address)) is not None:
            return self.session_view(key)
        if under(MEMBER_PREFIX, address):  # a message to it would never be read
            raise UnknownMember(address)
        if under(PERSON_PREFIX, address):
            return self.person_view(address.removeprefix(PERSON_PREFIX + "."))
        return MemberView(id=address, name=address, kind="session", address=address)

    def name_of(self, address: str) -> tuple[str, str]:
        """The name and the member id of an address; the address itself if it is nobody's."""
        try:
            view = self._by_address(address)
        except UsageError:
            return address, ""
        return view.name, view.id

    # --- registering ---

    async def register(
        self,
        *,
        machine: str,
        harness: str = "",
        session: str = "",
        name: str = "",
        profile: Profile,
        owned: str = "",
        process: str = "",
    ) -> tuple[Member, str, bool]:
        """The member, a new token, and whether it was known. The same session is the same member; `owned` is the member
        that the caller has proved to be. `process` is the caller's harness."""
        wanted = check_name(name) if name else ""
        if wanted:
            self._check_free(wanted)
        token = "tm_" + secrets.token_urlsafe(32)
        now = self._clock()
        known_member = self.by_session(machine, harness, session) if session else None
        if known_member is not None and owned not in ("", known_member.id):
            raise NotYours(
                f"the session {session} is bound to the member {known_member.name}",
                hint="Use that member, or leave session_id out.",
            )
        derived = member_id(machine, harness, session) if session else f"mb-{secrets.token_hex(8)}"
        id = known_member.id if known_member else owned or derived
        async with self._lock:
            for _ in range(TRIES):
                entry = await self._table.get(id)
                known = decode_member(entry.value) if entry else None
                if known is not None and known_member is None and not owned and known.session != session:
                    id = f"mb-{secrets.token_hex(8)}"  # the member that had this session has another one now
                    continue
                changes = profile.changes()
                if known is not None:
                    binding = {"machine": machine, "harness": harness, "session": session} if session else {}
                    changed = replace(known, **{**changes, **binding}, ended=False, seen_at=now)
                else:
                    changed = Member(
                        id=id, name="", machine=machine, harness=harness, session=session, created_at=now, seen_at=now
                    )
                    changed = replace(changed, **changes)
                at = changed.process if running_process(changed.process) else process
                changed = replace(changed, token_hash=_digest(token), process=at)
                changed = replace(changed, name=await self._claim(changed, wanted))
                try:
                    await self._table.put(id, encode(changed), expect=entry.revision if entry else 0)
                except Conflict:
                    continue
                if known is not None and name_key(known.name) != name_key(changed.name):
                    await self._free(known)
                self._store(changed)
                return changed, token, known is not None
        raise NoteConflict("the members")

    async def update(self, id: str, change: Callable[[Member], Member], *, name: str = "") -> Member:
        """Raises NotRegistered when it is gone."""
        wanted = check_name(name) if name else ""
        if wanted and (known := self._members.get(id)) and name_key(known.name) != name_key(wanted):
            self._check_free(wanted)
        async with self._lock:
            for _ in range(TRIES):
                entry = await self._table.get(id)
                if entry is None:
                    raise NotRegistered("this member is no longer known")
                known = decode_member(entry.value)
                changed = change(replace(known, seen_at=max(known.seen_at, self._seen.get(id, 0.0))))
                if wanted:
                    changed = replace(changed, name=await self._claim(changed, wanted))
                if changed == known:
                    return known
                try:
                    await self._table.put(id, encode(changed), expect=entry.revision)
                except Conflict:
                    continue
                if name_key(known.name) != name_key(changed.name):
                    await self._free(known)
                self._store(changed)
                return changed
        raise NoteConflict("the members")

    async def heartbeat(self, id: str, activity: Activity | None = None) -> Member:
        """A sign of life. It is written down at once when the activity changed, and otherwise with the next upkeep."""
        member = self._members.get(id)
        if member is None:
            raise NotRegistered("this member is no longer known")
        self._seen[id] = now = self._clock()
        if not member.ended and (activity is None or activity == member.activity):
            return member
        activity = activity or member.activity
        return await self.update(id, lambda known: replace(known, activity=activity, ended=False, seen_at=now))

    async def end(self, id: str) -> Member:
        """Its session is over. Its mail stays; the same session that comes back is the same member, in any process: the
        harness may run on with another session."""
        return await self.update(id, lambda known: replace(known, ended=True, activity="unknown", process=""))

    async def remove(self, id: str) -> None:
        if member := self._members.get(id):
            await self._table.delete(id)
            await self._free(member)
            self._drop(id)

    # --- driven sessions ---

    def put_session(self, record: SessionRecord, *, machine: str = "") -> None:
        if record.archived or record.status == "closed":
            self.remove_session(record.id)
            return
        view = self._sessions[record.id] = _session_view(record, machine or record.node)
        self._session_ids[view.address] = record.id
        self._index.put(f"{_SESSION}{record.id}", view.name, _texts(view), _facets(view))

    def remove_session(self, id: str) -> None:
        if view := self._sessions.pop(id, None):
            del self._session_ids[view.address]
            self._index.remove(f"{_SESSION}{id}")

    # --- names ---

    def _check_free(self, name: str) -> None:
        """A driven session and a person have their names already."""
        if name in self._sessions:
            raise NameTaken(name, "a session that Tieline drives")
        if any(name_key(person) == name_key(name) for person in self._person_names()):
            raise NameTaken(name, "a person; an agent cannot register as a person")

    async def _claim(self, member: Member, wanted: str) -> str:
        """The name that now belongs to the member: the wanted one, its present one, or a free one."""
        if wanted:
            if holder := await self._take(wanted, member.id):
                raise NameTaken(wanted, holder)
            return wanted
        base = member.name or default_name(member.project, member.harness)
        for number in range(1, MAX_SUFFIX):
            name = base if number == 1 else f"{base}-{number}"
            if name in self._sessions or any(name_key(person) == name_key(name) for person in self._person_names()):
                continue
            if not await self._take(name, member.id):
                return name
        return f"{base}-{member.id[-8:]}"

    async def _take(self, name: str, id: str) -> str:
        """Empty: the name is the member's. Otherwise the id of the live member that has it."""
        key = _digest(name_key(name))
        for _ in range(TRIES):
            entry = await self._names.get(key)
            if entry is not None and (holder := entry.value.decode()) != id:
                stored = await self._table.get(holder)
                known = decode_member(stored.value) if stored else None
                if known is not None and not known.ended and name_key(known.name) == name_key(name):
                    return holder
            elif entry is not None:
                return ""
            with suppress(Conflict):
                await self._names.put(key, id.encode(), expect=entry.revision if entry else 0)
                return ""
        raise NoteConflict("the names")

    async def _free(self, member: Member) -> None:
        entry = await self._names.get(key := _digest(name_key(member.name)))
        if entry is not None and entry.value.decode() == member.id:
            with suppress(Conflict):
                await self._names.delete(key, expect=entry.revision)

    # --- in memory ---

    def _apply(self, key: str, value: bytes | None, from_watch: bool) -> None:
        if value is None:
            self._drop(key)
        else:
            self._store(decode_member(value))

    def _store(self, member: Member) -> None:
        old = self._members.get(member.id)
        if old is not None:
            self._unlink(old)
        self._members[member.id] = member
        self._by_name.setdefault(name_key(member.name), {})[member.id] = None
        self._by_process.setdefault(member.process, {})[member.id] = None
        self._by_token[member.token_hash] = member.id
        if member.session:
            self._by_session[(member.machine, member.harness, member.session)] = member.id
        if member.ended:
            self._index.remove(member.id)
        else:
            self._index.put(member.id, member.name, _texts(member), _facets(member))

    def _drop(self, id: str) -> None:
        if member := self._members.pop(id, None):
            self._unlink(member)
            self._index.remove(id)
            self._seen.pop(id, None)

    def _unlink(self, member: Member) -> None:
        for index, key in ((self._by_name, name_key(member.name)), (self._by_process, member.process)):
            ids = index.get(key, {})
            ids.pop(member.id, None)
            if not ids:
                index.pop(key, None)
        self._by_token.pop(member.token_hash, None)
        binding = (member.machine, member.harness, member.session)
        if self._by_session.get(binding) == member.id:
            del self._by_session[binding]

    def _live(self, name: str) -> Member | None:
        named = [self._members[id] for id in self._by_name.get(name_key(name), ())]
        return max(named, key=lambda member: (not member.ended, member.seen_at), default=None)

    def _seen_at(self, member: Member | MemberView) -> float:
        return max(member.seen_at, self._seen.get(member.id, 0.0))

    def _person_names(self) -> list[str]:
        return list(dict.fromkeys((OWNER_NAME, *self._people())))

    def _index_people(self) -> None:
        for name in self._person_names():
            if (key := f"{_PERSON}{name}") not in self._index:
                self._index.put(key, name, (), {"kind": "person"})

    def _record(self, key: str) -> Member | MemberView | None:
        if key.startswith(_PERSON):
            return self.person_view(key.removeprefix(_PERSON))
        return self._members.get(key) or self._sessions.get(key.removeprefix(_SESSION))

    def _show(self, record: Member | MemberView) -> MemberView:
        return self.view(record) if isinstance(record, Member) else replace(record, unread=self._unread(record.address))

    def _order(self, record: Member | MemberView) -> tuple[bool, float]:
        return record.kind == "person", self._seen_at(record)

    # --- upkeep ---

    async def _keep_up(self) -> None:
        while True:
            await asyncio.sleep(UPKEEP_S)
            try:
                await self._write_seen()
                await self.prune()
            except BusError as error:  # the next round does it
                log.warning("the members are not kept up to date: %s", error.message)

    async def _write_seen(self) -> None:
        for id, seen in list(self._seen.items()):
            member = self._members.get(id)
            if member is None or member.seen_at >= seen:
                self._seen.pop(id, None)
                continue
            with suppress(NotRegistered):
                await self.update(id, lambda known, seen=seen: replace(known, seen_at=max(known.seen_at, seen)))

    async def prune(self) -> list[str]:
        """Removes members that gave no sign of life for long and have no unread message."""
        now = self._clock()
        old = [
            member.id
            for member in self._members.values()
            if now - self._seen_at(member) > PRUNE_S and not self._unread(member.address)
        ]
        for id in old:
            await self.remove(id)
        return old


def _session_view(record: SessionRecord, machine: str) -> MemberView:
    activities: dict[str, Activity] = {"working": "working", "waiting": "working", "idle": "idle"}
    return MemberView(
        id=record.id,
        name=record.id,
        kind="session",
        description=record.title,
        project=project_name(record.cwd.rstrip("/").rpartition("/")[2]),
        branch=record.branch,
        harness=record.agent,
        session=record.native_id,
        machine=machine,
        cwd=record.cwd,
        address=normalize_address(f"{SESSION_PREFIX}.{record.id}"),
        activity=activities.get(record.status, "unknown"),
        created_at=record.created_at,
        seen_at=record.active_at or record.created_at,
    )


def _texts(member: Member | MemberView) -> Iterable[str]:
    fields = (member.role, member.specialisation, member.project, member.harness, member.branch, member.machine)
    return (*fields, member.cwd.rpartition("/")[2], member.description)


def _facets(member: Member | MemberView) -> dict[str, str]:
    return {name: getattr(member, name) for name in Filters.__struct_fields__}


def _fits(member: Member, filters: Filters) -> bool:
    return all(getattr(member, name).casefold() == value.casefold() for name, value in filters.facets().items())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
