"""Word, PowerPoint and EPUB, read from their XML.

Word and PowerPoint name paragraphs (`p`), runs, tables and text boxes alike, so that one reader serves
both. It follows no picture and no link: a broken one loses nothing but itself.
"""

import io
import posixpath
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any
from urllib.parse import unquote

from ragweave.tools.knowledge.chunking import Loaded, UnreadableError
from ragweave.tools.knowledge.loaders.text import alt_text, decode, html_markdown, markdown, numeral, paged
from ragweave.tools.knowledge.settings import IndexSettings

_SKIPPED = frozenset(re.findall(r"\w+", "del moveFrom delText instrText Fallback pPr rPr rt bodyPr lstStyle"))
"""Deleted text, copies for older programs, properties."""
_SIGNS = {"tab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "sup": "^", "sub": "_", "den": "/", "rad": "√"}
"""What is shown before the text of an element; the last four are of formulas."""
_WORD_PARTS = frozenset(("styles", "numbering", "header", "footer", "footnotes", "endnotes", "comments"))


def open_package(data: bytes) -> zipfile.ZipFile:
    """Open a package that is not encrypted, and does not unpack to far more than a document."""
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise UnreadableError("encrypted, or of an Office before 2007")
    package = zipfile.ZipFile(io.BytesIO(data))
    size = sum(one.file_size for one in package.infolist())
    if size > max(2**26, 100 * len(data)):
        raise UnreadableError(f"unpacks to {size >> 20} MiB, more than a document should")
    return package


def read_xml(package: zipfile.ZipFile, name: str) -> Any:
    """Return the root element of a file; no entity is expanded and nothing is fetched.

    Elements and attributes lose their namespaces: strict and old Office files differ in those. Of
    `id` and `r:id`, `id` is the latter.
    """
    from lxml import etree

    parser: Any = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    root: Any = etree.fromstring(package.read(name), parser)
    for one in root.iter(etree.Element):
        one.tag = etree.QName(one).localname
        for key in [key for key in one.attrib if "}" in key]:
            one.set(key.rpartition("}")[2], one.attrib.pop(key))
    return root


def _beside(name: str, target: str) -> str:
    """Return the name of a file that another file of the package names relative to itself."""
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(name), unquote(target))).lstrip("/")


def _relations(package: zipfile.ZipFile, name: str) -> dict[str, tuple[str, str]]:
    """Return what a file of the package refers to: id → kind (`slide`, `chart`, …) and the other's name."""
    folder, file = posixpath.split(name)
    listed = f"{folder}/_rels/{file}.rels".lstrip("/")
    return {
        one.get("Id", ""): (one.get("Type", "").rpartition("/")[2], _beside(name, one.get("Target", "")))
        for one in (read_xml(package, listed) if listed in package.NameToInfo else ())
    }


def _texts(element: Any, name: str) -> list[str]:
    return [one.text or "" for one in element.iter(name)]


def _line(texts: Iterable[str]) -> str:
    return " ".join(" ".join(texts).split())


def _joined(blocks: Iterable[str]) -> str:
    return "\n\n".join(filter(None, blocks))


def _value(element: Any, path: str) -> str | None:
    """Return the attribute `val` of the element at a path, or None."""
    found = None if element is None else element.find(path)
    return None if found is None else found.get("val")


def _inside(element: Any, leaf: str) -> Iterator[Any]:
    """Yield the elements inside one that are shown, in their order; of a `leaf` not what is inside it."""
    for one in element.iterchildren("*"):
        if one.tag not in _SKIPPED and one.get("type") != "slidenum":
            yield one
            if one.tag != leaf:
                yield from _inside(one, leaf)


class _Numbers:
    """The numbers that Word shows before paragraphs, such as 2.2 or (a)."""

    def __init__(self, root: Any) -> None:
        self._levels = {
            one.get("abstractNumId"): {int(level.get("ilvl")): level for level in one.iter("lvl")}
            for one in root.iter("abstractNum")
        }
        self._lists = {one.get("numId"): one for one in root.iter("num")}
        self._counts: dict[str | None, dict[int, int]] = defaultdict(dict)
        self._begun: set[tuple[str, int]] = set()

    def next(self, list_id: str, at: int) -> str:
        """Count a paragraph of a list and return what Word shows before it."""
        if (one := self._lists.get(list_id)) is None:
            return ""
        abstract = _value(one, "abstractNumId")
        levels, counts = self._levels.get(abstract, {}), self._counts[abstract]
        restart = None if (list_id, at) in self._begun else _value(one, f"lvlOverride[@ilvl='{at}']/startOverride")
        self._begun.add((list_id, at))
        first = {level: int(_value(form, "start") or 1) for level, form in levels.items()}
        counts[at] = int(restart) if restart else counts.get(at, first.get(at, 1) - 1) + 1
        for deeper in [one for one in counts if one > at]:
            del counts[deeper]
        form = levels.get(at)
        if form is None or _value(form, "numFmt") == "bullet":
            return "- "
        shown = _value(form, "lvlText") or ""
        for level in range(at + 1):
            number = numeral(counts.get(level, first.get(level, 1)), _value(levels.get(level), "numFmt") or "decimal")
            shown = shown.replace(f"%{level + 1}", number)
        return f"{shown} " if shown else ""


