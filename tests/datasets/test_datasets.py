"""Every data set is read as its authors publish it, as the hub has it, and as FlashRAG has it."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragweave.datasets import Question, open_dataset, select
from ragweave.errors import UsageError

ARCHITECT = "In which country was the architect of the Aster Bridge born?"


def read(tmp_path: Path, name: str, *rows: Any, kind: str = "jsonl", query: str = "") -> list[Question]:
    path = tmp_path / f"rows.{kind}"
    path.write_text("\n".join(map(json.dumps, rows)) if kind == "jsonl" else json.dumps(rows[0]))
    return list(open_dataset((f"{name}:{path}" if name else str(path)) + query))


HOTPOT = {
    "official": {
        "context": [["Bridge", ["Ida built it."]], ["Ida", ["She is Norwegian."]]],
        "supporting_facts": [["Ida", 0]],
    },
    "hub": {
        "context": {"title": ["Bridge", "Ida"], "sentences": [["Ida built it."], ["She is Norwegian."]]},
        "supporting_facts": {"title": ["Ida"], "sent_id": [0]},
    },
    "json": {
        "context": '[["Bridge", ["Ida built it."]], ["Ida", ["She is Norwegian."]]]',
        "supporting_facts": '[["Ida", 0]]',
    },
}


@pytest.mark.parametrize("name", ["hotpotqa", "2wiki", ""])
@pytest.mark.parametrize("shape", HOTPOT)
def test_hotpotqa(tmp_path: Path, name: str, shape: str) -> None:
    row = {"_id": "h1", "question": ARCHITECT, "answer": "Norway", **HOTPOT[shape]}
    flash = {"id": "h1", "question": ARCHITECT, "golden_answers": ["Norway"], "metadata": HOTPOT[shape]}
    for item in (row, flash):
        [question] = read(tmp_path, name, item)
        assert (question.id, question.answers, len(question.passages)) == ("h1", ("Norway",), 2)
        [gold] = question.gold
        assert next(doc for doc in question.passages if doc.id == gold).metadata["title"] == "Ida"
        assert question.about["selected"] == ["She is Norwegian."]


def test_squad(tmp_path: Path) -> None:
    hub = {
        "id": "s1",
        "title": "Aster_Bridge",
        "context": "It opened in 1931.",
        "question": "When?",
        "answers": {"text": ["1931", "in 1931"], "answer_start": [13, 10]},
    }
    none = {**hub, "id": "s2", "answers": {"text": [], "answer_start": []}}
    first, second = read(tmp_path, "squad", hub, none)
    assert (first.answers, second.answers) == (("1931", "in 1931"), ())
    assert first.passages[0].metadata["title"] == "Aster Bridge"
    assert list(first.gold) == [first.passages[0].id]
    asked = [
        {"id": "s1", "question": "When?", "answers": [{"text": "1931"}], "is_impossible": False},
        {"id": "s2", "question": "Who?", "answers": [], "is_impossible": True},
    ]
    article = {"title": "Aster_Bridge", "paragraphs": [{"context": "It opened.", "qas": asked}]}
    questions = read(tmp_path, "squad", {"version": "v2.0", "data": [article]}, kind="json")
    assert [question.answers for question in questions] == [("1931",), ()]


def test_a_thumb_down_says_nothing_of_the_right_answer(tmp_path: Path) -> None:
    asked = {"question": "Who built it?", "answer": "Ada Brenner", "thumb": "down"}
    rows = [
        asked,
        {**asked, "thumb": "up"},
        {**asked, "thumb": "up", "answer": "Unknown"},
        {**asked, "answers": ["Ida Holm"]},
        {**asked, "answers": ["Unknown"]},
    ]
    questions = read(tmp_path, "", *rows)
    assert [(question.is_known, question.answers) for question in questions] == [
        (False, ()),
        (True, ("Ada Brenner",)),
        (True, ()),
        (True, ("Ida Holm",)),
        (True, ()),
    ]
    assert questions[0].hashes["golds"] != questions[2].hashes["golds"]


def test_triviaqa_and_webquestions(tmp_path: Path) -> None:
    answer = {"value": "Ida Holm", "aliases": ["I. Holm"], "normalized_aliases": ["ida holm"]}
    [hub] = read(tmp_path, "triviaqa", {"question": "Who?", "question_id": "tc_1", "answer": answer})
    official = {"Question": "Who?", "QuestionId": "tc_1", "Answer": {"Value": "Ida Holm", "Aliases": ["I. Holm"]}}
    [own] = read(tmp_path, "triviaqa", {"Data": [official]}, kind="json")
    assert hub.answers == own.answers == ("Ida Holm", "I. Holm")
    assert hub.id == own.id == "tc_1"
    lisp = {"utterance": "who?", "targetValue": '(list (description "Ida \\"H\\" Holm") (description Ida))'}
    [web] = read(tmp_path, "", lisp)
    assert (web.question, web.answers) == ("who?", ('Ida "H" Holm', "Ida"))


def test_musique(tmp_path: Path) -> None:
    parts = [{"idx": 0, "title": "Bridge", "paragraph_text": "It is in Norway.", "is_supporting": True}]
    row = {"id": "2hop", "question": ARCHITECT, "paragraphs": parts, "question_decomposition": []}
    first, second = read(
        tmp_path,
        "musique",
        {**row, "answer": "Norway", "answer_aliases": ["Kingdom of Norway"], "answerable": True},
        {**row, "answer": "Norway", "answerable": False},
    )
    assert (first.answers, len(first.gold)) == (("Norway", "Kingdom of Norway"), 1)
    assert (second.answers, second.id) == ((), "2hop#2")


@pytest.mark.parametrize(
    ("fields", "answers"),
    [
        ({"answer": 1931}, ("1931",)),
        ({"answers": [1931, "in 1931"]}, ("1931", "in 1931")),
        ({"answers": [8336817.0, 3.14159265, 1e21]}, ("8336817", "3.14159265", "1" + 21 * "0")),
        ({"answer": "Ida Holm", "aliases": ["I. Holm"]}, ("Ida Holm", "I. Holm")),
        ({"golden_answers": ["Ida Holm"]}, ("Ida Holm",)),
        ({"possible_answers": '["Ida Holm", "I. Holm"]'}, ("Ida Holm", "I. Holm")),
        ({"answers": "['Ida', \"I.\"]"}, ("Ida", "I.")),
        ({"answer": {"text": ["a"], "answer_start": [0]}}, ("a",)),
        ({"answer": True}, ("Yes",)),
        ({"reference": "a"}, ("a",)),
        ({"id": float("nan"), "answers": ["a", float("nan")], "aliases": float("nan")}, ("a",)),
        ({"answers": '["a", NaN]'}, ("a",)),
    ],
)
def test_answers_in_any_shape(tmp_path: Path, fields: dict[str, Any], answers: tuple[str, ...]) -> None:
    [question] = read(tmp_path, "", {"question": "Who?", **fields})
    assert question.answers == answers


@pytest.mark.parametrize(
    "fields",
    [
        {"passages": ["Ida built it."]},
        {"ctxs": [{"title": "", "text": "Ida built it.", "isgold": True}]},
        {"retrieved_contexts": ["Ida built it."]},
        {"passages": [{"contents": '"Bridge"\nIda built it.'}]},
        {"passages": [[['"Bridge"\nIda built it.']]]},
        {"passages": {"is_selected": [1], "passage_text": ["Ida built it."], "url": ["x"]}},
    ],
)
def test_passages_in_any_shape(tmp_path: Path, fields: dict[str, Any]) -> None:
    [question] = read(tmp_path, "", {"question": "Who?", "answer": "a", **fields})
    assert [doc.page_content for doc in question.passages] == ["Ida built it."]


def test_passages_may_be_numbered_for_each_question(tmp_path: Path) -> None:
    numbered = [{"id": 1, "text": "Ida built it.", "is_gold": True}, {"id": 2, "text": "It is red."}]
    again = [{"id": 1, "text": "It opened in 1931.", "is_gold": True}, {"id": 1, "text": "It is red."}]
    rows = [{"question": "Who?", "answer": "Ida", "passages": numbered}, {"question": "When?", "answer": "1931"}]
    first, second = read(tmp_path, "jsonl", rows[0], rows[1] | {"passages": again})
    assert (len(first.gold), len(second.gold), first.gold.keys() & second.gold.keys()) == (1, 1, set())
    texts = [doc.page_content for doc in open_dataset(f"jsonl:{tmp_path / 'rows.jsonl'}").corpus()]
    assert texts == ["Ida built it.", "It is red.", "It opened in 1931."]
    assert len(second.passages) == 2


def test_nan_is_as_null(tmp_path: Path) -> None:
    nan = float("nan")
    with pytest.raises(UsageError, match="no right answer"):
        read(tmp_path, "", {"question": "Who?", "answer": nan})
    passages = [{"text": "Ida built it.", "title": nan, "id": nan, "is_gold": nan}]
    [question] = read(tmp_path, "", {"question": "Who?", "answer": "a", "passages": passages})
    assert (question.passages[0].metadata, question.gold) == ({}, {})
    parquet, table = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow").table
    rows = {"question": ["Who?"], "year": [nan], "answers": [[1931.0, nan]]}
    parquet.write_table(table(rows), tmp_path / "rows.parquet")
    [question] = open_dataset(str(tmp_path / "rows.parquet"), keeps_fields=True)
    assert (question.answers, question.about["year"]) == (("1931",), None)


def test_a_row_without_an_id_is_known_by_its_question(tmp_path: Path) -> None:
    row = {"question": "Who?", "answer": "a"}
    [alone] = read(tmp_path, "", row)
    _, second, third = read(tmp_path, "", {**row, "question": "When?"}, {**row, "answer": "b"}, row)
    assert (second.id, third.id) == (alone.id, f"{alone.id}#2")
    parts = {name for name, value in alone.hashes.items() if value != second.hashes[name]}
    assert parts == {"golds"}


def test_a_repeated_id_gets_a_free_one(tmp_path: Path) -> None:
    rows = [{"id": name, "question": "Who?", "answer": "a"} for name in ("a", "a", "a#2", "a", "a#3")]
    assert [row.id for row in read(tmp_path, "", *rows)] == ["a", "a#2", "a#2#2", "a#3", "a#3#2"]


def test_dprs_positive_passages_are_gold(tmp_path: Path) -> None:
    row = {"question": "Who?", "answers": ["a"], "positive_ctxs": [{"title": "t", "text": "p"}]}
    [question] = read(tmp_path, "nq", {**row, "hard_negative_ctxs": [{"text": "n"}]})
    assert (len(question.passages), len(question.gold)) == (2, 1)


def test_yes_or_no(tmp_path: Path) -> None:
    row = {"qid": "1", "term": "Bridge", "question": "Is it old?", "answer": True, "facts": ["It is."]}
    [question] = read(tmp_path, "strategyqa", row)
    assert (question.answers, question.kind, question.answer_type) == (("Yes",), "yes_no", "yes_no")
    claims = read(
        tmp_path,
        "fever",
        {"id": 1, "claim": "It is old.", "label": "REFUTES"},
        {"id": 2, "claim": "It is new.", "label": "NOT ENOUGH INFO"},
        {"id": 3, "input": "It is red.", "output": [{"answer": "SUPPORTS", "provenance": []}]},
        {"id": 4, "text": "It is long.", "label": "SUPPORTS", "gold_evidence": [{"text": "Yes."}]},
    )
    assert [claim.answers for claim in claims] == [("No",), (), ("Yes",), ("Yes",)]
    assert claims[0].question == "Is this claim true? It is old."
    assert [claim.query for claim in claims] == ["It is old.", "It is new.", "It is red.", "It is long."]
    assert question.searched("Is it old?") == "Is it old?"
    assert replace(claims[0], query="").hashes["question"] != claims[0].hashes["question"]
    assert [claim.about["label"] for claim in claims] == [["REFUTES"], [], ["SUPPORTS"], ["SUPPORTS"]]
    assert len(claims[3].gold) == 1


def test_long_answers(tmp_path: Path) -> None:
    pairs = [{"question": "?", "short_answers": ["1931"], "context": "No context provided"}]
    row = {"ambiguous_question": "When?", "qa_pairs": pairs, "annotations": [{"long_answer": "In 1931."}]}
    [hub] = read(tmp_path, "asqa", {**row, "sample_id": "7"})
    [own] = read(tmp_path, "asqa", {"dev": {"7": row}}, kind="json")
    assert hub.id == own.id == "7"
    assert hub.parts == own.parts == (("1931",),)
    assert (hub.kind, hub.answer_type, hub.answers) == ("parts", "long", ("In 1931.",))
    [eli5] = read(tmp_path, "", {"q_id": "e", "title": "Why?", "answers": {"text": ["So."], "score": [1]}})
    assert (eli5.answers, eli5.kind) == (("So.",), "long")
    [wow] = read(tmp_path, "wow", {"id": "w", "input": "Hi\nHello", "output": [{"answer": "Indeed."}]})
    assert (wow.answers, wow.kind) == (("Indeed.",), "long")


def test_clapnq_and_qed(tmp_path: Path) -> None:
    passage = {"title": "Bridge", "text": "It is red. It opened.", "sentences": ["It is red.", "It opened."]}
    output = [{"answer": "It opened.", "selected_sentences": ["It opened."]}]
    answered, unanswered = read(
        tmp_path,
        "clapnq",
        {"id": "c", "input": "When?", "passages": [passage], "output": output},
        {"id": "d", "input": "Who?", "passages": [passage], "output": [{"answer": ""}]},
    )
    assert (answered.kind, answered.answers, len(answered.gold)) == ("long", ("It opened.",), 1)
    assert answered.about["selected"] == ["It opened."]
    assert (unanswered.answers, unanswered.gold) == ((), {})
    text = "It is red. It opened in 1931."
    row = {
        "example_id": 5,
        "title_text": "Bridge",
        "question_text": "When?",
        "paragraph_text": text,
        "original_nq_answers": [[{"start": 24, "end": 28, "string": "1931"}]],
        "annotation": {"selected_sentence": {"start": 11, "end": 29}},
    }
    [qed] = read(tmp_path, "", row)
    assert (qed.id, qed.answers, qed.about["selected"]) == ("5", ("1931",), ["It opened in 1931."])


def test_beir(tmp_path: Path) -> None:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tb\t2\nq\ta\t1\nq\tc\t0\n")
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "bridge"}\n{"_id": "r", "text": "x"}')
    corpus = b'{"_id": "a", "title": "t", "text": ""}\n{"_id": "b", "text": "y"}'
    (tmp_path / "corpus.jsonl.gz").write_bytes(gzip.compress(corpus))
    data = open_dataset(f"beir:{tmp_path}")
    [question] = data
    assert (question.kind, question.gold) == ("retrieval", {"b": 2.0, "a": 1.0})
    assert [(doc.id, doc.page_content) for doc in data.corpus()] == [("a", "t"), ("b", "y")]
    with pytest.raises(UsageError, match="is a folder"):
        open_dataset(f"beir:{tmp_path / 'queries.jsonl'}")


@pytest.mark.parametrize("more", [{}, {"question": "?", "answer": "b", "answers": ["c"], "passages": []}])
@pytest.mark.parametrize("name", ["jsonl", "hotpotqa"])
def test_fields_by_other_names(tmp_path: Path, name: str, more: dict[str, Any]) -> None:
    row = {"q": "Who?", "gold": "a", "found": ["p"]}
    for fields in (row | more, more | row):
        [question] = read(tmp_path, name, fields, query="?question=q&answers=gold&passages=found")
        assert (question.question, question.answers, len(question.passages)) == ("Who?", ("a",), 1)
    claim = {"claim": "It is red.", "label": "SUPPORTS", "mine": "REFUTES"}
    assert read(tmp_path, "fever", claim, query="?answers=mine")[0].answers == ("No",)


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("hotpotqa", {"question": "?", "answer": "a", "context": [["t"]]}, ":1: 'context' must be a list of"),
        (
            "jsonl",
            {"q": "?", "a": "x"},
            r"'question' or .* is missing; there are q, a\. Name the fields: jsonl:.*question=FIELD",
        ),
        ("jsonl", {"question": "?"}, r":1: no right answer: 'answers' or .*\?answers=FIELD"),
        ("jsonl", {"question": " ", "answer": "a"}, ":1: .*is empty"),
        ("jsonl", {"question": ["x"], "answer": "a"}, "must be a text, not a list"),
        ("fever", {"claim": "c", "label": "MAYBE"}, ":1: the label must be SUPPORTS or REFUTES"),
        ("asqa", {"question": "?", "qa_pairs": [{"short_answers": []}]}, ":1, qa_pairs 1: no right"),
        ("squad", {"data": [{"paragraphs": "x"}]}, ":1, data 1: 'paragraphs' must be a list of objects"),
    ],
)
def test_errors_name_line_and_field(tmp_path: Path, name: str, row: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(tmp_path, name, row)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{}/no.jsonl", "there is no such file. Give a file's path or NAME:FILE"),
        ("jsonl:{}/a.jsonl?answer=x", "no setting 'answer': did you mean 'answers'"),
        ("jsonl:{}/a.jsonl?question=q", "no field 'q'; there are question, answer"),
        ("jsonl:{}/b.jsonl", "b.jsonl:2: is not JSON"),
        ("jsonl:{}/c.jsonl", "holds no questions"),
        ("jsonl:{}/d.jsonl", "d.jsonl:2: must be an object, not a list"),
        ("jsonl:{}/e.jsonl", "is not UTF-8"),
        ("jsonl:{}/damaged.jsonl.gz", "damaged.jsonl.gz: cannot be read"),
        ("csv:{}/not-packed.csv.gz", "not-packed.csv.gz: cannot be read"),
    ],
)
def test_what_cannot_be_opened_is_named(tmp_path: Path, spec: str, message: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"question": "?", "answer": "a"}')
    (tmp_path / "b.jsonl").write_text('{"question": "?", "answer": "a"}\n{"question": \n')
    (tmp_path / "c.jsonl").write_text("\n")
    (tmp_path / "d.jsonl").write_text('{"question": "?", "answer": "a"}\n[1]\n')
    (tmp_path / "e.jsonl").write_bytes(b'{"question": "\xff"}')
    (tmp_path / "damaged.jsonl.gz").write_bytes(gzip.compress(b'{"question": "?", "answer": "a"}')[:10] + b"\xff" * 20)
    (tmp_path / "not-packed.csv.gz").write_text("question,answer\n?,a\n")
    with pytest.raises(UsageError, match=message):
        list(open_dataset(spec.format(tmp_path)))


def test_tables_and_packed_files(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('question\tanswers\nWho?\t["Ida", "I."]\n')
    (tmp_path / "a.csv").write_text("question,answer\nWho?,1931\n")
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'\xef\xbb\xbf{"question": "?", "answer": "a"}'))
    names = ("a.tsv", "a.csv", "a.jsonl.gz")
    answers = [next(iter(open_dataset(str(tmp_path / name)))).answers for name in names]
    assert answers == [("Ida", "I."), ("1931",), ("a",)]


def test_a_folder_of_the_hubs_form(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    (tmp_path / "validation.jsonl").write_text('{"question": "?", "answer": ["a"]}\n')
    [question] = open_dataset(f"hf:{tmp_path}?split=validation")
    assert question.answers == ("a",)


def test_selection(tmp_path: Path) -> None:
    rows = read(tmp_path, "", *({"question": f"q{at}", "answer": "a"} for at in range(20)))
    assert [question.at for question in select(rows, shard="2/8")] == [1, 9, 17]
    assert select(rows, sample=5, seed=1) == select(rows, sample=5, seed=1) != select(rows, sample=5)
    parts = [select(rows, limit=10, shard=f"{part}/3") for part in (1, 2, 3)]
    assert sorted(question.at for part in parts for question in part) == list(range(10))
    for wrong in ("9/8", "²/8"):
        with pytest.raises(UsageError, match="shard"):
            select(rows, shard=wrong)


# ---- the papers' questions


def test_a_papers_subset(tmp_path: Path) -> None:
    row = {"question": "?", "answer": "a", "context": [], "supporting_facts": []}
    rows = [{"_id": str(at), **row} for at in range(520)]
    questions = read(tmp_path, "hotpotqa", *rows, query="?subset=blendfilter")
    assert [questions[0].id, questions[-1].id, len(questions)] == ["0", "499", 500]
    with pytest.raises(UsageError, match="holds 3 questions, and the paper asked the first 500"):
        read(tmp_path, "hotpotqa", *rows[:3], query="?subset=blendfilter")
    with pytest.raises(UsageError, match="no subset 'blendfilter' of 'nq'; there are"):
        read(tmp_path, "nq", row, query="?subset=blendfilter")


def test_listed_questions(tmp_path: Path) -> None:
    rows = [{"id": str(at), "question": "?", "answer": "a"} for at in range(5)]
    (tmp_path / "ids.json").write_text("[1, 3]")
    questions = read(tmp_path, "nq", *rows, query=f"?ids={tmp_path / 'ids.json'}")
    assert [question.id for question in questions] == ["1", "3"]
    (tmp_path / "ids.json").write_text('["9"]')
    with pytest.raises(UsageError, match="lacks 1 of the listed questions, such as '9'"):
        read(tmp_path, "nq", *rows, query=f"?ids={tmp_path / 'ids.json'}")
    with pytest.raises(UsageError, match="name the list with ids=FILE"):
        read(tmp_path, "nq", *rows, query="?subset=slimplm")


def test_json_lines_may_begin_with_a_blank_line(tmp_path: Path) -> None:
    rows = [{"question": f"{at}?", "answer": "a"} for at in range(2)]
    path = tmp_path / "q.jsonl"
    path.write_text("\n" + "\n\n".join(map(json.dumps, rows)))
    assert [question.question for question in open_dataset(str(path))] == ["0?", "1?"]
