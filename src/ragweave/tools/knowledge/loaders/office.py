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
from functools import partial
from itertools import islice, zip_longest
from typing import Any
from urllib.parse import unquote

from ragweave.tools.knowledge.chunking import Loaded, UnreadableError
from ragweave.tools.knowledge.loaders.containers import Member
from ragweave.tools.knowledge.loaders.text import (
    alt_text,
    bracketed,
    dated,
    decode,
    html_markdown,
    markdown,
    numeral,
    paged,
    raised,
)
from ragweave.tools.knowledge.settings import IndexSettings

_SKIPPED = frozenset(re.findall(r"\w+", "del moveFrom delText instrText Fallback pPr rPr rt bodyPr lstStyle"))
"""Deleted text, copies for older programs, properties."""
_SIGNS = {"tab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "sup": "^", "sub": "_", "den": "/", "rad": "√"}
"""What is shown before the text of an element; the last four are of formulas."""
_OFF = frozenset(("0", "false", "off", "noStrike"))
"""Values of properties that are not set."""
_LEVELS = 9
"""Levels of Word's lists, from 0 (ECMA-376, part 1, 17.9.6)."""
_MAX_NUMBER = 100
"""Longest form of a list number, in characters; each paragraph of the list repeats it."""
_MAX_REPEATED = 1_000
"""Longest text of a merged cell, in characters, that each of its rows repeats."""
_WORD_PARTS = frozenset(("styles", "numbering", "header", "footer", "footnotes", "endnotes", "comments"))


def open_package(data: bytes) -> zipfile.ZipFile:
    """Open a package that is not encrypted, and does not unpack to far more than a document."""
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise UnreadableError("encrypted, or of an Office before 2007")
    package = zipfile.ZipFile(io.BytesIO(data))
    size = sum(entry.file_size for entry in package.infolist())
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
    for element in root.iter(etree.Element):
        element.tag = etree.QName(element).localname
        for key in [key for key in element.attrib if "}" in key]:
            element.set(key.rpartition("}")[2], element.attrib.pop(key))
    return root


def _beside(name: str, target: str) -> str:
    """Return the name of a file that another file of the package names relative to itself."""
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(name), unquote(target))).lstrip("/")


def _relations(package: zipfile.ZipFile, name: str) -> dict[str, tuple[str, str]]:
    """Return what a file of the package refers to: id → kind (`slide`, `chart`, …) and the other's name."""
    folder, file = posixpath.split(name)
    listed = f"{folder}/_rels/{file}.rels".lstrip("/")
    return {
        relation.get("Id", ""): (relation.get("Type", "").rpartition("/")[2], _beside(name, relation.get("Target", "")))
        for relation in (read_xml(package, listed) if listed in package.NameToInfo else ())
    }


def _texts(element: Any, name: str) -> list[str]:
    return [child.text or "" for child in element.iter(name)]


def _line(texts: Iterable[str]) -> str:
    return " ".join(" ".join(texts).split())


def _joined(blocks: Iterable[str]) -> str:
    return "\n\n".join(filter(None, blocks))


def _value(element: Any, path: str) -> str | None:
    """Return the attribute `val` of the element at a path, or None."""
    child = None if element is None else element.find(path)
    return None if child is None else child.get("val")


def _inside(element: Any, leaf: str) -> Iterator[Any]:
    """Yield the elements inside one that are shown, in their order; of a `leaf` not what is inside it."""
    for child in element.iterchildren("*"):
        if child.tag not in _SKIPPED and child.get("type") != "slidenum":
            yield child
            if child.tag != leaf:
                yield from _inside(child, leaf)


