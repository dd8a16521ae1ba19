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
from ragweave.llamacpp.cache import KVCells, SequencePool
from ragweave.llamacpp.decoder import Slot, batches, portions
from ragweave.llamacpp.job import Finished, GenerationJob, Piece, Request, ScoreJob
from ragweave.llamacpp.prefix import PrefixCache, Shelf, common_prefix
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


@pytest.mark.parametrize(
    "row", [[0, math.nan, 1], [0, math.inf, 1], [-math.inf, 0, 1], [-math.inf] * 3]
)
def test_a_log_probability_that_is_no_number_is_an_error(row: list[float]) -> None:
    with pytest.raises(ModelError, match="may be damaged"):
        logprob_of(np.array(row, np.float32), 0)


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


class Windowed:
    """What a sequence pool needs of a core; no prefix below `shortest` tokens can be reused."""

    n_ctx, n_sequences, can_share, window = 64, 2, True, 16
    shortest = 0

    def clear(self) -> None: ...

    def cut(self, sequence: int, keep: int = 0) -> None: ...

    def least(self, sequence: int) -> int:
        return self.shortest


@pytest.mark.parametrize(("shortest", "kept"), [(0, True), (10, True), (11, False)])
def test_a_sequence_that_serves_no_prompt_is_not_kept(shortest: int, kept: bool) -> None:
    core, tokens = Windowed(), np.arange(10, dtype=np.int32)
    core.shortest = shortest
    pool = SequencePool(core, 64, Shelf())  # type: ignore[arg-type]
    sequence = pool.acquire(-1, 0)
    assert sequence is not None
    pool.take(sequence, 12)
    pool.keep(sequence, tokens, len(tokens), ())
    assert pool.free == (54 if kept else 64)
    assert pool.find(tokens) == ((sequence, 10) if kept else (-1, 0))


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


@given(st.lists(st.one_of(st.just(1), st.integers(1, 200)), max_size=150), st.booleans())
def test_replies_and_prompts_are_computed_apart_from_a_tile_on(
    sizes: list[int], apart: bool
) -> None:
    plan = [
        (Slot(ScoreJob([0] * size, [1], lambda _: None), sequence=i, age=i), size)
        for i, size in enumerate(sizes)
    ]
    parts = batches(plan, apart=apart)
    assert sorted((slot.sequence, size) for part in parts for slot, size in part) == [
        *enumerate(sizes)
    ]
    if not apart or sum(sizes) < 64:
        assert len(parts) <= 1
        return
    for part in parts:
        replying = [size == 1 for _, size in part]
        assert part and (not any(replying) or (all(replying) and len(part) < 64))


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_common_is_the_longest_common_beginning(left: list[int], right: list[int]) -> None:
    n = common_prefix(np.array(left, np.int32), np.array(right, np.int32))
    assert left[:n] == right[:n]
    assert left[n : n + 1] != right[n : n + 1] or n in (len(left), len(right))


@given(
    st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=6), max_size=12), st.integers(1, 9)
)
def test_the_shelf_holds_what_was_used_last_within_its_limit(
    sequences: list[list[int]], limit: int
) -> None:
    shelf = Shelf(limit)
    for one in sequences:
        tokens, state = np.array(one, np.int32), np.zeros(len(one), np.uint8)
        before = shelf.find(tokens)[1]
        assert shelf.holds(tokens) == (before == len(one))
        if not shelf.holds(tokens):
            shelf.put(tokens, state)
        assert shelf.size <= limit
        key, length = shelf.find(tokens)
        assert length == max(before, len(one) if len(one) <= limit else 0) or shelf.size == limit
        if length:
            found, kept = shelf.get(key)
            assert list(found[:length]) == one[:length]
            assert len(kept) == len(found)


def test_the_shelf_drops_what_was_used_least_recently() -> None:
    shelf = Shelf(8)
    first, second, third = (np.array([n, n, n], np.int32) for n in range(3))
    for tokens in (first, second):
        shelf.put(tokens, np.full(4, tokens[0], np.uint8))
    assert shelf.holds(first)
    shelf.put(third, np.full(4, 2, np.uint8))
    assert [shelf.find(tokens)[1] for tokens in (first, second, third)] == [3, 0, 3]
    longer = np.array([0, 0, 0, 5], np.int32)
    assert not shelf.holds(longer)
    shelf.put(longer, np.full(4, 9, np.uint8))
    assert shelf.size == 8
    tokens, state = shelf.get(shelf.find(first)[0])
    assert (list(tokens), state[0]) == ([0, 0, 0, 5], 9)


def test_a_copy_without_its_beginning_serves_long_prefixes_only() -> None:
    shelf = Shelf(20)
    whole, windowed = np.arange(10, dtype=np.int32), np.arange(12, dtype=np.int32)
    shelf.put(whole, np.zeros(4, np.uint8))
    shelf.put(windowed, np.ones(4, np.uint8), least=11)
    found = {n: shelf.find(windowed[:n])[1] for n in (5, 10, 11, 12)}
    assert found == {5: 5, 10: 10, 11: 11, 12: 12}, "a shorter prefix has the copy that is whole"
    assert [shelf.get(shelf.find(windowed[:n])[0])[1][0] for n in (10, 11)] == [0, 1]
    other = np.array([7, 8, 9, 1], np.int32)
    shelf.put(other, np.ones(4, np.uint8), least=3)
    assert shelf.holds(other) and not shelf.holds(other[:2])


