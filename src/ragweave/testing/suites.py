"""The contracts of retrievers, metrics and model specs.

A retriever: what every graph relies on, and what `k` per call adds. A metric: its range, its direction, its best and worst,
and what must not matter. A model spec: what our graphs need beyond what langchain-tests checks.
"""

import asyncio
import copy
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import SkipTest

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import BaseRetriever

from ragweave.errors import UsageError
from ragweave.graphs import build_graph
from ragweave.testing.scripted import CARDS, Record, ScriptedModel
from ragweave.tools.models import chat_model

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


Case = tuple[Any, ...]
"""The metric's arguments."""


class MetricTests:
    """What a metric must keep. Subclass it and say what is perfect and what is worst.

    class TestExactMatch(MetricTests):
        metric = staticmethod(exact_match)
        perfect = [("Ada", ["Ada"])]
        worst = [("Karl", ["Ada"])]
        unordered = [1]
    """

    perfect: Sequence[Case] = ()
    """Cases that score best."""
    worst: Sequence[Case] = ()
    """Cases that score worst."""
    between: Sequence[Case] = ()
    """Cases that score neither best nor worst."""
    lowest: float = 0.0
    highest: float = 1.0
    higher_is_better: bool = True
    unordered: Sequence[int] = ()
    """Positions of the arguments whose order must not matter."""

    def metric(self, *case: Any) -> float:
        """Return the score of a case."""
        raise NotImplementedError(f"{type(self).__name__} needs a metric")

    def test_scores_lie_in_the_range(self) -> None:
        """Every score is a number from `lowest` to `highest`."""
        for case in self._cases():
            score = self.metric(*case)
            assert isinstance(score, float), f"{case}: {score!r} is not a float"
            assert self.lowest <= score <= self.highest, f"{case}: {score}"

    def test_perfect_and_worst_cases_score_so(self) -> None:
        """A perfect case has the best score that there is, a worst case the worst, any other one between."""
        assert self.perfect, "name a perfect case"
        assert self.worst, "name a worst case"
        best, least = (self.highest, self.lowest)[:: 1 if self.higher_is_better else -1]
        for cases, wanted in ((self.perfect, best), (self.worst, least)):
            for case in cases:
                assert self.metric(*case) == wanted, f"{case}: {self.metric(*case)}"
        for case in self.between:
            assert self.lowest < self.metric(*case) < self.highest, f"{case}: {self.metric(*case)}"

    def test_order_does_not_matter_where_it_must_not(self) -> None:
        """Another order of an unordered argument gives the same score."""
        for case in self._cases():
            expected = self.metric(*case)
            for index in self.unordered:
                for other in itertools.islice(itertools.permutations(case[index]), 24):
                    changed = (*case[:index], list(other), *case[index + 1 :])
                    assert self.metric(*changed) == expected, f"{changed}: not {expected}"

    def test_a_score_changes_nothing(self) -> None:
        """Scoring twice gives the same score and leaves the case as it was."""
        for case in self._cases():
            held = copy.deepcopy(case)
            assert self.metric(*case) == self.metric(*case), f"{case}"
            assert case == held, f"{held} was changed to {case}"

    def _cases(self) -> Iterator[Case]:
        return itertools.chain(self.perfect, self.worst, self.between)


class ChatModelSpecTests:
    """What a spec string must keep. Subclass it and name the spec.

    class TestMine(ChatModelSpecTests):
        spec = "mine:small?size=3"
    """

    spec: str
    """The spec, with whatever it takes to work."""
    question: str = "Who built the bridge at Alden?"
    repeats: bool = True
    """Whether the same prompt gives the same reply, as a model that decodes greedily does."""
    unknown_setting: str = "colour"
    """A setting that the spec doesn't have; empty: any is taken."""

    def model(self) -> BaseChatModel:
        """Return a new model of the spec."""
        made = chat_model(self.spec)
        assert isinstance(made, BaseChatModel), f"{type(made).__name__} is not a chat model"
        return made

    def test_a_spec_makes_a_chat_model(self) -> None:
        """The spec, white space around it or not, makes a chat model; a model is taken as it is."""
        made = self.model()
        assert chat_model(made) is made
        self.spec = f"  {self.spec}\n"
        assert type(self.model()) is type(made)

    def test_an_unknown_setting_is_refused(self) -> None:
        """A setting that it doesn't have is named in one line."""
        if not self.unknown_setting:
            raise SkipTest("this spec takes any setting")
        try:
            chat_model(f"{self.spec}{'&' if '?' in self.spec else '?'}{self.unknown_setting}=blue")
        except UsageError as error:
            assert self.unknown_setting in str(error), str(error)
            assert "\n" not in str(error)
            assert "blue" not in str(error), "the error shows the value, which may be a key"
        else:
            raise AssertionError(f"the setting {self.unknown_setting} is taken")

    def test_invoke_ainvoke_and_stream_reply(self) -> None:
        """All three ways give text, the same one where the model repeats itself."""
        model = self.model()
        said = model.invoke(self.question)
        awaited = asyncio.run(self.model().ainvoke(self.question))
        streamed = [str(chunk.text) for chunk in model.stream(self.question)]
        texts = [str(said.text), str(awaited.text), "".join(streamed)]
        assert texts[0].strip(), "the model says nothing"
        if self.repeats:
            assert texts == [texts[0]] * 3, f"invoke, ainvoke and stream differ: {texts}"

    def test_token_counts_add_up(self) -> None:
        """Reported tokens are counts and add up; a model that reports none says nothing."""
        said = self.model().invoke(self.question)
        usage = said.usage_metadata
        if usage is None:
            raise SkipTest("this model reports no tokens")
        assert usage["input_tokens"] > 0
        assert usage["output_tokens"] >= 0
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]

    def test_a_method_answers_by_it(self) -> None:
        """A graph built from the spec answers, and its ledger takes the model's counts."""
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