class _Numbers:
    """The numbers that Word shows before paragraphs, such as 2.2 or (a)."""

    def __init__(self, root: Any) -> None:
        self._levels = {
            abstract.get("abstractNumId"): {int(level.get("ilvl")): level for level in abstract.iter("lvl")}
            for abstract in root.iter("abstractNum")
        }
        self._lists = {numbering.get("numId"): numbering for numbering in root.iter("num")}
        self._counts: dict[str | None, dict[int, int]] = defaultdict(dict)
        self._begun: set[tuple[str, int]] = set()

    def next(self, list_id: str, at: int) -> str:
        """Count a paragraph of a list and return what Word shows before it."""
        if (numbering := self._lists.get(list_id)) is None or not 0 <= at < _LEVELS:
            return ""
        abstract = _value(numbering, "abstractNumId")
        levels, counts = self._levels.get(abstract, {}), self._counts[abstract]
        restart = (
            None if (list_id, at) in self._begun else _value(numbering, f"lvlOverride[@ilvl='{at}']/startOverride")
        )
        self._begun.add((list_id, at))
        first = {level: int((_value(form, "start") or "1")[:9]) for level, form in levels.items()}
        counts[at] = int(restart[:9]) if restart else counts.get(at, first.get(at, 1) - 1) + 1
        for deeper in [level for level in counts if level > at]:
            del counts[deeper]
        form = levels.get(at)
        if form is None or _value(form, "numFmt") == "bullet":
            return "- "
        shown = (_value(form, "lvlText") or "")[:_MAX_NUMBER]
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
    """Word's styles by id."""
    numbers: _Numbers | None = None
    notes: dict[tuple[str, str | None], str] = field(default_factory=dict)
    """Texts of footnotes, endnotes and comments by the element that refers to them, and id."""
    omitted: dict[str, None] = field(default_factory=dict)
    """Lines about what was left out."""
    read: set[str] = field(default_factory=set)
    """Parts and notes that were read: each is read once, however often the package refers to it."""

    def root(self) -> Any:
        """Return the root element of the part, with marks of runs and brackets of formulas as text."""
        root = read_xml(self.package, self.part)
        for run in [*root.iter("r")]:
            self._mark_run(run)
        for formula in root.iter("oMath"):
            _bracket(formula)
        return root

    def is_new(self, part: str) -> bool:
        """Return whether a part of the package was not read yet, and note that it is read now."""
        if part in self.read:
            return False
        self.read.add(part)
        return True

    def _mark_run(self, run: Any) -> None:
        """Mark raised and struck text as HTML pages give it; remove hidden text."""
        texts = [text for text in run.iterchildren("t") if text.text]
        if texts and self._property(run, "vanish"):
            run.getparent().remove(run)
            self.omitted["hidden text is left out"] = None
        elif texts:
            if self._is_raised(run) and not any(map(self._is_raised, islice(run.itersiblings("r", preceding=True), 1))):
                texts[0].text = raised(texts[0].text)
            if self._property(run, "strike") or self._property(run, "dstrike"):
                for text in texts:
                    text.text = re.sub(r"(?s)\S(?:.*\S)?", r"~~\g<0>~~", text.text)

    def _is_raised(self, run: Any) -> bool:
        return self._property(run, "vertAlign") == "superscript" or self._property(run, "baseline").isdecimal()

    def _property(self, run: Any, name: str) -> str:
        """Return the value of a property of a run or its style (in PowerPoint an attribute); "" if it is not set."""
        own = run.find("rPr")
        for properties in (own, *(style.find("rPr") for style in self._styles(_value(own, "rStyle")))):
            element = None if properties is None else properties.find(name)
            value = None if properties is None else properties.get(name)
            if element is not None:
                value = element.get("val", "1")
            if value is not None:
                return "" if value in _OFF else str(value)
        return ""

    def _styles(self, name: str | None) -> Iterator[Any]:
        """Yield a style and those that it is based on."""
        for _ in range(10):
            if name not in self.styles:
                return
            yield self.styles[name]
            name = _value(self.styles[name], "basedOn")

    def blocks(self, element: Any) -> Iterator[str]:
        """Yield the Markdown blocks of an element; what a paragraph contains besides its text follows it."""
        for child in _inside(element, "tbl"):
            if child.tag == "p":
                text = "".join(map(self._shown, _inside(child, "p"))).replace("~~~~", "")
                text = "\n".join(filter(None, (_line([line]) for line in text.splitlines())))
                yield self._mark(child.find("pPr"), text) if text else ""
            elif child.tag == "tbl":
                yield from self._table(child)
            elif child.tag in ("chart", "relIds"):
                yield from self._related(child)
            elif child.tag == "ser":
                yield _series(child)
            elif child.tag == "cNvPr":
                yield alt_text(child.get("descr"))
            elif (note := self.notes.get((child.tag, child.get("id")))) and self.is_new(
                f"{child.tag} {child.get('id')}"
            ):
                yield f"{self._shown(child) or 'Comment'}: {note}"

    def _shown(self, child: Any) -> str:
        """Return what an element itself adds to the text of its paragraph."""
        if child.tag in ("footnoteReference", "endnoteReference"):
            return f"[^{child.get('id')}]" if (child.tag, child.get("id")) in self.notes else ""
        if child.tag == "nary":
            return _value(child, "naryPr/chr") or "∫"
        text = alt_text(child.get("descr")) if child.tag == "docPr" else child.text if child.tag == "t" else None
        return text or _SIGNS.get(child.tag, "")

    def _mark(self, properties: Any, text: str) -> str:
        """Return a paragraph's text with the number and heading marks of its style."""
        styles = [*self._styles(_value(properties, "pStyle"))]
        chain = [properties, *(style.find("pPr") for style in styles)]
        names = [(_value(style, "name") or "").lower() for style in styles]
        lists, levels = (
            [*filter(None, (_value(part, f"numPr/{name}") for part in chain))] for name in ("numId", "ilvl")
        )
        if self.numbers is not None and lists:
            text = self.numbers.next(lists[0], int(levels[0]) if levels else 0) + text
        if not (heading := re.search(r"^title\b|heading (\d)", " ".join(names))):
            return text
        return f"{'#' * min(int(heading[1] or 1), 6)} {_line([text])}"

    def _table(self, element: Any) -> Iterator[str]:
        """Yield a table; a single column is a frame around text."""
        rows = [
            (int(_value(row, "trPr/gridBefore") or 0), [cell for cell in _inside(row, "tc") if cell.tag == "tc"])
            for row in _inside(element, "tr")
            if row.tag == "tr"
        ]
        if max((before + len(row) for before, row in rows), default=0) == 1:
            yield from (block for _, row in rows for cell in row for block in self.blocks(cell))
            return
        above: dict[int, str] = {}
        lines: list[str] = []
        for before, row in rows:
            cells = [""] * min(before, 100)
            for cell in row:
                merged = cell.find("tcPr/vMerge")
                if cell.get("vMerge") != "1" and (merged is None or merged.get("val") == "restart"):
                    text = _line(self.blocks(cell)).replace("|", "\\|")
                    above[len(cells)] = text[:_MAX_REPEATED]
                else:
                    text = above.get(len(cells), "")
                span = int(_value(cell, "tcPr/gridSpan") or 1)
                cells += [text] + [""] * min(span - 1, 100)
            lines.append(f"| {' | '.join(cells)} |")
            if len(lines) == 1:
                lines.append("|" + " --- |" * len(cells))
        yield "\n".join(lines)

    def _related(self, element: Any) -> Iterator[str]:
        """Yield the texts of a chart or diagram, which are files of their own."""
        related = _relations(self.package, self.part)
        for ident in (element.get("id"), element.get("dm")):
            if ident in related and self.is_new(related[ident][1]):
                with suppress(Exception):  # a broken one loses nothing but itself
                    yield from self.blocks(read_xml(self.package, related[ident][1]))


