"""A prompt as Claude Code's own message, and what its hooks are told."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...wire.json_object import JsonDict
from ..base import Attachment, Prompt

MAX_HOOK_CONTEXT = 8000
"""Characters that a hook may add to a prompt; of more than 10,000 Claude Code shows its model the beginning only."""


def inline_long_system(prompt: Prompt) -> Prompt:
    """What it adds to the system instruction stays apart from its text, if Claude Code takes it whole."""
    return prompt if len(prompt.system) <= MAX_HOOK_CONTEXT else prompt.with_inline_system()


def user_message(prompt: Prompt) -> JsonDict:
    """Reads the attachments. Raises OSError."""
    content: str | list[JsonDict] = prompt.text
    if prompt.attachments:
        content = [_attachment_block(attachment) for attachment in prompt.attachments]
        if prompt.text.strip():
            content.append({"type": "text", "text": prompt.text})
    return {"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": None}


def _attachment_block(attachment: Attachment) -> JsonDict:
    data = Path(attachment.path).read_bytes() if attachment.path else attachment.data
    media = attachment.media_type
    if media.startswith("text/"):
        source: Mapping[str, str] = {"type": "text", "media_type": "text/plain", "data": data.decode(errors="replace")}
    else:
        source = {"type": "base64", "media_type": media, "data": base64.b64encode(data).decode()}
    block: JsonDict = {"type": "image" if media.startswith("image/") else "document", "source": source}
    return block if block["type"] == "image" or not attachment.name else {**block, "title": attachment.name}


def hook_output(event: str, **fields: Any) -> JsonDict:
    """The answer of one of our hooks."""
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}
