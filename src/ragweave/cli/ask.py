"""`ragweave ask` and `ragweave compare`: one question, put to one method or to several."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.cli import options
from ragweave.errors import ModelError, UsageError

if TYPE_CHECKING:
    from ragweave.evaluation.runs import System
    from ragweave.graphs import CompiledGraph

Question = Annotated[str, typer.Argument(help="The question.")]

_LOG = logging.getLogger("ragweave.cli")


def ask(
    question: Question,
    follow_up: Annotated[
        bool,
        typer.Option("--continue", "-c", help="Follow up on the last question and its answer."),
    ] = False,
    kb: options.Kb = None,
    method: options.Method = "concat_pf",
    model: options.Model = "extractive",
    proxy: options.Proxy = None,
    judge: options.Judge = None,
    rewriter: options.Rewriter = None,
    filter_model: options.FilterModel = None,
    k: options.K = None,
    retriever: options.Retriever = "auto",
    rerank: options.Rerank = "",
    second_retriever: options.SecondRetriever = "",
    filters: options.Filter = None,
    option: options.OptionTexts = None,
    citations: Annotated[
        bool, typer.Option("--citations", help="Quote the sentences that support the answer.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
    stream: Annotated[
        bool, typer.Option("--stream", help="Show replies as they are written.")
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Show the path taken, step by step.")
    ] = False,
    trace_file: Annotated[
        Path | None,
        typer.Option(help="Record the run, with prompts and replies, for `ragweave trace`."),
    ] = None,
) -> None:
    """Answer a question. Prints the answer, its sources and what it cost."""
    import asyncio

    from ragweave.cli.screen import loading, write_file

    question = _readable(question)
    if trace_file is not None and not trace_file.parent.is_dir():
        raise UsageError(f"no such folder: {trace_file.parent}")
    with loading():
        from langchain_core.messages import HumanMessage

        from ragweave.cli.conversation import (
            conversation,
            keep_conversation,
            message_of,
            read_conversation,
        )
        from ragweave.cli.record import plain_output, run_record, to_json
        from ragweave.cli.show import show_result
        from ragweave.cli.watch import Watch, follow
        from ragweave.tools.warm_up import warm_up

        specs, texts = options.read_models(model, proxy, judge, rewriter, filter_model, option)
        texts += ["citations=true"] if citations else []
        again = options.second_retriever(second_retriever, kb, [method])
        found = options.open_retriever(kb, retriever, rerank, k, filters)
        models = options.opened(specs)
        graph = method_graph(method, {**models, **again}, k, texts, found)
        warm_up([found, *again.values()])
    watch = Watch(live=stream and not json)
    earlier = read_conversation() if follow_up else []
    asked = HumanMessage(question)
    run, given = (
        (conversation(graph, models), {"messages": [*earlier, asked]})
        if follow_up
        else (graph, {"question": question})
    )
    write_error: UsageError | None = None
    try:
        result = asyncio.run(follow(run, given, watch))
        said = result.pop("messages", None) or [asked, message_of(result)]
    finally:
        if trace_file is not None:
            try:
                write_file(trace_file, to_json(run_record(run, question, watch)))
            except UsageError as error:
                write_error = error  # show the answer, which was paid for, first
    if json:
        typer.echo(to_json(run_record(run, question, watch) if trace else plain_output(result)))
    else:
        show_result(result, watch, trace=trace)
    options.show_notice(models)
    keep_conversation(said)
    if write_error is not None:
        raise write_error


def _readable(question: str) -> str:
    """Return a question with `?` for each byte of it that was not UTF-8.

    Raises:
        UsageError: It is empty.
    """
    from ragweave.state.passages import whole

    if not question.strip():
        raise UsageError("the question is empty")
    return whole(question)


def method_graph(
    name: str, models: dict[str, Any], k: int | None, texts: list[str], retriever: Any
) -> CompiledGraph:
    """Return the graph of a method, with the options that a command was given.

    Raises:
        UsageError: A name or an option is unknown, or a model cannot be opened.
    """
    from ragweave.graphs.build import build_graph, method_named
    from ragweave.graphs.method import parse_options
    from ragweave.graphs.registry import arguments_for

    settings = parse_options(options.with_k(texts, k), method_named(name))
    try:
        return build_graph(name, retriever=retriever, **arguments_for(name, models), **settings)
    except ModelError as error:
        raise UsageError(str(error)) from error


def served_graph(
    name: str,
    models: dict[str, Any],
    k: int | None,
    texts: list[str],
    retriever: Any,
    *,
    beside: Sequence[str] = (),
) -> CompiledGraph:
    """Return a method's graph as `method_graph` does, for questions that are yet to come.

    Args:
        name: The method.
        models: Models by `build_graph`'s arguments, and a second retriever.
        k: Passages per query; None: the method's own number.
        texts: `name=value` options.
        retriever: What it searches.
        beside: Methods that are given the same options, each those that it has.

    Raises:
        UsageError: As there, or some of them would find nothing to retrieve from.
    """
    graph = method_graph(name, models, k, options.for_method(texts, name, beside), retriever)
    options.check_retriever(graph, retriever)
    return graph


def compare(
    question: Question,
    methods: options.Methods = options.METHODS,
    kb: options.Kb = None,
    model: options.Model = "extractive",
    proxy: options.Proxy = None,
    judge: options.Judge = None,
    rewriter: options.Rewriter = None,
    filter_model: options.FilterModel = None,
    retriever: options.Retriever = "auto",
    rerank: options.Rerank = "",
    second_retriever: options.SecondRetriever = "",
    k: options.K = None,
    option: options.OptionTexts = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask several methods one question: answers, sources, calls and tokens side by side.

    One after another, so that the seconds are each method's own. Where one fails its row says why,
    and the command ends with exit code 1.
    """
    import asyncio
    import json as json_

    from ragweave.cli.screen import loading

    question = _readable(question)
    with loading():
        from ragweave.evaluation.runs import parse_systems
        from ragweave.graphs.build import build_graph
        from ragweave.graphs.registry import arguments_for
        from ragweave.tools.warm_up import warm_up

        models, texts = options.read_models(model, proxy, judge, rewriter, filter_model, option)
        texts = options.with_k(texts, k)
        systems = parse_systems(methods, options.shared_options(texts, methods))
        found = options.open_retriever(kb, retriever, rerank, k)
        again = options.second_retriever(second_retriever, kb, {one.method for one in systems})
        shared = {**again, **options.opened(models)}
        graphs = [
            build_graph(
                one.method,
                retriever=found,
                **arguments_for(one.method, shared),
                **one.options,
            )
            for one in systems
        ]
        warm_up([found, *shared.values()])  # else the first method's seconds would hold it
    results = asyncio.run(_ask_all(question, systems, graphs))
    if json:
        typer.echo(json_.dumps(results, ensure_ascii=False, indent=2, default=str))
    else:
        _show(question, results)
    if any("error" in one for one in results):
        raise typer.Exit(1)


