"""Web Push, as the page and its service worker see it."""

from typing import Literal

from msgspec import Struct


class PushKey(Struct, frozen=True, kw_only=True):
    key: str  # what a browser subscribes with: `applicationServerKey`, base64url


class PushView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A subscription of the device that asks. Its address is a secret: only the service's name is shown."""

    id: str
    service: str = ""
    content: bool = False
    created_at: float = 0.0


class PushTest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a test push, over the device's subscriptions."""

    sent: int = 0
    gone: int = 0  # dead ones, which are removed now
    problems: tuple[str, ...] = ()


class NoticeAction(Struct, frozen=True):
    action: Literal["allow", "deny"]
    title: str


class Notice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the service worker gets. An answer to an ask goes to `POST /api/v1/asks/<ask>/answer`, with the digest."""

    kind: Literal["ask", "turn", "node", "message", "team", "test"]
    tag: str  # a later one with the same tag takes its place
    title: str
    body: str = ""
    session: str = ""
    ask: str = ""
    digest: str = ""
    node: str = ""
    team: str = ""
    actions: tuple[NoticeAction, ...] = ()
    allow: bool = False  # all that decides is in the body: it may be allowed from the notification
    at: float = 0.0
    expires_at: float = 0.0
