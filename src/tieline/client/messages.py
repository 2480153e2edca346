"""The part of the client about messages: sending and asking, where they are, inboxes, dead letters, channels."""

import asyncio
import time
from collections.abc import Sequence

from msgspec.structs import replace

from ..envelopes import DeadLetter, Limits
from ..ids import new_id
from ..protocol.messages import (
    ASK_S,
    AnswerView,
    ChannelReload,
    ChannelTest,
    ChannelTestView,
    ChannelView,
    DeadOutcome,
    DeadSelection,
    DropView,
    InboxRead,
    InboxView,
    MessageView,
    NewAsk,
    NewMessage,
    ReloadView,
    ThreadView,
    TraceView,
)
from .api_requests import ApiRequests

OWNER = "relay.user.owner"
"""The inbox of whoever is let in."""
ONE_REQUEST_S = 45.0
"""An answer that may take longer is not waited for in one request."""
POLL_S = (0.2, 2.0)
"""Between two looks at a receipt: at first, and at most."""
SLOWER = 1.5
"""Each pause to the one before. Not a Backoff: nothing failed, and the answer to a quick question is seen soon."""


class MessagesApi(ApiRequests):
    async def send_message(self, new: NewMessage) -> MessageView:
        """Stored when it returns. Sent again after a lost connection, it is the same message."""
        new = replace(new, key=new.key or new_id())
        return await self.change("POST", "messages", MessageView, new, key=new.key)

    async def ask_message(self, new: NewAsk) -> AnswerView:
        """The answer, or the reason why there is none, however long that takes within its time."""
        new = replace(new, key=new.key or new_id())
        if new.timeout_s <= ONE_REQUEST_S:
            return await self.change("POST", "messages/ask", AnswerView, new, key=new.key)
        from ..relay.request_reply import NO_ANSWER_TEXTS, no_answer_reason

        limits = replace(new.limits, ttl_s=min(new.timeout_s, new.limits.ttl_s or new.timeout_s))
        sent = await self.send_message(
            NewMessage(
                to=new.to,
                text=new.text,
                json=new.json,
                key=new.key,
                within=new.within,
                session=new.session,
                limits=limits,
            )
        )
        receipt, pause, until = sent.receipt, POLL_S[0], time.monotonic() + new.timeout_s
        while not receipt.answer and not no_answer_reason(receipt) and time.monotonic() < until:
            await asyncio.sleep(pause)
            pause = min(pause * SLOWER, POLL_S[1])
            receipt = (await self.message(receipt.id)).receipt
        if receipt.answer:
            return AnswerView(receipt=receipt, answer=(await self.message(receipt.answer)).envelope)
        reason = no_answer_reason(receipt) or "timeout"
        return AnswerView(
            receipt=receipt, reason=reason, detail=NO_ANSWER_TEXTS.get(reason, f"no answer from {new.to}: {reason}")
        )

    async def threads(self, *, thread: str = "", limit: int = 50) -> list[ThreadView]:
        return await self.get("messages", list[ThreadView], thread=thread, limit=limit)

    async def message(self, id: str) -> MessageView:
        return await self.get(f"messages/{id}", MessageView)

    async def trace(self, id: str) -> TraceView:
        """The whole chain that a message belongs to."""
        return await self.get(f"messages/{id}/trace", TraceView)

    async def message_ids(self, part: str, *, limit: int = 20) -> list[str]:
        """Ids that are meant by this part (`ids.fits_id`), of messages and of dead letters, the newest first."""
        return await self.get("message-ids", list[str], part=part, limit=limit)

    async def inboxes(self) -> list[InboxView]:
        return await self.get("inboxes", list[InboxView])

    async def inbox(self, subject: str = OWNER, *, limit: int = 50) -> list[MessageView]:
        """Looking at it reads nothing."""
        return await self.get(f"inboxes/{subject}", list[MessageView], limit=limit)

    async def read_inbox(self, subject: str = OWNER, *, ids: Sequence[str] = (), limit: int = 50) -> list[MessageView]:
        """Take mail: it is seen now."""
        wanted = InboxRead(ids=tuple(ids), limit=limit)
        return await self.change("POST", f"inboxes/{subject}/read", list[MessageView], wanted)

    async def dead_letters(
        self, *, pattern: str = "", sender: str = "", reason: str = "", limit: int = 100
    ) -> list[DeadLetter]:
        return await self.get("dead", list[DeadLetter], pattern=pattern, sender=sender, reason=reason, limit=limit)

    async def dead_letter(self, id: str) -> DeadLetter:
        return await self.get(f"dead/{id}", DeadLetter)

    async def retry_dead(self, chosen: DeadSelection) -> list[DeadOutcome]:
        return await self.change("POST", "dead/retry", list[DeadOutcome], chosen)

    async def drop_dead(self, chosen: DeadSelection) -> int:
        return (await self.change("POST", "dead/drop", DropView, chosen)).dropped

    async def channels(self) -> list[ChannelView]:
        return await self.get("channels", list[ChannelView])

    async def reload_channels(self, *, trust: tuple[str, ...] = ()) -> ReloadView:
        """`trust`: what a person has read and agrees to, in the words of an earlier `waiting`."""
        return await self.change("POST", "channels/reload", ReloadView, ChannelReload(trust=trust))

    async def test_channel(self, id: str, test: ChannelTest | None = None) -> ChannelTestView:
        return await self.change("POST", f"channels/{id}/test", ChannelTestView, test or ChannelTest())


__all__ = ["ASK_S", "OWNER", "Limits", "MessagesApi"]
