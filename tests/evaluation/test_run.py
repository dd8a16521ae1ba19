"""A run stops where it must, resumes where it was, and never loses or repeats an answer."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from tests.evaluation.conftest import Questions
from tests.openai_server import HttpFault, OpenAIServer, Reply

from ragweave import KnowledgeBase
from ragweave.datasets import Question
from ragweave.errors import UsageError
from ragweave.evaluation import EvalSettings, Limits, Run, Summary, evaluate, read_report
from ragweave.evaluation.folder import read_results, write_settings
from ragweave.evaluation.on_ray import run_on_ray
from ragweave.evaluation.systems import with_gold
from ragweave.testing import RecordingRetriever, ScriptedModel

pytestmark = pytest.mark.loopback


def settings(spec: str, data: str, *systems: str, **more: Any) -> EvalSettings:
    return EvalSettings(data=data, systems=systems or ("concat",), models={"generator": spec}, **more)


def test_a_run_is_answered_once(server: OpenAIServer, spec: str, questions: Questions, tmp_path: Path) -> None:
    run = settings(spec, questions(20))
    assert evaluate(run, tmp_path / "run", quiet=True).exit_code == 0
    calls = server.count
    again = evaluate(run, tmp_path / "run", quiet=True)
    assert (again.answered, again.skipped, server.count) == (0, 20, calls)


def test_what_a_node_with_its_own_disk_answered_is_added(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second run resumes on that node; the third begins anew on another, and is interrupted there."""
    returned = [["1"], ["1", "2"], ["3"]]

    def tasks(*_args: Any, **_options: Any) -> Any:
        lines = "".join(json.dumps({"at": int(name), "id": name, "system": "x"}) + "\n" for name in returned.pop(0))
        yield "1/1", Summary(), {"run.json": b"{}\n", "results.jsonl": lines.encode()}

    monkeypatch.setattr("ragweave.evaluation.on_ray.connected", lambda *_args: None)
    monkeypatch.setattr("ragweave.evaluation.on_ray.each_on_cluster", tasks)
    counts = []
    for _ in range(3):
        run_on_ray(lambda **_options: Summary(), tmp_path, shards=1)
        counts.append(len((tmp_path / "shard-1-of-1" / "results.jsonl").read_text().splitlines()))
    assert counts == [1, 2, 3]
    assert [record["id"] for record in read_results(tmp_path)] == ["1", "2", "3"]


async def test_a_run_where_a_loop_runs_already(spec: str, questions: Questions, tmp_path: Path) -> None:
    assert evaluate(settings(spec, questions(3)), tmp_path / "run", quiet=True).answered == 3


def test_the_passages_of_a_file_are_searched_in_every_way(tmp_path: Path) -> None:
    row = {
        "_id": "1",
        "question": "In what year was the builder of the Alden Light born?",
        "answer": "1874",
        "supporting_facts": [["Alden Light", 0], ["Ida Holm", 0]],
        "context": [
            ["Alden Light", ["The Alden Light was built by Ida Holm."]],
            ["Ida Holm", ["Ida Holm came into the world in 1874."]],
            *([f"Builder {n}", [f"In what year was builder {n} born? Nobody knows."]] for n in range(9)),
        ],
    }
    data = tmp_path / "hotpot.json"
    data.write_text(json.dumps([row]))
    recall = {}
    for way in ("bm25", "graph"):
        run = settings("extractive", f"hotpotqa:{data}", corpus="file", retriever=way, options={"k": "2"})
        evaluate(run, tmp_path / way, quiet=True)
        recall[way] = next(read_results(tmp_path / way))["scores"]["recall"]
    assert recall == {"bm25": 0.5, "graph": 1.0}
    own = settings("extractive", f"hotpotqa:{data}", corpus="own", retriever="graph")
    with pytest.raises(UsageError, match="own passages are searched by BM25 alone"):
        evaluate(own, tmp_path / "own", quiet=True)


