"""A run as one HTML page: the path through the graph, and each step's prompts, replies and passages.

    watch = Watch()
    await watch.follow(graph, {"question": question})
    Path("run.html").write_text(trace_page(graph, question, watch), "utf-8")

The page has no script and loads nothing. Every text of the run is untrusted and escaped.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from langchain_core.documents import Document

from ragweave.graphs.base import MethodGraph
from ragweave.graphs.watch import Watch, WatchedCall, WatchedSearch, WatchedStep, cost_line, counted
from ragweave.state import Citation, Quote
from ragweave.tools.drawing import draw_svg, edges_of
from ragweave.tools.footnotes import MEANING, Footnote, cited_html, footnotes, html_page, label_of, page_html, path_of
from ragweave.tools.text.words import normalize_answer

Evidence = Callable[[Quote], Any] | None
_STYLE = Path(__file__).with_suffix(".css").read_text("utf-8")


def trace_page(graph: MethodGraph, question: str, watch: Watch, evidence: Evidence = None) -> str:
    """Return the page of a run that `watch` has followed, even of one that failed midway.

    By `evidence`, a knowledge base's or a retriever's, each quote has the picture of its page.
    """
    method, out = str(graph.get_name()), watch.output
    drawn = graph.get_graph()
    links = {step.node: f"#{_anchor(step.node)}" for step in watch.steps if not step.inside}
    drawing = draw_svg(drawn, title=f"The path through {method}", taken=watch.taken(edges_of(drawn)), links=links)
    opened, first = answering_step(watch), {step.name: step for step in reversed(watch.steps)}
    anchors = [_anchor(step.name) if first[step.name] is step else "" for step in watch.steps]
    steps = [_step(step, anchor, step is opened) for step, anchor in zip(watch.steps, anchors, strict=True)]
    citations = out.get("citations") or []
    seconds = sum(step.seconds for step in watch.steps if not step.inside)
    body = [
        f"<h1>{escape(question)}</h1>",
        _answer(watch, citations),
        f'<p class="dim">{escape(method)} · {escape(cost_line(out["usage"], seconds) if out.get("answer") else "")}</p>',
        _cited_passages(citations, out.get("passages") or [], evidence),
        f'<div class="run">\n<div class="picture">{drawing}</div>\n<div class="steps"><h2>Steps</h2>',
        *steps,
        "</div>\n</div>",
    ]
    return html_page(f"{method}: {question}", _STYLE, "\n".join(body))


def answering_step(watch: Watch) -> WatchedStep | None:
    """Return the step that a reader wants to see first: the one that failed, or whose model gave the answer."""
    if not watch.output.get("answer"):
        return next((step for step in watch.steps if step.error), None)
    answer = normalize_answer(watch.output["answer"])
    asking = [step for step in watch.steps if any(call.role in ("generator", "") for call in step.asked)]
    giving = [step for step in asking if answer in map(normalize_answer, step.result.split("; "))] or asking
    last = max((step.superstep for step in giving), default=0)
    return next((step for step in giving if step.superstep == last), None)


def _answer(watch: Watch, citations: Sequence[Citation]) -> str:
    """Return the answer with links to its quotes; parts that nothing supports are marked."""
    out = watch.output
    if not out.get("answer"):
        errors = [step.error for step in watch.steps if step.error]
        return (
            f'<p class="answer failed">The run did not finish: {escape(errors[0] if errors else "it was stopped")}</p>'
        )
    kind = "answer unknown" if out["status"] == "unknown" else "answer"
    return f'<p class="{kind}">{cited_html(out["answer"], citations, footnotes(citations, ()))}</p>'


def _cited_passages(citations: Sequence[Citation], passages: Sequence[Document], evidence: Evidence) -> str:
    """Return the cited passages with their quotes marked and numbered; empty without any."""
    notes = footnotes(citations, passages)
    cited = [doc for doc in passages if any(note.quote["passage"] == doc.id for note in notes)]
    blocks = "\n".join(
        _marked(doc, [note for note in notes if note.quote["passage"] == doc.id], evidence) for doc in cited
    )
    meaning = f'<p class="dim">{MEANING}</p>'
    return f"<details open><summary><b>Citations</b></summary>\n{meaning}\n{blocks}\n</details>" if cited else ""


def _marked(doc: Document, notes: Sequence[Footnote], evidence: Evidence) -> str:
    text, pieces, done = doc.page_content, list[str](), 0
    for note in sorted(notes, key=lambda note: note.quote["start"]):
        start, end = max(done, note.quote["start"]), note.quote["end"]
        page = note.quote["page"]
        label = f"{note.number}, page {page}" if page else note.number
        mark = f'<mark id="quote-{note.number}"><b>{label}</b> {escape(text[start:end])}</mark>'
        pieces += [escape(text[done:start]), mark]
        done = max(done, end)
    pictures = "".join(page_html(note.quote, evidence) for note in notes)
    return _block(doc, "".join([*pieces, escape(text[done:])])) + pictures


def _block(doc: Document, body: str, score: Any = None) -> str:
    source = escape(str(doc.metadata.get("source") or ""))
    more = escape(path_of(doc)), f"score {score:.3g}" if isinstance(score, float) else ""
    head = " · ".join(filter(None, [f'<b title="{source}">{escape(label_of(doc))}</b>', *more]))
    return f'<div class="role">{head}</div><pre class="passage">{body}</pre>'


def _step(step: WatchedStep, anchor: str, opened: bool) -> str:
    parts = [
        *map(_asked, step.asked),
        *map(_searched, step.searched),
        *(_passages(key, docs) for key, docs in step.passages.items()),
        *map(_note, step.notes),
    ]
    result = f"✗ {step.error}" if step.error else step.result and f"→ {step.result}"
    took = f"{step.seconds:.1f} s" if step.seconds >= 1 else f"{step.seconds * 1000:.0f} ms"
    tokens = (
        f"{counted(step.calls, 'call')} · {step.input_tokens} + {step.output_tokens} tokens · " if step.calls else ""
    )
    head = (
        f'<summary><b>{escape(step.name)}</b> <span class="result">{escape(result)}</span> '
        f'<span class="spent">{tokens}{took}</span></summary>'
    )
    body = "\n".join(parts) or '<p class="dim">Nothing was asked or searched here.</p>'
    return f'<details id="{anchor}"{" open" if opened else ""}>{head}\n{body}\n</details>'


def _anchor(node: str) -> str:
    return "node-" + "".join(char if char.isalnum() else "-" for char in node)


def _asked(asked: WatchedCall) -> str:
    prompt = "".join(
        f'<div class="role">{escape(message["role"])}</div><pre>{escape(message["text"])}</pre>'
        for message in asked.prompt
    )
    return (
        f'<div class="role">asked: {escape(" · ".join(filter(None, [asked.role, asked.model])) or "model")}</div>'
        f"<details><summary>prompt</summary>{prompt}</details>"
        f'<div class="role">reply</div><pre class="reply{" error" if asked.error else ""}">'
        f"{escape(asked.reply or asked.error)}</pre>"
    )


def _searched(searched: WatchedSearch) -> str:
    end = searched.error or counted(searched.passages, "passage")
    return f'<div class="role">searched: {escape(searched.query)} → {escape(end)}</div>'


def _passages(key: str, docs: Sequence[Document]) -> str:
    blocks = "".join(_block(doc, escape(doc.page_content), doc.metadata.get("score")) for doc in docs)
    return f"<details><summary>{escape(f'{key} ({len(docs)})')}</summary>{blocks}</details>"


def _note(note: Mapping[str, Any]) -> str:
    detail = json.dumps(note["detail"], ensure_ascii=False, default=str)
    return f'<p class="dim">note: {escape(note["event"])} {escape(detail)}</p>'
