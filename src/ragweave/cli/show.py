"""A run on the terminal: its answer, quotes, sources and cost, and its steps as a tree."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from ragweave.cli.screen import console, counted, one_line
from ragweave.cli.watch import Step, Watch
from ragweave.state import Citation
from ragweave.state.passages import heading_of
from ragweave.tools.footnotes import described, footnotes, path_of, with_marks
from ragweave.tools.text.untrusted import plain
from ragweave.tools.text.words import normalize_answer

_MESSAGES = {
    "passages_dropped": "Some passages did not fit the model's context and were left out.",
    "passages_trimmed": "Some passages did not fit the token budget and were left out.",
    "empty_reply": "The model gave an empty reply.",
    "input_cut": "The server read only a part of a prompt: raise its context, or set -o prompt_tokens.",
    "content_filtered": "The provider's content filter stopped a reply.",
    "reply_limit_reached": "A reply was cut at its limit (-o reply_tokens).",
    "reply_unreadable": "A reply could not be read; the method took its fallback.",
    "budget_spent": "The budget was spent before all sections were written.",
    "context_insufficient": "The passages were rated insufficient for an answer.",
    "filter_kept_nothing": "The filter kept no passage.",
    "nothing_left": "No passage was left to answer from.",
    "proxy_failed": "The proxy failed; the question itself was used as the query.",
    "search_repeated": "The model repeated a search; it was not run again.",
    "setting_refused": "The model's server refused a setting; it was left out.",
}
"""What a reader of an answer should know, by the note's event."""


def tree(steps: Iterable[Step]) -> Tree:
    """Return the steps of a run: seconds, calls, tokens, result and notes."""
    root = Tree("run")
    for step in steps:
        branch = root.add(_text(step_line(step)))
        for note in step.notes:
            branch.add(_text(f"{note['event']} {json.dumps(note['detail'], default=str)}"))
    return root


def step_line(step: Step) -> str:
    """Return a step on one line."""
    text = f"{step.name}  {step.seconds * 1000:.0f} ms"
    if step.calls:
        text += f"  {counted(step.calls, 'call')}, {step.input_tokens} + {step.output_tokens} tokens"
    if step.error:
        return f"{text}  ✗ {step.error}"
    return f"{text}  → {step.found}" if step.found else text


def show_result(result: Mapping[str, Any], watch: Watch, *, trace: bool) -> None:
    """Print an answer, its quotes and sources, and what it cost."""
    screen = console()
    if trace:
        screen.print(tree(watch.steps))
    show_answer(screen, result, watch, lead="Answer: ")
    show_sources(screen, result)
    screen.print(Text(cost_line(result["usage"], sum(step.seconds for step in watch.steps if not step.inside)), "dim"))


def show_answer(screen: Console, result: Mapping[str, Any], watch: Watch, lead: str = "") -> None:
    """Print an answer with its quotes, and what its reader should know of how it came about.

    A reply that was streamed and is the answer is not printed again, unless several marks belong into it.
    """
    cited: list[Citation] = result["citations"]
    if cited[1:] or normalize_answer(watch.streamed) != normalize_answer(result["answer"]):
        answer = Text(lead, "bold").append(plain(with_marks(result["answer"], cited)), "not bold")
        screen.print(answer, soft_wrap=not screen.is_terminal)
    _show_quotes(screen, cited, result["passages"])
    for remark in _remarks(result, watch):
        screen.print(Text(remark, "yellow"))


def _remarks(result: Mapping[str, Any], watch: Watch) -> Iterator[str]:
    if not result["passages"] and result["usage"]["retrievals"] and result["status"] == "unknown":
        yield "No passage answers the question."
    elif not result["passages"]:
        yield f"{'Answered' if result['status'] == 'answered' else 'Unknown'} without your documents."
    yield from (_MESSAGES[one] for one in dict.fromkeys(note["event"] for note in watch.notes) if one in _MESSAGES)
    if result["truncated"]:
        yield "A limit on rounds stopped the method before it was done."


def _show_quotes(screen: Console, citations: Sequence[Citation], passages: Sequence[Document]) -> None:
    for one in footnotes(citations, passages):
        path = one.path and f"found by {one.path}"
        where = ", ".join(filter(None, [described(one.heading, _near(one.source), one.page, one.line), path]))
        _hang(screen, f" [{one.number}] ", f"“{one.quote['text']}”" + (f" ({where})" if where else ""))
    if citations and not all(one["quotes"] for one in citations):
        screen.print(Text(" [?] no passage supports this", "yellow"))


def show_sources(screen: Console, result: Mapping[str, Any]) -> None:
    """Print the passages of a result, those marked that gave the answer."""
    if not result["passages"]:
        return
    used = _behind_answer(result)
    some = 0 < len(used) < len(result["passages"])
    screen.print(Text("Sources", "bold").append(" (✓ gave this answer)" if some else "", "not bold"))
    for number, doc in enumerate(result["passages"], start=1):
        mark = "✓" if some and doc.id in used else " "
        _hang(screen, f" {mark} {number}. ", place_line(doc))


def place_line(doc: Document) -> str:
    """Return where a passage comes from, and how it begins."""
    meta = doc.metadata
    where = described(heading_of(meta), _near(str(meta.get("source") or "")), meta.get("page"), meta.get("line"))
    text = " ".join(re.sub(r"\A(#+ .*\n+)+", "", doc.page_content).split())
    start = text if len(text) <= 80 else text[:79] + "…"
    path = path_of(doc)
    return " — ".join(filter(None, [", ".join(filter(None, [where, path and f"found by {path}"])), start]))


def _behind_answer(result: Mapping[str, Any]) -> set[str]:
    """Return the ids of the passages behind the candidates that gave the answer."""
    answer = normalize_answer(result["answer"])
    agreeing = (one for one in result["candidates"].values() if normalize_answer(one["answer"]) == answer)
    return {passage for one in agreeing for passage in one["passages"]} if result["status"] == "answered" else set()


def _near(source: str) -> str:
    """Return a path below the current folder as a relative one."""
    return source.removeprefix(str(Path.cwd()) + os.sep)


def _hang(screen: Console, lead: str, text: str) -> None:
    """Print a line; on a terminal, wrapped behind its lead."""
    if not screen.is_terminal:
        screen.print(_text(lead + one_line(text)), soft_wrap=True)
        return
    for line in _text(text).wrap(screen, max(screen.width - len(lead), 20)):
        screen.print(Text(lead).append(line), soft_wrap=True)
        lead = " " * len(lead)


def _text(text: str) -> Text:
    """Return untrusted text, without what could steer a terminal."""
    return Text(plain(text))


def cost_line(usage: Mapping[str, Any], seconds: float) -> str:
    """Return what a run cost: calls, tokens, searches, dollars if the price is known, seconds of work."""
    about = "about " if usage["estimated"] else ""
    some = usage.get("priced_calls", 0) < usage["calls"]
    dollars = f"${usage.get('usd', 0):.2g}" + (f" for {usage.get('priced_calls')} of them" if some else "")
    tokens = f"{about}{usage['input_tokens']} tokens in, {usage['output_tokens']} out"
    spent = [counted(usage["calls"], "call"), tokens, counted(usage["retrievals"], "search")]
    return " · ".join([*spent, *([dollars] if "usd" in usage else []), f"{seconds:.1f} s"])