@pytest.mark.parametrize("retriever", ["bm25", "hybrid"])
def test_a_question_is_asked_again_if_the_passages_of_the_file_changed(tmp_path: Path, retriever: str) -> None:
    rows: list[Any] = [
        {"id": str(at), "question": f"Who built pier {at}?", "answers": ["Holm"], "ctxs": [{"text": f"Pier {at}."}]}
        for at in range(2)
    ]
    data = tmp_path / "piers.jsonl"
    run = settings("extractive", f"jsonl:{data}", corpus="file", retriever=retriever)
    skipped = []
    for text in ("Pier 1.", "Pier 1.", "Ida Holm built pier 0."):
        rows[1]["ctxs"] = [{"text": text}]
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        skipped.append(evaluate(run, tmp_path / "run", quiet=True).skipped)
    assert skipped == [0, 2, 0]
    answered = {record["id"]: record["answer"] for record in read_results(tmp_path / "run")}
    assert "Ida Holm" in answered["0"]


def test_a_question_is_asked_again_if_the_knowledge_base_that_a_system_names_changed(tmp_path: Path) -> None:
    """Whatever the collection of the data set is."""
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "title": "", "text": "Pier 0."}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "Who built pier 0?"}\n')
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    run = settings("extractive", f"beir:{tmp_path}", f"concat[retriever=bm25:{tmp_path / 'kb'}]")
    skipped = []
    for text in ("Pier 0.", "Pier 0.", "Ida Holm built pier 0."):
        with KnowledgeBase.open_or_create(tmp_path / "kb", settings={"embedding": None}) as kb:
            kb.add([Document(text, id="d")], source="piers")
        skipped.append(evaluate(run, tmp_path / "run", quiet=True).skipped)
    assert skipped == [0, 1, 0]


def test_a_claim_is_asked_about_by_a_question_and_searched_for_as_it_stands(tmp_path: Path) -> None:
    """FILCO, section 3.1: FEVER's retriever gets the claim."""
    data = tmp_path / "fever.jsonl"
    data.write_text('{"id": 1, "claim": "Mars has two moons.", "label": "SUPPORTS"}\n', "utf-8")
    model, retriever = ScriptedModel(script=lambda _call: "Yes."), RecordingRetriever()
    run = EvalSettings(data=f"fever:{data}", systems=("concat", "iter_retgen"))
    evaluate(run, tmp_path / "run", quiet=True, given={"generator": model, "retriever": retriever})
    assert {*retriever.searches} == {"Mars has two moons.", "Yes. Mars has two moons."}
    assert all("Is this claim true? Mars has two moons." in call.text for call in model.calls)


def test_other_settings_are_refused_and_a_price_is_not(spec: str, questions: Questions, tmp_path: Path) -> None:
    data = questions(2)
    evaluate(settings(spec, data), tmp_path / "run", quiet=True)
    with pytest.raises(UsageError, match="began with seed = 0, not 1"):
        evaluate(settings(spec, data, seed=1), tmp_path / "run", quiet=True)
    evaluate(settings(spec, data, prices={"*": (1.0, 2.0)}), tmp_path / "run", quiet=True)
    assert read_report(tmp_path / "run").lines[0].dollars == pytest.approx(0.00012)


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (401, "invalid_api_key", "Incorrect API key provided"),
        (402, None, "Insufficient Balance"),
        (429, "insufficient_quota", "You exceeded your current quota"),
        (400, None, "acme/m is not a valid model ID"),
    ],
)
def test_a_run_that_is_refused_ends_and_says_why(
    server: OpenAIServer,
    spec: str,
    questions: Questions,
    tmp_path: Path,
    status: int,
    code: str | None,
    message: str,
) -> None:
    server.script = lambda _: HttpFault(status, message=message, code=code)
    summary = evaluate(settings(spec, questions(60)), tmp_path / "run", quiet=True)
    assert message in summary.stopped
    assert summary.exit_code == 1
    assert server.count < 10


def test_a_run_resumes_after_its_credit_was_spent(
    server: OpenAIServer, spec: str, questions: Questions, tmp_path: Path
) -> None:
    good, spent = server.script, HttpFault(429, message="You exceeded your quota", code="insufficient_quota")
    server.script = lambda _: "1931" if server.count <= 12 else spent
    run = settings(spec, questions(20))
    first = evaluate(run, tmp_path / "run", concurrency=2, quiet=True)
    assert first.answered == 12
    server.script = good
    second = evaluate(run, tmp_path / "run", quiet=True)
    assert (second.answered, second.exit_code) == (8, 0)


def test_a_transient_fault_costs_no_call_twice(
    server: OpenAIServer, spec: str, questions: Questions, tmp_path: Path
) -> None:
    refused: list[Any] = []

    def script(body: dict[str, Any]) -> Any:
        if len(refused) < 10 and server.count % 2:
            refused.append(body)
            return HttpFault(503, message="busy", retry_after=0)
        return "1931"

    server.script = script
    run = settings(spec, questions(6), "post_fusion")
    summary = evaluate(run, tmp_path / "run", quiet=True)
    assert summary.exit_code == 0
    assert server.count - len(refused) == summary.calls == 6 * 3


