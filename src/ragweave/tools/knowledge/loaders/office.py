"""Word, PowerPoint and EPUB, read from their XML.

Word and PowerPoint name paragraphs (`p`), runs, tables and text boxes alike, so that one reader serves
both. It follows no picture and no link: a broken one loses nothing but itself.
"""

from __future__ import annotations

import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ragweave.tools.knowledge.loaders.html import alternative, decode_html, html_markdown, numeral
from ragweave.tools.knowledge.loaders.packages import (
    attribute,
    beside,
    child,
    local,
    open_package,
    read_xml,
    relations,
)
from ragweave.tools.knowledge.loaders.text import markdown, structure
from ragweave.tools.knowledge.passages import Heading, Loaded, UnreadableError
from ragweave.tools.knowledge.settings import Notice

_SKIPPED = frozenset(re.findall(r"\w+", "del moveFrom delText instrText Fallback pPr rPr rt bodyPr lstStyle"))
"""Deleted text, copies for older programs, properties."""
_SIGNS = {"tab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_MATH = {
    "f": "({num})/({den})",
    "sSup": "{e}^{sup}",
    "sSub": "{e}_{sub}",
    "sSubSup": "{e}_{sub}^{sup}",
    "rad": "√({e})",
}
_WORD_PARTS = frozenset(("styles", "numbering", "header", "footer", "footnotes", "endnotes", "comments"))
_APART = frozenset(("txbxContent", "chart", "relIds"))
"""What a paragraph contains besides its text: text boxes, charts, diagrams."""


def _all(element: Any, name: str) -> Iterator[Any]:
    return (one for one in element.iter() if local(one) == name)


def _texts(element: Any, name: str) -> list[str]:
    return [one.text or "" for one in _all(element, name)]


def _within(element: Any, name: str) -> Iterator[Any]:
    """Yield the rows of a table or the cells of a row, including those in content controls."""
    for one in element:
        if local(one) == name:
            yield one
        elif local(one) not in _SKIPPED:
            yield from _within(one, name)


class _Numbers:
    """The numbers that Word shows before paragraphs, such as 2.2 or (a)."""

    def __init__(self, root: Any) -> None:
        self._levels: dict[str | None, dict[str | None, Any]] = {}
        for one in _all(root, "abstractNum"):
            levels = {attribute(level, "ilvl"): level for level in _all(one, "lvl")}
            self._levels[attribute(one, "abstractNumId")] = levels
        self._lists = {attribute(one, "numId"): one for one in _all(root, "num")}
        self._counts: dict[str | None, dict[int, int]] = defaultdict(dict)
        self._restarted: set[tuple[str, int]] = set()

    def next(self, list_id: str, at: int, style: str | None) -> str:
        """Count a paragraph of a list and return what Word shows before it."""
        if (one := self._lists.get(list_id)) is None:
            return ""
        abstract = attribute(child(one, "abstractNumId"), "val")
        levels = self._levels.get(abstract, {})
        for name, level in levels.items():  # a heading's level is that of its style
            if style and attribute(child(level, "pStyle"), "val") == style:
                at = int(name or 0)
        counts = self._counts[abstract]
        start = self._restart(list_id, at)
        if start is not None:
            counts[at] = start
        else:
            counts[at] = counts[at] + 1 if at in counts else self._start(levels, at)
        for deeper in [one for one in counts if one > at]:
            del counts[deeper]
        form = levels.get(str(at))
        if form is None or attribute(child(form, "numFmt"), "val") == "bullet":
            return "- "
        shown = attribute(child(form, "lvlText"), "val") or ""
        for level in range(at + 1):
            kind = attribute(child(levels.get(str(level), ()), "numFmt"), "val") or "decimal"
            number = numeral(counts.get(level, self._start(levels, level)), kind)
            shown = shown.replace(f"%{level + 1}", number)
        return f"{shown} " if shown else ""

    def _restart(self, list_id: str, at: int) -> int | None:
        """Return the number at which a list restarts; None except at its first paragraph."""
        if (list_id, at) in self._restarted:
            return None
        self._restarted.add((list_id, at))
        for one in _all(self._lists[list_id], "lvlOverride"):
            start = attribute(child(one, "startOverride"), "val")
            if start and attribute(one, "ilvl") == str(at):
                return int(start)
        return None

    @staticmethod
    def _start(levels: dict[str | None, Any], at: int) -> int:
        return int(attribute(child(levels.get(str(at), ()), "start"), "val") or 1)


