"""`tieline channels`: what runs at the hub; `check`, which looks at the file alone; and `secret`."""

import base64
import os
import sys
from collections.abc import Sequence

from msgspec import Struct

from ... import config as configuration
from ... import paths
from ...channels.base import ChannelContext
from ...client.client import Client
from ...config import ChannelConfig, Config
from ...protocol.messages import ChannelTest, ChannelView, ReloadView
from .. import hub_connection
from ..errors import FAILED, USAGE, print_error
from ..terminal.formatting import print_json, time_ago
from ..terminal.line_prompt import ask_line
from ..terminal.sanitize import one_line
from ..terminal.tables import Cell, print_rows

STYLES = {
    "running": "green",
    "starting": "yellow",
    "failing": "yellow",
    "broken": "red",
    "untrusted": "red",
    "disabled": "dim",
}
SECRET_BYTES = 32
"""Of a webhook's secret; the specification has 24 to 64."""
TITLES = ("channel", "state", "address", "delivered", "failed", "source")


class ChannelCheck(Struct, frozen=True, kw_only=True):
    """One entry of the configuration, as `tieline channels check --json` tells it."""

    id: str
    good: bool
    problem: str = ""
    field: str = ""
    hint: str = ""


def show(*, json: bool) -> int:
    async def work(client: Client) -> int:
        channels = await client.channels()
        if json:
            print_json(channels)
        else:
            _table(channels)
        return 0

    return hub_connection.run_with_client(work)


def reload(*, yes: bool, json: bool) -> int:
    async def work(client: Client) -> int:
        looked = await client.reload_channels()
        view = (
            await client.reload_channels(trust=looked.waiting) if _confirm_trust(looked, yes=yes, json=json) else looked
        )
        if json:
            print_json(view)
        elif view.problem:
            print_error(f"tieline: nothing was changed: {view.problem}")
            if view.hint:
                print_error(f"  {view.hint}")
        else:
            lines = [
                f"{name}: {', '.join(ids)}"
                for name in ("started", "restarted", "stopped", "broken")
                if (ids := tuple(dict.fromkeys((*getattr(looked, name), *getattr(view, name)))))
            ]
            lines += [f"trusted from now on: {one_line(words, 1000)}" for words in view.trusted]
            lines += [f"not trusted: {one_line(words, 1000)}" for words in view.waiting]
            print("\n".join(lines) or "nothing has changed")
            for channel in view.channels:
                if channel.id in view.broken:
                    _problem(channel.problem, channel.hint)
            if view.waiting:
                print_error("  If you have read it, run `tieline channels reload` on a terminal, or with --yes.")
        return FAILED if view.problem or view.broken or view.waiting else 0

    return hub_connection.run_with_client(work)


def _confirm_trust(looked: ReloadView, *, yes: bool, json: bool) -> bool:
    """Whether the person agrees to what waits, having seen what it is."""
    if yes or not looked.waiting or json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return yes and bool(looked.waiting)
    print("New in the configuration. The hub will run it, or give it rights or secrets:")
    for words in looked.waiting:
        print(f"  {one_line(words, 1000)}")
    try:
        return ask_line("Have you read it, and trust it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def test(id: str, *, to: str, text: str, json: bool) -> int:
    async def work(client: Client) -> int:
        view = await client.test_channel(id, ChannelTest(to=to, text=text))
        message = view.message
        if json:
            print_json(view)
        elif view.delivered:
            print(f"delivered to {message.receipt.subject}")
        else:
            why = next((step.detail or step.reason for step in reversed(message.receipt.steps) if step.reason), "")
            print_error(
                f"tieline: not delivered to {message.receipt.subject}: {message.state}" + (f": {why}" if why else "")
            )
            print_error(f"  See `tieline message status {message.receipt.id}`.")
        return 0 if view.delivered else FAILED

    return hub_connection.run_with_client(work)


def check(*, json: bool) -> int:
    config = configuration.load()
    verdicts = [_check_channel(entry, config) for entry in config.channels]
    if json:
        print_json(verdicts)
    else:
        where = config.source or "the configuration (there is no file)"
        if not verdicts:
            print(f"{where} has no channels")
        for verdict in verdicts:
            print(f"{'✓' if verdict.good else '✗'} {verdict.id}" + ("" if verdict.good else f": {verdict.problem}"))
            if verdict.hint:
                print(f"    {verdict.hint}")
    return 0 if all(verdict.good for verdict in verdicts) else USAGE


def _check_channel(entry: ChannelConfig, config: Config) -> ChannelCheck:
    from ...relay.channel_plugins.loader import ChannelError, check

    twice = sum(other.id == entry.id for other in config.channels) > 1
    if twice:
        return ChannelCheck(id=entry.id, good=False, problem="several channels have this id", field="id")
    if not entry.enabled:
        return ChannelCheck(id=entry.id, good=True)
    around = ChannelContext(
        env=config.environ,
        state_dir=str(paths.state(config.environ) / "channels"),
        public_url=config.hub.public_url,
    )
    try:
        check(entry, around, source=config.source)
    except ChannelError as error:
        return ChannelCheck(id=entry.id, good=False, problem=error.message, field=error.field, hint=error.hint)
    return ChannelCheck(id=entry.id, good=True)


def _table(channels: Sequence[ChannelView]) -> None:
    rows: list[list[Cell]] = [
        [
            (channel.id, "bold"),
            (
                f"{channel.state}, circuit open" if channel.circuit == "open" else channel.state,
                STYLES.get(channel.state, ""),
            ),
            channel.prefix,
            str(channel.delivered),
            str(channel.failed),
            (channel.source, "dim"),
        ]
        for channel in channels
    ]
    print_rows(TITLES, rows, "No channels. See docs/channels.md for how to add one.")
    for channel in channels:
        if why := reason(channel):
            print(f"{channel.id} is {channel.state}: {one_line(why, 2000)}")
            if channel.hint:
                print(f"  {one_line(channel.hint, 2000)}")
        if details := ", ".join(f"{name} {value}" for name, value in channel.details.items() if name == "pairing"):
            print(f"{channel.id}: {details}")


def reason(channel: ChannelView) -> str:
    """Why it is in its state; empty where there is nothing to say."""
    if channel.problem:
        return channel.problem
    if channel.state == "disabled":
        return "the configuration says enabled = false"
    if channel.state == "starting":
        return "its code is being loaded; messages for it wait"
    if channel.last_error:
        return f"its last error, {time_ago(channel.last_error_at)} ago: {channel.last_error}"
    return ""


def secret(*, json: bool) -> int:
    made = f"whsec_{base64.b64encode(os.urandom(SECRET_BYTES)).decode()}"
    if json:
        print_json({"secret": made})
        return 0
    print(made)
    print_error("tieline: it is kept nowhere. Give it to the sender, and to the hub in a variable of its environment:")
    print_error('  secrets = ["env:CI_SECRET"]    in the [channels.config] of the webhook')
    return 0


def _problem(problem: str, hint: str) -> None:
    print_error(f"tieline: {problem}")
    if hint:
        print_error(f"  {hint}")
