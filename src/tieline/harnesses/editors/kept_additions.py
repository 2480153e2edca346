"""What others add to an entry of ours: a harness its permissions, a person a variable. It stays when we renew ours."""

import re
from collections.abc import Mapping
from typing import Any, cast

WRITTEN = frozenset(
    {
        "type",
        "command",
        "args",
        "env",
        "environment",
        "bash",
        "server",
        "tool",
        "input",
        "url",
        "httpUrl",
        "serverUrl",
        "headers",
        "http_headers",
        "bearer_token_env_var",
    }
)
"""Keys that we write with some options and not with others: with new options they are not kept."""
OUR_NAMES = re.compile(r"tieline_|x-tieline-|authorization$", re.IGNORECASE)


def is_written_by_us(key: str | int) -> bool:
    return key in WRITTEN or OUR_NAMES.match(str(key)) is not None


def with_added(ours: Mapping[str, Any], there: Mapping[str, Any]) -> dict[str, Any]:
    """Our entry, followed by what others have added to the one that is there."""
    merged = dict(ours)
    for key, value in there.items():
        if key not in ours:
            if not is_written_by_us(key):
                merged[key] = value
        elif isinstance(value, dict) and isinstance(ours[key], Mapping):
            merged[key] = with_added(ours[key], cast("dict[str, Any]", value))
    return merged