class Flaky(FakeListChatModel):
    """Fails on every second call; its client does not retry."""

    fails: bool = False

    def _call(self, *_: Any, **__: Any) -> str:
        self.fails = not self.fails
        if self.fails:
            raise timed_out()
        return "1931"


def test_calls_are_retried_for_a_client_that_does_not(questions: Questions, tmp_path: Path) -> None:
    run = EvalSettings(data=questions(1), systems=("post_fusion",))
    summary = evaluate(run, tmp_path / "run", given={"generator": Flaky(responses=[])}, concurrency=1, quiet=True)
    assert (summary.answered, summary.calls) == (1, 3)


def test_a_model_that_is_given_has_its_own_name_and_price(questions: Questions, tmp_path: Path) -> None:
    given = {"generator": FakeListChatModel(responses=["1931"])}
    run = EvalSettings(data=questions(1))
    with pytest.raises(UsageError, match="price of FakeListChatModel"):
        evaluate(run, tmp_path / "run", given=given, limits=Limits(max_cost_usd=1.0), quiet=True)
    summary = evaluate(run, tmp_path / "run", given=given, quiet=True)
    assert (summary.spent.keys(), read_report(tmp_path / "run").main) == ({"FakeListChatModel"}, "em")


def test_a_failed_question_is_asked_again(
    server: OpenAIServer, spec: str, questions: Questions, tmp_path: Path
) -> None:
    good = server.script
    server.script = lambda body: HttpFault(400, message="filtered") if "bridge 7" in json.dumps(body) else "1931"
    run = settings(spec, questions(20))
    summary = evaluate(run, tmp_path / "run", quiet=True)
    assert (summary.answered, summary.failed, summary.exit_code) == (19, 1, 1)
    assert "1 failed: filtered" in read_report(tmp_path / "run").notes[0]
    server.script = good
    assert evaluate(run, tmp_path / "run", quiet=True).answered == 1
    assert not [record for record in read_results(tmp_path / "run") if record["error"]]


def test_a_budget_is_one_for_all_sittings(
    server: OpenAIServer, spec: str, questions: Questions, tmp_path: Path
) -> None:
    run = settings(spec, questions(30), prices={"*": (1.0, 2.0)})
    first = evaluate(run, tmp_path / "run", limits=Limits(max_calls=10), concurrency=1, quiet=True)
    assert "max_calls=10" in first.stopped
    assert server.count <= 10
    summary = evaluate(run, tmp_path / "run", limits=Limits(max_cost_usd=20 * 0.00012), concurrency=1, quiet=True)
    assert "max_cost_usd=0.0024" in summary.stopped
    assert 19 <= server.count <= 21
    with pytest.raises(UsageError, match="needs the price of"):
        evaluate(settings(spec, questions(3)), tmp_path / "other", limits=Limits(max_cost_usd=1.0), quiet=True)


def test_a_judge_counts_for_the_budget(server: OpenAIServer, spec: str, questions: Questions, tmp_path: Path) -> None:
    def script(body: dict[str, Any]) -> Reply:
        return Reply('{"grade": "Correct"}' if "Grade the answer" in json.dumps(body) else "1", (100, 10))

    server.script = script
    run = EvalSettings(
        data=questions(30),
        models={"generator": spec, "evaluator": f"{spec}&n=1"},
        metrics=("correctness",),
        prices={"*": (1.0, 2.0)},
    )
    summary = evaluate(run, tmp_path / "run", limits=Limits(max_cost_usd=10 * 0.00012), concurrency=1, quiet=True)
    assert "budget" in summary.stopped
    assert server.count <= 12


def test_shards_are_one_run(spec: str, questions: Questions, tmp_path: Path) -> None:
    run = settings(spec, questions(10))
    evaluate(run, tmp_path / "run", shard="1/3", quiet=True)
    assert read_report(tmp_path / "run").notes == ["Only 1 of 3 shards are here."]
    for part in (2, 3):
        evaluate(run, tmp_path / "run", shard=f"{part}/3", quiet=True)
    assert [record["at"] for record in read_results(tmp_path / "run")] == list(range(10))
    assert read_report(tmp_path / "run").lines[0].answered == 10


