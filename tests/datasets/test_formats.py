"""Every format, from a small file in it that we wrote, with what must come out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.files import write_json, write_lines

from ragweave.datasets import Question, open_dataset
from ragweave.datasets.question import unquoted
from ragweave.errors import UsageError

HOTPOT = {
    "_id": "h1",
    "question": "Who built the bridge of Varn?",
    "answer": "Ada Lindqvist",
    "supporting_facts": [["Bridge", 1], ["Ada", 0]],
    "context": [
        ["Bridge", ["It is long. ", " Ada built it."]],
        ["Ada", ["Ada Lindqvist was an engineer."]],
        ["Port", ["The port freezes."]],
    ],
    "type": "bridge",
}
MUSIQUE = {
    "id": "m1",
    "question": "Who?",
    "answer": "Ada",
    "answer_aliases": ["A. Lindqvist"],
    "question_decomposition": [{}, {}],
    "paragraphs": [
        {"idx": 0, "title": "T", "paragraph_text": "Yes.", "is_supporting": True},
        {"idx": 1, "title": "U", "paragraph_text": "No.", "is_supporting": False},
    ],
}
SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": "Old_Town",
            "paragraphs": [
                {
                    "context": "The town is old.",
                    "qas": [
                        {"id": "a", "question": "How old?", "answers": [{"text": "old"}] * 2},
                        {"id": "b", "question": "Who?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ],
}
ASQA = {
    "dev": {
        "7": {
            "ambiguous_question": "When was it opened?",
            "qa_pairs": [
                {"question": "first?", "short_answers": ["1932", "in 1932"], "context": "C."},
                {
                    "question": "again?",
                    "short_answers": ["1950"],
                    "context": "No context provided",
                },
            ],
            "annotations": [{"long_answer": "In 1932 and 1950.", "knowledge": []}],
        }
    }
}
CLAPNQ = {
    "id": "c",
    "input": "q",
    "passages": [{"title": "T", "text": "One. Two.", "sentences": ["One.", "Two."]}],
    "output": [{"answer": "It is two.", "selected_sentences": ["Two."]}],
}


def read(path: Path, name: str = "") -> list[Question]:
    return list(open_dataset(f"{name}:{path}" if name else str(path)))


def test_hotpotqa_keeps_supporting_sentences_and_distractors(tmp_path: Path) -> None:
    (one,) = read(write_json(tmp_path / "dev.json", [HOTPOT]))
    assert (one.id, one.answers) == ("h1", ("Ada Lindqvist",))
    assert [doc.metadata["title"] for doc in one.gold] == ["Bridge", "Ada"]
    assert one.gold[0].metadata["gold_sentences"] == [1]
    assert one.gold[0].page_content == "It is long. Ada built it."
    assert len(one.passages) == 3


def test_2wiki_is_the_same_form_under_its_own_name(tmp_path: Path) -> None:
    path = write_json(tmp_path / "dev.json.gz", [HOTPOT])
    assert open_dataset(f"2wiki:{path}").name == "2wiki"


def test_musique_counts_aliases_as_answers(tmp_path: Path) -> None:
    (one,) = read(write_lines(tmp_path / "m.jsonl", MUSIQUE))
    assert one.answers == ("Ada", "A. Lindqvist")
    assert [doc.metadata["gold"] for doc in one.passages] == [True, False]
    assert one.about["hops"] == 2


def test_musique_without_an_answer_has_none(tmp_path: Path) -> None:
    (one,) = read(write_lines(tmp_path / "m.jsonl", {**MUSIQUE, "answerable": False}))
    assert (one.answers, one.answerable) == ((), False)


def test_musique_full_asks_each_question_with_an_answer_and_without(tmp_path: Path) -> None:
    hidden = [{**MUSIQUE["paragraphs"][0], "is_supporting": False}]  # type: ignore[index]
    rows = [MUSIQUE, {**MUSIQUE, "answerable": False, "paragraphs": hidden}]
    first, second = read(write_lines(tmp_path / "full.jsonl", *rows))
    assert (first.id, first.answers, len(first.gold)) == ("m1", ("Ada", "A. Lindqvist"), 1)
    assert (second.id, second.answers, second.gold) == ("m1#unanswerable", (), ())


@pytest.mark.parametrize("aliases", [None, [], "", ["", None, " "]])
def test_musique_without_aliases_has_the_answer_alone(aliases: Any, tmp_path: Path) -> None:
    (one,) = read(write_lines(tmp_path / "m.jsonl", {**MUSIQUE, "answer_aliases": aliases}))
    assert one.answers == ("Ada",)


def test_squad_says_which_questions_have_no_answer(tmp_path: Path) -> None:
    first, second = read(write_json(tmp_path / "squad.json", SQUAD))
    assert (first.answers, first.answerable) == (("old",), True)
    assert (second.answers, second.answerable) == ((), False)
    assert first.passages[0].metadata["title"] == "Old Town"


def test_asqa_keeps_each_short_answer_with_its_aliases(tmp_path: Path) -> None:
    (one,) = read(write_json(tmp_path / "asqa.json", ASQA))
    assert one.answer_sets == (("1932", "in 1932"), ("1950",))
    assert (one.id, one.scoring, one.answer_type) == ("7", "coverage", "long")
    assert [doc.page_content for doc in one.passages] == ["C."]


def test_asqa_is_read_by_split(tmp_path: Path) -> None:
    both = {"train": {"1": {**ASQA["dev"]["7"], "ambiguous_question": "In training?"}}, **ASQA}
    path = write_json(tmp_path / "ASQA.json", both)
    for query, ids in (("", ["7"]), ("?split=dev", ["7"]), ("?split=train", ["1"])):
        assert [one.id for one in open_dataset(f"asqa:{path}{query}")] == ids
    assert [one.id for one in open_dataset(f"asqa:{path}?split=train&random=5")] == ["1"]
    for spec, said in (
        (f"asqa:{path}?split=valid", "no split 'valid'; choose one of: dev, test, train"),
        (f"asqa:{path}?split=test", "no split 'test': dev, train is in the file"),
        (f"nq:{path}?split=train", "nq: each of its files holds one split"),
    ):
        with pytest.raises(UsageError, match=said):
            open_dataset(spec)


def test_a_passage_that_a_question_names_twice_is_one(tmp_path: Path) -> None:
    pairs = ASQA["dev"]["7"]["qa_pairs"]
    row = {**ASQA["dev"]["7"], "qa_pairs": [pairs[0], {**pairs[1], "context": "C."}]}
    (one,) = read(write_json(tmp_path / "asqa.json", {"dev": {"7": row}}))
    assert [doc.page_content for doc in one.passages] == ["C."]
    skr = {"Id": "1", "Question": "q", "Gold answer": ["x"], "passages": ["A\nB.", "A\nB.", "C"]}
    (one,) = read(write_json(tmp_path / "skr.json", [skr]))
    assert [doc.page_content for doc in one.passages] == ["B.", "C"]


def test_a_clapnq_output_may_lack_its_answer(tmp_path: Path) -> None:
    row = {**CLAPNQ, "output": [{"selected_sentences": []}, *CLAPNQ["output"]]}
    (one,) = read(write_lines(tmp_path / "c.jsonl", row))
    assert one.answers == ("It is two.",)


def test_strategyqa_answers_yes_or_no(tmp_path: Path) -> None:
    row = {"qid": "s", "question": "Is it?", "answer": False, "facts": ["It is not."], "term": "X"}
    (one,) = read(write_json(tmp_path / "s.json", [row]))
    assert (one.answers, one.scoring, one.answer_type) == (("No",), "accuracy", "yes_no")


def test_dpr_takes_the_strictest_gold_mark(tmp_path: Path) -> None:
    ctxs = [
        {"title": '"T"', "text": "a", "hasanswer": True, "isgold": False},
        {"title": "U", "text": "b", "hasanswer": True, "isgold": True, "score": 2.5},
    ]
    (one,) = read(
        write_lines(tmp_path / "nq.jsonl.gz", {"question": "q", "answers": ["x"], "ctxs": ctxs})
    )
    assert [doc.metadata["gold"] for doc in one.passages] == [False, True]
    assert one.passages[0].metadata["title"] == "T"
    assert one.passages[1].metadata["score"] == 2.5


@pytest.mark.parametrize(
    ("given", "title"),
    [
        ('"Old Town"', "Old Town"),
        ('"Heroes" (David Bowie album)', '"Heroes" (David Bowie album)'),
        ('"""Heroes"" (David Bowie album)"', '"Heroes" (David Bowie album)'),
        ('"Ada" and "Bo"', '"Ada" and "Bo"'),
        ('Songs by "Ada"', 'Songs by "Ada"'),
        (None, ""),
    ],
)
def test_a_title_loses_the_quotes_around_all_of_it_alone(
    given: str | None, title: str, tmp_path: Path
) -> None:
    row = {"question": "q", "answers": ["x"], "ctxs": [{"title": given, "text": "t"}]}
    (one,) = read(write_lines(tmp_path / "dpr.jsonl", row))
    assert one.passages[0].metadata["title"] == title


