"""The benchmark of real models: answers are published, gone on from, and their calls written down."""

from __future__ import annotations

import gzip
import importlib
import json
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from ragweave.errors import UsageError

pytest.importorskip("matplotlib")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ROWS = [
    {
        "id": str(number),
        "question": f"When was bridge {number} opened?",
        "answers": [str(1900 + number)],
        "passages": [f"Bridge {number} was opened in {1900 + number}.", "It is grey."],
    }
    for number in range(3)
]


@pytest.fixture
def real_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("real_models")
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    one = module.Comparison("jsonl:q.jsonl", module.named("concat,crag"), {"corpus": "given"})
    monkeypatch.setattr(module, "COMPARISONS", {"bridges": one})
    return module


@pytest.fixture
def run(real_models: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def with_options(runs: str, *more: str) -> dict[str, Any]:
        given = ["--tables", "bridges", "--model", "extractive", "--proxy", "extractive"]
        places = [
            "--data",
            str(tmp_path),
            "--results",
            str(tmp_path),
            "--runs",
            str(tmp_path / runs),
        ]
        monkeypatch.setattr(sys, "argv", ["real_models.py", *given, *places, *more])
        real_models.main()
        table = json.loads((tmp_path / "real_models.json").read_text("utf-8"))["tables"]["bridges"]
        return dict(table)

    return with_options


def calls_of(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_another_machine_goes_on_from_the_published_answers(run: Any, tmp_path: Path) -> None:
    first = run("here", "--questions", "3", "--calls", str(tmp_path / "first.gz"))
    asked = calls_of(tmp_path / "first.gz")
    assert {one["method"] for one in asked} == {"concat", "crag"}
    assert {one["node"] for one in asked} >= {"concat", "grade", "refine"}
    published = tmp_path / "real_models" / "bridges.jsonl"
    kept = published.read_text("utf-8").splitlines()
    assert len(kept) == 6
    published.write_text("\n".join(kept[:-2]) + "\n", "utf-8")
    second = run("there", "--questions", "3", "--published", "--calls", str(tmp_path / "second.gz"))
    assert second == first
    assert published.read_text("utf-8").splitlines() == kept
    assert 0 < len(calls_of(tmp_path / "second.gz")) < len(asked)


def test_a_table_is_of_the_models_that_it_names(
    run: Any, real_models: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = run("here", "--questions", "2")
    assert table["models"] == {"model": "extractive", "proxy": "extractive"}
    places = [tmp_path / "real_models.json", tmp_path / "real_models" / "bridges.jsonl"]
    for earlier in (False, True):
        if earlier:  # the models stood once for all tables
            result = json.loads(places[0].read_text("utf-8"))
            result["models"] = result["tables"]["bridges"].pop("models")
            places[0].write_text(json.dumps(result), "utf-8")
        before = [place.read_bytes() for place in places]
        for more in (("--report",), ("--published",), ("--timed", "1")):
            with pytest.raises(SystemExit):
                run("other", "--model", "openai:gpt-4.1", *more)
            assert "bridges is of extractive (model) and extractive" in capsys.readouterr().err
        assert [place.read_bytes() for place in places] == before
    assert run("there", "--questions", "3", "--published")["systems"][0]["questions"] == 3
    names = [real_models.model_name(f"openai:gpt-4.{n}?temperature=0") for n in (1, 5)]
    assert names == ["openai:gpt-4.1", "openai:gpt-4.5"]
    assert real_models.model_name("llamacpp:/m/qwen2.5-1.5b.gguf?n_ctx=9") == "qwen2.5-1.5b"
    assert real_models.model_name(f"hf:{tmp_path}") == f"hf:{tmp_path.name}"


def test_what_is_published_stays_where_nothing_was_answered(run: Any, tmp_path: Path) -> None:
    first = run("here", "--questions", "3")
    published = tmp_path / "real_models" / "bridges.jsonl"
    kept = [one.read_bytes() for one in (published, tmp_path / "real_models.json")]
    for more in (("--report",), ("--minutes", "0")):
        run("clone", "--questions", "3", *more)
        assert [one.read_bytes() for one in (published, tmp_path / "real_models.json")] == kept
    published.write_text(f"\n{published.read_text('utf-8')}\n", "utf-8")
    assert run("there", "--questions", "3", "--published", "--minutes", "0") == first
    published.write_text("\n", "utf-8")
    assert run("again", "--questions", "3", "--published") == first


def test_published_answers_are_not_lost_nor_joined_with_others(
    run: Any, real_models: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run("here", "--questions", "3")
    assert first["made"]["systems"]["concat"] == {"method": "concat", "options": {}}
    places = [tmp_path / "real_models.json", tmp_path / "real_models" / "bridges.jsonl"]
    before = [place.read_bytes() for place in places]
    with pytest.raises(UsageError, match="6 answers that this run lacks; go on from them with --p"):
        run("clone", "--questions", "2")
    one = real_models.COMPARISONS["bridges"]
    for other, told in (
        (replace(one, settings={"corpus": "file"}), "is of another corpus: given, now file"),
        (replace(one, settings=one.settings | {"oracle": True}), "is of another oracle: False, "),
    ):
        monkeypatch.setitem(real_models.COMPARISONS, "bridges", other)
        with pytest.raises(UsageError, match=told):
            run(told, "--questions", "3", "--published")
    monkeypatch.setitem(real_models.COMPARISONS, "bridges", one)
    with pytest.raises(UsageError, match=r"is of another models: .*threshold=0.9"):
        run("strict", "--model", "extractive?threshold=0.9", "--questions", "3", "--published")
    lines = places[1].read_text("utf-8")
    places[1].write_text(lines.replace('"id": "2"', '"id": "7"'), "utf-8")
    with pytest.raises(UsageError, match="question 2 is '7', and '2' in the data set"):
        run("moved", "--questions", "3", "--published")
    places[1].write_text(lines, "utf-8")
    assert [place.read_bytes() for place in places] == before


def test_a_system_of_other_options_is_asked_anew(
    run: Any, real_models: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("here", "--questions", "3")
    assert run("here", "--timed", "1")["timed"]["seconds"].keys() == {"concat", "crag"}
    fewer = [replace(one, options={"k": 1}) for one in real_models.named("concat")()]
    fewer += real_models.named("crag")()
    one = replace(real_models.COMPARISONS["bridges"], systems=lambda: fewer)
    monkeypatch.setitem(real_models.COMPARISONS, "bridges", one)
    calls = tmp_path / "calls.gz"
    table = run("there", "--questions", "3", "--published", "--calls", str(calls))
    assert {one["method"] for one in calls_of(calls)} == {"concat"}
    assert table["made"]["systems"]["concat"]["options"] == {"k": 1}
    assert [line["questions"] for line in table["systems"]] == [3, 3]
    assert table["timed"]["seconds"].keys() == {"crag"}


def test_seconds_of_a_question_that_was_broken_off_do_not_count(
    run: Any, real_models: Any, tmp_path: Path
) -> None:
    run("here", "--questions", "3")
    assert run("here", "--timed", "3")["timed"]["questions"] == 3
    results = tmp_path / "here" / "bridges-timed" / "results.jsonl"
    rows = [json.loads(line) for line in results.read_text("utf-8").splitlines()]
    kept = {one["at"]: one["seconds"] for one in rows if one["system"] == "crag"}
    broken = next(one for one in rows if one["system"] == "concat")
    broken |= {"resumed": True, "seconds": 1000.0}
    results.write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
    timed = run("here", "--timed", "3", "--report")["timed"]
    assert timed["questions"] == 2
    assert timed["seconds"]["concat"] < 100
    mean = fmean(seconds for at, seconds in kept.items() if at != broken["at"])
    assert timed["seconds"]["crag"] == round(mean, 2)


def test_all_methods_are_compared_at_three_passages(real_models: Any) -> None:
    for one in real_models.every_method():
        chosen = one.resolved()
        numbers = [getattr(chosen, name) for name in ("k", "k_one") if hasattr(chosen, name)]
        assert one.method == "dos_rag" or set(numbers) <= {3}, one


def test_the_page_names_the_models_of_each_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS.parent / "docs"))
    effects = importlib.import_module("effects")
    models = {"model": "large", "proxy": "small"}
    table = {"dataset": "nq", "systems": [{"questions": 60}]}
    for result in ({"models": models}, {}):
        own = {} if result else {"models": models}
        file = tmp_path / "real_models.json"
        file.write_text(json.dumps(result | {"tables": {"methods-nq": table | own}}), "utf-8")
        monkeypatch.setattr(effects, "RESULTS", file)
        assert effects.caption("methods-nq") == (
            "60 questions of `nq`, `large` with `small` as its proxy:"
        )


def test_the_page_names_the_methods_without_seconds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS.parent / "docs"))
    effects = importlib.import_module("effects")
    models = {"model": "large", "proxy": "small"}
    systems = [line(one) | {"questions": 60} for one in ("concat", "sure", "ircot")]
    table = {"dataset": "nq", "models": models, "systems": systems}
    monkeypatch.setattr(effects, "RESULTS", tmp_path / "real_models.json")
    (tmp_path / "real_models").mkdir()
    records = [{"system": one["system"], "at": 1, "scores": {"f1": 1.0}} for one in systems]
    answers = "".join(json.dumps(one) + "\n" for one in records)
    (tmp_path / "real_models" / "methods-nq.jsonl").write_text(answers, "utf-8")
    for untimed, said in (
        ({"sure", "ircot"}, " (not yet measured for `sure`, `ircot`)"),
        (set(), ""),
    ):
        seconds = {one["system"]: 1.5 for one in systems if one["system"] not in untimed}
        result = {"tables": {"methods-nq": table | {"timed": {"questions": 2, "seconds": seconds}}}}
        (tmp_path / "real_models.json").write_text(json.dumps(result), "utf-8")
        assert effects.caption("methods-nq").endswith(f", one at a time{said}:")
        shown = {cells[0].strip("`"): cells[-2] for cells in effects.rows("methods-nq")[1:]}
        assert shown == {one["system"]: "1.5" for one in systems} | dict.fromkeys(untimed, "–")


COMMAND = re.compile(r"^python benchmarks/real_models\.py (.*?)(?:  #.*)?$", re.MULTILINE)


@pytest.mark.parametrize("page", ["effects.md", "evaluation.md"])
def test_a_reader_can_follow_the_commands_of_the_page(page: str, real_models: Any) -> None:
    text = (BENCHMARKS.parent / "docs" / page).read_text("utf-8").replace(" \\\n", " ")
    commands = [shlex.split(found) for found in COMMAND.findall(text)]
    assert commands
    for command in commands:
        assert {"--model", "--proxy", "--data", "--results"} <= {*command}, command
        real_models.arguments().parse_args(command)


def test_seconds_are_measured_apart(run: Any) -> None:
    table = run("here", "--questions", "3")
    assert "timed" not in table
    timed = run("here", "--timed", "2")["timed"]
    assert timed["questions"] == 2
    assert timed["seconds"].keys() == {"concat", "crag"}
    assert run("here", "--questions", "3")["timed"] == timed


def test_no_method_finds_its_prompt_read_by_another(real_models: Any) -> None:
    listed = real_models.named("concat,concat_pf")()
    ordered = [one.label for one in real_models.apart(listed)]
    assert ordered == ["between 0", "concat", "between 1", "concat_pf"]


def test_the_page_compares_each_method_with_the_plain_prompt(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS.parent / "docs"))
    effects = importlib.import_module("effects")
    right = {"concat": 0.0, "sure": 1.0, "ircot": 0.0}
    records = [
        {"system": system, "at": at, "scores": {"f1": f1}}
        for at in range(20)
        for system, f1 in right.items()
    ]
    records.append({"system": "concat", "at": 20, "scores": {"f1": 1.0}})  # the others didn't end
    (tmp_path / "real_models").mkdir()
    lines = "".join(json.dumps(one) + "\n" for one in records)
    (tmp_path / "real_models" / "methods-nq.jsonl").write_text(lines, "utf-8")
    monkeypatch.setattr(effects, "RESULTS", tmp_path / "real_models.json")
    table = {"dataset": "nq", "systems": [line(one) for one in right]}
    tables = {"methods-nq": table, "fusion-nq": table}
    (tmp_path / "real_models.json").write_text(json.dumps({"tables": tables}), "utf-8")
    head, *rows = effects.rows("methods-nq")
    assert head[-1] == "F1 − `concat`"
    assert [one[-1] for one in rows] == ["", "+100.0 [+100.0, +100.0]*", "+0.0 [+0.0, +0.0]"]
    assert effects.gains("methods-nq") == {"sure"}
    (tmp_path / "real_models" / "fusion-nq.jsonl").write_text(lines, "utf-8")
    assert "%NM" not in head
    assert effects.rows("fusion-nq")[0][5] == "%NM"


