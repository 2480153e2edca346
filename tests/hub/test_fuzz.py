"""schemathesis reads the OpenAPI document and asks whatever it allows, and what it does not. No answer is a failure."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks as any_checks
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks as openapi_checks
from tests.hub.conftest import Running, running

from tieline.bootstrap.relay import open_relay

EXAMPLES = 12
CHECKS: list[Any] = [
    getattr(any_checks, "not_a_server_error"),  # noqa: B009 - their types are not told
    getattr(openapi_checks, "status_code_conformance"),  # noqa: B009
    getattr(openapi_checks, "response_schema_conformance"),  # noqa: B009
]


@contextmanager
def elsewhere(path: Path) -> Generator[Running]:
    """A hub in a loop of its own: schemathesis waits for its answers without one."""
    started: list[Running] = []
    ready, over = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def run() -> None:
        async with running(path) as hub, open_relay(hub.hub, watch=False):
            started.append(hub)
            ready.set()
            await over.wait()

    def work() -> None:
        try:
            loop.run_until_complete(run())
        finally:
            ready.set()
            loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert ready.wait(60)
        yield started[0]
    finally:
        if started:
            loop.call_soon_threadsafe(over.set)
        thread.join(60)


@pytest.mark.slow
def test_no_request_makes_the_hub_fail(tmp_path: Path) -> None:
    with elsewhere(tmp_path) as hub:
        schema: Any = schemathesis.openapi.from_url(f"{hub.url}/api/v1/openapi.json", headers=hub.headers())
        asked = 0
        failures: list[str] = []
        for found in schema.get_all_operations():
            operation = found.ok()

            @settings(
                max_examples=EXAMPLES,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.explicit, Phase.generate],
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
            )
            @given(case=operation.as_strategy())
            def ask(case: Any) -> None:
                nonlocal asked
                asked += 1
                reply = case.call(headers=hub.headers(), timeout=60)
                case.validate_response(reply, checks=CHECKS)

            try:
                ask()
            except FailureGroup as group:
                failures.append(f"{operation.method.upper()} {operation.path}: {group}")
        if failures:
            pytest.fail("\n".join(failures))
        assert asked > 300
