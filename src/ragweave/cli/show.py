"""A run on the terminal: the answer with its quotes, the sources, the steps, the cost."""

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

from ragweave.cli.screen import console, plain_line
from ragweave.graphs.watch import Watch, WatchedStep, cost_line, counted
from ragweave.state import Citation
from ragweave.tools.footnotes import MEANING, described, footnotes, path_of, with_marks
from ragweave.tools.text.untrusted import plain
from ragweave.tools.text.words import normalize_answer

_MESSAGES = {
    "passages_dropped": "Some passages did not fit the model's context and were left out.",
    "passages_trimmed": "Some passages did not fit the token budget and were left out.",
    "empty_reply": "The model gave an empty reply.",
    "input_cut": "The server read only a part of a prompt: raise its context, or set -o prompt_tokens.",
    "content_filtered": "The provider's content filter stopped a reply.",
    "reply_limit_reached": "A reply was cut at its limit (-o reply_tokens).",
    "reply_broken_off": "A model's provider broke off a reply; the model was asked again.",
    "ending_unknown": "The server does not say how its replies end: one may be cut.",
    "prompt_echoed": "The model repeated the prompt; only what follows it was read.",
    "tool_not_offered": "The model called a tool that it was not offered.",
    "answer_long": "The answer is long for a question that asks for a short one.",
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


def tree(steps: Iterable[WatchedStep]) -> Tree:
    """Return the steps of a run: seconds, calls, tokens, result and notes."""
    root = Tree("run")
    for step in steps:
        branch = root.add(_text(step_line(step)))
        for note in step.notes:
            branch.add(_text(f"{note['event']} {json.dumps(note['detail'], default=str)}"))
    return root


def step_line(step: WatchedStep) -> str:
    """Return a step on one line."""
    text = f"{step.name}  {step.seconds * 1000:.0f} ms"
    if step.calls:
        text += f"  {counted(step.calls, 'call')}, {step.input_tokens} + {step.output_tokens} tokens"
    if step.error:
        return f"{text}  ✗ {step.error}"
    return f"{text}  → {step.result}" if step.result else text


def show_result(result: Mapping[str, Any], watch: Watch, *, trace: bool) -> None:
    """Print an answer, its quotes and sources, and what it cost."""
    screen = console()
    if trace:
        screen.print(tree(watch.steps))
    show_answer(screen, result, watch, lead="Answer: ")
    show_sources(screen, result)
    screen.print(Text(cost_line(result["usage"], sum(step.seconds for step in watch.steps if not step.inside)), "dim"))


def show_answer(screen: Console, result: Mapping[str, Any], watch: Watch, lead: str = "") -> None:
    """Print an answer with its quotes and remarks on how it came about.

    An answer that was streamed is not printed again, unless it needs several marks.
    """
    cited: list[Citation] = result["citations"]
    if cited[1:] or normalize_answer(watch.streamed) != normalize_answer(result["answer"]):
        answer = Text(lead, "bold").append(plain(with_marks(result["answer"], cited)), "not bold")
        screen.print(answer, soft_wrap=not screen.is_terminal)
    _show_quotes(screen, cited, result["passages"])
    for remark in _remarks(result, watch):
        screen.print(Text(remark, "yellow"))


def _remarks(result: Mapping[str, Any], watch: Watch) -> Iterator[str]:
    if not result["passages"] and result["status"] == "answered":
        yield "Answered without your documents."
    elif not result["passages"]:
        searched = result["usage"]["retrievals"]
        yield "No passage answers the question." if searched else "Your documents were not searched."
    events = dict.fromkeys(note["event"] for note in watch.notes)
    yield from (_MESSAGES[event] for event in events if event in _MESSAGES)
    if result["truncated"]:
        yield "A limit stopped the method before it was done."


def _show_quotes(screen: Console, citations: Sequence[Citation], passages: Sequence[Document]) -> None:
    for note in footnotes(citations, passages):
        where = _where(note.passage)
        _hang(screen, f" [{note.number}] ", f"“{note.quote['text']}”" + (f" ({where})" if where else ""))
    if any(citation["quotes"] for citation in citations):
        screen.print(Text(f" {MEANING}", "dim"), soft_wrap=not screen.is_terminal)
    if citations and not all(citation["quotes"] for citation in citations):
        screen.print(Text(" [?] no passage supports this", "yellow"))


def show_sources(screen: Console, result: Mapping[str, Any]) -> None:
    """Print the passages of a result, with the numbers of their quotes; those that gave the answer are marked."""
    if not result["passages"]:
        return
    used = _used(result)
    marked = 0 < len(used) < len(result["passages"])
    screen.print(Text("Sources", "bold").append(" (✓ gave this answer)" if marked else "", "not bold"))
    notes = footnotes(result["citations"], ())
    for doc in result["passages"]:
        mark = "✓" if marked and doc.id in used else " "
        numbers = "".join(f"[{note.number}]" for note in notes if note.quote["passage"] == doc.id)
        _hang(screen, f" {mark} {numbers or '-'} ", place_line(doc))


def place_line(doc: Document) -> str:
    """Return where a passage comes from and how it begins."""
    text = " ".join(re.sub(r"\A(#+ .*\n+)+", "", doc.page_content).split())
    start = text if len(text) <= 80 else text[:79] + "…"
    return " — ".join(filter(None, [_where(doc), start]))


def _where(doc: Document) -> str:
    path = path_of(doc)
    return ", ".join(filter(None, [described(doc, _relative), path and f"found by {path}"]))


def _used(result: Mapping[str, Any]) -> set[str]:
    """Return the ids of the passages of the candidates that gave the answer."""
    if result["status"] != "answered":
        return set()
    answer = normalize_answer(result["answer"])
    return {
        passage
        for candidate in result["candidates"].values()
        if normalize_answer(candidate["answer"]) == answer
        for passage in candidate["passages"]
    }


def _relative(source: str) -> str:
    """Return a path below the current folder as a relative one."""
    return source.removeprefix(str(Path.cwd()) + os.sep)


def _hang(screen: Console, lead: str, text: str) -> None:
    """Print a line; on a terminal, wrapped with a hanging indent as wide as its lead."""
    if not screen.is_terminal:
        screen.print(_text(lead + plain_line(text)), soft_wrap=True)
        return
    for line in _text(text).wrap(screen, max(screen.width - len(lead), 20)):
        screen.print(Text(lead).append(line), soft_wrap=True)
        lead = " " * len(lead)


def _text(text: str) -> Text:
    """Return untrusted text without terminal control characters."""
    return Text(plain(text))
