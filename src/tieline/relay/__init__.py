"""Messages between anything with an address: agents, people, chats, URLs. `Relay` is the way in.

The values are in `tieline.envelopes`, the contract of what delivers them in `tieline.channels.base`.
"""

from .relay import Relay
from .settings import Settings

__all__ = ["Relay", "Settings"]