def test_the_oldest_prefix_goes_first() -> None:
    kept = PrefixCache()
    for sequence in range(3):
        kept.add(sequence, np.array([sequence, 1, 2], np.int32))
    kept.use(0)
    assert kept.find(np.array([2, 1, 9], np.int32)) == (2, 2)
    left = [kept.oldest(excluding=1), kept.oldest(), kept.oldest(), kept.oldest()]
    assert [one and (one[0], list(one[1])) for one in left] == [
        (2, [2, 1, 2]),
        (1, [1, 1, 2]),
        (0, [0, 1, 2]),
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


class Pieces:
    """A vocabulary of these pieces; the first ends a reply."""

    def __init__(self, *pieces: str | bytes) -> None:
        self._pieces = [b"", *(p.encode() if isinstance(p, str) else p for p in pieces)]

    def ends(self, token: int) -> bool:
        return token == 0

    def piece(self, token: int) -> bytes:
        return self._pieces[token]

    def text(self, token: int) -> str:
        return self._pieces[token].decode("utf-8", "replace")

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Return what is forced: a closing mark, and white space behind it."""
        del special
        return [self._pieces.index(b"</think>"), self._pieces.index(b"\n\n")]

    def row(self, token: int) -> Any:
        row = np.zeros(len(self._pieces), np.float32)
        row[token] = 5.0
        return row


def replied(
    *said: str | bytes, stream: bool, thinks: bool = False, **settings: Any
) -> tuple[str, list[str], Finished]:
    """Generate; return the reply's text, the tokens of its log-probabilities, and its end."""
    words = Pieces(*dict.fromkeys((*said, "</think>", "\n\n")))
    events: list[Any] = []
    request = Request(logprobs=True, **settings)
    marks = ("<think>", "</think>") if thinks else None
    job = GenerationJob([1], request, words, events.append, stream=stream, marks=marks)  # type: ignore[arg-type]
    tokens = [words._pieces.index(p.encode() if isinstance(p, str) else p) for p in said]
    for token in [*tokens, *[0] * 9]:
        if job.absorb(words.row(token)):
            break
    *pieces, end = events
    pieces = pieces if stream else list(end.pieces)
    assert all(isinstance(one, Piece) for one in pieces)
    listed = [bytes(one.logprob["bytes"]).decode("latin-1") for one in pieces if one.logprob]
    return "".join(one.text for one in pieces) + end.text, listed, end


both_ways = pytest.mark.parametrize("stream", [False, True])


@both_ways
def test_no_log_probability_is_of_a_token_of_the_stop_sequence(stream: bool) -> None:
    said = ("a", "b", "\n", "Q", ":", "c")
    text, tokens, end = replied(*said, stream=stream, stops=("\nQ:",))
    assert (text, tokens, end.reason) == ("ab", ["a", "b"], "stop")
    text, tokens, _ = replied("a", "b.\n", "Q", ":", stream=stream, stops=("\nQ:",))
    assert (text, tokens) == ("ab.", ["a", "b.\n"])
    text, tokens, _ = replied("\n", "Q", ":", stream=stream, stops=("\nQ:",))
    assert (text, tokens) == ("", [])
    text, tokens, end = replied("a", "\n", "Q", stream=stream, stops=("\nQ:",), max_tokens=3)
    assert (text, tokens, end.reason) == ("a\nQ", ["a", "\n", "Q"], "length")
    text, tokens, _ = replied("a", b"\xc3", b"\xa9", "<", "b", stream=stream)
    assert (text, tokens) == ("aé<b", ["a", "\xc3", "\xa9", "<", "b"])


@both_ways
def test_what_ends_a_thinking_block_is_no_part_of_the_reply(stream: bool) -> None:
    settings: dict[str, Any] = {"stream": stream, "thinks": True, "max_tokens": 2}
    # Two tokens of thought are all: the next two are forced, whatever the model would choose.
    text, tokens, end = replied(*"hmxyabc", thinking_tokens=2, **settings)
    assert (text, tokens, end.reason, end.thought) == ("ab", ["a", "b"], "length", "hm")
    text, tokens, end = replied("h", "</think>", "\n\n", " ", "a", "b", "c", **settings)
    assert (text, tokens, end.reason) == ("ab", ["a", "b"], "length")
    assert end.reply_tokens == 6


@both_ways
def test_a_reply_of_nothing_but_space_behind_the_thoughts_ends(stream: bool) -> None:
    said = ("h", "</think>", *[" "] * 40)
    text, tokens, end = replied(*said, stream=stream, thinks=True, max_tokens=5)
    assert (text, tokens, end.reason) == ("", [], "length")
    assert end.reply_tokens < 30
