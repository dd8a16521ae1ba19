from __future__ import annotations

import gzip
import json
import pickle
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.training.labels.rows import FILTER, HOTPOT, label, made, read, write

from ragweave.errors import KnowledgeBaseError, ModelError, UsageError
from ragweave.tools.filters import strinc
from ragweave.tools.knowledge import KnowledgeBase, Settings
from ragweave.tools.text.normalize import words
from ragweave.training.labels import LabelerSpec, Passages, SilverLabeler
from ragweave.training.rows import read_rows, silver_text

OPENED = "It was built by Ada Lind. The Old Bridge was opened in 1932. It is long."
MUSEUM = "The museum shows clocks. It was opened in 1932 by the mayor."
ROW = {
    "id": "a",
    "question": "When was the Old Bridge opened?",
    "answers": ["1932"],
    "passages": [
        {"title": "Museum", "text": MUSEUM},
        {"title": "Bridge", "text": OPENED, "gold": True},
    ],
}
CLAIM = {
    "id": "c",
    "text": "The Old Bridge was opened in 1932.",
    "label": "SUPPORTS",
    "gold_evidence": [{"text": OPENED}],
    "retrieved_evidence": [],
}


class Overlap:
    """A scorer that finds an output the likelier, the more of its words stand in the prompt."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [
            float(len(set(words(output)) & set(words(prompt))) - len(words(output)))
            for prompt, output in pairs
        ]


def silver(measure: str, k: int = 1, order: str = "gold-first", **settings: Any) -> SilverLabeler:
    return SilverLabeler(measure, Passages(None, k, order), **settings)


def texts(row: dict[str, Any]) -> list[str]:
    return [span["text"] for span in row["spans"]]


def test_strinc_takes_the_first_sentence_with_an_answer_of_the_top_passage(tmp_path: Path) -> None:
    file = write(tmp_path / "qa.jsonl", [ROW])
    (row,) = made(file, silver("strinc"))
    assert texts(row) == ["The Old Bridge was opened in 1932."]
    assert [one["title"] for one in row["passages"]] == ["Bridge"]
    assert row["source"]["passages"] == "the data set's own, gold-first"
    (row,) = made(file, silver("strinc", order="given"))
    assert texts(row) == ["It was opened in 1932 by the mayor."]
    (row,) = made(file, silver("strinc", k=5, top=None))
    assert len(texts(row)) == len(row["passages"]) == 2


def test_passages_come_by_the_retrievers_score_where_that_is_asked_for(tmp_path: Path) -> None:
    row = {
        "question": "When was the Old Bridge opened?",
        "answers": ["1932"],
        "ctxs": [
            {"title": "Bridge", "text": "It opened in 1932.", "score": "71.5", "has_answer": True},
            {"title": "Mayor", "text": "The mayor came in 1932.", "score": 80.25},
        ],
    }
    file = write(tmp_path / "dpr.jsonl", [row])
    (found,) = made(file, silver("strinc", order="retrieved"))
    assert texts(found) == ["The mayor came in 1932."]


@pytest.mark.parametrize("score", [{}, {"score": None}, {"score": "high"}, {"score": "nan"}])
def test_a_passage_without_a_score_is_a_bad_row_where_scores_decide(
    tmp_path: Path, score: dict[str, Any]
) -> None:
    bare = {"id": "b", "ctxs": [{"text": OPENED, "score": 2.0}, {"text": "x", **score}]}
    whole = {"id": "a", "ctxs": [{"text": OPENED, "score": 1}]}
    asked = {"question": "When was the Old Bridge opened?", "answers": ["1932"]}
    rows = [{**asked, **whole}, {**asked, **bare}]
    file, out = write(tmp_path / "qa.jsonl", rows), tmp_path / "out.jsonl"
    labeler = silver("strinc", order="retrieved")
    with pytest.raises(UsageError, match=r"qa.jsonl:2: .* gives every passage a score"):
        label(file, labeler, out)
    assert not list(tmp_path.glob("out*"))
    done = label(file, labeler, out, skip_bad=True)
    assert (done.rows, done.dropped) == (1, {"a passage without a score": 1})


def test_rows_train_filter_and_generator(tmp_path: Path) -> None:
    done = label(write(tmp_path / "qa.jsonl", [ROW]), silver("strinc"), tmp_path / "out.jsonl")
    for role in ("filter", "generator"):
        (row,) = read_rows(done.path, role)  # type: ignore[arg-type]
        assert silver_text(row) == "The Old Bridge was opened in 1932."  # type: ignore[arg-type]


def test_lexical_keeps_nothing_below_the_papers_threshold(tmp_path: Path) -> None:
    file = write(tmp_path / "qa.jsonl", [ROW])
    done = label(file, silver("lexical"), tmp_path / "out.jsonl")
    assert (done.rows, done.total("empty")) == (1, 1)
    assert read(done.path)[0]["spans"] == []
    (row,) = made(file, silver("lexical", threshold=0.2))
    assert texts(row) == ["The Old Bridge was opened in 1932."]
    assert row["source"]["threshold"] == 0.2


def test_lexical_compares_a_claim_with_itself(tmp_path: Path) -> None:
    file = write(tmp_path / "claims.jsonl", [CLAIM])
    (row,) = made(file, silver("lexical"))
    assert texts(row) == ["The Old Bridge was opened in 1932."]
    assert row["spans"][0]["score"] == 1.0
    assert row["source"]["target"] == "question"
    assert row["answers"] == ["Yes"]
    (row,) = made(file, silver("lexical", target="answer"))
    assert texts(row) == []


def test_gold_has_no_top() -> None:
    with pytest.raises(UsageError, match="--top does not apply to gold"):
        silver("gold", top=2)
    silver("gold", top=None)


def test_cxmi_keeps_what_makes_the_answer_likelier(tmp_path: Path) -> None:
    file = write(tmp_path / "qa.jsonl", [ROW])
    (row,) = made(file, silver("cxmi", scorer=Overlap(), scorer_spec="hf:m?token=x"))
    assert texts(row) == ["The Old Bridge was opened in 1932."]
    assert row["spans"][0]["score"] == 1.0
    assert row["source"]["scorer"] == "hf:m?token=***"
    (row,) = made(file, silver("cxmi", scorer=Overlap(), threshold=1.0))
    assert texts(row) == []


def test_strinc_does_not_look_for_yes_or_no(tmp_path: Path) -> None:
    rows = [ROW, {**ROW, "id": "b", "answers": ["no"]}]
    done = label(write(tmp_path / "qa.jsonl", rows), silver("strinc"), tmp_path / "out.jsonl")
    assert done.dropped == {"a yes or no answer, which strinc cannot look for": 1}


def test_a_knowledge_base_is_searched(tmp_path: Path) -> None:
    with KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None)) as base:
        base.add([OPENED, MUSEUM, "Ships sail."])
    rows = [{"id": "a", "question": ROW["question"], "answers": ["1932"]}]
    labeler = SilverLabeler("strinc", Passages(tmp_path / "kb", 2), top=2)
    (row,) = made(write(tmp_path / "qa.jsonl", rows), labeler)
    assert len(row["passages"]) == len(row["spans"]) == 2
    assert row["source"]["passages"] == "knowledge base kb"


def test_passages_of_a_knowledge_base_are_found_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None)) as base:
        base.add([OPENED, MUSEUM])
    file = write(tmp_path / "qa.jsonl", [{"id": "a", "question": "Bridge?", "answers": ["1932"]}])
    monkeypatch.chdir(tmp_path)
    options = {"measure": "strinc", "passages": Passages("kb", 1)}
    sent = pickle.dumps(LabelerSpec(SilverLabeler, {"scorer": None}, options))
    monkeypatch.chdir("/")
    (row,) = made(file, pickle.loads(sent).make())
    assert texts(row) == ["The Old Bridge was opened in 1932."]
    assert row["source"]["passages"] == "knowledge base kb"
    shutil.rmtree(tmp_path / "kb")
    with pytest.raises(KnowledgeBaseError, match="kb"):
        pickle.loads(sent).make()


def test_another_knowledge_base_of_the_same_name_is_other_settings(tmp_path: Path) -> None:
    file = write(tmp_path / "qa.jsonl", [{key: ROW[key] for key in ("id", "question", "answers")}])
    for folder, text in (("one", OPENED), ("two", MUSEUM)):
        with KnowledgeBase.create(
            tmp_path / folder / "kb", settings=Settings(embedding=None)
        ) as kb:
            kb.add([text])

    def labeler(folder: str) -> SilverLabeler:
        return SilverLabeler("strinc", Passages(tmp_path / folder / "kb", 1))

    out = tmp_path / "out.jsonl"
    label(file, labeler("one"), out)
    assert label(file, labeler("one"), out).before
    with pytest.raises(UsageError, match="made with other settings: knowledge_base was"):
        label(file, labeler("two"), out)


def test_a_labelling_does_not_go_on_with_another_knowledge_base(tmp_path: Path) -> None:
    rows = [{"id": one, "question": ROW["question"], "answers": ["1932"]} for one in "ab"]
    file, kb = write(tmp_path / "qa.jsonl", rows), tmp_path / "kb"

    class Broken(Overlap):
        def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
            raise ModelError("down")

    for text in (OPENED, MUSEUM):
        with KnowledgeBase.create(kb, settings=Settings(embedding=None)) as base:
            base.add([text])
        labeler = SilverLabeler("cxmi", Passages(kb, 1), scorer=Broken(), scorer_spec="m")
        refused, said = (
            (ModelError, "rows failed") if text == OPENED else (UsageError, "started with other")
        )
        with pytest.raises(refused, match=said):
            label(file, labeler, tmp_path / "out.jsonl")
        shutil.rmtree(kb)


@pytest.mark.parametrize(
    ("measure", "settings", "said"),
    [
        ("best", {}, "--measure must be one of strinc, lexical, cxmi, gold"),
        ("cxmi", {}, "--measure cxmi needs --scorer"),
        ("strinc", {"scorer": Overlap()}, "--scorer is for --measure cxmi"),
        ("strinc", {"threshold": 0.5}, "--threshold is for lexical and cxmi"),
        ("lexical", {"threshold": 2.0}, "threshold must be between 0 and 1"),
        ("lexical", {"target": "title"}, "--target must be one of"),
        ("strinc", {"k": 0}, "--passages must be at least 1"),
        ("strinc", {"order": "random"}, "--order must be one of"),
        ("strinc", {"target": "question"}, "--target is for --measure lexical; strinc has none"),
        ("gold", {"target": "question"}, "--target is for --measure lexical"),
        ("full", {"target": "answer"}, "--target is for --measure lexical"),
        ("cxmi", {"target": "question", "scorer": Overlap()}, "--target is for --measure lexical"),
    ],
)
def test_settings_out_of_range_or_without_effect(
    measure: str, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        silver(measure, **settings)


@pytest.mark.parametrize("order", ["given", "retrieved"])
def test_a_knowledge_base_has_no_order(tmp_path: Path, order: str) -> None:
    with pytest.raises(UsageError, match=f"those of --kb .*leave out --order {order}"):
        Passages(tmp_path, 1, order)


def test_another_scorer_object_is_other_settings(tmp_path: Path) -> None:
    file, out = write(tmp_path / "qa.jsonl", [ROW]), tmp_path / "out.jsonl"
    label(file, silver("cxmi", scorer=Overlap()), out)
    assert label(file, silver("cxmi", scorer=Overlap()), out).before
    with pytest.raises(UsageError, match='scorer was "object:Overlap", now "object:Falling"'):
        label(file, silver("cxmi", scorer=Falling()), out)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({**ROW, "answers": []}, "the gold answer is missing"),
        ({**ROW, "passages": []}, "no passages: name a knowledge base"),
    ],
)
def test_bad_rows(tmp_path: Path, row: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"qa.jsonl:1: {said}"):
        made(write(tmp_path / "qa.jsonl", [row]), silver("strinc"))


def test_gold_needs_rows_with_human_annotations(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"qa.jsonl:1: has no human annotations"):
        made(write(tmp_path / "qa.jsonl", [ROW]), silver("gold"))


def test_supporting_facts_become_spans(tmp_path: Path) -> None:
    row = {
        "_id": "h",
        "question": "Who built the Old Bridge?",
        "answer": "Ada Lind",
        "context": [
            ["Museum", ["It shows clocks. ", "It is old."]],
            ["Bridge", ["", "Ada Lind built it.", " It is long."]],
        ],
        "supporting_facts": [["Bridge", 1]],
    }
    file = write(tmp_path / "hotpot.jsonl", [row])
    (read_row,) = made(file, silver("gold", k=2))
    assert texts(read_row) == ["Ada Lind built it."]
    (read_row,) = made(file, silver("gold", order="given"))
    assert (read_row["passages"][0]["title"], texts(read_row)) == ("Museum", [])
    unsaid = write(tmp_path / "none.jsonl", [{**row, "supporting_facts": []}])
    with pytest.raises(UsageError, match="1 no sentence is annotated"):
        made(unsaid, silver("gold", k=2))


def test_gold_evidence_of_a_claim(tmp_path: Path) -> None:
    row = {**CLAIM, "retrieved_evidence": [{"text": MUSEUM}]}
    (read_row,) = made(write(tmp_path / "claims.jsonl", [row]), silver("gold", k=5))
    assert len(read_row["passages"]) == 2
    assert texts(read_row) == [OPENED]


@pytest.mark.skipif(not FILTER.exists(), reason="the shared data is not beside the project")
def test_qed_strinc_against_what_people_chose(tmp_path: Path) -> None:
    file = FILTER / "qed-dev.jsonl.gz"
    by_answer = label(file, silver("strinc"), tmp_path / "strinc.jsonl")
    annotated = label(file, silver("gold"), tmp_path / "gold.jsonl")
    assert by_answer.rows == 814
    assert annotated.dropped == {"no sentence is annotated": 214}
    chosen = {row["id"]: row["spans"][0] for row in read(annotated.path)}
    assert len(chosen) == 600
    found = {row["id"]: row["spans"] for row in read(by_answer.path)}
    met = sum(
        any(max(s["start"], g["start"]) < min(s["end"], g["end"]) for s in found[name])
        for name, g in chosen.items()
    )
    assert met / len(chosen) > 0.85
    for row in read_rows(by_answer.path, "filter"):
        assert all(strinc(span["text"], row["answers"]) for span in row["spans"])  # type: ignore[typeddict-item]


@pytest.mark.skipif(not FILTER.exists(), reason="the shared data is not beside the project")
def test_clapnq_spans_are_the_selected_sentences(tmp_path: Path) -> None:
    file = FILTER / "clapnq-answerable.jsonl.gz"
    done = label(file, silver("gold"), tmp_path / "gold.jsonl")
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        theirs = {
            row["id"]: {s.strip() for one in row["output"] for s in one["selected_sentences"]}
            for row in map(json.loads, lines)
        }
    assert done.rows == 299
    for row in read_rows(done.path, "filter"):
        assert {span["text"] for span in row["spans"]} == theirs[row["id"]]  # type: ignore[typeddict-item]


@pytest.mark.skipif(not HOTPOT.exists(), reason="the shared data is not beside the project")
def test_hotpot_supporting_facts_are_all_found(tmp_path: Path) -> None:
    done = label(f"hotpotqa:{HOTPOT}", silver("gold", k=10), tmp_path / "gold.jsonl")
    with gzip.open(HOTPOT, "rt", encoding="utf-8") as lines:
        facts = sum(
            len({tuple(one) for one in json.loads(line)["supporting_facts"]}) for line in lines
        )
    assert done.rows == 200
    assert done.total("spans") >= 0.99 * facts


@pytest.mark.parametrize("measure", ["lexical", "cxmi"])
def test_spans_stand_in_rank_and_reading_order(tmp_path: Path, measure: str) -> None:
    """Not in the order of their scores, which come from the answers."""
    row = {
        "id": "a",
        "question": "When was the Old Bridge opened?",
        "answers": ["in 1932"],
        "passages": [
            {"title": "Museum", "text": "It opened late in 1932 to us. In 1932."},
            {"title": "Bridge", "text": "Old Bridge, 1932. Opened in 1932, then."},
        ],
    }
    scorer = Overlap() if measure == "cxmi" else None
    labeler = silver(measure, k=2, order="given", top=None, threshold=0.1, scorer=scorer)
    (made_row,) = made(write(tmp_path / "qa.jsonl", [row]), labeler)
    scores = [span["score"] for span in made_row["spans"]]
    assert texts(made_row)[:2] == ["It opened late in 1932 to us.", "In 1932."]
    ranks = {one["id"]: index for index, one in enumerate(made_row["passages"])}
    places = [(ranks[one["passage_id"]], one["start"]) for one in made_row["spans"]]
    assert places == sorted(places)
    assert len(places) >= 3
    assert measure == "cxmi" or scores != sorted(scores, reverse=True)


class Falling:
    """A scorer that finds an output the likelier, the later in the passage a sentence stands."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [float(len(prompt)) for prompt, _ in pairs]


