"""The script that breaks the code on purpose breaks it where it says."""

import ast

from tests.mutation.mutate import AIMED, ROOT, modules, mutants_of, sample

SOURCE = '''
def choose(first: int = 1, *, größer: bool = False) -> int:
    """Not this."""
    if first < 3 and größer:
        note(first, 2)
        return max(first, 7)
    return first
'''


def test_each_mutant_is_one_change_that_python_understands() -> None:
    seen: set[tuple[str, str, str]] = set()
    for mutant in mutants_of("x.py", SOURCE):
        text = SOURCE.encode()
        assert text[mutant.begin : mutant.end].decode() == mutant.before
        changed = (text[: mutant.begin] + mutant.after.encode() + text[mutant.end :]).decode()
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(SOURCE))
        seen.add((mutant.kind, mutant.before, mutant.after))
    assert {
        ("comparison", "first < 3", "(first <= 3)"),
        ("condition", "first < 3 and größer", "(first < 3 or größer)"),
        ("condition", "first < 3 and größer", "(not (first < 3 and größer))"),
        ("constant", "False", "True"),
        ("constant", "7", "8"),
        ("removed", "note(first, 2)", "pass"),
        ("return", "return first", "return None"),
        ("arguments", "max(first, 7)", "max(7, first)"),
    } <= seen


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    paths = modules(AIMED)[:4]
    assert paths
    assert all((ROOT / path).is_file() for path in paths)
    assert sample(paths, 5, 3) == sample(paths, 5, 3) != sample(paths, 5, 4)
