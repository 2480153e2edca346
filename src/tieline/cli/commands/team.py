"""`tieline team`: start conversations of a team, follow them, and take part."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

import msgspec

from ... import config as configuration
from ...background_tasks import cancel_and_wait
from ...client.client import Client
from ...drivers import registry
from ...environment import variable
from ...errors import TielineError, UnknownAgent, UsageError, invalid_value
from ...ids import short_id
from ...protocol import teams as p
from ...teams.rehearsal import rehearsed
from ...teams.team_file import read_member, read_team, schema
from ...toml_key_lines import key_lines
from .. import hub_connection
from ..errors import FAILED, print_error
from ..team_view.entry_text import cost_text, event_note, failed, spoken, state_text
from ..team_view.typed_line import parse_typed_line
from ..terminal.formatting import counted, on_terminal, print_json, time_ago
from ..terminal.sanitize import clean, one_line
from ..terminal.tables import print_rows

WAIT_S = 20.0
PAGE = 500
STYLES = {"running": "green", "waiting": "yellow", "held": "yellow"}


def check(file: str, *, json: bool) -> int:
    team = read_team(Path(file))
    _check_agents(file, team)
    if json:
        print_json(team)
    else:
        people = sum(member.human for member in team.members)
        agents = len(team.members) - people
        print(f"{file} is valid: {team.name}, {counted(agents, 'agent')} and {counted(people, 'person', 'people')}.")
    return 0


def _check_agents(file: str, team: p.Team) -> None:
    """Of other machines nothing is known here."""
    known = [*registry.names(configuration.load()), *registry.ALIASES]
    for number, member in enumerate(team.members):
        if member.agent and not member.node and member.agent not in known:
            unknown = UnknownAgent(member.agent, known)
            key = f"members[{number}].agent"
            lines = key_lines(Path(file).read_text(encoding="utf-8"))
            where = configuration.file_and_line(file, ("members", number, "agent"), lines)
            raise UsageError(f"{where}: {key}: {unknown.message}", field=key, hint=unknown.hint)


def print_schema() -> int:
    print_json(schema())
    return 0


def run(file: str, task: str, *, cwd: str, rehearse: bool, detach: bool, speaker: str, plain: bool, json: bool) -> int:
    if cwd and not Path(cwd).is_dir():
        raise UsageError(f"{cwd} is not a directory", field="--cwd")
    team = read_team(Path(file), Path(cwd).resolve() if cwd else None)
    _check_speaker(speaker, [member.name for member in team.members if member.human])
    if rehearse:
        team = rehearsed(team, Path(file).parent)
    task = hub_connection.read_text(task)

    async def work(client: Client) -> int:
        view = await client.start_team(p.NewTeam(team=team, task=task))
        if detach:
            if json:
                print_json(view)
            else:
                print(f"{view.id}\n{team.name} works. `tieline team show {short_id(view.id)} --follow` follows it.")
            return 0
        return await _follow(client, view.id, speaker, plain=plain, json=json)

    return hub_connection.run_with_client(work)


def list_teams(*, json: bool) -> int:
    async def work(client: Client) -> int:
        records = await client.teams()
        if json:
            print_json(records)
            return 0
        print_rows(
            ("conversation", "team", "state", "rounds", "cost", "active", "task"),
            [
                (
                    short_id(record.id),
                    record.name,
                    (state_text(record), STYLES.get(record.status, "")),
                    f"{record.rounds} of {record.max_rounds}",
                    cost_text(record.cost_usd),
                    time_ago(record.active_at),
                    one_line(record.task, 60),
                )
                for record in records
            ],
            "No team has worked yet. `tieline team run FILE TASK` starts one.",
        )
        return 0

    return hub_connection.run_with_client(work)


def show(id: str, *, follow: bool, speaker: str, plain: bool, json: bool) -> int:
    async def work(client: Client) -> int:
        team = await _find(client, id)
        view = await client.team(team)
        if follow:
            _check_speaker(speaker, view.people)
            return await _follow(client, team, speaker, plain=plain, json=json)
        if json:
            print_json(view)
            return 0
        async with aclosing(_entries(client, team, follow=False)) as entries:
            async for each in entries:
                _print_entry(each.entry)
        _print_state(view)
        return 0

    return hub_connection.run_with_client(work)


def say(id: str, text: str, *, to: Sequence[str], member: str, json: bool) -> int:
    words = hub_connection.read_text(text)
    return _act(id, p.Speak(text=words, to=tuple(p.NextSpeaker(name) for name in to), member=member), json=json)


def hold(id: str, *, json: bool) -> int:
    return _act(id, p.Hold(), json=json)


def resume(id: str, *, rounds: int, cost: float, minutes: float, json: bool) -> int:
    return _act(id, p.Resume(more_rounds=rounds, more_cost_usd=cost, more_minutes=minutes), json=json)


def speak_next(id: str, names: Sequence[str], *, json: bool) -> int:
    return _act(id, p.Reorder(next=tuple(names)), json=json)


def remove(id: str, name: str, *, json: bool) -> int:
    return _act(id, p.RemoveMember(member=name), json=json)


def drop(id: str, names: Sequence[str], *, json: bool) -> int:
    return _act(id, p.Drop(members=tuple(names)), json=json)


def change_policy(id: str, name: str, policy: str, *, json: bool) -> int:
    return _act(id, p.ChangePolicy(member=name, policy=policy), json=json)


def add(id: str, member: p.TeamMember | None, file: str, *, json: bool) -> int:
    if (member is None) == (not file):
        raise UsageError("a member is given by its name, or by a file", field="name", hint="Give one of them.")
    return _act(id, p.AddMember(member=member or read_member(Path(file))), json=json)


def end(id: str, reason: str, *, json: bool) -> int:
    return _act(id, p.EndTeam(reason=reason), json=json)


def clean_worktrees(id: str, *, force: bool, json: bool) -> int:
    async def work(client: Client) -> int:
        done = await client.clean_team(await _find(client, id), p.CleanTeam(force=force))
        if json:
            print_json(done)
        for path in () if json else done.removed:
            print(f"removed {path}")
        for path, why in done.kept.items():
            print_error(f"kept {path}: {clean(why)}. `--force` removes it; what is committed stays on its branch.")
        if not json and not done.removed and not done.kept:
            print("There is no worktree of this conversation.")
        return FAILED if done.kept else 0

    return hub_connection.run_with_client(work)


def export(id: str, format: str) -> int:
    if format not in ("md", "json"):
        raise invalid_value("--format", format, accepted=("md", "json"))

    async def work(client: Client) -> int:
        team = await _find(client, id)
        async with aclosing(_entries(client, team, follow=False)) as stream:
            entries = [each async for each in stream]
        if format == "json":
            print_json(entries)
            return 0
        view = await client.team(team)
        print(f"# {view.name}\n\n{clean(view.task)}\n")
        for each in entries:
            if words := spoken(each.entry):
                print(f"## {one_line(words.name)}\n\n{clean(words.whole)}\n")
        print(f"_{state_text(view)}; {view.rounds} rounds, {cost_text(view.cost_usd) or 'cost unknown'}_")
        return 0

    return hub_connection.run_with_client(work)


# --- following ----------------------------------------------------------------------------------------------


def _check_speaker(speaker: str, people: Sequence[str]) -> None:
    if speaker and speaker not in people:
        known = f"Its people are {', '.join(people)}." if people else "It has none."
        raise UsageError(f"{speaker!r} is not a person of the team", field="--as", hint=known)


async def _follow(client: Client, team: str, speaker: str, *, plain: bool, json: bool) -> int:
    """In a view, until the person leaves it; without a terminal or with `plain` line by line, until its end."""
    if not (plain or json) and on_terminal() and sys.stdin.isatty() and sys.stderr.isatty():
        return await _open_view(client, team, speaker)
    return await _follow_lines(client, team, speaker, json=json)


async def _open_view(client: Client, team: str, speaker: str) -> int:
    from ..team_view.app import open_view  # Textual takes its time

    view = await open_view(client, team, speaker)
    if view is not None and view.status == "ended":
        _print_state(view)
        print(f"`tieline team show {short_id(team)}` shows what was said.")
        return _status(view)
    print(f"The team goes on at the hub. `tieline team show {short_id(team)} --follow` comes back to it.")
    return 0


async def _follow_lines(client: Client, team: str, speaker: str, *, json: bool) -> int:
    """On a terminal, what a person types is said in the conversation."""
    typing = asyncio.create_task(_take_part(client, team, speaker)) if sys.stdin.isatty() and not json else None
    asked: tuple[str, ...] = ()
    try:
        async with aclosing(_entries(client, team, follow=True)) as entries:
            async for each in entries:
                if json:
                    print(msgspec.json.encode(each).decode(), flush=True)  # an entry, a line
                    continue
                _print_entry(each.entry)
                waiting = (await client.team(team)).waiting_for
                if waiting and waiting != asked:
                    print(f"→ {', '.join(waiting)}: it is your turn{_how(team, typing is not None)}", flush=True)
                asked = waiting
    finally:
        if typing is not None:
            await cancel_and_wait(typing)
    view = await client.team(team)
    if not json:
        _print_state(view)
    return _status(view)


def _status(view: p.TeamView) -> int:
    return 0 if view.reason.startswith("done") else FAILED


def _how(team: str, typing: bool) -> str:
    return (
        "; type your answer (/hold /resume /next NAME /end)" if typing else f" (`tieline team say {short_id(team)} …`)"
    )


async def _entries(client: Client, team: str, *, follow: bool) -> AsyncGenerator[p.TeamEntry, None]:
    after = 0
    while True:
        page = await client.team_entries(team, after=after, limit=PAGE, wait_s=WAIT_S if follow else 0.0)
        for each in page.entries:
            after = each.seq
            yield each
        if not page.entries and (not follow or page.status == "ended"):
            return
        if page.entries and follow and isinstance(page.entries[-1].entry, p.TeamEnded):
            return


async def _take_part(client: Client, team: str, speaker: str) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while data := await reader.readline():
        if not (line := data.decode(errors="replace").strip()):
            continue
        try:
            await client.act_in_team(team, parse_typed_line(line, speaker))
        except TielineError as error:
            print_error(f"tieline: {error.message}. {error.hint}".strip())


# --- what is shown ------------------------------------------------------------------------------------------


def _print_entry(entry: p.AnyEntry) -> None:
    if words := spoken(entry):
        print(f"{_coloured(words.name)}\n{clean(words.whole)}\n", flush=True)
    elif isinstance(entry, p.TurnBegan) and on_terminal():
        print(f"· {entry.member} works (round {entry.turn})", flush=True)
    elif note := event_note(entry):
        print(f"! {note}\n" if failed(entry) else f"· {note}", flush=True)


def _coloured(name: str) -> str:
    if not on_terminal() or variable("NO_COLOR"):
        return f"{one_line(name, 60)}:"
    return f"\x1b[1;{31 + sum(name.encode()) % 6}m{one_line(name, 60)}\x1b[0m"


def _print_state(view: p.TeamView) -> None:
    queue = f"; next: {', '.join(speaker.name for speaker in view.queue)}" if view.queue else ""
    cost = f", {cost_text(view.cost_usd)}" if view.cost_usd else ""
    print(f"{state_text(view)} · {view.rounds} of {view.limits.max_rounds} rounds{cost}{queue}")
    for each in view.who:
        if each.worktree:
            print(f"{each.name} works in {each.worktree}{f' on {each.work.branch}' if each.work else ''}")


# --- asking the hub -----------------------------------------------------------------------------------------


async def _find(client: Client, given: str) -> str:
    teams = await client.teams()
    return hub_connection.pick("conversation", given, teams, lambda team: team.id, listed_by="tieline team list").id


def _act(id: str, action: p.AnyTeamAction, *, json: bool) -> int:
    async def work(client: Client) -> int:
        view = await client.act_in_team(await _find(client, id), action)
        if json:
            print_json(view)
        else:
            _print_state(view)
        return 0

    return hub_connection.run_with_client(work)
