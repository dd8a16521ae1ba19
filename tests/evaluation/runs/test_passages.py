"""Where passages come from, and what becomes of the gold ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from tests.evaluation.files import write_lines
from tests.evaluation.towns import TOWNS, planned, read_year, reader, records, run
from tests.scripted import ScriptedChat, Seen

from ragweave.datasets import Question, passage
from ragweave.errors import UsageError
from ragweave.evaluation.report import read_runs, tables_of
from ragweave.evaluation.runs import RunDirectory, claim_directory, parse_systems, plan
from ragweave.evaluation.runs.passages import (
    GoldPassages,
    second_retriever_for,
    with_gold,
)
from ragweave.tools.knowledge import KnowledgeBase, Settings

GOLD = passage("gold text", gold=True)
QUESTION = Question(id="q", question="?", answers=("x",), passages=(GOLD,))


@given(texts=st.lists(st.text(min_size=1), min_size=1, max_size=8, unique=True), seed=st.integers())
def test_with_gold_there_is_one_and_the_number_stays(texts: list[str], seed: int) -> None:
    found = [passage(text) for text in texts]
    put = with_gold(found, QUESTION, "with", seed)
    assert len(put) == len(found)
    assert sum(doc.metadata["gold"] for doc in put) == 1
    assert put == with_gold(found, QUESTION, "with", seed)
    out = with_gold([*found, GOLD], QUESTION, "without", seed)
    assert [doc.id for doc in out] == [doc.id for doc in found if doc.id != GOLD.id]


def test_gold_that_was_found_keeps_its_place() -> None:
    found = [passage("a"), Document(page_content=GOLD.page_content, id=GOLD.id), passage("b")]
    put = with_gold(found, QUESTION, "with", 0)
    assert [doc.metadata["gold"] for doc in put] == [False, True, False]


def test_passages_handed_over_take_the_place_of_retrieval_and_the_label_says_so(
    tmp_path: Path,
) -> None:
    directory = planned(tmp_path, "concat[k=2]", passages="given")
    run(directory, reader())
    for one in records(directory):
        assert one["system"] == "concat[k=2] (passages given)"
        assert one["usage"]["retrievals"] == 0
        assert [doc["gold"] for doc in one["passages"]] == [False, True]


@pytest.mark.parametrize(("strategy", "shown"), [("one", 2), ("classified", 2), ("many", 1)])
def test_a_reading_is_handed_as_many_passages_as_it_would_search_for(
    strategy: str, shown: int, tmp_path: Path
) -> None:
    method = f"adaptive_rag[strategy={strategy},k=1,k_one=2,read_by=direct]"
    directory = planned(tmp_path, method, passages="given", count=2)
    run(directory, reader())
    assert [len(one["passages"]) for one in records(directory)] == [shown, shown]


def test_the_gold_passage_stands_where_the_order_says(tmp_path: Path) -> None:
    methods = "concat[k=3,order=gold_last],concat[k=3,order=gold_first]"
    directory = planned(tmp_path, methods, gold="with")
    run(directory, reader())
    for one in records(directory):
        place = 0 if "gold_first" in one["system"] else len(one["passages"]) - 1
        assert one["passages"][place]["gold"]


@pytest.mark.parametrize("route", ["", "[strategy=one,k_one=5]", "[strategy=many,k=5,k_one=1]"])
def test_questions_whose_search_finds_nothing_count_in_recall_at_k(
    tmp_path: Path, route: str
) -> None:
    found = [{"title": "Varn", "text": "The bridge of Varn opened in 1900.", "gold": True}]
    lost = [{"title": "Lom", "text": "Ferries cross there since 1901.", "gold": True}]
    path = write_lines(
        tmp_path / "q.jsonl",
        {"question": "When did the bridge of Varn open?", "answers": ["1900"], "passages": found},
        {"question": "Zzyzx?", "answers": ["1901"], "passages": lost},
    )
    method = f"adaptive_rag{route}" if route else "concat"
    made = plan(
        f"jsonl:{path}", parse_systems(method), {"answer": "scripted"}, metrics=["recall@5"]
    )
    directory = claim_directory(tmp_path / "run", made)
    run(directory, reader())
    assert [one["scores"] for one in records(directory)] == [{"recall@5": 1.0}, {"recall@5": 0.0}]


def test_the_report_says_where_a_metric_is_over_fewer_questions(tmp_path: Path) -> None:
    directory = planned(tmp_path, "concat[k=2]", metrics=["recall", "filter_recall"])
    run(directory, reader())
    lines = [json.loads(line) for line in directory.results.read_text("utf-8").splitlines()]
    lines[0]["scores"]["filter_recall"] = 1.0
    directory.results.write_text("\n".join(map(json.dumps, lines)) + "\n", "utf-8")
    (experiment,) = read_runs([directory.path])
    (table,) = [one for one in tables_of(experiment) if one.title == "Passages"]
    assert table.remarks[-1] == "concat[k=2]: over 6 questions, but Filter recall 1."


def test_an_order_by_gold_needs_gold_passages_marked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="order=gold_first needs marked gold passages"):
        planned(tmp_path, "concat[order=gold_first]")


def test_taken_out_gold_leaves_the_number_of_passages(tmp_path: Path) -> None:
    directory = planned(tmp_path, "concat[k=2]", gold="without")
    run(directory, reader())
    assert {len(one["passages"]) for one in records(directory)} == {2}


def test_without_gold_no_gold_passage_is_seen(tmp_path: Path) -> None:
    directory = planned(tmp_path, "concat[k=2]", gold="without")
    run(directory, reader())
    assert all(one["scores"]["recall"] == 0.0 for one in records(directory) if one["passages"])
    assert not any(doc["gold"] for one in records(directory) for doc in one["passages"])


def test_a_knowledge_base_is_searched_and_may_not_change_between_sittings(tmp_path: Path) -> None:
    kb = tmp_path / "kb"
    with KnowledgeBase.create(kb, settings=Settings(embedding=None)) as base:
        base.add([Document(page_content="The bridge of Varn opened in 1900.")])
    directory = planned(tmp_path, "concat[k=1]", kb=kb, limit=1)
    run(directory, reader())
    assert records(directory)[0]["answer"] == "1900"
    later = planned(tmp_path / "later", "concat[k=1]", kb=kb)
    with KnowledgeBase.open(kb) as base:
        base.add([Document(page_content="More.")])
    with pytest.raises(UsageError, match="has changed since the run began"):
        run(later, reader())


def test_a_knowledge_base_made_anew_is_another_one(tmp_path: Path) -> None:
    kb = towns_kb(tmp_path / "kb", "The bridge of Varn opened in 1900.")
    run(planned(tmp_path, "concat[k=1]", kb=kb, limit=1), reader())
    later = planned(tmp_path / "later", "concat[k=1]", kb=kb)
    shutil.rmtree(kb)
    towns_kb(kb, "The bridge of Varn opened in 1901.")
    with pytest.raises(UsageError, match="has changed since the run began"):
        run(later, reader())
    with pytest.raises(UsageError, match="kb_state was"):
        planned(tmp_path, "concat[k=1]", kb=kb, limit=1)


def test_a_file_without_passages_needs_a_knowledge_base(tmp_path: Path) -> None:
    directory = planned(tmp_path, "concat", corpus="file", retriever="dense")
    with pytest.raises(UsageError, match="needs a knowledge base"):
        run(directory, reader())


def test_gold_answers_are_handed_over_only_to_an_oracle(tmp_path: Path) -> None:
    plain = planned(tmp_path / "plain", "filco[k=2,filter=lexical]")
    oracle = planned(tmp_path / "oracle", "filco[k=2,filter=strinc]", oracle=True)
    run(plain, reader())
    run(oracle, reader())
    kept = [doc["text"] for one in records(oracle) for doc in one["passages"]]
    assert all("opened in" in text for text in kept)


def test_given_passages_are_a_corpus_that_retrieving_methods_search(tmp_path: Path) -> None:
    methods = "direct,concat[k=2],iter_retgen[k=1],slimplm[k=1],blendfilter[k=1],self_eval[k=1]"
    directory = planned(tmp_path, methods, corpus="given", count=2)

    def replies(seen: Seen) -> str:
        task = seen.task or {"task": ""}
        known = {"recall": "It opened in spring.", "judge": "<Known(False)>", "need": "Yes"}
        return known.get(str(task["task"]), read_year(seen))

    run(directory, ScriptedChat(replies=replies, usage=(10, 2)))
    by = {(one["at"], one["system"]): one for one in records(directory)}
    for index in range(2):
        assert by[index, "direct"]["passages"] == []
        found = by[index, "concat[k=2]"]
        assert (found["usage"]["retrievals"], len(found["passages"])) == (1, 2)
        assert all(f"{TOWNS[index]}" in doc["text"] for doc in found["passages"])
        assert by[index, "iter_retgen[k=1]"]["usage"]["retrievals"] == 3
        nodes = by[index, "slimplm[k=1]"]["usage"]["by_node"]
        assert {"draft", "judge"} <= nodes.keys()
        assert set(by[index, "blendfilter[k=1]"]["retrieved"]) == {
            "question",
            "external",
            "internal",
        }
        assert "need" in by[index, "self_eval[k=1]"]["usage"]["by_node"]


def test_gold_put_in_keeps_the_number_of_passages(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct,concat[k=2]", gold="with")
    run(directory, reader())
    for one in records(directory):
        if one["system"] == "direct":
            assert one["passages"] == []
        else:
            assert len(one["passages"]) == 2
            assert any(doc["gold"] for doc in one["passages"])


def _words(start: int, count: int) -> str:
    return " ".join(f"word{number}" for number in range(start, start + count))


@pytest.mark.parametrize(
    ("found", "gold", "same"),
    [
        (_words(0, 30), _words(0, 30).upper() + ".", True),
        (_words(20, 100), _words(0, 250), True),
        (_words(0, 100), _words(60, 80), True),
        (_words(0, 100), _words(80, 80), False),
        (_words(0, 5), _words(0, 80), False),
        ("Paris is in France", "Paris is in France.", True),
        ("Varn is a village in the district of Gmina Lom, within Tesk County, in the north.",
         "Pirra is a village in the district of Gmina Lom, within Tesk County, in the north.",
         False),
    ],
)  # fmt: skip
def test_a_passage_is_gold_by_its_text_where_ids_differ(found: str, gold: str, same: bool) -> None:
    known = GoldPassages([passage(gold, gold.split()[0], gold=True)])
    doc = Document(page_content=found, metadata={"title": found.split()[0]}, id="row-17")
    if found.startswith("word"):
        doc.metadata["title"] = gold.split()[0]
    assert (known.match(doc) is not None) is same


def test_cuts_of_a_long_gold_paragraph_count_as_that_paragraph(tmp_path: Path) -> None:
    rows = [
        {
            "id": str(index),
            "question": f"What is told of town{index}?",
            "answers": ["x"],
            "passages": [{"text": f"town{index} " + _words(1000 * index, 150), "gold": True}],
        }
        for index in range(2)
    ]
    data = write_lines(tmp_path / "long.jsonl", *rows)
    with KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None)) as base:
        cuts = [
            Document(page_content=" ".join(words[place : place + 100]), id=f"{row['id']}-{place}")
            for row in rows
            for words in [str(row["passages"][0]["text"]).split()]  # type: ignore[index]
            for place in range(0, len(words), 100)
        ]
        base.add(cuts)
    made = plan(
        f"jsonl:{data}",
        parse_systems("concat[k=1,order=gold_first],concat_pf[k=2]"),
        {"answer": "scripted"},
        kb=tmp_path / "kb",
        gold="with",
    )
    directory = claim_directory(tmp_path / "run", made)
    run(directory, ScriptedChat(replies=["x"], usage=(1, 1)))
    for one in records(directory):
        assert one["scores"]["recall"] == 1.0
        assert one["gold_found"] == {"known": 1, "id": 0, "text": 1}
        assert one["passages"][0]["gold"]
    (experiment,) = read_runs([directory.path])
    told = " ".join(remark for table in tables_of(experiment) for remark in table.remarks)
    assert "of 2 gold passages, 0 were found by id, 2 by their text" in told


def test_gold_that_no_question_names_is_refused(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "nq.jsonl", {"question": "who?", "answer": ["me"]})
    with KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None)) as base:
        base.add([Document(page_content="It was me.")])
    with pytest.raises(UsageError, match="has a gold passage"):
        plan(
            f"nq:{data}",
            parse_systems("concat"),
            {"answer": "scripted"},
            kb=tmp_path / "kb",
            gold="with",
        )


def towns_kb(folder: Path, *texts: str) -> Path:
    """Write a BM25 knowledge base of these passages."""
    with KnowledgeBase.create(folder, settings=Settings(embedding=None)) as base:
        base.add([Document(page_content=text) for text in texts])
    return folder


def sceptic(seen: Seen) -> str:
    """Say that no passage helps, but for those about bridges."""
    if (seen.task or {}).get("task") == "grade":
        return "Correct" if "bridge" in "".join(seen.passages) else "Incorrect"
    return read_year(seen)


def test_crag_looks_again_where_the_run_says(tmp_path: Path) -> None:
    ports = towns_kb(tmp_path / "ports", "The port of Varn freezes.", "The port of Lom is deep.")
    bridges = towns_kb(tmp_path / "bridges", "The bridge of Varn opened in 1900.")
    directory = planned(
        tmp_path,
        "crag[refine=false,rewrite=false]",
        kb=ports,
        limit=1,
        second_retriever=f"bm25:{bridges}",
    )
    assert RunDirectory(directory.path).settings.second_retriever == f"bm25:{bridges}"
    run(directory, ScriptedChat(replies=sceptic))
    (record,) = records(directory)
    assert record["answer"] == "1900"
    assert set(record["retrieved"]) == {"question", "second"}
    with KnowledgeBase.open(bridges) as base:
        base.add([Document(page_content="More.")])
    with pytest.raises(UsageError, match="bridges: has changed since the run began"):
        second_retriever_for(directory.settings)


def test_a_second_retriever_by_name_searches_the_same_knowledge_base(tmp_path: Path) -> None:
    kb = towns_kb(tmp_path / "kb", "The bridge of Varn opened in 1900.")
    settings = planned(tmp_path, "crag", kb=kb, second_retriever="bm25").settings
    assert settings.second_retriever == f"bm25:{kb}"
    found = second_retriever_for(settings)
    assert found is not None
    assert [doc.page_content for doc in found.invoke("bridge")] == [
        "The bridge of Varn opened in 1900."
    ]


def test_a_second_retriever_that_needs_no_knowledge_base(tmp_path: Path) -> None:
    path = "tests.evaluation.runs.web:Web?most=1"
    settings = planned(tmp_path, "crag", second_retriever=path).settings
    assert settings.second_retriever == path
    found = second_retriever_for(settings)
    assert found is not None
    assert [doc.page_content for doc in found.invoke("bridge")] == ["found on the web: bridge"]


@pytest.mark.parametrize(
    ("methods", "settings", "said"),
    [
        ("concat", {"second_retriever": "bm25"}, "is where crag looks again"),
        ("crag", {"second_retriever": "bm25"}, "bm25 searches a knowledge base: name one with"),
        ("crag", {"second_retriever": "nowhere"}, "no such knowledge base, and no retriever of"),
        ("crag", {"second_retriever": "pg:postgresql://a:pw@b/c#d"}, "has a password"),
        ("crag", {"second_retriever": "bm25:kb", "passages": "given"}, "given searches nothing"),
    ],
)
def test_a_second_retriever_that_a_run_cannot_have(
    tmp_path: Path, methods: str, settings: dict[str, str], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        planned(tmp_path, methods, **settings)


def beir(folder: Path) -> Path:
    """Write a BEIR folder: `d1` of 205 words is relevant to `q1`, `d2` to `q2`."""
    folder.mkdir()
    rows = [
        {"_id": "d1", "title": "Bridges", "text": _words(0, 205)},
        {"_id": "d2", "title": "Ports", "text": "The port of Varn freezes in most winters."},
        {"_id": "d3", "title": "Mines", "text": "The mine of Lom was closed in the spring."},
    ]
    write_lines(folder / "corpus.jsonl", *rows)
    asked = [{"_id": "q1", "text": "word0 word101 word204"}, {"_id": "q2", "text": "port of Varn"}]
    write_lines(folder / "queries.jsonl", *asked)
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("q1\td1\t1\nq2\td2\t1\n", "utf-8")
    return folder


@pytest.mark.parametrize("ids", ["_id", "no_id"])
def test_a_collection_in_a_knowledge_base_is_found_by_its_judgements(
    tmp_path: Path, ids: str
) -> None:
    data = beir(tmp_path / "data")
    with KnowledgeBase.create(
        tmp_path / "kb", settings=Settings(embedding=None, id_field=ids)
    ) as base:
        base.index_paths(data / "corpus.jsonl")
        assert len(base) == 5
    made = plan(
        f"beir:{data}", parse_systems("concat[k=3]"), {"answer": "scripted"}, kb=tmp_path / "kb"
    )
    directory = claim_directory(tmp_path / "run", made)
    run(directory, ScriptedChat(replies=["x"], usage=(1, 1)))
    first, second = records(directory)
    assert first["scores"]["recall"] == second["scores"]["recall"] == 1.0
    by_id = ids == "_id"
    of_five_words = by_id  # too few to be told by themselves
    assert sorted(doc["gold"] for doc in first["passages"]) == [of_five_words, True, True]
    assert first["gold_found"] == {"known": 1, "id": int(by_id), "text": int(not by_id)}


@pytest.mark.parametrize("settings", [{"corpus": "given"}, {"passages": "given"}])
def test_gold_passages_alone_are_nothing_to_give(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="name their gold passages alone"):
        plan(
            f"beir:{beir(tmp_path / 'data')}",
            parse_systems("concat"),
            {"answer": "scripted"},
            **settings,
        )