@dataclass
class _Reader:
    """Reads the paragraphs, tables, text boxes and charts of a Word or PowerPoint part."""

    package: zipfile.ZipFile
    part: str
    styles: dict[str | None, Any] = field(default_factory=dict)
    """Word's paragraph styles by id."""
    numbers: _Numbers | None = None
    notes: dict[tuple[str, str | None], str] = field(default_factory=dict)
    """Texts of footnotes, endnotes and comments by kind and id."""

    def blocks(self, element: Any) -> Iterator[str]:
        """Yield the Markdown blocks of an element in their order."""
        for one in element:
            name = local(one)
            if name == "p":
                yield from self._paragraph(one)
            elif name == "tbl":
                yield from self._table(one)
            elif name in ("chart", "relIds"):
                yield from self._related(one)
            elif name == "cNvPr" and (text := alternative(attribute(one, "descr"))):
                yield text
            elif name not in _SKIPPED:
                yield from self.blocks(one)

    def _paragraph(self, element: Any) -> Iterator[str]:
        apart: list[str] = []
        text = self._inline(element, apart)
        lines = [" ".join(line.split()) for line in text.splitlines()]
        text = "\n".join(filter(None, lines))
        if text:
            yield self._mark(child(element, "pPr"), text)
        yield from apart

    def _inline(self, element: Any, apart: list[str]) -> str:
        name = local(element)
        if name in _SKIPPED or (name == "fld" and attribute(element, "type") == "slidenum"):
            return ""
        if name in _APART:
            apart += self._related(element) if name != "txbxContent" else self.blocks(element)
            return ""
        if name == "t":
            return element.text or ""
        if name == "docPr":
            return alternative(attribute(element, "descr"))
        if name.endswith("Reference"):
            return self._note(name.removesuffix("Reference"), attribute(element, "id"), apart)
        if name in _MATH:
            parts = {local(one): self._inline(one, apart) for one in element}
            return _MATH[name].format_map(defaultdict(str, parts))
        return _SIGNS.get(name, "") + "".join(self._inline(one, apart) for one in element)

    def _note(self, kind: str, name: str | None, apart: list[str]) -> str:
        if text := self.notes.get((kind, name)):
            apart.append(f"Comment: {text}" if kind == "comment" else f"[^{name}]: {text}")
        return f"[^{name}]" if text and kind != "comment" else ""

    def _mark(self, properties: Any, text: str) -> str:
        """Return a paragraph's text with the number and heading marks of its style."""
        style = attribute(child(properties, "pStyle"), "val") if properties is not None else None
        chain: list[Any] = [properties] if properties is not None else []
        names, one = [], style
        while one in self.styles and len(chain) < 10:
            names.append((attribute(child(self.styles[one], "name"), "val") or "").lower())
            chain.append(child(self.styles[one], "pPr"))
            one = attribute(child(self.styles[one], "basedOn"), "val")
        chain = [one for one in chain if one is not None]
        if self.numbers is not None:
            lists = [numbered for one in chain if (numbered := child(one, "numPr")) is not None]
            found = [attribute(child(one, "numId"), "val") for one in lists]
            if number := next(filter(None, found), None):
                levels = [attribute(child(one, "ilvl"), "val") for one in lists[:1]]
                text = self.numbers.next(number, int(levels[0] or 0), style) + text
        outline = next(filter(None, (attribute(child(one, "outlineLvl"), "val") for one in chain)), None)
        named = re.match(r"heading (\d)", " ".join(names)) or re.match(r"Heading(\d)", style or "")
        level = int(named[1]) if named else int(outline or 9) + 1
        level = 1 if names[:1] == ["title"] else level
        return f"{'#' * min(level, 6)} {' '.join(text.split())}" if level <= 9 else text

    def _table(self, element: Any) -> Iterator[str]:
        """Yield a table; a single column is a frame around text."""
        rows = [[*_within(row, "tc")] for row in _within(element, "tr")]
        if max(map(len, rows), default=0) == 1:
            for row in rows:
                yield from self.blocks(row[0] if row else ())
            return
        above: dict[int, str] = {}
        table = []
        for row in rows:
            cells: list[str] = []
            for cell in row:
                text = " ".join(" ".join(self.blocks(cell)).split()).replace("|", "\\|")
                merged = child(cell, "tcPr", "vMerge")
                if attribute(cell, "vMerge") == "1" or (merged is not None and attribute(merged, "val") != "restart"):
                    text = above.get(len(cells), "")
                above[len(cells)] = text
                span = int(attribute(child(cell, "tcPr", "gridSpan"), "val") or 1)
                cells += [text] + [""] * min(span - 1, 100)
            table.append(cells)
        yield as_table(table)

    def _related(self, element: Any) -> Iterator[str]:
        """Yield the texts of a chart or diagram, which are files of their own."""
        wanted = {value for key, value in element.attrib.items() if key.endswith(("}id", "}dm"))}
        for ident, (_, target) in relations(self.package, self.part).items():
            if ident in wanted:
                with suppress(Exception):  # a broken one loses nothing but itself
                    root = read_xml(self.package, target)
                    yield from _series(root) if local(element) == "chart" else self.blocks(root)


def _series(chart: Any) -> Iterator[str]:
    """Yield a chart's title, and each of its series as `name: category value, …`."""
    titles = [" ".join(_texts(one, "t")) for one in _all(chart, "title")]
    yield from filter(str.strip, titles)
    for one in _all(chart, "ser"):
        held = {local(part): _texts(part, "v") for part in one}
        names = held.get("cat") or held.get("xVal") or []
        pairs = zip_longest(names, held.get("val") or held.get("yVal") or [], fillvalue="")
        values = ", ".join(f"{name} {value}".strip() for name, value in pairs)
        yield f"{' '.join(held.get('tx', ())) or 'series'}: {values}"


