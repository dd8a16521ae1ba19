"""Record what a real model replies at every step, for the parsers' tests.

    python benchmarks/record_replies.py --model llamacpp:model.gguf --out replies.jsonl
    python benchmarks/record_replies.py --model openai:NAME --methods react,rewrite --questions 10

Runs methods over questions of the bundled articles and appends a JSON line for each model call:
method, node, role, question, prompt messages, reply, and what the step's parser reads off it (`read`).
Whoever checks a record by hand adds `meant`, what a person reads off the reply; `tests/recorded`
holds such records, and the tests compare. The file grows call by call, so that it may be stopped at any
time; replies that a stop cut short are not in it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.reply_readers import read_record

from ragweave import build_graph
from ragweave.corpus import corpus_documents
from ragweave.errors import RagweaveError
from ragweave.graphs.registry import METHODS
from ragweave.tools.models.specs import chat_model
from ragweave.tools.models.tasks import task_of
from ragweave.tools.retrieval import Bm25Retriever

QUESTIONS = Path(__file__).parents[1] / "tests" / "corpus_questions.jsonl"
UNFIT = ("skr_knn",)
"""Methods that need more than a model: their steps are those of others."""
OPTIONS: dict[str, dict[str, Any]] = {
    "filco": {"filter": "llm"},
    "react": {"max_steps": 3},
    "self_ask": {"rounds": 2},
    "iter_retgen": {"rounds": 2},
    "flare": {"rounds": 1},
}


class Recorder(BaseCallbackHandler):
    """Appends a record for each reply."""

    run_inline = True

    def __init__(self, out: Path, model: str) -> None:
        self.out, self.model = out, model
        self.method = ""
        self.open: dict[UUID, dict[str, Any]] = {}
        self.count = 0

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Take the prompt."""
        known = metadata or {}
        task = task_of(messages[0])
        self.open[run_id] = {
            "model": self.model,
            "method": self.method,
            "node": known.get("ragweave_node", ""),
            "role": known.get("ragweave_role", ""),
            "question": task["question"] if task else "",
            "answer_type": (task or {}).get("answer_type", "short"),
            "titles": [one["title"] for one in (task or {}).get("passages", ())],
            "prompt": [[one.type, str(one.text)] for one in messages[0]],
        }

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        """Write the record."""
        record = self.open.pop(run_id)
        record["reply"] = response.generations[0][0].text
        record["read"] = read_record(record)
        with self.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
        self.count += 1


def main() -> None:
    """Record."""
    parser = argparse.ArgumentParser(description="Record a real model's replies at every step.")
    parser.add_argument("--model", required=True, help="a model spec")
    parser.add_argument("--out", type=Path, required=True, help="a JSON lines file to append to")
    parser.add_argument("--methods", default="", help="comma-separated; all by default")
    parser.add_argument("--questions", type=int, default=5, help="how many questions")
    parser.add_argument("--first", type=int, default=0, help="the first question")
    parser.add_argument("--stride", type=int, default=7, help="take every STRIDE-th question")
    parser.add_argument("--k", type=int, default=2, help="passages a query")
    parser.add_argument("--tokens", type=int, default=120, help="longest reply of a draft")
    given = parser.parse_args()
    names = given.methods.split(",") if given.methods else [m for m in METHODS if m not in UNFIT]
    rows = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]
    retriever = Bm25Retriever.from_documents(corpus_documents())
    model = chat_model(given.model)
    recorder = Recorder(given.out, given.model.partition("?")[0].rpartition("/")[2])
    for row in rows[given.first :: given.stride][: given.questions]:
        for name in names:
            options = {"k": given.k, **OPTIONS.get(name, {})}
            if hasattr(METHODS[name].options, "proxy_tokens"):
                options["proxy_tokens"] = given.tokens
            recorder.method = name
            graph = build_graph(name, model=model, retriever=retriever, **options)
            asked = {"question": row["question"], "answer_type": row.get("type", "short")}
            config = {"callbacks": [recorder], "max_concurrency": 1}
            try:
                graph.invoke(asked, config)
            except RagweaveError as error:
                print(f"{name}: {error}", file=sys.stderr)
        print(f"{recorder.count} replies, {row['question']}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
