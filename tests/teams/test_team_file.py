"""Team files: what they may say, and that each mistake is told with its line and key."""

from pathlib import Path

import msgspec
import pytest

from tieline.drivers.base import AgentOptions
from tieline.policy import Policy
from tieline.protocol.teams import Started, Team, TeamFileText, TeamMember
from tieline.teams.team_file import (
    MAX_MEMBERS,
    TeamFileError,
    check_addition,
    check_text,
    read_member,
    read_team,
    schema,
)

GOOD = """\
name = "shop"
task = "Keep the tests green."

[[members]]
name = "architect"
agent = "claude-code"
instructions_file = "architect.md"
policy = "read-only"

[[members]]
name = "developer"
agent = "codex"
cwd = "dev"
responds = "always"
max_turns = 5

[[members]]
name = "alice"
human = true

[conversation]
max_rounds = 12
first = "developer"
fallback = "alice"
"""


def written(folder: Path, text: str) -> Path:
    (folder / "architect.md").write_text("You design.\n")
    path = folder / "team.toml"
    path.write_text(text)
    return path


def test_a_file_becomes_a_team_that_stands_alone(tmp_path: Path) -> None:
    team = read_team(written(tmp_path, GOOD))
    architect, developer, alice = team.members
    assert (architect.system, architect.instructions_file) == ("You design.\n", "")
    assert (architect.cwd, developer.cwd) == (str(tmp_path), str(tmp_path / "dev"))
    assert alice.human
    assert (team.conversation.max_rounds, team.conversation.first) == (12, "developer")
    assert msgspec.json.decode(msgspec.json.encode(team), type=Team) == team


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (('name = "shop"\n', ""), 1, "name is missing"),
        (('name = "shop"', 'nmae = "shop"'), 1, "nmae: unknown key"),
        (('agent = "codex"', "agent = 7"), 12, "members[1].agent: expected text, found a whole number"),
        (('agent = "codex"', 'agnet = "codex"'), 12, "members[1].agnet: unknown key"),
        (('responds = "always"', 'responds = "often"'), 14, 'members[1].responds: expected "addressed" or'),
        (('name = "developer"', 'name = "Architect"'), 11, "Architect is the name of member 1 already"),
        (('name = "developer"', 'name = "the developer"'), 11, "a name has 1 to 32 letters"),
        (('name = "developer"', 'name = "all"'), 11, "neither all nor tieline"),
        (("human = true", 'agent = "gemini"\nhuman = true'), 17, "alice has agent and human"),
        (('agent = "codex"\n', ""), 10, "developer has none of them"),
        (('policy = "read-only"', 'policy = "careful"'), 8, "there is no policy careful"),
        (
            ('policy = "read-only"', 'arguments = ["--verbose"]'),
            8,
            "members[0].arguments: a session adds arguments only",
        ),
        (('policy = "read-only"', 'env = { PATH = "/tmp" }'), 8, "members[0].env: a session sets PATH only"),
        (('policy = "read-only"', 'policy = "full"\nenv = { TIELINE_HOME = "/" }'), 9, "Tieline's own variable"),
        (("human = true", "human = true\nenv = { A = '1' }"), 20, "members[2].env: it is for a member with an agent"),
        (('"architect.md"', '"gone.md"'), 7, "cannot read gone.md"),
        (("max_turns = 5", 'reviews = ["bob"]'), 15, "members[1].reviews: no member is called bob"),
        (("max_turns = 5", 'reviews = ["Developer"]'), 15, "members[1].reviews: Developer is this member itself"),
        (("max_turns = 5", 'reviews = ["architect"]'), 15, "members[1].reviews: architect has no worktree"),
        (
            ("human = true", 'human = true\nreviews = ["developer"]'),
            20,
            "it is for a member with an agent or a session",
        ),
        (("max_turns = 5", "max_turns = -1"), 15, "members[1].max_turns"),
        (('first = "developer"', 'first = "bob"'), 23, "conversation.first: no member is called bob"),
        (('first = "developer"', 'first = "alice"'), 23, "alice is not an agent that speaks"),
        (('fallback = "alice"', 'fallback = "bob"'), 24, "conversation.fallback: no member is called bob"),
        (("max_rounds = 12", "max_rounds = 0"), 22, "conversation.max_rounds"),
        (('cwd = "dev"', 'cwd = "."\n[conversation]\nparallel = 2'), 1, "Cannot declare"),
        (("[conversation]\n", "[conversation]\nparallel = 2\n"), 0, ""),
    ],
)
def test_a_mistake_is_told_with_its_line_and_key(
    tmp_path: Path, change: tuple[str, str], line: int, words: str
) -> None:
    path = written(tmp_path, GOOD.replace(*change))
    if not line:
        read_team(path)
        return
    with pytest.raises(TeamFileError) as refused:
        read_team(path)
    message = refused.value.message
    assert words in message, message
    if "Cannot declare" not in words:
        assert message.startswith(f"{path}:{line}: "), message


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = GOOD.replace('agent = "codex"', "agent = 7").replace("max_rounds = 12", 'max_rounds = "many"')
    with pytest.raises(TeamFileError) as refused:
        read_team(written(tmp_path, text))
    assert len(refused.value.message.splitlines()) == 2


