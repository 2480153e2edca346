"""Who calls: the transport before the harness, the harness before the model, and nobody as somebody else."""

from typing import Any

import pytest
from msgspec.structs import replace

from tieline.cli.mcp.stdio_bridge import caller_headers
from tieline.mesh.errors import NotYours
from tieline.mesh.mcp_caller import Callers, McpRequest, harness_of, thread_of
from tieline.mesh.records import Caller

V7 = "019a8f6e-1c2d-7abc-8def-0123456789ab"
V4 = "6f1c1d1e-5b8a-4c3e-9a55-0123456789ab"


def request(
    connection: str = "bridge-1", refused: list[str] | None = None, *, harness: str = "", session: str = ""
) -> McpRequest:
    refusals = refused if refused is not None else []
    return McpRequest(
        principal="owner",
        caller=Caller(machine="here", harness=harness, session=session),
        connection=connection,
        hand_over=lambda caller, ids: "",
        refused=lambda who, why: refusals.append(why),
    )


def identify(callers: Callers, made: McpRequest, meta: dict[str, Any] | None = None, **arguments: str) -> Caller:
    return callers.identify(made, meta=meta or {}, client=arguments.pop("client", ""), **arguments)


def test_the_header_then_the_call_then_the_argument_then_the_connection() -> None:
    callers = Callers()
    codex = {"threadId": V7}
    assert identify(callers, request(session="s1", harness="claude-code"), codex).session == "s1"
    caller = identify(callers, request(), codex)
    assert (caller.session, caller.harness) == (V7, "codex")
    assert identify(callers, request(connection="bridge-2"), session_id="s3", client="opencode").session == "s3"
    assert identify(callers, request(connection="bridge-3")).session == "bridge-3"
    assert identify(callers, request(connection="")).session == ""


def test_a_connection_remembers_what_was_said_once() -> None:
    callers = Callers()
    caller = identify(callers, request(), session_id="ses_1", client="opencode")
    again = identify(callers, request(), client="opencode", token="t")
    assert (again.session, again.harness, again.token) == (caller.session, "opencode", "t")
    assert identify(callers, request(connection="bridge-9")).session == "bridge-9"  # another one does not


@pytest.mark.parametrize("known", ["mine", ""])
def test_a_model_cannot_name_another_session(known: str) -> None:
    refused: list[str] = []
    meta = {} if known else {"threadId": "mine"}
    with pytest.raises(NotYours, match="this is the session mine, not theirs"):
        identify(Callers(), request("bridge-1", refused, session=known), meta, session_id="theirs")
    assert refused == ["this is the session mine, not theirs"]
    assert identify(Callers(), request(session=known), meta, session_id="mine").session == "mine"


def test_a_driven_agent_is_its_session_whatever_it_says() -> None:
    own = Caller(driven="s1")
    made = McpRequest(principal="x", caller=own, hand_over=lambda caller, ids: "", refused=lambda who, why: None)
    assert identify(Callers(), made, {"threadId": "t"}, session_id="other", token="stolen") == own


@pytest.mark.parametrize(
    ("client", "session", "harness"),
    [
        ("claude-code", "", "claude-code"),
        ("codex-mcp-client", V4, "codex"),
        ("gemini-cli-mcp-client-tieline", "", "gemini"),
        ("Visual Studio Code", "", "copilot"),
        ("", V7, "codex"),
        ("", V4, "claude-code"),
        ("", "ses_4a3b", "opencode"),
        ("My Own Client!", "", "my-own-client"),
        ("", "", "generic"),
    ],
)
def test_the_harness_by_its_own_name_or_by_its_ids(client: str, session: str, harness: str) -> None:
    assert harness_of(client, session) == harness


def test_codex_names_its_thread_in_three_places() -> None:
    assert thread_of({"threadId": "a", "sessionId": "b"}) == "a"
    assert thread_of({"sessionId": "b"}) == "b"
    assert thread_of({"x-codex-turn-metadata": {"thread_id": "c"}}) == "c"
    assert thread_of({"threadId": 3, "x-codex-turn-metadata": "no"}) == ""


def test_a_bridge_whose_harness_went_on_with_another_session_is_that_session() -> None:
    callers = Callers()
    callers.move(request(session="before"), "after")
    assert identify(callers, request(session="before")).session == "after"
    assert identify(callers, request(session="before"), session_id="after").session == "after"
    assert identify(callers, request(connection="bridge-2", session="before")).session == "before"
    with pytest.raises(NotYours):
        identify(callers, request(session="before"), session_id="before")


@pytest.mark.parametrize(
    ("env", "given", "harness", "session"),
    [
        ({"TIELINE_HARNESS": "gemini"}, "", "gemini", ""),
        ({"TIELINE_HARNESS": "gemini", "CLAUDE_CODE_SESSION_ID": "c-1"}, "", "gemini", ""),  # started below the other
        ({"CLAUDE_CODE_SESSION_ID": "c-1"}, "", "claude-code", "c-1"),
        ({"TIELINE_HARNESS": "gemini"}, "codex", "codex", ""),
    ],
)
def test_a_bridge_says_which_harness_started_it(env: dict[str, str], given: str, harness: str, session: str) -> None:
    headers = caller_headers(env, given)
    assert headers.get("X-Tieline-Harness", "") == harness
    assert headers.get("X-Tieline-Session", "") == session


def test_the_process_that_started_a_bridge_names_the_session_when_nothing_else_does() -> None:
    made = replace(request(harness="gemini"), process_session="g-1")
    assert identify(Callers(), made).session == "g-1"
    assert identify(Callers(), made, {"threadId": "t-1"}).session == "t-1"
    assert identify(Callers(), made, session_id="s-1").session == "s-1"
