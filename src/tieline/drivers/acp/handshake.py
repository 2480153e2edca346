"""The handshake: `initialize`, then a new session, an old one, or a copy of it; then its model and mode."""

import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import ValidationError

from ...errors import AgentStartFailed, Unsupported, UsageError
from ...version import __version__
from ...wire.jsonrpc import Peer, PeerGone, RpcError
from ..base import McpServer
from ..model_list import ModelList, mappings, model_names, nearest_models
from .capabilities import parse_initialize_response
from .conversation import EXIT_S, AcpConversation, error_details
from .policy import session_mode

PROTOCOL = 1
AUTH_REQUIRED = -32000
REQUEST_S = 60.0
REPLAY_S = 20.0
"""The longest that an agent may take to replay history after it has answered."""
EFFORT = "thought_level"
"""What the protocol calls the option."""
CHOOSES_MODEL = ("session/set_config_option", "session/set_model")

SessionResult = Mapping[str, Any]


async def open_session(talk: AcpConversation, peer: Peer) -> None:
    """Raises AgentStartFailed, Unsupported."""
    spec = talk.spec
    try:
        talk.set_initialized(
            peer, parse_initialize_response(await peer.request("initialize", _initialize_params(), timeout=REQUEST_S))
        )
        _check_offered(talk)
        by_shell = talk.preset.traits.mcp_by_shell
        servers = [_mcp_server(*entry, by_shell=by_shell) for entry in spec.mcp_servers.items()]
        where: dict[str, Any] = {
            "cwd": spec.cwd,
            "mcpServers": servers if talk.preset.traits.mcp == "session" else [],
            **({"_meta": talk.session_meta} if talk.session_meta else {}),
        }
        if not spec.resume:
            session: SessionResult | None = await peer.request("session/new", where, timeout=REQUEST_S)
            talk.native_id = (session or {})["sessionId"]
        elif spec.fork:
            session = await peer.request("session/fork", {**where, "sessionId": spec.resume}, timeout=REQUEST_S)
            talk.native_id = (session or {})["sessionId"]
        else:
            method = "session/resume" if talk.initialized.has_session_method("resume") else "session/load"
            talk.native_id = spec.resume
            _protect_record(talk)
            seen = talk.updates_seen
            session = await peer.request(method, {**where, "sessionId": spec.resume}, timeout=REQUEST_S)
            if talk.preset.traits.load_begins and talk.updates_seen == seen:
                raise talk.start_failed(f"it has no conversation {spec.resume!r}")
            if method == "session/load" and talk.preset.late_replay:
                await talk.wait_until_quiet(REPLAY_S)
        session = session or {}
        talk.chooses_model = _has_option(session, "model") or (None if spec.resume else False)
        talk.model = spec.model or _current_value(session, "model")
        talk.offered_models = offered_models(session)
        if spec.model and talk.preset.model_env:
            _check_model(talk, session)
        elif spec.model and not talk.preset.model_args:
            await _set_option(talk, peer, session, "model", spec.model)
        if spec.effort:
            if not _has_option(session, EFFORT):
                raise Unsupported(talk.agent, "effort", hint="The model that it has now offers none.")
            await _set_option(talk, peer, session, EFFORT, spec.effort)
        await _set_mode(talk, peer, session)
        talk.ready.set()
    except RpcError as error:
        raise _start_error(talk, error) from None
    except (PeerGone, TimeoutError) as error:
        await talk.process.wait(EXIT_S)  # its status tells more than that it is gone
        raise talk.start_failed(str(error)) from None
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise talk.start_failed(f"invalid response: {error!r}") from None


def _initialize_params() -> dict[str, Any]:
    # No files and no terminals: agents read, write and run themselves. Only so do their own rules and sandboxes hold.
    able: dict[str, Any] = {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
        "elicitation": {"form": {}},
    }
    client = {"name": "tieline", "title": "Tieline", "version": __version__}
    return {"protocolVersion": PROTOCOL, "clientCapabilities": able, "clientInfo": client}


def _check_offered(talk: AcpConversation) -> None:
    """What the preset declares and this very agent does not offer is refused where it is asked for."""
    spec = talk.spec
    offered = talk.initialized
    if offered.protocol_version != PROTOCOL:
        raise AgentStartFailed(talk.agent, f"it speaks version {offered.protocol_version} of ACP, not {PROTOCOL}")
    older = f"This version of it ({offered.version or 'unknown'}) does not offer it."
    if spec.fork and not offered.has_session_method("fork"):
        raise Unsupported(talk.agent, "fork", hint=older)
    if spec.resume and not (offered.capabilities.load_session or offered.has_session_method("resume") or spec.fork):
        raise Unsupported(talk.agent, "resume", hint=older)
    by_session = talk.preset.traits.mcp == "session"
    if by_session and any(server.url for server in spec.mcp_servers.values()) and not offered.accepts_http_mcp:
        raise Unsupported(talk.agent, "mcp_servers by URL", hint=older)
    if spec.fork and spec.mcp_servers and talk.preset.traits.fork_keeps_servers:
        raise Unsupported(talk.agent, "mcp_servers of a fork", hint="It has those of the original.")