def as_table(rows: list[list[str]]) -> str:
    """Return rows as a Markdown table; the first is its header."""
    width = max(map(len, rows), default=0)
    lines = [f"| {' | '.join([*row, *[''] * (width - len(row))])} |" for row in rows]
    return "\n".join([*lines[:1], "|" + " --- |" * width, *lines[1:]])


def _main(package: zipfile.ZipFile, usual: str) -> str:
    found = (target for kind, target in relations(package, "").values() if kind == "officeDocument")
    return next(found, usual)


def _property(package: zipfile.ZipFile, name: str) -> str:
    """Return the title in a file's properties."""
    texts = _texts(read_xml(package, name), "title") if name in package.NameToInfo else []
    found = " ".join(" ".join(texts).split())
    return "" if found in ("PowerPoint Presentation", "Word Document") else found


def load_docx(path: Path, data: bytes) -> Iterator[Loaded | Notice]:
    """Load a Word document with list numbers, notes, comments, text boxes and page headers."""
    package = open_package(data)
    name = _main(package, "word/document.xml")
    reader = _Reader(package, name)
    margins: dict[str, None] = {}
    for kind, target in relations(package, name).values():
        if kind in _WORD_PARTS:
            try:
                margins.update(dict.fromkeys(_take(reader, kind, target)))
            except Exception as error:  # noqa: BLE001 - the document can be read
                yield Notice(str(path), f"{kind}: {error}", partly=True)
    text = "\n\n".join([*margins, *reader.blocks(read_xml(package, name))])
    yield markdown(text, path.stem, _property(package, "docProps/core.xml"))


def _take(reader: _Reader, kind: str, name: str) -> Iterator[str]:
    """Give a reader styles, numbers or notes; yield the texts of a page header or footer."""
    root = read_xml(reader.package, name)
    if kind == "styles":
        reader.styles = {attribute(one, "styleId"): one for one in _all(root, "style")}
    elif kind == "numbering":
        reader.numbers = _Numbers(root)
    elif kind in ("header", "footer"):
        yield from _Reader(reader.package, name).blocks(root)
    else:
        for one in root:
            text = " ".join(_Reader(reader.package, name).blocks(one))
            reader.notes[kind[:-1], attribute(one, "id")] = text


def load_pptx(path: Path, data: bytes) -> Iterator[Loaded | Notice]:
    """Load a presentation: a slide is a page, its title a heading; its notes follow its text.

    Raises:
        UnreadableError: It has no text.
    """
    package = open_package(data)
    name = _main(package, "ppt/presentation.xml")
    related = relations(package, name)
    text, pages, headings = "", [], []
    for number, one in enumerate(_all(read_xml(package, name), "sldId"), 1):
        pages.append(len(text))
        ident = next((value for key, value in one.attrib.items() if key.endswith("}id")), "")
        try:
            title, blocks = _slide(package, related[ident][1])
        except Exception as error:  # noqa: BLE001 - the other slides can be read
            yield Notice(str(path), f"slide {number}: {error}", partly=True)
            continue
        # A slide without a title ends the section of the one before it.
        headings.append(Heading(len(text), 1, title or f"Slide {number}"))
        text += "".join(f"{block}\n\n" for block in blocks)
    if not text.strip():
        raise UnreadableError("presentation without text")
    title = _property(package, "docProps/core.xml") or path.stem
    yield Loaded(text, title, pages=tuple(pages), headings=tuple(headings), tables=structure(text)[1])


def _slide(package: zipfile.ZipFile, name: str) -> tuple[str, list[str]]:
    """Return the title of a slide, and its texts and notes."""
    slide = read_xml(package, name)
    blocks = [*_Reader(package, name).blocks(slide)]
    for kind, target in relations(package, name).values():
        if kind == "notesSlide" and target in package.NameToInfo:
            blocks += _Reader(package, target).blocks(read_xml(package, target))
    return _slide_title(slide), blocks


def _slide_title(slide: Any) -> str:
    for shape in _all(slide, "sp"):
        if any(attribute(one, "type") in ("title", "ctrTitle") for one in _all(shape, "ph")):
            return " ".join(" ".join(_texts(shape, "t")).split())
    return ""


def load_epub(path: Path, data: bytes) -> Iterator[Loaded | Notice]:
    """Load the chapters of a book in their order, as one Markdown text."""
    package = open_package(data)
    root = read_xml(package, "META-INF/container.xml")
    name = next((attribute(one, "full-path") for one in _all(root, "rootfile")), None) or ""
    book = read_xml(package, name)
    items = {attribute(one, "id"): attribute(one, "href") or "" for one in _all(book, "item")}
    texts = []
    for one in _all(book, "itemref"):
        href = items.get(attribute(one, "idref"), "")
        try:
            source, _ = decode_html(package.read(beside(name, href)))
            texts.append(html_markdown(source, whole=True)[1])
        except Exception as error:  # noqa: BLE001 - the other chapters can be read
            yield Notice(str(path), f"chapter {href}: {error}", partly=True)
    yield markdown("\n\n".join(texts), path.stem, " ".join(_texts(book, "title")[:1]).strip())
