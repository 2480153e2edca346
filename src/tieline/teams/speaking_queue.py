"""Who speaks next: by priority, then in the order in which they were addressed. Nobody is passed over for ever."""

from collections.abc import Iterator

from ..protocol.teams import LOWEST_PRIORITY, USUAL_PRIORITY

MAX_QUEUE = 50
MAX_PER_MESSAGE = 10
"""Members that one message may address."""
PATIENCE = 2
"""A member that was passed over so many times moves up by one priority, beyond the highest if need be."""


class Waiting:
    """A member that will speak."""

    def __init__(self, name: str, priority: int, messages: list[int]) -> None:
        self.name = name
        self.priority = priority
        self.messages = messages  # the numbers of the messages that address it
        self.passed_over = 0

    @property
    def rank(self) -> int:
        return self.priority - self.passed_over // PATIENCE


class SpeakingQueue:
    """Each member stands in it once."""

    def __init__(self) -> None:
        self._waiting: list[Waiting] = []

    def __iter__(self) -> Iterator[Waiting]:
        """In the order in which they will speak, if nobody else is addressed."""
        return iter(sorted(self._waiting, key=lambda waiting: waiting.rank))

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, name: str) -> bool:
        return any(waiting.name == name for waiting in self._waiting)

    def add(self, name: str, priority: int = USUAL_PRIORITY, message: int = 0) -> bool:
        """Whether there is room. A member that waits already keeps its place, and takes the better priority."""
        for waiting in self._waiting:
            if waiting.name == name:
                waiting.priority = min(waiting.priority, priority)
                waiting.messages.append(message)
                return True
        if len(self._waiting) >= MAX_QUEUE:
            return False
        self._waiting.append(Waiting(name, min(priority, LOWEST_PRIORITY), [message]))
        return True

    def take(self, name: str) -> Waiting | None:
        """Removes a member that speaks now; members that were addressed before it count as passed over."""
        for index, waiting in enumerate(self._waiting):
            if waiting.name == name:
                for other in self._waiting[:index]:
                    other.passed_over += 1
                return self._waiting.pop(index)
        return None

    def drop(self, name: str) -> bool:
        before = len(self._waiting)
        self._waiting = [waiting for waiting in self._waiting if waiting.name != name]
        return len(self._waiting) < before

    def clear(self) -> None:
        self._waiting.clear()

    def put_first(self, names: list[str]) -> None:
        """A person decides the order: these first, the others after them as they were."""
        front = min((waiting.rank for waiting in self._waiting), default=USUAL_PRIORITY) - 1
        standing = {waiting.name: waiting for waiting in self._waiting}
        messages = [getattr(standing.pop(name, None), "messages", []) for name in names]
        first = [Waiting(name, front, of_it) for name, of_it in zip(names, messages, strict=True)]
        self._waiting = first + list(standing.values())
