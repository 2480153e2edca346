"""Which routes are public, and other exceptions. Every route not named here needs a key and takes small bodies.

A test requests every route and upgrade of the application without a key: a new public route must be named here.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal

API = "/api/v1"

PUBLIC: frozenset[tuple[str, str]] = frozenset(
    {
        ("GET", "/healthz"),
        ("POST", f"{API}/login"),  # authenticated by a single-use secret
        ("POST", f"{API}/pair"),
        # The API documentation: the page links to it, and a link brings no key.
        ("GET", f"{API}/docs"),
        ("GET", f"{API}/docs.js"),
        ("GET", f"{API}/docs.css"),
        ("GET", f"{API}/openapi.json"),
        # The page itself contains no data.
        ("GET", "/"),
        ("GET", "/index.html"),
        ("GET", "/sw.js"),
        ("GET", "/manifest.webmanifest"),
        ("GET", "/favicon.ico"),
        ("GET", "/robots.txt"),
        # Paths of the page: the same document.
        ("GET", "/new"),
        ("GET", "/settings"),
        ("GET", "/messages"),
        ("GET", "/members"),
        ("GET", "/inboxes"),
        ("GET", "/dead"),
        ("GET", "/channels"),
        ("GET", "/teams"),
        ("GET", "/search"),
        ("GET", "/usage"),
        ("GET", "/schedules"),
    }
)
PUBLIC_PREFIXES: tuple[tuple[str, str], ...] = (
    ("GET", "/assets/"),
    ("GET", "/icons/"),
    ("GET", "/s/"),
    ("GET", "/messages/"),
    ("GET", "/members/"),
    ("GET", "/teams/"),
    ("GET", "/schedules/"),
    ("POST", "/hooks/"),  # each request carries the signature of its channel
)

AUTH_IN_FIRST_FRAME: frozenset[str] = frozenset({f"{API}/stream"})
"""Upgrades without a token: the first frame authenticates."""

NODE_ONLY: frozenset[str] = frozenset({f"{API}/link"})

_OWN: frozenset[tuple[str, str]] = frozenset({("GET", f"{API}/me"), ("POST", f"{API}/logout")})

MCP = "/mcp"
MCP_DELIVERED = "/mcp/delivered"
MCP_ROUTES: frozenset[tuple[str, str]] = frozenset(
    {("GET", MCP), ("POST", MCP), ("DELETE", MCP), ("POST", MCP_DELIVERED)}
)

HARNESS_HOOKS = f"{API}/harness-hooks"
_MESH_ROUTES = MCP_ROUTES | {("POST", HARNESS_HOOKS)}
HARNESS_PLUGINS = f"{API}/harness-plugins"
"""By the owner's socket only, which the routes check."""

LIMITED_KEYS: Mapping[str, frozenset[tuple[str, str]]] = {"node": _OWN, "mesh": _OWN | _MESH_ROUTES}
"""By kind of device, all that its key allows; a node's also opens NODE_ONLY. A compromised node cannot command the
others, and whoever reads a harness's configuration file can send messages but decide nothing."""

SESSION_ALLOWED: tuple[tuple[str, str], ...] = (
    ("GET", f"{API}/me"),
    ("GET", f"{API}/sessions/{{own}}"),
    ("GET", f"{API}/sessions/{{own}}/events"),
    ("GET", f"{API}/sessions/{{own}}/messages"),
    ("POST", f"{API}/messages"),
    ("POST", f"{API}/messages/ask"),
    ("GET", f"{API}/messages/{{message}}"),  # those that its session sent or was sent
    ("GET", f"{API}/members"),  # its tool list_agents shows the same
    *sorted(_MESH_ROUTES),
)
"""All that an agent's processes may do: send messages as their session, read that session, and see who is a member."""

PERSON_ONLY: tuple[tuple[str, str], ...] = (
    ("POST", f"{API}/asks/{{ask}}/answer"),
    ("POST", f"{API}/pairings"),
    ("DELETE", f"{API}/devices/{{device}}"),
    ("DELETE", f"{API}/nodes/{{node}}"),
    ("PATCH", f"{API}/sessions/{{session}}"),
    ("PATCH", f"{API}/sessions/{{session}}/mark"),
    ("POST", f"{API}/sessions/{{session}}/adopt"),
    ("POST", f"{API}/sessions/{{session}}/worktree/merge"),
    ("POST", f"{API}/sessions/{{session}}/worktree/rebase"),
    ("POST", f"{API}/sessions/{{session}}/worktree/discard"),
    ("PATCH", f"{API}/sessions/{{session}}/prompts/{{prompt}}"),
    ("POST", f"{API}/channels/reload"),
    ("POST", f"{API}/teams"),
    ("POST", f"{API}/teams/{{team}}/actions"),
    ("POST", f"{API}/teams/{{team}}/clean"),
    ("GET", f"{API}/usage"),
    ("POST", f"{API}/phone"),
    ("DELETE", f"{API}/phone"),
    ("POST", f"{API}/schedules"),
    ("PATCH", f"{API}/schedules/{{schedule}}"),
    ("DELETE", f"{API}/schedules/{{schedule}}"),
    ("POST", f"{API}/schedules/{{schedule}}/run"),
    ("GET", f"{API}/search"),
    ("GET", f"{API}/messages"),
    ("GET", f"{API}/messages/{{message}}/trace"),
    ("GET", f"{API}/dead"),
    ("GET", f"{API}/dead/{{message}}"),
    ("GET", f"{API}/rules"),
    ("POST", f"{API}/rules"),
    ("POST", f"{API}/rules/preview"),
    ("GET", f"{API}/rules/{{rule}}"),
    ("DELETE", f"{API}/rules/{{rule}}"),
    ("GET", f"{API}/asks/{{ask}}/rule-choices"),
    ("GET", f"{API}/sessions/{{session}}/changes"),
    ("GET", f"{API}/sessions/{{session}}/file"),
    ("GET", f"{API}/sessions/{{session}}/prompts/{{prompt}}/attachments/{{number}}"),
    *(
        ("POST", f"{API}/sessions/{{session}}/changes/{what}")
        for what in ("stage", "unstage", "commit", "revert", "discard", "push", "pull-request")
    ),
)
"""What the agent in a person's terminal may not do: decide, let in somebody who may, turn somebody out, change a
policy or another's words, say what a person has read, agree to code, look through everybody's sessions and messages,
open the hub to other machines, have agents started later, make rules for decisions, read another's files, merge or
discard a session's work, or put its own work into a commit or out into the world."""

