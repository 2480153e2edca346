"""`tieline changes`: a session's files that are not committed, and what becomes of them."""

import sys
from collections.abc import Awaitable, Callable, Sequence

from ...ask_parts import parts_text
from ...client.client import Client
from ...errors import UsageError
from ...protocol.views import CommandView
from ...sessions.git_actions import ChangedFile, ChangeOutcome, WorkingTree
from .. import hub_connection
from ..errors import print_error
from ..terminal.formatting import print_json
from ..terminal.line_prompt import ask_line
from ..terminal.sanitize import clean, one_line
from ..terminal.tables import print_rows

TITLES = ("staged", "not staged", "file")

ChangeReply = ChangeOutcome | CommandView
Act = Callable[[Client, str, str], Awaitable[ChangeReply]]
"""Does it in a session; with a digest, what the plan said."""


def show(given: str, *, json: bool) -> int:
    async def work(client: Client) -> int:
        record = await hub_connection.find_session(client, given)
        tree = await client.changes(record.id)
        if json:
            print_json(tree)
            return 0
        if not tree.top:
            raise UsageError(f"{record.cwd} is not in a git repository", field="session")
        print(clean(_summary(tree)))
        print_rows(TITLES, [_row(file) for file in tree.files], "Nothing has changed since the last commit.")
        if not tree.whole:
            print_error("tieline: there are more files")
        return 0

    return hub_connection.run_with_client(work)


def stage(given: str, paths: Sequence[str], *, staged: bool, json: bool) -> int:
    async def act(client: Client, session: str, digest: str) -> ChangeReply:
        return await (client.stage if staged else client.unstage)(session, await _paths(client, session, paths, staged))

    return _run(given, act, yes=False, json=json)


def commit(given: str, message: str, *, json: bool) -> int:
    text = hub_connection.read_text(message)
    return _run(given, lambda client, session, _: client.commit(session, text), yes=False, json=json)


def revert(given: str, paths: Sequence[str], *, yes: bool, json: bool) -> int:
    act: Act = lambda client, session, digest: client.revert(session, paths, digest=digest)  # noqa: E731
    return _run(given, act, yes=yes, json=json)


def discard(given: str, *, yes: bool, json: bool) -> int:
    return _run(given, lambda client, session, digest: client.discard(session, digest=digest), yes=yes, json=json)


def push(given: str, *, yes: bool, json: bool) -> int:
    return _run(given, lambda client, session, digest: client.push(session, digest=digest), yes=yes, json=json)


def pull_request(given: str, title: str, body: str, *, yes: bool, json: bool) -> int:
    text = hub_connection.read_text(body)
    act: Act = lambda client, session, digest: client.open_pull_request(session, title, text, digest=digest)  # noqa: E731
    return _run(given, act, yes=yes, json=json)


def _run(given: str, act: Act, *, yes: bool, json: bool) -> int:
    async def work(client: Client) -> int:
        session = (await hub_connection.find_session(client, given)).id
        outcome = await act(client, session, "")
        if isinstance(outcome, ChangeOutcome) and outcome.plan is not None:
            if not json:
                print(clean(f"{outcome.plan.title}\n{parts_text(outcome.plan.parts)}"))
            if not (yes or (not json and _agreed())):
                if json:
                    print_json(outcome)
                    return 0
                raise UsageError("nothing was done", field="yes", hint="Add --yes where nobody can be asked.")
            outcome = await act(client, session, outcome.plan.digest)
        return hub_connection.print_outcome(outcome, _done, json=json)

    return hub_connection.run_with_client(work)


def _agreed() -> bool:
    try:
        return sys.stdin.isatty() and ask_line("Do it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _done(outcome: ChangeOutcome) -> str:
    return clean(outcome.done + (f"\nget it back: {outcome.restore}" if outcome.restore else ""))


async def _paths(client: Client, session: str, paths: Sequence[str], staged: bool) -> Sequence[str]:
    """Those that are named; all that can be, when none is."""
    if paths:
        return paths
    tree = await client.changes(session)
    file_paths = [file.path for file in tree.files if not file.nested and (file.unstaged if staged else file.staged)]
    if not file_paths:
        raise UsageError("nothing is left to stage" if staged else "nothing is staged", field="paths")
    return file_paths


def _summary(tree: WorkingTree) -> str:
    parts = [tree.branch or "no branch", tree.commit[:10] or "no commit yet"]
    if tree.upstream:
        parts.append(f"{tree.upstream}: {tree.ahead or 0} ahead, {tree.behind or 0} behind")
    elif tree.remote:
        parts.append(f"not pushed to {tree.remote}")
    if tree.unfinished:
        parts.append(f"in the middle of {tree.unfinished}")
    if tree.skipped:
        parts.append(f"without the repository's {' and '.join(tree.skipped)}")
    return " · ".join(parts)


def _row(file: ChangedFile) -> tuple[str, str, str]:
    return (file.staged or "", file.unstaged or "", one_line(file.path, 1000))
