"""A run as its user sees it: on the terminal, or as one HTML page with each step's prompts, replies and passages.

The page has no script and loads nothing. Every text of the run is untrusted and escaped.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from ragweave.cli.screen import console, counted, one_line
from ragweave.cli.watch import Asked, Searched, Step, Watch
from ragweave.graphs import MethodGraph
from ragweave.state import Citation
from ragweave.tools.drawing import draw_svg, edges_of
from ragweave.tools.footnotes import (
    Footnote,
    cited_html,
    described,
    footnotes,
    html_page,
    label_of,
    path_of,
    with_marks,
)
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
        where = _where(one.passage)
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
    text = " ".join(re.sub(r"\A(#+ .*\n+)+", "", doc.page_content).split())
    start = text if len(text) <= 80 else text[:79] + "…"
    return " — ".join(filter(None, [_where(doc), start]))


def _where(doc: Document) -> str:
    path = path_of(doc)
    return ", ".join(filter(None, [described(doc, _near), path and f"found by {path}"]))


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


# ---- the page

_STYLE = """\
:root{--good:light-dark(#eef6ea,#1d2a1c);--good-line:light-dark(#6f8a5a,#7f9f68);--bad:light-dark(#fbeaea,#331d1f);
--mark:light-dark(#ffe9a8,#5d4a12)}
.role{color:var(--dim);font-size:13px}
details{border:1px solid var(--rule);border-radius:8px;margin:6px 0;padding:0 12px}
details details{background:var(--paper)}
details:target{border-color:var(--warm-line);box-shadow:0 0 0 2px var(--warm)}
.steps>details>summary{display:flex;flex-wrap:wrap;gap:0 10px;align-items:baseline}
.steps>details>summary::before{content:"▸";color:var(--dim)}.steps>details[open]>summary::before{content:"▾"}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--panel);border-radius:6px;
padding:9px 11px;margin:5px 0 10px;font:13px/1.5 ui-monospace,monospace}
.answer{font-size:18px;padding:10px 14px;background:var(--good);white-space:pre-wrap;
border-left:4px solid var(--good-line);border-radius:0 8px 8px 0;margin:12px 0}
.unknown{background:var(--warm);border-color:var(--warm-line)}.failed{background:var(--bad);border-color:var(--bad-line)}
.run{display:flex;gap:28px;align-items:flex-start;flex-wrap:wrap}.steps{flex:1 1 480px;min-width:0}
.picture{overflow:auto;max-width:100%;max-height:calc(100vh - 24px);position:sticky;top:12px}
.found{flex:1 1 12em;min-width:0}.spent{color:var(--dim);font-size:13px;margin-left:auto}
mark{background:var(--mark);color:inherit;padding:1px 2px;border-radius:3px}
mark b{font-size:11px;vertical-align:super}
.passage{font:14px/1.55 system-ui,sans-serif}.reply{background:var(--warm)}.error{color:var(--bad-line)}
.picture .rw>rect{fill:none}.picture .rw text{fill:var(--ink)}
.picture .rw .box rect{fill:light-dark(#eef1fb,#232b3d);stroke:light-dark(#6b7db8,#7c8fcd)}
.picture .rw .end rect{fill:var(--good);stroke:var(--good-line)}
.picture .rw .line{stroke:var(--dim)}.picture .rw .head{fill:var(--dim)}
.picture .rw .label{fill:var(--dim);stroke:var(--paper)}
.picture .rw .on rect{fill:light-dark(#ffe3b8,#4b3816);stroke:var(--warm-line)}
.picture .rw .line.on{stroke:var(--warm-line)}
@media (max-width:760px){body{padding:16px}.run{gap:8px}.picture{position:static;max-height:none;margin:0 auto}
.steps{flex-basis:100%}.spent{margin-left:0;flex-basis:100%;padding-left:19px}}
"""


def trace_page(graph: MethodGraph, question: str, watch: Watch) -> str:
    """Return the page of a run that `watch` has followed, even of one that failed midway."""
    method, out = str(graph.get_name()), watch.output
    drawn = graph.get_graph()
    links = {step.node: f"#{_anchor(step.node)}" for step in watch.steps if not step.inside}
    picture = draw_svg(drawn, title=f"The path through {method}", taken=watch.taken(edges_of(drawn)), links=links)
    opened, first = answering_step(watch), {step.name: step for step in reversed(watch.steps)}
    anchors = ["" if first[step.name] is not step else _anchor(step.name) for step in watch.steps]
    steps = [_step(step, anchor, step is opened) for step, anchor in zip(watch.steps, anchors, strict=True)]
    citations = out.get("citations") or []
    seconds = sum(step.seconds for step in watch.steps if not step.inside)
    body = [
        f"<h1>{escape(question)}</h1>",
        _answer(watch, citations),
        f'<p class="dim">{escape(method)} · {escape(cost_line(out["usage"], seconds) if out.get("answer") else "")}</p>',
        _cited_passages(citations, out.get("passages") or []),
        f'<div class="run">\n<div class="picture">{picture}</div>\n<div class="steps"><h2>Steps</h2>',
        *steps,
        "</div>\n</div>",
    ]
    return html_page(f"{method}: {question}", _STYLE, "\n".join(body))


def answering_step(watch: Watch) -> Step | None:
    """Return the step that a reader wants first: the one that failed, or whose model gave the answer."""
    if not watch.output.get("answer"):
        return next((step for step in watch.steps if step.error), None)
    answer = normalize_answer(watch.output["answer"])
    asking = [step for step in watch.steps if any(one.role in ("answer", "") for one in step.asked)]
    giving = [step for step in asking if answer in map(normalize_answer, step.found.split("; "))] or asking
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


def _cited_passages(citations: Sequence[Citation], passages: Sequence[Document]) -> str:
    """Return the cited passages with their quotes marked and numbered; empty without any."""
    notes = footnotes(citations, passages)
    cited = [doc for doc in passages if any(one.quote["passage"] == doc.id for one in notes)]
    blocks = "\n".join(_marked(doc, [one for one in notes if one.quote["passage"] == doc.id]) for doc in cited)
    return f"<details open><summary><b>Citations</b></summary>\n{blocks}\n</details>" if cited else ""


def _marked(doc: Document, notes: Sequence[Footnote]) -> str:
    text, pieces, done = doc.page_content, list[str](), 0
    for one in sorted(notes, key=lambda note: note.quote["start"]):
        start, end = max(done, one.quote["start"]), one.quote["end"]
        mark = f'<mark id="quote-{one.number}"><b>{one.number}</b> {escape(text[start:end])}</mark>'
        pieces += [escape(text[done:start]), mark]
        done = max(done, end)
    return _block(doc, "".join([*pieces, escape(text[done:])]))


def _block(doc: Document, body: str, score: Any = None) -> str:
    source = escape(str(doc.metadata.get("source") or ""))
    more = escape(path_of(doc)), f"score {score:.3g}" if isinstance(score, float) else ""
    head = " · ".join(filter(None, [f'<b title="{source}">{escape(label_of(doc))}</b>', *more]))
    return f'<div class="role">{head}</div><pre class="passage">{body}</pre>'


def _step(step: Step, anchor: str, opened: bool) -> str:
    parts = [
        *map(_asked, step.asked),
        *map(_searched, step.searched),
        *(_passages(key, docs) for key, docs in step.passages.items()),
        *map(_note, step.notes),
    ]
    result = f"✗ {step.error}" if step.error else step.found and f"→ {step.found}"
    took = f"{step.seconds:.1f} s" if step.seconds >= 1 else f"{step.seconds * 1000:.0f} ms"
    tokens = (
        f"{counted(step.calls, 'call')} · {step.input_tokens} + {step.output_tokens} tokens · " if step.calls else ""
    )
    head = (
        f'<summary><b>{escape(step.name)}</b> <span class="found">{escape(result)}</span> '
        f'<span class="spent">{tokens}{took}</span></summary>'
    )
    body = "\n".join(parts) or '<p class="dim">Nothing was asked or searched here.</p>'
    return f'<details id="{anchor}"{" open" if opened else ""}>{head}\n{body}\n</details>'


def _anchor(node: str) -> str:
    return "node-" + "".join(char if char.isalnum() else "-" for char in node)


def _asked(asked: Asked) -> str:
    prompt = "".join(
        f'<div class="role">{escape(one["role"])}</div><pre>{escape(one["text"])}</pre>' for one in asked.prompt
    )
    return (
        f'<div class="role">asked: {escape(" · ".join(filter(None, [asked.role, asked.model])) or "model")}</div>'
        f"<details><summary>prompt</summary>{prompt}</details>"
        f'<div class="role">reply</div><pre class="reply{" error" if asked.error else ""}">'
        f"{escape(asked.reply or asked.error)}</pre>"
    )


def _searched(searched: Searched) -> str:
    end = searched.error or counted(searched.found, "passage")
    return f'<div class="role">searched: {escape(searched.query)} → {escape(end)}</div>'


def _passages(key: str, docs: Sequence[Document]) -> str:
    blocks = "".join(_block(doc, escape(doc.page_content), doc.metadata.get("score")) for doc in docs)
    return f"<details><summary>{escape(f'{key} ({len(docs)})')}</summary>{blocks}</details>"


def _note(note: Mapping[str, Any]) -> str:
    detail = json.dumps(note["detail"], ensure_ascii=False, default=str)
    return f'<p class="dim">note: {escape(note["event"])} {escape(detail)}</p>'