TERMINAL_ONLY: frozenset[tuple[str, str]] = frozenset(
    {
        ("POST", f"{API}/phone"),
        ("POST", f"{API}/rules"),
        ("DELETE", f"{API}/rules/{{rule}}"),
    }
)
"""Of these, what gives power over every session from then on. What the agent in a person's terminal has detached from
itself may not do it either. Such a process has no terminal: while there is such an agent, a caller without one is not
taken for a person."""

RATE_LIMITED: frozenset[str] = frozenset({f"{API}/login", f"{API}/pair"})
"""Routes that take single-use secrets: rate-limited."""

SECRET_RESPONSES: frozenset[str] = frozenset({f"{API}/login", f"{API}/pair", f"{API}/pairings", f"{API}/logout"})
"""Responses with secrets: replays of them are kept in memory only."""

STREAMS: frozenset[str] = frozenset({f"{API}/stream/sse", MCP, HARNESS_PLUGINS})
"""Endless responses, or such as bound themselves."""

MAX_BODY = 256 * 1024
MAX_PROMPT_BODY = 8 * 1024 * 1024
MAX_MCP_BODY = 8 * 1024 * 1024  # a message may be sent escaped, six bytes for one; hooks and plugins tell results
BODY_S = 20.0
MAX_SECRET_BODY = 4 * 1024
UNAUTHENTICATED_BODY_S = 10.0
PROMPT_BODY_S = 120.0
RESPONSE_S = 120.0
"""Limit from the complete request to the end of the response, except for streams."""
PLUGIN_EVENTS_S = 600.0
"""The same for what a plugin tells: of many long histories each part waits for its turn."""

_PROMPTS = re.compile(re.escape(API) + r"/(?:sessions(?:/[^/]+/prompts(?:/[^/]+)?)?|schedules)")
_AMBIGUOUS = re.compile(r"//|/\.\.?(?:/|$)|[\\\x00-\x1f\x7f]")

RequiredAuth = Literal["nothing", "device", "node", "first frame"]


def required_auth(method: str, path: str) -> RequiredAuth:
    """The authentication that a request needs. `method` is WEBSOCKET for an upgrade."""
    if method == "WEBSOCKET":
        return "first frame" if path in AUTH_IN_FIRST_FRAME else "node" if path in NODE_ONLY else "device"
    if (method, path) in PUBLIC:
        return "nothing"
    for open_method, prefix in PUBLIC_PREFIXES:
        if method == open_method and path.startswith(prefix):
            return "nothing"
    return "device"


def session_allowed(method: str, path: str, session: str) -> bool:
    """Whether a process of that session's agent may make a request that is not open to everybody."""
    parts = path.split("/")
    return any(
        method == allowed_method and _matches(template.split("/"), parts, session)
        for allowed_method, template in SESSION_ALLOWED
    )


def person_only(method: str, path: str) -> bool:
    return _named(method, path, PERSON_ONLY)


def terminal_only(method: str, path: str) -> bool:
    return _named(method, path, TERMINAL_ONLY)


def _named(method: str, path: str, among: Iterable[tuple[str, str]]) -> bool:
    parts = path.split("/")
    return any(
        method == listed_method
        and len(words := template.split("/")) == len(parts)
        and all(word.startswith("{") or word == given for word, given in zip(words, parts, strict=True))
        for listed_method, template in among
    )


def _matches(template: list[str], parts: list[str], session: str) -> bool:
    if len(template) != len(parts):
        return False
    own = {"{own}": (session,), "{message}": parts[-1:]}
    return all(word in own.get(part, (part,)) for part, word in zip(template, parts, strict=True))


def body_limits(path: str, *, stranger: bool = False) -> tuple[int, float]:
    """Maximum bytes of a request's body, and seconds for it to arrive."""
    if stranger:
        return MAX_SECRET_BODY if path in RATE_LIMITED else MAX_BODY, UNAUTHENTICATED_BODY_S
    if path in (MCP, HARNESS_HOOKS) or path.startswith(f"{HARNESS_PLUGINS}/"):
        return MAX_MCP_BODY, PROMPT_BODY_S
    return (MAX_PROMPT_BODY, PROMPT_BODY_S) if _PROMPTS.fullmatch(path) else (MAX_BODY, BODY_S)


def response_limit(path: str) -> float:
    """Seconds from the complete request to the end of the response."""
    tells = path.startswith(f"{HARNESS_PLUGINS}/") and path.endswith("/events")
    return PLUGIN_EVENTS_S if tells else RESPONSE_S


def is_ambiguous(path: str) -> bool:
    """Whether different parsers could read the path differently."""
    return _AMBIGUOUS.search(path) is not None
