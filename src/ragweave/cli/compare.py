"""`ragweave compare`: one question, several methods, side by side."""

from __future__ import annotations

import json as json_
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.cli import eval as eval_
from ragweave.errors import UsageError

if TYPE_CHECKING:
    from ragweave.evaluation.runs import System
    from ragweave.graphs import CompiledGraph


def compare(
    question: Annotated[str, typer.Argument(help="The question.")],
    methods: eval_.Methods = eval_.METHODS,
    kb: eval_.Kb = None,
    model: eval_.Model = "extractive",
    proxy: eval_.Proxy = None,
    judge: eval_.Judge = None,
    rewriter: eval_.Rewriter = None,
    filter_model: eval_.FilterModel = None,
    retriever: eval_.Retriever = "auto",
    rerank: eval_.Rerank = "",
    k: eval_.K = None,
    option: eval_.OptionTexts = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask several methods one question: answers, sources, calls and tokens side by side."""
    import asyncio

    from ragweave.cli.eval_run import shared_options
    from ragweave.cli.roles import with_named
    from ragweave.evaluation.runs import parse_systems
    from ragweave.graphs import build_graph
    from ragweave.tools.models import chat_model

    if not question.strip():
        raise UsageError("the question is empty: ask something")
    flags = {"proxy": proxy, "judge": judge, "rewriter": rewriter, "filter_model": filter_model}
    models, texts = with_named({"model": model, **flags}, option or [])
    texts += [f"k={k}"] if k is not None else []
    systems = parse_systems(methods, shared_options(texts, methods))
    found = _retriever(kb, retriever, rerank)
    shared: dict[str, Any] = {name: chat_model(spec) for name, spec in models.items()}
    graphs = [build_graph(one.method, retriever=found, **shared, **one.options) for one in systems]
    results = asyncio.run(_ask_all(question, systems, graphs))
    if json:
        typer.echo(json_.dumps(results, ensure_ascii=False, indent=2, default=str))
    else:
        _show(question, results)


async def _ask_all(
    question: str, systems: Sequence[System], graphs: Sequence[CompiledGraph]
) -> list[dict[str, Any]]:
    import asyncio

    asked = [_ask(question, one, graph) for one, graph in zip(systems, graphs, strict=True)]
    return list(await asyncio.gather(*asked))


async def _ask(question: str, system: System, graph: CompiledGraph) -> dict[str, Any]:
    started = time.perf_counter()
    state: Mapping[str, Any] = await graph.ainvoke({"question": question})
    usage = state["usage"]
    return {
        "method": system.label,
        "answer": state["answer"],
        "status": state["status"],
        "sources": [
            str(doc.metadata.get("title") or doc.metadata.get("source") or doc.id)
            for doc in state["passages"]
        ],
        "calls": usage["calls"],
        "input_tokens": usage["input_tokens"],
        "output_tokens": usage["output_tokens"],
        "estimated": usage["estimated"],
        "seconds": round(time.perf_counter() - started, 3),
    }


def _show(question: str, results: Sequence[Mapping[str, Any]]) -> None:
    from ragweave.cli.eval_run import show_tables
    from ragweave.evaluation.report import Table

    rows = [
        [
            one["method"],
            one["answer"],
            "; ".join(dict.fromkeys(one["sources"])),
            str(one["calls"]),
            f"{one['input_tokens']} + {one['output_tokens']}",
            f"{one['seconds']:.2f}",
        ]
        for one in results
    ]
    head = ["method", "answer", "sources", "calls", "tokens in + out", "seconds"]
    estimated = any(one["estimated"] for one in results)
    remarks = ["Token counts are estimated from characters."] if estimated else []
    show_tables([Table(question, head, rows, remarks)])


def _retriever(kb: Path | None, mode: str, rerank: str) -> Any:
    from ragweave.tools.knowledge import RETRIEVERS, KnowledgeBase, retriever_of

    if kb is None and RETRIEVERS.named(mode).needs_kb:
        return None
    return retriever_of(mode, KnowledgeBase.open(kb) if kb else None, reranker=rerank or None)
