"""What holding replies to a form (`constrain`) does for small models: replies read as meant, calls, F1.

Asks 20 questions of NQ and 20 of HotpotQA (../shared/data) by `concat`, `crag`, `self_ask` and
`blendfilter`, with the option on and off, over three BM25 passages of a corpus of some 1,500. Each
question's rows are written as soon as it is answered: a run that is interrupted goes on where it stopped.

    python benchmarks/constrained.py --model llamacpp:qwen2.5-coder-0.5b.gguf?n_ctx=4096 --minutes 60
    python benchmarks/constrained.py --table

The structured replies themselves are written to `constrained.replies.jsonl`, which is not committed: they
repeat words of the data sets.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document

from passage_sets import rows
from ragweave import build_graph, chat_model
from ragweave.evaluation.metrics.answers import squad_f1
from ragweave.tools.retrieval import Bm25Retriever

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "constrained.jsonl"
REPLIES = HERE / "results" / "constrained.replies.jsonl"
METHODS = ("concat", "crag", "self_ask", "blendfilter")
STRUCTURED = {"grade", "refine", "keywords", "self_ask", "choose"}
"""The nodes whose replies have a form."""
QUESTIONS = 20


def questions(name: str) -> tuple[list[tuple[str, list[str]]], list[Document]]:
    """Return questions with their answers, and the passages that are searched."""
    if name == "nq":
        found = rows("nq/nq-open-oracle.jsonl.gz")
        asked = [(row["question"], row["answers"]) for row in found]
        texts = {(one["title"], one["text"]) for row in found for one in row["ctxs"]}
    else:
        found = rows("hotpotqa/hotpot-dev-200.jsonl.gz")
        asked = [(row["question"], [row["answer"]]) for row in found]
        texts = {(title, "".join(said).strip()) for row in found for title, said in row["context"]}
    documents = [Document(text, metadata={"title": title}) for title, text in sorted(texts)]
    step = len(asked) // QUESTIONS
    return asked[::step][:QUESTIONS], documents


class Replies(BaseCallbackHandler):
    """Keeps the replies of structured steps, with the nodes that asked."""

    def __init__(self) -> None:
        """Start empty."""
        self.nodes: dict[Any, str] = {}
        self.said: list[dict[str, str]] = []

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: Any, metadata: Any = None, **_: Any
    ) -> None:
        """Remember the node of a call."""
        del serialized, messages
        self.nodes[run_id] = str((metadata or {}).get("langgraph_node", ""))

    def on_llm_end(self, response: Any, *, run_id: Any, **_: Any) -> None:
        """Keep the reply of a structured step."""
        node = self.nodes.pop(run_id, "")
        if node in STRUCTURED:
            self.said.append({"node": node, "reply": str(response.generations[0][0].message.text)})


def measure(spec: str, minutes: float) -> None:
    """Answer what is not answered yet, for so many minutes."""
    name = Path(spec.partition(":")[2].partition("?")[0]).stem
    done = {(row["model"], row["data"], row["question"], row["method"], row["constrain"]) for row in recorded()}
    model, end = chat_model(spec), time.monotonic() + 60 * minutes
    sets = {data: questions(data) for data in ("nq", "hotpotqa")}
    retrievers = {data: Bm25Retriever.from_documents(found[1], k=3) for data, found in sets.items()}
    for number in range(QUESTIONS):
        for data, (asked, _) in sets.items():
            question, gold = asked[number]
            model.cache = InMemoryCache()  # both settings share the calls in which they don't differ
            for method in METHODS:
                for constrain in (True, False):
                    mark = hashlib.blake2b(question.encode(), digest_size=6).hexdigest()
                    key = (name, data, mark, method, constrain)
                    if key in done:
                        continue
                    if time.monotonic() > end:
                        return
                    kept = Replies()
                    graph = build_graph(method, model=model, retriever=retrievers[data], k=3, constrain=constrain)
                    out = graph.invoke({"question": question}, {"callbacks": [kept], "max_concurrency": 1})
                    row = dict(zip(("model", "data", "question", "method", "constrain"), key, strict=True))
                    row |= {"f1": round(squad_f1(out["answer"], gold), 3), "calls": out["usage"]["calls"]}
                    row |= {"unknown": out["status"] == "unknown", "structured": len(kept.said)}
                    with REPLIES.open("a", encoding="utf-8") as lines:
                        lines.writelines(json.dumps({"key": key, **one}) + "\n" for one in kept.said)
                    with RESULTS.open("a", encoding="utf-8") as lines:
                        lines.write(json.dumps(row) + "\n")
                    print(name, data, number, method, constrain, row["f1"], row["calls"], flush=True)


def recorded() -> Iterator[dict[str, Any]]:
    """Yield the rows so far."""
    if RESULTS.exists():
        yield from map(json.loads, RESULTS.read_text("utf-8").splitlines())


def table() -> None:
    """Print what is recorded, a line a model, set, method and setting."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in recorded():
        groups[row["model"], row["data"], row["method"], row["constrain"]].append(row)
    print("| model | data | method | constrain | questions | F1 | calls | Unknown |\n|---|---|---|---|---|---|---|---|")
    for (model, data, method, constrain), found in sorted(groups.items()):
        means = [sum(row[key] for row in found) / len(found) for key in ("f1", "calls", "unknown")]
        shown = f"{100 * means[0]:.1f} | {means[1]:.1f} | {means[2]:.0%}"
        print(f"| {model} | {data} | {method} | {'on' if constrain else 'off'} | {len(found)} | {shown} |")


def main() -> None:
    """Measure, or print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--model", help="the model's spec")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--table", action="store_true", help="print what is recorded")
    arguments = parser.parse_args()
    if arguments.table:
        table()
    elif arguments.model:
        measure(arguments.model, arguments.minutes)
    else:
        parser.error("give --model, or --table")


if __name__ == "__main__":
    main()
