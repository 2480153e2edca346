import os
from pathlib import Path

import pytest

from tieline.safe_file_write import replace_private_file


def test_it_makes_the_directory_and_only_the_owner_reads(tmp_path: Path) -> None:
    file = tmp_path / "new" / "file"
    former = os.umask(0)
    try:
        replace_private_file(file, b"first")
    finally:
        os.umask(former)
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"first", 0o600)
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_reader_keeps_the_file_it_has_opened(tmp_path: Path) -> None:
    file = tmp_path / "file"
    replace_private_file(file, b"first")
    with file.open("rb") as reader:
        replace_private_file(file, b"second")
        assert reader.read() == b"first"
    assert file.read_bytes() == b"second"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_link_is_replaced_and_what_it_led_to_stays(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"another's")
    link.symlink_to(target)
    replace_private_file(link, b"ours")
    assert (target.read_bytes(), link.read_bytes(), link.is_symlink()) == (b"another's", b"ours", False)


def test_what_cannot_be_put_in_place_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file" / "inside").mkdir(parents=True)
    with pytest.raises(OSError):
        replace_private_file(tmp_path / "file", b"")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
