"""Agents that nobody has tested: what they can do is unverified until they have run here, and then it is their word."""

import json
import os
import shlex
import stat
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from tieline.api import open_session
from tieline.cli.commands.agent_reports import AgentReport, plain_lines, probe_agent
from tieline.cli.commands.agents_table import print_table
from tieline.config import Config
from tieline.drivers import registry
from tieline.drivers.acp_presets import PRESETS
from tieline.drivers.base import Features
from tieline.drivers.observed_features import (
    MAX_FILE,
    MAX_VERSION,
    Observation,
    ObservedAgents,
    ObservedFeatures,
    features_basis,
    unverified_features,
)
from tieline.drivers.per_agent_file import MAX_AGENTS
from tieline.drivers.run_as import Account, RunAsDriver
from tieline.errors import Unsupported
from tieline.events import Warning
from tieline.node.agent_inventory import AgentInventory
from tieline.testing.rig import scratch_env
from tieline.testing.stream_checks import collect, done, of, the

PEER = [sys.executable, str(Path(__file__).with_name("acp_agent.py"))]
TOLD = ObservedFeatures(resume=True, fork=False, attachments=("image/*",), model=True)


class Bench:
    """A state directory, and what another process would see of an agent there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "state"
        self.env = scratch_env(folder / "home", path="/usr/bin:/bin")

    @property
    def file(self) -> Path:
        return self.home / "agents.json"

    def config(self, **agents: dict[str, Any]) -> Config:
        return Config(agents=agents, environ={**self.env, "TIELINE_HOME": str(self.home)})

    async def run(self, agent: str, config: Config, *prompts: str, env: dict[str, str] | None = None, **options: Any):
        async with open_session(
            agent, config=config, cwd=self.folder, env={**self.env, **(env or {})}, policy="full", **options
        ) as session:
            return [await collect(session.turn(prompt)) for prompt in prompts]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def viewed(agents: AgentInventory) -> tuple[str, set[str]]:
    view = next(view for view in await agents.refresh() if view.name == "peer")
    return view.basis, set(view.features)


@pytest.mark.slow
async def test_before_the_first_run_and_after(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    program = bench.folder / "peer"
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec echo 9.9\nexec {shlex.join(PEER)}\n')
    program.chmod(0o700)
    config = bench.config(peer={"type": "acp", "command": [str(program)], "can": {"resume": True}})

    def only_this(config: Config) -> list[str]:
        return ["peer"]

    monkeypatch.setattr(registry, "names", only_this)
    driver = registry.create("peer", config)
    agents = AgentInventory(config, lambda name: driver)
    assert (features_basis(driver), unverified_features(driver)) == ("unverified", driver.features.supported())
    report = await probe_agent("peer", config)
    assert (report.basis, "resume" in report.unverified) == ("unverified", True)
    assert (report.proof, report.seen_version) == ("unverified", "")
    basis, before = await viewed(agents)
    assert (basis, before & {"resume", "fork", "model", "attachments"}) == ("unverified", {"resume"})

    await bench.run("peer", config)
    report = await probe_agent("peer", config)
    streams = ("mcp_servers", "deltas", "thinking", "plans", "diffs")
    assert (report.basis, report.unverified) == ("told", streams), "nobody has seen them, and it says nothing of them"
    assert (report.proof, report.seen_version, report.seen_at is not None) == ("seen", "9.9", True)
    assert report.features is not None and report.features.attachments == (
        "image/*",
        "audio/*",
        "text/*",
        "application/*",
    )
    assert await viewed(agents) == ("told", before | {"fork", "model", "attachments"}), "also where it was known before"
    await bench.run("peer", config, "story")
    report = await probe_agent("peer", config)
    assert report.unverified == ("mcp_servers", "diffs"), "the others were there"
    kept = json.loads(bench.file.read_text())["peer"]
    assert {"deltas", "plans", "thinking"} <= set(kept["features"]["shown"])
    assert kept["version"] == "9.9" and kept["when"] > 0 and kept["features"]["fork"] is True
    assert stat.S_IMODE(bench.file.stat().st_mode) == 0o600
    assert [path.name for path in bench.home.iterdir()] == ["agents.json"], "no draft is left"

    await bench.run("peer", config, env={"PEER_BARE": "1"})  # another version of it, say
    assert await viewed(agents) == ("told", (before - {"resume"}) | {"model", "usage"}), "it showed tokens"
    with pytest.raises(Unsupported, match="resume"):  # declared, and still not there
        open_session("peer", config=config, cwd=bench.folder, env=bench.env, policy="full", resume="x")

    other = bench.config(peer={"type": "acp", "command": ["another-program"]})
    assert features_basis(registry.create("peer", other)) == "unverified", "it is another program by the same name"


@pytest.mark.slow
async def test_what_an_agent_does_not_tell_stays_unverified(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that gets its model as an argument, as Qwen does, and that no test runs."""
    monkeypatch.setitem(PRESETS, "odd", replace(PRESETS["qwen"], tested=""))
    config = bench.config(odd={"type": "acp", "preset": "odd", "command": PEER})
    first, second = await bench.run("odd", config, "story", "story", model="large")
    assert done(first).status == "success", "it is accepted"
    assert "unverified: model" in the(first, Warning).message
    assert not of(second, Warning), "once"
    driver = registry.create("odd", config)
    left = ("model", "steer", "mcp_servers", "questions", "diffs")
    assert (features_basis(driver), unverified_features(driver)) == ("told", left), "what its story showed is known"
    (without,) = await bench.run("odd", config, "story")
    assert not of(without, Warning)


