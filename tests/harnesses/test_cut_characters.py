"""Texts that a harness in JavaScript cut in the middle of a character: half of it is no text, the rest is told all the
same."""

from pathlib import Path

import pytest

from tieline.harnesses.claude_code.transcript import ClaudeCodeTranscriptFile
from tieline.harnesses.gemini.transcript import GeminiTranscriptFile
from tieline.harnesses.qwen.transcript import QwenTranscriptFile
from tieline.harnesses.terminals.transcript_file import TranscriptCursor, TranscriptFile

LINE = (
    b'{"type":"user","uuid":"u-1","id":"u-1","message":{"role":"user","content":"cut \\ud83d, whole \\ud83d\\ude00"}}\n'
)


@pytest.mark.parametrize("kind", [ClaudeCodeTranscriptFile, GeminiTranscriptFile, QwenTranscriptFile])
def test_a_line_with_half_a_character_is_told(kind: type[TranscriptFile], tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(LINE)
    lines, _ = kind(path, TranscriptCursor.parse("")).read()
    assert [line.message["message"]["content"] for line in lines] == ["cut \ufffd, whole \U0001f600"]
