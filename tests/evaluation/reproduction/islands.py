"""Five questions about islands that don't exist, in the formats of the papers' data sets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.evaluation.files import write_json, write_lines

from ragweave.evaluation.published import PaperTable
from ragweave.evaluation.reproduction import Request

LEXICAL = "extractive?similarity=lexical"

ISLANDS = ("Orvik", "Tessel", "Harrow", "Quillan", "Brandsey")


def request_of(data: Path, **more: object) -> Request:
    proxies = (LEXICAL,) * 4
    return Request(**{"model": LEXICAL, "proxies": proxies, "data": data, "limit": 5, **more})  # type: ignore[arg-type]


def on(table: PaperTable, *datasets: str) -> PaperTable:
    """Return a table on some data sets only, without its rows of many samples."""
    rows = [
        replace(row, cells={place: one for place, one in row.cells.items() if place[0] in datasets})
        for row in table.rows
        if int(row.options.get("samples", 1)) <= 5
    ]
    return replace(table, rows=tuple(rows))


def data_folder(folder: Path) -> Path:
    """Write a file of five questions for each data set of the papers, under its published name."""
    write_json(folder / "hotpot_dev_distractor_v1.json", [_hotpot(at) for at in range(5)])
    write_json(folder / "2wiki" / "dev.json", [_hotpot(at) for at in range(5)])
    write_json(folder / "strategyqa_train.json", [_strategy(at) for at in range(5)])
    for name in ("nq-dev", "nq-test", "trivia-dev", "trivia-test"):
        write_json(folder / f"biencoder-{name}.json", [_dpr(at) for at in range(5)])
    write_json(folder / "dev-v1.1.json", {"data": [_squad(at) for at in range(5)]})
    write_json(folder / "ASQA.json", {"dev": {f"a{at}": _asqa(at) for at in range(5)}})
    write_lines(folder / "musique_ans_v1.0_dev.jsonl", *(_musique(at) for at in range(5)))
    write_lines(folder / "eli5-dev-kilt.jsonl", *(_kilt(at, _story(at)) for at in range(5)))
    write_lines(folder / "wow-dev-kilt.jsonl", *(_kilt(at, _story(at)) for at in range(5)))
    verdicts = ("SUPPORTS", "REFUTES")
    write_lines(folder / "fever-dev-kilt.jsonl", *(_kilt(at, verdicts[at % 2]) for at in range(5)))
    return folder


def _question(at: int) -> str:
    return f"When was the lighthouse of {ISLANDS[at]} lit?"


def _year(at: int) -> str:
    return str(1801 + at)


def _text(at: int) -> str:
    return f"The lighthouse of {ISLANDS[at]} was lit in {_year(at)}. Its keeper raises goats."


def _other(at: int) -> str:
    return f"The ferry to {ISLANDS[at]} sails on market days. It carries no carts."


def _story(at: int) -> str:
    return f"{_text(at)} Sailors trust it, and so do the herring boats that come home late."


def _hotpot(at: int) -> dict[str, Any]:
    return {
        "_id": f"h{at}",
        "question": _question(at),
        "answer": _year(at),
        "context": [
            [ISLANDS[at], [one + "." for one in _text(at).rstrip(".").split(". ")]],
            [f"{ISLANDS[at]} ferry", [_other(at)]],
        ],
        "supporting_facts": [[ISLANDS[at], 0]],
    }


def _strategy(at: int) -> dict[str, Any]:
    return {
        "qid": f"s{at}",
        "term": ISLANDS[at],
        "question": f"Could a sailor of 1803 see the light of {ISLANDS[at]}?",
        "answer": at <= 2,
        "facts": [_text(at)],
        "decomposition": [],
    }


def _dpr(at: int) -> dict[str, Any]:
    return {
        "question": _question(at),
        "answers": [_year(at), f"the year {_year(at)}"],
        "positive_ctxs": [{"title": ISLANDS[at], "text": _text(at)}],
        "hard_negative_ctxs": [{"title": f"{ISLANDS[at]} ferry", "text": _other(at)}],
    }


def _squad(at: int) -> dict[str, Any]:
    asked = {"id": f"q{at}", "question": _question(at), "answers": [{"text": _year(at)}]}
    return {"title": ISLANDS[at], "paragraphs": [{"context": _text(at), "qas": [asked]}]}


def _asqa(at: int) -> dict[str, Any]:
    sets = [{"short_answers": [_year(at)], "context": _text(at), "wikipage": ISLANDS[at]}]
    sets.append({"short_answers": ["goats"], "context": "No context provided"})
    notes = [{"long_answer": _story(at)}]
    return {"ambiguous_question": _question(at), "qa_pairs": sets, "annotations": notes}


def _musique(at: int) -> dict[str, Any]:
    paragraphs = [
        {"title": ISLANDS[at], "paragraph_text": _text(at), "is_supporting": True},
        {"title": "Ferry", "paragraph_text": _other(at), "is_supporting": False},
    ]
    asked = {"id": f"m{at}", "question": _question(at), "answer": _year(at)}
    return {**asked, "paragraphs": paragraphs, "question_decomposition": [{}, {}]}


def _kilt(at: int, answer: str) -> dict[str, Any]:
    source = {"title": ISLANDS[at], "text": _text(at)}
    asked = f"The lighthouse of {ISLANDS[at]} is old." if answer.isupper() else _question(at)
    return {"id": f"k{at}", "input": asked, "output": [{"answer": answer, "provenance": [source]}]}
