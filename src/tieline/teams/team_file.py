"""`team.toml`: the members of a team and the limits of their conversation.

name = "shop"

[[members]]
name = "architect"
agent = "claude-code"
instructions = "You design; you write no code."

[[members]]
name = "alice"
human = true
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..config_schema import Mistake, mistakes
from ..drivers.launch_extras import check_extras
from ..errors import UsageError
from ..policy import PRESETS, Policy, preset
from ..protocol.teams import CheckedTeamFile, Team, TeamFileMistake, TeamFileText, TeamMember
from ..safe_file_read import read_regular
from ..toml_key_lines import dotted, key_lines, line_of

MAX_FILE = 256 * 1024
MAX_INSTRUCTIONS = 100_000
MAX_MEMBERS = 32
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
OF_AGENTS = ("arguments", "env", "environment", "worktree", "allowed_tools", "disallowed_tools", "max_budget_usd")
NOT_NAMES = frozenset({"all", "tieline"})


class TeamFileError(UsageError):
    """Everything that is wrong in a team file, each with its line and key."""


def read_team(path: Path, cwd: Path | None = None) -> Team:
    """A team file, with its paths made absolute and its instruction files read. Directories of members count from
    `cwd`; without it, from the file's. Raises TeamFileError."""
    return parse_team(_file(path), path, cwd)


def read_member(path: Path) -> TeamMember:
    """A file with the keys of one member. Raises TeamFileError."""
    text = _file(path)
    content = _toml(text, path)
    problems = list(mistakes(content, TeamMember)) or list(check_member(msgspec.convert(content, TeamMember)))
    if not problems:
        (member,), unread = _with_instructions([content], path.parent, path.parent)
        if not unread:
            return msgspec.convert(member, TeamMember)
        problems = [each._replace(path=each.path[2:]) for each in unread]
    raise _refusal(problems, text, path)


def check_text(given: TeamFileText) -> CheckedTeamFile:
    """A team file that a person gives as text: the team, or all that is wrong. Files that it names are not read."""
    import tomllib  # only where there is a file

    try:
        content = tomllib.loads(given.text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+)", str(error))
        line = int(at[1]) if at else given.text.count("\n") + 1
        return CheckedTeamFile(mistakes=(TeamFileMistake(line=line, problem=str(error)),))
    except RecursionError:
        return CheckedTeamFile(mistakes=(TeamFileMistake(line=1, problem="it is nested too deeply"),))
    problems = _wrong(content) or list(_out_of_reach(content["members"], given.cwd))
    if problems:
        lines = key_lines(given.text)
        return CheckedTeamFile(
            mistakes=tuple(
                TeamFileMistake(
                    line=line_of(each.path, lines) or 1, key=dotted(each.path), problem=each.problem, hint=each.hint
                )
                for each in problems
            )
        )
    members, _ = _with_instructions(content["members"], Path(), Path(given.cwd))
    return CheckedTeamFile(team=msgspec.convert(content | {"members": members}, Team))


def parse_team(text: str, path: Path, cwd: Path | None = None) -> Team:
    content = _toml(text, path)
    problems = _wrong(content)
    if not problems:
        members, unread = _with_instructions(content["members"], path.parent, cwd or path.parent)
        if not unread:
            return msgspec.convert(content | {"members": members}, Team)
        problems = unread
    raise _refusal(problems, text, path)


def _wrong(content: dict[str, Any]) -> list[Mistake]:
    return list(mistakes(content, Team)) or list(check_team(msgspec.convert(content, Team)))


def _out_of_reach(members: list[dict[str, Any]], cwd: str) -> Iterator[Mistake]:
    """Mistakes in a team that came as text: it has no directory for relative paths and other files."""
    for index, member in enumerate(members):
        if member.get("instructions_file"):
            hint = "Write the text itself, as `instructions`."
            yield Mistake(("members", index, "instructions_file"), "the file is not at hand here", hint)
        folder = Path("" if member.get("node") else cwd, member.get("cwd", "."))
        if member.get("agent") and "\0" in str(folder):
            yield Mistake(("members", index, "cwd"), "it is not a path")
        elif member.get("agent") and not folder.is_absolute():
            yield Mistake(("members", index, "cwd"), f"{folder} is not an absolute path", "Give the whole path.")


def check_team(team: Team) -> Iterator[Mistake]:
    """What is wrong beyond the types; for a team file and for a team that a program sends."""
    if not team.name.strip():
        yield Mistake(("name",), "it is empty")
    if not 1 <= len(team.members) <= MAX_MEMBERS:
        yield Mistake(("members",), f"a team has 1 to {MAX_MEMBERS} members, this one {len(team.members)}")
    names: dict[str, int] = {}
    for index, member in enumerate(team.members):
        here = ("members", index)
        if (first := names.setdefault(member.name.casefold(), index)) != index:
            yield Mistake((*here, "name"), f"{member.name} is the name of member {first + 1} already")
        yield from check_member(member, here)
        yield from _check_reviews(member, team.members, here)
    if team.members and all(member.human or member.responds == "never" for member in team.members):
        yield Mistake(("members",), "no agent can speak", "Add a member with an agent.")
    limits = team.conversation
    for key, name in (("first", limits.first), ("fallback", limits.fallback), ("merge", limits.merge)):
        if name and name.casefold() not in names:
            yield Mistake(("conversation", key), f"no member is called {name}", _known(team.members))
    for key, name in (("first", limits.first), ("merge", limits.merge)):
        if name and (member := team.member(name)) and (member.human or member.responds == "never"):
            yield Mistake(("conversation", key), f"{name} is not an agent that speaks")
    if limits.parallel > 1:
        yield from _shared_directories(team.members)


