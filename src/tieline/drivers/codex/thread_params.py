"""What Codex is given: the parameters of a thread, and a prompt's content."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct

from ...config import setting
from ...errors import UsageError
from ..base import McpServer, Prompt, Spec
from ..repository_settings import repository_folders
from .launch import HANDSHAKE
from .policy import CodexControls, controls


class CodexOptions(Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[
        tuple[str, ...], setting("Program and its first arguments, instead of `codex`.", ("/opt/codex",))
    ] = ()
    args: tuple[str, ...] = ()  # more arguments, after ours
    env: Mapping[str, str] = {}  # added to its environment
    web_search: Annotated[
        Literal["live", "indexed", "cached", "disabled"],
        setting("Web search of Codex, where the policy allows network.", "cached"),
    ] = "live"
    config: Annotated[
        Mapping[str, Any],
        setting("Overrides of Codex's own configuration, by dotted name.", {"model_verbosity": "low"}, secret=True),
    ] = {}


FEATURES = {
    "features.default_mode_request_user_input": True,  # or it asks questions in its plan mode only
    "tools.update_plan.enabled": True,  # or it depends on the model whether there are plans
    "suppress_unstable_features_warning": True,  # for the first of these
    "thread_unload_delay_secs": 0,  # a thread that is left ends its MCP servers
}


def thread_params(spec: Spec, codex_controls: CodexControls, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with which a thread is started, resumed or forked."""
    config: dict[str, Any] = {**_dotted(overrides), **FEATURES, **codex_controls.config}
    if not codex_controls.trusts_repositories:
        # Codex takes a folder for trusted that it has once opened without a sandbox.
        config["projects"] = {str(folder): {"trust_level": "untrusted"} for folder in repository_folders(spec.cwd)}
    if spec.effort:
        config["model_reasoning_effort"] = spec.effort
    for name, server in spec.mcp_servers.items():
        config[f"mcp_servers.{name}"] = _mcp_server(name, server)
    params: dict[str, Any] = {
        "cwd": spec.cwd,
        "approvalPolicy": codex_controls.approval,
        "approvalsReviewer": "user",
        "sandbox": codex_controls.sandbox,
        "config": config,
    }
    if spec.model:
        params["model"] = spec.model
    if spec.resume:
        return {**params, "threadId": spec.resume, "excludeTurns": True}
    if spec.system:
        params["developerInstructions"] = spec.system
    return {**params, "experimentalRawEvents": True}


def opening_request(
    spec: Spec, codex_controls: CodexControls, overrides: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The request that opens a conversation: its method and parameters."""
    method = "thread/fork" if spec.fork else "thread/resume" if spec.resume else "thread/start"
    return method, thread_params(spec, codex_controls, overrides)


def prestart_input(spec: Spec, options: CodexOptions | None = None) -> bytes:
    """What a server of its own is told first for this conversation, byte for byte."""
    options = options or CodexOptions()
    method, params = opening_request(spec, controls(spec.policy, options.web_search), options.config)
    return HANDSHAKE + msgspec.json.encode({"id": 2, "method": method, "params": params}) + b"\n"


def _dotted(tables: Mapping[str, Any], head: str = "") -> dict[str, Any]:
    """One entry per value, so that the policy's own really replace others: Codex applies overrides in no order."""
    flat: dict[str, Any] = {}
    for name, value in tables.items():
        flat |= _dotted(value, f"{head}{name}.") if isinstance(value, dict) else {f"{head}{name}": value}  # pyright: ignore[reportUnknownArgumentType]
    return flat


def _mcp_server(name: str, server: McpServer) -> dict[str, Any]:
    if not name.replace("-", "").replace("_", "").isalnum():
        raise UsageError(
            f"codex takes no MCP server named {name!r}", field="mcp_servers", hint="Letters, digits, - and _."
        )
    if server.url:
        return {"url": server.url, "http_headers": dict(server.headers)}
    command, *arguments = server.command
    return {"command": command, "args": arguments, "env": dict(server.env)}


def content(prompt: Prompt) -> list[dict[str, Any]]:
    """A prompt as Codex takes it; what is attached are pictures."""
    parts: list[dict[str, Any]] = [{"type": "text", "text": prompt.text}]
    for attachment in prompt.attachments:
        if attachment.path:
            parts.append({"type": "localImage", "path": str(Path(attachment.path).absolute())})
        else:
            import base64

            data = base64.b64encode(attachment.data).decode()
            parts.append({"type": "image", "url": f"data:{attachment.media_type};base64,{data}"})
    return parts


def developer_message(text: str) -> dict[str, Any]:
    """An instruction as an item of a thread's history."""
    return {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}
