"""The verbs about schedules: schedule add, list, show, run, pause, resume, edit, remove."""

from typing import Annotated, Any, Literal

import typer

from .. import completion_values
from ..help import FamilyGroup, HelpCommand
from .options import (
    AGENT,
    OUTPUT,
    POLICY,
    SESSIONS_PANEL,
    Json,
    changes_an_agent,
    given,
    opens_an_agent,
    run_options,
)

WHEN = "When"
Overlap = Literal["skip", "queue"]
Missed = Literal["once", "never"]
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Its name, or enough of its id.",
        show_default=False,
        autocompletion=completion_values.schedules,
    ),
]
Zone = typer.Option(
    metavar="ZONE", help="Time zone, such as Europe/Berlin. Default: this machine's.", rich_help_panel=WHEN
)


@opens_an_agent(after="paused")
def add_schedule(
    when: Annotated[
        str,
        typer.Argument(
            metavar="CRON",
            help="Minute, hour, day of the month, month, weekday; or @hourly, @daily, @weekly, @monthly, @yearly. None "
            "with --once.",
            show_default=False,
        ),
    ],
    prompt: Annotated[
        str,
        typer.Argument(metavar="PROMPT", help="What it should do; `-` reads it from standard input."),
    ] = "",
    agent: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The agent to start. Default: the configured one.",
            autocompletion=completion_values.agents,
            rich_help_panel=AGENT,
        ),
    ] = "",
    cwd: Annotated[
        str,
        typer.Option(
            metavar="DIR",
            help="Where it works. Default: here; with --node, the home directory there.",
            rich_help_panel=AGENT,
        ),
    ] = "",
    node: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The machine to run on. Default: the hub's own.",
            autocompletion=completion_values.nodes,
            rich_help_panel=AGENT,
        ),
    ] = "",
    once: Annotated[
        str, typer.Option(metavar="TIME", help='One time, such as "2026-12-01 09:00".', rich_help_panel=WHEN)
    ] = "",
    zone: Annotated[str, Zone] = "",
    overlap: Annotated[
        Overlap,
        typer.Option(help="What becomes of a time at which the run before has not ended.", rich_help_panel=WHEN),
    ] = "skip",
    missed: Annotated[
        Missed,
        typer.Option(
            help="Whether one run makes up for times that passed while the hub or the machine was off.",
            rich_help_panel=WHEN,
        ),
    ] = "once",
    name: Annotated[str, typer.Option(metavar="NAME", help="Default: from the prompt's first words.")] = "",
    paused: Annotated[
        bool, typer.Option("--paused", help="Do not start it before `resume`.", rich_help_panel=WHEN)
    ] = False,
    worktree: Annotated[
        bool,
        typer.Option("--worktree", help="Each run works in a git worktree of its own.", rich_help_panel=AGENT),
    ] = False,
    branch: Annotated[
        str,
        typer.Option(metavar="NAME", help="How the runs' branches begin; implies --worktree.", rich_help_panel=AGENT),
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="JSON on stdout.", rich_help_panel=OUTPUT)] = False,
    **opening: Any,
) -> None:
    """Start an agent with a prompt at set times, each time in a session of its own. The hub does it, whether you are
    there or not."""
    cron, prompt = ("", when) if once and not prompt else (when, prompt)
    given = {**locals(), **opening}
    from ..commands.schedules import ScheduleOptions, add

    raise typer.Exit(
        add(
            ScheduleOptions(
                run=run_options(given),
                cron=cron,
                once=once,
                zone=zone,
                name=name,
                node=node,
                overlap=overlap,
                missed=missed,
                paused=paused,
            )
        )
    )


def list_schedules(json: Json = False) -> None:
    """List the schedules, with the next time and the outcome of the last run."""
    from ..commands.schedules import list_schedules

    raise typer.Exit(list_schedules(json=json))


def show(name: Name, json: Json = False) -> None:
    """Show one schedule: its next times, its rules, and the outcome of each run."""
    from ..commands.schedules import show

    raise typer.Exit(show(name, json=json))


def run(name: Name, json: Json = False) -> None:
    """Run it now, also while it is paused. Its times stay as they are."""
    from ..commands.schedules import run_now

    raise typer.Exit(run_now(name, json=json))


def pause(name: Name, json: Json = False) -> None:
    """Start nothing until it is resumed. A run that is under way goes on."""
    from ..commands.schedules import pause

    raise typer.Exit(pause(name, json=json))


def resume(name: Name, json: Json = False) -> None:
    """Resume with the next time. Times that passed meanwhile are skipped."""
    from ..commands.schedules import resume

    raise typer.Exit(resume(name, json=json))