async def _ask_all(
    question: str, systems: Sequence[System], graphs: Sequence[CompiledGraph]
) -> list[dict[str, Any]]:
    from ragweave.cli.screen import marked_up, progress_console

    results = []
    for number, (one, graph) in enumerate(zip(systems, graphs, strict=True), 1):
        with progress_console().status(f"{marked_up(one.label)} ({number} of {len(systems)}) …"):
            results.append(await _ask(question, one, graph))
    return results


async def _ask(question: str, system: System, graph: CompiledGraph) -> dict[str, Any]:
    from ragweave.cli.show import without_documents

    started = time.perf_counter()
    state: Mapping[str, Any] = {}
    try:
        async for values in graph.astream({"question": question}, stream_mode="values"):
            state = values
    except Exception as error:  # noqa: BLE001 - what the other methods answer is shown all the same
        seconds = round(time.perf_counter() - started, 3)
        failed = {"method": system.label, "answer": None, "status": "failed"}
        return {**failed, "error": _reason(error), "seconds": seconds}
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
        "without_documents": without_documents(state["notes"]),
        "seconds": round(time.perf_counter() - started, 3),
    }


def _reason(error: Exception) -> str:
    """Return one line on what failed; an error that nobody expects goes to the log whole."""
    from ragweave.cli.screen import told
    from ragweave.tools.text.plain import plain
    from ragweave.tools.text.secrets import without_secrets

    said = told(error)
    if said is None:
        _LOG.error("a method failed", exc_info=error)
        said = f"{type(error).__name__}: {error}"
    return plain(without_secrets(" ".join(said.split())))


def _show(question: str, results: Sequence[Mapping[str, Any]]) -> None:
    from ragweave.cli.screen import show_tables
    from ragweave.evaluation.report import Table

    rows = [[one["method"], *_cells(one), f"{one['seconds']:.2f}"] for one in results]
    head = ["method", "answer", "sources", "calls", "tokens in + out", "seconds"]
    remarks = [
        f"{one['method']}: {said}" for one in results if (said := one.get("without_documents"))
    ]
    if any(one.get("estimated") for one in results):
        remarks.append("Token counts are estimated from characters.")
    show_tables([Table(question, head, rows, remarks)])


def _cells(one: Mapping[str, Any]) -> list[str]:
    """Return a method's answer, sources, calls and tokens as a table shows them."""
    if "error" in one:
        return [f"failed: {one['error']}", "", "", ""]
    sources = "; ".join(dict.fromkeys(one["sources"]))
    tokens = f"{one['input_tokens']} + {one['output_tokens']}"
    return [one["answer"], sources, str(one["calls"]), tokens]
