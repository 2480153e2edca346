"""What a route says about itself, for the OpenAPI document: what it takes, what it gives, how it may refuse."""

from typing import Any

from msgspec import Struct


class Spec(Struct, frozen=True, kw_only=True):
    body: Any = None
    needs_body: bool = True  # else it may be left out
    gives: Any = None
    status: int = 200
    media: str = "application/json"
    later: bool = False  # 202 with a CommandView when the node has not answered yet
    problems: tuple[str, ...] = ()  # names of `problems.STATUS`, beside those that every door has


def spec(
    *,
    body: Any = None,
    needs_body: bool = True,
    gives: Any = None,
    status: int = 200,
    media: str = "application/json",
    later: bool = False,
    problems: tuple[str, ...] = (),
) -> dict[str, Any]:
    """For a handler's `opt`. What is not said is read off the handler: parameters, words (its docstring)."""
    return {
        "spec": Spec(
            body=body,
            needs_body=needs_body,
            gives=gives,
            status=status,
            media=media,
            later=later,
            problems=problems,
        )
    }
