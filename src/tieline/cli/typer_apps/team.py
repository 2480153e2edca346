"""`tieline team …`, as Typer declares it."""

from typing import Annotated

import typer

from ..help import add_family
from .options import SESSIONS_PANEL, Json

File = Annotated[str, typer.Argument(metavar="FILE", help="The team file.", show_default=False)]
PlainOutput = Annotated[bool, typer.Option("--plain", help="Print line by line, also on a terminal.")]
As = Annotated[str, typer.Option("--as", metavar="NAME", help="The person of the team you speak as.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="The conversation, or a part of its id.", show_default=False)]


def team_new(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write.")] = "team.toml",
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: a starting team of the agents found here.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON on stdout; it asks nothing.")] = False,
) -> None:
    """Ask who is in a team, and write its file. Without a terminal: a starting team."""
    from ..commands.team_new import new

    raise typer.Exit(new(file, yes=yes, force=force, json=json))


def team_check(file: File, json: Json = False) -> None:
    """Say what is wrong in a team file, with line and key."""
    from ..commands.team import check

    raise typer.Exit(check(file, json=json))


def team_schema() -> None:
    """Print the JSON Schema of team files, for editors."""
    from ..commands.team import print_schema

    raise typer.Exit(print_schema())


def team_run(
    file: File,
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="What the team should do; `-` reads standard input.")
    ] = "",
    cwd: Annotated[
        str,
        typer.Option(
            "--cwd",
            "-C",
            metavar="DIR",
            help="Members' directories are relative to this one. Default: the team file's.",
        ),
    ] = "",
    rehearse: Annotated[
        bool, typer.Option("--rehearse", help="Agents play the scripts in `rehearsal/`, and no model is asked.")
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Start it and return; it goes on at the hub.")] = False,
    speaker: As = "",
    plain: PlainOutput = False,
    json: Json = False,
) -> None:
    """Give a team its task and follow the conversation; people of the team answer here."""
    from ..commands.team import run

    raise typer.Exit(
        run(file, task, cwd=cwd, rehearse=rehearse, detach=detach, speaker=speaker, plain=plain, json=json)
    )


def team_list(json: Json = False) -> None:
    """List the conversations, the last active first."""
    from ..commands.team import list_teams

    raise typer.Exit(list_teams(json=json))


def team_show(
    id: Id,
    follow: Annotated[bool, typer.Option("--follow", help="Keep following it, and take part.")] = False,
    speaker: As = "",
    plain: PlainOutput = False,
    json: Json = False,
) -> None:
    """Show a conversation: what was said, who speaks, who is next, what it cost."""
    from ..commands.team import show

    raise typer.Exit(show(id, follow=follow, speaker=speaker, plain=plain, json=json))


def team_say(
    id: Id,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What you say; `-` reads standard input.")],
    to: Annotated[list[str] | None, typer.Option("--to", metavar="NAME", help="Who should answer.")] = None,
    member: As = "",
    json: Json = False,
) -> None:
    """Say something, at any time."""
    from ..commands.team import say

    raise typer.Exit(say(id, text, to=to or [], member=member, json=json))


def team_hold(id: Id, json: Json = False) -> None:
    """Start no further turns. The running turn ends first."""
    from ..commands.team import hold

    raise typer.Exit(hold(id, json=json))


def team_resume(
    id: Id,
    rounds: Annotated[int, typer.Option(metavar="N", help="Allow this many more rounds.")] = 0,
    cost: Annotated[float, typer.Option(metavar="USD", help="Allow this much more cost.")] = 0.0,
    minutes: Annotated[float, typer.Option(metavar="N", help="Allow this many more minutes.")] = 0.0,
    json: Json = False,
) -> None:
    """Go on, after a hold or an end."""
    from ..commands.team import resume

    raise typer.Exit(resume(id, rounds=rounds, cost=cost, minutes=minutes, json=json))


def team_next(
    id: Id,
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Who speaks next, in this order.")],
    json: Json = False,
) -> None:
    """Decide who speaks next."""
    from ..commands.team import speak_next

    raise typer.Exit(speak_next(id, names, json=json))


def team_remove(
    id: Id, name: Annotated[str, typer.Argument(metavar="NAME", help="The member.")], json: Json = False
) -> None:
    """Take a member out of the team. Its running turn is ended."""
    from ..commands.team import remove

    raise typer.Exit(remove(id, name, json=json))


def team_add(
    id: Id,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name that the others use.")] = "",
    agent: Annotated[str, typer.Option(metavar="AGENT", help="Its agent: see `tieline agents`.")] = "",
    human: Annotated[bool, typer.Option("--human", help="The member is a person.")] = False,
    session: Annotated[str, typer.Option(metavar="ID", help="A session that exists, such as a terminal's.")] = "",
    role: Annotated[str, typer.Option(metavar="TEXT", help="What it does; the others are told.")] = "",
    instructions: Annotated[str, typer.Option(metavar="TEXT", help="Its system instruction.")] = "",
    cwd: Annotated[str, typer.Option(metavar="DIR", help="The directory it works in.")] = ".",
    model: Annotated[str, typer.Option(metavar="NAME", help="Its model.")] = "",
    policy: Annotated[str, typer.Option(metavar="NAME", help="read-only, ask, edits or full.")] = "ask",
    file: Annotated[str, typer.Option(metavar="FILE", help="A TOML file with the keys of one member instead.")] = "",
    json: Json = False,
) -> None:
    """Add a member. It is told what is said from here on."""
    from pathlib import Path

    from ...protocol.teams import TeamMember
    from ..commands.team import add

    member = None
    if name:
        member = TeamMember(
            name=name,
            agent=agent,
            human=human,
            session=session,
            role=role,
            system=instructions,
            cwd=str(Path(cwd).resolve()),
            model=model,
            policy=policy if agent else None,
        )
    raise typer.Exit(add(id, member, file, json=json))


def team_drop(
    id: Id,
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Members to take from the queue.")],
    json: Json = False,
) -> None:
    """Take members from the queue. They stay in the team."""
    from ..commands.team import drop

    raise typer.Exit(drop(id, names, json=json))


def team_policy(
    id: Id,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The member.")],
    policy: Annotated[str, typer.Argument(metavar="PRESET", help="read-only, ask, edits or full.")],
    json: Json = False,
) -> None:
    """Hold a member to another policy from its next turn."""
    from ..commands.team import change_policy

    raise typer.Exit(change_policy(id, name, policy, json=json))


def team_end(
    id: Id,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why.")] = "",
    json: Json = False,
) -> None:
    """End a conversation. Running turns are ended."""
    from ..commands.team import end

    raise typer.Exit(end(id, reason, json=json))


def team_clean(
    id: Id,
    force: Annotated[
        bool, typer.Option("--force", help="Also where something is not merged, or not committed.")
    ] = False,
    json: Json = False,
) -> None:
    """Remove the worktrees of a conversation that has ended. What is committed stays on its branch."""
    from ..commands.team import clean_worktrees

    raise typer.Exit(clean_worktrees(id, force=force, json=json))


def team_export(
    id: Id,
    format: Annotated[str, typer.Option(metavar="md|json", help="Markdown, or JSON.")] = "md",
) -> None:
    """The whole conversation, on standard output."""
    from ..commands.team import export

    raise typer.Exit(export(id, format))


ABOUT = "Teams: several agents and people in one routed conversation."
VERBS = {
    "run": (
        team_run,
        'tieline team run team.toml "build the shop"\ntieline team run team.toml --rehearse\n'
        "tieline team run team.toml --detach --json",
    ),
    "new": (team_new, "tieline team new\ntieline team new shop.toml --yes"),
    "check": (team_check, "tieline team check team.toml"),
    "schema": (team_schema, "tieline team schema > team.schema.json"),
    "list": (team_list, "tieline team list\ntieline team list --json | jq -r '.[].id'"),
    "show": (team_show, "tieline team show 0199a2…\ntieline team show 0199a2… --follow"),
    "say": (team_say, 'tieline team say 0199a2… "use blue" --to developer'),
    "hold": (team_hold, "tieline team hold 0199a2…"),
    "resume": (team_resume, "tieline team resume 0199a2…\ntieline team resume 0199a2… --rounds 10"),
    "next": (team_next, "tieline team next 0199a2… reviewer developer"),
    "drop": (team_drop, "tieline team drop 0199a2… reviewer"),
    "add": (
        team_add,
        "tieline team add 0199a2… tester --agent codex --policy edits\ntieline team add 0199a2… --file tester.toml",
    ),
    "policy": (team_policy, "tieline team policy 0199a2… developer read-only"),
    "remove": (team_remove, "tieline team remove 0199a2… developer"),
    "end": (team_end, 'tieline team end 0199a2… --reason "good enough"'),
    "clean": (team_clean, "tieline team clean 0199a2…\ntieline team clean 0199a2… --force"),
    "export": (team_export, "tieline team export 0199a2… > conversation.md"),
}


def add(app: typer.Typer) -> None:
    add_family(app, "team", ABOUT, VERBS, panel=SESSIONS_PANEL)
