"""Traces from prompt to done, at a collector on loopback."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.hub.conftest import running

from tieline import script
from tieline.config import HubConfig
from tieline.testing.http_server import HttpRequest, LoopbackServer

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Collector:
    """What was exported, decoded."""

    def __init__(self) -> None:
        self.spans: list[Any] = []

    async def __call__(self, request: HttpRequest) -> None:
        body = request.body
        if request.headers.get("content-encoding") == "gzip":
            import gzip

            body = gzip.decompress(body)
        export = ExportTraceServiceRequest.FromString(body)
        self.spans += [
            span for resource in export.resource_spans for scope in resource.scope_spans for span in scope.spans
        ]
        await request.respond(200, b"", "application/x-protobuf")


def facts(span: Any) -> dict[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in span.attributes}


@pytest.mark.slow
async def test_from_prompt_to_done(tmp_path: Path) -> None:
    collector = Collector()
    async with LoopbackServer(collector) as server, running(tmp_path, config=HubConfig(traces=server.url)) as hub:
        hub.play((script.Write("a.txt", "the private content"),), (script.Say("the private words"),))
        session = (await hub.session())["id"]
        path = f"/api/v1/sessions/{session}/prompts"
        body = {"text": "the private prompt", "id": "p1"}
        await hub.client.post(path, json=body, headers={"traceparent": PARENT})
        async with asyncio.timeout(60):
            traces = hub.hub.traces
            assert traces is not None
            while traces.open:  # noqa: ASYNC110 (a timer of the hub's own)
                await asyncio.sleep(0.02)
    spans = {span.name: span for span in collector.spans}
    assert set(spans) == {"prompt", "queued", "turn", "tool"}
    root = spans["prompt"]
    assert root.trace_id.hex() == PARENT.split("-")[1]
    assert root.parent_span_id.hex() == PARENT.split("-")[2]
    assert spans["turn"].parent_span_id == root.span_id == spans["queued"].parent_span_id
    assert spans["tool"].parent_span_id == spans["turn"].span_id
    assert facts(root)["tieline.outcome"] == "success"
    assert facts(root)["tieline.agent"] == "scripted"
    assert root.start_time_unix_nano <= spans["turn"].start_time_unix_nano <= root.end_time_unix_nano
    assert spans["turn"].start_time_unix_nano <= spans["tool"].start_time_unix_nano
    assert "private" not in str(collector.spans)


@pytest.mark.parametrize("traces", [""])
async def test_without_a_collector_nothing_is_imported_or_kept(tmp_path: Path, traces: str) -> None:
    async with running(tmp_path, config=HubConfig(traces=traces)) as hub:
        assert hub.hub.traces is None
