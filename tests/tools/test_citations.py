"""Which sentences support which part of an answer: verbatim, at their offsets, never invented."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import message_to_dict, messages_from_dict
from tests.quotes import check_citations

from ragweave.tools.citations import cite
from ragweave.tools.footnotes import cited_content, cited_message, footnotes, label_of, path_of, with_marks

BRIDGE = Document(
    "The bridge at Alden was opened in 1932. It has five arches of granite. It was painted grey.",
    id="bridge",
    metadata={"title": "Bridge at Alden", "source": "https://example.org/alden"},
)
BUILDER = Document(
    "Ada Brenner studied in Norhaven. She built the bridge in four years.",
    id="builder",
    metadata={"title": "Ada Brenner", "source": "/srv/people.txt"},
)
PASSAGES = [BRIDGE, BUILDER]


def quoted(question: str, answer: str, kind: Any = "short") -> list[list[str]]:
    citations = cite(question, answer, PASSAGES, kind)
    check_citations(answer, PASSAGES, citations)
    return [[quote["text"] for quote in citation["quotes"]] for citation in citations]


def test_a_short_answer_is_supported_by_the_sentence_that_holds_it() -> None:
    assert quoted("When was the bridge opened?", "1932") == [["The bridge at Alden was opened in 1932."]]


def test_code_is_no_claim() -> None:
    answer = "It was painted grey.\n```python\npaint(bridge)\n```\nIt has five arches."
    assert quoted("What of the bridge?", answer, "long") == [
        ["It was painted grey."],
        ["It has five arches of granite."],
    ]
    shown = with_marks(answer, cite("What of the bridge?", answer, PASSAGES, "long"))
    assert shown == "It was painted grey. [1]\n```python\npaint(bridge)\n```\nIt has five arches. [2]"


def test_of_sentences_that_hold_it_the_one_nearer_to_the_question_wins() -> None:
    twice = [Document("Grey is dull. The roof is grey. The bridge is grey.", id="a")]
    (citation,) = cite("What colour is the bridge?", "grey", twice)
    assert [quote["text"] for quote in citation["quotes"]] == ["The bridge is grey."]


def test_the_title_says_what_a_sentence_is_about() -> None:
    (quotes,) = quoted("Who built the bridge?", "Ada Brenner built it in four years.")
    assert quotes == ["She built the bridge in four years."]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("office", "They met in the ofﬁce."),
        ("Café Alden", "They met in the Cafe\u0301 Alden."),
        ("Cafe\u0301 Alden", "They met in the Café Alden."),
        ("किताब", "यह किताब है."),
        ("7.4%", "Prices rose by 7.4 per cent."),
        ("7.4 %", "Die Preise stiegen um 7,4 Prozent."),
        ("1850000", "The budget is 1,850,000."),
        ("1,850,000", "Der Haushalt hat 1.850.000."),
        ("18.400 Euro", "The grant is €18,400."),
        ("18.400 Euro", "The grant is 18,400."),
        ("17 February 2025", "It was signed on 2025-02-17."),
        ("February 17th, 2025", "Am 17. Februar 2025 wurde es unterschrieben."),
        ("17/02/2025", "It was signed on Feb 17, 2025."),
        ("2025年2月17日", "It was signed on 17.02.2025."),
    ],
)
def test_other_forms_of_the_same_letters_numbers_and_dates_are_found(answer: str, sentence: str) -> None:
    passage = Document(f"क त ब. The clerk has 7 rooms. {sentence} It rained in May.", id="a")
    (citation,) = cite("Which?", answer, [passage])
    assert [quote["text"] for quote in citation["quotes"]] == [sentence]
    check_citations(answer, [passage], [citation])


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("1.5", "It weighs 15 kg."),
        ("18.400 Euro", "The grant is 18,500 euro."),
        ("400 euro", "The grant is $400."),
        ("17 March 2025", "It was signed on 17 February 2023."),
        ("3.11.2", "It needs 3112 seats."),
    ],
)
def test_other_numbers_are_not_the_number(answer: str, sentence: str) -> None:
    (citation,) = cite("Which?", answer, [Document(sentence, id="a")])
    assert citation["quotes"] == []


def test_a_row_is_quoted_after_its_header() -> None:
    table = "Salinity by station.\n| Station | Salinity |\n|---|---|\n| S044 | 31.2 |\n| S045 | 33.9 |"
    (citation,) = cite("What is the salinity at station S045?", "33.9", [Document(table, id="a")])
    assert [quote["text"] for quote in citation["quotes"]] == ["| Station | Salinity |", "| S045 | 33.9 |"]
    check_citations("33.9", [Document(table, id="a")], [citation])


def test_letters_of_a_word_are_not_the_word() -> None:
    (citation,) = cite("यह क्या है?", "किताब", [Document("क त ब.", id="a")])
    assert citation["quotes"] == []


def test_a_long_answer_is_cited_sentence_by_sentence() -> None:
    answer = "It was opened in 1932. It was designed by elephants in Patagonia. It is painted grey."
    first, second, third = quoted("Tell me of the bridge.", answer, "long")
    assert first == ["The bridge at Alden was opened in 1932."]
    assert second == []
    assert third == ["It was painted grey."]


def test_one_sentence_may_need_two_quotes() -> None:
    answer = "Opened in 1932, it has five arches of granite."
    (both,) = quoted("Tell me of the bridge.", answer, "long")
    assert sorted(both) == [
        "It has five arches of granite.",
        "The bridge at Alden was opened in 1932.",
    ]


def test_yes_rests_on_the_question() -> None:
    assert quoted("Is the bridge painted grey?", "Yes", "yes_no") == [["It was painted grey."]]
    assert quoted("Do elephants dance on Mars?", "Yes", "yes_no") == [[]]


def test_nothing_supports_unknown_or_an_answer_without_passages() -> None:
    assert cite("Who?", "Unknown", PASSAGES) == []
    assert cite("Who?", "Ada", []) == [{"text": "Ada", "start": 0, "end": 3, "quotes": []}]


texts = st.text(alphabet="Abc dE.?! 12\n桥\u0301", max_size=60)


@given(answer=texts, passages=st.lists(texts, max_size=4), kind=st.sampled_from(["short", "long"]))
def test_whatever_is_cited_stands_there(answer: str, passages: list[str], kind: Any) -> None:
    documents = [Document(text, id=str(index)) for index, text in enumerate(passages)]
    citations = cite("Abc dE 12?", answer, documents, kind)
    check_citations(answer, documents, citations)
    ends = [0, *(citation["end"] for citation in citations)]
    assert all(before <= citation["start"] for before, citation in zip(ends, citations, strict=False))
    assert all(len(citation["quotes"]) <= 3 for citation in citations)


ANSWER = "It was opened in 1932. Elephants danced in Patagonia. It was painted grey."


@pytest.mark.parametrize("source", [r"C:\Users\ada\people.txt", r"\\server\share\people.txt", "/srv/people.txt"])
def test_a_label_has_file_and_page_and_no_path(source: str) -> None:
    assert (
        label_of(Document("", metadata={"title": "Staff", "source": source, "page": 3})) == "Staff — people.txt, page 3"
    )
    assert label_of(Document("", metadata={"source": source})) == "people.txt"


def test_a_footnote_says_by_which_name_its_passage_was_reached() -> None:
    via = {"name": "Ada Brenner", "passage": "doc0", "heading": "Bridge at Alden"}
    reached = Document("Ada Brenner was born in Vell.", id="ada", metadata={"via": via})
    citations = cite("Where was the builder of the bridge born?", "Vell", [*PASSAGES, reached])
    assert [path_of(note.passage) for note in footnotes(citations, [*PASSAGES, reached])] == [
        "Bridge at Alden → Ada Brenner"
    ]
    (block,) = cited_message("Vell", [*PASSAGES, reached], citations).content_blocks
    (note,) = block["annotations"]  # type: ignore[typeddict-item]
    assert note["extras"]["path"] == "Bridge at Alden → Ada Brenner"


def test_marks_and_footnotes_have_the_same_numbers() -> None:
    citations = cite("Tell me of the bridge.", ANSWER, PASSAGES, "long")
    assert with_marks(ANSWER, citations) == (
        "It was opened in 1932. [1] Elephants danced in Patagonia. [?] It was painted grey. [2]"
    )
    notes = footnotes(citations, PASSAGES)
    assert [(note.number, note.quote["text"]) for note in notes] == [
        (1, "The bridge at Alden was opened in 1932."),
        (2, "It was painted grey."),
    ]
    assert with_marks(ANSWER, []) == ANSWER


def test_a_message_carries_langchains_annotations() -> None:
    citations = cite("Tell me of the bridge.", ANSWER, PASSAGES, "long")
    message = cited_message(ANSWER, PASSAGES, citations)
    assert message.text == ANSWER
    (block,) = message.content_blocks
    first, missing, _ = block["annotations"]  # type: ignore[typeddict-item]
    assert first["type"] == "citation"
    assert first["title"] == "Bridge at Alden — https://example.org/alden"
    assert first["url"] == "https://example.org/alden"
    assert ANSWER[first["start_index"] : first["end_index"]] == "It was opened in 1932."
    quote = first["extras"]
    assert BRIDGE.page_content[quote["start"] : quote["end"]] == first["cited_text"]
    assert missing["value"]["kind"] == "unsupported"
    span = slice(missing["value"]["start_index"], missing["value"]["end_index"])
    assert ANSWER[span] == "Elephants danced in Patagonia."
    assert messages_from_dict([message_to_dict(message)]) == [message]


def test_a_quote_has_its_own_place_and_anthropics_form() -> None:
    rules = Document(
        "Show a lamp. No dogs.",
        id="r",
        metadata={"source": "rules.pdf", "title": "Rules", "page": 1, "breaks": [[13, {"page": 2}]]},
    )
    passages = [BRIDGE, rules]
    citations = cite("What holds?", "It was opened in 1932. No dogs.", passages, "long")
    quote = citations[1]["quotes"][0]
    assert (quote["file"], quote["page"], quote["heading"]) == ("rules.pdf", 2, "Rules")
    output = {"answer": "It was opened in 1932. No dogs.", "passages": passages, "citations": citations}
    first, second = (block for block in cited_content(output, "anthropic") if "citations" in block)
    assert first["citations"][0]["type"] == "char_location"
    assert second["citations"] == [
        {
            "type": "page_location",
            "cited_text": "No dogs.",
            "document_index": 1,
            "document_title": "Rules — rules.pdf, page 1",
            "start_page_number": 2,
            "end_page_number": 3,
        }
    ]


def test_a_path_is_no_address() -> None:
    citations = cite("Who built the bridge?", "in four years", PASSAGES)
    (block,) = cited_message("in four years", PASSAGES, citations).content_blocks
    assert "url" not in block["annotations"][0]  # type: ignore[typeddict-item]


def test_no_passage_crowds_out_the_others() -> None:
    planted = Document("The bridge is old. " * 5_000, id="planted")
    citations = cite("When?", "1932", [planted, Document("It opened in 1932.", id="b")])
    assert [quote["passage"] for citation in citations for quote in citation["quotes"]] == ["b"]


@pytest.mark.parametrize("others", [1, 5, 30])
def test_a_sentence_far_down_in_a_passage_is_found(others: int) -> None:
    long = Document("The roof is old. " * 2_500 + "The bridge opened in 1932.", id="long")
    short = [Document("It has five arches.", id=str(number)) for number in range(others)]
    (citation,) = cite("When did the bridge open?", "1932", [*short, long])
    assert [quote["text"] for quote in citation["quotes"]] == ["The bridge opened in 1932."]
    check_citations("1932", [*short, long], [citation])


def test_of_sentences_with_the_same_words_the_first_one_nearest_to_the_question_is_quoted() -> None:
    answer = "It opened in 1932. The road opened in 1932. The bridge opened in 1932. "
    passage = Document(answer * 400, id="a")
    (citation,) = cite("When did the bridge open?", "1932", [passage])
    assert [quote["start"] for quote in citation["quotes"]] == [answer.index("The bridge")]


def test_of_a_reply_that_never_ends_all_that_it_repeats_is_cited() -> None:
    answer = "The bridge opened in 1932. " * (105)
    citations = cite("When?", answer, [Document("The bridge opened in 1932.", id="a")], "long")
    assert [len(citation["quotes"]) for citation in citations] == [1] * (105)
    citations[0]["quotes"][0]["text"] = "mine"
    assert citations[1]["quotes"][0]["text"] == "The bridge opened in 1932."
