"""Tieline as a service of its user, so that it is there after a reboot: systemd on Linux, launchd on macOS."""

import os
import plistlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from ... import paths
from ...errors import TielineError

WAIT_S = 60.0
"""For one command of the service manager; ending an agent takes its time."""
STOP_S = 45
"""Longer than `tieline down` waits before it kills."""
PASSED_ON = ("PATH", "TIELINE_HOME", "TIELINE_CONFIG", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "LANG")
"""What the service has of the environment of whoever installs it: where programs and files are, and no key."""


class ServiceError(TielineError):
    pass


class ServiceState(Struct, frozen=True, kw_only=True):
    """As `tieline service status --json` tells it."""

    installed: bool
    running: bool = False
    enabled: bool = False  # it starts by itself
    at_boot: bool = False  # also before its user signs in
    what: str = ""  # hub or node
    state: str = ""  # in the service manager's own word
    file: str = ""


class ServiceManager(Protocol):
    file: Path
    log: str  # the command that shows the log

    def definition(self, *, node: bool) -> str: ...
    def check(self) -> None:
        """Raises ServiceError where there is no service manager for this user."""
        ...

    def install(self, *, node: bool) -> None: ...
    def uninstall(self) -> None: ...
    def state(self) -> ServiceState: ...


def service_manager(env: Mapping[str, str]) -> ServiceManager:
    return Launchd(env) if sys.platform == "darwin" else Systemd(env)


def command(*, node: bool) -> list[str]:
    """What the service runs. -P: what lies in the working directory is not ours to import."""
    return [sys.executable, "-P", "-m", "tieline", "service", "run", *(["--node"] if node else [])]


def check_lasting() -> None:
    """A program in a cache is gone some day, and the service with it."""
    if any((folder / "CACHEDIR.TAG").exists() for folder in Path(sys.prefix).resolve().parents):  # as with `uvx`
        raise ServiceError(
            "this Tieline runs from a cache, which does not last",
            hint="Install it first: `uv tool install …whl`, then `tieline service install`.",
        )


def _passed_on(env: Mapping[str, str]) -> dict[str, str]:
    passed_on = {name: env[name] for name in PASSED_ON if env.get(name)}
    for name, value in passed_on.items():
        if any(ord(character) < 32 for character in value):
            raise ServiceError(f"${name} holds a control character", hint="Set it again, then install.")
    return passed_on