def test_a_text_is_checked_without_its_file(tmp_path: Path) -> None:
    text = GOOD.replace('instructions_file = "architect.md"', 'instructions = "You design."')
    checked = check_text(TeamFileText(text=text, cwd=str(tmp_path)))
    assert checked.team is not None and checked.mistakes == ()
    assert [member.cwd for member in checked.team.members] == [str(tmp_path), str(tmp_path / "dev"), "."]
    written(tmp_path, text)  # also where there are files beside it
    for given, cwd, expected in (
        (GOOD, str(tmp_path), [(7, "members[0].instructions_file", "the file is not at hand here")]),
        (text, "", [(4, "members[0].cwd", ". is not an absolute"), (13, "members[1].cwd", "dev is not an absolute")]),
        (text.replace('cwd = "dev"', 'cwd = "dev"\nnode = "n"'), str(tmp_path), [(13, "members[1].cwd", "dev is not")]),
        (text.replace('agent = "codex"', "agent = 7"), "/", [(12, "members[1].agent", "expected text")]),
        (text.replace('agent = "codex"', "agent = "), "/", [(12, "", "Invalid value")]),
        ('name = """', "/", [(1, "", "")]),
        (f"name = {'[' * 20_000}", "/", [(1, "", "nested too deeply")]),
        (text, "/a\0b", [(4, "members[0].cwd", "it is not a path"), (13, "members[1].cwd", "it is not a path")]),
    ):
        checked = check_text(TeamFileText(text=given, cwd=cwd))
        assert checked.team is None
        for mistake, (line, key, words) in zip(checked.mistakes, expected, strict=True):
            assert (mistake.line, mistake.key) == (line, key), mistake
            assert words in mistake.problem


WHOLE = """\
name = "one"
agent = "codex"
role = "tests"
instructions = "You test."
cwd = "/p"
worktree = true
reviews = ["two"]
model = "m"
effort = "high"
policy = "full"
accept_unenforced = true
responds = "always"
order = 2
max_turns = 7
max_cost_usd = 1.5
arguments = ["--v"]
env = {A = "1"}
"""
"""Every key that a member had before its options were those of any session."""
STORED = (
    b'{"type":"started","at":1.0,"by":"me","team":{"name":"shop","task":"t","members":[{"name":"one","agent":"codex",'
    b'"role":"tests","instructions":"You test.","cwd":"/p","worktree":true,"reviews":["two"],"model":"m",'
    b'"effort":"high","arguments":["--v"],"env":{"A":"1"},"policy":"full","accept_unenforced":true,"responds":"always","order":2,'
    b'"max_turns":7,"max_cost_usd":1.5},{"name":"two","agent":"x","worktree":true,"policy":{"file_write":"allow",'
    b'"shell":"ask","network":"deny"}},{"name":"alice","human":true}]},"task":"go"}'
)
"""An entry of a conversation's log, as it was written then."""


