"""Imports that take long, beside each other."""

import asyncio
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from tieline.background_tasks import import_in_thread

MODULE = """
import met
with met.counting:
    met.inside += 1
    if met.inside > 1:
        met.both.set()
met.both.wait(0.2)
with met.counting:
    met.inside -= 1
"""


async def test_one_module_is_imported_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that import each other, begun at both ends, would each see the other unfinished."""
    met = ModuleType("met")
    both = threading.Event()
    met.__dict__.update(inside=0, both=both, counting=threading.Lock())
    monkeypatch.setitem(sys.modules, "met", met)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    names = ("imported_in_a_thread", "imported_in_another")
    for name in names:
        (tmp_path / f"{name}.py").write_text(MODULE)
    try:
        modules = await asyncio.gather(*map(import_in_thread, names))
        assert [module.__name__ for module in modules] == list(names)
        assert not both.is_set()
    finally:
        for name in names:
            sys.modules.pop(name, None)
