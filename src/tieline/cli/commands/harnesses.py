"""`tieline install`, `uninstall` and `harnesses`: Tieline inside the programs in which people run agents."""

import difflib
import shutil
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import Struct, structs

from ... import config as configuration
from ...bootstrap.process_lock import read_running
from ...config import Config
from ...errors import TielineError, UsageError
from ...harnesses import installer, registry
from ...harnesses.attach_consent import ConsentUnreadable, agree, read_consent, withdraw
from ...harnesses.base import Detection, Harness, InstallOptions, OpenTerminal, Transport
from ...harnesses.installer import FileChange, FileState
from ..errors import FAILED, print_error
from ..terminal.formatting import print_json, short_path
from ..terminal.line_prompt import ask_line
from ..terminal.sanitize import clean, one_line
from ..terminal.tables import Cell, print_rows
from .terminal_sessions import agreement


class HarnessFileChange(Struct, frozen=True, kw_only=True):
    path: str
    what: str
    action: str


class OpenTerminalChange(Struct, frozen=True, kw_only=True):
    """A terminal that was open before and does not notice the change by itself."""

    pid: int
    cwd: str
    told: bool = False
    """Whether it was told to load what is installed, or to drop what is removed."""
    problem: str = ""
    """Why it has to be started again for that."""


