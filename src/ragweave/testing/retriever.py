"""The contract of a retriever: what every graph relies on, and what `k` per call adds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from unittest import SkipTest

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from ragweave.errors import UsageError
from ragweave.graphs.build import build_graph
from ragweave.testing.scripted import CARDS, Record, ScriptedModel

_ODD = ("?!", "zqxv", "\ud800", "x" * 5000, "\x00", "橋を建てたのは誰ですか", "of the and", '"AND" (OR')


class RetrieverTests:
    """What a retriever must keep. Subclass it, return a retriever over `documents`.

    class TestMine(RetrieverTests):
        def retriever(self):
            return MyRetriever.from_documents(self.documents)
    """

    documents: Sequence[Document] = CARDS
    """Passages to index."""
    query: str = "Who built the bridge at Alden?"
    finds: str = "doc0"
    """Id of a passage that must be among those found."""
    takes_k: bool = True
    """Whether it takes `k` a call, as ragweave's own do."""

    def retriever(self) -> BaseRetriever:
        """Return a new retriever over `documents`."""
        raise NotImplementedError(f"{type(self).__name__} needs a retriever method")

    def test_the_passage_is_found(self) -> None:
        """The query finds the passage that answers it; each passage has an id, and no two have the same."""
        found = _ids(self.retriever().invoke(self.query))
        assert self.finds in found
        assert all(found), f"a passage has no id: {found}"
        assert len(set(found)) == len(found), f"ids repeat: {found}"

    def test_ranks_count_up_and_scores_do_not_rise(self) -> None:
        """`metadata` says rank 0, 1, 2, …; scores, where there are any, fall with the rank."""
        found = self.retriever().invoke(self.query)
        if self.takes_k:
            assert [doc.metadata.get("rank") for doc in found] == list(range(len(found)))
        scores = [doc.metadata["score"] for doc in found if "score" in doc.metadata]
        assert len(scores) in (0, len(found)), "some passages have no score"
        assert scores == sorted(scores, reverse=True), f"scores rise: {scores}"

    def test_k_bounds_a_call(self) -> None:
        """A call finds at most its `k`, and the best of them are those of a larger `k`."""
        retriever = self._with_k()
        most = _ids(retriever.invoke(self.query, k=len(self.documents) + 5))
        for k in (1, 2, 3):
            found = _ids(retriever.invoke(self.query, k=k))
            assert found == most[:k], f"k={k} finds {found}, a larger k {most}"

    def test_k_must_be_a_count(self) -> None:
        """A `k` that is not a positive integer is refused, and the error names it."""
        retriever = self._with_k()
        for k in (0, -1, 1.5, "3"):
            try:
                retriever.invoke(self.query, k=k)
            except UsageError as error:
                assert "k" in str(error).split(), f"the error doesn't name k: {error}"
            else:
                raise AssertionError(f"k={k!r} is taken")

    def test_sync_equals_async_equals_batch(self) -> None:
        """`invoke`, `ainvoke` and `batch` find the same."""
        retriever = self.retriever()
        found = retriever.invoke(self.query)
        assert asyncio.run(retriever.ainvoke(self.query)) == found
        assert retriever.batch([self.query, self.query]) == [found, found]

    def test_the_same_query_finds_the_same(self) -> None:
        """Nothing but index and query decides: not the calls before, not the instance."""
        retriever = self.retriever()
        first = retriever.invoke(self.query)
        retriever.invoke("Which river carries ice?")
        assert retriever.invoke(self.query) == first
        assert self.retriever().invoke(self.query) == first

    def test_threads_find_the_same(self) -> None:
        """Calls from several threads don't disturb each other."""
        retriever = self.retriever()
        queries = [self.query, "Which river carries ice?"] * 8
        expected = [retriever.invoke(query) for query in queries]
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(retriever.invoke, queries)) == expected

    def test_a_blank_query_finds_nothing(self) -> None:
        """An empty query, or one of white space, gives an empty list."""
        self._with_k()
        for query in ("", " \n\t"):
            assert self.retriever().invoke(query) == [], repr(query)

    def test_no_query_is_an_error(self) -> None:
        """Whatever a model writes is a query."""
        retriever = self.retriever()
        for query in _ODD:
            assert all(isinstance(doc, Document) for doc in retriever.invoke(query)), repr(query)

    def test_what_it_gives_can_be_changed(self) -> None:
        """A caller that changes a passage changes nothing in the index."""
        retriever = self.retriever()
        before = [doc.model_copy(deep=True) for doc in retriever.invoke(self.query)]
        for doc in retriever.invoke(self.query):
            doc.metadata["changed"] = True
        assert retriever.invoke(self.query) == before

    def test_it_serves_a_method(self) -> None:
        """A graph over it reads `k` passages at most, its best ones."""
        best = _ids(self.retriever().invoke(self.query))
        model = ScriptedModel(script=["Ada Brenner"]).recording(Record())
        graph = build_graph("concat", model=model, retriever=self.retriever(), k=2)
        out = graph.invoke({"question": self.query})
        assert _ids(out["passages"]) == best[:2]
        assert out["answer"] == "Ada Brenner"

    def _with_k(self) -> BaseRetriever:
        if not self.takes_k:
            raise SkipTest("this retriever takes no k a call")
        return self.retriever()


def _ids(documents: Sequence[Document]) -> list[str | None]:
    return [doc.id for doc in documents]
