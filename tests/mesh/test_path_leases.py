"""Two members never hold leases that mean the same path."""

import asyncio
import re
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bus.conftest import address
from tests.mesh.conftest import harness, open_mesh

from tieline.errors import UsageError
from tieline.mesh.path_leases import check_pattern, overlap

NAMES = ("a", "b", "aa", "ab", "ba")
PATHS = ["/".join(names) for depth in (1, 2, 3) for names in product(NAMES, repeat=depth)]
SEGMENTS = st.sampled_from(["a", "b", "ab", "*", "a*", "*b", "?", "a?", "[ab]", "[!a]b", "**"])
PATTERNS = st.lists(SEGMENTS, min_size=1, max_size=4).map("/".join)


def meant(pattern: str) -> set[str]:
    """The paths that a pattern means, by an expression of our own."""
    expression = ""
    for part in pattern.split("/"):
        if part == "**":
            expression += "(?:[^/]+/)*"
            continue
        name = re.sub(r"\[(!?)(\w+)\]|\*|\?|\w", _piece, part)
        expression += f"{name}/"
    return {path for path in PATHS if re.match(f"{expression}", f"{path}/")}


def _piece(match: re.Match[str]) -> str:
    text = match[0]
    if text.startswith("["):
        return f"[{'^' if match[1] else ''}{match[2]}]"
    return {"*": "[^/]*", "?": "[^/]"}.get(text, text)


@given(pattern=PATTERNS, other=PATTERNS)
def test_patterns_that_mean_a_common_path_overlap(pattern: str, other: str) -> None:
    assert overlap(pattern, other) == overlap(other, pattern)
    if meant(pattern) & meant(other):
        assert overlap(pattern, other)


@given(
    path=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4), other=st.lists(st.sampled_from(NAMES), min_size=1)
)
def test_plain_paths_overlap_when_one_is_within_the_other(path: list[str], other: list[str]) -> None:
    within = path[: len(other)] == other or other[: len(path)] == path
    assert overlap("/".join(path), "/".join(other)) == within


@pytest.mark.parametrize("outside", ["/etc/passwd", "../x", "a/../../x", "~/x", "..", "", "a\0b"])
def test_a_pattern_outside_the_project_is_refused(outside: str) -> None:
    with pytest.raises(UsageError):
        check_pattern(outside)


async def test_a_conflict_names_the_holder_and_reserves_nothing(url: str) -> None:
    anna, bob = harness("s-anna"), harness("s-bob", "codex")
    async with open_mesh(url) as mesh:
        await mesh.register_agent(anna, name="anna", project="shop")
        await mesh.register_agent(bob, name="bob", project="shop")
        assert len((await mesh.reserve_paths(anna, ["src/parser/**", "docs/*.md"], note="a rewrite")).leases) == 2
        refused = await mesh.reserve_paths(bob, ["tests", "src/parser/lexer.py"])
        assert refused.leases == ()
        assert [(conflict.holder_name, conflict.pattern, conflict.note) for conflict in refused.conflicts] == [
            ("anna", "src/parser/**", "a rewrite")
        ]
        assert [lease.holder_name for lease in await mesh.path_leases.list("shop")] == ["anna", "anna"]
        assert len((await mesh.reserve_paths(anna, ["src/parser/lexer.py"])).leases) == 1  # one's own are no conflict
        await mesh.release_paths(anna)
        assert (await mesh.reserve_paths(bob, ["src/parser/lexer.py"])).conflicts == ()


async def test_of_two_hubs_at_once_one_gets_the_path(tmp_path: Path) -> None:
    async with address("nats", tmp_path) as url, open_mesh(url) as here, open_mesh(url) as there:
        made = await asyncio.gather(
            *(
                mesh.path_leases.reserve("shop", f"mb-{number}", f"m{number}", ["src/**"])
                for number, mesh in enumerate([here, there] * 3)
            )
        )
    assert sum(bool(reservation.leases) for reservation in made) == 1
    assert all(reservation.conflicts for reservation in made if not reservation.leases)
