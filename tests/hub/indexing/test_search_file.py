"""The file of the index: what is told again after a crash is there once, and its cursor goes on where it was."""

from pathlib import Path

from tieline.hub.indexing.search_file import Document, SearchFile


def documents(*seqs: int) -> list[Document]:
    return [Document(family="events", seq=seq, at=1.0, kind="text", text=f"word{seq} same") for seq in seqs]


def hits(file: SearchFile, match: str = "same") -> list[int]:
    return [hit.seq for hit in file.search(match, before=0, since=0.0, until=0.0, limit=10)]


def test_what_is_told_again_is_there_once(tmp_path: Path) -> None:
    path = tmp_path / "search.db"
    file = SearchFile(path, "one")
    assert (file.cursor("events"), file.add("events", documents(1, 2), 5)) == (0, 5)
    assert file.add("events", documents(1, 2), 5) == 5
    assert file.add("events", documents(2, 7), 4) == 5, "nothing new"
    assert file.add("events", documents(2, 7), 8) == 8
    assert (hits(file), hits(file, "word2"), file.cursor("messages")) == ([7, 2, 1], [2], 0)
    file.close()
    file = SearchFile(path, "one")
    assert (file.cursor("events"), hits(file)) == (8, [7, 2, 1]), "it goes on where it was"
    file.close()
    other = SearchFile(path, "another log")
    assert (other.cursor("events"), hits(other)) == (0, [])
    other.close()
