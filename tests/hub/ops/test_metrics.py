"""What Prometheus reads."""

from prometheus_client.parser import text_string_to_metric_families
from tests.hub.conftest import Running, caller

from tieline import script
from tieline.testing.wait_for import eventually


async def read(hub: Running) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    reply = await hub.client.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        family.name: {tuple(sorted(sample.labels.items())): sample.value for sample in family.samples}
        for family in text_string_to_metric_families(reply.text)
    }


async def test_the_numbers_are_there_and_right(hub: Running) -> None:
    hub.play((script.Write("a.txt", "x"),))
    session = (await hub.session(policy="ask"))["id"]
    await hub.client.post(f"/api/v1/sessions/{session}/prompts", json={"text": "go"})
    state = hub.hub.state
    await eventually(lambda: len(state.asks) == 1, "no ask came", timeout=30)
    await eventually(lambda: state.sessions[session].status == "waiting", "it does not wait", timeout=30)
    await eventually(
        lambda: [prompt.status for prompt in state.prompts.values()] == ["running"], "nothing runs", timeout=30
    )
    metrics = await read(hub)
    assert metrics["tieline_asks_pending"][()] == 1
    assert metrics["tieline_sessions"][(("status", "waiting"),)] == 1
    assert metrics["tieline_prompts"][(("status", "running"),)] == 1
    assert metrics["tieline_nodes"][(("state", "online"),)] == 1
    assert metrics["tieline_streams"][()] == 0
    assert metrics["tieline_bus_records"][()] > 0
    assert metrics["tieline_bus_bytes"][()] > 0
    made = (("method", "POST"), ("route", "/api/v1/sessions"), ("status", "201"))
    assert metrics["tieline_requests"][made] == 1
    await hub.client.post(f"/api/v1/sessions/{session}/abort")
    await eventually(lambda: not hub.hub.state.asks, "the ask stays", timeout=30)
    ended = 0
    async for entry in hub.manager.events(session):
        if entry.event.type == "done":
            ended = entry.seq
            break
    await eventually(lambda: hub.hub.fanout.cursor >= ended, "the end was not read", timeout=30)
    assert (await read(hub))["tieline_turns"][(("outcome", "interrupted"),)] == 1


async def test_strangers_cannot_make_new_series(hub: Running) -> None:
    async with caller(hub.url) as stranger:
        for number in range(5):
            await stranger.get(f"/made/up/{number}")
            await stranger.request(f"WORD{number}", "/healthz")
    routes = {dict(labels).get("route") for labels in (await read(hub))["tieline_requests"]}
    assert not any("made" in str(route) for route in routes)
    methods = {dict(labels).get("method") for labels in (await read(hub))["tieline_requests"]}
    assert not any("WORD" in str(method) for method in methods)
