"""schemathesis reads the OpenAPI document and asks whatever it allows, and what it does not. No answer is a failure.
Each operation is asked by a device that may."""

import asyncio
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks as any_checks
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks as openapi_checks
from tests.hub.conftest import Running, running

from tieline.bootstrap.mesh import open_mesh
from tieline.bootstrap.relay import HubSessions, open_relay
from tieline.schedules.manager import ScheduleManager
from tieline.schedules.scheduler import Scheduler
from tieline.teams.teams import Teams
from tieline.teams.turn_commits import TeamWorktrees

EXAMPLES = 12
PARTS = 4
"""Each test asks a part of the operations: all in one would take most of its time limit on a busy machine."""
SIGN_IN = {"POST /api/v1/login", "POST /api/v1/logout", "POST /api/v1/pair"}
"""Those that turn away who has no right secret, and who tries too often."""
NOT_ASKED = {"POST /api/v1/push/subscriptions", "POST /api/v1/push/test"}
"""The hub would send to addresses that are made up here."""
CHECKS: list[Any] = [
    getattr(any_checks, "not_a_server_error"),  # noqa: B009 - their types are not told
    getattr(openapi_checks, "status_code_conformance"),  # noqa: B009
    getattr(openapi_checks, "response_schema_conformance"),  # noqa: B009
]


class HubElsewhere(NamedTuple):
    """A hub that runs in another thread's loop."""

    running: Running
    loop: asyncio.AbstractEventLoop

    @property
    def url(self) -> str:
        return self.running.url

    def headers(self, token: str = "") -> dict[str, str]:
        return self.running.headers(token)

    def new_token(self) -> str:
        adding = self.running.hub.devices.add("client", "tests")
        return asyncio.run_coroutine_threadsafe(adding, self.loop).result(60)[1]


@contextmanager
def elsewhere(path: Path) -> Generator[HubElsewhere]:
    """A whole hub in a loop of its own: schemathesis waits for its answers without one."""
    started: list[Running] = []
    ready, over = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def run() -> None:
        async with running(path) as hub, AsyncExitStack() as stack:
            bus, sessions = hub.hub.bus, HubSessions(hub.hub)
            relay = await stack.enter_async_context(open_relay(hub.hub, watch=False))
            await stack.enter_async_context(open_mesh(hub.hub, relay, hub.manager))
            hub.hub.teams = await stack.enter_async_context(Teams(bus, sessions, worktrees=TeamWorktrees(hub.env)))
            await stack.enter_async_context(Scheduler(bus, sessions))
            hub.hub.schedules = ScheduleManager(bus)
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
        yield HubElsewhere(started[0], loop)
    finally:
        if started:
            loop.call_soon_threadsafe(over.set)
        thread.join(60)


def ask(operation: Any, headers: dict[str, str]) -> Counter[int]:
    """Made-up requests of one operation: how often each status was answered. Raises FailureGroup."""
    statuses: Counter[int] = Counter()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    @given(case=operation.as_strategy())
    def request(case: Any) -> None:
        reply = case.call(headers=headers, timeout=60)
        statuses[reply.status_code] += 1
        case.validate_response(reply, checks=CHECKS)

    request()
    return statuses


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_request_makes_the_hub_fail(tmp_path: Path, part: int) -> None:
    with elsewhere(tmp_path) as hub:
        schema: Any = schemathesis.openapi.from_url(f"{hub.url}/api/v1/openapi.json", headers=hub.headers())
        answers: dict[str, Counter[int]] = {}
        failures: list[str] = []
        operations = [loaded.ok() for loaded in schema.get_all_operations()]
        for operation in operations[part::PARTS]:
            name = f"{operation.method.upper()} {operation.path}"
            if name in NOT_ASKED:
                continue
            try:
                # A key for each: one operation signs out, another one removes devices.
                answers[name] = ask(operation, hub.headers(hub.new_token()))
            except FailureGroup as group:
                failures.append(f"{name}: {group}")
        if failures:
            pytest.fail("\n".join(failures))
        turned_away = {name for name, statuses in answers.items() if statuses.keys() & {401, 429}}
        assert turned_away <= SIGN_IN, "they were not really asked"
        assert sum(statuses.total() for statuses in answers.values()) > 300 / PARTS
