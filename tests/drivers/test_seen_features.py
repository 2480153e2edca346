"""Nothing is declared that nobody has seen: the record of what the driver contract saw says what the drivers say."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests import seen_features
from tests.seen_features import encode, exists, read

from tieline.cli.doc_generators.agents import Seen, agents
from tieline.drivers.base import Driver

NOT_OF_THE_AGENT = {"arguments"}
"""What Tieline does itself."""
TESTED = [driver for driver in agents() if driver.tested]
ROOT = Path(seen_features.__file__).parents[1]


@pytest.mark.parametrize("driver", TESTED, ids=lambda driver: driver.name)
def test_what_is_declared_was_seen_in_the_tested_version(driver: Driver) -> None:
    """And nothing else was. `make seen` runs the contract and writes the record."""
    recorded = {feature: seen.version for feature, seen in read().get(driver.name, {}).items()}
    assert recorded == dict.fromkeys(set(driver.features.supported()) - NOT_OF_THE_AGENT, driver.tested)


def test_the_record_is_of_tested_agents_and_of_tests_that_there_are() -> None:
    record = read()
    assert set(record) == {driver.name for driver in TESTED}
    named = {seen.test for features in record.values() for seen in features.values()}
    assert not [test for test in named if not exists(test)]
    assert not exists("tests.drivers.test_seen_features.TestNobody.test_nothing")
    assert encode(record) == seen_features.FILE.read_bytes()


CONTRACT = """
from types import SimpleNamespace as Rig
import pytest
from tieline.events import Init
from tieline.testing.driver_contract.base import DriverContractBase

class TestSomeone(DriverContractBase):
    def see(self, *features, version="1.0"):
        for feature in features:
            rig = Rig(driver=Rig(name="someone"))
            self.saw(rig, feature, [Init("id", "someone", "/", "model", version)])
    def test_one(self): self.see("resume", "fork")
    def test_two(self): self.see("fork")
    def test_no_version(self): self.see("model", version="")
    def test_skipped(self): self.see("effort"); pytest.skip("why")
    def test_wrong(self): self.see("steer"); assert False
"""


@pytest.mark.slow
def test_a_run_replaces_what_its_tests_saw(tmp_path: Path) -> None:
    """As its workers tell it, whatever is kept of other tests; the same again is the same file."""
    file, test_class = tmp_path / "seen.json", "test_someone.TestSomeone"
    (tmp_path / "test_someone.py").write_text(CONTRACT)
    gone, kept = Seen("0.9", f"{test_class}.test_wrong"), Seen("0.9", f"{test_class}.test_skipped")
    file.write_bytes(encode({"someone": {"plans": gone, "usage": kept, "fork": kept}, "other": {"fork": kept}}))
    run = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--record-seen", str(file), "-p", "tests.conftest"]
    for _ in range(2):
        done = subprocess.run([*run, "--rootdir", str(tmp_path), "-c", str(ROOT / "pyproject.toml"), str(tmp_path)],
                              cwd=ROOT, capture_output=True, text=True, timeout=100)  # fmt: skip
        assert "1 failed, 3 passed, 1 skipped" in done.stdout, done.stdout
        seen = Seen("1.0", f"{test_class}.test_one")
        assert read(file) == {"someone": {"fork": seen, "resume": seen, "usage": kept}, "other": {"fork": kept}}
