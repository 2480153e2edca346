"""What holds for every test: a busy machine is no failure of a property test, nor of the command hook, collecting makes
no garbage, and Ctrl-C works in what tests start."""

import gc
import signal
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from tieline.harnesses import base, hook

if TYPE_CHECKING:
    from playwright.async_api import Browser

MORE_AGENTS = "more_agents"
settings.register_profile("tieline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tieline")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # tests that a script runs in the background: children inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests and modules live as long as the process: the collector need not look at them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The tests of agents that the set-up does not install are run by their own target."""
    named = any(MORE_AGENTS in argument for argument in config.args)
    return True if collection_path.name == MORE_AGENTS and not named else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-seen", metavar="FILE", type=Path, help="keep there what is seen of each agent")


def pytest_configure(config: pytest.Config) -> None:
    """In the process that hears of all tests: a worker hears of its own alone."""
    file: Path | None = config.getoption("--record-seen")
    if file is not None and not hasattr(config, "workerinput"):
        from tests.seen_features import SeenFeatures

        config.pluginmanager.register(SeenFeatures(file))


@pytest.fixture
def patient_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command hook, which gives up after two seconds for its harness's sake, waits for a hub on a busy machine."""
    text, bound = base.hook_program().read_text(), f"BOUND_S = {hook.BOUND_S}\n"
    assert text.count(bound) == 1
    program = tmp_path / "harnesses" / "hook.py"
    program.parent.mkdir()
    program.write_text(text.replace(bound, "BOUND_S = 60.0\n"))
    monkeypatch.setattr(base, "hook_program", lambda: program)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> "AsyncGenerator[Browser, None]":
    """One for all tests of a worker, each with profiles of its own. A start takes as much as many pages."""
    from tests.browser.chromium import chromium

    async with chromium() as opened:
        yield opened