def test_the_page_compares_answers_in_sentences_by_what_they_contain(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS.parent / "docs"))
    effects = importlib.import_module("effects")
    scores = {"slimplm": {"f1": 0.5, "contains": 0.0}, "concat": {"f1": 0.5, "contains": 1.0}}
    lines = [
        json.dumps({"system": system, "at": at, "scores": own}) + "\n"
        for at in range(20)
        for system, own in scores.items()
    ]
    (tmp_path / "real_models").mkdir()
    (tmp_path / "real_models" / "slimplm-nq.jsonl").write_text("".join(lines), "utf-8")
    monkeypatch.setattr(effects, "RESULTS", tmp_path / "real_models.json")
    tables = {"slimplm-nq": {"dataset": "nq", "systems": [line(one) for one in scores]}}
    (tmp_path / "real_models.json").write_text(json.dumps({"tables": tables}), "utf-8")
    head, *rows = effects.rows("slimplm-nq")
    assert head[-1] == "Contains − `slimplm`"
    assert [one[-1] for one in rows] == ["", "+100.0 [+100.0, +100.0]*"]


def line(system: str) -> dict[str, Any]:
    scores = {key: [1.0, 0.0, 2.0] for key in ("em", "f1", "contains", "unknown", "nm")}
    return {"system": system, **scores, "calls": 1, "input_tokens": 2, "output_tokens": 3}


@pytest.mark.parametrize("name", ["nq", "hotpotqa"])
def test_the_page_lists_the_methods_that_gain(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS.parent / "docs"))
    effects = importlib.import_module("effects")
    page = (BENCHMARKS.parent / "docs" / "effects.md").read_text("utf-8")
    begins = {"nq": "* **One hop (NQ)", "hotpotqa": "* **Two hops (HotpotQA)"}[name]
    said = next(one for one in page.splitlines() if one.startswith(begins)).partition(" gain")[0]
    named = set(re.findall(r"`(\w+)`", said)) if name == "hotpotqa" else set()
    assert effects.gains(f"methods-{name}") == named
