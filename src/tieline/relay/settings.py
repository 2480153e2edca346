"""Settings of the relay that are not in the configuration file: retries, timeouts, limits."""

from msgspec import Struct

from ..backoff import Backoff


class Settings(Struct, frozen=True, kw_only=True):
    attempts: int = 6  # deliveries of one message before it is dead
    first_wait_s: float = 1.0  # before the second attempt; it doubles
    longest_wait_s: float = 60.0
    room_wait_s: float = 2.0  # before a channel without room, or a node that is away, is asked again
    breaker_failures: int = 5  # in a row, before a channel is left alone
    breaker_open_s: float = 2.0  # for how long, at first; it doubles
    breaker_longest_s: float = 60.0
    concurrent: int = 256  # deliveries to one in-process endpoint at a time
    park_after_s: float = 0.2  # unread, before a message of an inbox is saved among the unread ones
    grace_s: float = 30.0  # for deliveries that run when their channel is replaced
    stop_s: float = 5.0  # for those that run when the relay stops: they are made again
    lease_s: int = 30  # of the active relay; one that died on another machine is taken over after so long
    keep_keys_s: int = 86400  # how long an idempotency key is remembered
    max_steps: int = 64  # of one receipt: what waits long repeats itself

    def wait_s(self, attempt: int) -> float:
        """Before the attempt after this one, with jitter, so that what failed together does not come back together."""
        return Backoff(self.first_wait_s, self.longest_wait_s, (0.75, 1.25)).delay(attempt)