def test_a_run_in_shards_goes_on_as_a_whole(
    server: OpenAIServer, spec: str, questions: Questions, tmp_path: Path
) -> None:
    run, folder = settings(spec, questions(6)), tmp_path / "run"
    evaluate(run, folder, shard="2/3", quiet=True)
    whole = [evaluate(run, folder, quiet=True) for _ in range(2)]
    assert ([(now.answered, now.skipped) for now in whole], server.count) == ([(4, 2), (0, 6)], 6)
    assert [record["at"] for record in read_results(folder)] == list(range(6))
    report = read_report(folder)
    assert (report.lines[0].answered, report.notes) == (6, [])
    questions(4)
    priced = replace(run, prices={"*": (1.0, 2.0)})
    assert [evaluate(priced, folder, quiet=True).gone for _ in range(2)] == [2, 0]
    assert read_report(folder).lines[0].dollars == pytest.approx(0.00012)


def test_keys_are_not_written_down(spec: str, questions: Questions, tmp_path: Path) -> None:
    address = "pg:postgresql://me:sekret@host/db#n"
    run = settings(f"{spec}&api_key=sekret", questions(2), corpus="own", kb=address)
    assert evaluate(run, tmp_path / "run", quiet=True).answered == 2
    assert evaluate(run, tmp_path / "run", quiet=True).skipped == 2
    assert not any(b"sekret" in path.read_bytes() for path in (tmp_path / "run").iterdir())


def test_a_run_may_be_moved(server: OpenAIServer, spec: str, questions: Questions, tmp_path: Path) -> None:
    run = settings(spec, questions(4))
    evaluate(run, tmp_path / "run", quiet=True)
    (tmp_path / "run").rename(tmp_path / "moved")
    again = evaluate(run, tmp_path / "moved", quiet=True)
    assert (again.skipped, again.calls) == (4, server.count)


def test_what_an_earlier_run_answered_right_is_left_out(
    server: OpenAIServer, spec: str, questions: Questions, tmp_path: Path
) -> None:
    server.script = lambda body: "1931" if "bridge 1" in json.dumps(body) or "passage" in json.dumps(body) else "1800"
    data, earlier = questions(4), tmp_path / "direct"
    evaluate(settings(spec, data, "direct", "concat"), earlier, quiet=True)
    results = earlier / "results.jsonl"
    results.write_text("".join(sorted(results.read_text().splitlines(True), key=lambda line: '"direct"' in line)))
    run = settings(spec, data, drop_answered=str(earlier))
    assert evaluate(run, tmp_path / "run", quiet=True).answered == 3
    evaluate(settings(spec, data, metrics=("f1",)), tmp_path / "f1", quiet=True)
    with pytest.raises(UsageError, match="no em or accuracy scores"):
        evaluate(replace(run, drop_answered=str(tmp_path / "f1")), tmp_path / "unscored", quiet=True)


@pytest.mark.parametrize("name", ["direct[retrieve=true]", "proxy:direct"])
def test_large_calls_are_those_of_the_answering_model(
    spec: str, questions: Questions, tmp_path: Path, name: str
) -> None:
    run = EvalSettings(
        data=questions(2),
        systems=(name, "slimplm"),
        models={"generator": spec, "proxy": f"{spec}&n=1"},
        metrics=("api_calls", "tokens_small"),
    )
    evaluate(run, tmp_path / "run", quiet=True)
    scores = {record["system"]: record["scores"] for record in read_results(tmp_path / "run")}
    assert scores[name] == {"api_calls": 1.0, "tokens_small": 0.0}
    assert scores["slimplm"]["api_calls"] == 1.0
    assert scores["slimplm"]["tokens_small"] > 0


def test_replies_that_lack_their_form_are_counted_on_request(
    server: OpenAIServer, spec: str, questions: Questions, tmp_path: Path
) -> None:
    server.script = lambda _body: "1931"
    run = EvalSettings(data=questions(1), systems=("crag", "concat"), models={"generator": spec}, metrics=("unread",))
    evaluate(run, tmp_path / "run", quiet=True)
    unread = {record["system"]: record["scores"]["unread"] for record in read_results(tmp_path / "run")}
    assert unread["concat"] == 0 < unread["crag"]


