"""Traces by OpenTelemetry, from prompt to done, for those who named a collector in `hub.traces`.

A prompt that this hub took is a span; in it are its time in the queue, its turn, and in the turn each tool call and
each ask with how long it waited. It is told from what the bus says, so it is the same for sessions on other machines.
Spans carry names, times and numbers, never what was said. A caller's `traceparent` is their parent.
"""

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ...errors import UsageError
from ...events import Answer, Ask, ToolResult, ToolUse, decode
from ...protocol.stream_frames import AnyHubFrame, PromptFrame
from ...protocol.views import PromptView
from ...sessions.event_log import LogEvent
from ...version import __version__
from ..state.live_state import LiveState
from ..stream.encoded_frames import EventSummary
from ..stream.fanout import Fanout

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

MAX_TRACES = 1000
MAX_SPANS = 500
"""Spans inside one turn; what comes after them is not traced."""
SETTLE_S = 1.0
"""A prompt is over before the last events were read off the log: they get this long."""
FLUSH_MS = 3000

_TRACED = frozenset({"tool_use", "tool_result", "ask", "answer"})


class ChildSpan(Struct):
    name: str
    began: float
    ended: float = 0.0
    attributes: dict[str, Any] = {}


class Trace(Struct):
    id: str
    session: str
    parent: str
    spans: dict[str, ChildSpan] = {}
    export_timer: asyncio.TimerHandle | None = None
    prompt: PromptView | None = None


class Traces:
    """`async with Traces(state, fanout, provider)`."""

    def __init__(self, state: LiveState, fanout: Fanout, provider: "TracerProvider") -> None:
        self._state = state
        self._fanout = fanout
        self._provider = provider
        self._tracer = provider.get_tracer("tieline", __version__)
        self._traces: OrderedDict[str, Trace] = OrderedDict()
        self._unsubscribers: list[Any] = []

    async def __aenter__(self) -> "Traces":
        self._unsubscribers = [
            self._state.subscribe(self._on_state_changed),
            self._fanout.on_event(self._on_event),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for end in self._unsubscribers:
            end()
        for trace in list(self._traces.values()):
            if trace.export_timer is not None:
                trace.export_timer.cancel()
                self._export(trace)
        await asyncio.to_thread(self._provider.force_flush, FLUSH_MS)
        await asyncio.to_thread(self._provider.shutdown)

    @property
    def open(self) -> int:
        """Prompts that are not told yet."""
        return len(self._traces)

    def begin(self, prompt: str, session: str, traceparent: str = "") -> None:
        """A prompt was taken."""
        if prompt not in self._traces:
            self._traces[prompt] = Trace(id=prompt, session=session, parent=traceparent)
        while len(self._traces) > MAX_TRACES:
            _, oldest = self._traces.popitem(last=False)
            if oldest.export_timer is not None:
                oldest.export_timer.cancel()

    def _on_state_changed(self, frame: AnyHubFrame) -> None:
        if not isinstance(frame, PromptFrame) or not frame.prompt.ended_at:
            return
        trace = self._traces.get(frame.prompt.id)
        if trace is not None and trace.session == frame.prompt.session and trace.export_timer is None:
            trace.prompt = frame.prompt
            trace.export_timer = asyncio.get_running_loop().call_later(SETTLE_S, self._export, trace)

    def _on_event(self, whole: LogEvent, peek: EventSummary) -> None:
        if peek.type not in _TRACED:
            return
        traces = [trace for trace in self._traces.values() if trace.session == whole.session]
        if not traces:
            return
        event = decode(whole.data)
        for trace in traces:
            if len(trace.spans) >= MAX_SPANS:
                continue
            match event:
                case ToolUse(id=id, name=name):
                    trace.spans[f"tool {id}"] = ChildSpan("tool", whole.at, attributes={"tieline.tool": name})
                case ToolResult(id=id, status=status) if step := trace.spans.get(f"tool {id}"):
                    step.ended = whole.at
                    step.attributes["tieline.status"] = status
                case Ask(id=id, kind=kind):
                    trace.spans[f"ask {id}"] = ChildSpan("ask", whole.at, attributes={"tieline.ask": kind})
                case Answer(ask=id, decision=decision) if step := trace.spans.get(f"ask {id}"):
                    step.ended = whole.at
                    step.attributes["tieline.decision"] = decision
                case _:
                    pass

    def _export(self, trace: Trace) -> None:
        from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._traces.pop(trace.id, None)
        prompt = trace.prompt
        if prompt is None:
            return
        record = self._state.sessions.get(trace.session)
        facts: dict[str, Any] = {
            "tieline.session": trace.session,
            "tieline.prompt": trace.id,
            "tieline.status": prompt.status,
            "tieline.outcome": prompt.outcome or "",
            "tieline.agent": record.agent if record else "",
            "tieline.node": record.node if record else "",
        }
        carrier = {"traceparent": trace.parent} if trace.parent else {}
        parent = TraceContextTextMapPropagator().extract(carrier)
        began, started, ended = prompt.created_at, prompt.started_at or prompt.ended_at, prompt.ended_at
        root = self._tracer.start_span(
            "prompt", context=parent, kind=SpanKind.SERVER, attributes=facts, start_time=_ns(began)
        )
        inside = set_span_in_context(root)
        self._tracer.start_span("queued", context=inside, start_time=_ns(began)).end(_ns(started))
        if prompt.started_at:
            turn = self._tracer.start_span("turn", context=inside, start_time=_ns(started))
            within = set_span_in_context(turn)
            for step in trace.spans.values():
                if started <= step.began <= ended:
                    span = self._tracer.start_span(
                        step.name, context=within, attributes=step.attributes, start_time=_ns(step.began)
                    )
                    span.end(_ns(step.ended or ended))
            turn.end(_ns(ended))
        if prompt.status != "done":
            root.set_status(StatusCode.ERROR)
        root.end(_ns(ended))


def provider(endpoint: str) -> "TracerProvider":
    """Sends to a collector, by OTLP over HTTP."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        hint = "Install the extra: tieline[traces]."
        raise UsageError("traces need OpenTelemetry", field="hub.traces", hint=hint) from None
    url = endpoint.rstrip("/")
    if not url.endswith("/v1/traces"):
        url += "/v1/traces"
    resource = Resource({"service.name": "tieline", "service.version": __version__})
    made = TracerProvider(resource=resource, shutdown_on_exit=False)
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
    return made


def _ns(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
