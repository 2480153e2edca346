"""Real harnesses in real terminals start slowly beside other tests: a test of theirs may take longer than others."""

import pytest

REAL_S = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/harnesses/" in item.nodeid and item.get_closest_marker("real") is not None:
            item.add_marker(pytest.mark.timeout(REAL_S))