def test_gold_passages_are_marked_added_or_removed() -> None:
    docs = [Document(str(at), id=str(at)) for at in range(4)]
    question = Question(id="q", question="?", passages=tuple(docs), gold={"3": 1.0})
    docs_with_gold = with_gold(docs[:3], question, "with", 0, 3)
    assert [doc.id for doc in docs_with_gold if doc.metadata["gold"]] == ["3"]
    assert docs_with_gold == with_gold(docs[:3], question, "with", 0, 3)
    drawn = [[doc.id for doc in with_gold(docs[:3], question, "with", seed, 3)] for seed in range(20)]
    assert {ids.index("3") for ids in drawn} == {0, 1, 2}
    assert all(ids[at] in (str(at), "3") for ids in drawn for at in range(3))
    assert sorted(str(doc.id) for doc in with_gold(docs[:2], question, "with", 0, 3)) == ["0", "1", "3"]
    assert [doc.id for doc in with_gold(docs, question, "without", 0, 2)] == ["0", "1"]
    assert [doc.metadata["gold"] for doc in with_gold(docs, question, "as_found", 0, 4)] == [False, False, False, True]


@pytest.mark.parametrize("gold", ["with", "without"])
def test_gold_passages_of_a_knowledge_base_are_known_by_their_text(tmp_path: Path, gold: str) -> None:
    opened = "When did bridge 0 open? Bridge 0 opened in 1931, in {} {}."
    parts = [opened.format(*parts) for parts in (("May,", "on a"), ("June,", "of a"), ("July,", "at a"))]
    rows = [{**rows_of(1)[0], "passages": [{"text": " ".join(parts), "is_gold": True}]}]
    others = [f"When a bridge, number {n}, opens, nobody knows." for n in range(1, 6)]
    with KnowledgeBase.open_or_create(tmp_path / "kb") as kb:
        kb.add([Document(text) for text in (*parts, *others)], source="s")
    run = settings("extractive", written(tmp_path, rows), kb=str(tmp_path / "kb"), gold=gold, options={"k": "3"})
    evaluate(run, tmp_path / "run", quiet=True)
    texts = [passage["text"] for passage in next(read_results(tmp_path / "run"))["passages"]]
    assert len({*texts}) == 3
    assert {*texts} <= {*(parts if gold == "with" else others)}


def test_a_setting_that_is_left_out_is_another_setting(tmp_path: Path) -> None:
    write_settings(tmp_path / "run.json", {"seed": 0, "k": 5})
    with pytest.raises(UsageError, match="began with k = 5, not None"):
        write_settings(tmp_path / "run.json", {"seed": 0})


# ---- your own systems


class Failing:
    """Fails on the first questions, in a way that `make` gives."""

    name = "system"

    def __init__(self, count: int, make: Callable[[], Exception]) -> None:
        self.count, self.make = count, make

    async def __call__(self, question: Question) -> dict[str, Any]:
        await asyncio.sleep(0.001)
        if question.at < self.count:
            raise self.make()
        return {"answer": "x", "scores": {}}


class Says:
    name = "says"

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    async def __call__(self, _question: Question) -> dict[str, Any]:
        return self.fields


def run_of(folder: Path, system: Any, count: int = 60, **more: Any) -> Summary:
    asked = [Question(id=str(at), question="?", at=at) for at in range(count)]
    with Run(folder, {}) as run:
        return asyncio.run(run.ask(asked, [system], quiet=True, **more))


def flagged() -> Exception:
    answer = httpx.Response(403, request=httpx.Request("POST", "http://x"))
    return openai.PermissionDeniedError("input was flagged", response=answer, body=None)


def timed_out() -> Exception:
    answer = httpx.Response(504, headers={"retry-after": "0"}, request=httpx.Request("POST", "http://x"))
    return openai.InternalServerError("timed out", response=answer, body=None)


def unreached() -> Exception:
    error = openai.APITimeoutError(httpx.Request("POST", "http://x"))  # what aiohttp's refused connections become
    error.__cause__ = ConnectionRefusedError(111, "Connection refused")
    return error


def test_a_server_that_is_not_there_ends_a_run(tmp_path: Path) -> None:
    summary = run_of(tmp_path, Failing(60, unreached))
    assert "none of the first 4 questions was answered: [Errno 111] Connection refused" in summary.stopped
    assert summary.failed < 10


