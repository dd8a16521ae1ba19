"""`ragweave ask`: one question for one method or several."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.cli import options
from ragweave.cli.chat import read_conversation, store_conversation
from ragweave.cli.screen import console, explain, progress_console, table_of
from ragweave.errors import UsageError

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from ragweave.cli.options import Setup
    from ragweave.graphs import MethodGraph
    from ragweave.graphs.watch import Watch


def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    follow_up: options.FollowUp = False,
    kb: options.Kb = options.DEFAULT_KB,
    method: options.Method_ = options.DEFAULT_METHOD,
    methods: Annotated[
        str, typer.Option(help="Ask several methods: direct,concat[k=10],blendfilter[queries=question+internal].")
    ] = "",
    model: options.Model = None,
    k: options.K = None,
    retriever: options.Retriever = "auto",
    rerank: options.Rerank = "",
    prefer: options.Prefer = "",
    second_retriever: options.SecondRetriever = "",
    filters: options.Filter = None,
    option: options.Option = None,
    cache: options.Cache = None,
    citations: Annotated[bool, typer.Option(help="Quote the sentences that support the answer.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Show replies as they are written.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Show the path taken, step by step.")] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            help="Write answer and quotes to FILE.html or FILE.md; with --trace, the whole run to FILE.html; the rows that "
            "`table_query` computed the answer from to FILE.csv."
        ),
    ] = None,
) -> None:
    """Answer a question. Prints the answer, its quotes and sources, and what it cost."""
    from ragweave.state.passages import encodable

    question = encodable(question)
    if not question.strip():
        raise UsageError("the question is empty")
    if save is not None and not save.parent.is_dir():
        raise UsageError(f"--save: no such folder: {save.parent}")
    if save is not None and save.suffix not in (".html", ".md", ".csv"):
        raise UsageError(f"--save: the file must end in .html, .md or .csv, not {save.name}")
    with progress_console().status("loading …"):
        from ragweave.graphs.specs import split_systems

        specs = split_systems(methods) or [method]
        setup = options.Setup.open(
            specs, kb, model, k, retriever, rerank, prefer, second_retriever, option, filters, citations, cache
        )
    if methods:
        if follow_up or stream or trace or save:
            raise UsageError("--methods cannot be combined with --continue, --stream, --trace or --save")
        _compare(setup, specs, question, json=json)
        return
    _ask(setup, method, question, follow_up=follow_up, json=json, stream=stream, trace=trace, save=save)
    setup.show_notice()


def _ask(
    setup: Setup,
    method: str,
    question: str,
    *,
    follow_up: bool,
    json: bool,
    stream: bool,
    trace: bool,
    save: Path | None,
) -> None:
    import asyncio

    from langchain_core.messages import HumanMessage

    from ragweave.cli.screen import write_live
    from ragweave.cli.show import show_result
    from ragweave.graphs.watch import Watch
    from ragweave.tools.footnotes import cited_message
    from ragweave.tools.replies import asking

    earlier = read_conversation(setup.kb) if follow_up else []
    graph = setup.chat(method) if follow_up else setup.graph(method)
    message = HumanMessage(question)
    values: dict[str, Any] = {"messages": [*earlier, message]} if follow_up else {"question": question}
    live = stream and not json
    watch, traced = Watch(write_live if live else None), trace and save is not None and save.suffix == ".html"
    waiting = nullcontext() if live else progress_console().status(f"{method} …")
    try:
        with waiting as status, asking():
            result = asyncio.run(watch.follow(graph, values, status.update if status else None))
    finally:
        if save is not None and traced:
            from ragweave.graphs.trace_page import trace_page

            save.write_text(trace_page(graph, question, watch, setup.evidence(method)), "utf-8", "replace")
    messages = result.pop("messages", None)
    if json:
        typer.echo(to_json(record(graph, question, watch) if trace else result))
    else:
        show_result(result, watch, trace=trace)
    reply = cited_message(result["answer"], result["passages"], result["citations"])
    store_conversation(messages or [message, reply], setup.kb)
    if save is not None and save.suffix == ".csv":
        _save_rows(result["passages"], setup.retriever_of(method), save)
    elif save is not None and not traced:
        from ragweave.tools.footnotes import html_report, markdown_report

        shown = html_report(result, setup.evidence(method)) if save.suffix == ".html" else markdown_report(result)
        save.write_text(shown, "utf-8", "replace")


def _save_rows(passages: Sequence[Document], retriever: Any, path: Path) -> None:
    """Write the rows that an answer was computed from."""
    from ragweave.graphs.table_query import tables_of

    results = [doc.metadata for doc in passages if "source" not in doc.metadata]  # what has one is a document
    queries = [result["sql"] for result in results if "sql" in result]
    tables = tables_of(retriever) if queries else None
    count = tables.save(queries[0], path) if tables else 0
    progress_console().print(
        f"{count} rows written to {path}" if count else "the answer was not computed from rows: no file"
    )


def record(graph: MethodGraph, question: str, watch: Watch) -> dict[str, Any]:
    """Return a run's output and its steps."""
    steps = [
        {**vars(step), "asked": [*map(asdict, step.asked)], "searched": [*map(asdict, step.searched)]}
        for step in watch.steps
    ]
    return {"method": graph.get_name(), **watch.output, "question": question, "steps": steps}


