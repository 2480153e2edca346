"""Which endpoint serves an address: a trie of tokens, in which the longest prefix wins."""

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class _Node(Generic[T]):
    __slots__ = ("children", "exact", "prefix")

    def __init__(self) -> None:
        self.children: dict[str, _Node[T]] = {}
        self.exact: T | None = None  # for the address itself
        self.prefix: T | None = None  # for the address and everything below it


class LongestPrefixTrie(Generic[T]):
    """Addresses and what serves them, at most one value for each."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, subject: str, value: T, *, prefix: bool) -> bool:
        """Whether the address was free."""
        node = self._root
        for token in subject.split("."):
            node = node.children.setdefault(token, _Node())
        if (node.prefix if prefix else node.exact) is not None:
            return False
        if prefix:
            node.prefix = value
        else:
            node.exact = value
        self._count += 1
        return True

    def remove(self, subject: str, *, prefix: bool) -> None:
        path: list[tuple[_Node[T], str]] = []
        node = self._root
        for token in subject.split("."):
            if token not in node.children:
                return
            path.append((node, token))
            node = node.children[token]
        if (node.prefix if prefix else node.exact) is None:
            return
        if prefix:
            node.prefix = None
        else:
            node.exact = None
        self._count -= 1
        for above, token in reversed(path):  # remove empty nodes
            below = above.children[token]
            if below.children or below.exact is not None or below.prefix is not None:
                return
            del above.children[token]

    def match(self, subject: str) -> T | None:
        node = self._root
        longest_prefix: T | None = None
        for token in subject.split("."):
            below = node.children.get(token)
            if below is None:
                return longest_prefix
            node = below
            if node.prefix is not None:
                longest_prefix = node.prefix
        return node.exact if node.exact is not None else longest_prefix

    def all(self) -> Iterator[tuple[str, bool, T]]:
        """Address, whether it is a prefix, and what serves it."""

        def walk(node: _Node[T], path: tuple[str, ...]) -> Iterator[tuple[str, bool, T]]:
            if node.exact is not None:
                yield ".".join(path), False, node.exact
            if node.prefix is not None:
                yield ".".join(path), True, node.prefix
            for token, below in node.children.items():
                yield from walk(below, (*path, token))

        return walk(self._root, ())
