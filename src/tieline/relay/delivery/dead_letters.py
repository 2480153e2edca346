"""What did not arrive, kept whole: look at it, send it again, drop it."""

from collections.abc import Awaitable, Callable, Sequence

from ...bus.subjects import matcher
from ...envelopes import DeadLetter, MessageReceipt, Refused, UnknownMessage
from ..storage.store import RelayStore

Again = Callable[[DeadLetter], Awaitable[MessageReceipt]]


class DeadLetters:
    """`relay.dead`."""

    def __init__(self, ledger: RelayStore, again: Again) -> None:
        self._ledger = ledger
        self._again = again

    async def list(self, *, to: str = "", sender: str = "", reason: str = "") -> "list[DeadLetter]":
        """The newest first. `to` and `sender` are patterns of addresses."""
        wanted, by = matcher(to.casefold() or ">"), matcher(sender.casefold() or ">")
        found = [
            letter
            for letter in await self._ledger.letters()
            if wanted(letter.envelope.subject) and by(letter.envelope.sender) and reason in ("", letter.reason)
        ]
        return sorted(found, key=lambda letter: letter.at, reverse=True)

    async def show(self, id: str) -> DeadLetter:
        letter = await self._ledger.letter(id)
        if letter is None:
            raise UnknownMessage(id)
        return letter

    async def retry(
        self, ids: Sequence[str] = (), *, to: str = "", sender: str = "", reason: str = ""
    ) -> "list[tuple[str, MessageReceipt | Refused]]":
        """Send them again, each with a fresh budget: those named, or all that match. What was stored is no dead letter
        any longer; what was refused stays one. Says what became of each."""
        outcomes: list[tuple[str, MessageReceipt | Refused]] = []
        for letter in await self._chosen(ids, to, sender, reason):
            try:
                receipt = await self._again(letter)
            except Refused as refusal:
                outcomes.append((letter.envelope.id, refusal))
                continue
            await self._ledger.drop_letter(letter.envelope.id)
            outcomes.append((letter.envelope.id, receipt))
        return outcomes

    async def drop(self, ids: Sequence[str] = (), *, to: str = "", sender: str = "", reason: str = "") -> int:
        chosen = await self._chosen(ids, to, sender, reason)
        for letter in chosen:
            await self._ledger.drop_letter(letter.envelope.id)
        return len(chosen)

    async def _chosen(self, ids: Sequence[str], to: str, sender: str, reason: str) -> "list[DeadLetter]":
        if ids:
            return [await self.show(id) for id in ids]
        if not (to or sender or reason):
            return []
        return await self.list(to=to, sender=sender, reason=reason)
