"""`tieline attach`, `adopt` and `open --terminal`: sessions that people run in terminals of their own."""

import os
import shlex
import shutil
import textwrap
from pathlib import Path

from msgspec import Struct

from ... import environment
from ...client import Client
from ...errors import UsageError
from ...harnesses import registry
from ...harnesses.attach_consent import read_consent, switch
from ...ids import short_id
from ...sessions.records import AT_WORK, SessionRecord
from .. import hub_connection
from ..errors import print_error
from ..terminal.formatting import print_json, time_ago
from ..terminal.sanitize import clean, one_line


class AttachState(Struct, frozen=True, kw_only=True):
    """As `tieline attach --json` tells it."""

    harness: str
    since: float = 0.0  # 0: nobody agreed
    reads: str = ""
    can: str = ""
    cannot: str = ""


class AttachReport(Struct, frozen=True, kw_only=True):
    harnesses: tuple[AttachState, ...]
    off: tuple[str, ...] = ()
    here: bool = True  # whether sessions in this directory are read along, where their harness is


def show(*, json: bool) -> int:
    """What is read along, and what is not."""
    env = environment.inherited()
    consent = read_consent(env)
    known = [harness for harness in map(registry.create, registry.names()) if harness.attach_terms is not None]
    report = AttachReport(
        harnesses=tuple(
            AttachState(
                harness=each.name,
                since=consent.since.get(each.name, 0.0),
                reads=terms.reads,
                can=terms.can,
                cannot=terms.cannot,
            )
            for each in known
            if (terms := each.attach_terms) is not None
        ),
        off=consent.off,
        here=not consent.is_off(str(Path.cwd())),
    )
    if json:
        print_json(report)
        return 0
    width = shutil.get_terminal_size((100, 24)).columns
    for each in report.harnesses:  # no table: it would cut what a person agrees to
        print(f"{each.harness}: {f'agreed {time_ago(each.since)} ago' if each.since else 'not agreed'}")
        for line in (f"reads {each.reads}", f"from elsewhere you can {each.can}"):
            print(textwrap.fill(line, width, initial_indent="  ", subsequent_indent="    "))
    for folder in report.off:
        print(f"off in {clean(folder)}")
    if not any(each.since for each in report.harnesses):
        print("Agree with `tieline install --attach`.")
    return 0


def switch_here(folder: str, *, on: bool, json: bool) -> int:
    """In a directory and all below it."""
    env = environment.inherited()
    directory = Path(folder or ".").expanduser().absolute()
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory", field="directory", hint="Name the directory of a project.")
    switch(env, str(directory), on=on)
    consent = read_consent(env)
    read = bool(consent.since) and not consent.is_off(str(directory))
    if json:
        print_json({"directory": str(directory), "read": read})
    elif on and consent.is_off(str(directory)):
        print_error("tieline: a folder above it is off: `tieline attach` shows which")
    elif not consent.since:
        later = "will be read along" if on else "will not be read along either"
        print(
            f"Nothing is read along yet. After `tieline install --attach`, sessions in {clean(str(directory))} {later}."
        )
    else:
        print(f"sessions in {clean(str(directory))} are {'read along' if read else 'not read any more'}")
    return 0


def adopt(given: str, *, json: bool) -> int:
    async def work(client: Client) -> int:
        record = await hub_connection.find_session(client, given)
        if record.kind == "driven" and not record.adopted_at:
            raise UsageError(
                f"{short_id(record.id)} is a session that Tieline runs: there is nothing to take over",
                field="session",
                hint=f'`tieline send {short_id(record.id)} "…"` prompts it.',
            )
        return hub_connection.print_outcome(
            await client.adopt(record.id),
            lambda session: f'{short_id(session.id)} is yours from anywhere: tieline send {short_id(session.id)} "…"',
            json=json,
        )

    return hub_connection.run_with_client(work)


def open_in_terminal(given: str, *, print_only: bool, json: bool) -> int:
    """Go on with a session in its harness's own terminal: this process becomes the harness."""
    to_open: list[tuple[SessionRecord, tuple[str, ...]]] = []

    async def work(client: Client) -> int:
        record = await hub_connection.find_session(client, given)
        command = _resume_command(record)
        local = next((node for node in await client.nodes() if node.local), None)
        here = local is not None and local.id == record.node
        if record.kind == "attached" and record.status != "closed":
            raise UsageError("this session is open in a terminal already", field="session")
        if record.status in AT_WORK:
            raise UsageError(
                "a turn is running in this session", field="session", hint="Wait for its end, or `tieline abort` it."
            )
        if record.kind == "driven":
            await client.close_session(record.id)  # two writers would lose each other's messages
        if json:
            print_json({"session": record.id, "cwd": record.cwd, "command": command, "here": here})
        elif print_only or not here:
            print(clean(f"cd {shlex.quote(record.cwd)} && {shlex.join(command)}"))
            if not here:
                print_error("tieline: the session is on another machine; run this there")
        else:
            to_open.append((record, command))
        return 0

    status = hub_connection.run_with_client(work)
    for record, command in to_open:
        program = shutil.which(command[0])
        if program is None:
            raise UsageError(f"{command[0]} is not on PATH", field="agent", hint="Install it, or use --print.")
        os.chdir(record.cwd)
        os.execv(program, command)
    return status


def _resume_command(record: SessionRecord) -> tuple[str, ...]:
    known = {name: registry.create(name).resume_command for name in registry.names()}
    words = known.get(record.agent, ())
    if not words:
        able = ", ".join(name for name, command in known.items() if command)
        raise UsageError(
            f"{one_line(record.agent, 40)} has no terminal that resumes a session",
            field="agent",
            hint=f"It works for {able}.",
        )
    if not record.native_id:
        raise UsageError("this session has no conversation yet", field="session", hint="Prompt it first.")
    return (*words, record.native_id)


def agreement(name: str) -> str:
    """What a person agrees to, in one paragraph."""
    terms = registry.create(name).attach_terms
    if terms is None:
        return ""
    stays = f" Only at the terminal: {terms.cannot}." if terms.cannot else ""
    return (
        f"{name}: Tieline reads {terms.reads}, of sessions that begin from now on, and shows them like its own. "
        f"From elsewhere you can {terms.can}.{stays}"
    )
