"""Pages made of a run: script in every field that can hold text never becomes part of the page."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from ragweave.cli.record import read_run, to_json
from ragweave.cli.trace import trace_page

ATTACKS = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "</style></title></svg><iframe src=javascript:alert(1)>",
    "<!--", "-->", "]]>", "$question ${answer}", "&lt;script&gt;", "\x00<script>", "\u202e<b>",
)  # fmt: skip
TAGS = frozenset(
    {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "div", "details", "summary"}
    | {"b", "pre", "svg", "g", "a", "rect", "path", "text", "defs", "marker", "polygon", "tspan"}
    | {"line", "desc", "ellipse", "circle", "label", "input", "span"}
)


class Found(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.bad: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for name, value in attrs:
            link = name in ("href", "src", "action", "xlink:href")
            if name.startswith("on") or (link and not str(value).startswith("#")):
                self.bad.append(f"{tag} {name}={value}")


def found(page: str) -> Found:
    reader = Found()
    reader.feed(page)
    reader.close()
    return reader


def record(text: str) -> dict[str, Any]:
    call = {"role": text, "model": text, "prompt": [{"role": text, "text": text}]}
    step = {
        "node": text,
        "step": 0,
        "seconds": 0.1,
        "calls": 1,
        "input_tokens": 1,
        "output_tokens": 1,
        "found": text,
        "asked": [{**call, "reply": text, "error": ""}, {**call, "reply": "", "error": text}],
        "searched": [{"query": text, "found": 1, "error": text}],
        "passages": {text: [{"id": text, "text": text, "metadata": {"title": text, "source": text}}]},
        "notes": [{"event": text, "detail": {text: text}}],
        "error": text,
    }
    edge = {"source": "__start__", "target": text, "label": text, "conditional": True}
    return {
        "method": text,
        "question": text,
        "answer": text,
        "status": text,
        "usage": {},
        "trace": [step],
        "notes": [],
        "graph": {"nodes": ["__start__", text, "__end__"], "edges": [edge]},
    }


def page(text: str, folder: Path) -> str:
    file = folder / "run.json"
    file.write_text(json.dumps(record(text)), "utf-8")
    return trace_page(read_run(file))


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_trace_page_holds_no_part_of_the_attack(attack: str, tmp_path: Path) -> None:
    plain, attacked = found(page("plain", tmp_path)), found(page(attack, tmp_path))
    assert attacked.bad == []
    assert set(attacked.tags) <= TAGS
    assert "script" not in attacked.tags
    assert attacked.tags == plain.tags


def test_a_record_of_half_characters_can_be_written() -> None:
    text = to_json({"question": "\ud800", "answer": "a\udfff"})
    assert json.loads(text.encode("utf-8")) == {"question": "?", "answer": "a?"}