class HarnessChange(Struct, frozen=True, kw_only=True):
    """One harness, as `tieline install --json` tells it."""

    harness: str
    changes: tuple[HarnessFileChange, ...] = ()
    applied: bool = False
    terminals: tuple[OpenTerminalChange, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str = ""


class HarnessReport(Struct, frozen=True, kw_only=True):
    """One harness, as `tieline harnesses --json` and `tieline status --json` tell it."""

    harness: str
    display_name: str
    found: bool
    program: str = ""
    version: str = ""
    tested: str = ""
    installed: str = "no"
    """`yes`, `partly` (or by another version of Tieline), `no`."""
    files: tuple[FileState, ...] = ()
    attached_at: float = 0.0
    """Since when its terminals are read along; 0: they are not."""
    reads: str = ""
    """What is read of them, if they are."""
    hint: str = ""


class InstallRequest(Struct, frozen=True, kw_only=True):
    names: tuple[str, ...]
    project: str = ""
    transport: Transport = "stdio"
    url: str = ""
    hooks: bool = False
    attach: bool = False
    dry_run: bool = False
    yes: bool = False
    json: bool = False


@dataclass(frozen=True, slots=True)
class HarnessPlan:
    harness: Harness
    changes: list[FileChange]
    terminals: Sequence[OpenTerminal] = ()
    applied: bool = False
    problem: str = ""

    @property
    def does_something(self) -> bool:
        return bool(self.changes) or any(not each.problem for each in self.terminals)


# --- installing ----------------------------------------------------------------------------------------------------


def install(request: InstallRequest) -> int:
    return _change(request, installing=True)


def uninstall(request: InstallRequest) -> int:
    return _change(request, installing=False)


def _change(request: InstallRequest, *, installing: bool) -> int:
    config = configuration.load()
    options = _options(config, request)
    plans = [_plan(each, options, installing) for each in _chosen(request.names, options, installing=installing)]
    attaching = [plan.harness.name for plan in plans if request.attach and plan.harness.attach_terms is not None]
    if request.attach and not attaching:
        known = ", ".join(name for name in registry.names() if registry.create(name).attach_terms is not None)
        raise UsageError("none of these can be read along", field="attach", hint=f"It works for {known}.")
    if not request.json:
        _show(plans, installing=installing, diff=request.dry_run)
        for name in attaching:
            print(clean(agreement(name)))
    shown = plans
    if not request.dry_run and (attaching or any(plan.does_something for plan in plans)):
        asked = attaching or not request.names
        if asked and not request.yes and not _agreed(installing):
            return FAILED
        plans = _apply_all(plans, options, installing)
        _record_consent(plans, attaching, config.environ, installing=installing)
        plans = [_with_terminals_reloaded(plan, options) for plan in plans]
    if request.json:
        print_json([_to_change(plan, options, installing) for plan in plans])
    else:
        changes = [_to_change(plan, options, installing) for plan in plans]
        _report(changes, shown, installing=installing, dry_run=request.dry_run)
    return FAILED if any(plan.problem for plan in plans) else 0


def _record_consent(
    plans: Sequence[HarnessPlan], attaching: Sequence[str], env: Mapping[str, str], *, installing: bool
) -> None:
    for plan in plans:
        if plan.problem:
            continue
        if not installing:
            withdraw(env, plan.harness.name)
        elif plan.harness.name in attaching:
            agree(env, plan.harness.name)


def _with_consent(harness: Harness, options: InstallOptions) -> InstallOptions:
    """What was agreed to before stays so when the integration is installed again."""
    attach = options.attach or _agreed_at(harness, options) > 0
    return structs.replace(options, attach=attach and harness.attach_terms is not None)


def _agreed_at(harness: Harness, options: InstallOptions) -> float:
    """0: nobody agreed that its terminals are read along."""
    try:
        return read_consent(options.env).since.get(harness.name, 0.0)
    except ConsentUnreadable:
        return 0.0


def _plan(harness: Harness, options: InstallOptions, installing: bool) -> HarnessPlan:
    options = _with_consent(harness, options)
    try:
        plan = installer.plan_install if installing else installer.plan_uninstall
        changes = plan(harness, options)
        concerned = installing or any(change.new is None for change in changes)
        terminals = harness.open_terminals(options, installing=installing) if concerned else []
        return HarnessPlan(harness, changes, terminals)
    except TielineError as error:
        return HarnessPlan(harness, [], problem=str(error))


def _with_terminals_reloaded(plan: HarnessPlan, options: InstallOptions) -> HarnessPlan:
    """Reloads the open terminals. Only after the consent is written: it decides which terminals may report."""
    return plan if plan.problem else replace(plan, terminals=plan.harness.reload(options, plan.terminals))


def _apply_all(plans: Sequence[HarnessPlan], options: InstallOptions, installing: bool) -> list[HarnessPlan]:
    """One after the other: several have their part in one file, such as a skill, and the next one's is after ours."""
    done: list[HarnessPlan] = []
    written: set[str] = set()
    for plan in plans:
        if not written.isdisjoint(change.path for change in plan.changes):
            plan = _plan(plan.harness, options, installing)
        done.append(_applied(plan, options.env))
        written |= {change.path for change in plan.changes}
    return done


def _applied(plan: HarnessPlan, env: Mapping[str, str]) -> HarnessPlan:
    if not plan.changes:
        return plan
    try:
        installer.apply(plan.changes, env)
    except TielineError as error:
        return replace(plan, problem=str(error))
    return replace(plan, applied=True)


def _to_change(plan: HarnessPlan, options: InstallOptions, installing: bool) -> HarnessChange:
    return HarnessChange(
        harness=plan.harness.name,
        changes=tuple(HarnessFileChange(path=each.path, what=each.what, action=each.action) for each in plan.changes),
        applied=plan.applied,
        terminals=tuple(
            OpenTerminalChange(pid=each.pid, cwd=each.cwd, told=each.told, problem=each.problem)
            for each in plan.terminals
        ),
        notes=tuple(plan.harness.notes(options)) if installing and not plan.problem else (),
        problem=plan.problem,
    )


def _options(config: Config, request: InstallRequest) -> InstallOptions:
    project = ""
    if request.project:
        folder = Path(request.project).expanduser().absolute()
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a directory", field="project", hint="Name the directory of a project.")
        project = str(folder)
    if request.url and request.transport != "http":
        raise UsageError("--url is for --transport http", field="url", hint="Add --transport http, or leave it out.")
    return InstallOptions(
        env=config.environ,
        program=_program(config.environ),
        python=sys.executable,
        project=project,
        transport=request.transport,
        url=(request.url or _own_url(config)).rstrip("/"),
        hooks=request.hooks,
        attach=request.attach,
    )


def _own_url(config: Config) -> str:
    running = read_running(config.environ)
    return running.url if running else f"http://127.0.0.1:{config.hub.port}"


def _program(env: Mapping[str, str]) -> str:
    beside = Path(sys.executable).with_name("tieline")
    program = str(beside) if beside.exists() else shutil.which("tieline", path=env.get("PATH", ""))
    if not program:
        raise TielineError("the program `tieline` was not found", hint="Install Tieline so that `tieline` is on PATH.")
    return str(Path(program).absolute())


def _chosen(names: Sequence[str], options: InstallOptions, *, installing: bool) -> list[Harness]:
    if names:
        return [registry.create(name) for name in dict.fromkeys(names)]
    every = [registry.create(name) for name in registry.names()]
    if installing:
        return [harness for harness in every if harness.detect(options.env, version=False).found]
    return [harness for harness in every if any(each.state != "missing" for each in _states(harness, options))]


def _show(plans: Sequence[HarnessPlan], *, installing: bool, diff: bool) -> None:
    rows = [
        (plan.harness.name, change.action, change.what, short_path(change.path))
        for plan in plans
        for change in plan.changes
    ]
    if rows:
        print_rows(("harness", "will", "what", "file"), rows)
    if diff:
        for plan in plans:
            for change in plan.changes:
                print(clean(_diff(change)))
    for plan in plans:
        _show_terminals(plan, installing=installing)


def _show_terminals(plan: HarnessPlan, *, installing: bool) -> None:
    if able := sum(not each.problem for each in plan.terminals):
        them = "1 open terminal" if able == 1 else f"{able} open terminals"
        verb = ("load" if installing else "drop") + ("s" if able == 1 else "")
        print(f"{plan.harness.name}: {them} {verb} it at once")
    for each in plan.terminals:
        if each.problem:
            print(_start_again(plan.harness.name, each.pid, each.cwd, each.problem))


def _start_again(harness: str, pid: int, cwd: str, problem: str) -> str:
    return clean(f"{harness}: the terminal in {short_path(cwd)} (process {pid}) has to be started again: {problem}.")


def _diff(change: FileChange) -> str:
    old, new = ((content or b"").decode(errors="replace").splitlines() for content in (change.old, change.new))
    return "\n".join(difflib.unified_diff(old, new, change.path, change.path, lineterm="", n=1))


def _agreed(installing: bool) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(
            "cannot ask for your consent without a terminal", field="yes", hint="Add --yes, or name the harnesses."
        )
    reply = ask_line(f"{'Install' if installing else 'Remove'} this? [y/N] ")
    return reply.strip().lower() in ("y", "yes")


def _report(changes: Sequence[HarnessChange], shown: Sequence[HarnessPlan], *, installing: bool, dry_run: bool) -> None:
    """`shown`: the plans that the person was shown before."""
    if not changes:
        print(
            "No harness was found here. `tieline harnesses` shows which ones are known."
            if installing
            else "Nothing is installed."
        )
    known = {each.pid for plan in shown for each in plan.terminals if each.problem}
    for each in changes:
        if each.problem:
            print_error(f"tieline: {each.harness}: {each.problem}")
        elif dry_run:
            print(f"{each.harness}: {len(each.changes)} files would change")
        elif each.applied:
            print(f"{each.harness}: {'installed' if installing else 'removed'}")
        else:
            print(f"{each.harness}: {'is installed already' if installing else 'is not installed'}")
        for terminal in each.terminals:
            if terminal.problem and terminal.pid not in known:
                print(_start_again(each.harness, terminal.pid, terminal.cwd, terminal.problem))
        for note in each.notes:
            print(f"  {clean(note)}")


# --- looking ---------------------------------------------------------------------------------------------------------


def show(names: Sequence[str], *, project: str, json: bool) -> int:
    """All known harnesses, or those that are named: found, version, installed."""
    config = configuration.load()
    options = _options(config, InstallRequest(names=(), project=project))
    reports = inspect(names or registry.names(), options, version=True)
    if json:
        print_json(reports)
        return 0
    rows: list[tuple[Cell, ...]] = [
        (each.harness, each.version or ("found" if each.found else "-"), each.installed, one_line(each.hint, 60))
        for each in reports
    ]
    print_rows(("harness", "version", "installed", ""), rows)
    return 0


def status(names: Sequence[str], *, json: bool) -> int:
    """The files of these harnesses. Exit status 1 when one of them is not installed."""
    reports = inspect(names, _options(configuration.load(), InstallRequest(names=())), version=True)
    if json:
        print_json(reports)
    else:
        files = [(each.harness, file) for each in reports for file in each.files]
        rows = [(harness, file.state, file.what, short_path(file.path)) for harness, file in files]
        print_rows(("harness", "state", "what", "file"), rows)
        for _, file in files:
            if file.problem:  # whole, which a row might not be
                print(clean(f"{short_path(file.path)}: {file.problem}"))
    return 0 if all(each.installed == "yes" for each in reports) else FAILED


def inspect_here(names: Sequence[str]) -> list[HarnessReport]:
    """The named harnesses, else those that are found or have something of ours."""
    reports = inspect(names or registry.names(), _options(configuration.load(), InstallRequest(names=())), version=True)
    return reports if names else [each for each in reports if each.found or each.installed != "no"]


def reinstall(harness: str, *, hooks: bool) -> HarnessChange:
    """Bring what is installed up to date."""
    config = configuration.load()
    options = _options(config, InstallRequest(names=(harness,), hooks=hooks))
    return _to_change(_applied(_plan(registry.create(harness), options, True), config.environ), options, True)


def found_here(config: Config) -> list[HarnessReport]:
    """The harnesses of this machine, without a start of any of them."""
    reports = inspect(registry.names(), _options(config, InstallRequest(names=())), version=False)
    return [each for each in reports if each.found]


def inspect(names: Sequence[str], options: InstallOptions, *, version: bool) -> list[HarnessReport]:
    harnesses = [registry.create(name) for name in dict.fromkeys(names)]

    def detect(harness: Harness) -> Detection:
        return harness.detect(options.env, version=version)

    with ThreadPoolExecutor(max_workers=4) as threads:
        detections = list(threads.map(detect, harnesses))
    return [_inspected(harness, each, options) for harness, each in zip(harnesses, detections, strict=True)]


def _inspected(harness: Harness, detection: Detection, options: InstallOptions) -> HarnessReport:
    files = _states(harness, options)
    there = [each.state for each in files]
    installed = "yes" if files and set(there) == {"installed"} else "no" if set(there) <= {"missing"} else "partly"
    attached_at = _agreed_at(harness, options)
    hint = f"tieline install {harness.name}" if detection.found and installed != "yes" else ""
    return HarnessReport(
        harness=harness.name,
        display_name=harness.display_name,
        found=detection.found,
        program=detection.program,
        version=detection.version,
        tested=harness.tested,
        installed=installed,
        files=tuple(files),
        attached_at=attached_at,
        reads=harness.attach_terms.reads if attached_at and harness.attach_terms is not None else "",
        hint=next((each.problem for each in files if each.problem), hint),
    )


def _states(harness: Harness, options: InstallOptions) -> list[FileState]:
    """With the transport that is installed, whichever it is."""
    options = _with_consent(harness, options)
    other: Transport = "http" if options.transport == "stdio" else "stdio"
    first = installer.look(harness, options)
    if all(each.state != "outdated" for each in first):
        return first
    second = installer.look(harness, structs.replace(options, transport=other))
    return second if all(each.state != "outdated" for each in second) else first
