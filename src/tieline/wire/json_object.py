"""JSON objects whose members are looked at one by one, where they are read."""

from collections.abc import Mapping
from typing import Any

JsonObject = Mapping[str, Any]
"""One that is only read."""
JsonDict = dict[str, Any]
"""One as it was decoded, or is put together here."""
