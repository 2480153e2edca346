"""Numbers for Prometheus: what was asked of the hub, and how things stand."""

from collections import Counter as Count
from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.routing import Route, WebSocketRoute

from ...bus.base import Bus, Stats
from ..security.devices import Devices
from ..state.live_state import LiveState
from ..stream.fanout import Fanout

if TYPE_CHECKING:
    from ..http.request_context import RequestContext

MEDIA_TYPE = "text/plain; version=0.0.4"
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)


class Metrics:
    """One registry per hub: two in one process do not count for each other."""

    def __init__(self, bus: Bus, state: LiveState, fanout: Fanout, devices: Devices) -> None:
        self._bus = bus
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "tieline_requests", "Requests by route and status.", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "tieline_request_seconds", "How long requests took.", registry=self._registry, buckets=BUCKETS
        )
        self._turns = Counter("tieline_turns", "Turns that ended, by outcome.", ("outcome",), registry=self._registry)
        self._gauges = _LiveGauges(state, fanout, devices)
        self._registry.register(self._gauges)
        self._labels: dict[tuple[str, str, int], Counter] = {}

    def request(
        self, context: "RequestContext", route: Route | WebSocketRoute | None, status: int, seconds: float
    ) -> None:
        # The route's template, never the path: a stranger must not be able to make new series.
        key = (context.method, route.path if route else "none", status)
        counter = self._labels.get(key)
        if counter is None:
            method = key[0] if key[0] in _METHODS else "other"
            counter = self._labels[key] = self._requests.labels(method, key[1], str(status or 101))
        counter.inc()
        if context.method != "WEBSOCKET":
            self._seconds.observe(seconds)

    def turn(self, outcome: str) -> None:
        self._turns.labels(outcome).inc()

    async def text(self) -> bytes:
        self._gauges.stats = await self._bus.stats()
        return generate_latest(self._registry)


_METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "DELETE", "PUT", "OPTIONS", "WEBSOCKET"})


class _LiveGauges(Collector):
    """Read off when somebody asks."""

    def __init__(self, state: LiveState, fanout: Fanout, devices: Devices) -> None:
        self._state = state
        self._fanout = fanout
        self._devices = devices
        self.stats: Stats | None = None

    def describe(self) -> Iterable[Metric]:
        return ()  # else the registry would collect once at registration, before there is a hub

    def collect(self) -> Iterable[Metric]:
        state = self._state
        yield _gauge("tieline_streams", "Clients that follow the stream.", len(self._fanout.subscribers))
        yield _by(
            "tieline_sessions", "Sessions by status.", "status", (session.status for session in state.sessions.values())
        )
        yield _gauge("tieline_asks_pending", "Asks that wait for an answer.", len(state.asks))
        yield _by(
            "tieline_prompts",
            "Prompts that are not over.",
            "status",
            (prompt.status for prompt in state.prompts.values()),
        )
        states = ("online" if node.online else "offline" for node in state.nodes.values())
        yield _by("tieline_nodes", "Nodes, by whether they are there.", "state", states)
        yield _gauge("tieline_devices", "Devices that may talk to the hub.", len(self._devices.list()))
        if self.stats is None:
            return
        yield _gauge("tieline_bus_records", "Records on the bus.", self.stats.records)
        yield _gauge("tieline_bus_subjects", "Subjects on the bus.", self.stats.subjects)
        yield _gauge("tieline_bus_bytes", "Bytes of the bus on disk.", self.stats.bytes)
        yield _gauge("tieline_bus_last", "The highest cursor of the bus.", self.stats.last)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _by(name: str, text: str, label: str, values: Iterable[str]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=(label,))
    for value, number in Count(values).items():
        family.add_metric((value,), number)
    return family
