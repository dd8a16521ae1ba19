"""Each stage at which an answer can be lost, and the report's columns."""

import io
import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from langchain_core.documents import Document
from rich.console import Console

from ragweave.datasets import Question
from ragweave.evaluation import EvalSettings, evaluate, read_report, write
from ragweave.evaluation.layout import show
from ragweave.evaluation.why import STATE, Library, Stage, explain, same_in_other_words
from ragweave.graphs import build_graph
from ragweave.testing import ScriptedModel
from ragweave.tools.filters import FilterKind
from ragweave.tools.knowledge import KnowledgeBase

WHO = Question(id="1", question="Who built the bridge at Alden?", answers=("Ada Brenner",))
TEXTS = [
    "Who built the bridge at Alden is written on the bridge.",
    "The bridge at Alden carries a road and a railway at Alden.",
    "Ada Brenner built this bridge. It has five arches over the river.",
    "The lighthouse of Norhaven was lit in 1891.",
]


def knowledge_base(folder: Path, texts: list[str]) -> KnowledgeBase:
    base = KnowledgeBase.create(folder, settings={"embedding": None})
    base.add(map(Document, texts), source="a", split=False)
    return base


@pytest.fixture
def base(tmp_path: Path) -> KnowledgeBase:
    return knowledge_base(tmp_path / "kb", TEXTS)


def explained(
    base: KnowledgeBase, *replies: str, k: int = 3, method: str = "concat", question: Question = WHO, **options: Any
) -> Any:
    model = ScriptedModel(script=list(replies))
    graph = build_graph(method, model=model, retriever=base.as_retriever(k, "bm25"), k=k, **options)
    state = graph.invoke({"question": question.question}, output_keys=STATE)
    return explain(question, state, Library(base, "bm25"))


def test_each_stage_is_named(base: KnowledgeBase) -> None:
    assert explained(base, "Ada Brenner") is None
    assert explained(base, "Brenner, Ada").stage == "metric"
    reading = explained(base, "Karl Oster")
    assert reading.stage == "reading"
    assert "It was passage 3 of 3. The answer is 'Karl Oster'." in str(reading)
    refusal = explained(base, "Unknown")
    assert (refusal.stage, refusal.settings) == ("refusal", {"method": "concat_pf"})
    alone = explained(base, *["Unknown"] * 4, method="concat_pf")
    assert "It was also read by itself.\nTry a stronger model." in str(alone)
    votes = ("Ada Brenner", "Karl Oster", "Karl Oster")
    assert explained(base, *votes, samples=3).stage == "vote"


def test_an_answer_that_is_not_in_the_documents(base: KnowledgeBase) -> None:
    asked = Question(id="2", question="Who lit the lighthouse?", answers=("Ole Vind",))
    assert explained(base, "Karl Oster", question=asked).stage == "documents"
    card_game = Question(id="3", question="Which card game has four players?", answers=("bridge",))
    assert explained(base, "whist", question=card_game).stage == "documents"  # three passages hold the word
    rare = Question(id="4", question="Which part of a foot is highest?", answers=("arches",))
    assert explained(base, "heel", question=rare).stage == "retrieval"  # one passage alone holds it


def test_a_passage_below_k_comes_with_its_rank_and_the_k_to_try(base: KnowledgeBase) -> None:
    finding = explained(base, "Karl Oster", k=1)
    assert (finding.stage, finding.settings) == ("retrieval", {"k": 3})
    assert "Its rank: bm25 3, graph 3; k was 1." in str(finding)
    assert explained(base, "Karl Oster", k=3).stage == "reading"


def test_a_filter_and_a_short_prompt_are_told_apart(base: KnowledgeBase) -> None:
    drop = FilterKind(
        name="drop",
        summary="",
        scores=lambda _q, parts, _a, _s: [float("Ada" not in part.page_content) for part in parts],
    )
    filtered = explained(base, "Karl Oster", method="filco", filter=drop)
    assert (filtered.stage, filtered.settings) == ("selection", {"method": "concat"})
    base.add([Document(f"{text} {'More words follow here. ' * 60}") for text in TEXTS], source="b", split=False)
    base.delete(source="a")
    short = explained(base, "Karl Oster", prompt_tokens=450)
    assert short.stage == "selection"
    assert "did not fit into the prompt" in short.detail


