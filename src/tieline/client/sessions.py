"""The part of the client about sessions: prompts, asks, their logs, and the stream that tells how they go on."""

import builtins

from msgspec.structs import replace

from ..ids import new_id
from ..protocol.commands import DiffSince
from ..protocol.pagination import DiffText, EventPage
from ..protocol.request_bodies import (
    Decision,
    Forking,
    MarkChange,
    NewPrompt,
    NewSession,
    PromptEdit,
    PromptMove,
    SessionChange,
)
from ..protocol.views import CommandView, PromptView, SessionMark
from ..sessions.file_preview import WorkFile
from ..sessions.records import AskRecord, SessionRecord
from ..sessions.transcript import TranscriptItem
from .stream import StreamApi


class SessionsApi(StreamApi):
    """What a node has not answered yet comes back as a CommandView: it is durable, and will be done."""

    async def sessions(
        self,
        *,
        archived: bool = False,
        agent: str = "",
        node: str = "",
        status: str = "",
        q: str = "",
        limit: int | None = None,
    ) -> list[SessionRecord]:
        """The last active first. `q` is looked for in titles, directories and last lines."""
        return await self.get(
            "sessions",
            list[SessionRecord],
            archived=archived or None,
            agent=agent,
            node=node,
            status=status,
            q=q,
            limit=limit,
        )

    async def session(self, id: str) -> SessionRecord:
        return await self.get(f"sessions/{id}", SessionRecord)

    async def create_session(self, new: NewSession) -> SessionRecord | CommandView:
        """With a prompt, its first turn begins right away."""
        if not new.id:
            new = replace(new, id=new_id())
        return await self.send_command("POST", "sessions", SessionRecord, new, key=new.id)

    async def change_session(self, id: str, change: SessionChange) -> SessionRecord | CommandView:
        return await self.send_command("PATCH", f"sessions/{id}", SessionRecord, change)

    async def session_marks(self) -> list[SessionMark]:
        """How far each session was read, and which are pinned: the person's, on all devices."""
        return await self.get("session-marks", list[SessionMark])

    async def mark_session(self, id: str, change: MarkChange) -> SessionMark:
        return await self.change("PATCH", f"sessions/{id}/mark", SessionMark, change)

    async def abort(self, session: str) -> bool | CommandView:
        """Interrupt the running turn. Whether there was one."""
        return await self.send_command("POST", f"sessions/{session}/abort", bool)

    async def close_session(self, id: str) -> SessionRecord | CommandView:
        return await self.send_command("POST", f"sessions/{id}/close", SessionRecord)

    async def adopt(self, session: str) -> SessionRecord | CommandView:
        """Drive a session from here on that a person ran in a terminal, once that is closed."""
        return await self.send_command("POST", f"sessions/{session}/adopt", SessionRecord)

    async def fork(self, session: str, title: str = "") -> SessionRecord | CommandView:
        return await self.send_command("POST", f"sessions/{session}/fork", SessionRecord, Forking(title=title))

    # --- prompts ---------------------------------------------------------------------------------------

    async def prompts(self, session: str, *, over: bool = False) -> list[PromptView]:
        """Those that wait or run; with `over` also those that ended lately."""
        return await self.get(f"sessions/{session}/prompts", list[PromptView], over=over or None)

    async def prompt(self, session: str, prompt: NewPrompt | str) -> PromptView | CommandView:
        """Send a prompt; it runs when those before it are done. The same id again is harmless."""
        new = NewPrompt(text=prompt) if isinstance(prompt, str) else prompt
        if not new.id:
            new = replace(new, id=new_id())
        return await self.send_command("POST", f"sessions/{session}/prompts", PromptView, new, key=new.id)

    async def steer(self, session: str, text: str) -> CommandView | None:
        """Say something to the agent in the middle of its turn."""
        return await self.send_command(
            "POST", f"sessions/{session}/prompts", type(None), NewPrompt(text=text, steer=True)
        )

    async def cancel_prompt(self, session: str, prompt: str) -> PromptView | CommandView:
        return await self.send_command("DELETE", f"sessions/{session}/prompts/{prompt}", PromptView)

    async def move_prompt(self, session: str, prompt: str, *, before: str = "") -> PromptView | CommandView:
        """Put it before another one of the queue, or at its end."""
        path = f"sessions/{session}/prompts/{prompt}/move"
        return await self.send_command("POST", path, PromptView, PromptMove(before=before))

    async def edit_prompt(self, session: str, prompt: str, text: str) -> PromptView | CommandView:
        """Replace its text; refused once it runs."""
        return await self.send_command(
            "PATCH", f"sessions/{session}/prompts/{prompt}", PromptView, PromptEdit(text=text)
        )

    async def prompt_attachment(self, session: str, prompt: str, number: int | str) -> WorkFile:
        """A file that was given with a prompt, by its number from 0. It is kept for a week after the turn."""
        return await self.get(f"sessions/{session}/prompts/{prompt}/attachments/{number}", WorkFile)

    async def retry_prompt(self, session: str, prompt: str) -> PromptView | CommandView:
        """Send a prompt again that failed, or whose end nobody knows: once, however often this is called."""
        return await self.send_command("POST", f"sessions/{session}/prompts/{prompt}/retry", PromptView)

    # --- reading ---------------------------------------------------------------------------------------

    async def events(
        self, session: str, *, after: int | None = None, before: int | None = None, limit: int | None = None
    ) -> EventPage:
        """A page of its log: the newest when neither cursor is given."""
        return await self.get(f"sessions/{session}/events", EventPage, after=after, before=before, limit=limit)

    async def messages(
        self, session: str, *, after: int = 0, limit: int | None = None
    ) -> builtins.list[TranscriptItem]:
        """Its events, folded into whole items."""
        return await self.get(f"sessions/{session}/messages", list[TranscriptItem], after=after or None, limit=limit)

    async def diff(self, session: str, *, since: DiffSince = "session") -> str:
        """What changed since the session began, or since the last commit, as one unified diff."""
        return (await self.get(f"sessions/{session}/diff", DiffText, since=since)).diff

    # --- decisions -------------------------------------------------------------------------------------

    async def asks(self) -> builtins.list[AskRecord]:
        """All that wait for a decision, the oldest first."""
        return await self.get("asks", list[AskRecord])

    async def ask(self, id: str) -> AskRecord:
        return await self.get(f"asks/{id}", AskRecord)

    async def answer(self, ask: str, decision: Decision) -> CommandView:
        """Decide an ask. Raises AlreadyAnswered when somebody was faster."""
        return await self.change("POST", f"asks/{ask}/answer", CommandView, decision)

    async def command(self, id: str) -> CommandView:
        """Where something that was told a node is."""
        return await self.get(f"commands/{id}", CommandView)
