"""Rules by the API: from an ask to the rule that answers the next one, who may make them, and how they end."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.hub.agents import inside, through
from tests.hub.conftest import Running, caller
from tests.hub.test_terminal_agents_do_not_decide import IN_A_TERMINAL, SEND, asking
from tests.hub.test_terminal_agents_do_not_decide import run as run_program
from tests.sessions.test_attached_session import NATIVE, RecordingTerminal

from tieline.events import Answer, Ask, Command, Done, ToolUse
from tieline.script import Run, Say, Write
from tieline.sessions.manager import SessionManager
from tieline.sessions.records import Remote
from tieline.testing.wait_for import eventually

ASK = {"policy": "ask"}


async def prompt(hub: Running, *steps: Any, session: str = "", **more: Any) -> str:
    """A session whose agent does these."""
    hub.replies[:] = [[*steps, Say("done")]]
    id = session or (await hub.session(**(ASK | more)))["id"]
    reply = await hub.client.post(f"/api/v1/sessions/{id}/prompts", json={"text": "go"})
    assert reply.status_code == 201, reply.text
    return id


WAIT_S = 100.0
"""An agent asks, and its turn ends, within this time: also a real one, started on a busy machine."""


async def pending(manager: SessionManager, session: str) -> str:
    await eventually(lambda: bool(manager.asks.pending(session)), "nobody is asked", timeout=WAIT_S)
    return manager.asks.pending(session)[0].id


async def answers(hub: Running, session: str) -> list[Answer]:
    """Of its only turn, up to its end."""
    answers: list[Answer] = []
    async with asyncio.timeout(WAIT_S):
        async for entry in hub.manager.events(session):
            if isinstance(entry.event, Answer):
                answers.append(entry.event)
            if isinstance(entry.event, Done):
                return answers
    raise AssertionError("the log ended")


async def add(hub: Running, **rule: Any) -> dict[str, Any]:
    reply = await hub.client.post("/api/v1/rules", json=rule)
    assert reply.status_code == 201, reply.text
    return reply.json()


async def answer(hub: Running, session: str, decision: str) -> None:
    ask = await pending(hub.manager, session)
    reply = await hub.client.post(f"/api/v1/asks/{ask}/answer", json={"decision": decision})
    assert reply.status_code == 200, reply.text
    await answers(hub, session)


async def test_from_an_ask_to_the_rule_that_answers_the_next(hub: Running) -> None:
    first = await prompt(hub, Run("echo one two"))
    ask = await pending(hub.manager, first)
    choices = (await hub.client.get(f"/api/v1/asks/{ask}/rule-choices")).json()
    assert [(choice["rule"]["match"], choice["rule"]["pattern"]) for choice in choices] == [
        ("exact", "echo one two"),
        ("prefix", "echo one two"),
        ("prefix", "echo one"),
        ("prefix", "echo"),
    ]
    assert choices[2]["label"] == "commands that begin with `echo one`"
    rule = choices[2]["rule"]
    assert (rule["directory"], rule["node"], rule["ask"]) == (hub.cwd, hub.hub.dispatcher.local, ask)

    before = (await hub.client.post("/api/v1/rules/preview", json=rule)).json()
    assert (before["text"], before["tested"], before["matched"]) == ("would have allowed 1 of the last 1", 1, 1)
    assert before["asks"][0]["text"] == "echo one two" and not before["asks"][0].get("decision")

    made = await add(hub, **rule)
    assert made["made_by"] and made["made_at"] > 0 and "echo one" in made["text"] and not made.get("waiting")
    reply = await hub.client.post(f"/api/v1/asks/{ask}/answer", json={"decision": "allow"})
    assert reply.status_code == 200 and [answer.by for answer in await answers(hub, first)] != ["rule"]

    second = await prompt(hub, Run("echo one three"))
    (decided,) = await answers(hub, second)
    assert (decided.decision, decided.by, decided.rule) == ("allow", "rule", made["id"])
    assert "commands that begin with `echo one`" in decided.reason and made["made_by"] in decided.reason
    kept = (await hub.client.get(f"/api/v1/asks/{decided.ask}")).json()
    assert kept["status"] == "answered" and kept["answer"]["rule"] == made["id"]
    assert not hub.manager.asks.pending()
    shown = (await hub.client.get(f"/api/v1/rules/{made['id']}")).json()
    assert shown["uses"] == 1 and shown["used_at"] > 0

    revoked = (await hub.client.delete(f"/api/v1/rules/{made['id']}")).json()
    assert revoked["revoked_by"] and revoked["revoked_at"]
    assert (await hub.client.delete(f"/api/v1/rules/{made['id']}")).json()["revoked_at"] == revoked["revoked_at"]
    third = await prompt(hub, Run("echo one four"))
    await answer(hub, third, "deny")
    assert [rule["id"] for rule in (await hub.client.get("/api/v1/rules")).json()] == [made["id"]], "its history"
    lines = (await hub.client.get("/api/v1/audit?kind=rule")).json()
    assert [line["details"]["done"] for line in lines] == ["revoked", "revoked", "made"]
    assert "echo one" in lines[2]["details"]["says"] and lines[2]["details"]["ask"] == ask


async def test_a_rule_for_this_machine_is_kept_by_the_real_names(hub: Running, tmp_path: Path) -> None:
    """A link in a rule could be laid elsewhere later, and an allow rule does not follow one: it would never hold."""
    real = tmp_path.resolve() / "real"
    (real / "src").mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(real)
    rule = {"match": "edit", "pattern": f"{link}/src/", "directory": str(link)}
    here = await add(hub, **rule, node=hub.hub.dispatcher.local)
    assert (here["pattern"], here["directory"]) == (f"{real}/src/", str(real))
    file = await add(hub, match="read", pattern=f"{link}/src/a", node=hub.hub.dispatcher.local)
    assert file["pattern"] == f"{real}/src/a" and not file.get("directory")
    command = await add(hub, match="exact", pattern=f"{link}/src/", node=hub.hub.dispatcher.local)
    assert command["pattern"] == f"{link}/src/", "no path"
    anywhere = await add(hub, **rule)
    assert (anywhere["pattern"], anywhere["directory"]) == (rule["pattern"], rule["directory"]), (
        "whose link would it be?"
    )


async def test_a_preview_says_what_people_decided_otherwise(hub: Running) -> None:
    for command, decision in (("make a", "allow"), ("make b", "deny"), ("ls", "deny"), ("make c; x", "deny")):
        session = await prompt(hub, Run(command))
        await answer(hub, session, decision)
    make = {"match": "prefix", "pattern": "make"}
    allows = (await hub.client.post("/api/v1/rules/preview", json=make)).json()
    assert allows["text"] == "would have allowed 2 of the last 4; 1 of them were denied by a person"
    assert [(ask["text"], ask["decision"], ask["person"]) for ask in allows["asks"]] == [
        ("make b", "deny", True),
        ("make a", "allow", True),
    ]
    denies = (await hub.client.post("/api/v1/rules/preview", json=make | {"decision": "deny"})).json()
    assert denies["text"] == "would have denied 2 of the last 4; 1 of them were allowed by a person"
    assert (await hub.client.get("/api/v1/rules")).json() == [], "a preview saves nothing"


async def test_the_policy_s_deny_stays(hub: Running) -> None:
    await add(hub, match="prefix", pattern="echo")
    session = await prompt(hub, Run("echo hello"), policy={"shell": "deny"})
    assert [(answer.decision, answer.by) for answer in await answers(hub, session)] == [("deny", "policy")]


async def test_a_deny_rule_beats_an_allow_rule(hub: Running) -> None:
    await add(hub, match="prefix", pattern="echo")
    denies = await add(hub, match="prefix", pattern="echo secret", decision="deny")
    session = await prompt(hub, Run("echo secret x"))
    (decided,) = await answers(hub, session)
    assert (decided.decision, decided.rule) == ("deny", denies["id"])


async def test_tricks_still_ask_a_person(hub: Running) -> None:
    await add(hub, match="prefix", pattern="echo hello")
    session = await prompt(hub, Run("echo hello; touch escaped"))
    await answer(hub, session, "deny")
    assert not Path(hub.cwd, "escaped").exists()


async def test_an_edit_by_its_path_and_a_link_that_leads_away(hub: Running) -> None:
    folder = Path(hub.cwd)
    (folder / "src").mkdir()
    await add(hub, match="edit", pattern=f"{folder}/src/", directory=hub.cwd, node=hub.hub.dispatcher.local)
    session = await prompt(hub, Write("src/a.txt", "hello"))
    assert [answer.by for answer in await answers(hub, session)] == ["rule"]
    assert (folder / "src/a.txt").read_text() == "hello"
    (folder / "src" / "link").symlink_to(folder)
    session = await prompt(hub, Write("src/link/b.txt", "hello"))
    await answer(hub, session, "deny")
    assert not (folder / "b.txt").exists()


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"match": "prefix", "pattern": "a; b"}, "pattern"),
        ({"match": "prefix", "pattern": "bash -c"}, "pattern"),
        ({"match": "edit", "pattern": "relative/"}, "pattern"),
        ({"match": "edit", "pattern": "/a/../b"}, "pattern"),
        ({"match": "host", "pattern": "*"}, "pattern"),
        ({"match": "glob", "pattern": "*"}, "match"),
        ({"match": "exact", "pattern": "x", "directory": "here"}, "directory"),
        ({"match": "exact", "pattern": "x", "node": "nowhere"}, "node"),
        ({"match": "exact", "pattern": "x", "expires_at": 1.0}, "expires_at"),
        ({"match": "exact", "pattern": "x", "id": "a.b"}, "id"),
        ({"match": "exact", "pattern": "x", "made_by": "somebody"}, "made_by"),
        ({"match": "exact"}, "pattern"),
    ],
)
async def test_what_is_wrong_is_named(hub: Running, wrong: dict[str, object], field: str) -> None:
    reply = await hub.client.post("/api/v1/rules", json=wrong)
    assert reply.status_code == 400 and reply.json()["field"] == field, reply.text
    assert (await hub.client.get("/api/v1/rules")).json() == []


async def test_sent_twice_it_is_one(hub: Running) -> None:
    made = [await add(hub, match="exact", pattern="x", id="r1") for _ in range(2)]
    assert made[0] == made[1]
    for missing in ("nobody", "a b"):
        assert (await hub.client.get(f"/api/v1/rules/{missing}")).status_code == 404
        assert (await hub.client.delete(f"/api/v1/rules/{missing}")).status_code == 404


async def test_an_agent_and_a_node_make_no_rules(hub: Running, tmp_path: Path) -> None:
    made = await add(hub, match="exact", pattern="x")
    wanted = (
        ("GET", "/api/v1/rules", None),
        ("POST", "/api/v1/rules", {"match": "prefix", "pattern": "rm"}),
        ("POST", "/api/v1/rules/preview", {"match": "prefix", "pattern": "rm"}),
        ("GET", f"/api/v1/rules/{made['id']}", None),
        ("DELETE", f"/api/v1/rules/{made['id']}", None),
        ("GET", "/api/v1/asks/x/rule-choices", None),
    )
    _, key = await hub.hub.devices.add("node", "another machine", node="n9")
    async with inside(hub, tmp_path) as agent:
        clients = [*(through(hub, way) for way in agent.ways), caller(hub.url, key)]
        for client in clients:
            async with client:
                for method, path, body in wanted:
                    reply = await client.request(method, path, json=body)
                    assert reply.status_code == 403, (method, path, reply.text)
    (rule,) = (await hub.client.get("/api/v1/rules")).json()
    assert not rule.get("revoked_at")


async def test_what_a_terminal_s_agent_detached_makes_none(hub: Running) -> None:
    body = '{"match": "prefix", "pattern": "rm"}'
    send = (sys.executable, "-I", "-c", SEND, hub.serving.socket, "POST", "/api/v1/rules", body)
    async with asking(hub) as (_, terminal, _, _):
        assert " 403 " in await run_program(*send, terminal=terminal)
        terminal.process = 0
        refused = await run_program(*send)
        assert " 403 " in refused and "cannot tell whether a person" in refused
        assert " 201 " in await run_program(sys.executable, "-c", IN_A_TERMINAL, *send), "a person in a terminal"
    async with caller(hub.url, hub.token) as phone:
        assert len((await phone.get("/api/v1/rules")).json()) == 1


@pytest.mark.parametrize(("remote", "can"), [("answer", True), ("steer", False)])
async def test_an_ask_of_a_terminal_becomes_a_rule_where_it_can_be_answered(
    hub: Running, remote: Remote, can: bool
) -> None:
    terminal = RecordingTerminal(remote)
    session = await hub.manager.attach("codex", NATIVE, cwd=hub.cwd, terminal=terminal)
    ask = Ask("1", "permission", "Run", action=Command("echo one"), input={"command": "echo one"}, capability="shell")
    task = asyncio.create_task(session.ask(ask, "a1"))
    waiting = await pending(hub.manager, session.record.id)
    choices = (await hub.client.get(f"/api/v1/asks/{waiting}/rule-choices")).json()
    assert [choice["rule"]["match"] for choice in choices] == (["exact", "prefix", "prefix"] if can else [])
    rule = {"match": "prefix", "pattern": "echo"}
    assert (await hub.client.post("/api/v1/rules/preview", json=rule)).json()["tested"] == can
    await session.settle("a1", "allow")
    await task
    async with caller(hub.url, hub.token) as phone:
        assert (await phone.post("/api/v1/rules", json=rule)).status_code == 201
    task = asyncio.create_task(session.ask(ask, "a2"))
    if not can:
        await pending(hub.manager, session.record.id)
        await session.settle("a2", "deny")
    assert (await asyncio.wait_for(task, 30)).by == ("rule" if can else "terminal")


async def test_nobody_is_told_that_they_are_waited_for(hub: Running) -> None:
    await add(hub, match="exact", pattern="echo hello")
    session = await prompt(hub, Run("echo hello"))
    (decided,) = await answers(hub, session)
    events = [entry.event async for entry in hub.manager.events(session, follow=False)]
    assert not [event for event in events if isinstance(event, Ask)]
    (call,) = (event for event in events if isinstance(event, ToolUse))
    assert decided.tool == call.id, "the decision is a part of its tool's row"
    kept = (await hub.client.get(f"/api/v1/asks/{decided.ask}")).json()
    assert kept["ask"]["action"]["command"] == "echo hello" and kept["parts"]
