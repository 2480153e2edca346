"""A prompt as ACP's content blocks."""

import base64
from pathlib import Path
from typing import Any

from ...errors import Unsupported
from ..base import Attachment, Prompt
from .capabilities import InitializeResponse


def content_blocks(agent: str, prompt: Prompt, offered: InitializeResponse, system: str = "") -> list[dict[str, Any]]:
    """Raises Unsupported for an attachment that this very agent does not take."""
    text = f"[SYSTEM]\n{system}\n\n[MESSAGE]\n{prompt.text}" if system else prompt.text
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}]
    for attachment in prompt.attachments:
        if not offered.accepts(attachment.media_type.split("/")[0]):
            hint = f"This version of it ({offered.version or 'unknown'}) does not offer it."
            raise Unsupported(agent, f"attachments of type {attachment.media_type}", hint=hint)
        blocks.append(_attachment_block(attachment))
    return blocks


def _attachment_block(attachment: Attachment) -> dict[str, Any]:
    data = attachment.data or Path(attachment.path).read_bytes()
    kind = attachment.media_type.split("/")[0]
    if kind in ("image", "audio"):
        return {"type": kind, "mimeType": attachment.media_type, "data": base64.b64encode(data).decode()}
    uri = Path(attachment.path).absolute().as_uri() if attachment.path else f"attachment:///{attachment.name}"
    resource: dict[str, Any] = {"uri": uri, "mimeType": attachment.media_type}
    if kind == "text":
        resource["text"] = data.decode(errors="replace")
    else:
        resource["blob"] = base64.b64encode(data).decode()
    return {"type": "resource", "resource": resource}
