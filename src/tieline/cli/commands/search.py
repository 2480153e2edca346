"""`tieline search`: what was said, run, asked and sent, in all sessions and messages."""

from shutil import get_terminal_size
from typing import cast, get_args

from msgspec.structs import replace

from ...client.client import Client
from ...errors import invalid_value
from ...ids import short_id
from ...protocol.search import SearchHit, SearchKind, SessionHit
from .. import hub_connection
from ..errors import print_error
from ..moments import parse_moment
from ..terminal.formatting import on_terminal, print_json, print_words, time_ago
from ..terminal.sanitize import one_line

KINDS = get_args(SearchKind)
MAX_PAGE = 200
MAX_LINE = 300
INDENT = 4
FOUND, PLAIN, DIM = "\x1b[1;33m", "\x1b[0m", "\x1b[2m"


def search(
    words: list[str],
    *,
    agent: str,
    project: str,
    session: str,
    kind: str,
    since: str,
    until: str,
    limit: int,
    json: bool,
) -> int:
    if kind and kind not in KINDS:
        raise invalid_value("--kind", kind, accepted=KINDS)
    earliest, latest = parse_moment("since", since), parse_moment("until", until, end_of_day=True)

    async def work(client: Client) -> int:
        only = (await hub_connection.find_session(client, session)).id if session else ""
        hits: list[SearchHit] = []
        sessions: tuple[SessionHit, ...] = ()
        while True:
            results = await client.search(
                " ".join(words),
                agent=agent,
                project=project,
                session=only,
                kind=cast("SearchKind | None", kind or None),
                since=earliest,
                until=latest,
                before=hits[-1].id if hits else 0,
                limit=min(MAX_PAGE, limit - len(hits)),
            )
            sessions = sessions or results.sessions
            hits += results.hits
            if not results.hits or not results.more or len(hits) >= limit:
                break
        columns = get_terminal_size().columns if on_terminal() else None
        if json:
            print_json(replace(results, hits=tuple(hits), sessions=sessions))
        else:
            for match in sessions:
                print(f"{short_id(match.session)}  {match.agent}  session  {one_line(match.title or match.cwd, 60)}")
            for hit in hits:
                *heading, text = lines(hit, colours=on_terminal(), width=columns)
                print("\n".join(heading))
                print_words(text, INDENT)
            if results.more:
                print_error(f"tieline: there is more: --limit {limit * 4}, or other words")
        if results.indexed < 1:
            print_error(
                f"tieline: the index is being built ({results.indexed:.0%}); more will be found when it is whole"
            )
        return 0 if hits or sessions else 1

    return hub_connection.run_with_client(work)


def lines(hit: SearchHit, *, colours: bool, width: int | None = None) -> list[str]:
    """A hit: where it stands and how to get there (on a narrow terminal in another line), then the words."""
    dim, plain = (DIM, PLAIN) if colours else ("", "")
    if hit.session:
        heading = f"{short_id(hit.session)}  {hit.agent}  {hit.kind}  {one_line(hit.title, 50)}".rstrip()
        way = f"tieline tail {short_id(hit.session)} --at {hit.seq}"
    else:
        heading, way = f"{short_id(hit.message)}  message", f"tieline message show {short_id(hit.message)}"
    text, room = "", MAX_LINE
    for part in hit.snippet:
        if part.text.isspace():
            text += " "
            continue
        shown = one_line(part.text, room) if room > 0 else ""
        # `one_line` takes the space away that stands between two words.
        gap = " " if part.text[:1].isspace() and text and shown else ""
        end = " " if part.text[-1:].isspace() and shown else ""
        text += gap + (f"{FOUND}{shown}{PLAIN}" if part.match and colours else shown) + end
        room -= len(shown)
    heading, indent = f"{heading}  {dim}{time_ago(hit.at)} ago", " " * INDENT
    fits = width is None or len(heading) - len(dim) + 2 + len(way) <= width
    ways = [f"{heading}  {way}{plain}"] if fits else [f"{heading}{plain}", f"{indent}{dim}{way}{plain}"]
    return [*ways, f"{indent}{text.strip()}"]
