"""What a prompt to OpenCode carries."""

import base64
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ..base import Attachment, Spec


def prompt_body(agent: str, spec: Spec, chosen: str) -> dict[str, Any]:
    """The same for every prompt of a conversation: model, agent, effort, system."""
    body: dict[str, Any] = {}
    if spec.model:
        provider, _, model = spec.model.partition("/")
        if not provider or not model:
            raise UsageError(
                f"the model {spec.model!r} names no provider",
                field="model",
                hint=f"{agent} takes models as provider/model; `opencode models` lists them.",
            )
        body["model"] = {"providerID": provider, "modelID": model}
    if chosen:
        body["agent"] = chosen
    if spec.effort:
        body["variant"] = spec.effort
    if spec.system:
        body["system"] = spec.system
    return body


def file_part(attachment: Attachment) -> dict[str, Any]:
    """An attachment, with its content: the server may be on another machine."""
    # Any kind of text is put into the prompt by OpenCode, but only under this name.
    kind = "text/plain" if attachment.media_type.startswith("text/") else attachment.media_type
    data = attachment.data or Path(attachment.path).read_bytes()
    encoded = base64.b64encode(data).decode()
    name = attachment.name or Path(attachment.path).name or "attachment"
    url = f"data:{kind};base64,{encoded}"
    return {"type": "file", "mime": kind, "filename": name, "url": url}