def test_members_of_before_are_read_as_they_were(tmp_path: Path) -> None:
    entry = msgspec.json.decode(STORED, type=Started)
    assert msgspec.json.decode(msgspec.json.encode(entry)) == msgspec.json.decode(STORED)
    first, second, alice = entry.team.members
    (tmp_path / "one.toml").write_text(WHOLE)
    assert read_member(tmp_path / "one.toml") == first
    options = first.agent_options()
    assert first.max_turns == 7 and options.pop("max_turns") is None, "turns of the conversation, not calls of a model"
    assert {name: value for name, value in options.items() if value not in (None, "", (), False)} == {
        "policy": "full",
        "model": "m",
        "effort": "high",
        "system": "You test.",
        "accept_unenforced": True,
        "arguments": ("--v",),
        "environment": ("A=1",),
    }
    assert (second.policy, alice.human) == (Policy("allow", "ask", "deny"), True)


def test_the_options_of_a_member_are_those_of_any_session() -> None:
    assert set(AgentOptions.__struct_fields__) <= set(TeamMember.__struct_fields__)
    member = TeamMember(name="one", agent="x", disallowed_tools=("Bash",), env={"A": "1"}, environment=("B=2",))
    options = member.agent_options(policy="ask")
    assert (options["disallowed_tools"], options["environment"], options["policy"]) == (
        ("Bash",),
        ("B=2", "A=1"),
        "ask",
    )


def test_members_that_work_at_the_same_time_need_directories_of_their_own(tmp_path: Path) -> None:
    text = GOOD.replace('cwd = "dev"\n', "").replace("[conversation]\n", "[conversation]\nparallel = 2\n")
    with pytest.raises(TeamFileError, match="developer and architect share a directory"):
        read_team(written(tmp_path, text))


def test_a_member_by_a_file_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "tester.toml"
    (tmp_path / "tester.md").write_text("You test.")
    path.write_text('name = "tester"\nagent = "codex"\ninstructions_file = "tester.md"\n')
    assert read_member(path) == TeamMember(name="tester", agent="codex", system="You test.", cwd=str(tmp_path))
    for text, words in (
        ('name = "tester"\nagnet = "codex"\n', f"{path}:2: agnet: unknown key"),
        ('name = "tester"\nagent = "codex"\n\npolicy = "lax"\n', f"{path}:4: policy: there is no policy lax"),
        ('agent = "codex"\nname = "tester"\ninstructions_file = "gone.md"\n', f"{path}:3: instructions_file: cannot"),
        ("name = ", f"{path}: "),
    ):
        path.write_text(text)
        with pytest.raises(TeamFileError) as refused:
            read_member(path)
        assert refused.value.message.startswith(words), refused.value.message


def test_who_joins_needs_a_name_and_a_directory_of_its_own() -> None:
    first, second = (TeamMember(name=name, agent="codex", cwd="/home/me") for name in ("one", "Two"))
    assert not list(check_addition((first,), second, parallel=1))
    assert [each.path for each in check_addition((first,), second, parallel=2)] == [("cwd",)]
    (mistake,) = check_addition((first, second), TeamMember(name="two", human=True), parallel=2)
    assert mistake.problem == "two is a member already"
    mistakes = check_addition((first,), TeamMember(name="two", agent="codex", reviews=("One", "bob")), parallel=1)
    assert [(each.path, each.problem.partition(",")[0]) for each in mistakes] == [
        (("reviews",), "one has no worktree"), (("reviews",), "no member is called bob"),
    ]  # fmt: skip
    many = tuple(TeamMember(name=f"m{number}", human=True) for number in range(MAX_MEMBERS))
    assert [each.problem for each in check_addition(many, first, parallel=1)] == ["a team has at most 32 members"]


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(TeamFileError, match="cannot read"):
        read_team(tmp_path / "team.toml")
    with pytest.raises(TeamFileError, match="cannot read"):
        read_team(tmp_path)


def test_the_schema_names_every_key() -> None:
    definitions = schema()["$defs"]
    assert set(definitions["TeamMember"]["properties"]) >= {"name", "agent", "human", "responds", "policy"}
    assert definitions["TeamMember"]["additionalProperties"] is False
