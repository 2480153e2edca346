"""What an agent says about itself in its answer to `initialize`. Fields that we do not know are ignored."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..observed_features import Family, Told


class Info(Struct, frozen=True):
    name: str = ""
    version: str = ""


class Prompts(Struct, frozen=True, rename="camel"):
    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class Servers(Struct, frozen=True):
    http: bool = False
    sse: bool = False


class Able(Struct, frozen=True, rename="camel"):
    load_session: bool = False
    prompt_capabilities: Prompts | None = None
    mcp_capabilities: Servers | None = None
    session_capabilities: Mapping[str, Any] | None = None


class Way(Struct, frozen=True):
    """To sign in."""

    name: str = ""


class Offered(Struct, frozen=True, rename="camel"):
    protocol_version: int = 0
    agent_capabilities: Able | None = None
    agent_info: Info | None = None
    auth_methods: tuple[Way, ...] | None = None

    @property
    def able(self) -> Able:
        return self.agent_capabilities or Able()

    @property
    def version(self) -> str:
        return self.agent_info.version if self.agent_info else ""

    def takes(self, kind: str) -> bool:
        """Whether a prompt may have such content: image, audio, or a file's content."""
        prompts = self.able.prompt_capabilities or Prompts()
        return {"image": prompts.image, "audio": prompts.audio}.get(kind, prompts.embedded_context)

    def session(self, what: str) -> bool:
        """Whether there is a method `session/…` beyond the baseline."""
        return (self.able.session_capabilities or {}).get(what) is not None

    @property
    def http_servers(self) -> bool:
        return (self.able.mcp_capabilities or Servers()).http

    def told(self, model: bool | None) -> Told:
        """`model`: whether its session offered a choice of them, if that is known."""
        taken: dict[str, tuple[Family, ...]] = {
            "image": ("image/*",),
            "audio": ("audio/*",),
            "file": ("text/*", "application/*"),
        }
        return Told(
            resume=self.able.load_session or self.session("resume"),
            fork=self.session("fork"),
            attachments=tuple(family for kind, families in taken.items() if self.takes(kind) for family in families),
            model=model,
        )


def offered_by(answer: Any) -> Offered:
    """Raises msgspec.ValidationError."""
    return msgspec.convert(answer, Offered, strict=False)