@dataclass
class _Reader:
    """Reads the paragraphs, tables, text boxes and charts of a Word or PowerPoint part."""

    package: zipfile.ZipFile
    part: str
    styles: dict[str | None, Any] = field(default_factory=dict)
    """Word's paragraph styles by id."""
    numbers: _Numbers | None = None
    notes: dict[tuple[str, str | None], str] = field(default_factory=dict)
    """Texts of footnotes, endnotes and comments by the element that refers to them, and id."""

    def blocks(self, element: Any) -> Iterator[str]:
        """Yield the Markdown blocks of an element; what a paragraph contains besides its text follows it."""
        for one in _inside(element, "tbl"):
            if one.tag == "p":
                text = "".join(map(self._shown, _inside(one, "p")))
                text = "\n".join(filter(None, (_line([line]) for line in text.splitlines())))
                yield self._mark(one.find("pPr"), text) if text else ""
            elif one.tag == "tbl":
                yield from self._table(one)
            elif one.tag in ("chart", "relIds"):
                yield from self._related(one)
            elif one.tag == "ser":
                yield _series(one)
            elif one.tag == "cNvPr":
                yield alt_text(one.get("descr"))
            elif note := self.notes.get((one.tag, one.get("id"))):
                yield f"{self._shown(one) or 'Comment'}: {note}"

    def _shown(self, one: Any) -> str:
        """Return what an element itself adds to the text of its paragraph."""
        if one.tag in ("footnoteReference", "endnoteReference"):
            return f"[^{one.get('id')}]" if (one.tag, one.get("id")) in self.notes else ""
        text = alt_text(one.get("descr")) if one.tag == "docPr" else one.text if one.tag == "t" else None
        return text or _SIGNS.get(one.tag, "")

    def _mark(self, properties: Any, text: str) -> str:
        """Return a paragraph's text with the number and heading marks of its style."""
        chain, names, style = [properties], list[str](), _value(properties, "pStyle")
        while style in self.styles and len(chain) < 10:
            names.append((_value(self.styles[style], "name") or "").lower())
            chain.append(self.styles[style].find("pPr"))
            style = _value(self.styles[style], "basedOn")
        lists, levels = ([*filter(None, (_value(one, f"numPr/{name}") for one in chain))] for name in ("numId", "ilvl"))
        if self.numbers is not None and lists:
            text = self.numbers.next(lists[0], int(levels[0]) if levels else 0) + text
        if not (found := re.search(r"^title\b|heading (\d)", " ".join(names))):
            return text
        return f"{'#' * min(int(found[1] or 1), 6)} {_line([text])}"

    def _table(self, element: Any) -> Iterator[str]:
        """Yield a table; a single column is a frame around text."""
        rows = [
            [one for one in _inside(row, "tc") if one.tag == "tc"] for row in _inside(element, "tr") if row.tag == "tr"
        ]
        if max(map(len, rows), default=0) == 1:
            yield from (block for row in rows for cell in row for block in self.blocks(cell))
            return
        above: dict[int, str] = {}
        lines: list[str] = []
        for row in rows:
            cells: list[str] = []
            for cell in row:
                merged = cell.find("tcPr/vMerge")
                if cell.get("vMerge") != "1" and (merged is None or merged.get("val") == "restart"):
                    above[len(cells)] = _line(self.blocks(cell)).replace("|", "\\|")
                span = int(_value(cell, "tcPr/gridSpan") or 1)
                cells += [above.get(len(cells), "")] + [""] * min(span - 1, 100)
            lines.append(f"| {' | '.join(cells)} |")
            if len(lines) == 1:
                lines.append("|" + " --- |" * len(cells))
        yield "\n".join(lines)

    def _related(self, element: Any) -> Iterator[str]:
        """Yield the texts of a chart or diagram, which are files of their own."""
        related = _relations(self.package, self.part)
        for ident in (element.get("id"), element.get("dm")):
            if ident in related:
                with suppress(Exception):  # a broken one loses nothing but itself
                    yield from self.blocks(read_xml(self.package, related[ident][1]))


