"""How much of the text of web pages is in no passage, and which text that is.

    python benchmarks/html_pages.py FOLDER [--pages N] [--top N]

FOLDER holds HTML pages, such as Python's documentation (Debian's package python3-doc:
/usr/share/doc/python3/html). Of each page, the texts between the tags of its `<main>`,
`role="main"` or else `<body>` (without scripts, styles and templates) are looked for in its passages, each
near the end of the one before it. The share counts letters and digits. Lists of contents (`<nav>`,
`role="navigation"`) count as missing, wherever their words stand.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from lxml import html

from ragweave.tools.knowledge import KnowledgeBase

NEAR = 1_000
"""Characters after the last text that was found, and before its end, within which a short text must stand."""
LONG = 40
"""A text of more characters may stand anywhere."""


CONTENTS = "ancestor-or-self::*[self::nav or @role='navigation']"


def squeezed(text: str) -> str:
    """Return the letters and digits of a text: Markdown adds signs and white space."""
    return re.sub(r"[\W_]", "", text)


def texts(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the texts of a page between tags, each with the tags around it."""
    page = html.parse(str(path), html.HTMLParser(encoding="utf-8", remove_comments=True)).getroot()
    if page is None:
        return
    for root in page.xpath("//main|//*[@role='main']") or page.xpath("//body"):
        for node in root.xpath(".//text()[not(ancestor::script or ancestor::style or ancestor::template)]"):
            parent = node.getparent()
            if squeezed(node):
                place = f"{parent.tag}.{parent.get('class', '')}" + " (tail)" * bool(node.is_tail)
                yield "contents" if parent.xpath(CONTENTS) else place, str(node)


def main() -> None:
    """Measure, and print the share and the largest kinds of missing text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pages", type=int, help="Read this many pages alone.")
    parser.add_argument("--top", type=int, default=15, help="How many kinds of missing text are listed.")
    args = parser.parse_args()
    paths = sorted(args.folder.rglob("*.html"))[: args.pages]
    total = missing = 0
    kinds: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder, KnowledgeBase.create(folder, settings={"embedding": None}) as kb:
        report = kb.index_paths(paths)
        indexed: dict[str, list[tuple[int, str]]] = {}
        for doc in kb.passages():
            indexed.setdefault(doc.metadata["source"], []).append((doc.metadata["start"], doc.page_content))
    print(report)
    for path in paths:
        passages = squeezed("\n".join(text for _, text in sorted(indexed.get(str(path), ()))))
        at = 0
        for place, text in texts(path):
            wanted = squeezed(text)
            total += len(wanted)
            begin = -1
            if place != "contents":
                begin = passages.find(wanted, at, None if len(wanted) > LONG else at + NEAR)
            if begin >= 0:
                at = begin + len(wanted)
            elif place == "contents" or wanted not in passages[0 if len(wanted) > LONG else max(at - NEAR, 0) : at]:
                missing += len(wanted)
                kinds[place, "" if place == "contents" else " ".join(text.split())[:60]] += len(wanted)
    print(
        f"{len(paths)} pages, {total:,} letters and digits, {missing:,} in no passage ({missing / max(total, 1):.3%})"
    )
    for (place, text), count in kinds.most_common(args.top):
        print(f"{count:8,}  {place}: {text}")


if __name__ == "__main__":
    main()
