"""What a span encoder reads: every sentence is scored exactly once, whatever the lengths."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragweave.errors import UsageError
from ragweave.trained.span_reading import ASKED, NOBODY, Reader, Sheet, Text, cuts, features

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.tiny_parts import word_tokenizer

from ragweave.trained.span_network import batch_of, groups_of

WORDS = ["who", "wrote", "hamlet", "it", "was", "a", "poet", "in", "london", "."]
texts = st.lists(st.sampled_from([*WORDS, "unseen", ""]), max_size=40).map(" ".join)
passages = st.builds(Text, texts, st.lists(texts, min_size=1, max_size=8))


@pytest.fixture(scope="module")
def tokenizer():
    return word_tokenizer(set(WORDS))


@given(
    st.integers(1, 60).flatmap(
        lambda room: st.tuples(st.just(room), st.lists(st.integers(1, room)))
    )
)
def test_windows_hold_each_sentence_once_and_fit(drawn):
    room, sizes = drawn
    found = list(cuts(sizes, room))
    assert [at for cut in found for at in range(cut.start, cut.end)] == list(range(len(sizes)))
    for cut in found:
        lead = sizes[cut.start - 1] if cut.lead else 0
        assert cut.end > cut.start
        assert lead + sum(sizes[cut.start : cut.end]) <= room
        assert lead * 2 < room
        assert cut.start or not cut.lead
    for first, second in pairwise(found):
        lead = sizes[first.start - 1] if first.lead else 0
        assert lead + sum(sizes[first.start : second.start + 1]) > room


@settings(deadline=None)
@given(texts, st.lists(passages, min_size=1, max_size=4), st.integers(16, 64))
def test_every_sentence_is_scored_exactly_once(question, found, limit):
    reader = Reader(word_tokenizer(set(WORDS)), limit)
    read = reader.read(Sheet(question, found))
    count = sum(len(one.sentences) for one in found)
    assert len(read.features) == count
    seen = [sorted({at for at in one.owners if at >= 0}) for one in read.windows]
    assert [at for window in seen for at in window] == list(range(count))
    for window in read.windows:
        assert len(window.ids) == len(window.owners) <= limit
        assert window.owners[-1] == window.owners[0] == NOBODY
        assert all(one == ASKED for one in window.owners[1 : window.second - 1])
    batch = batch_of([read, read], 0)
    assert batch.members.shape == (2 * count, batch.ids.shape[1])
    assert bool(batch.members.any(-1).all())
    groups = list(groups_of([read, read, read], 2))
    assert sorted(at for group in groups for at in group) == [0, 1, 2]


def test_a_window_as_the_model_sees_it(tokenizer):
    sheet = Sheet("who wrote hamlet", [Text("poet", ["it was a poet.", "in london."])])
    window = Reader(tokenizer, 64).read(sheet).windows[0]
    told = tokenizer.convert_ids_to_tokens(window.ids)
    begin, end, colon = tokenizer.cls_token, tokenizer.sep_token, tokenizer.unk_token
    assert told == [
        *(begin, "who", "wrote", "hamlet", end),
        *("poet", colon, "it", "was", "a", "poet", ".", "in", "london", ".", end),
    ]
    assert window.second == 5
    assert window.owners == [-1, -2, -2, -2, -1, -1, -1, 0, 0, 0, 0, 0, 1, 1, 1, -1]


def test_the_sentence_before_leads_a_window(tokenizer):
    sentences = ["it was a poet in london.", *["it was it was it was it was."] * 3]
    windows = Reader(tokenizer, 24).read(Sheet("who", [Text("", sentences)])).windows
    assert [sorted({one for one in window.owners if one >= 0}) for window in windows] == [
        [0, 1],
        [2],
        [3],
    ]
    assert windows[1].owners[3:12] == [NOBODY] * 9


def test_features_are_word_overlap_and_place():
    assert features("Who wrote it", "It wrote.", 0) == pytest.approx([4 / 5, 2 / 3, 1.0])
    assert features("", "", 3) == [0.0, 0.0, 0.25]


def test_a_limit_too_low_is_refused(tokenizer):
    with pytest.raises(UsageError, match="at least 16"):
        Reader(tokenizer, 15)
