"""Errors a caller can act on. Each carries its fields and says what to do.

TielineError
├── UsageError            the caller asked for something that cannot be: names the field
│   ├── UnknownAgent
│   ├── BadSubject        a subject, pattern, key or name on the bus is malformed
│   ├── RecordTooLarge
│   ├── Unsupported       the agent cannot do it (declared in its features)
│   └── PolicyUnenforceable
├── AgentError            something about the agent's program
│   ├── AgentMissing      the program, or a library that drives it, is not installed
│   ├── AgentStartFailed  the program did not start
│   │   └── NotSignedIn   the agent has no credentials
│   ├── AgentDied         the program ended while it was needed
│   └── ProtocolError     the agent broke its protocol
├── BusError              something about the durable log
│   ├── BusLocked         another process owns its file
│   ├── BusFull           there is no room to write
│   ├── BusUnavailable    its server did not answer in time
│   ├── BusClosed         it was closed here
│   └── Conflict          an entry is not at the expected revision
├── ConcurrentChange      others changed the same thing, at every try
└── SessionClosed         the session is over, or not open yet

What goes wrong *inside* a turn (a model error, a refused tool, a timeout) is not an exception: it is an
`error` event and the `done` that ends the turn.
"""

from collections.abc import Sequence


class TielineError(Exception):
    """Anything Tieline raises on purpose. `hint` says what to do about it."""

    hint: str

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n  {self.hint}" if self.hint else message

    @property
    def message(self) -> str:
        """The message alone, without the hint."""
        return super().__str__()

    def __reduce__(self) -> tuple[object, ...]:
        """Copied and pickled as it is: between processes it must not be lost because its constructor takes more."""
        return _copy, (type(self), self.args, self.__dict__)


class UsageError(TielineError):
    """The caller's input is wrong; `field` names the part."""

    field: str

    def __init__(self, message: str, *, field: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.field = field


class UnknownAgent(UsageError):
    def __init__(self, agent: str, known: Sequence[str], *, field: str = "agent") -> None:
        import difflib  # only for a mistake

        close = difflib.get_close_matches(agent, known, cutoff=0.5)
        meant = f"Did you mean {' or '.join(close)}? `tieline agents --all` lists all."
        hint = meant if close else f"Known agents: {', '.join(known)}."
        super().__init__(f"unknown agent {agent!r}", field=field, hint=hint)
        self.agent = agent


class Unsupported(UsageError):
    """The agent cannot do what was asked; leaving it out silently would deceive the caller."""

    def __init__(self, agent: str, feature: str, *, hint: str = "") -> None:
        super().__init__(
            f"{agent} does not support {feature}",
            field=feature,
            hint=hint or f"Leave {feature} out, or see `tieline agents` for who supports it.",
        )
        self.agent = agent
        self.feature = feature


class PolicyUnenforceable(UsageError):
    """A `deny` or an `ask` that the agent cannot be held to; `why` is what its receipt says about it."""

    def __init__(self, agent: str, capabilities: Sequence[str], why: str = "") -> None:
        names = ", ".join(capabilities)
        super().__init__(
            f"{agent} cannot be kept from: {names}{f' ({why})' if why else ''}",
            field="policy",
            hint=f"Use another agent, relax {names}, or accept it explicitly "
            "(accept_unenforced=True, --accept-unenforced).",
        )
        self.agent = agent
        self.capabilities = tuple(capabilities)


class RepositoryRuns(PolicyUnenforceable):
    """The agent would run a file of the session's repository, although commands are not allowed."""

    def __init__(self, agent: str, path: str, trust: str) -> None:
        super().__init__(agent, ["shell"], f"it executes {path} from the repository")
        self.hint = f"{self.hint} If you trust the repository: {trust}"


class AgentError(TielineError):
    def __init__(self, agent: str, message: str, *, hint: str = "") -> None:
        super().__init__(f"{agent}: {message}", hint=hint)
        self.agent = agent


class AgentMissing(AgentError):
    pass


class AgentStartFailed(AgentError):
    pass


class NotSignedIn(AgentStartFailed):
    pass


class AgentDied(AgentError):
    def __init__(self, agent: str, status: int | None, stderr: str = "") -> None:
        how = "ended" if status is None else f"exited with status {status}"
        if status is not None and status < 0:
            how = f"was killed by signal {-status}"
        super().__init__(agent, how, hint=f"Its last output: {stderr[-2000:].strip()}" if stderr.strip() else "")
        self.status = status
        self.stderr = stderr


class ProtocolError(AgentError):
    pass


class SessionClosed(TielineError):
    def __init__(
        self,
        message: str = "the session is closed",
        *,
        hint: str = "Open a new session; resume= continues the conversation.",
    ) -> None:
        super().__init__(message, hint=hint)


class BadSubject(UsageError):
    """`field` names the malformed part: subject, pattern, key, table, headers."""

    def __init__(self, what: str, value: str, problem: str, *, hint: str = "") -> None:
        shown = value if len(value) <= 80 else value[:77] + "..."
        super().__init__(f"bad {what} {shown!r}: {problem}", field=what, hint=hint)
        self.value = value
        self.problem = problem


class RecordTooLarge(UsageError):
    def __init__(self, size: int, limit: int, *, hint: str = "") -> None:
        super().__init__(
            f"the record has {size:,} bytes, the maximum is {limit:,}",
            field="data",
            hint=hint or "Store the data elsewhere and publish a reference to it.",
        )
        self.size = size
        self.limit = limit


class BusError(TielineError):
    pass


class BusLocked(BusError):
    """Another process owns the bus file; `owner` names it."""

    def __init__(self, path: str, owner: str, pid: int | None = None) -> None:
        super().__init__(
            f"{path} is in use by {owner}",
            hint="Use that process instead of opening its file, or stop it first.",
        )
        self.path = path
        self.owner = owner
        self.pid = pid


class BusFull(BusError):
    """The refused records are not stored; those acknowledged before are safe."""

    def __init__(self, where: str, detail: str) -> None:
        super().__init__(f"no room to write to {where}: {detail}", hint="Free some space, or trim the log.")
        self.where = where


class BusUnavailable(BusError):
    """Not acknowledged: the record may or may not be stored. Sending it again with the same id is safe."""


class BusClosed(BusError):
    def __init__(self) -> None:
        super().__init__("the bus is closed")


class Conflict(BusError):
    def __init__(self, table: str, key: str, expected: int) -> None:
        wanted = "already exists" if expected == 0 else f"is not at revision {expected}"
        super().__init__(f"{table}: {key} {wanted}", hint="Read the entry again, then retry.")
        self.table = table
        self.key = key
        self.expected = expected


class ConcurrentChange(TielineError):
    """Nothing was changed."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the {what} was changed concurrently; try again")


def invalid_value(
    name: str, value: object, *, field: str = "", accepted: Sequence[str] = (), hint: str = ""
) -> UsageError:
    """`name` is the option as its caller knows it, such as `--status`; `accepted` are all the values that it takes."""
    shown = f"{value:g}" if isinstance(value, float) else repr(value)
    return UsageError(
        f"invalid value {shown} for {name}",
        field=field or name.lstrip("-").replace("-", "_"),
        hint=f"It must be one of {', '.join(accepted)}." if accepted else hint,
    )


def _copy(kind: type[TielineError], args: tuple[object, ...], fields: dict[str, object]) -> TielineError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


def kind_of(name: str) -> type[TielineError] | None:
    """The error class of that name, for an error that a peer reports; None for an unknown name."""
    kind: object = globals().get(name)
    return kind if isinstance(kind, type) and issubclass(kind, TielineError) else None
