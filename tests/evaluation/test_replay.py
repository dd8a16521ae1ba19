"""Replay: each method is answered with what was recorded for the route that it takes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from statistics import fmean

import pytest
from langchain_core.documents import Document
from tests.recordings import ROWS, written

from ragweave import build_graph, chat_model
from ragweave.datasets import open_dataset
from ragweave.datasets.recorded import contains_answer, ideal_route, read_recordings
from ragweave.errors import ModelError, UsageError
from ragweave.evaluation.report import read_runs, tables_of
from ragweave.evaluation.runs import claim_directory, evaluate, parse_systems, plan
from ragweave.evaluation.runs.passages import needs_file, retriever_for
from ragweave.testing import ReplayChat, ReplayRetriever
from ragweave.tools.knowledge import KnowledgeBase, Settings
from ragweave.tools.retrieval import Bm25Retriever, PassageRetriever

METHODS = "direct,concat,iter_retgen,slimplm,adaptive"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "rows.jsonl")


def answered(method: str, file: Path, number: int, **options: object) -> str:
    recordings = read_recordings(file)
    graph = build_graph(
        method,
        model=ReplayChat.of(recordings),
        retriever=ReplayRetriever.of(recordings),
        **options,
    )
    return str(graph.invoke({"question": recordings[number].question})["answer"])


@pytest.mark.parametrize(
    ("method", "answers"),
    [
        ("direct", ["Ada Brenner", "Karl Oster", "Karl Oster"]),
        ("concat", ["Ada Brenner", "Ada Brenner", "Karl Oster"]),
        ("slimplm", ["Ada Brenner", "Ada Brenner", "Karl Oster"]),
        ("iter_retgen", ["Karl Oster", "Ada Brenner", "Ada Brenner"]),
    ],
)
def test_a_method_gets_the_reply_of_its_route(method: str, answers: list[str], file: Path) -> None:
    assert [answered(method, file, number) for number in range(3)] == answers


def test_a_run_over_a_recording_shows_costs_and_ceilings(file: Path, tmp_path: Path) -> None:
    spec = f"recorded:{file}"
    settings = plan(spec, parse_systems(METHODS), {"answer": spec})
    directory = claim_directory(tmp_path / "run", settings)
    result = asyncio.run(evaluate(directory))
    assert (result.progress.answered, result.progress.failed) == (20, 0)
    (experiment,) = read_runs([directory.path])
    tables = {table.title: table for table in tables_of(experiment)}
    em = {one[0]: one[1] for one in tables["Ceilings"].rows}
    assert em == {
        "never": "25.0",
        "one round": "50.0",
        "many rounds": "50.0",
        "ideal: none | one": "50.0",
        "ideal: none | one | many": "75.0",
    }
    shares = next(one[4:] for one in tables["Ceilings"].rows if "many" in one[0] and "|" in one[0])
    assert shares == ["50%", "25%", "25%"]
    costs = tables["Cost"]
    at = costs.head.index("Retrievals")
    retrievals = {one[0]: float(one[at]) for one in costs.rows}
    assert retrievals["direct"] == 0
    assert retrievals["concat"] == 1
    assert retrievals["iter_retgen"] > 1


def test_the_ceilings_are_those_of_the_questions_drawn(file: Path, tmp_path: Path) -> None:
    spec = f"recorded:{file}"
    drawn = f"{spec}?random=2&seed=1"
    chosen = {one.id for one in open_dataset(drawn)}
    settings = plan(drawn, parse_systems("direct,concat"), {"answer": spec})
    directory = claim_directory(tmp_path / "run", settings)
    asyncio.run(evaluate(directory))
    (experiment,) = read_runs([directory.path])
    (table,) = [one for one in tables_of(experiment) if one.title == "Ceilings"]
    right = [one.right() for one in read_recordings(file) if one.id in chosen]
    assert len(right) == 2
    accuracy = {row[0]: float(row[3]) for row in table.rows}
    assert accuracy["never"] == 100 * fmean(one["none"] for one in right)
    assert accuracy["one round"] == 100 * fmean(one["one"] for one in right)


def test_a_knowledge_base_is_for_first_looks_alone(file: Path, tmp_path: Path) -> None:
    with KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None)) as kb:
        kb.add([Document("Ada Brenner built the bridge at Alden.")])
    spec, dataset = f"recorded:{file}", open_dataset(f"recorded:{file}")

    def retriever(model: str) -> PassageRetriever | None:
        settings = plan(spec, parse_systems("concat"), {"answer": model}, kb=tmp_path / "kb")
        assert needs_file(settings, dataset) is (model == spec)
        return retriever_for(settings, dataset)

    replayed = retriever(spec)
    assert isinstance(replayed, ReplayRetriever)
    assert isinstance(replayed.lexical(), Bm25Retriever)
    assert isinstance(retriever("extractive?similarity=lexical"), Bm25Retriever)
    assert ReplayRetriever.of(read_recordings(file)).lexical() is None


def test_the_command_replays_the_recording_unless_told_otherwise(file: Path) -> None:
    from ragweave.cli.eval import _answering

    assert _answering("extractive", f"recorded:{file}") == f"recorded:{file}"
    assert _answering("openai:some", f"recorded:{file}") == "openai:some"
    assert _answering("extractive", "nq:rows.jsonl") == "extractive"


def test_what_was_not_recorded_is_empty_or_an_error(file: Path) -> None:
    recordings = read_recordings(file)
    question = recordings[0].question
    graph = build_graph("self_eval", model=chat_model(f"recorded:{file}"), retriever=None)
    out = graph.invoke({"question": question, "passages": ["Anything."]})
    assert out["answer"] == "Ada Brenner"
    strict = build_graph(
        "self_eval",
        model=chat_model(f"recorded:{file}?unrecorded=error"),
        retriever=ReplayRetriever.of(recordings),
    )
    with pytest.raises(ModelError, match="nothing was recorded for the step 'need'"):
        strict.invoke({"question": question})


def test_a_question_that_was_not_recorded_is_an_error(file: Path) -> None:
    graph = build_graph("direct", model=chat_model(f"recorded:{file}"))
    with pytest.raises(ModelError, match="is not in the recording"):
        graph.invoke({"question": "Who painted the ferry?"})
    with pytest.raises(ModelError, match="ragweave's methods alone"):
        chat_model(f"recorded:{file}").invoke("Who painted the ferry?")


def test_bad_recordings_and_specs_are_named(tmp_path: Path, file: Path) -> None:
    with pytest.raises(UsageError, match="there is no such file"):
        chat_model(f"recorded:{tmp_path / 'none.jsonl'}")
    with pytest.raises(UsageError, match="no setting 'colour'"):
        chat_model(f"recorded:{file}?colour=blue")
    twice = written(tmp_path / "twice.jsonl", [ROWS[0], {**ROWS[0], "one_round": {"answer": "x"}}])
    with pytest.raises(UsageError, match="recorded twice"):
        chat_model(f"recorded:{twice}")
    bad = written(tmp_path / "bad.jsonl", [{**ROWS[0], "ircot": "Ada"}])
    with pytest.raises(UsageError, match=r"bad\.jsonl:1: 'ircot' must be an object"):
        open_dataset(f"recorded:{bad}")
        read_recordings(bad)


def test_the_format_is_found_by_its_fields(file: Path) -> None:
    dataset = open_dataset(str(file))
    assert dataset.name == "recorded"
    assert [one.answers for one in dataset] == [("Ada Brenner",)] * 4


def test_a_reasoning_recorded_as_json_is_read_and_a_number_is_left_alone(tmp_path: Path) -> None:
    rows = [ROWS[0], {**ROWS[1], "no_retrieval": {"answer": "1931", "said": ["1931", "1931"]}}]
    first, second = read_recordings(written(tmp_path / "rows.jsonl", rows))
    assert first.replies["none"].reasoning.startswith("The bridge was built by")
    assert second.replies["none"].reasoning == "1931"


def test_an_answer_cut_out_of_a_json_string_is_read_as_it_was_said(tmp_path: Path) -> None:
    answers = {"no_retrieval": r"Li\u00e8ge", "one_round": r"the \"Osk\"", "ircot": r"C:\new"}
    row = {**ROWS[0], **{name: {"answer": said} for name, said in answers.items()}}
    (one,) = read_recordings(written(tmp_path / "rows.jsonl", [row]))
    assert [one.replies[name].answer for name in ("none", "one", "many")] == [
        "Liège",
        'the "Osk"',
        r"C:\new",
    ]


def test_an_answer_counts_where_it_contains_a_gold_answer_as_whole_words() -> None:
    assert contains_answer("It was built by the Ada Brenner company", ["Ada Brenner"])
    assert not contains_answer("Adaline", ["Ada"])
    assert not contains_answer("anything", ["the"])


def test_the_ideal_route_is_the_cheapest_right_one() -> None:
    assert ideal_route({"none": False, "one": True, "many": True}, ("none", "one", "many")) == "one"
    assert ideal_route({"none": False, "one": False, "many": True}, ("none", "one")) == "none"