def _bracket(formula: Any) -> None:
    """Write brackets into a formula: those that only its form shows, and those that keep a part together."""
    for part in reversed([*formula.iter("num", "den", "sup", "sub", "e", "d")]):
        texts = [text for text in part.iter("t") if text.text]
        first, last = _value(part, "dPr/begChr"), _value(part, "dPr/endChr")
        if part.tag == "d":
            signs = "(" if first is None else first, ")" if last is None else last
        elif (part.tag == "e" and part.getparent().tag != "rad") or [child.tag for child in part] == ["d"]:
            continue
        else:
            text = "".join(text.text for text in texts)
            signs = bracketed(text if part.find(".//f") is None else f"{text}/")
        if texts:
            texts[0].text = f"{signs[0]}{texts[0].text}"
            texts[-1].text = f"{texts[-1].text}{signs[1]}"


def _series(element: Any) -> str:
    """Return a series of a chart as `name: category value, …`."""
    texts = {part.tag: _texts(part, "v") for part in element}
    names, values = (texts.get(a) or texts.get(b) or [] for a, b in (("cat", "xVal"), ("val", "yVal")))
    pairs = zip_longest(names, values, fillvalue="")
    return f"{_line(texts.get('tx', ())) or 'series'}: {', '.join(map(_line, pairs))}"


def changed(package: zipfile.ZipFile) -> str:
    """Return when a document says that it was changed last, or else made; "" if it does not."""
    parts = (name for kind, name in _relations(package, "").values() if kind == "core-properties")
    with suppress(Exception):  # broken properties lose nothing but themselves
        root = read_xml(package, next(parts))
        return str(root.findtext("modified") or root.findtext("created") or "")
    return ""


def _main(package: zipfile.ZipFile, usual: str) -> str:
    return next((name for kind, name in _relations(package, "").values() if kind == "officeDocument"), usual)


