"""Who decides best? A chat model that fills in a form, its log-probabilities, or a trained component, on the same verdicts.

    python benchmarks/decisions.py --train trained/
    python benchmarks/decisions.py --trained trained/ --minutes 10
    python benchmarks/decisions.py --model "llamacpp:qwen2.5-coder-0.5b.gguf?n_ctx=4096" --minutes 60
    python benchmarks/decisions.py --table

Three verdicts, on public data (`../shared/data`):

* `grade`: does a passage say what answers the question? CRAG's evaluator; two gold passages and two others of each of
  100 questions of HotpotQA.
* `filter`: which of five passages help? The knowledge filter's two turns; two are gold, three are not.
* `known`: is a draft of Llama 2 7B right? SlimPLM's judge, on 200 of its released rows.

`--train` trains a linear judge (SlimPLM's other rows) and a bi-encoder as a filter (100 other questions of HotpotQA,
one epoch) in ten minutes; a passage's score is its best sentence's. A row is written as soon as a question is decided, and a run that
was interrupted goes on where it stopped. The table has the AUC; the expected calibration error (ten bins), as it comes
and after Platt scaling on the other half of the questions; calls and seconds a question.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document

from passage_sets import rows
from ragweave import chat_model
from ragweave.evaluation.metrics.judged import ask
from ragweave.graphs import blendfilter, crag, slimplm
from ragweave.nodes.forms import Ids, ids_form
from ragweave.nodes.segments import split_passages
from ragweave.tools.filters import FilterSettings
from ragweave.tools.models.decisions import LogprobDecisions, platt, sigmoid
from ragweave.tools.text.untrusted import numbered, render_passages, untrusted
from ragweave.tools.trained.models import trained_filter
from ragweave.training import train
from ragweave.training.job import auc

RESULTS = Path(__file__).parent / "results" / "decisions.jsonl"
TASKS = ("grade", "filter", "known")


class Item(NamedTuple):
    """A question with what is to be decided, and the right decisions."""

    task: str
    id: str
    question: str
    texts: list[Document]
    """Passages, or the one draft."""
    labels: list[bool]


class Calls(BaseCallbackHandler):
    """Counts the calls of chat models."""

    count = 0

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """Count."""
        self.count += 1


def hotpot(name: str) -> Iterator[tuple[str, str, list[Document], list[Document], set[tuple[str, int]]]]:
    """Yield id, question, gold passages, other passages, and the supporting sentences."""
    for row in rows(f"hotpotqa/{name}"):
        facts = {(title, at) for title, at in row["supporting_facts"]}
        titles = {title for title, _ in facts}
        documents = [
            Document("".join(sentences).strip(), metadata={"title": title}, id=title)
            for title, sentences in row["context"]
        ]
        gold = [document for document in documents if document.id in titles]
        yield (
            row["_id"],
            row["question"],
            gold,
            [document for document in documents if document.id not in titles],
            facts,
        )


def items() -> list[Item]:
    """Return the items, the tasks in turn, so that an unfinished run has some of each."""
    by_task: dict[str, list[Item]] = defaultdict(list)
    for name, question, gold, others, _ in list(hotpot("hotpot-dev-200.jsonl.gz"))[::2]:
        if len(gold) == 2 and len(others) >= 3:
            few = [gold[0], others[0], gold[1], others[1]]
            by_task["grade"].append(Item("grade", name, question, few, [True, False, True, False]))
            more = [others[0], gold[0], others[1], gold[1], others[2]]
            by_task["filter"].append(Item("filter", name, question, more, [False, True, False, True, False]))
    for row in rows("slimplm/judge-llama7b-dev.jsonl.gz")[::2]:
        draft = Document(row["llama7b_without_search_answer"].strip())
        by_task["known"].append(Item("known", row["question"], row["question"], [draft], [row["known"]]))
    turns = [
        [by_task[task][at] for task in TASKS if at < len(by_task[task])]
        for at in range(max(map(len, by_task.values())))
    ]
    return [label for turn in turns for label in turn]


async def by_form(model: Any, item: Item) -> tuple[list[float], int]:
    """Return the verdicts of a chat model that is held to a form, and how many could not be read."""
    asked: dict[str, Any] = {"question": item.question}
    if item.task == "grade":
        words = {"Correct": 1.0, "Ambiguous": 0.5, "Incorrect": 0.0}
        grades = [
            await ask(
                model, crag.Grade, crag.PROMPTS["grade"].format_messages(**asked, passages=render_passages([passage]))
            )
            for passage in item.texts
        ]
        return [words[grade.grade] if grade else 0.5 for grade in grades], grades.count(None)
    if item.task == "known":
        asked["draft"] = untrusted(item.texts[0].page_content)
        verdict = await ask(model, slimplm.Verdict, slimplm.PROMPTS["judge"].format_messages(**asked))
        return [float(verdict.known == "True") if verdict else 0.0], int(verdict is None)
    asked["passages"] = numbered("knowledge", 1)(item.texts)
    first = blendfilter.PROMPTS["relevance_any_topic"].format_messages(**asked)
    relevance = await model.bind(max_tokens=256).ainvoke(first)
    second = blendfilter.PROMPTS["ids_any_topic"].format_messages(**asked, relevance=untrusted(str(relevance.text)))
    named = await ask(model, ids_form(1, len(item.texts)), second)
    chosen = named.ids if named else range(1, len(item.texts) + 1)
    return [float(at in chosen) for at in range(1, len(item.texts) + 1)], int(named is None)


async def by_decision(model: Any, item: Item) -> tuple[list[float], int]:
    """Return the probabilities of a decision model."""
    form: Any = {"grade": crag.Grade, "filter": Ids, "known": slimplm.Verdict}[item.task]
    given = "draft" if item.task == "known" else "passage"
    titles = [f"{text.metadata['title']}\n" if "title" in text.metadata else "" for text in item.texts]
    texts = [title + text.page_content for title, text in zip(titles, item.texts, strict=True)]
    requests = [
        {"state": {"question": item.question, given: text}, "questions": {"it": form.decides}} for text in texts
    ]
    return [(await model.ainvoke(request)).nouls["it"].noul for request in requests], 0


def by_filter(folder: Path) -> Callable[[Any, Item], Any]:
    """Return how a trained filter decides: a passage is as good as its best sentence."""
    kind = trained_filter(str(folder))

    async def decide(_: Any, item: Item) -> tuple[list[float], int]:
        scores = []
        for passage in item.texts:
            segments = [sentence for sentence in split_passages([passage], 1) if sentence.page_content.strip()]
            scores.append(max(kind.scores(item.question, segments, (), FilterSettings())))
        return scores, 0

    return decide


def deciders(args: argparse.Namespace) -> Iterator[tuple[str, str, tuple[str, ...], Any, Any]]:
    """Yield name, kind, tasks, the model and how it decides."""
    if args.model:
        chat, name = chat_model(args.model), args.model.partition("?")[0].rpartition("/")[2]
        yield name, "form", TASKS, chat, by_form
        yield name, "log-probabilities", TASKS, LogprobDecisions(chat=chat), by_decision
    if args.trained and (args.trained / "judge" / "card.json").is_file():
        yield "linear judge", "trained", ("known",), chat_model(f"{args.trained / 'judge'}/"), by_decision
    if args.trained and (args.trained / "filter" / "card.json").is_file():
        yield "bi-encoder", "trained", ("grade", "filter"), None, by_filter(args.trained / "filter")


async def run(args: argparse.Namespace) -> None:
    """Decide until all is decided or the time is over."""
    RESULTS.parent.mkdir(exist_ok=True)
    done = {(row["model"], row["kind"], row["task"], row["id"]) for row in written()}
    end, chosen, free = time.monotonic() + 60 * args.minutes, list(deciders(args)), asyncio.Semaphore(args.concurrency)

    async def decided(item: Item, name: str, kind: str, model: Any, decide: Any) -> None:
        async with free:
            if time.monotonic() > end:
                return
            counted, started = Calls(), time.perf_counter()
            bound = model.with_config(callbacks=[counted]) if kind == "log-probabilities" else model
            if kind == "form":
                bound = model.model_copy(update={"callbacks": [counted]})
            scores, unread = await decide(bound, item)
            row = {"model": name, "kind": kind, "task": item.task, "id": item.id, "scores": scores}
            row |= {"labels": item.labels, "calls": counted.count, "unread": unread}
            file.write(json.dumps(row | {"seconds": round(time.perf_counter() - started, 3)}) + "\n")
            file.flush()

    with RESULTS.open("a", encoding="utf-8") as file:
        todo = [
            decided(item, name, kind, model, decide)
            for item in items()[: args.most]
            for name, kind, tasks, model, decide in chosen
            if item.task in tasks and (name, kind, item.task, item.id) not in done
        ]
        await asyncio.gather(*todo)


def written() -> list[dict[str, Any]]:
    """Return the rows so far."""
    return list(map(json.loads, RESULTS.read_text("utf-8").splitlines())) if RESULTS.is_file() else []


def calibration_error(chances: Any, labels: Any) -> float:
    """Return the expected calibration error over ten bins of equal width."""
    bins = np.minimum((chances * 10).astype(int), 9)
    gaps = [abs(chances[bins == at].mean() - labels[bins == at].mean()) * (bins == at).mean() for at in np.unique(bins)]
    return float(sum(gaps))


def scaled(chances: Any, labels: Any, halves: Any) -> Any:
    """Return probabilities that are calibrated by Platt scaling on the other half."""
    logits = np.asarray([math.log(max(chance, 1e-6) / max(1 - chance, 1e-6)) for chance in chances])
    scaled_chances = np.array(chances)
    for half in (0, 1):
        other, here = halves != half, halves == half
        if labels[other].all() or not labels[other].any():
            return scaled_chances
        slope, intercept = platt(list(logits[other]), list(labels[other]))
        scaled_chances[here] = [sigmoid(slope * logit + intercept) for logit in logits[here]]
    return scaled_chances


def table() -> None:
    """Print the table, in Markdown."""
    print("| verdict | model | by | questions | AUC | ECE | ECE, calibrated | unread | calls | seconds |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    groups = defaultdict(list)
    for row in written():
        groups[TASKS.index(row["task"]), row["model"], row["kind"]].append(row)
    for (task, model, kind), group in sorted(groups.items()):
        chances = np.asarray([score for row in group for score in row["scores"]], float)
        labels = np.asarray([label for row in group for label in row["labels"]], bool)
        halves = np.asarray([at % 2 for at, row in enumerate(group) for _ in row["labels"]])
        cells = [auc(chances, labels), calibration_error(chances, labels)]
        cells.append(calibration_error(scaled(chances, labels, halves), labels))
        sums = {name: sum(row[name] for row in group) for name in ("unread", "calls", "seconds")}
        shown = " | ".join(f"{cell:.3f}" for cell in cells)
        cost = f"{sums['unread']} | {sums['calls'] / len(group):.1f} | {sums['seconds'] / len(group):.2f}"
        print(f"| {TASKS[task]} | {model} | {kind} | {len(group)} | {shown} | {cost} |")


def train_both(folder: Path) -> None:
    """Train the judge and the filter, whichever is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "judge" / "card.json").is_file():
        files = ("judge-llama7b-train.jsonl.gz", "judge2-llama7b-val.jsonl.gz")
        known = {row["question"]: row for name in files for row in rows(f"slimplm/{name}")}.values()
        judged = [
            {"id": str(at), "question": row["question"], "draft": row["llama7b_without_search_answer"].strip()}
            | {"known": row["known"]}
            for at, row in enumerate(known)
        ]
        print(train("judge", _file(folder / "judge.jsonl", judged), folder / "judge").metrics)
    if not (folder / "filter" / "card.json").is_file():
        rows_of_filter = []
        for row in rows("hotpotqa/hotpot-train-100.json.gz"):
            facts, spans, passages = {tuple(fact) for fact in row["supporting_facts"]}, [], []
            for title, sentences in row["context"]:
                text, start = "".join(sentences), 0
                for at, sentence in enumerate(sentences):
                    if (title, at) in facts and sentence:
                        spans.append({"passage_id": title, "start": start, "end": start + len(sentence)})
                    start += len(sentence)
                passages.append({"id": title, "title": title, "text": text})
            rows_of_filter.append({"id": row["_id"], "question": row["question"], "answers": [row["answer"]]})
            rows_of_filter[-1] |= {"passages": passages, "spans": spans}
        file = _file(folder / "filter.jsonl", rows_of_filter)
        print(train("filter", file, folder / "filter", settings={"epochs": 1}).metrics)


def _file(path: Path, items: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in items), "utf-8")
    return path


def main() -> None:
    """Train, decide or print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="spec of a chat model that reports log-probabilities")
    parser.add_argument("--trained", type=Path, help="folder that --train has filled")
    parser.add_argument("--train", type=Path, help="train the components into this folder")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--concurrency", type=int, default=1, help="questions in flight at once")
    parser.add_argument("--most", type=int, help="only so many of the items")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.train:
        train_both(args.train)
    if args.model or args.trained:
        asyncio.run(run(args))
    if args.table:
        table()


if __name__ == "__main__":
    main()
