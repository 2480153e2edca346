"""The URL of a NATS bus."""

from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from ...errors import UsageError


class NatsUrl(Struct, frozen=True):
    servers: tuple[str, ...]
    replicas: int
    shown: str  # without credentials

    @classmethod
    def parse(cls, url: str) -> "NatsUrl":
        """nats://[user:password@]host:port[,host:port…][?replicas=n]. By default as many copies as servers, up to 3."""
        parts = urlsplit(url)
        login, at, hosts = parts.netloc.rpartition("@")
        names = [host for host in hosts.split(",") if host]
        query = parse_qs(parts.query)
        if not names or set(query) - {"replicas"}:
            raise UsageError(
                f"invalid URL of a NATS bus: {parts.scheme}://{hosts}",
                field="bus",
                hint="Use nats://host:port[,host:port][?replicas=3].",
            )
        try:
            replicas = int(query["replicas"][0]) if query else (3 if len(names) >= 3 else 1)
        except ValueError:
            replicas = 0
        if not 1 <= replicas <= 5:
            raise UsageError("replicas is a number from 1 to 5", field="bus")
        servers = tuple(f"{parts.scheme}://{login}{at}{name}" for name in names)
        return cls(servers, replicas, ", ".join(names))
