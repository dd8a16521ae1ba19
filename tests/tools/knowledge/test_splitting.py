"""Passages cover their text, in windows of the size asked for."""

from __future__ import annotations

import re
import unicodedata
from importlib.util import find_spec
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.errors import UsageError
from ragweave.tools.knowledge import Settings
from ragweave.tools.knowledge.chunking import _CODES, simple_tokens, split, windows
from ragweave.tools.knowledge.intake import Cutter
from ragweave.tools.knowledge.manifest import Unit
from ragweave.tools.knowledge.markup import Loaded
from ragweave.tools.retrieval.bm25 import languages
from ragweave.tools.text.letters import UNSPACED_LETTER, WORD

sizes = st.integers(1, 7).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))
SPLITTERS = ["sentences", "headings", "recursive"]
if find_spec("langchain_text_splitters"):
    SPLITTERS.append("markdown")
spans = st.integers(0, 40).map(lambda n: [(2 * i, 2 * i + 1) for i in range(n)])


@given(spans, sizes)
def test_windows_cover_all_with_the_overlap(
    units: list[tuple[int, int]], cut: tuple[int, int]
) -> None:
    size, overlap = cut
    found = list(windows(units, size, overlap))
    starts, ends = [start for start, _ in units], [end for _, end in units]
    as_units = [(starts.index(first), ends.index(last)) for first, last in found]
    assert {n for first, last in as_units for n in range(first, last + 1)} == set(range(len(units)))
    assert all(last - first + 1 <= size for first, last in as_units)
    for (_, last), (first, _) in pairwise(as_units):
        assert last - first + 1 == overlap
    assert all(last - first + 1 == size for first, last in as_units[:-1])


@given(st.text(max_size=300), sizes)
def test_words_come_back_in_order(text: str, cut: tuple[int, int]) -> None:
    settings = Settings(embedding=None, size=cut[0])
    parts = [text[start:end] for start, end in split(text, settings)]
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(len(part.split()) <= cut[0] for part in parts)


SPACED = st.characters(max_codepoint=0xDFF) | st.sampled_from("\u1100한국어\u2019“—…ⅷ①ﬁ𝐀😀፩አ")
UNSPACED = [
    *("今天天气很好。", "我们去「公园」吧！", "カタカナー、", "が"),
    *("สวัสดีครับ", "ទៅខ្ញុំ។", "မြန်မာ။", "བོད་སྐད།", "ພາສາລາວ", "葛\U000e0100"),
]


@given(st.text(SPACED, max_size=300), sizes, st.sampled_from(["words", "tokens"]))
def test_scripts_with_spaces_are_cut_at_spaces(text: str, cut: tuple[int, int], unit: Unit) -> None:
    settings = Settings(embedding=None, size=cut[0], overlap=cut[1], unit=unit)
    found = re.finditer(r"\S+" if unit == "words" else rf"{WORD}|[^\w\s]", text)
    assert split(text, settings) == list(windows([one.span() for one in found], *cut))


@given(st.lists(st.sampled_from([*UNSPACED, "spaced words ", "(x), ", "\n"]), max_size=20), sizes)
def test_scripts_without_spaces_are_cut_between_letters(
    texts: list[str], cut: tuple[int, int]
) -> None:
    text = "".join(texts)
    found = split(text, Settings(embedding=None, size=cut[0]))
    parts = [text[start:end] for start, end in found]
    assert "".join("".join(parts).split()) == "".join(text.split())
    for part in parts:
        assert len(re.findall(UNSPACED_LETTER, part)) <= 2 * cut[0]  # one may stand below another
        assert unicodedata.category(part[0]) not in ("Mn", "Mc", "Pe", "Pf")
        assert part[0] not in "。、！།။។"


@pytest.mark.parametrize("chunker", [*SPLITTERS, "fixed"])
@pytest.mark.parametrize("text", UNSPACED)
def test_a_document_without_spaces_is_many_passages(chunker: str, text: str) -> None:
    text *= 300
    found = split(text, Settings(embedding=None, chunker=chunker))
    assert max(end - start for start, end in found) <= 500
    if "。" in text and chunker != "fixed":
        assert all(text[end - 1] == "。" for _, end in found)


