"""How a refusal reads: RFC 9457 problem details, with what to do about it."""

from msgspec import Struct

MEDIA_TYPE = "application/problem+json"


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    status: int
    title: str
    detail: str = ""
    type: str = "about:blank"
    code: str = ""  # the error's name: UsageError, AlreadyAnswered, NodeOffline …
    field: str = ""  # the part of the request that is wrong
    hint: str = ""
    instance: str = ""  # the request's id, as the logs have it
