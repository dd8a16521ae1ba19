"""A run on the terminal: its answer, sources and cost, and the path it took as a tree."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from rich.markup import escape

from ragweave.cli.record import StepRecord, run_steps
from ragweave.cli.screen import console, marked_up
from ragweave.cli.watch import Watch
from ragweave.state import Citation, Note
from ragweave.state.passages import heading_of
from ragweave.tools.footnotes import footnotes, with_marks
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.plain import plain


def tree(steps: Iterable[StepRecord]) -> Any:
    """Return a rich tree of a run's steps: times, calls, tokens, what each led to, its notes."""
    from rich.tree import Tree

    root = Tree("run")
    for step in steps:
        branch = root.add(marked_up(line(step)))
        for note in step["notes"]:
            branch.add(marked_up(f"{note['event']} {json.dumps(note['detail'], default=str)}"))
    return root


def line(step: StepRecord) -> str:
    """Return a step in one line."""
    text = f"{step['node']}  {step['seconds'] * 1000:.0f} ms"
    if step["calls"]:
        calls = f"{step['calls']} call{'' if step['calls'] == 1 else 's'}"
        text += f"  {calls}, {step['input_tokens']} + {step['output_tokens']} tokens"
    if step["error"]:
        return f"{text}  ✗ {step['error']}"
    return f"{text}  → {step['found']}" if step["found"] else text


def show_result(result: Mapping[str, Any], watch: Watch, *, trace: bool) -> None:
    """Print the answer, its sources and what it cost."""
    screen = console()
    if trace:
        screen.print(tree(run_steps(watch)))
    cited: list[Citation] = result.get("citations") or []
    answer = with_marks(result["answer"], cited)
    screen.print(f"[bold]Answer:[/bold] {escape(plain(answer))}", soft_wrap=True)
    show_footnotes(screen, cited, result["passages"])
    show_warnings(screen, result, watch)
    show_sources(screen, result)
    screen.print(_cost(result, watch), style="dim")


def show_warnings(screen: Any, result: Mapping[str, Any], watch: Watch) -> None:
    """Print what a reader of the answer should know of how it came about."""
    for event in dict.fromkeys(note["event"] for note in watch.notes):
        if event in _MESSAGES:
            screen.print(_MESSAGES[event], style="yellow")
    if unread := without_documents(watch.notes):
        screen.print(unread, style="yellow")
    if result["truncated"]:
        screen.print("A limit on rounds stopped the method before it was done.", style="yellow")


_UNREAD = {
    "answered_without_documents": "Answered without your documents: {why}",
    "unknown_without_documents": "Unknown, and none of your documents was read: {why}",
}


def without_documents(notes: Iterable[Note]) -> str:
    """Return the line that says that a run read no document, and why; "" where it read any."""
    for one in notes:
        if one["event"] in _UNREAD:
            return _UNREAD[one["event"]].format(**one["detail"])
    return ""


def show_footnotes(
    screen: Any, citations: Sequence[Citation], passages: Sequence[Document]
) -> None:
    """Print the quotes behind an answer's marks, and what an unsupported part is."""
    for one in footnotes(citations, passages):
        where = " — ".join(part for part in (one.title, _near(one.source)) if part)
        quote = f"“{one.quote['text']}”"
        line = marked_up(f"[{one.number}] {quote}" + (f" ({where})" if where else ""))
        screen.print(f" {line}", soft_wrap=True)
    if any(not one["quotes"] for one in citations):
        screen.print(r" \[?] no passage supports this", style="yellow")


