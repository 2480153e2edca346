"""The hub as a service of its user. The service managers are stand-ins, for faults and order; the units are real."""

import json
import os
import plistlib
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tieline.bootstrap.process_lock import single_instance
from tieline.cli.commands import service_manager
from tieline.cli.commands.service_manager import Launchd, ServiceError, Systemd, check_lasting, command
from tieline.testing.cli_process import WAIT_S, CliProcess

SYSTEMCTL = """\
#!/bin/sh
echo "$(basename $0) $*" >> "{log}"
here="{here}"
case "$2" in
  show-environment) [ ! -e "$here/no-bus" ] || {{ echo "Failed to connect to bus" >&2; exit 1; }} ;;
  enable) [ ! -e "$here/no-start" ] || {{ echo "Job for tieline.service failed" >&2; exit 1; }}; touch "$here/active" ;;
  disable) rm -f "$here/active" ;;
  is-active) [ -e "$here/active" ] && echo active || {{ echo inactive; exit 3; }} ;;
  is-enabled) echo enabled ;;
esac
[ "$(basename $0)" != loginctl ] || {{ [ -e "$here/linger" ] && echo yes || echo no; }}
"""


class Machine(CliProcess):
    """A command line whose systemd is a stand-in that writes down what it is told."""

    def __init__(self, root: Path) -> None:
        self.bin = root / "bin"
        self.bin.mkdir(parents=True)
        self.log = root / "told.txt"
        for name in ("systemctl", "loginctl"):
            (self.bin / name).write_text(SYSTEMCTL.format(log=self.log, here=root))
            (self.bin / name).chmod(0o755)
        super().__init__(root, path=f"{self.bin}:/usr/bin:/bin")
        self.root = root
        self.unit = Path(self.env["HOME"]) / ".config/systemd/user/tieline.service"

    def commands(self) -> list[str]:
        """What it was told to do, without what it was asked."""
        asked = ("is-active", "is-enabled", "show-environment", "show-user")
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [line.removeprefix("systemctl --user ") for line in lines if not any(word in line for word in asked)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.slow
def test_it_is_installed_shown_and_removed(machine: Machine) -> None:
    absent = machine.run("service", "status", "--json")
    assert absent.returncode == 1 and json.loads(absent.stdout)["installed"] is False

    shown = machine.run("service", "install", "--print")
    assert shown.returncode == 0 and not machine.unit.exists() and machine.commands() == []

    done = machine.run("service", "install")
    assert done.returncode == 0, done.stderr
    assert machine.commands() == ["daemon-reload", "enable --now tieline.service"]
    assert machine.unit.read_text() == shown.stdout
    for line in (str(machine.unit), "journalctl --user -u tieline.service", "loginctl enable-linger", "uninstall"):
        assert line in done.stdout

    again = machine.run("service", "install", "--json")  # after an upgrade: it runs what is installed now
    assert machine.commands() == ["daemon-reload", "enable --now tieline.service", "restart tieline.service"]
    report = json.loads(again.stdout)
    assert report["running"] and report["enabled"] and not report["at_boot"] and report["what"] == "hub"

    (machine.root / "linger").touch()
    status = machine.run("service", "status")
    assert status.returncode == 0 and "It starts with the machine." in status.stdout

    gone = machine.run("service", "uninstall")
    assert gone.returncode == 0 and str(machine.unit) in gone.stdout and not machine.unit.exists()
    assert machine.commands() == ["disable --now tieline.service", "daemon-reload"]
    assert "No service is installed" in machine.run("service", "uninstall").stdout
    assert machine.commands() == []


@pytest.mark.slow
def test_what_stands_in_its_way_is_said_and_nothing_is_left(machine: Machine) -> None:
    (machine.root / "no-bus").touch()
    alone = machine.run("service", "install")
    assert alone.returncode == 1 and "Failed to connect to bus" in alone.stderr
    assert "loginctl enable-linger" in alone.stderr and "service run" in alone.stderr
    assert not machine.unit.exists() and machine.commands() == []
    (machine.root / "no-bus").unlink()

    with single_instance(machine.env):
        held = machine.run("service", "install")
    assert held.returncode == 2 and f"process {os.getpid()}" in held.stderr and "tieline down" in held.stderr
    assert not machine.unit.exists()

    (machine.root / "no-start").touch()
    failed = machine.run("service", "install")
    assert failed.returncode == 1 and "Job for tieline.service failed" in failed.stderr
    assert not machine.unit.exists()
    assert machine.commands()[-2:] == ["disable --now tieline.service", "daemon-reload"]

    unjoined = machine.run("service", "install", "--node")
    assert unjoined.returncode == 2 and "not joined" in unjoined.stderr


@pytest.mark.slow
def test_an_install_that_fails_leaves_the_former_unit(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    systemd = Systemd(machine.env)
    systemd.install(node=False)
    before = machine.unit.read_text()
    (tmp_path / "no-start").touch()
    with pytest.raises(ServiceError, match="Job for"):
        systemd.install(node=True)
    assert machine.unit.read_text() == before
    assert systemd.state().running, "the former one was ended"


def test_without_systemd_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="no systemd here") as refused:
        Systemd({"HOME": str(tmp_path), "PATH": str(tmp_path)}).check()
    assert "@reboot" in refused.value.hint and "-m tieline service run" in refused.value.hint
    with pytest.raises(ServiceError, match="no launchd here"):
        Launchd({"HOME": str(tmp_path), "PATH": str(tmp_path)}).check()


STRANGE = {
    "HOME": '/home/a b/%h $HOME "x" \\',
    "PATH": '/usr/bin:/opt/a b:/opt/100%:/opt/$(date):/opt/"q":/opt/back\\slash',
    "ANTHROPIC_API_KEY": "sk-secret",
    "TIELINE_TOKEN": "tl_secret",
}


def test_a_unit_is_valid_and_holds_no_key(tmp_path: Path) -> None:
    text = Systemd(STRANGE).definition(node=False)
    assert "secret" not in text
    (path,) = [line for line in text.splitlines() if line.startswith("Environment=")]
    assert path == r'Environment="PATH=/usr/bin:/opt/a b:/opt/100%%:/opt/$(date):/opt/\"q\":/opt/back\\slash"'
    assert "--node" in Systemd(STRANGE).definition(node=True)
    verify = shutil.which("systemd-analyze")
    if verify is None:
        return  # the lines above are all that can be said without systemd
    unit = tmp_path / "tieline.service"
    unit.write_text(text)
    checked = subprocess.run(
        [verify, "verify", "--user", "--man=no", str(unit)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert checked.returncode == 0 and "tieline.service" not in checked.stderr, checked.stderr


def test_control_characters_do_not_write_lines_of_a_unit() -> None:
    with pytest.raises(ServiceError, match="PATH"):
        Systemd({"HOME": "/home/ann", "PATH": "/usr/bin\nExecStartPre=/bin/false"}).definition(node=False)


def test_a_launch_agent_is_valid_and_holds_no_key() -> None:
    text = Launchd(STRANGE).definition(node=True)
    assert "secret" not in text
    agent = plistlib.loads(text.encode())
    assert agent["ProgramArguments"] == command(node=True)
    assert agent["EnvironmentVariables"] == {"PATH": STRANGE["PATH"]}
    assert agent["RunAtLoad"] is True and agent["KeepAlive"] == {"SuccessfulExit": False}


def test_launchd_is_told_in_order(tmp_path: Path) -> None:
    log, home = tmp_path / "told.txt", tmp_path / "home"
    tool = tmp_path / "launchctl"
    tool.write_text(f'#!/bin/sh\necho "$*" >> "{log}"\n[ "$1" != print ] || echo "	state = running"\n')
    tool.chmod(0o755)
    launchd = Launchd({"HOME": str(home), "PATH": f"{tmp_path}:/usr/bin:/bin"})
    launchd.install(node=False)
    assert launchd.file == home / "Library/LaunchAgents/tieline.plist"
    assert launchd.state().running and launchd.state().what == "hub"
    launchd.uninstall()
    assert not launchd.file.exists() and not launchd.state().installed
    domain = f"gui/{os.getuid()}"
    commands = [line for line in log.read_text().splitlines() if not line.startswith("print")]
    assert commands == [f"bootstrap {domain} {launchd.file}", f"bootout {domain}/tieline"]


def test_what_lies_in_a_cache_is_not_made_a_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "env").mkdir()
    monkeypatch.setattr(service_manager.sys, "prefix", str(tmp_path / "env"))
    check_lasting()
    (tmp_path / "CACHEDIR.TAG").touch()
    with pytest.raises(ServiceError, match="cache"):
        check_lasting()


@pytest.mark.slow
def test_what_the_unit_runs_serves_and_logs_no_link(machine: Machine) -> None:
    machine.configure("[hub]\nport = 0\n")
    process = subprocess.Popen(
        command(node=False), cwd="/", env=machine.env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Tieline is at http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        output, log = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, log
    assert "login=" not in output + log and "up" in log
