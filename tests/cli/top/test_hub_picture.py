from tieline.cli.top.hub_picture import MAX_ROWS, HubPicture
from tieline.events import Ask, Command, Tokens
from tieline.protocol.stream_frames import AskFrame, Beat, GoneFrame, NodeFrame, PromptFrame, Ready, SessionFrame
from tieline.protocol.views import NodeView, PromptView, Snapshot
from tieline.sessions.records import AskRecord, SessionRecord, SessionStatus


def session(id: str, status: SessionStatus = "idle", **more: object) -> SessionRecord:
    return SessionRecord(id=id, agent="codex", cwd="/home/someone/shop", node="n1", status=status, **more)  # pyright: ignore[reportArgumentType]


def ask(id: str, session: str, created_at: float = 0.0) -> AskRecord:
    return AskRecord(
        id=id, session=session, ask=Ask(id, "permission", "Run ls", action=Command("ls")), digest="",
        created_at=created_at,
    )  # fmt: skip


def picture(*sessions: SessionRecord) -> HubPicture:
    hub_picture = HubPicture()
    now = Snapshot(sessions=sessions, nodes=(NodeView(id="n1", name="laptop", online=True),))
    hub_picture.apply(Ready(state="ok", epoch="e", cursor=0, snapshot=now))
    return hub_picture


def test_those_who_need_a_person_come_first_then_those_who_work_then_the_last_active() -> None:
    hub_picture = picture(
        session("old", active_at=1), session("new", active_at=9), session("works", "working"),
        session("broken", "failed"), session("asks", "waiting"), session("away", archived=True),
    )  # fmt: skip
    assert [row.id for row in hub_picture.overview().sessions] == ["asks", "works", "broken", "new", "old"]


def test_what_the_hub_tells_is_what_is_shown() -> None:
    hub_picture = picture(session("a", tokens=Tokens(cost_usd=0.25)), session("b", tokens=Tokens(cost_usd=0.5)))
    assert not hub_picture.apply(Beat())
    for frame in (
        AskFrame(ask=ask("2", "a", 2.0)),
        AskFrame(ask=ask("1", "a", 1.0)),
        PromptFrame(prompt=PromptView(id="p1", session="a", status="running")),
        PromptFrame(prompt=PromptView(id="p3", session="a", status="queued", place=3.0)),
        PromptFrame(prompt=PromptView(id="p2", session="a", status="queued", place=2.0)),
        SessionFrame(session=session("a", "waiting", title="the shop", tokens=Tokens(cost_usd=0.25))),
    ):
        assert hub_picture.apply(frame)
    assert [each.id for each in hub_picture.asks_of("a")] == ["1", "2"]
    assert [each.id for each in hub_picture.queue_of("a")] == ["p2", "p3"]
    overview = hub_picture.overview()
    row = overview.sessions[0]
    assert (row.id, row.asks, row.queue, row.machine, row.online) == ("a", 2, 2, "laptop", True)
    assert (overview.totals.asks, overview.totals.queue, overview.totals.cost_usd) == (2, 2, 0.75)
    (machine,) = overview.machines
    assert (machine.sessions, machine.asks) == (2, 2)

    answered = AskRecord(id="1", session="a", ask=ask("1", "a").ask, digest="", status="answered")
    hub_picture.apply(AskFrame(ask=answered))
    hub_picture.apply(PromptFrame(prompt=PromptView(id="p2", session="a", status="cancelled")))
    hub_picture.apply(NodeFrame(node=NodeView(id="n1", name="laptop", online=False)))
    hub_picture.apply(GoneFrame(kind="session", id="b"))
    (row,) = hub_picture.overview().sessions
    assert (row.asks, row.queue, row.cells(0.0)[2]) == (1, 1, "waiting (offline)")


def test_words_are_looked_for_and_the_list_is_bounded() -> None:
    hub_picture = picture(*(session(f"s{number}", title=f"task {number}") for number in range(MAX_ROWS + 20)))
    assert len(hub_picture.overview().sessions) == MAX_ROWS
    assert hub_picture.overview().totals.sessions == MAX_ROWS + 20
    assert [row.id for row in hub_picture.overview("TASK 517 laptop").sessions] == ["s517"]