_MESSAGES = {
    "no_passages_found": "No passage of the knowledge base matches the question.",
    "passages_dropped": "Some passages did not fit the model's context and were left out.",
    "budget_unfilled": "The passages found leave room in the token budget (option k).",
    "empty_reply": "The model gave an empty reply.",
    "input_cut": "An input was longer than a model reads; a part of it was left out.",
    "reply_cut": "A reply was too long to read in full; only its beginning and end were read.",
    "answer_rejected": "A reply was rejected: it echoed the prompt or drew no conclusion.",
    "search_repeated": "The model repeated a search; it was not run again.",
    "no_progress": "Two replies in a row brought no new search; the passages found were read.",
    "filter_unparsed": "A filter's reply named no passage; all passages were kept.",
    "asked_again": "A reply that was not an answer was asked for again.",
    "answered_before_search": "The model answered before it searched; the question was searched.",
    "reply_limit_reached": "A reply was cut at its limit (option reply_tokens, or the step's).",
    "restate_unread": "The follow-up could not be restated; it was taken as it is.",
    "restate_unable": "The model cannot restate follow-ups (--proxy); it was taken as it is.",
    "restate_no_room": "The conversation did not fit the prompt; the question was taken as it is.",
    "passages_given_by_graph": "Passages of an earlier run were given; nothing was retrieved.",
    "filter_by_claim": "The gold answer is a verdict; sentences were compared with the claim.",
    "filter_kept_nothing": "The filter kept no passage.",
    "proxy_failed": "The proxy failed; the question itself was used as the query.",
    "scorer_missing": "There is no scorer for CXMI; sentences were chosen by shared words.",
}


def show_sources(screen: Any, result: Mapping[str, Any]) -> None:
    """Print the passages of a result, those marked that gave the answer."""
    if not result["passages"]:
        return
    used = _behind_answer(result)
    some = 0 < len(used) < len(result["passages"])
    screen.print("[bold]Sources[/bold]" + (" (✓ gave this answer)" if some else ""))
    for number, doc in enumerate(result["passages"], start=1):
        mark = "✓" if some and doc.id in used else " "
        screen.print(f" {mark} {number}. {marked_up(_place(doc))}", soft_wrap=True)


def _behind_answer(result: Mapping[str, Any]) -> set[str]:
    """Return the ids of the passages behind the candidates that gave the answer."""
    if result["status"] != "answered":
        return set()
    answer = normalize_answer(result["answer"])
    return {
        passage
        for one in result["candidates"].values()
        if normalize_answer(one["answer"]) == answer
        for passage in one["passages"]
    }


def _place(doc: Document) -> str:
    title = heading_of(doc.metadata)
    source = _near(str(doc.metadata.get("source") or ""))
    marks = (f"{name} {doc.metadata[name]}" for name in ("page", "line") if doc.metadata.get(name))
    where = ", ".join(part for part in (source, *marks) if part)
    text = " ".join(doc.page_content.split())
    start = text if len(text) <= 80 else text[:79] + "…"
    return " — ".join(part for part in (title, where, start) if part)


def _near(source: str) -> str:
    """Return a path below the current folder as a relative one."""
    here = str(Path.cwd()) + os.sep
    return source.removeprefix(here)


def _cost(result: Mapping[str, Any], watch: Watch) -> str:
    usage = result["usage"]
    calls = usage["calls"]
    about = "about " if usage["estimated"] else ""
    seconds = sum(visit.seconds for visit in watch.visits)
    parts = [
        f"{calls} call{'' if calls == 1 else 's'}",
        f"{about}{usage['input_tokens']} tokens in, {usage['output_tokens']} out",
        f"{usage['retrievals']} retrieval{'' if usage['retrievals'] == 1 else 's'}",
    ]
    if looks := usage.get("look_searches"):
        parts += [f"{looks} search{'' if looks == 1 else 'es'} of a first look"]
    parts += [dollars(usage)] if "usd" in usage else []
    return " · ".join([*parts, f"{seconds:.1f} s of work"])


def dollars(usage: Mapping[str, Any]) -> str:
    """Return what the priced calls cost, and how many that were where some have no price."""
    some = usage["priced_calls"] < usage["calls"]
    part = f" for {usage['priced_calls']} of {usage['calls']} calls" if some else ""
    return f"${usage['usd']:.2g}{part}"