def load_docx(name: str, data: bytes, _settings: IndexSettings) -> Iterator[Loaded | Member | str]:
    """Load a Word document with list numbers, notes, comments, text boxes and page headers, then those within it."""
    package = open_package(data)
    reader = _Reader(package, _main(package, "word/document.xml"))
    related = dict.fromkeys(_relations(package, reader.part).values())
    margins: dict[str, None] = {}
    for kind, target in related:
        if kind in _WORD_PARTS and reader.is_new(target):
            try:
                margins |= dict.fromkeys(_take(reader, kind, target))
            except Exception as error:  # noqa: BLE001 - the document can be read
                reader.omitted[f"{kind}: {error}"] = None
    text = _joined([*margins, *reader.blocks(reader.root())])
    yield from reader.omitted
    yield dated(markdown(text, name), properties=changed(package))
    for part in (target for kind, target in related if kind == "aFChunk"):
        entry = package.NameToInfo.get(part)
        yield Member(part, entry.file_size if entry else 0, partial(package.read, part))


def _take(reader: _Reader, kind: str, part: str) -> Iterator[str]:
    """Give a reader styles, numbers or notes; yield the texts of a page header or footer."""
    beside = _Reader(reader.package, part, omitted=reader.omitted, read=reader.read)
    root = beside.root()
    if kind == "styles":
        reader.styles = {style.get("styleId"): style for style in root.iter("style")}
    elif kind == "numbering":
        reader.numbers = _Numbers(root)
    elif kind in ("header", "footer"):
        yield from beside.blocks(root)
    else:
        for note in root:
            reader.notes[f"{kind[:-1]}Reference", note.get("id")] = _line(beside.blocks(note))


def load_pptx(name: str, data: bytes, _settings: IndexSettings) -> Iterator[Loaded | str]:
    """Load a presentation: a slide is a page, its title a heading; its notes follow its text."""
    package = open_package(data)
    main = _main(package, "ppt/presentation.xml")
    related = _relations(package, main)
    slides: list[str] = []
    hidden: list[str] = []
    read: set[str] = set()
    for number, entry in enumerate(read_xml(package, main).iter("sldId"), 1):
        slides.append("")
        try:
            slide = _Reader(package, related[entry.get("id")][1], read=read)
            if not slide.is_new(slide.part):
                continue
            root = slide.root()
            if root.get("show") in _OFF:
                hidden.append(str(number))
                continue
            title, blocks = _slide(slide, root)
            # A slide without a title ends the section of the one before it.
            slides[-1] = _joined([f"# {title or f'Slide {number}'}", *blocks]) + "\n" if title or blocks else ""
        except Exception as error:  # noqa: BLE001 - the other slides can be read
            yield f"slide {number}: {error}"
    if hidden:
        yield f"hidden slides are left out: {', '.join(hidden)}"
    deck = paged(slides, name)
    yield dated(replace(markdown(deck.text, name), pages=deck.pages), properties=changed(package))


def _slide(slide: _Reader, root: Any) -> tuple[str, list[str]]:
    """Return the title of a slide, and its other texts and notes."""
    title = ""
    for shape in root.xpath("(//sp[.//ph[@type='title' or @type='ctrTitle']])[1]"):
        title = _line(_texts(shape, "t"))
        shape.getparent().remove(shape)
    blocks = [*filter(None, slide.blocks(root))]
    for kind, target in _relations(slide.package, slide.part).values():
        if kind == "notesSlide" and target in slide.package.NameToInfo and slide.is_new(target):
            notes = _Reader(slide.package, target, read=slide.read)
            blocks += notes.blocks(notes.root())
    return title, blocks


def load_epub(name: str, data: bytes, _settings: IndexSettings) -> Iterator[Loaded | str]:
    """Load the chapters of a book in their order, as one Markdown text."""
    package = open_package(data)
    part = next(
        (rootfile.get("full-path") for rootfile in read_xml(package, "META-INF/container.xml").iter("rootfile")), ""
    )
    book = read_xml(package, part)
    items = {item.get("id"): item.get("href", "") for item in book.iter("item")}
    texts = []
    for href in dict.fromkeys(items.get(reference.get("idref"), "") for reference in book.iter("itemref")):
        try:
            source, _ = decode(package.read(_beside(part, href)))
            texts.append(html_markdown(source, all_content=True)[1])
        except Exception as error:  # noqa: BLE001 - the other chapters can be read
            yield f"chapter {href}: {error}"
    title, published = (_line(_texts(book, part)[:1]) for part in ("title", "date"))
    yield dated(markdown("\n\n".join(texts), name, title), properties=published)