@pytest.mark.parametrize("make", [timed_out, lambda: ValueError("odd: insufficient_quota")])
def test_four_unlucky_questions_do_not_end_a_run(tmp_path: Path, make: Callable[[], Exception]) -> None:
    summary = run_of(tmp_path, Failing(4, make))
    assert (summary.answered, summary.failed, summary.stopped) == (56, 4, "")


def test_one_flagged_question_does_not_end_a_run(tmp_path: Path) -> None:
    asked = run_of(tmp_path, Failing(1, flagged))
    assert (asked.answered, asked.failed, asked.stopped) == (59, 1, "")


def test_what_failed_before_is_asked_last(tmp_path: Path) -> None:
    assert "flagged" in run_of(tmp_path, Failing(30, flagged)).stopped
    again = run_of(tmp_path, Failing(4, flagged))
    assert (again.answered, again.failed, again.stopped) == (56, 4, "")


def test_many_failures_in_a_row_end_a_run(tmp_path: Path) -> None:
    summary = run_of(tmp_path, Failing(60, lambda: ValueError("broken")))
    assert summary.failed < 40
    assert "in a row failed: broken" in summary.stopped


def rows_of(count: int) -> list[dict[str, Any]]:
    return [
        {"id": str(at), "question": f"When did bridge {at} open?", "answers": ["1931"], "passages": [f"Bridge {at}."]}
        for at in range(count)
    ]


def written(folder: Path, rows: list[dict[str, Any]]) -> str:
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return f"jsonl:{folder / 'rows.jsonl'}"


def test_a_stopped_run_goes_on_with_the_data_as_it_is_now(server: OpenAIServer, spec: str, tmp_path: Path) -> None:
    rows, folder = rows_of(8), tmp_path / "run"
    given: Any = {"quiet": True, "concurrency": 1}
    evaluate(settings(spec, written(tmp_path, rows)), folder, limits=Limits(max_calls=5), **given)
    results = folder / "results.jsonl"
    results.write_bytes(results.read_bytes()[:-10])  # the fifth record was being written
    rows[0]["answers"], rows[1]["question"], rows[2]["passages"] = ["1950"], "Who built bridge 1?", ["Bridge two."]
    seconds = next(read_results(folder))["seconds"]
    run = settings(spec, written(tmp_path, [*rows[:3], *rows[4:], {**rows[3], "id": "8", "question": "When?"}]))
    summary = evaluate(run, folder, **given)
    assert (summary.rescored, summary.asked_again, summary.gone, summary.skipped) == (1, 2, 1, 1)
    assert (summary.answered, server.count) == (7, 5 + 2 + 3 + 1)  # the fifth reply was in the cache
    records = {record["id"]: record for record in read_results(folder)}
    assert sorted(records) == ["0", "1", "2", "4", "5", "6", "7", "8"]
    assert {name: records[name]["scores"]["em"] for name in "012"} == {"0": 0.0, "1": 1.0, "2": 1.0}
    assert (records["0"]["gold"], records["0"]["calls"], records["0"]["seconds"]) == (["1950"], 1, seconds)
    again = evaluate(run, folder, **given)
    assert (again.skipped, again.rescored, again.asked_again, again.gone) == (8, 0, 0, 0)
    [line] = read_report(folder).lines
    assert line.answered == 8


def test_golds_that_a_method_reads_are_read_anew(server: OpenAIServer, spec: str, tmp_path: Path) -> None:
    rows = [{**rows_of(1)[0], "passages": [{"text": f"Bridge 0, {n}.", "is_gold": n == 0} for n in range(2)]}]
    run = settings(spec, written(tmp_path, rows), passages="given", gold="without")
    evaluate(run, tmp_path / "run", quiet=True)
    for passage in rows[0]["passages"]:
        passage["is_gold"] = not passage["is_gold"]
    written(tmp_path, rows)
    assert evaluate(run, tmp_path / "run", quiet=True).rescored == 1
    assert server.count == 2
    assert "Bridge 0, 0." in str(server.requests[1].body)


def test_the_first_question_may_lack_passages(spec: str, tmp_path: Path) -> None:
    rows = rows_of(3)
    rows[0]["passages"] = []
    summary = evaluate(settings(spec, written(tmp_path, rows)), tmp_path / "run", quiet=True)
    assert (summary.answered, summary.failed) == (3, 0)
    read = [len(record["passages"]) for record in read_results(tmp_path / "run")]
    assert read == [0, 1, 1]


