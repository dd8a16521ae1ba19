"""Text flow, sampling, log-probabilities, cells, prefixes: properties without a model."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import BaseModel

from ragweave.errors import ModelError
from ragweave.llamacpp.binding import _listed_cores, physical_cores
from ragweave.llamacpp.cache import KVCells, PrefixCache, common_prefix
from ragweave.llamacpp.decoder import Slot, portions
from ragweave.llamacpp.job import ScoreJob
from ragweave.llamacpp.prompt import structured
from ragweave.llamacpp.sampling import Sampler, Sampling, best, log_normaliser, logprob_of
from ragweave.llamacpp.vocabulary import TextFlow

rows = st.lists(st.floats(-30, 30, width=32, allow_subnormal=False), min_size=1, max_size=300).map(
    lambda values: np.array(values, np.float32)
)
cuts = st.lists(st.integers(0, 60), max_size=6)


def flow(data: bytes, places: list[int], stops: list[str]) -> tuple[str, list[str]]:
    made = TextFlow(stops)
    edges = sorted({0, len(data), *(p for p in places if p < len(data))})
    shown = [made.push(data[a:b]) for a, b in pairwise(edges) if not made.stopped]
    return "".join(shown) + made.flush(), shown


@given(st.text(max_size=30), cuts, st.lists(st.text(min_size=1, max_size=3), max_size=3))
def test_text_is_whole_and_cut_at_the_first_stop(text: str, places, stops: list[str]) -> None:
    got, shown = flow(text.encode(), places, stops)
    found = [text.index(stop) for stop in stops if stop in text]
    assert got == text[: min(found, default=len(text))]
    # What was shown never has to be taken back.
    assert got.startswith("".join(shown))


def test_bytes_that_are_no_text_become_replacement_characters() -> None:
    assert flow(b"a\xff\xe6\xbc", [1, 2], []) == ("a��", ["a", "�", ""])


@given(rows)
def test_log_probabilities_sum_to_one(row) -> None:
    total = sum(math.exp(logprob_of(row, token)) for token in range(row.size))
    assert total == pytest.approx(1, abs=1e-4)
    assert log_normaliser(row) >= row.max() - 1e-6


@given(rows, st.integers(1, 400))
def test_best_is_a_stable_sort(row, count: int) -> None:
    got = best(row, count)
    assert row[got].tolist() == sorted(row.tolist(), reverse=True)[:count]
    assert len(set(got.tolist())) == min(count, row.size)


@given(rows, st.floats(0.01, 1), st.integers(0, 20), st.floats(0.1, 2), st.integers(0, 99))
def test_a_drawn_token_is_one_of_those_allowed(row, top_p, top_k, temperature, seed) -> None:
    token = Sampler(Sampling(temperature, top_p, top_k, seed)).pick(row)
    assert 0 <= token < row.size
    order = best(row, row.size)
    if top_k:
        assert row[token] >= row[order[min(top_k, row.size) - 1]]
        order = order[:top_k]
    weights = np.exp((row[order] - row.max()).astype(np.float64) / temperature)
    # The tokens better than the one drawn do not reach top_p yet.
    better = weights[row[order] > row[token]].sum() / weights.sum()
    assert better <= top_p + 1e-6


def test_draws_follow_the_distribution() -> None:
    row = np.log(np.array([0.5, 0.3, 0.2], np.float32))
    sampler = Sampler(Sampling(temperature=1.0, seed=5))
    counts = np.bincount([sampler.pick(row) for _ in range(20_000)], minlength=3) / 20_000
    assert counts == pytest.approx([0.5, 0.3, 0.2], abs=0.015)


def test_a_row_without_numbers_is_an_error() -> None:
    for bad in (np.nan, np.inf):
        with pytest.raises(ModelError, match="NaN"):
            Sampler(Sampling()).pick(np.array([0, bad, 1], np.float32))


steps = st.lists(
    st.tuples(
        st.sampled_from(["take", "share", "cut"]),
        st.integers(0, 3),
        st.integers(0, 3),
        st.integers(0, 9),
    ),
    max_size=40,
)


@given(steps)
def test_cells_are_counted_once_however_many_share_them(program) -> None:
    cells, size = KVCells(30, 4), 30
    model: list[list[object]] = [[] for _ in range(4)]
    for action, one, other, n in program:
        if action == "take" and cells.free >= n:
            cells.take(one, n)
            model[one] += [object() for _ in range(n)]
        elif action == "share" and one != other and not model[other]:
            n = min(n, len(model[one]))
            cells.share(one, other, n)
            model[other] = model[one][:n]
        elif action == "cut":
            cells.cut(one, n)
            del model[one][n:]
        held = {id(cell) for sequence in model for cell in sequence}
        assert cells.free == size - len(held)
        assert [cells.length(i) for i in range(4)] == [len(sequence) for sequence in model]


@given(st.lists(st.integers(1, 900), min_size=1, max_size=12), st.integers(12, 512))
def test_a_batch_is_shared_fairly(pending: list[int], budget: int) -> None:
    slots = [
        Slot(ScoreJob([0] * size, [1], lambda _: None), sequence=i, age=i)
        for i, size in enumerate(pending)
    ]
    plan = portions(slots, budget)
    given_to = {slot.sequence: portion for slot, portion in plan}
    assert len(given_to) == len(plan)
    assert all(0 < portion <= pending[i] for i, portion in given_to.items())
    # Nothing is left over while someone waits.
    assert sum(given_to.values()) == min(budget, sum(pending))
    writing = [i for i, size in enumerate(pending) if size == 1]
    assert all(given_to[i] == 1 for i in writing)
    prompts = [i for i, size in enumerate(pending) if size > 1]
    if prompts:
        rest = budget - len(writing)
        assert given_to.get(prompts[0], 0) >= min(pending[prompts[0]], rest // 2)


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_common_is_the_longest_common_beginning(left: list[int], right: list[int]) -> None:
    n = common_prefix(np.array(left, np.int32), np.array(right, np.int32))
    assert left[:n] == right[:n]
    assert left[n : n + 1] != right[n : n + 1] or n in (len(left), len(right))


def test_the_oldest_prefix_goes_first() -> None:
    kept = PrefixCache()
    for sequence in range(3):
        kept.add(sequence, np.array([sequence, 1, 2], np.int32))
    kept.use(0)
    assert kept.find(np.array([2, 1, 9], np.int32)) == (2, 2)
    assert [kept.oldest(excluding=1), kept.oldest(), kept.oldest(), kept.oldest()] == [
        2,
        1,
        0,
        None,
    ]


def test_cores_are_counted_not_threads() -> None:
    listing = "".join(
        f"processor : {i}\nphysical id : {i // 8}\ncore id : {i % 4}\n\n" for i in range(16)
    )
    assert _listed_cores(listing) == 8
    assert physical_cores() >= 1


class Year(BaseModel):
    """A schema."""

    year: int = 0


YEAR = {"title": "Year", "type": "object", "properties": {"year": {"type": "integer"}}}


class Said(BaseChatModel):
    """A model that replies with one text, whole or cut."""

    text: str
    reason: str = "length"

    @property
    def _llm_type(self) -> str:
        return "said"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:  # fmt: skip
        message = AIMessage(self.text, response_metadata={"finish_reason": self.reason})
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
        for letter in self.text:
            yield ChatGenerationChunk(message=AIMessageChunk(letter))
        info = {"finish_reason": self.reason}
        yield ChatGenerationChunk(message=AIMessageChunk(""), generation_info=info)


def held(model: BaseChatModel, schema: Any, *, include_raw: bool = False) -> Any:
    return structured(model, schema, "json_schema", include_raw=include_raw, options={})


@pytest.mark.parametrize("schema", [YEAR, Year])
@pytest.mark.parametrize("text", ['{ "year": 194', '{ "year": ', "{", ""])
def test_a_structured_reply_that_was_cut_is_an_error(schema: Any, text: str) -> None:
    model = Said(text=text)
    with pytest.raises(OutputParserException, match="max_tokens"):
        held(model, schema).invoke("x")
    with pytest.raises(OutputParserException, match="max_tokens"):
        list(held(model, schema).stream("x"))
    raw = held(model, schema, include_raw=True).invoke("x")
    assert raw["parsed"] is None
    assert isinstance(raw["parsing_error"], OutputParserException)
    with pytest.raises(OutputParserException, match="not JSON"):
        held(Said(text=text, reason="stop"), schema).invoke("x")


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_a_whole_structured_reply_is_read_whatever_ended_it(reason: str) -> None:
    model = Said(text='{"year": 1945}', reason=reason)
    assert held(model, YEAR).invoke("x") == {"year": 1945}
    assert held(model, Year).invoke("x") == Year(year=1945)
    assert list(held(model, YEAR).stream("x"))[-1] == {"year": 1945}
    tabbed = held(Said(text='{"year": 1945, "why": "\t"}', reason=reason), YEAR)
    assert tabbed.invoke("x")["why"] == "\t"
    number = Said(text="194", reason=reason)
    schema = {"title": "Year", "type": "integer"}
    if reason == "stop":
        assert held(number, schema).invoke("x") == 194
    else:
        with pytest.raises(OutputParserException):
            held(number, schema).invoke("x")
