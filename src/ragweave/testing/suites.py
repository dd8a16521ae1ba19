"""The contracts of retrievers and model specs.

Retrievers: what every graph relies on, and `k` per call. Model specs: what graphs need beyond what langchain-tests
checks.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import SkipTest

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import BaseRetriever

from ragweave.errors import UsageError
from ragweave.graphs import build_graph
from ragweave.testing.scripted import CARDS, Record, ScriptedModel
from ragweave.tools.providers import chat_model

_ODD = ("?!", "zqxv", "\ud800", "x" * 5000, "\x00", "橋を建てたのは誰ですか", "of the and", '"AND" (OR')


class RetrieverTests:
    """What every retriever must do. Subclass it and return a retriever over `documents`.

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
    """Whether each call takes a `k`, as ragweave's own retrievers do."""

    def retriever(self) -> BaseRetriever:
        """Return a new retriever over `documents`."""
        raise NotImplementedError(f"{type(self).__name__} needs a retriever method")

    def test_the_passage_is_found(self) -> None:
        """The query finds the passage that answers it; each passage has an id, and no two have the same."""
        ids = _ids(self.retriever().invoke(self.query))
        assert self.finds in ids
        assert all(ids), f"a passage has no id: {ids}"
        assert len(set(ids)) == len(ids), f"ids repeat: {ids}"

    def test_ranks_count_up_and_scores_do_not_rise(self) -> None:
        """`metadata` says rank 0, 1, 2, …; scores, where there are any, fall with the rank."""
        docs = self.retriever().invoke(self.query)
        if self.takes_k:
            assert [doc.metadata.get("rank") for doc in docs] == list(range(len(docs)))
        scores = [doc.metadata["score"] for doc in docs if "score" in doc.metadata]
        assert len(scores) in (0, len(docs)), "some passages have no score"
        assert scores == sorted(scores, reverse=True), f"scores rise: {scores}"

    def test_k_bounds_a_call(self) -> None:
        """A call finds at most `k` passages, and they are the first `k` of a larger search."""
        retriever = self._with_k()
        larger = _ids(retriever.invoke(self.query, k=len(self.documents) + 5))
        for k in (1, 2, 3):
            ids = _ids(retriever.invoke(self.query, k=k))
            assert ids == larger[:k], f"k={k} finds {ids}, a larger k {larger}"

    def test_k_must_be_a_count(self) -> None:
        """A `k` that is not a positive integer raises an error that names it."""
        retriever = self._with_k()
        for k in (0, -1, 1.5, "3"):
            try:
                retriever.invoke(self.query, k=k)
            except UsageError as error:
                assert "k" in str(error).split(), f"the error doesn't name k: {error}"
            else:
                raise AssertionError(f"k={k!r} raises no error")

    def test_sync_equals_async_equals_batch(self) -> None:
        """`invoke`, `ainvoke` and `batch` find the same."""
        retriever = self.retriever()
        docs = retriever.invoke(self.query)
        assert asyncio.run(retriever.ainvoke(self.query)) == docs
        assert retriever.batch([self.query, self.query]) == [docs, docs]

    def test_the_same_query_finds_the_same(self) -> None:
        """The result depends on index and query only, not on earlier calls or the instance."""
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
        """Any text is a valid query."""
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


class ChatModelSpecTests:
    """What every model spec must do. Subclass it and name the spec.

    class TestMine(ChatModelSpecTests):
        spec = "mine:small?size=3"
    """

    spec: str
    """The spec, with the settings that it needs."""
    question: str = "Who built the bridge at Alden?"
    repeats: bool = True
    """Whether the same prompt gives the same reply, as a model that decodes greedily does."""
    unknown_setting: str = "colour"
    """A setting that the spec doesn't have; empty if it accepts any."""

    def model(self) -> BaseChatModel:
        """Return a new model of the spec."""
        model = chat_model(self.spec)
        assert isinstance(model, BaseChatModel), f"{type(model).__name__} is not a chat model"
        return model

    def test_a_spec_makes_a_chat_model(self) -> None:
        """A spec makes a chat model, with white space around it too; a model is returned as it is."""
        model = self.model()
        assert chat_model(model) is model
        self.spec = f"  {self.spec}\n"
        assert type(self.model()) is type(model)

    def test_an_unknown_setting_is_refused(self) -> None:
        """A setting that the spec doesn't have raises an error of one line that names it."""
        if not self.unknown_setting:
            raise SkipTest("this spec accepts any setting")
        try:
            chat_model(f"{self.spec}{'&' if '?' in self.spec else '?'}{self.unknown_setting}=blue")
        except UsageError as error:
            assert self.unknown_setting in str(error), str(error)
            assert "\n" not in str(error)
            assert "blue" not in str(error), "the error shows the value, which may be a key"
        else:
            raise AssertionError(f"the setting {self.unknown_setting} raises no error")

    def test_invoke_ainvoke_and_stream_reply(self) -> None:
        """All three give text, and the same text if the model `repeats`."""
        model = self.model()
        invoked = model.invoke(self.question)
        awaited = asyncio.run(self.model().ainvoke(self.question))
        streamed = [str(chunk.text) for chunk in model.stream(self.question)]
        texts = [str(invoked.text), str(awaited.text), "".join(streamed)]
        assert texts[0].strip(), "the reply is empty"
        if self.repeats:
            assert texts == [texts[0]] * 3, f"invoke, ainvoke and stream differ: {texts}"

    def test_token_counts_add_up(self) -> None:
        """The input and output tokens that a model reports add up to its total."""
        usage = self.model().invoke(self.question).usage_metadata
        if usage is None:
            raise SkipTest("this model reports no tokens")
        assert usage["input_tokens"] > 0
        assert usage["output_tokens"] >= 0
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]

    def test_a_method_answers_by_it(self) -> None:
        """A graph built from the spec answers, and its usage holds the model's own counts."""
        given: Any = {"question": self.question, "passages": list(CARDS[:2])}
        graph = build_graph("concat", model=self.model())
        out = graph.invoke(given)
        assert out["status"] in ("answered", "unknown")
        assert out["usage"]["calls"] == 1
        assert out["usage"]["input_tokens"] > 0
        counts = self.model().invoke(self.question).usage_metadata is not None
        assert out["usage"]["estimated"] is not counts
        if self.repeats:
            assert asyncio.run(graph.ainvoke(given))["answer"] == out["answer"]