@changes_an_agent(after="missed")
def edit(
    context: typer.Context,
    name: Name,
    cron: Annotated[
        str | None, typer.Option(metavar="CRON", help="Other times.", show_default=False, rich_help_panel=WHEN)
    ] = None,
    once: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="One time instead.", show_default=False, rich_help_panel=WHEN),
    ] = None,
    zone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Another time zone.", show_default=False, rich_help_panel=WHEN)
    ] = None,
    overlap: Annotated[
        Overlap | None,
        typer.Option(help="While the run before has not ended.", show_default=False, rich_help_panel=WHEN),
    ] = None,
    missed: Annotated[
        Missed | None,
        typer.Option(help="After times that were missed.", show_default=False, rich_help_panel=WHEN),
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Another prompt; `-` reads it from standard input.",
            show_default=False,
            rich_help_panel=AGENT,
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Another agent.",
            show_default=False,
            autocompletion=completion_values.agents,
            rich_help_panel=AGENT,
        ),
    ] = None,
    cwd: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Another directory to work in.", show_default=False, rich_help_panel=AGENT),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Another machine to run on.",
            show_default=False,
            autocompletion=completion_values.nodes,
            rich_help_panel=AGENT,
        ),
    ] = None,
    accept_unenforced: Annotated[
        bool | None,
        typer.Option(
            "--accept-unenforced/--no-accept-unenforced",
            help="Run although the agent cannot be held to the policy.",
            show_default=False,
            rich_help_panel=POLICY,
        ),
    ] = None,
    worktree: Annotated[
        bool | None,
        typer.Option(
            "--worktree/--no-worktree",
            help="Each run in a git worktree of its own, or in the directory.",
            show_default=False,
            rich_help_panel=AGENT,
        ),
    ] = None,
    branch: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How the branches of its worktrees begin; implies --worktree.",
            show_default=False,
            rich_help_panel=AGENT,
        ),
    ] = None,
    rename: Annotated[str | None, typer.Option(metavar="NAME", help="Another name.", show_default=False)] = None,
    json: Json = False,
    **opening: Any,
) -> None:
    """Change a schedule. Only what you name changes; an empty value, or a limit of 0, takes away what was set. Runs
    that have begun are not affected."""
    from ...protocol.schedules import ScheduleChange
    from ..commands.schedules import edit

    change = ScheduleChange(
        name=rename,
        cron=cron,
        once=once,
        zone=zone,
        overlap=overlap,
        missed=missed,
        agent=agent,
        cwd=cwd,
        node=node,
        accept_unenforced=accept_unenforced,
        worktree=worktree,
        branch=branch,
    )
    run = run_options({**opening, "agent": agent or "", "prompt": prompt or ""})
    named = given(context) & {*opening, "prompt"}
    raise typer.Exit(edit(name, change, run, named, json=json))


def remove(name: Name, json: Json = False) -> None:
    """Remove a schedule and its history. The sessions that it started stay."""
    from ..commands.schedules import remove

    raise typer.Exit(remove(name, json=json))


ABOUT = "Agents that start at set times: add, list, run, pause, edit, remove."
VERBS = {
    "add": (
        add_schedule,
        """tieline schedule add "0 9 * * 1-5" "triage the new issues" --agent codex
tieline schedule add @daily - --agent codex --name nightly < prompt.md
tieline schedule add --once "2026-12-01 09:00" "release 2.0" --zone UTC
tieline schedule add "*/30 * * * *" "is CI green?" --missed never""",
    ),
    "list": (list_schedules, "tieline schedule list\ntieline schedule --json | jq -r '.[].name'"),
    "show": (show, "tieline schedule show nightly"),
    "run": (run, "tieline schedule run nightly"),
    "pause": (pause, "tieline schedule pause nightly"),
    "resume": (resume, "tieline schedule resume nightly"),
    "edit": (
        edit,
        'tieline schedule edit nightly --cron "30 22 * * *"\ntieline schedule edit nightly --policy edits --worktree',
    ),
    "remove": (remove, "tieline schedule remove nightly"),
}


def add(app: typer.Typer) -> None:
    group = typer.Typer(cls=FamilyGroup, rich_markup_mode=None)
    first = "\n".join(examples.splitlines()[0] for _, examples in VERBS.values())
    app.add_typer(group, name="schedule", help=ABOUT, epilog=first, rich_help_panel=SESSIONS_PANEL)
    for verb, (function, examples) in VERBS.items():
        group.command(verb, cls=HelpCommand, epilog=examples)(function)
