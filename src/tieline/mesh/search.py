"""Fuzzy search over what members say of themselves.

An index of words keeps the cost from growing with the number of members: the words of a query are matched against
words that share three letters with them, and only the members that have the best of those are scored.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from functools import cache
from itertools import islice

MAX_WORDS = 64
"""Words of one member that are searched."""
MAX_QUERY_WORDS = 8
MAX_LIKE = 12
"""Words of the index that a word of the query may stand for."""
MAX_TOUCHED = 2000
"""Entries of the index that are looked at for one word."""
MAX_CANDIDATES = 128
"""Members that are scored."""
MIN_SCORE = 55.0

_WORD = re.compile(r"[^\W_]+")
Ratio = Callable[[str, str], float]


class MemberIndex:
    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._words: dict[str, frozenset[str]] = {}
        self._members: dict[str, set[str]] = {}  # word → ids
        self._grams: dict[str, set[str]] = {}  # three letters → words

    def put(self, id: str, name: str, texts: Iterable[str]) -> None:
        words = frozenset(islice((word for text in (name, *texts) for word in _split(text)), MAX_WORDS))
        self._names[id] = " ".join(_split(name))
        old = self._words.get(id, frozenset())
        self._words[id] = words
        for word in old - words:
            self._forget(word, id)
        for word in words - old:
            if word not in self._members:
                for gram in _trigrams(word):
                    self._grams.setdefault(gram, set()).add(word)
            self._members.setdefault(word, set()).add(id)

    def __contains__(self, id: str) -> bool:
        return id in self._names

    def remove(self, id: str) -> None:
        self._names.pop(id, None)
        for word in self._words.pop(id, frozenset()):
            self._forget(word, id)

    def _forget(self, word: str, id: str) -> None:
        members = self._members[word]
        members.discard(id)
        if members:
            return
        del self._members[word]
        for gram in _trigrams(word):
            words = self._grams[gram]
            words.discard(word)
            if not words:
                del self._grams[gram]

    def find(self, query: str, among: Set[str] | None = None) -> list[tuple[str, float]]:
        """Ids and scores from 0 to 100, best first, at most MAX_CANDIDATES. Only of `among`, if it is given."""
        ratio = load()
        asked = list(dict.fromkeys(_split(query)))[:MAX_QUERY_WORDS]
        like = [self._similar(word, ratio) for word in asked]
        candidates = self._candidates(like, among)
        whole = " ".join(asked)
        scored: list[tuple[str, float]] = []
        for id in candidates:
            words = self._words[id]
            covered = sum(max((score for word, score in close.items() if word in words), default=0.0) for close in like)
            score = max(covered / len(asked), ratio(whole, self._names[id]))
            if score >= MIN_SCORE:
                scored.append((id, round(score, 1)))
        scored.sort(key=lambda found: -found[1])
        return scored

    def _similar(self, word: str, ratio: Ratio) -> Mapping[str, float]:
        """Words of the index that resemble this one, with their scores."""
        shared: Counter[str] = Counter()
        touched = 0
        for found in sorted((self._grams.get(gram, _NONE) for gram in _trigrams(word)), key=len):
            shared.update(islice(found, MAX_TOUCHED))
            touched += len(found)
            if touched > MAX_TOUCHED:
                break
        scores = {
            other: 95.0 if other.startswith(word) else ratio(word, other)
            for other, _ in shared.most_common(3 * MAX_LIKE)
        }
        best = sorted((other for other in scores if scores[other] >= MIN_SCORE), key=lambda other: -scores[other])
        similar = {other: scores[other] for other in best[:MAX_LIKE]}
        if word in self._members:
            similar[word] = 100.0
        return similar

    def _candidates(self, like: list[Mapping[str, float]], among: Set[str] | None) -> Iterable[str]:
        """Members that have all words of the query, then those that have the rarest."""
        found = [set[str]().union(*(self._members[word] for word in close)) for close in like if close]
        if among is not None:
            found = [members & among for members in found]
        if not found:
            return ()
        first, *others = found
        everything = first.intersection(*others) if len(found) == len(like) else set[str]()
        if len(everything) >= MAX_CANDIDATES:
            exact = [self._members[word] for close in like for word in close if close[word] == 100.0]
            best = islice(everything.intersection(*exact), MAX_CANDIDATES)
            return islice(dict.fromkeys((*best, *islice(everything, MAX_CANDIDATES))), MAX_CANDIDATES)
        shared: Counter[str] = Counter()
        for members in sorted(found, key=len):
            shared.update(islice(members, MAX_TOUCHED))
        some = (id for id, _ in shared.most_common(MAX_CANDIDATES))
        return islice(dict.fromkeys((*everything, *some)), MAX_CANDIDATES)


@cache
def load() -> Ratio:
    """Imported at the first search: a hub starts faster without."""
    from rapidfuzz.fuzz import ratio

    return ratio


def _split(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _trigrams(word: str) -> set[str]:
    padded = f" {word} "
    return {padded[place : place + 3] for place in range(max(1, len(padded) - 2))}


_NONE: frozenset[str] = frozenset()
