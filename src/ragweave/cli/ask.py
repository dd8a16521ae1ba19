"""`ragweave ask`: one question, one method, an answer with its sources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.errors import ModelError, UsageError

if TYPE_CHECKING:
    from ragweave.graphs import CompiledGraph


def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    kb: Annotated[Path | None, typer.Option("--kb", help="Folder of the knowledge base.")] = None,
    method: Annotated[
        str, typer.Option("--method", "-m", help="The method (see `ragweave methods`).")
    ] = "concat_pf",
    model: Annotated[
        str,
        typer.Option(
            help="extractive, openai:NAME, llamacpp:PATH, provider:NAME, or a trained part's "
            "folder; settings behind ?"
        ),
    ] = "extractive",
    proxy: Annotated[str | None, typer.Option(help="Model that drafts answers.")] = None,
    judge: Annotated[str | None, typer.Option(help="Model that judges what is known.")] = None,
    rewriter: Annotated[str | None, typer.Option(help="Model that rewrites queries.")] = None,
    filter_model: Annotated[str | None, typer.Option(help="Model that filters passages.")] = None,
    k: Annotated[int | None, typer.Option("-k", "--k", help="Passages a query.")] = None,
    retriever: Annotated[
        str,
        typer.Option(help="auto, bm25, dense or hybrid (auto: hybrid where there are vectors)."),
    ] = "auto",
    rerank: Annotated[
        str | None, typer.Option(help="Cross-encoder, by local path or hub name.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            help="name=value of the method's options, or judge=, rewriter=, generator=, filter= "
            "with a trained part's folder; repeatable.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Show replies as they come.")] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Show the path taken, step by step.")
    ] = False,
    trace_file: Annotated[
        Path | None,
        typer.Option(help="Record the run, prompts and replies too, for `ragweave trace`."),
    ] = None,
) -> None:
    """Answer a question. Prints the answer, its sources and what it cost."""
    import asyncio

    from ragweave.cli.record import plain_output, run_record, to_json
    from ragweave.cli.roles import follow, with_named
    from ragweave.cli.screen import write_file
    from ragweave.cli.show import show_result
    from ragweave.cli.watch import Watch

    if not question.strip():
        raise UsageError("the question is empty: ask something")
    if trace_file is not None and not trace_file.parent.is_dir():
        raise UsageError(f"no such folder: {trace_file.parent}")
    roles = {"proxy": proxy, "judge": judge, "rewriter": rewriter, "filter_model": filter_model}
    models, texts = with_named({"model": model, **roles}, option or [])
    graph = _graph(method, models, k, texts, _retriever(kb, retriever, rerank))
    watch = Watch(live=stream and not json)
    lost: UsageError | None = None
    try:
        result = asyncio.run(follow(graph, {"question": question}, watch))
    finally:
        if trace_file is not None:
            try:
                write_file(trace_file, to_json(run_record(graph, question, watch)))
            except UsageError as fault:
                lost = fault  # an answer that was paid for, or why there is none, is shown first
    if json:
        typer.echo(to_json(run_record(graph, question, watch) if trace else plain_output(result)))
    else:
        show_result(result, watch, trace=trace)
    if lost is not None:
        raise lost


def _graph(
    name: str, models: dict[str, Any], k: int | None, texts: list[str], retriever: Any
) -> CompiledGraph:
    from ragweave.graphs import build_graph
    from ragweave.graphs.build import method_named
    from ragweave.graphs.method import parse_options

    options = parse_options(texts, method_named(name))
    if k is not None:
        options["k"] = k
    try:
        return build_graph(name, retriever=retriever, **models, **options)
    except ModelError as fault:
        raise UsageError(str(fault)) from fault


def _retriever(kb: Path | None, mode: str, rerank: str | None) -> Any:
    from ragweave.tools.knowledge import RETRIEVERS, KnowledgeBase, retriever_of

    if kb is None and RETRIEVERS.named(mode).needs_kb:
        return None
    return retriever_of(mode, KnowledgeBase.open(kb) if kb else None, reranker=rerank)
