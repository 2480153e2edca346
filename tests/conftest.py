"""What holds for every test: a busy machine is no failure of a property test, and collecting makes no garbage."""

import gc
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("tieline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tieline")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests and modules live as long as the process: the collector need not look at them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
