"""Dead letters, undelivered messages: list them, send them again, drop them."""

from collections.abc import Awaitable, Callable, Sequence

from ...bus.subjects import matcher
from ...envelopes import DeadLetter, MessageReceipt, Refused, UnknownMessage
from ..storage.store import RelayStore

Resend = Callable[[DeadLetter], Awaitable[MessageReceipt]]


class DeadLetters:
    def __init__(self, store: RelayStore, resend: Resend) -> None:
        self._store = store
        self._resend = resend

    async def list(self, *, to: str = "", sender: str = "", reason: str = "") -> "list[DeadLetter]":
        """Newest first. `to` and `sender` are address patterns."""
        match_subject, match_sender = matcher(to.casefold() or ">"), matcher(sender.casefold() or ">")
        dead_letters = [
            dead_letter
            for dead_letter in await self._store.dead_letters()
            if match_subject(dead_letter.envelope.subject)
            and match_sender(dead_letter.envelope.sender)
            and reason in ("", dead_letter.reason)
        ]
        return sorted(dead_letters, key=lambda dead_letter: dead_letter.at, reverse=True)

    async def show(self, id: str) -> DeadLetter:
        dead_letter = await self._store.dead_letter(id)
        if dead_letter is None:
            raise UnknownMessage(id)
        return dead_letter

    async def retry(
        self, ids: Sequence[str] = (), *, to: str = "", sender: str = "", reason: str = ""
    ) -> "list[tuple[str, MessageReceipt | Refused]]":
        """Send the named ones, or all that match, again with a fresh budget. One that is refused stays a dead letter.
        Returns each id with its receipt or refusal."""
        outcomes: list[tuple[str, MessageReceipt | Refused]] = []
        for dead_letter in await self._select(ids, to, sender, reason):
            try:
                receipt = await self._resend(dead_letter)
            except Refused as refusal:
                outcomes.append((dead_letter.envelope.id, refusal))
                continue
            await self._store.delete_dead_letter(dead_letter.envelope.id)
            outcomes.append((dead_letter.envelope.id, receipt))
        return outcomes

    async def drop(self, ids: Sequence[str] = (), *, to: str = "", sender: str = "", reason: str = "") -> int:
        selected = await self._select(ids, to, sender, reason)
        for dead_letter in selected:
            await self._store.delete_dead_letter(dead_letter.envelope.id)
        return len(selected)

    async def _select(self, ids: Sequence[str], to: str, sender: str, reason: str) -> "list[DeadLetter]":
        if ids:
            return [await self.show(id) for id in ids]
        if not (to or sender or reason):
            return []
        return await self.list(to=to, sender=sender, reason=reason)
