"""`ragweave trace`: a recorded run, as a tree or as one HTML page.

The page has no script and loads nothing; every text of the run is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.cli.cited import answer_html, quoted_html

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


_PAGE = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>$title</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;color:#1d2433;background:#fff;margin:0 auto;
max-width:1180px;padding:24px}
h1{font-size:21px;margin:0 0 6px}h2{font-size:16px;margin:24px 0 8px}
.answer{font-size:18px;padding:8px 14px;background:#eef6ea;border-left:4px solid #6f8a5a;
white-space:pre-wrap}
.unknown{background:#f6f1e3;border-color:#b89b3f}.failed{background:#fbeaea;border-color:#b04141}
.dim{color:#626a80;font-size:13px}.run{display:flex;gap:28px;align-items:flex-start;flex-wrap:wrap}
.steps{flex:1 1 520px;min-width:0}.picture{overflow-x:auto;max-width:100%}
details{border:1px solid #d5dae6;border-radius:6px;margin:5px 0;padding:0 10px}
details details{border-color:#e6e9f1}summary{cursor:pointer;padding:5px 0}
summary b{font-weight:600}details:target{border-color:#b86a00;box-shadow:0 0 0 2px #ffe3b8}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f6f7fb;border-radius:5px;padding:9px;
margin:5px 0;font:13px/1.45 ui-monospace,monospace}
mark{background:#ffe9a8;padding:0 1px}mark b{font-size:11px;vertical-align:super}
.unsupported{background:none;border-bottom:2px dotted #b04141}
.reply{background:#fff5e6}.error{color:#a12020}.role{font-size:12px;color:#626a80}
</style>
</head>
<body>
<h1>$question</h1>
<p class="dim">$method</p>
<p class="answer $kind">$answer</p>
<p class="dim">$cost</p>
$cited
<div class="run">
<div class="picture">$picture</div>
<div class="steps"><h2>Steps</h2>
$steps
</div>
</div>
</body>
</html>
""")


def trace_page(record: RunRecord) -> str:
    """Return the page of a run.

    The picture's nodes link to their steps. Passages, replies and all other texts of the run are
    untrusted: each is escaped, and the page's own policy lets no script run.
    """
    from ragweave.cli.record import taken_of
    from ragweave.tools.drawing import draw_svg

    shape, taken = taken_of(record)
    method = record["method"]
    links = {step["node"]: f"#{_anchor(step['node'])}" for step in record["trace"]}
    picture = draw_svg(shape, title=f"The path taken through {method}", taken=taken, links=links)
    answer, kind = _outcome(record)
    citations = record.get("citations") or []
    seen: set[str] = set()
    steps = [_step(step, seen) for step in record["trace"]]
    return _PAGE.substitute(
        title=escape(f"{method}: {record['question']}"),
        question=escape(record["question"]),
        method=escape(method),
        answer=answer_html(answer, citations),
        cited=quoted_html(citations, record.get("passages") or []),
        kind=kind,
        cost=escape(_cost(record)),
        picture=picture,
        steps="\n".join(steps),
    )


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
    return f"{calls} calls · {about}{tokens} tokens in, {made} out · {seconds:.2f} s of work{limit}"


def _anchor(node: str) -> str:
    return "node-" + "".join(char if char.isalnum() else "-" for char in node)


def _step(step: StepRecord, seen: set[str]) -> str:
    from ragweave.cli.show import line

    anchor = "" if step["node"] in seen else f' id="{_anchor(step["node"])}"'
    seen.add(step["node"])
    name, rest = escape(step["node"]), escape(line(step).removeprefix(step["node"]))
    parts = [
        *map(_asked, step["asked"]),
        *map(_searched, step["searched"]),
        *(_passages(key, docs) for key, docs in step["passages"].items()),
        *map(_note, step["notes"]),
    ]
    if step["error"]:
        parts.append(f'<p class="error">{escape(step["error"])}</p>')
    body = "\n".join(parts) or '<p class="dim">Nothing was asked or searched here.</p>'
    return f"<details{anchor}><summary><b>{name}</b>{rest}</summary>\n{body}\n</details>"


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
    from ragweave.state.passages import heading_of

    metadata = doc.get("metadata") or {}
    marks = [one for one in (heading_of(metadata), str(metadata.get("source") or "")) if one]
    marks += [f"{key} {metadata[key]}" for key in ("rank", "score", "query") if key in metadata]
    head = " · ".join(marks) or str(doc.get("id", ""))
    return f'<div class="role">{escape(head)}</div><pre>{escape(str(doc.get("text", "")))}</pre>'


def _note(note: Mapping[str, Any]) -> str:
    detail = json.dumps(note.get("detail", {}), ensure_ascii=False, default=str)
    return f'<p class="dim">note: {escape(str(note.get("event", "")))} {escape(detail)}</p>'
