"""This node's sessions, as those who bring them messages see them (`channels.base.Sessions`)."""

from ..bus.base import Bus
from ..channels.base import NewSession
from ..drivers.base import Attachment, Prompt
from ..errors import UsageError
from .router import Router


class LocalSessions:
    def __init__(self, router: Router, bus: Bus) -> None:
        self.bus = bus
        self._router = router

    async def create(self, session: str, wanted: NewSession) -> None:
        await self._router.create(
            wanted.agent,
            cwd=wanted.cwd,
            policy=wanted.policy,
            model=wanted.model,
            effort=wanted.effort,
            title=wanted.title,
            accept_unenforced=wanted.accept_unenforced,
            id=session,
        )

    async def prompt(
        self,
        session: str,
        prompt: str,
        text: str,
        *,
        attachments: tuple[Attachment, ...] = (),
        system: str = "",
        timeout_s: float | None = None,
        by: str = "",
    ) -> None:
        await self._router.prompt(
            session, Prompt(text, attachments), id=prompt, by=by, timeout_s=timeout_s, system=system
        )

    async def withdraw(self, session: str, prompt: str) -> None:
        running = self._router.prompts.running(session)
        if running is not None and running.id == prompt:
            await self._router.abort(session)
        elif not self._router.prompts.is_over(session, prompt):
            try:
                await self._router.prompts.cancel(session, prompt)
            except UsageError:  # it began just now
                await self.withdraw(session, prompt)