@given(title=st.text(alphabet='"a \n').map(str.strip))
def test_a_title_that_is_quoted_as_csv_quotes_it_is_read_as_it_was(title: str) -> None:
    assert unquoted('"' + title.replace('"', '""') + '"') == title


def test_a_context_that_is_a_text_is_no_retriever_output(tmp_path: Path) -> None:
    row = {"question": "q", "answers": ["x"], "ctx": "some text"}
    path = write_lines(tmp_path / "mine.jsonl", row)
    assert open_dataset(str(path)).name == "nq_open"
    assert [one.answers for one in read(path)] == [("x",)]


def test_the_first_row_of_a_retriever_output_may_lack_its_context(tmp_path: Path) -> None:
    row = {"question": "q", "answers": ["x"]}
    given = [{**row, "ctx": None}, {**row, "ctx": {"title": "T", "text": "t"}}]
    path = write_lines(tmp_path / "mine.jsonl", *given)
    assert open_dataset(str(path)).name == "dpr"
    assert [len(one.passages) for one in read(path)] == [0, 1]


def test_dpr_training_files_have_gold_in_positive_ctxs(tmp_path: Path) -> None:
    row = {
        "question": "q",
        "answers": ["x"],
        "positive_ctxs": [{"title": "T", "text": "yes"}],
        "negative_ctxs": [],
        "hard_negative_ctxs": [{"title": "U", "text": "no"}],
    }
    (one,) = read(write_json(tmp_path / "train.json", [row]), "nq")
    assert [doc.metadata["gold"] for doc in one.passages] == [True, False]


