"""Fuzzy search over what members say of themselves.

An index of words keeps the cost from growing with the number of members: the words of a query are matched against
words that share three letters with them, and only the members that have the best of those are scored.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cache
from itertools import islice, product

MAX_WORDS = 64
"""Words of one member that are searched."""
MAX_QUERY_WORDS = 8
MAX_LIKE = 12
"""Words of the index that a word of the query may stand for."""
MAX_TOUCHED = 600
"""Entries of the index that are looked at for one word."""
MAX_CHOICES = 64
"""Ways to read a query of several words that are tried."""
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
        self._facets: dict[str, frozenset[tuple[str, str]]] = {}
        self._having: dict[tuple[str, str], set[str]] = {}  # facet → ids

    def put(self, id: str, name: str, texts: Iterable[str], facets: Mapping[str, str]) -> None:
        """`facets` are what is filtered by; their values are compared without case."""
        self._put_facets(id, frozenset((name, value.casefold()) for name, value in facets.items() if value))
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
        self._put_facets(id, frozenset())
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

    def _put_facets(self, id: str, facets: frozenset[tuple[str, str]]) -> None:
        old = self._facets.get(id, frozenset())
        for facet in old - facets:
            self._having[facet].discard(id)
            if not self._having[facet]:
                del self._having[facet]
        for facet in facets - old:
            self._having.setdefault(facet, set()).add(id)
        self._facets[id] = facets
        if not facets:
            del self._facets[id]

    def having(self, facets: Mapping[str, str]) -> Set[str]:
        """Ids that have all these facets; of none, every id."""
        if not facets:
            return self._names.keys()
        sets = [self._having.get((name, value.casefold()), _NONE) for name, value in facets.items()]
        first, *others = sorted(sets, key=len)
        return first.intersection(*others)

    def find(self, query: str, among: Set[str] | None = None) -> list[tuple[str, float]]:
        """Ids and scores from 0 to 100, best first, at most MAX_CANDIDATES. Only of `among`, if it is given."""
        ratio = load()
        asked = list(dict.fromkeys(_split(query)))[:MAX_QUERY_WORDS]
        whole = " ".join(asked)
        like = [self._similar(word, ratio) for word in asked]
        scored: list[tuple[float, float, str]] = []
        for id in self._candidates(like, among):
            words = self._words[id]
            covered = sum(max((close[word] for word in close.keys() & words), default=0.0) for close in like)
            named = ratio(whole, self._names[id])
            score = max(covered / len(asked), named)
            if score >= MIN_SCORE:
                scored.append((round(score, 1), named, id))
        scored.sort(reverse=True)
        return [(id, score) for score, _, id in scored]

    def _similar(self, word: str, ratio: Ratio) -> Mapping[str, float]:
        """Words of the index that resemble this one, with their scores, best first."""
        shared: Counter[str] = Counter()
        touched = 0
        for words in sorted((self._grams.get(gram, _NONE) for gram in _trigrams(word)), key=len):
            shared.update(islice(words, MAX_TOUCHED - touched))
            touched += len(words)
            if touched >= MAX_TOUCHED:
                break
        scores = {
            other: 95.0 if other.startswith(word) else ratio(word, other)
            for other, _ in shared.most_common(3 * MAX_LIKE)
        }
        if word in self._members:
            scores[word] = 100.0
        best = sorted((other for other in scores if scores[other] >= MIN_SCORE), key=lambda other: -scores[other])
        return {other: scores[other] for other in best[:MAX_LIKE]}

    def _candidates(self, like: list[Mapping[str, float]], among: Set[str] | None) -> Iterable[str]:
        """Members that have all words of the query, then those that have the rarest of them."""
        candidates: dict[str, None] = {}
        if all(like):
            choices = islice(product(*like), MAX_CHOICES)
            for words in sorted(
                choices, key=lambda words: -sum(close[word] for close, word in zip(like, words, strict=True))
            ):
                self._collect(candidates, words, among)
                if len(candidates) >= MAX_CANDIDATES:
                    return candidates
        for close in sorted(like, key=lambda close: sum(len(self._members[word]) for word in close)):
            for word in close:
                self._collect(candidates, (word,), among)
                if len(candidates) >= MAX_CANDIDATES:
                    return candidates
        return candidates

    def _collect(self, candidates: dict[str, None], words: Sequence[str], among: Set[str] | None) -> None:
        """Add the members that have all these words, up to the limit."""
        first, *others = sorted((self._members[word] for word in words), key=len)
        members = first.intersection(*others) if others else first
        if among is not None:
            members = members & among
        candidates.update(dict.fromkeys(islice(members, MAX_CANDIDATES - len(candidates))))


@cache
def load() -> Ratio:
    """Imported at the first search: a hub starts faster without."""
    from rapidfuzz.fuzz import ratio

    return ratio


def _split(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _trigrams(word: str) -> set[str]:
    padded = f" {word} "
    return {padded[start : start + 3] for start in range(max(1, len(padded) - 2))}


_NONE: frozenset[str] = frozenset()