def test_rows_without_ids_are_known_by_their_questions(server: OpenAIServer, spec: str, tmp_path: Path) -> None:
    rows = [{name: value for name, value in row.items() if name != "id"} for row in rows_of(3)]
    evaluate(settings(spec, written(tmp_path, rows)), tmp_path / "run", quiet=True)
    new = {**rows[0], "question": "When did the new bridge open?"}
    rows[1]["answers"] = ["1950"]
    summary = evaluate(settings(spec, written(tmp_path, [new, *rows])), tmp_path / "run", quiet=True)
    assert (summary.answered, summary.rescored, summary.skipped, server.count) == (1, 1, 3, 4)
    asked = sorted(record["question"] for record in read_results(tmp_path / "run"))
    assert asked == sorted([new["question"], *(row["question"] for row in rows)])


def test_a_question_that_moves_to_another_shard_counts_once(tmp_path: Path, spec: str) -> None:
    rows = rows_of(4)
    for place in (rows, rows[1:]):
        for shard in ("1/2", "2/2"):
            evaluate(settings(spec, written(tmp_path, place)), tmp_path / "run", shard=shard, quiet=True)
    assert sorted(record["id"] for record in read_results(tmp_path / "run")) == ["1", "2", "3"]


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    with Run(tmp_path, {}), pytest.raises(UsageError, match="another process"):
        Run(tmp_path, {})


def test_an_answer_may_hold_any_line_separator(tmp_path: Path) -> None:
    run_of(tmp_path, Says(answer="a\u2028b\x85c\x0bd", scores={}), 3)
    assert len([*read_results(tmp_path)]) == 3
    assert run_of(tmp_path, Says(answer="", scores={}), 3).skipped == 3


def test_scores_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    run_of(tmp_path, Says(answer="", scores={"em": float("nan"), "f1": None, "words": 2}), 1)
    assert next(read_results(tmp_path))["scores"] == {"words": 2.0}


def test_no_concurrency_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="concurrency"):
        run_of(tmp_path, Says(answer="", scores={}), concurrency=0)


def test_calls_without_a_price_have_no_cost(tmp_path: Path) -> None:
    with Run(tmp_path, {}) as run:
        assert run.cost() == 0
        run.cache.spent["b"] = [1, 1, 1]
        assert run.cost() is None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"systems": ("concat", "concat")}, "same name"),
        ({"options": {"rounds": "2"}}, "none of the methods has an option 'rounds'"),
        ({"systems": ("concat[k=0]",)}, "k: "),
        ({"systems": ("no_such",)}, "no_such"),
        ({"gold": "maybe"}, "gold must be one of"),
        ({"metrics": ("faithfulness",)}, "--model evaluator="),
        ({"metrics": ("no_such",)}, "no_such"),
    ],
)
def test_wrong_settings_are_named(questions: Questions, tmp_path: Path, more: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        evaluate(EvalSettings(data=questions(1), **more), tmp_path / "run", quiet=True)


@pytest.mark.loopback
def test_a_rerankers_replies_are_paid_for_once(
    server: OpenAIServer, spec: str, questions: Questions, tmp_path: Path
) -> None:
    server.script = lambda body: "[2] > [1]" if "Rank all" in json.dumps(body) else "1931"
    run = EvalSettings(data=questions(2), models={"generator": spec}, corpus="file", rerank=f"listwise:{spec}&n=1")
    summary = evaluate(run, tmp_path / "run", quiet=True)
    assert (summary.answered, summary.calls, len(server.requests)) == (2, 4, 4)
    (tmp_path / "run" / "results.jsonl").unlink()
    assert evaluate(run, tmp_path / "run", quiet=True).answered == 2
    assert len(server.requests) == 4
    assert (
        "max_calls=1"
        in evaluate(run, tmp_path / "brief", limits=Limits(max_calls=1), concurrency=1, quiet=True).stopped
    )


def test_a_damaged_line_of_results_is_named(tmp_path: Path) -> None:
    line = json.dumps({"id": "q", "system": "s", "at": 0}) + "\n"
    results = tmp_path / "results.jsonl"
    results.write_text(line + '{"id": "q"')  # a killed run
    assert len([*read_results(tmp_path)]) == 1
    for damaged in (b"\0" * 99, b"\xff\xfe{}", b'{"id": 7}', b"7"):
        results.write_bytes(line.encode() + damaged + b"\n" + line.encode())
        with pytest.raises(UsageError, match=r"results\.jsonl: line 2 is damaged"):
            [*read_results(tmp_path)]