def _run(env: Mapping[str, str], *argv: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(argv, env=dict(env), capture_output=True, text=True, timeout=WAIT_S, errors="replace")
    except subprocess.TimeoutExpired:
        raise ServiceError(f"`{shlex.join(argv)}` did not end within {WAIT_S:g} s") from None
    except OSError as error:
        raise ServiceError(f"`{shlex.join(argv)}` does not run: {error.strerror}") from None


def _check_call(env: Mapping[str, str], *argv: str, hint: str) -> None:
    done = _run(env, *argv)
    if done.returncode:
        output = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
        raise ServiceError(f"`{shlex.join(argv)}` failed: {output}", hint=hint)


def _write(file: Path, text: str) -> str | None:
    """Whole or not at all; what was there before."""
    former = file.read_text() if file.exists() else None
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{os.getpid()}")
    part.write_text(text)
    part.replace(file)
    return former


def _restore(file: Path, former: str | None) -> None:
    if former is None:
        file.unlink(missing_ok=True)
    else:
        _write(file, former)


# --- systemd ----------------------------------------------------------------------------------------------


class Systemd:
    """A unit of the user's own systemd."""

    unit = "tieline.service"
    log = f"journalctl --user -u {unit} -f"

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        config = Path(env.get("XDG_CONFIG_HOME") or f"{env.get('HOME', '')}/.config")
        self.file = config / "systemd/user" / self.unit
        self._keys = config / "tieline/service.env"

    def definition(self, *, node: bool) -> str:
        variables = "\n".join(
            f"Environment={_quoted(f'{name}={value}')}" for name, value in _passed_on(self._env).items()
        )
        run = " ".join(_quoted(word).replace("$", "$$") for word in command(node=node))
        return f"""\
[Unit]
Description=Tieline {"node" if node else "hub"}, a switchboard for coding agents

[Service]
Type=exec
ExecStart={run}
{variables}
# Keys of agents, one NAME=value a line, if there are any (mode 0600):
EnvironmentFile=-{_specifiers(str(self._keys))}
WorkingDirectory=/
Restart=on-failure
RestartSec=5
# Bad usage does not get better by itself.
RestartPreventExitStatus=2
# The hub ends its agents itself; what is left then is killed.
KillMode=mixed
TimeoutStopSec={STOP_S}

[Install]
WantedBy=default.target
"""

    def check(self) -> None:
        instead = (
            "Start it by what starts programs here (an init script, `@reboot` in your crontab): "
            f"{shlex.join(command(node=False))}"
        )
        if not shutil.which("systemctl", path=self._env.get("PATH")):
            raise ServiceError("there is no systemd here (no `systemctl` on PATH)", hint=instead)
        done = _run(self._env, "systemctl", "--user", "show-environment")
        if done.returncode:
            raise ServiceError(
                f"systemd does not run for this user: {done.stderr.strip()}",
                hint=f"Sign in as this user (not by su), or `loginctl enable-linger` has it run always. Or: {instead}",
            )

    def install(self, *, node: bool) -> None:
        was_active = self._ask("is-active") == "active"
        former = _write(self.file, self.definition(node=node))
        hint = f"The unit was taken back. See `journalctl --user -u {self.unit}`."
        try:
            self._do("daemon-reload", hint=hint)
            self._do("enable", "--now", self.unit, hint=hint)
            if was_active:  # it runs what it was before
                self._do("restart", self.unit, hint=hint)
        except ServiceError:
            if former is None:
                _run(self._env, "systemctl", "--user", "disable", "--now", self.unit)
            _restore(self.file, former)
            _run(self._env, "systemctl", "--user", "daemon-reload")
            raise

    def uninstall(self) -> None:
        self._do("disable", "--now", self.unit, hint=f"{self.file} is still there.")
        self.file.unlink(missing_ok=True)
        self._do("daemon-reload", hint="The unit is removed.")

    def state(self) -> ServiceState:
        if not self.file.exists():
            return ServiceState(installed=False)
        state = self._ask("is-active")
        linger = (
            _run(self._env, "loginctl", "show-user", str(os.getuid()), "--property=Linger", "--value")
            if (shutil.which("loginctl", path=self._env.get("PATH")))
            else None
        )
        enabled = self._ask("is-enabled") == "enabled"
        return ServiceState(
            installed=True,
            running=state == "active",
            enabled=enabled,
            at_boot=enabled and linger is not None and linger.stdout.strip() == "yes",
            what="node" if "--node" in self.file.read_text() else "hub",
            state=state,
            file=str(self.file),
        )

    def _ask(self, verb: str) -> str:
        return _run(self._env, "systemctl", "--user", verb, self.unit).stdout.strip()

    def _do(self, *arguments: str, hint: str) -> None:
        _check_call(self._env, "systemctl", "--user", *arguments, hint=hint)


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(text: str) -> str:
    """One word of a unit file, whatever is in it."""
    return '"' + _specifiers(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


# --- launchd ----------------------------------------------------------------------------------------------


class Launchd:
    """An agent of the user's own launchd."""

    label = "tieline"

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.file = Path(env.get("HOME", "")) / "Library/LaunchAgents" / f"{self.label}.plist"
        self._log = paths.state(env) / "service.log"
        self.log = f"tail -f {shlex.quote(str(self._log))}"
        self._domain = f"gui/{os.getuid()}"

    def definition(self, *, node: bool) -> str:
        return plistlib.dumps(
            {
                "Label": self.label,
                "ProgramArguments": command(node=node),
                "EnvironmentVariables": _passed_on(self._env),
                "WorkingDirectory": "/",
                "RunAtLoad": True,
                "KeepAlive": {"SuccessfulExit": False},
                "ThrottleInterval": 5,
                "ExitTimeOut": STOP_S,
                "Umask": 0o077,
                "StandardOutPath": str(self._log),
                "StandardErrorPath": str(self._log),
            },
            sort_keys=False,
        ).decode()

    def check(self) -> None:
        if not shutil.which("launchctl", path=self._env.get("PATH")):
            raise ServiceError(
                "there is no launchd here (no `launchctl` on PATH)",
                hint=f"Use this system's own service manager to start: {shlex.join(command(node=False))}",
            )

    def install(self, *, node: bool) -> None:
        if self.file.exists():
            _run(self._env, "launchctl", "bootout", f"{self._domain}/{self.label}")
        self._log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        former = _write(self.file, self.definition(node=node))
        try:
            _check_call(
                self._env, "launchctl", "bootstrap", self._domain, str(self.file),
                hint=f"The agent was removed again. See `{self.log}`, and sign in on this Mac's own screen.",
            )  # fmt: skip
        except ServiceError:
            _restore(self.file, former)
            raise

    def uninstall(self) -> None:
        with suppress(ServiceError):  # it may not be loaded
            _run(self._env, "launchctl", "bootout", f"{self._domain}/{self.label}")
        self.file.unlink(missing_ok=True)

    def state(self) -> ServiceState:
        if not self.file.exists():
            return ServiceState(installed=False)
        printed = _run(self._env, "launchctl", "print", f"{self._domain}/{self.label}")
        states = [
            line.partition("=")[2].strip() for line in printed.stdout.splitlines() if line.strip().startswith("state =")
        ]
        return ServiceState(
            installed=True,
            running=states[:1] == ["running"],
            enabled=printed.returncode == 0,
            what="node" if "--node" in self.file.read_text() else "hub",
            state=states[0] if states else "not loaded",
            file=str(self.file),
        )