@pytest.mark.parametrize(
    ("name", "row", "answers"),
    [
        ("nq", {"question": "q", "answer": ["x", "y", "x"]}, ("x", "y")),
        ("nq", {"question": "q", "answer": ["x", None, "", 1932, 0.5]}, ("x", "1932", "0.5")),
        (
            "webquestions",
            {
                "url": "u",
                "utterance": "q",
                "targetValue": '(list (description "Old Town") (description Varn))',
            },
            ("Old Town", "Varn"),
        ),
        (
            "webquestions",
            {
                "url": "u",
                "utterance": "q",
                "targetValue": r'(list (description "Ann \"Rocky\" Lee") (description "A\\B"))',
            },
            ('Ann "Rocky" Lee', "A\\B"),
        ),
        (
            "webquestions",
            {"utterance": "q", "targetValue": r'(list (description "x\") (description "y z"))'},
            ("x\\", "y z"),
        ),
        (
            "triviaqa",
            {
                "Data": [
                    {
                        "QuestionId": "t",
                        "Question": "q",
                        "Answer": {"Value": "x", "Aliases": ["x", None, "ex"]},
                    }
                ]
            },
            ("x", "ex"),
        ),
        ("popqa", {"id": 3, "question": "q", "possible_answers": '["x", null, "y"]'}, ("x", "y")),
        ("eli5", {"q_id": "e", "title": "q", "answers": {"text": ["x y"], "score": [3]}}, ("x y",)),
        ("fever", {"id": 1, "claim": "c", "label": "REFUTES"}, ("No",)),
        (
            "fever",
            {"id": 1, "input": "c", "output": [{"answer": "SUPPORTS", "provenance": []}]},
            ("Yes",),
        ),
        (
            "wow",
            {"id": "w", "input": "Hi\nHello there", "output": [{"answer": "I like it"}]},
            ("I like it",),
        ),
        (
            "fool_me_twice",
            {
                "id": "f",
                "text": "c",
                "label": "SUPPORTS",
                "gold_evidence": [{"text": "e", "section_header": "s"}],
                "retrieved_evidence": [{"text": "e"}, {"text": "f"}],
            },
            ("Yes",),
        ),
    ],
)
def test_answers_of(name: str, row: Any, answers: tuple[str, ...], tmp_path: Path) -> None:
    whole = name == "triviaqa"
    path = (write_json if whole else write_lines)(tmp_path / "file.json", row)
    (one,) = read(path, name)
    assert one.answers == answers


