"""Drivers of installed packages, by entry point."""

import sys
from pathlib import Path

import pytest

import tieline
from tieline.config import Config
from tieline.errors import AgentMissing, UsageError

MODULE = """
from tieline.drivers.scripted import Scripted
from tieline.errors import UsageError
def create(name, options):
    if "wrong" in options:
        raise UsageError("it takes no such option", field="wrong")
    return Scripted(name=name)
def fail(name, options):
    raise RuntimeError("a mistake of its author")
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real distribution on the path, with entry points in our group."""
    (tmp_path / "tieline_driver_for_a_test.py").write_text(MODULE)
    (tmp_path / "tieline_driver_without_library.py").write_text("import no_such_library\n")
    about = tmp_path / "tieline_driver_for_a_test-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tieline-driver-for-a-test\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[tieline.drivers]\n"
        "whole = tieline_driver_for_a_test:create\n"
        "failing = tieline_driver_for_a_test:fail\n"
        "other-version = tieline_driver_for_a_test:nothing\n"
        "without-library = tieline_driver_without_library:create\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "tieline_driver_for_a_test", raising=False)


@pytest.mark.usefixtures("package")
def test_it_is_opened_by_its_name() -> None:
    assert tieline.open_session("whole", config=Config()).agent == "whole"
    with pytest.raises(UsageError, match="no such option"):
        tieline.open_session("whole", config=Config(agents={"whole": {"wrong": 1}}))


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("failing", "RuntimeError: a mistake of its author"),
        ("other-version", "has no attribute 'nothing'"),
        ("without-library", "No module named 'no_such_library'"),
    ],
)
def test_what_is_wrong_with_it_is_told_with_its_package(name: str, why: str) -> None:
    with pytest.raises(AgentMissing) as refused:
        tieline.open_session(name, config=Config())
    assert why in refused.value.message
    assert "tieline-driver-for-a-test" in refused.value.hint