def _series(element: Any) -> str:
    """Return a series of a chart as `name: category value, …`."""
    found = {part.tag: _texts(part, "v") for part in element}
    names, values = (found.get(a) or found.get(b) or [] for a, b in (("cat", "xVal"), ("val", "yVal")))
    pairs = zip_longest(names, values, fillvalue="")
    return f"{_line(found.get('tx', ())) or 'series'}: {', '.join(map(_line, pairs))}"


def _main(package: zipfile.ZipFile, usual: str) -> str:
    return next((name for kind, name in _relations(package, "").values() if kind == "officeDocument"), usual)


def load_docx(name: str, data: bytes, _settings: IndexSettings) -> Iterator[Loaded | str]:
    """Load a Word document with list numbers, notes, comments, text boxes and page headers."""
    package = open_package(data)
    main = _main(package, "word/document.xml")
    reader = _Reader(package, main)
    margins: dict[str, None] = {}
    for kind, target in _relations(package, main).values():
        if kind in _WORD_PARTS:
            try:
                margins |= dict.fromkeys(_take(reader, kind, target))
            except Exception as error:  # noqa: BLE001 - the document can be read
                yield f"{kind}: {error}"
    text = _joined([*margins, *reader.blocks(read_xml(package, main))])
    yield markdown(text, name)


def _take(reader: _Reader, kind: str, part: str) -> Iterator[str]:
    """Give a reader styles, numbers or notes; yield the texts of a page header or footer."""
    root = read_xml(reader.package, part)
    if kind == "styles":
        reader.styles = {one.get("styleId"): one for one in root.iter("style")}
    elif kind == "numbering":
        reader.numbers = _Numbers(root)
    elif kind in ("header", "footer"):
        yield from _Reader(reader.package, part).blocks(root)
    else:
        for one in root:
            reader.notes[f"{kind[:-1]}Reference", one.get("id")] = _line(_Reader(reader.package, part).blocks(one))


def load_pptx(name: str, data: bytes, _settings: IndexSettings) -> Iterator[Loaded | str]:
    """Load a presentation: a slide is a page, its title a heading; its notes follow its text."""
    package = open_package(data)
    main = _main(package, "ppt/presentation.xml")
    related = _relations(package, main)
    slides = []
    for number, one in enumerate(read_xml(package, main).iter("sldId"), 1):
        try:
            title, blocks = _slide(package, related[one.get("id")][1])
            # A slide without a title ends the section of the one before it.
            slides.append(_joined([f"# {title or f'Slide {number}'}", *blocks]) + "\n" if title or blocks else "")
        except Exception as error:  # noqa: BLE001 - the other slides can be read
            slides.append("")
            yield f"slide {number}: {error}"
    deck = paged(slides, name)
    yield replace(markdown(deck.text, name), pages=deck.pages)


def _slide(package: zipfile.ZipFile, part: str) -> tuple[str, list[str]]:
    """Return the title of a slide, and its other texts and notes."""
    slide = read_xml(package, part)
    title = ""
    for one in slide.xpath("(//sp[.//ph[@type='title' or @type='ctrTitle']])[1]"):
        title = _line(_texts(one, "t"))
        one.getparent().remove(one)
    blocks = [*filter(None, _Reader(package, part).blocks(slide))]
    for kind, target in _relations(package, part).values():
        if kind == "notesSlide" and target in package.NameToInfo:
            blocks += _Reader(package, target).blocks(read_xml(package, target))
    return title, blocks


def load_epub(name: str, data: bytes, _settings: IndexSettings) -> Iterator[Loaded | str]:
    """Load the chapters of a book in their order, as one Markdown text."""
    package = open_package(data)
    part = next((one.get("full-path") for one in read_xml(package, "META-INF/container.xml").iter("rootfile")), "")
    book = read_xml(package, part)
    items = {one.get("id"): one.get("href", "") for one in book.iter("item")}
    texts = []
    for one in book.iter("itemref"):
        href = items.get(one.get("idref"), "")
        try:
            source, _ = decode(package.read(_beside(part, href)))
            texts.append(html_markdown(source, whole=True)[1])
        except Exception as error:  # noqa: BLE001 - the other chapters can be read
            yield f"chapter {href}: {error}"
    yield markdown("\n\n".join(texts), name, _line(_texts(book, "title")[:1]))
