"""An agent that runs as another user than Tieline: `run_as` in its configuration.

Only root can start a program as somebody else. The reaper does it, last before the program begins; here is what that
user's environment is, and what is refused before anything starts.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress

from msgspec import Struct
from msgspec.structs import replace

from ..errors import UsageError
from ..policy import Policy, Receipt, run_as
from ..processes import process_table
from .base import AskFn, Conversation, Driver, Features, Probe, Spec

NODE_HINT = "Leave run_as out, and run a node as that user: docs/nodes.md."
PERSONAL_PREFIXES = ("XDG_", "SUDO_", "TIELINE_")
"""Variables that name places of the user who runs Tieline."""


class Account(Struct, frozen=True):
    name: str
    home: str
    shell: str


def look_up_account(agent: str, name: str) -> Account:
    """The account that an agent shall run as. Raises UsageError if an agent cannot run as that user."""
    field = f"agents.{agent}.run_as"
    if sys.platform != "linux":
        raise UsageError(f"{field} is for Linux", field=field, hint=NODE_HINT)
    if os.geteuid() != 0:
        raise UsageError(f"{field}: only root can run an agent as {name!r}", field=field, hint=NODE_HINT)
    import pwd

    try:
        account = pwd.getpwnam(name)
    except (KeyError, ValueError):
        hint = "Name a user of this machine, or make one (useradd)."
        raise UsageError(f"{field}: there is no user {name!r}", field=field, hint=hint) from None
    if account.pw_uid == 0:
        hint = "Name a user who is not root, or leave run_as out."
        raise UsageError(f"{field}: {name!r} is root, who runs Tieline: that limits nothing", field=field, hint=hint)
    return Account(account.pw_name, account.pw_dir, account.pw_shell)


class RunAsDriver:
    """A driver whose agent is started as another user."""

    def __init__(self, driver: Driver, account: Account) -> None:
        self.driver = driver
        self._account = account
        self.name = driver.name
        self.tested = driver.tested
        self.floor = driver.floor

    @property
    def features(self) -> Features:
        """As the driver's own, but not kept ready: that goes by the files in our home, not by those in that user's."""
        return replace(self.driver.features, warm=False)

    @property
    def user(self) -> str:
        return self._account.name

    async def probe(self, env: Mapping[str, str]) -> Probe:
        return await self.driver.probe(self._account_env(env))  # a program of that user's is not for root to try

    def enforce(self, policy: Policy) -> Receipt:
        return run_as(self.driver.enforce(policy), self.user)

    def open(self, spec: Spec, ask: AskFn) -> AbstractAsyncContextManager[Conversation]:
        return self.driver.open(replace(spec, env=self._account_env(spec.env)), ask)

    def _account_env(self, env: Mapping[str, str]) -> dict[str, str]:
        whose = self._account
        kept = {name: value for name, value in env.items() if not name.startswith(PERSONAL_PREFIXES)}
        theirs = {"HOME": whose.home, "USER": whose.name, "LOGNAME": whose.name, "SHELL": whose.shell}
        return {**kept, **theirs, process_table.RUN_AS: whose.name}


def with_run_as(driver: Driver, receipt: Receipt) -> Receipt:
    """A conversation's receipt, with who runs it."""
    return run_as(receipt, driver.user) if isinstance(driver, RunAsDriver) else receipt


def chown_to_run_as(env: Mapping[str, str], *paths: str) -> None:
    """Give these files, which we made for an agent, to the user that the agent runs as, if it has one."""
    if name := env.get(process_table.RUN_AS):
        import pwd

        with suppress(KeyError):  # the launch will say so
            account = pwd.getpwnam(name)
            for path in paths:
                os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
