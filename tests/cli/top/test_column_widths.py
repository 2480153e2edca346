from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tieline.cli.top.column_widths import PADDING, column_widths, fitted
from tieline.cli.top.hub_picture import COLUMNS

ROW = {
    "id": "4a4c47", "agent": "claude-code-reviewer", "status": "waiting", "what": "build the shop " * 9, "queue": "2",
    "active": "12s", "cost": "$0.25", "machine": "build-server", "where": "~/src/tieline/shop",
}  # fmt: skip


def shown(columns: int, **changed: str) -> list[str]:
    return list(column_widths(COLUMNS, [{**ROW, **changed}], columns))


def test_a_narrow_screen_keeps_the_columns_that_say_most() -> None:
    assert shown(39) == ["agent", "status", "what"]
    assert shown(79) == ["id", "agent", "status", "what", "active", "machine"]
    assert column_widths(COLUMNS, [ROW], 79)["machine"] == len(ROW["machine"]), "the name of a machine is not cut"
    assert shown(79, machine="laptop") == ["id", "agent", "status", "what", "active", "machine", "where"]
    assert shown(79, machine="") == ["id", "agent", "status", "what", "active", "where"]
    assert shown(119) == list(COLUMNS)


def test_a_column_in_which_nobody_says_anything_leaves_its_room_to_the_others() -> None:
    empty = column_widths(COLUMNS, [{**ROW, "queue": "", "cost": ""}], 119)
    assert "queue" not in empty and "cost" not in empty
    assert empty["what"] > column_widths(COLUMNS, [ROW], 119)["what"]
    assert list(column_widths(COLUMNS, [], 119)) == ["what"]


texts = st.text(st.characters(exclude_categories=("C", "Z")), max_size=70)


@given(st.lists(st.fixed_dictionaries(dict.fromkeys(COLUMNS, texts)), max_size=4), st.integers(10, 250))
def test_what_is_shown_never_takes_more_than_the_screen_has(rows: list[dict[str, str]], room: int) -> None:
    widths = column_widths(COLUMNS, rows, room)
    assert sum(width + PADDING for width in widths.values()) <= room
    assert all(width >= len(title) for title, width in widths.items()), "no title is cut"


@given(texts, st.integers(4, 60))
def test_what_is_cut_ends_with_an_ellipsis_of_a_path_it_begins_with_one(text: str, width: int) -> None:
    start, end = fitted(text, width), fitted(text, width, keep="end")
    assert cell_len(start) <= width and cell_len(end) <= width
    if cell_len(text) <= width:
        assert start == end == text
    else:
        assert start.endswith("…") and text.startswith(start[:-1].rstrip())
        assert end.startswith("…") and text.endswith(end[1:])
