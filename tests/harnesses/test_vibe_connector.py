"""Mistral Vibe's terminals: what Tieline cannot do with their sessions."""

from pathlib import Path

import pytest
from tests.harnesses.test_gemini_connector import environment, reading_in

from tieline.errors import UsageError
from tieline.harnesses.attach_consent import agree
from tieline.harnesses.vibe.connector import VibeConnector


class ClosedTerminal:
    remote = ()
    process = 0


async def test_a_session_is_not_taken_over(tmp_path: Path) -> None:
    agree(environment(tmp_path), "vibe")
    async with reading_in(tmp_path, VibeConnector) as reading:
        attacher = reading.reach.attacher
        assert attacher is not None
        attached = await attacher.attach("vibe", "native", cwd=str(tmp_path), terminal=ClosedTerminal())  # pyright: ignore[reportArgumentType]
        await attached.detach()
        with pytest.raises(UsageError, match="without subagents") as refused:
            await reading.manager.adopt(attached.record.id)
        assert "vibe --resume native" in refused.value.hint
        assert reading.manager.get(attached.record.id).kind == "attached"
