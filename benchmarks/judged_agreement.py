"""How far a judge model agrees with people, on the parts of the judged metrics that people judged.

    python benchmarks/judged_agreement.py --model SPEC [--limit N] [--free]

Data: ../shared/data, seen from the project's root.

* Faithfulness, its second half: Fool Me Twice (Eisenschlos et al. 2021), claims that people wrote
  and labelled with the sentences that support or refute them. A claim is one statement, its gold
  evidence the passage; supported or not is compared with the label, as many of either.
* Context relevance: CLAPNQ, the sentences that people chose for an answer. The sentences that the
  judge names in the passage are compared with them: precision, recall, F1, each a question's mean.

Faithfulness's first half, answer relevance and correctness are in none of the public files at hand.
`--free` leaves replies unconstrained, to see what is read of them.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from langchain_core.documents import Document

from ragweave.datasets import Question
from ragweave.evaluation.metrics import Judgement, Judging, Metric, by_judge
from ragweave.evaluation.metrics.judged import check_statements, helpful_sentences
from ragweave.evaluation.runs.judging import AnswerJudge
from ragweave.nodes.options import Options
from ragweave.tools.models import chat_model

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
RESULT = ROOT / "benchmarks" / "results" / "judged_agreement.json"


def rows(path: str) -> Iterator[dict[str, Any]]:
    with gzip.open(DATA / path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def claims(limit: int) -> list[tuple[str, str, bool]]:
    """Claims with their evidence and whether it supports them, as many of either."""
    kinds: dict[bool, list[tuple[str, str, bool]]] = {True: [], False: []}
    for row in rows("fever/fool-me-twice-dev.jsonl.gz"):
        evidence = " ".join(one["text"] for one in row["gold_evidence"])
        supported = row["label"] == "SUPPORTS"
        kinds[supported].append((row["text"], evidence, supported))
    draw = random.Random(7)
    return [one for kind in kinds.values() for one in draw.sample(kind, limit // 2)]


def passages(limit: int) -> list[tuple[str, list[str], set[int]]]:
    """Questions with the sentences of their passage, and those that people chose."""
    found = []
    for row in rows("filter/clapnq-answerable.jsonl.gz"):
        sentences = row["passages"][0]["sentences"]
        chosen = {one for output in row["output"] for one in output["selected_sentences"]}
        marked = {index for index, one in enumerate(sentences) if one in chosen}
        if marked:
            found.append((row["input"], sentences, marked))
    return random.Random(7).sample(found, min(limit, len(found)))


def metric(judging: Judging) -> Metric:
    """A metric that asks one question alone."""
    return Metric(
        name="one",
        label="One",
        summary="One question.",
        compute=by_judge("one"),
        judge=lambda _question, _state: judging,
    )


async def ask(model: Any, options: Options, judging: Judging) -> Judgement:
    judge = AnswerJudge(model, [metric(judging)], options)
    return (await judge.judge(Question(id="", question="", answers=()), {}))["one"]


async def faithfulness(asked: Any, limit: int) -> dict[str, Any]:
    pairs: list[tuple[bool, bool]] = []
    unread = 0
    for claim, evidence, supported in claims(limit):
        said = await asked(check_statements([claim], [Document(page_content=evidence)]))
        unread += said.value is None
        if said.value is not None:
            pairs.append((said.value == 1.0, supported))
    return {"claims": limit, "unreadable": unread, **agreement(pairs)}


def agreement(pairs: Sequence[tuple[bool, bool]]) -> dict[str, float]:
    """Accuracy, Cohen's kappa, and the share that the judge calls supported."""
    right = fmean(said == label for said, label in pairs)
    said, label = (fmean(pair[index] for pair in pairs) for index in (0, 1))
    chance = said * label + (1 - said) * (1 - label)
    kappa = (right - chance) / (1 - chance) if chance < 1 else 0.0
    return {"accuracy": round(right, 3), "kappa": round(kappa, 3), "said_yes": round(said, 3)}


async def context_relevance(asked: Any, limit: int) -> dict[str, Any]:
    scores, unread = [], 0
    for question, sentences, marked in passages(limit):
        documents = [Document(page_content=one, metadata={"rank": 0}) for one in sentences]
        said = await asked(helpful_sentences(Question(id="", question=question, answers=()), documents))
        unread += said.value is None
        if said.value is not None:
            named = set(said.detail["helpful"])
            both = len(named & marked)
            scores.append((both / len(named) if named else 0.0, both / len(marked)))
    precision, recall = (fmean(one[index] for one in scores) for index in (0, 1))
    f1 = fmean(2 * p * r / (p + r) if p + r else 0.0 for p, r in scores)
    values = {"precision": precision, "recall": recall, "f1": f1}
    return {"questions": limit, "unreadable": unread, **{k: round(v, 3) for k, v in values.items()}}


async def main() -> None:
    reader = argparse.ArgumentParser()
    reader.add_argument("--model", required=True)
    reader.add_argument("--limit", type=int, default=100)
    reader.add_argument("--free", action="store_true")
    given = reader.parse_args()
    if not DATA.is_dir():
        raise SystemExit(f"needs the public data sets in {DATA}")
    asked = partial(ask, chat_model(given.model), Options(constrain=not given.free and "auto"))
    found = {
        "faithfulness": await faithfulness(asked, given.limit),
        "context_relevance": await context_relevance(asked, given.limit),
    }
    name = Path(given.model.partition("?")[0]).name + (", free" if given.free else "")
    kept = json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else {}
    RESULT.write_text(json.dumps({**kept, name: found}, indent=2) + "\n", "utf-8")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
