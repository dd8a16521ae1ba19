"""Make the pictures of the page on graph retrieval, from a real search and from the benchmark's results.

python docs/graph_pictures.py
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from html import escape
from pathlib import Path

from langchain_core.documents import Document

from ragweave.tools.knowledge import IndexSettings, KnowledgeBase

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "graph_retrieval.json"
STYLE = """<style>
text { font: 14px system-ui, sans-serif; fill: #222 } .dim { fill: #667 } .bold { font-weight: 600 }
.card { fill: #f5f6fa; stroke: #9aa3b8 } .hit { stroke: #3949ab; stroke-width: 2 } .name { fill: #3949ab; font-weight: 600 }
.line { stroke: #3949ab; stroke-width: 2; fill: none } .axis { stroke: #9aa3b8 } .graph { fill: #3949ab } .hybrid { fill: #b9c0d8 }
.page { fill: #fff }
@media (prefers-color-scheme: dark) {
text { fill: #e4e6ee } .dim { fill: #9aa3b8 } .card { fill: #262b3a; stroke: #5b6478 } .hit { stroke: #9fa8f5 }
.name { fill: #9fa8f5 } .line { stroke: #9fa8f5 } .graph { fill: #9fa8f5 } .hybrid { fill: #4a5268 } .page { fill: #1e2129 } }
</style>"""
QUESTION = "When was the director of the film Get Low born?"
PASSAGES = {
    "Get Low": "Get Low is a film of 2009 by the director Aaron Schneider, with Robert Duvall.",
    "Aaron Schneider": "He was born in 1965, and made short films such as Two Soldiers before his first long one.",
    "Film director": "A director leads the actors and the camera, and answers for how a film looks in the end.",
    "Low (album)": "Low is a record of 1977, made in France and in Berlin, half of it without words.",
    "Birth": "When a child is born, the day is noted, and is celebrated each year.",
    "Robert Duvall": "The actor won an Academy Award for Tender Mercies, where he sings his own songs.",
}


def svg(width: int, height: int, label: str, parts: Iterable[str]) -> str:
    """Return a picture."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
    page = f'<rect class="page" width="{width}" height="{height}" rx="8"/>'
    return "\n".join([head, STYLE, page, *parts, "</svg>"]) + "\n"


def text(x: float, y: float, label: str, kind: str = "", anchor: str = "start") -> str:
    """Return a line of text."""
    return f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{escape(label)}</text>'


def question() -> str:
    """Return the picture of a search: what words find, and where names lead."""
    settings = IndexSettings(embedding=None)
    with tempfile.TemporaryDirectory() as folder, KnowledgeBase.create(Path(folder) / "kb", settings=settings) as kb:
        kb.add([Document(passage, id=title, metadata={"title": title}) for title, passage in PASSAGES.items()])
        words, graph = (kb.as_retriever(len(PASSAGES), mode).invoke(QUESTION) for mode in ("bm25", "graph"))
    ranks = {str(doc.id): doc.metadata["rank"] + 1 for doc in words}
    first, second = graph[:2]
    parts = [text(20, 34, QUESTION, "bold")]
    for at, doc in enumerate((first, second)):
        y, rank = 60 + 150 * at, ranks.get(str(doc.id))
        parts.append(f'<rect class="card hit" x="20" y="{y}" width="680" height="76" rx="8"/>')
        parts.append(text(36, y + 28, str(doc.id), "bold"))
        before = f"rank {rank}" if rank else "not found"
        parts.append(text(684, y + 28, f"words: {before} · graph: rank {at + 1}", "dim", "end"))
        parts.append(text(36, y + 56, doc.page_content))
    via = second.metadata["via"]
    parts.append('<path class="line" d="M 120 136 V 206 m -6 -9 l 6 9 l 6 -9"/>')
    parts.append(text(140, 168, via["name"], "name"))
    parts.append(text(140, 190, "is a name in the first passage and the title of the second", "dim"))
    return svg(720, 306, "A question, the passage that words find, and the passage that its names lead to", parts)


def bars() -> str:
    """Return the plot of hybrid beside graph, with the interval of the gain."""
    rows = list(json.loads(RESULTS.read_text("utf-8"))["sets"].values())
    width, top, step = 720, 56, 34
    parts = [text(20, 28, "Supporting passages among five, %", "bold"), text(330, 28, "■ hybrid", "dim")]
    parts.append(text(410, 28, "■ graph", "name"))
    for at, row in enumerate(rows):
        y = top + at * step
        parts.append(text(110, y + 17, row["set"], anchor="end"))
        for shift, method, kind in ((0, "hybrid", "hybrid"), (12, "graph", "graph")):
            parts.append(
                f'<rect class="{kind}" x="120" y="{y + shift}" width="{4 * row[method]:.0f}" height="10" rx="2"/>'
            )
        gain, low, high = row["gain over hybrid"]
        parts.append(text(530, y + 17, f"{gain:+.1f} [{low:.1f}, {high:.1f}]".replace("-", "−"), "dim"))
    return svg(width, top + len(rows) * step + 12, "Hybrid and graph retrieval on each set", parts)


def main() -> None:
    """Write the pictures."""
    assets = ROOT / "docs" / "assets"
    (assets / "graph-question.svg").write_text(question(), "utf-8")
    (assets / "graph-sets.svg").write_text(bars(), "utf-8")


if __name__ == "__main__":
    main()