def _mcp_server(name: str, server: McpServer, *, by_shell: bool) -> dict[str, Any]:
    if server.url:
        headers = [{"name": key, "value": value} for key, value in server.headers.items()]
        return {"type": "http", "name": name, "url": server.url, "headers": headers}
    env = [{"name": key, "value": value} for key, value in server.env.items()]
    program, *args = map(shlex.quote, server.command) if by_shell else server.command
    return {"name": name, "command": program, "args": args, "env": env}


def _protect_record(talk: AcpConversation) -> None:
    """Gemini names the record of a session by the minute, and begins a new one before it loads the old: within the
    minute of the session's start it would write over what it is about to read. Another name saves it."""
    if talk.preset.record_glob and talk.native_id.replace("-", "").isalnum():
        minute = time.strftime("%Y-%m-%dT%H-%M", time.gmtime())
        pattern = talk.preset.record_glob.format(minute=minute, id=talk.native_id)
        for record in Path(talk.spec.env.get("HOME", "/")).glob(pattern):
            record.rename(record.with_name(record.name.replace(minute, f"{minute}-00")))


def _has_option(session: SessionResult, what: str) -> bool:
    options = session.get("configOptions") or ()
    return any(option.get("category") == what for option in options) or bool(session.get(f"{what}s"))


def _current_value(session: SessionResult, what: str) -> str:
    for option in session.get("configOptions") or ():
        if option.get("category") == what:
            return str(option.get("currentValue", ""))
    state: SessionResult = session.get(f"{what}s") or {}
    return str(state.get(f"current{what.title()}Id", ""))


def _check_model(talk: AcpConversation, session: SessionResult) -> None:
    """An agent that takes the model from a variable goes on with another one if it has none of that name, and where it
    resumes a conversation with that of the conversation."""
    model, current = talk.spec.model, _current_value(session, "model")
    if current == model:
        return
    if model in talk.offered_models.names:
        problem, hint = f"{talk.agent} goes on with {current!r} in this conversation", "Leave the model out."
    else:
        near = nearest_models(talk.offered_models.names, model)
        problem = f"{talk.agent} has no model {model!r}"
        hint = f"The nearest that it has: {', '.join(near)}." if near else ""
    raise UsageError(problem, field="model", hint=hint)


def offered_models(session: SessionResult) -> ModelList:
    """The models that the session's options offer, or that the older field `models` lists."""
    for option in mappings(session.get("configOptions")):
        if option.get("category") == "model":
            listed = mappings(option.get("options"))
            entries = [
                choice for entry in listed for choice in mappings(entry.get("options")) or [entry]
            ]  # an entry may be a group of choices
            return ModelList(names=model_names(entry.get("value") for entry in entries))
    names = (
        entry.get("modelId")
        for state in mappings([session.get("models")])
        for entry in mappings(state.get("availableModels"))
    )
    return ModelList(names=model_names(names))


async def _set_mode(talk: AcpConversation, peer: Peer, session: SessionResult) -> None:
    """The mode in which it asks. It is set also where the session says that it is in it: Kimi says so of whichever mode
    its user's settings have chosen. One that it was started in counts only if the session says so: an agent that does
    not know a mode starts in another."""
    mode = session_mode(talk.preset, talk.spec.policy)
    started_in_it = bool(talk.preset.mode_env) and _current_value(session, "mode") in ("", mode)
    if mode and not started_in_it:
        await _set_option(talk, peer, session, "mode", mode)


async def _set_option(talk: AcpConversation, peer: Peer, session: SessionResult, what: str, value: str) -> None:
    """Choose a model or a mode: by the session's options, or by the older method `session/set_model` or `_mode`."""
    params = {"sessionId": talk.native_id}
    for option in session.get("configOptions") or ():
        if option.get("category") == what:
            change = {**params, "configId": option["id"], "value": value}
            await peer.request("session/set_config_option", change, timeout=REQUEST_S)
            return
    if not session.get(f"{what}s"):
        raise Unsupported(talk.agent, what, hint=f"It offers no {what}s to choose from.")
    await peer.request(f"session/set_{what}", {**params, f"{what}Id": value}, timeout=REQUEST_S)


def _start_error(talk: AcpConversation, error: RpcError) -> AgentStartFailed:
    details = error_details(error)
    reason = f"{error.message}: {details}" if details else error.message
    if error.code == AUTH_REQUIRED:
        ways = ", ".join(way.name for way in talk.initialized.auth_methods or ())
        hint = talk.preset.sign_in or (f"It offers: {ways}." if ways else "")
        return AgentStartFailed(talk.agent, f"it is not signed in ({reason})", hint=hint)
    near = nearest_models(talk.offered_models.names, talk.spec.model) if error.method in CHOOSES_MODEL else ()
    hint = f"Of its models the nearest to {talk.spec.model!r}: {', '.join(near)}." if near else ""
    return AgentStartFailed(talk.agent, f"{error.method} failed: {reason}", hint=hint)
