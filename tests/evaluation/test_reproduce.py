"""The papers' tables as plans of runs, and their derived columns."""

import math
from pathlib import Path
from typing import Any, get_args

import pytest

from ragweave import build_graph
from ragweave.datasets import Question
from ragweave.errors import UsageError
from ragweave.evaluation.metrics import METRICS
from ragweave.evaluation.reproduce import PAPERS, best_of, listing, measured, plan, table_of, tables
from ragweave.graphs import METHODS
from ragweave.graphs.specs import read_options, read_system, split_systems
from ragweave.nodes.options import Options
from ragweave.testing import ModelCall, RecordingRetriever, ScriptedModel
from ragweave.testing.store import WordEmbeddings

ROLES = ("generator", "proxy")


@pytest.mark.parametrize("paper", PAPERS)
def test_every_row_can_be_run(paper: str) -> None:
    """Every result of a paper is a plan whose options the methods take, and whose metrics there are."""
    for table in tables(paper):
        for dataset in table.datasets:
            for model in table.models or [""]:
                table_plan = plan(paper, table.name, dataset, model=model, filters={"": "part/"})
                assert len(table_plan.settings.systems) == len({*table_plan.settings.names})
                assert {*table_plan.settings.metrics} <= {*METRICS}
                for spec in table_plan.settings.systems:
                    name = spec.removeprefix("proxy:").partition("[")[0]
                    if name in METHODS:
                        read_system(spec)


def test_a_table_as_a_plan() -> None:
    table_plan = plan("blendfilter", "1", "hotpotqa")
    assert table_plan.paper.printed("BlendFilter", "squad_em") == 50.8
    assert "blendfilter[k=5,shots=3,profile=blendfilter]" in table_plan.settings.systems
    assert any("subset=blendfilter" in note for note in table_plan.paper.notes)


def asked(paper: str, table: str, dataset: str, label: str, **more: Any) -> dict[str, list[ModelCall]]:
    """Return the calls of each model, as a row asks one question."""
    row = next(row for row in table_of(paper, table).rows if row.label == label)
    system = read_system(row.spec(dataset))
    replies = {"self_ask": "Follow up: Who built the bridge?"}
    models = {role: ScriptedModel(script=lambda call: replies.get(call.node, "Ada."), role=role) for role in ROLES}
    graph = build_graph(
        system.method,
        model=models["generator"],
        proxy=models["proxy"],
        retriever=RecordingRetriever(),
        **system.options,
        **more.get(system.method.name, {}),
    )
    graph.invoke({"question": "Who built the bridge?"})
    return {role: model.calls for role, model in models.items()}


def prompts_of(*row: str) -> list[str]:
    return [call.text for calls in asked(*row).values() for call in calls]


def test_the_large_model_is_called_as_often_as_printed() -> None:
    """SlimPLM, table 1, #API: exactly, where it is whole; where it is a mean, the rounds allow it."""
    labels = str(Path(__file__).parents[1] / "graphs" / "needed.jsonl")
    skr = {"training": labels, "embeddings": WordEmbeddings(512), "neighbours": 1}
    for row in table_of("slimplm", "1").rows:
        printed = row.values["nq"]["api_calls"]
        calls = asked("slimplm", "1", "nq", row.label, skr_knn=skr)["generator"]
        called = len([call for call in calls if call.node != "read"])
        assert called == printed or (printed % 1 and called <= math.ceil(printed)), row.label


def test_a_row_whose_filter_is_trained_is_empty_without_one() -> None:
    table_plan = plan("filco", "figure 4", "nq")
    assert table_plan.settings.names == ("FULL", "SILVER")
    assert table_plan.settings.oracle == ("SILVER",)
    assert table_plan.paper.empty["PSG"] == "it needs a trained filter: --filter 'PSG=FOLDER'"
    assert plan("filco", "table4", "nq").paper.printed("FULL, top 5", "filco_em") == 47.6
    trained = plan("filco", "table5", "nq", filters={"STRINC": "parts/strinc"})
    assert trained.settings.systems == ("filco[k=1,profile=filco,filter=parts/strinc]",)


def test_a_row_by_cxmi_is_empty_without_a_scorer() -> None:
    """FILCO's SILVER on FEVER: no other filter stands in for CXMI."""
    without = plan("filco", "table4", "fever")
    assert without.paper.empty["SILVER, top 5"] == "it needs --model scorer=SPEC"
    assert "SILVER, top 5" not in without.settings.names
    assert "SILVER, top 5" in plan("filco", "table4", "fever", scorer=True).settings.names
    assert "SILVER, top 5" in plan("filco", "table4", "nq").settings.names


def test_self_asks_rounds_are_counted_without_its_reader() -> None:
    """SlimPLM, table 1, #API: three calls of the chain; the reader's two are apart."""
    system = read_system(table_of("slimplm", "1").rows[5].spec("nq"))
    model = ScriptedModel(script=lambda _call: "Follow up: Who built the bridge?")
    graph = build_graph(system.method, model=model, retriever=RecordingRetriever(), **system.options)
    out = graph.invoke({"question": "Who?"})
    assert out["usage"]["calls"] == 5
    state = {**out, "large": {"generator"}}
    assert METRICS["api_calls"].compute(Question(id="1", question="Who?"), state) == 3.0