texts = st.lists(
    st.sampled_from(
        [
            *(
                "One two. ",
                "Three four five.",
                "no ",
                "name: ",
                "Next one ",
                "\n",
                "\n\n",
                "\t\u2028",
            ),
            *(
                "橋があります。",
                "次は",
                "# Top\n",
                "```\n",
                "---\n",
                "- item\n",
                "e\u0301",
                "x.[3]",
                "\x1f",
            ),
        ]
    ),
    max_size=25,
).map("".join)
UNITS = ("words", "sentences", "tokens")


def lost(text: str, found: list[tuple[int, int]]) -> str:
    """Return the characters of a text that are in no passage, but white space."""
    held = {at for start, end in found for at in range(start, end)}
    return "".join(one for at, one in enumerate(text) if at not in held and not one.isspace())


@pytest.mark.parametrize("chunker", ["fixed", "token", *SPLITTERS])
@given(texts, st.sampled_from(UNITS), sizes)
def test_no_chunker_loses_text(chunker: str, text: str, unit: str, cut: tuple[int, int]) -> None:
    size, overlap = cut
    found = split(
        text, Settings(embedding=None, chunker=chunker, unit=unit, size=size, overlap=overlap)
    )
    assert lost(text, found) == ""
    assert found == sorted(set(found))
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in found)


@given(texts, st.sampled_from(UNITS), sizes)
def test_a_row_loses_nothing_and_repeats_nothing(
    text: str, unit: str, cut: tuple[int, int]
) -> None:
    cutter = Cutter(Settings(embedding=None, unit=unit, size=cut[0]), simple_tokens)
    found = cutter.spans(Loaded(text, "", row=True))
    assert lost(text, found) == ""
    assert all(before[1] <= after[0] for before, after in pairwise(found))


def test_a_row_whose_sentence_spans_two_lines_keeps_both() -> None:
    text = (
        "name: Hall\nyear: 1901\nnote: It stood empty. A school moved in. It burnt. It was rebuilt."
    )
    cutter = Cutter(Settings(embedding=None, unit="sentences", size=3), simple_tokens)
    found = [text[start:end] for start, end in cutter.spans(Loaded(text, "", row=True))]
    assert found == [
        "name: Hall\nyear: 1901",
        "note: It stood empty. A school moved in. It burnt.",
        "It was rebuilt.",
    ]


def test_papers_passages_hold_100_words() -> None:
    text = " ".join(str(n) for n in range(250))
    parts = [text[a:b].split() for a, b in split(text, Settings(embedding=None))]
    assert [len(part) for part in parts] == [100, 100, 50]


def test_sentences_and_tokens() -> None:
    text = "One is here. Two is there! Is three?  Four."
    three = Settings(embedding=None, unit="sentences", size=3, overlap=1)
    assert [text[a:b] for a, b in split(text, three)] == [
        "One is here. Two is there! Is three?",
        "Is three?  Four.",
    ]
    tokens = Settings(embedding=None, unit="tokens", size=4)
    assert [text[a:b] for a, b in split(text, tokens)][:2] == ["One is here.", "Two is there!"]
    assert simple_tokens("a-b") == [(0, 1), (1, 2), (2, 3)]
    assert simple_tokens("किताब।") == [(0, 5), (5, 6)]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"unit": "pages"}, "pages"),
        ({"size": 0}, "size"),
        ({"size": 2, "overlap": 2}, "overlap"),
        ({"overlap": -1}, "overlap"),
        ({"language": "klingon"}, "klingon"),
        ({"embedding": ""}, "embedding"),
        ({"chroma_url": "localhost:8000"}, "chroma_url"),
        ({"chroma_url": "http://me:secret@host:1"}, "password"),
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        Settings(**wrong)  # type: ignore[arg-type]


def test_every_language_has_a_sentence_splitter_code() -> None:
    assert set(_CODES) >= set(languages())