def check_member(member: TeamMember, here: tuple[str | int, ...] = ()) -> Iterator[Mistake]:
    if not NAME.fullmatch(member.name) or member.name.casefold() in NOT_NAMES:
        yield Mistake((*here, "name"), "a name has 1 to 32 letters, digits, - or _, and is neither all nor tieline")
    kinds = [
        kind for kind, given in (("agent", member.agent), ("human", member.human), ("session", member.session)) if given
    ]
    if len(kinds) != 1:
        given_kinds = " and ".join(kinds) or "none of them"
        yield Mistake(here, f"a member has an agent, a session or is human; {member.name} has {given_kinds}")
    if member.system and member.instructions_file:
        yield Mistake((*here, "instructions_file"), "there are instructions already")
    if isinstance(member.policy, str) and member.policy not in PRESETS:
        yield Mistake((*here, "policy"), f"there is no policy {member.policy}", f"Presets: {', '.join(PRESETS)}.")
    elif member.agent:
        held = policy_of(member) != PRESETS["full"] and not member.accept_unenforced
        try:
            check_extras(member.agent, member.arguments, member.agent_options()["environment"], held=held)
        except UsageError as error:
            key = "env" if error.field == "environment" and member.env else error.field
            yield Mistake((*here, key), error.message, error.hint)
    else:
        for key in OF_AGENTS:
            if getattr(member, key):
                yield Mistake((*here, key), "it is for a member with an agent")
    if member.reviews and member.human:
        yield Mistake((*here, "reviews"), "it is for a member with an agent or a session")
    if member.worktree and member.node:
        yield Mistake((*here, "worktree"), "worktrees are made on the hub's own machine", "Leave `node` out.")


def policy_of(member: TeamMember) -> Policy:
    given = preset(member.policy) if isinstance(member.policy, str) else member.policy
    return given or Policy()


def check_addition(members: tuple[TeamMember, ...], member: TeamMember, *, parallel: int) -> Iterator[Mistake]:
    """What is wrong about a member that joins the others."""
    if len(members) >= MAX_MEMBERS:
        yield Mistake(("name",), f"a team has at most {MAX_MEMBERS} members")
    if any(each.name.casefold() == member.name.casefold() for each in members):
        yield Mistake(("name",), f"{member.name} is a member already")
    yield from check_member(member)
    yield from _check_reviews(member, (*members, member), ())
    if parallel > 1:
        for mistake in _shared_directories((*members, member)):
            if mistake.path[1] == len(members):
                yield Mistake(("cwd",), mistake.problem, "Give it a directory of its own.")


def schema() -> dict[str, Any]:
    """JSON Schema of the file, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Team)}


def _known(members: tuple[TeamMember, ...]) -> str:
    return f"Members: {', '.join(member.name for member in members)}."


def _check_reviews(
    member: TeamMember, members: tuple[TeamMember, ...], here: tuple[str | int, ...]
) -> Iterator[Mistake]:
    path = (*here, "reviews")
    for name in member.reviews:
        reviewed = next((each for each in members if each.name.casefold() == name.casefold()), None)
        if reviewed is None:
            yield Mistake(path, f"no member is called {name}", _known(members))
        elif reviewed.name.casefold() == member.name.casefold():
            yield Mistake(path, f"{name} is this member itself")
        elif not reviewed.worktree:
            hint = f"Give {reviewed.name} worktree = true."
            yield Mistake(path, f"{reviewed.name} has no worktree, so there is no diff of its own", hint)


def _shared_directories(members: tuple[TeamMember, ...]) -> Iterator[Mistake]:
    places: dict[tuple[str, str], str] = {}
    for index, member in enumerate(members):
        if (
            member.agent
            and not member.worktree
            and (first := places.setdefault((member.node, member.cwd), member.name)) != member.name
        ):
            problem = f"{member.name} and {first} share a directory, and parallel lets them work at the same time"
            hint = "Give each a directory or a worktree of its own, or set parallel = 1."
            yield Mistake(("members", index, "cwd"), problem, hint)


def _with_instructions(
    members: list[dict[str, Any]], folder: Path, cwd: Path
) -> tuple[list[dict[str, Any]], list[Mistake]]:
    whole: list[dict[str, Any]] = []
    problems: list[Mistake] = []
    for index, member in enumerate(members):
        changed = dict(member)
        if not (member.get("human") or member.get("session") or member.get("node")):
            changed["cwd"] = os.path.realpath(cwd / member.get("cwd", "."))  # `resolve` fails at a circle of links
        if file := changed.pop("instructions_file", ""):
            try:
                changed["instructions"] = _text(folder / file, MAX_INSTRUCTIONS)
            except (OSError, ValueError) as error:
                problems.append(Mistake(("members", index, "instructions_file"), f"cannot read {file}: {error}"))
        whole.append(changed)
    return whole, problems


def _file(path: Path) -> str:
    try:
        return _text(path, MAX_FILE)
    except (OSError, ValueError) as error:
        raise TeamFileError(f"cannot read {path}: {error}", field="file") from None


def _toml(text: str, path: Path) -> dict[str, Any]:
    import tomllib  # only where there is a file

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TeamFileError(f"{path}: {error}", field="file") from None


def _refusal(problems: list[Mistake], text: str, path: Path) -> TeamFileError:
    lines = key_lines(text)
    words = [
        f"{path}:{line_of(mistake.path, lines) or 1}: {dotted(mistake.path)}: {mistake.problem}" for mistake in problems
    ]
    return TeamFileError("\n".join(words), field=dotted(problems[0].path), hint=problems[0].hint)


def _text(path: Path, limit: int) -> str:
    data = read_regular(path, limit + 1)
    if len(data) > limit:
        raise ValueError(f"it has more than {limit:,} bytes")
    return data.decode()
