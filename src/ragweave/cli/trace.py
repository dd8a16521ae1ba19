"""`ragweave trace`: a recorded run, as a tree or as one HTML page.

The page has no script and loads nothing; every text of the run is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.cli.cited import answer_html, passage_html, place_html, quoted_html

if TYPE_CHECKING:
    from ragweave.cli.record import RunRecord, StepRecord
    from ragweave.cli.watch import Asked, Searched


def trace(
    run: Annotated[Path, typer.Argument(help="A run recorded by `ragweave ask --trace-file`.")],
    html: Annotated[
        Path | None,
        typer.Option(
            help="Write an HTML page: the graph, the path taken, prompts, replies, passages."
        ),
    ] = None,
) -> None:
    """Show a recorded run."""
    from ragweave.cli.record import read_run
    from ragweave.cli.screen import console, write_file
    from ragweave.cli.show import tree

    record = read_run(run)
    if html is None:
        console().print(tree(record["trace"]))
        return
    write_file(html, trace_page(record))
    typer.echo(f"wrote {html}", err=True)


_STYLE = """\
.answer{font-size:18px;padding:10px 14px;background:var(--good);white-space:pre-wrap;
border-left:4px solid var(--good-line);border-radius:0 8px 8px 0;margin:12px 0}
.unknown{background:var(--warm);border-color:var(--warm-line)}
.failed{background:var(--bad);border-color:var(--bad-line)}
.run{display:flex;gap:28px;align-items:flex-start;flex-wrap:wrap}
.picture{overflow:auto;max-width:100%;max-height:calc(100vh - 24px);position:sticky;top:12px}.steps{flex:1 1 480px;min-width:0}
details details{background:var(--paper)}details:target{border-color:var(--warm-line);
box-shadow:0 0 0 2px var(--warm)}
.steps>details>summary{display:flex;flex-wrap:wrap;gap:0 10px;align-items:baseline}
.steps>details>summary::before{content:"▸";color:var(--dim)}
.steps>details[open]>summary::before{content:"▾"}
.found{flex:1 1 12em;min-width:0}.spent{color:var(--dim);font-size:13px;margin-left:auto}
mark{background:var(--mark);color:inherit;padding:1px 2px;border-radius:3px}
mark b{font-size:11px;vertical-align:super}sup{line-height:0}sup a{text-decoration:none}
.unsupported{background:none;border-bottom:2px dotted var(--bad-line);border-radius:0}
.passage{font:14px/1.55 system-ui,sans-serif}.reply{background:var(--warm)}.error{color:var(--bad-line)}.role{font-size:13px;color:var(--dim)}
.picture .rw>rect{fill:none}.picture .rw text{fill:var(--ink)}
.picture .rw .box rect{fill:light-dark(#eef1fb,#232b3d);stroke:light-dark(#6b7db8,#7c8fcd)}
.picture .rw .end rect{fill:var(--good);stroke:var(--good-line)}
.picture .rw .line{stroke:var(--dim)}.picture .rw .head{fill:var(--dim)}
.picture .rw .label{fill:var(--dim);stroke:var(--paper)}
.picture .rw .on rect{fill:light-dark(#ffe3b8,#4b3816);stroke:var(--warm-line)}
.picture .rw .line.on{stroke:var(--warm-line)}
@media (max-width:760px){.run{gap:8px}.picture{position:static;max-height:none;
margin:0 auto}.steps{flex-basis:100%}
.spent{margin-left:0;flex-basis:100%;padding-left:19px}}
"""


def trace_page(record: RunRecord) -> str:
    """Return the page of a run.

    The picture's nodes link to their steps. Passages, replies and all other texts of the run are
    untrusted: each is escaped, and the page's own policy lets no script run.
    """
    from ragweave.cli.record import taken_of
    from ragweave.tools.drawing import draw_svg, html_page

    shape, taken = taken_of(record)
    method = record["method"]
    links = {step["node"]: f"#{_anchor(step['node'])}" for step in record["trace"]}
    picture = draw_svg(shape, title=f"The path taken through {method}", taken=taken, links=links)
    answer, kind = _outcome(record)
    citations = record.get("citations") or []
    opened = answering_step(record)
    seen: set[str] = set()
    steps = [_step(step, seen, step is opened) for step in record["trace"]]
    body = [
        f"<h1>{escape(record['question'])}</h1>",
        f'<p class="answer {kind}">{answer_html(answer, citations)}</p>',
        f'<p class="dim">{escape(method)} · {escape(_cost(record))}</p>',
        quoted_html(citations, record.get("passages") or []),
        f'<div class="run">\n<div class="picture">{picture}</div>',
        '<div class="steps"><h2>Steps</h2>',
        *steps,
        "</div>\n</div>",
    ]
    return html_page(f"{method}: {record['question']}", body, _STYLE)


def answering_step(record: RunRecord) -> StepRecord | None:
    """Return the step that a reader wants first: the last one whose model gave the answer.

    Of steps side by side the first one counts. Where none gave it word for word, it is the last
    that asked the answering model; in a run that failed, the one that failed.
    """
    from ragweave.tools.text.normalize import normalize_answer

    steps = record["trace"]
    failed = [step for step in steps if step["error"]]
    if failed and not record.get("answer"):
        return failed[0]
    asking = [step for step in steps if any(_answers(asked) for asked in step["asked"])]
    answer = normalize_answer(record.get("answer") or "")
    giving = [
        step for step in asking if answer in map(normalize_answer, step["found"].split("; "))
    ] or asking
    last = max((step["step"] for step in giving), default=None)
    return next((step for step in giving if step["step"] == last), None)


def _answers(asked: Asked) -> bool:
    return asked["role"] in ("answer", "")


def _outcome(record: RunRecord) -> tuple[str, str]:
    if record.get("answer"):
        return record["answer"], "unknown" if record.get("status") == "unknown" else ""
    errors = [step["error"] for step in record["trace"] if step["error"]]
    return f"The run did not finish: {errors[0] if errors else 'it was stopped'}", "failed"


def _cost(record: RunRecord) -> str:
    steps = record["trace"]
    calls = sum(step["calls"] for step in steps)
    tokens = sum(step["input_tokens"] for step in steps)
    made = sum(step["output_tokens"] for step in steps)
    seconds = sum(step["seconds"] for step in steps)
    about = "about " if (record.get("usage") or {}).get("estimated") else ""
    limit = " · stopped by a limit on rounds" if record.get("truncated") else ""
    made_by = "1 call" if calls == 1 else f"{calls} calls"
    return f"{made_by} · {about}{tokens} tokens in, {made} out · {seconds:.1f} s of work{limit}"


def _anchor(node: str) -> str:
    return "node-" + "".join(char if char.isalnum() else "-" for char in node)


def _step(step: StepRecord, seen: set[str], opened: bool) -> str:
    anchor = "" if step["node"] in seen else f' id="{_anchor(step["node"])}"'
    seen.add(step["node"])
    parts = [
        *map(_asked, step["asked"]),
        *map(_searched, step["searched"]),
        *(_passages(key, docs) for key, docs in step["passages"].items()),
        *map(_note, step["notes"]),
    ]
    if step["error"]:
        parts.append(f'<p class="error">{escape(step["error"])}</p>')
    body = "\n".join(parts) or '<p class="dim">Nothing was asked or searched here.</p>'
    led = f"✗ {step['error']}" if step["error"] else step["found"] and f"→ {step['found']}"
    found = f'<span class="found">{escape(led)}</span> ' if led else ""
    head = (
        f"<summary><b>{escape(step['node'])}</b> {found}"
        f'<span class="spent">{escape(_spent(step))}</span></summary>'
    )
    return f"<details{anchor}{' open' if opened else ''}>{head}\n{body}\n</details>"


def _spent(step: StepRecord) -> str:
    """Say what a step took: calls, tokens, time."""
    seconds = step["seconds"]
    took = f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
    if not step["calls"]:
        return took
    calls = f"{step['calls']} call{'' if step['calls'] == 1 else 's'}"
    return f"{calls} · {step['input_tokens']} + {step['output_tokens']} tokens · {took}"


def _asked(asked: Asked) -> str:
    title = " · ".join(part for part in (asked["role"], asked["model"]) if part) or "model"
    prompt = "".join(
        f'<div class="role">{escape(one["role"])}</div><pre>{escape(one["text"])}</pre>'
        for one in asked["prompt"]
    )
    reply = escape(asked["reply"] or asked["error"])
    kind = "reply error" if asked["error"] else "reply"
    return (
        f'<div class="role">asked: {escape(title)}</div>'
        f"<details><summary>prompt</summary>{prompt}</details>"
        f'<div class="role">reply</div><pre class="{kind}">{reply}</pre>'
    )


def _searched(searched: Searched) -> str:
    end = searched["error"] or f"{searched['found']} passages"
    return f'<div class="role">searched: {escape(searched["query"])} → {escape(end)}</div>'


def _passages(key: str, docs: Iterable[Mapping[str, Any]]) -> str:
    listed = list(docs)
    blocks = "".join(_passage(doc) for doc in listed)
    head = escape(f"{key} ({len(listed)})")
    return f"<details><summary>{head}</summary>{blocks}</details>"


def _passage(doc: Mapping[str, Any]) -> str:
    metadata = doc.get("metadata") or {}
    rank = metadata.get("rank")
    marks = [
        f"{rank + 1}." if isinstance(rank, int) else "",
        place_html(doc),
        escape(f"for {metadata['query']}") if metadata.get("query") else "",
        escape(f"score {_rounded(metadata['score'])}") if "score" in metadata else "",
    ]
    head = " ".join(marks[:2]).strip()
    rest = "".join(f" · {one}" for one in marks[2:] if one)
    return f'<div class="role">{head}{rest}</div>{passage_html(escape(str(doc.get("text", ""))))}'


def _rounded(score: Any) -> str:
    """Write a score with three digits that count."""
    return f"{score:.3g}" if isinstance(score, float) else str(score)


def _note(note: Mapping[str, Any]) -> str:
    detail = json.dumps(note.get("detail", {}), ensure_ascii=False, default=str)
    return f'<p class="dim">note: {escape(str(note.get("event", "")))} {escape(detail)}</p>'