def test_wizard_of_wikipedia_asks_for_a_long_answer(tmp_path: Path) -> None:
    row = {"id": "w", "input": "Hi\nHello there", "output": [{"answer": "I like it"}]}
    (one,) = read(write_lines(tmp_path / "wow.jsonl", row), "wow")
    assert (one.scoring, one.answer_type) == ("long", "long")


def test_popqa_in_the_owners_tsv(tmp_path: Path) -> None:
    path = tmp_path / "popqa.tsv"
    path.write_text('id\tquestion\tpossible_answers\ts_pop\n4\tq\t"[""x"", ""y""]"\t12\n', "utf-8")
    (one,) = read(path)
    assert (one.id, one.answers, one.about["s_pop"]) == ("4", ("x", "y"), "12")


def test_quotes_of_an_unquoted_tsv_are_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    asked = ['"Heroes" is by whom?', '"Unpaired, is it?', "Plain?"]
    rows = "".join(f"{at}\t{text}\tx\n" for at, text in enumerate(asked))
    path.write_text(f"id\tquestion\tanswers\n{rows}", "utf-8")
    assert [one.question for one in read(path)] == asked


def test_beir_folder(tmp_path: Path) -> None:
    write_lines(
        tmp_path / "corpus.jsonl",
        {"_id": "d1", "title": "T", "text": "one"},
        {"_id": "d2", "title": "U", "text": "two"},
    )
    write_lines(tmp_path / "queries.jsonl", {"_id": "q1", "text": "?"}, {"_id": "q2", "text": "!"})
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq1\td2\t1\nq1\td9\t1\nq2\td1\t0\n", "utf-8"
    )
    dataset = open_dataset(f"beir:{tmp_path}")
    (one,) = dataset
    assert (one.id, one.scoring, [doc.id for doc in one.gold]) == ("q1", "retrieval", ["d2", "d9"])
    texts = [(doc.metadata["title"], doc.page_content) for doc in one.gold]
    assert texts == [("U", "two"), ("", "document d9")], "the collection lacks d9"
    assert [doc.id for doc in dataset.corpus()] == ["d1", "d2"]


def test_a_beir_document_without_text_is_its_title_and_without_both_is_none(
    tmp_path: Path,
) -> None:
    write_lines(
        tmp_path / "corpus.jsonl",
        {"_id": "d1", "title": "Only a title", "text": ""},
        {"_id": "d2", "title": "", "text": ""},
        {"_id": "d3", "title": "", "text": " "},
        {"_id": "d4", "title": "Another", "text": "\n"},
    )
    write_lines(tmp_path / "queries.jsonl", {"_id": "q1", "text": "?"})
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("q1\td1\t1\n", "utf-8")
    found = [(doc.id, doc.page_content) for doc in open_dataset(f"beir:{tmp_path}").corpus()]
    assert found == [("d1", "Only a title"), ("d4", "Another")]


def test_the_corpus_holds_each_passage_once_and_says_of_none_that_it_is_gold(
    tmp_path: Path,
) -> None:
    dataset = open_dataset(
        str(write_json(tmp_path / "dev.json", [HOTPOT, {**HOTPOT, "_id": "h2"}]))
    )
    corpus = dataset.corpus()
    assert len(corpus) == 3
    assert {doc.id for doc in corpus} == {doc.id for q in dataset for doc in q.passages}
    assert not any("gold" in doc.metadata for doc in corpus)


@pytest.mark.parametrize(("name", "kind"), [("eli5", "long"), ("kilt", "long"), ("nq", "short")])
def test_a_kilt_file_is_of_one_kind_whatever_a_row_looks_like(
    name: str, kind: str, tmp_path: Path
) -> None:
    long = "It is because " + "the light is bent by warm air over the road " * 2
    answers = ["Yes.", long, long, "No idea, mate.", long]
    rows = [
        {"id": str(index), "input": "Why is that?", "output": [{"answer": text}]}
        for index, text in enumerate(answers)
    ]
    found = read(write_lines(tmp_path / "file.jsonl", *rows), name)
    assert {one.scoring for one in found} == {kind}