@pytest.mark.parametrize(
    ("paper", "table", "dataset", "text"),
    [
        ("blendfilter", "1", "hotpotqa", "HotpotQA's own script gives 0"),
        ("blendfilter", "1", "2wiki", "It has no limit of rounds; ours is ten."),
        ("slimplm", "1", "nq", "released Qwen-72B results take CoT's answer"),
        ("slimplm", "1", "nq", "over five passages instead of twenty"),
        ("filco", "figure5", "nq", "by Llama's tokenizer"),
        ("filco", "table3", "wow", "the release has `query:` and `response:`"),
        ("filco", "table3", "wow", "LEXICAL counts letters"),
    ],
)
def test_plans_say_what_differs(paper: str, table: str, dataset: str, text: str) -> None:
    assert any(text in note for note in plan(paper, table, dataset).paper.notes)


@pytest.mark.parametrize("table", ["1", "2", "3"])
@pytest.mark.parametrize("label", ["Direct", "CoT, retrieval", "ITER-RETGEN", "BlendFilter"])
def test_blendfilters_rows_show_each_data_sets_own_examples(table: str, label: str) -> None:
    """BlendFilter, appendix F: external augmentation has one prompt for all data sets."""
    hotpotqa, wiki = "It Might Get Loud", "Rhescuporis I (Odrysian)"
    assert any(hotpotqa in prompt for prompt in prompts_of("blendfilter", table, "hotpotqa", label))
    prompts = prompts_of("blendfilter", table, "2wiki", label)
    assert any(wiki in prompt for prompt in prompts)
    assert sum(hotpotqa in prompt for prompt in prompts) == (label == "BlendFilter")


def test_slimplms_cot_shows_three_examples_on_musique_alone() -> None:
    """SlimPLM's released code."""
    assert prompts_of("slimplm", "1", "musique", "CoT")[0].count("So the answer is") == 3
    assert "So the answer is" not in prompts_of("slimplm", "1", "nq", "CoT")[0]


def test_only_llama_as_a_proxy_is_asked_the_bare_question() -> None:
    """SlimPLM, table 3, and its released code."""
    drafts = {
        label: prompts_of("slimplm", "3", "nq", label)
        for label in ("Llama2-7B-Chat", "Qwen-7B-Chat", "TinyLlama-1.1B-Chat", "Phi-2 (2.7B)")
    }
    bare = {label for label, prompts in drafts.items() if "Who built the bridge?" in prompts}
    assert bare == {"Llama2-7B-Chat"}


def test_a_row_with_a_proxy_of_its_own_is_chosen() -> None:
    assert plan("slimplm", "3", "nq").settings.names == ("Llama2-7B-Chat",)
    assert plan("slimplm", "3", "nq", only="Phi").settings.names == ("Phi-2 (2.7B)",)


def test_rows_of_one_retriever_run_together() -> None:
    table_plan = plan("blendfilter", "table5", "hotpotqa")
    assert len(table_plan.settings.names) == len(table_plan.paper.empty) == 4


def test_what_is_not_there_is_named() -> None:
    for call, message in (
        (lambda: plan("blendfilter", "1", "nq"), "has no data set 'nq'; there are hotpotqa"),
        (lambda: plan("filco", "table5", "nq"), "no row can be run: it needs a trained filter"),
        (lambda: table_of("filco", "99"), "choose one of: table2"),
        (lambda: tables("nobody"), "no paper 'nobody'"),
    ):
        with pytest.raises(UsageError, match=message):
            call()
    assert len(list(listing())) > 20
    assert table_of("post-fusion", "1").name == "table1 with gold"
    assert table_of("filco", "Fig. 4").name == "figure4"


def test_derived_columns() -> None:
    first = {"em": {"a": 1.0, "b": 0.0, "c": 0.0}, "answer_recall": {"a": 1.0, "b": 1.0, "c": 0.0}}
    second = {"em": {"a": 1.0, "b": 1.0, "c": 0.5}, "answer_recall": {"a": 0.0, "b": 1.0, "c": 1.0}}
    assert measured("em", second, first) == second["em"]
    assert measured("em>0.5", second, first) == {"a": 1.0, "b": 1.0, "c": 0.0}
    assert measured("em/positive", second, first, "answer_recall") == {"b": 1.0, "c": 0.5}
    assert measured("gain(em)/positive", second, first, "answer_recall") == {"a": 0.0, "b": 1.0}
    assert measured("gain(em)/negative", second, first, "answer_recall") == {"c": 0.5}
    assert measured("gain(em)>0", second, first) == {"a": 0.0, "b": 1.0, "c": 1.0}
    assert measured("f1", second, first) == {}
    assert best_of([first, second])["em"] == {"a": 1.0, "b": 1.0, "c": 0.5}


# ---- systems as text


def test_systems_are_split_outside_of_brackets() -> None:
    assert split_systems("concat, slimplm[rewrite=false,k=5],cot") == ["concat", "slimplm[rewrite=false,k=5]", "cot"]


def test_options_have_the_types_of_the_method() -> None:
    system = read_system("proxy:slimplm[rewrite=false,max_passages=none,k=7]", {"samples": "3", "x": "1"})
    assert (system.method.name, system.by_proxy) == ("slimplm", True)
    assert system.options == {"rewrite": False, "max_passages": None, "k": 7, "samples": 3}
    several = read_system("blendfilter[queries=question+internal]").options
    assert list(several["queries"]) == ["question", "internal"]
    assert read_system("filco[filter=parts/mine]").options == {"filter": "parts/mine"}


@pytest.mark.parametrize("spec", ["concat[k=many]", "concat[kk=5]", "concat[k]", "con cat", "concat[unknown=perhaps]"])
def test_what_is_no_option_is_refused(spec: str) -> None:
    with pytest.raises(UsageError):
        read_system(spec)


def test_options_may_be_none() -> None:
    assert read_options(Options, {"prompt_tokens": "none", "order": "gold_first"}) == {
        "prompt_tokens": None,
        "order": "gold_first",
    }
    assert "gold_first" in get_args(Options.model_fields["order"].annotation)
