"""An ACP agent's response to `initialize`: its capabilities. Unknown fields are ignored."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..observed_features import Family, ObservedFeatures, Shown


class AgentInfo(Struct, frozen=True):
    name: str = ""
    version: str = ""


class PromptCapabilities(Struct, frozen=True, rename="camel"):
    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class McpCapabilities(Struct, frozen=True):
    http: bool = False
    sse: bool = False


class AgentCapabilities(Struct, frozen=True, rename="camel"):
    load_session: bool = False
    prompt_capabilities: PromptCapabilities | None = None
    mcp_capabilities: McpCapabilities | None = None
    session_capabilities: Mapping[str, Any] | None = None


class AuthMethod(Struct, frozen=True):
    """To sign in."""

    name: str = ""


class InitializeResponse(Struct, frozen=True, rename="camel"):
    protocol_version: int = 0
    agent_capabilities: AgentCapabilities | None = None
    agent_info: AgentInfo | None = None
    auth_methods: tuple[AuthMethod, ...] | None = None

    @property
    def capabilities(self) -> AgentCapabilities:
        return self.agent_capabilities or AgentCapabilities()

    @property
    def version(self) -> str:
        return self.agent_info.version.partition(" ")[0] if self.agent_info else ""  # Auggie adds its commit

    def accepts(self, kind: str) -> bool:
        """Whether a prompt may have such content: image, audio, or a file's content."""
        prompts = self.capabilities.prompt_capabilities or PromptCapabilities()
        return {"image": prompts.image, "audio": prompts.audio}.get(kind, prompts.embedded_context)

    def has_session_method(self, what: str) -> bool:
        """Whether there is a method `session/…` beyond the baseline."""
        return (self.capabilities.session_capabilities or {}).get(what) is not None

    @property
    def accepts_http_mcp(self) -> bool:
        return (self.capabilities.mcp_capabilities or McpCapabilities()).http

    def observed_features(self, model: bool | None, shown: Iterable[Shown] = ()) -> ObservedFeatures:
        """`model`: whether its session offered a choice of them, if that is known. `shown`: what was seen of it."""
        taken: dict[str, tuple[Family, ...]] = {
            "image": ("image/*",),
            "audio": ("audio/*",),
            "file": ("text/*", "application/*"),
        }
        return ObservedFeatures(
            resume=self.capabilities.load_session or self.has_session_method("resume"),
            fork=self.has_session_method("fork"),
            attachments=tuple(family for kind, families in taken.items() if self.accepts(kind) for family in families),
            model=model,
            shown=tuple(sorted(shown)),
        )


def parse_initialize_response(answer: Any) -> InitializeResponse:
    """Raises msgspec.ValidationError."""
    return msgspec.convert(answer, InitializeResponse, strict=False)