def test_the_best_by_cxmi_does_not_come_first(tmp_path: Path) -> None:
    labeler = silver("cxmi", top=None, scorer=Falling())
    row = {**ROW, "passages": [{"title": "B", "text": "Short one. A much longer sentence here."}]}
    (made_row,) = made(write(tmp_path / "qa.jsonl", [row]), labeler)
    assert texts(made_row) == ["Short one.", "A much longer sentence here."]


def test_whole_passages_are_kept_or_dropped_by_the_same_measures(tmp_path: Path) -> None:
    dry = {**ROW, "passages": [{"title": "Rain", "text": "It rained."}, *ROW["passages"]]}
    file = write(tmp_path / "qa.jsonl", [dry])
    (row,) = made(file, silver("strinc", k=3, order="given", unit="passage", top=None))
    assert texts(row) == [MUSEUM, OPENED]
    assert row["source"]["unit"] == "passage"
    (row,) = made(file, silver("strinc", order="given", unit="passage"))
    assert row["spans"] == []
    (row,) = made(file, silver("cxmi", k=3, order="given", unit="passage", scorer=Overlap()))
    assert texts(row) == [MUSEUM]


def test_annotated_sentences_keep_their_passages_whole(tmp_path: Path) -> None:
    hotpot = {
        "_id": "h",
        "question": "When was it opened?",
        "answer": "1932",
        "type": "bridge",
        "level": "easy",
        "supporting_facts": [["Bridge", 1]],
        "context": [["Rain", ["It rained."]], ["Bridge", ["It is old. ", "It opened in 1932."]]],
    }
    file = write(tmp_path / "qa.jsonl", [hotpot])
    (row,) = made(f"hotpotqa:{file}", silver("gold", k=2, order="given", unit="passage"))
    assert [one["title"] for one in row["passages"]] == ["Rain", "Bridge"]
    assert texts(row) == [row["passages"][1]["text"]]
    assert "It is old." in texts(row)[0]


def test_full_keeps_every_passage(tmp_path: Path) -> None:
    (row,) = made(write(tmp_path / "qa.jsonl", [ROW]), silver("full", k=2, order="given"))
    assert texts(row) == [MUSEUM, OPENED]
    assert row["source"]["measure"] == "full"
    with pytest.raises(UsageError, match="--top does not apply to full"):
        silver("full", top=3)
    with pytest.raises(UsageError, match="--unit must be sentence or passage"):
        silver("strinc", unit="word")
