"""`tieline team new`: asks who is in a team, and writes its file."""

import asyncio
import getpass
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from tomlkit import string

from ... import config as configuration
from ...drivers import registry
from ...errors import UsageError
from ...policy import PRESETS
from ...protocol.teams import TeamMember
from ...teams.team_file import MAX_MEMBERS, check_member, parse_team
from ..terminal.formatting import print_json
from ..terminal.line_prompt import ask_line
from ..terminal.sanitize import clean
from .agent_reports import probe_agents

PERSON = "person"
NO_MODEL = "scripted"
"""The agent that plays scripts is none to work with."""
STARTING_ROLES = {
    "architect": (
        "designs, writes no code",
        "You design and write no code. Hand over to the developer when the plan is clear, and say that the task is done"
        " when the reviewer agrees.",
        "ask",
    ),
    "developer": (
        "writes the code",
        "You write the code that the architect has designed, and run its tests. Hand over to the reviewer when"
        " they pass.",
        "edits",
    ),
    "reviewer": (
        "reviews what was written",
        "You review what the developer wrote and change nothing. Hand over to the developer with what must change,"
        " or to the architect when it is good.",
        "ask",
    ),
}
"""Role, instructions and policy of the members that are offered."""


class NewTeamFile(Struct, frozen=True, kw_only=True):
    """As `tieline team new --json` tells it."""

    file: str
    members: tuple[TeamMember, ...]


def new(file: str, *, yes: bool, force: bool, json: bool = False) -> int:
    path = Path(file)
    if path.exists() and not force:
        raise UsageError(f"{path} exists", field="FILE", hint="Name another file, or write over it with --force.")
    asks = not yes and not json and sys.stdin.isatty() and sys.stdout.isatty()
    if asks:
        print("Looking for agents …", flush=True)
    agents = _installed_agents()
    folder = path.absolute().parent.name
    if asks:
        name, task, members = _asked(agents, folder)
    else:
        name, task, members = folder or "team", "", starting_members(agents)
    text = team_text(name, task, members)
    team = parse_team(text, path.absolute())  # what is written is right
    try:
        with path.open("w" if force else "x", encoding="utf-8") as written:
            written.write(text)
    except FileExistsError:
        raise UsageError(f"{path} exists", field="FILE", hint="--force writes over it.") from None
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", field="FILE") from None
    if json:
        print_json(NewTeamFile(file=str(path.absolute()), members=tuple(members)))
        return 0
    words = "" if team.task else ' "what it shall do"'
    print(f"{path} is written: {', '.join(member.name for member in members)}. Change it as you like.")
    print(f"`tieline team check {path}` checks it, `tieline team run {path}{words}` starts it.")
    return 0


def _installed_agents() -> list[str]:
    config = configuration.load()
    names = [name for name in registry.names(config) if name != NO_MODEL]
    installed = [report.name for report in asyncio.run(probe_agents(names, config)) if report.found]
    if not installed:
        raise UsageError("no agent was found on this machine", field="agent", hint="`tieline agents` says why.")
    return installed


def starting_members(agents: Sequence[str]) -> list[TeamMember]:
    """An architect, a developer and a reviewer, on different agents as far as there are any, and the person."""
    members = [_starting_member(role, agents[index % len(agents)]) for index, role in enumerate(STARTING_ROLES)]
    return [*members, TeamMember(name=_own_name(), human=True)]


def _starting_member(name: str, agent: str) -> TeamMember:
    role, instructions, policy = STARTING_ROLES[name]
    return TeamMember(name=name, agent=agent, role=role, system=instructions, policy=policy)


def _own_name() -> str:
    try:
        name = re.sub(r"[^A-Za-z0-9_-]", "", getpass.getuser())
    except (OSError, KeyError):
        name = ""
    fits = name and not list(check_member(TeamMember(name=name, human=True)))
    return name if fits and name not in STARTING_ROLES else "me"


# --- asking -------------------------------------------------------------------------------------------------


