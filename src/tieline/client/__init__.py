"""A typed async client of a hub.

async with connect() as client:
    for session in await client.sessions():
        print(session.id, session.status, session.title)

    async for frame in client.stream():
        ...
"""

from .client import Client, connect
from .errors import HubError, HubFailed, HubUnreachable, NoHub, Unauthorized
from .stream import Connection

__all__ = [
    "Client",
    "Connection",
    "HubError",
    "HubFailed",
    "HubUnreachable",
    "NoHub",
    "Unauthorized",
    "connect",
]
