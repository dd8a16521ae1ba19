"""The pool of stores that rank by their own indexes: the best passages of each ranking, with exact scores.

Only which passages are candidates depends on the store: the best by words and by vectors, and the ends of paths over
names. All of them get an exact cosine and a BM25 score, whichever ranking found them.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from ragweave.tools.knowledge.filters import (
    ALL,
    KINDS,
    Condition,
    Count,
    Every,
    Has,
    Kind,
    counted,
    keys_of,
    matches,
    shown,
)
from ragweave.tools.knowledge.search import base_scores
from ragweave.tools.knowledge.view import Query, Scores, Source, View
from ragweave.tools.retrieval.retrievers import DEPTH, Spread

ENDS = 200
"""New passages that join a pool at once: the ends of the strongest paths over names."""
_SAMPLE = 1000
"""Passages whose vectors tell how a question's cosines are spread."""


class Stored(NamedTuple):
    """A passage with its vector, if it has one."""

    document: Document
    vector: Scores | None


class VectorSample:
    """The vectors of some passages of a store, drawn again once it has twice or half as many passages."""

    def __init__(self) -> None:
        self._count, self._vectors = -1, np.zeros((0, 0), np.float32)

    def of(self, view: "CandidateView") -> NDArray[np.float32]:
        """Return the vectors of a state's sample, as rows."""
        count = view.count()
        if not self._count <= 2 * count <= 4 * self._count:
            rows = np.random.default_rng(7).permutation(view.rows(ALL))[:_SAMPLE].tolist()
            vectors = [stored.vector for stored in view.passages(rows).values()]
            self._count, self._vectors = count, np.array([row for row in vectors if row is not None], np.float32)
        return self._vectors


class CandidateView(View):
    """A state of a store that ranks by its own indexes. A method is a question to the store."""

    sample: VectorSample | None = None
    """The store's sample, which outlives this state."""

    def state(self) -> Any:
        return self.rows(ALL).tobytes()

    @abstractmethod
    def words(
        self, terms: list[str], k: int, chosen: Condition, among: Collection[int] | None = None
    ) -> Mapping[int, float]:
        """Return the BM25 scores of the k best passages that pass the filter; or of some that were read, with any filter."""

    @abstractmethod
    def near(self, vector: Scores, k: int, chosen: Condition) -> Collection[int]:
        """Return about the k nearest passages that pass the filter."""

    @abstractmethod
    def passages(self, rows: Collection[int]) -> Mapping[int, Stored]:
        """Return passages, in any order."""

    @abstractmethod
    def rows(self, chosen: Condition, limit: int | None = None) -> NDArray[np.int64]:
        """Return the passages that pass a filter, or the first of them, in the order in which they were indexed."""

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        stored = self.passages(rows) if len(rows) else {}
        return {row: stored[row].document for row in rows}

    def sources_of(self, chosen: Condition) -> list[Source]:
        keys = {value for field, _, value, _ in self.counted(chosen, "source") if field == "source"}
        return [Source(key, source.kind) for key, source in self.sources().items() if key in keys]

    def counted(self, chosen: Condition, name: str = "") -> Iterable[Count]:
        """Return the values that passages that pass a filter have, those of one field if its name is given.

        Here the passages are read; a store with a column of their values reads this alone.
        """
        wanted = Every((chosen, Has(name, "?"))) if name else chosen
        return counted(doc.metadata for doc in self.documents(self.rows(wanted).tolist()).values())

    def known_kinds(self, _name: str) -> Collection[Kind]:
        """Return the kinds that a field's values may have."""
        return KINDS

    def kinds(self, name: str, chosen: Condition) -> dict[Kind, Any]:
        kinds, known = dict[Kind, Any](), self.known_kinds(name)
        for kind in (kind for kind in KINDS if kind in known):
            rows = self.rows(Every((chosen, Has(name, "?", ((kind, 0.0),)))), 1)
            for doc in self.documents(rows.tolist()).values():
                kinds[kind] = next(shown(key) for key in keys_of(doc.metadata[name]) if key[0] == kind)
        return kinds

    def passing(self, rows: Sequence[int], chosen: Condition) -> Collection[int]:
        """Return those of some passages that pass a filter; here they are read, which a store may do without."""
        return {row for row, stored in self.passages(rows).items() if matches(chosen, stored.document.metadata)}

    def pool(self, query: Query) -> "CandidatePool":
        """Return the best passages by words and by vectors, with their scores."""
        return CandidatePool(self, query)


class CandidatePool:
    """The best passages of a store, with exact scores."""

    def __init__(self, view: CandidateView, query: Query) -> None:
        self._view, self._query = view, query
        self._stored: dict[int, Stored] = {}
        self._places: dict[int, int] = {}
        self._highest: dict[tuple[str, ...], float] = {}
        self._best = view.words(query.terms, DEPTH, query.chosen) if query.terms else {}
        self._words = dict(self._best)
        near = () if query.vector is None else view.near(query.vector, DEPTH, query.chosen)
        self._all_words = len(self._words) < DEPTH
        self.rows, self.scores = np.zeros(0, np.int64), np.zeros(0, np.float32)
        self._add([*dict.fromkeys([*self._words, *near])])

    def include(self, rows: Collection[int]) -> Collection[int]:
        """Add the first of some passages that pass the filter; return those that the pool has now."""
        new = [row for row in dict.fromkeys(rows) if row not in self._stored]
        if new and self._query.chosen != ALL:
            passing = self._view.passing(new, self._query.chosen)
            new = [row for row in new if row in passing]
        self._add(new[:ENDS])
        return [row for row in rows if row in self._places]

    def _add(self, new: Sequence[int]) -> None:
        """Read passages, and score them."""
        if not new:
            return
        self._stored |= self._view.passages(new)
        lacking = [row for row in new if row not in self._words]
        if lacking and self._query.terms and not self._all_words:
            self._words |= self._view.words(self._query.terms, len(lacking), ALL, lacking)
        self._places |= {row: place for place, row in enumerate(new, len(self._places))}
        self.rows = np.fromiter(self._places, np.int64)
        self.scores = self._scored()

    def _scored(self) -> Scores:
        words, near, spread = None, None, None
        if self._query.terms is not None:
            words = np.array([self._words.get(row, 0) for row in self._places], np.float32)
        if self._query.vector is not None:
            near = np.array([self._stored[row].vector for row in self._places], np.float32) @ self._query.vector
            spread = self._spread
        return base_scores(words, near, spread)

    @cached_property
    def _spread(self) -> Spread:
        """The spread of the scores of all passages, whether they pass the filter or not."""
        view, terms = self._view, self._query.terms or []
        best = view.words(terms, DEPTH, ALL) if self._query.chosen != ALL and terms else self._best
        sample = (view.sample or VectorSample()).of(view)
        return Spread.estimated(
            np.fromiter(best.values(), np.float32), view.count(), sample @ cast("Scores", self._query.vector)
        )

    def places(self, rows: Collection[int]) -> NDArray[np.int64]:
        return np.fromiter((self._places[row] for row in rows), np.int64)

    def words(self, terms: list[str], rows: Collection[int]) -> Scores:
        if not terms or not rows:
            return np.zeros(len(rows), np.float32)
        if tuple(terms) not in self._highest:
            self._highest[tuple(terms)] = max(self._view.words(terms, 1, ALL).values(), default=0)
        scores = self._view.words(terms, len(rows), ALL, rows)
        highest = max(self._highest[tuple(terms)], *scores.values(), 1e-9)
        return np.array([scores.get(row, 0) / highest for row in rows], np.float32)

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        return {row: self._stored[row].document for row in rows}