def test_what_the_tests_run_is_tested(bench: Bench) -> None:
    config = bench.config(mine={"type": "shell", "command": ["true"]}, my_gemini={"type": "gemini"})
    tested = {name for name, preset in PRESETS.items() if preset.tested}
    assert len(tested) >= 10
    for name in ("claude-code", "codex", "opencode", "pi", *tested, "scripted", "mine", "my_gemini"):
        driver = registry.create(name, config)
        assert (features_basis(driver), unverified_features(driver)) == ("tested", ())
    for name in PRESETS.keys() - tested:
        driver = registry.create(name, config)
        assert (features_basis(driver), unverified_features(driver)) == ("unverified", driver.features.supported())
        other = RunAsDriver(driver, Account("nobody", "/", "/bin/sh"))
        assert features_basis(other) == "unverified" and unverified_features(other) == other.features.supported(), (
            "whoever it runs as"
        )
    assert not bench.home.exists(), "looking leaves nothing"


def test_a_file_that_cannot_be_read_is_as_none(bench: Bench) -> None:
    bench.home.mkdir()
    features = {"resume": True, "fork": True, "attachments": ["image/*"]}
    good = {"peer": {"version": "1", "features": features, "when": 1, "program": "p"}}
    assert _read(bench, json.dumps(good)) is not None
    bad = json.loads(json.dumps(good))
    bad["peer"]["features"]["attachments"] = ["\x1b[2J"]
    for content in ("", "{", "[]", '"x"', '{"peer": 1}', "\xff", json.dumps(bad), json.dumps(good) + " " * MAX_FILE):
        assert _read(bench, content) is None, content[:40]
    bench.file.unlink()
    os.mkfifo(bench.file)
    assert ObservedAgents(bench.file).get("peer", "p") is None, "nor waits for anybody"
    bench.file.unlink()
    bench.file.mkdir()
    met = ObservedAgents(bench.file)
    met.record("peer", "p", "2", TOLD)
    record = met.get("peer", "p")
    assert record is not None and record.version == "2", "what cannot be written is known as long as this lives"


def _read(bench: Bench, content: str) -> Observation | None:
    bench.file.write_text(content, encoding="latin-1")
    return ObservedAgents(bench.file).get("peer", "p")


def test_it_is_bounded(bench: Bench) -> None:
    met = ObservedAgents(bench.file)
    for number in range(MAX_AGENTS + 5):
        met.record(f"agent-{number}", "p", "9" * 10_000, TOLD)
    kept = json.loads(bench.file.read_text())
    assert len(kept) == MAX_AGENTS and "agent-0" not in kept and f"agent-{MAX_AGENTS + 4}" in kept
    assert {len(each["version"]) for each in kept.values()} == {MAX_VERSION}
    for number in range(3):
        met.record("x" * 30_000 + str(number), "p", "1", TOLD)
    assert bench.file.stat().st_size <= MAX_FILE
    assert ObservedAgents(bench.file).get("x" * 30_000 + "2", "p") is not None


def test_what_is_the_same_is_not_written_again_and_a_choice_of_models_is_not_forgotten(bench: Bench) -> None:
    met = ObservedAgents(bench.file)
    met.record("peer", "p", "1", TOLD)
    before = bench.file.stat().st_ino, bench.file.stat().st_mtime_ns
    met.record("peer", "p", "1", ObservedFeatures(resume=True, fork=False, attachments=("image/*",), model=None))
    assert (bench.file.stat().st_ino, bench.file.stat().st_mtime_ns) == before
    record = met.get("peer", "p")
    assert record is not None and record.features.model is True


def test_what_a_session_showed_is_kept_for_its_version(bench: Bench) -> None:
    met = ObservedAgents(bench.file)
    for version, shown, kept in (("1", ("plans",), ["plans"]), ("1", ("diffs",), ["diffs", "plans"]), ("2", (), [])):
        met.record("peer", "p", version, replace(TOLD, shown=shown))
        assert json.loads(bench.file.read_text())["peer"]["features"]["shown"] == kept


def test_how_it_is_shown() -> None:
    can = Features(resume=True, model=True)
    reports = [
        AgentReport(
            name="proven", found=True, tested="1.0", tested_version=False, features=can, basis="tested", proof="tested"
        ),
        AgentReport(
            name="spoken", found=True, features=can, basis="told", proof="seen", seen_version="9", unverified=("model",)
        ),
        AgentReport(
            name="strange",
            found=True,
            features=can,
            basis="unverified",
            proof="unverified",
            unverified=("resume", "model"),
        ),
    ]
    lines = [line.strip() for line in plain_lines(reports)]
    assert lines[0].endswith("tested with 1.0, not with this version")
    assert lines[2].endswith("seen here 9") and lines[5].endswith("unverified")
    assert lines[1] == "can: model, resume"
    assert lines[3:5] == ["can, by its own report: model, resume", "unverified: model"]
    assert lines[6] == "can (unverified: it never ran here): model, resume"
    out = StringIO()
    print_table(reports, Console(file=out, width=140))
    rows = {line.split()[1]: " ".join(line.split()) for line in out.getvalue().splitlines() if line.startswith("✓")}
    assert "unverified" not in rows["proven"] and "tested 1.0" in rows["proven"]
    assert rows["spoken"].endswith("model, resume; unverified: model")
    assert rows["strange"].endswith("unverified, it never ran here: model, resume")