def test_an_answer_that_chunking_cut_in_two(tmp_path: Path) -> None:
    halves = ["The bridge at Alden was built by Ada", "Brenner, who lived there."]
    with knowledge_base(tmp_path / "cut", halves) as base:
        assert explained(base, "Karl Oster").stage == "chunking"


def test_a_missing_gold_passage_is_named_though_the_other_was_found(base: KnowledgeBase) -> None:
    ids = [str(doc.id) for doc in base.passages()]
    hops = Question(id="3", question=WHO.question, answers=("Ole Vind",), gold={ids[0]: 1.0, ids[3]: 1.0})
    finding = explained(base, "Karl Oster", question=hops)
    assert finding.stage == "retrieval"
    assert "bm25 not at all" in finding.detail


@pytest.mark.parametrize(
    ("answer", "gold", "same"),
    [
        ("It was Ada Brenner.", "Ada Brenner", True),
        ("Obama", "Barack Obama", True),
        ("12 May 1932", "May 12, 1932", True),
        ("April", "April 1917", False),
        ("1916", "1917", False),
        ("It was not Ada Brenner.", "Ada Brenner", False),
    ],
)
def test_what_counts_as_the_same_answer(answer: str, gold: str, same: bool) -> None:
    assert same_in_other_words(answer, [gold]) == same


def test_a_report_says_where_answers_were_lost_and_leads_to_their_traces(base: KnowledgeBase, tmp_path: Path) -> None:
    rows = [
        {"question": WHO.question, "answers": ["Ada Brenner"]},
        {"question": "When was the lighthouse lit?", "answers": ["1891"]},
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    settings = EvalSettings(data=f"jsonl:{tmp_path / 'q.jsonl'}", kb=str(base.path), retriever="bm25")
    model = ScriptedModel(script=["It was in 1891."])
    summary = evaluate(settings, tmp_path / "run", given={"generator": model}, quiet=True)
    assert summary.calls == len(model.calls) == 2
    report = read_report(tmp_path / "run")
    assert {stage: len(records) for stage, records in report.lost["concat"].items()} == {
        stage: int(stage == "reading") for stage in get_args(Stage)
    }
    assert not any(metric.name.startswith("lost") for metric in report.metrics)
    write(report, tmp_path / "run")
    show(report, screen := Console(file=io.StringIO(), width=80))
    assert "Questions lost in  reading  all" in screen.file.getvalue()  # type: ignore[attr-defined]
    assert "| concat | 1 | 1 |" in (tmp_path / "run" / "report.md").read_text()
    links = re.findall(r'href="(traces/[^"]+)">([^<]+)<', (tmp_path / "run" / "report.html").read_text())
    assert [question for _, question in links] == [WHO.question]
    trace = (tmp_path / "run" / links[0][0]).read_text()
    assert "It was in 1891." in trace
    assert "You answer questions" in trace


def test_each_system_is_explained_by_the_knowledge_base_that_it_searches(base: KnowledgeBase, tmp_path: Path) -> None:
    other = knowledge_base(tmp_path / "other", [" ".join(TEXTS)])  # chunked otherwise: its passages have other ids
    (tmp_path / "q.jsonl").write_text(json.dumps({"question": WHO.question, "answers": ["Ada Brenner"]}))
    systems = ("concat[retriever=bm25]", f"concat[retriever=bm25:{other.path}]", f"concat[retriever={other.path}]")
    settings = EvalSettings(data=f"jsonl:{tmp_path / 'q.jsonl'}", kb=str(base.path), systems=systems)
    evaluate(settings, tmp_path / "run", given={"generator": ScriptedModel(script=["Karl Oster"])}, quiet=True)
    lost = read_report(tmp_path / "run").lost
    assert [len(lost[system]["reading"]) for system in systems] == [1, 1, 1]