def _asked(agents: Sequence[str], folder: str) -> tuple[str, str, list[TeamMember]]:
    print("Who is in the team? Enter takes what stands in [ ]; Ctrl-C leaves, and nothing is written.\n")
    name = _line("name of the team", folder or "team")
    task = _line("its task, when none is given (may be empty)")
    members: list[TeamMember] = []
    offered = [*STARTING_ROLES]
    while len(members) < MAX_MEMBERS:
        print(f"\nMember {len(members) + 1}")
        members.append(_asked_member(members, agents, next(iter(offered), "")))
        offered = [role for role in offered if role != members[-1].name]
        agent_speaks = any(member.agent for member in members)
        if agent_speaks and _line("another member?", "y" if len(members) < 3 else "n")[:1].lower() != "y":
            break
    if not any(member.human for member in members):
        print("\nYou are a member too, to be asked when nobody knows how to go on.")
        members.append(TeamMember(name=_line("your name", _own_name(), _name_problem(members)), human=True))
    return name, task, members


def _asked_member(members: Sequence[TeamMember], agents: Sequence[str], offered: str) -> TeamMember:
    name = _line("name", offered, _name_problem(members))
    role, instructions, policy = STARTING_ROLES.get(name, ("", "", "ask"))
    choices = [*agents, PERSON]
    print("  " + "  ".join(f"{number} {choice}" for number, choice in enumerate(choices, 1)))
    usual = agents[len(members) % len(agents)]
    agent = _chosen("agent", choices, usual)
    if agent == PERSON:
        return TeamMember(name=name, human=True, role=_line("role (may be empty)"))
    role = _line("role, in a few words", role)
    instructions = _line("instructions", instructions)
    return TeamMember(
        name=name, agent=agent, role=role, system=instructions, policy=_chosen("policy", [*PRESETS], policy)
    )


def _name_problem(members: Sequence[TeamMember]) -> Callable[[str], str]:
    def problem(name: str) -> str:
        if any(member.name.casefold() == name.casefold() for member in members):
            return f"{name} is the name of another member"
        return next((each.problem for each in check_member(TeamMember(name=name, human=True))), "")

    return problem


def _chosen(what: str, choices: Sequence[str], usual: str) -> str:
    def known(given: str) -> str:
        if given.isascii() and given.isdigit() and 1 <= int(given) <= len(choices):
            return choices[int(given) - 1]
        return given if given in choices else ""

    given = _line(what, usual, lambda given: "" if known(given) else f"it is one of: {', '.join(choices)}")
    return known(given)


def _line(what: str, usual: str = "", problem: Callable[[str], str] = lambda given: "") -> str:
    while True:
        try:
            given = clean(ask_line(f"  {what} [{usual}]: " if usual else f"  {what}: ")).strip() or usual
        except EOFError:
            raise UsageError("nothing was written", field="FILE", hint="--yes writes a file without asking.") from None
        if not (wrong := problem(given)):
            return given
        print(f"  {wrong}")


# --- the file -----------------------------------------------------------------------------------------------


def team_text(name: str, task: str, members: Sequence[TeamMember]) -> str:
    """A team file with comments."""
    lines = [
        "# A team of agents and people. `tieline team check` checks it, `tieline team schema` prints the schema.",
        f"name = {_quoted(name)}",
        "",
        "# Its task, when `tieline team run` is given none.",
        f"task = {_quoted(task)}" if task else '# task = "Keep the tests green."',
    ]
    for member in members:
        lines += ["", "[[members]]", f"name = {_quoted(member.name)}"]
        if member.human:
            lines.append("human = true")
        else:
            lines.append(f"agent = {_quoted(member.agent)}  # one of `tieline agents`")
        if member.role:
            lines.append(f"role = {_quoted(member.role)}  # the others are told")
        if member.system:
            lines.append(f"instructions = {_quoted(member.system)}")
        if member.agent:
            lines.append(f"policy = {_quoted(str(member.policy))}  # {', '.join(PRESETS)}")
            lines.append('# model = "…"  effort = "…"  cwd = "…"  max_turns = 10')
    lines += [
        "",
        "[conversation]",
        "max_rounds = 30  # turns of agents, in all",
        "# max_cost_usd = 5.0",
        "# max_minutes = 60",
        f"# first = {_quoted(next((member.name for member in members if member.agent), ''))}  # who speaks first",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return string(text).as_string()
