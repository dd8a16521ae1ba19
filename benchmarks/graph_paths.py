"""Does it help a model to read by which name graph retrieval reached a passage? The same run, with a line under each.

    python benchmarks/graph_paths.py hotpotqa:hotpot-dev.jsonl.gz --kb graph/kb --out told --model openai:NAME?base_url=…
    ragweave report graph told

`graph` is a run of `ragweave eval … --corpus file --retriever graph -k 5`, whose passages are searched again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from ragweave import KnowledgeBase
from ragweave.evaluation import EvalSettings, evaluate
from ragweave.tools.footnotes import path_of

SYSTEMS = ("concat", "cot[retrieve=true]")


class PathsTold(BaseRetriever):
    """A retriever whose passages end with how they were reached."""

    inner: BaseRetriever
    k: int

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        del run_manager
        return [_with_path(passage) for passage in self.inner.invoke(query)]


def _with_path(passage: Document) -> Document:
    if not path_of(passage):
        return passage
    via = passage.metadata["via"]
    note = f"(This passage was found by the name {via['name']} in the passage {via['heading'] or via['passage']}.)"
    return passage.model_copy(update={"page_content": f"{passage.page_content}\n{note}"})


def main() -> None:
    """Answer the questions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="NAME:FILE")
    parser.add_argument("--kb", type=Path, required=True, help="the passages: a knowledge base")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("-k", type=int, default=5)
    args = parser.parse_args()
    with KnowledgeBase.open(args.kb) as base:
        retriever = PathsTold(inner=base.as_retriever(mode="graph", k=args.k), k=args.k)
        settings = EvalSettings(
            data=args.data,
            systems=SYSTEMS,
            models={"generator": args.model},
            options={"k": str(args.k)},
            corpus="file",
            limit=args.limit,
        )
        evaluate(settings, args.out, given={"retriever": retriever})


if __name__ == "__main__":
    main()