def to_json(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """Write a result as JSON; passages become `id`, `text` and `metadata`."""
    import json

    from langchain_core.documents import Document

    def plain(value: Any) -> Any:
        """Return the type's name of an object that is not JSON; its repr may hold paths of this machine."""
        if isinstance(value, Document):
            return {"id": value.id, "text": value.page_content, "metadata": value.metadata}
        return str(value) if isinstance(value, Path) else type(value).__name__

    return json.dumps(value, ensure_ascii=False, indent=2, default=plain).encode("utf-8", "replace").decode()


def _compare(setup: Setup, specs: Sequence[str], question: str, *, json: bool) -> None:
    """Ask the methods one after another, so that each method's seconds are its own."""
    import asyncio

    graphs, results = {spec: setup.graph(spec) for spec in specs}, []
    with asyncio.Runner() as runner, progress_console().status("") as status:
        for number, (spec, graph) in enumerate(graphs.items(), start=1):
            status.update(f"{spec.replace('[', '(').replace(']', ')')} ({number} of {len(graphs)}) …")
            results.append({"method": spec, **runner.run(_outcome(graph, question))})
    if json:
        typer.echo(to_json(results))
    else:
        _show(question, results)
    setup.show_notice()
    if any("error" in result for result in results):
        raise typer.Exit(1)


async def _outcome(graph: MethodGraph, question: str) -> dict[str, Any]:
    """Return a method's answer and cost, or why it failed: the other methods still answer."""
    from ragweave.tools.footnotes import label_of
    from ragweave.tools.replies import asking

    started, outcome = time.perf_counter(), dict[str, Any]()
    try:
        with asking():
            out = await graph.ainvoke({"question": question})
    except Exception as error:
        reason = explain(error)
        if reason is None:
            raise
        outcome = {"answer": None, "status": "failed", "error": reason}
    else:
        usage = {name: out["usage"][name] for name in ("calls", "input_tokens", "output_tokens", "estimated")}
        sources = list(dict.fromkeys(map(label_of, out["passages"])))
        outcome = {"answer": out["answer"], "status": out["status"], "sources": sources, **usage}
    return {**outcome, "seconds": round(time.perf_counter() - started, 3)}


def _show(question: str, results: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        [
            result["method"],
            f"failed: {result['error']}" if "error" in result else result["answer"],
            "; ".join(result.get("sources", ())),
            str(result.get("calls", "")),
            f"{result['input_tokens']} + {result['output_tokens']}" if "calls" in result else "",
            f"{result['seconds']:.2f}",
        ]
        for result in results
    ]
    heads = ["method", "answer", "sources", "calls", "tokens in + out", "seconds"]
    console().print(table_of(heads, rows, numbers=("calls", "seconds"), title=question))
