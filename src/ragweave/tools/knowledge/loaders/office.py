"""Word, PowerPoint and EPUB. A broken part is left out; the rest of the file is read."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ragweave.tools.knowledge.passages import Heading, Loaded, UnreadableError
from ragweave.tools.knowledge.settings import Notice
from ragweave.tools.knowledge.loaders.html import decode_html, html_markdown
from ragweave.tools.knowledge.loaders.packages import MARKUP, open_package, parse_xml, read_part
from ragweave.tools.knowledge.loaders.text import markdown

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_NOT_TEXT = ("drawing", "pict", "object")


def load_docx(path: Path, data: bytes) -> Iterator[Loaded | Notice]:
    """Load a Word document by MarkItDown, after what is no text was taken out of it.

    Raises:
        UnreadableError: It is damaged, encrypted or too large.
    """
    from lxml import etree
    from markitdown import StreamInfo
    from markitdown.converters import DocxConverter

    package = open_package(data)
    try:
        cleaned = _cleaned(package)
        converter: Any = DocxConverter
        made = converter().convert(
            cleaned, StreamInfo(extension=".docx"), escape_asterisks=False, escape_underscores=False
        )
    except (KeyError, etree.XMLSyntaxError, zipfile.BadZipFile) as error:
        raise UnreadableError(f"damaged .docx file ({str(error)[:100]})") from error
    except Exception as error:  # whatever part of the converter a broken part meets
        yield Notice(str(path), f"read as bare paragraphs ({str(error)[:100]})", partly=True)
        yield markdown("\n\n".join(_paragraphs(package)), path.stem)
        return
    text = re.sub(r"!\[[^\[\]]*\]\([^()]*\)", "", made.markdown)
    text = "\n\n".join(filter(None, [text, *_margins(package)]))
    yield markdown(text, path.stem, _core_title(package))


def _cleaned(package: zipfile.ZipFile) -> io.BytesIO:
    """Return the package without pictures and dangling links, its list numbers written out."""
    from lxml import etree

    names = set(package.namelist())
    root = parse_xml(package.read("word/document.xml"))
    notes = {kind: _note_ids(package, kind) for kind in ("footnote", "endnote")}
    boxes = [*root.iter(f"{_W}txbxContent")]
    for box in boxes:  # the text of a box stands within its drawing
        paragraph = next(box.iterancestors(f"{_W}p"), None)
        if paragraph is not None and not any(
            one.tag.endswith("}Fallback") for one in box.iterancestors()
        ):
            for one in reversed([*box.iterchildren()]):
                paragraph.addnext(one)
    for kind in _NOT_TEXT:
        for one in [*root.iter(f"{_W}{kind}")]:
            one.getparent().remove(one)
    for one in [*root.iter(f"{_W}hyperlink")]:
        one.attrib.pop(f"{_R}id", None)
    for kind, known in notes.items():
        for one in [*root.iter(f"{_W}{kind}Reference")]:
            if one.get(f"{_W}id") not in known:
                one.getparent().remove(one)
    for one in [*root.iter(f"{_W}commentReference")]:
        one.getparent().remove(one)
    _fill_merged(root)
    _number(root, package)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name in names - {"word/document.xml"}:
            if name.lower().endswith(MARKUP):
                held = package.read(name)
                if name.endswith(".rels"):
                    held = _without_dangling(held, name, names)
                made.writestr(name, held)
        made.writestr("word/document.xml", etree.tostring(root))
    out.seek(0)
    return out


def _note_ids(package: zipfile.ZipFile, kind: str) -> set[str]:
    name = f"word/{kind}s.xml"
    held = package.read(name).decode("utf-8", "replace") if name in package.NameToInfo else ""
    return set(re.findall(rf'<w:{kind}\b[^<>]*w:id="(-?\d+)"', held))


def _without_dangling(data: bytes, name: str, names: set[str]) -> bytes:
    """Drop relationships to parts that are not in the package, or are no text."""
    from lxml import etree

    root = parse_xml(data)
    folder = posixpath.dirname(posixpath.dirname(name))
    for one in [*root]:
        target = one.get("Target") or ""
        held = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
        if one.get("TargetMode") == "External" or held not in names or not held.endswith(MARKUP):
            root.remove(one)
    return bytes(etree.tostring(root))


def _fill_merged(root: Any) -> None:
    """Make a table's first row its header, and repeat the text of cells merged over rows."""
    from copy import deepcopy

    from lxml import etree

    for table in root.iter(f"{_W}tbl"):
        first = table.find(f"{_W}tr")
        if first is not None and table.find(f"{_W}tr/{_W}trPr/{_W}tblHeader") is None:
            properties = first.find(f"{_W}trPr")
            if properties is None:
                properties = etree.Element(f"{_W}trPr")
                first.insert(0, properties)
            etree.SubElement(properties, f"{_W}tblHeader")
        above: dict[int, Any] = {}
        for row in table.iterchildren(f"{_W}tr"):
            column = 0
            for cell in row.iterchildren(f"{_W}tc"):
                span = cell.find(f"{_W}tcPr/{_W}gridSpan")
                merge = cell.find(f"{_W}tcPr/{_W}vMerge")
                if merge is not None:
                    if merge.get(f"{_W}val") == "restart":
                        above[column] = cell
                    elif column in above:
                        for old in [*cell.iterchildren(f"{_W}p")]:
                            cell.remove(old)
                        for one in above[column].iterchildren(f"{_W}p"):
                            cell.append(deepcopy(one))
                    merge.getparent().remove(merge)
                column += int(span.get(f"{_W}val")) if span is not None else 1


def _number(root: Any, package: zipfile.ZipFile) -> None:
    """Write the numbers that Word shows, such as 2.2 or (a), before numbered paragraphs."""
    from lxml import etree

    if "word/numbering.xml" not in package.NameToInfo:
        return
    held = parse_xml(package.read("word/numbering.xml"))
    levels: dict[str, dict[int, tuple[str, str, int]]] = {}
    for one in held.iter(f"{_W}abstractNum"):
        levels[one.get(f"{_W}abstractNumId")] = {
            int(level.get(f"{_W}ilvl")): (
                _val(level, "numFmt") or "decimal",
                _val(level, "lvlText") or "",
                int(_val(level, "start") or 1),
            )
            for level in one.iter(f"{_W}lvl")
        }
    lists = {one.get(f"{_W}numId"): _val(one, "abstractNumId") for one in held.iter(f"{_W}num")}
    counts: dict[str, dict[int, int]] = defaultdict(dict)
    for paragraph in root.iter(f"{_W}p"):
        numbering = paragraph.find(f"{_W}pPr/{_W}numPr")
        name = lists.get(_val(numbering, "numId") or "") if numbering is not None else None
        at = int(_val(numbering, "ilvl") or 0) if numbering is not None else 0
        if name is None or at not in levels.get(name, {}):
            continue
        form, shown, start = levels[name][at]
        if form == "bullet":
            continue
        now = counts[name]
        now[at] = now[at] + 1 if at in now else start
        for deeper in [one for one in now if one > at]:
            del now[deeper]
        for level in range(at + 1):
            number = now.get(level, levels[name].get(level, ("", "", 1))[2])
            kind = levels[name].get(level, ("decimal", "", 1))[0]
            shown = shown.replace(f"%{level + 1}", _as(number, kind))
        run = etree.Element(f"{_W}r")
        etree.SubElement(run, f"{_W}t").text = f"{shown} "
        run[0].set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
        properties = paragraph.find(f"{_W}pPr")
        properties.remove(numbering)
        properties.addnext(run)


def _val(element: Any, name: str) -> str | None:
    found = element.find(f"{_W}{name}") if element is not None else None
    return found.get(f"{_W}val") if found is not None else None


def _as(number: int, kind: str) -> str:
    if kind.endswith("Letter"):
        text = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
    elif kind.endswith("Roman"):
        text = ""
        for worth, sign in ((10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")):
            text += sign * (number // worth)
            number %= worth
    else:
        return str(number)
    return text.upper() if kind.startswith("upper") else text


def _paragraphs(package: zipfile.ZipFile, part: str = "word/document.xml") -> Iterator[str]:
    """Yield the plain text of the paragraphs of a part."""
    root = parse_xml(package.read(part), recover=True)
    for paragraph in root.iter(f"{_W}p") if root is not None else ():
        text = "".join(one.text or "" for one in paragraph.iter(f"{_W}t"))
        if text.strip():
            yield text


def _margins(package: zipfile.ZipFile) -> Iterator[str]:
    """Yield what stands in page headers, footers and comments, each line once."""
    parts = (
        one for one in package.namelist() if re.match(r"word/(header|footer|comments)\d*\.xml", one)
    )
    yield from dict.fromkeys(text for part in sorted(parts) for text in _paragraphs(package, part))


def _core_title(package: zipfile.ZipFile) -> str:
    if "docProps/core.xml" not in package.NameToInfo:
        return ""
    held = package.read("docProps/core.xml").decode("utf-8", "replace")
    found = re.search(r"<dc:title>([^<]*)</dc:title>", held)
    title = " ".join(found[1].split()) if found else ""
    return "" if title in ("PowerPoint Presentation", "Word Document") else title


def load_pptx(path: Path, data: bytes) -> Iterator[Loaded | Notice]:
    """Load a presentation: a page a slide, its heading the slide's title; notes behind each.

    Raises:
        UnreadableError: It is damaged, encrypted or too large.
    """
    package = open_package(data)
    try:
        import pptx

        slides = [*pptx.Presentation(io.BytesIO(data)).slides]
    except Exception as error:  # whatever part of python-pptx a broken part meets
        raise UnreadableError(f"damaged .pptx file ({str(error)[:100]})") from error
    text, pages, headings = "", [], []
    for number, slide in enumerate(slides, 1):
        pages.append(len(text))
        try:
            title = slide.shapes.title
            name = " ".join(title.text_frame.text.split()) if title is not None else ""
        except Exception:  # noqa: BLE001
            title, name = None, ""
        # A slide without a title ends the section of the one before it.
        headings.append(Heading(len(text), 1, name or f"Slide {number}"))
        parts = [name] if name else []
        own = title.shape_id if title is not None else None
        parts += [one for shape in slide.shapes for one in _shape(shape, own)]
        try:
            if slide.has_notes_slide:
                parts.append(slide.notes_slide.notes_text_frame.text)
        except Exception:  # noqa: BLE001, S110 - the slide's own text was read
            pass
        text += "\n\n".join(part.strip() for part in parts if part.strip()) + "\n\n"
    if not text.strip():
        raise UnreadableError("presentation without text")
    title = _core_title(package) or path.stem
    yield Loaded(text, title, pages=tuple(pages), headings=tuple(headings))


def _shape(shape: Any, title: int | None) -> Iterator[str]:
    """Yield the texts of a shape; one that python-pptx does not know gives those of its XML."""
    try:
        if shape.shape_id == title:
            return
        if hasattr(shape, "shapes"):
            for one in shape.shapes:
                yield from _shape(one, title)
        elif getattr(shape, "has_table", False):
            rows = [[" ".join(cell.text.split()) for cell in row.cells] for row in shape.table.rows]
            lines = [f"| {' | '.join(row)} |" for row in rows]
            yield "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])
        elif getattr(shape, "has_chart", False):
            plot = shape.chart.plots[0]
            for series in plot.series:
                pairs = zip(plot.categories, series.values, strict=False)
                yield f"{series.name}: " + ", ".join(f"{name} {value}" for name, value in pairs)
        elif getattr(shape, "has_text_frame", False):
            yield shape.text_frame.text
    except Exception:  # noqa: BLE001 - the other shapes can be read
        yield " ".join(re.findall(r">([^<]+)</a:t>", _xml(shape)))


def _xml(shape: Any) -> str:
    from lxml import etree

    element = getattr(shape, "_element", None)
    return etree.tostring(element, encoding="unicode") if element is not None else ""


def load_epub(path: Path, data: bytes) -> Iterator[Loaded | Notice]:
    """Load the chapters of a book in their order, as one Markdown text.

    Raises:
        UnreadableError: It is damaged, encrypted or too large.
    """
    package = open_package(data)
    try:
        root = re.search(rb'full-path="([^"]+)"', package.read("META-INF/container.xml"))
        name = root[1].decode() if root else ""
        book = read_part(package, name).decode("utf-8", "replace")
    except (KeyError, zipfile.BadZipFile) as error:
        raise UnreadableError(f"damaged .epub file ({error})") from error
    items = {}
    for tag in re.findall(r"<(?:\w+:)?item\b[^<>]*>", book):
        ident, href = re.search(r'\bid="([^"]*)"', tag), re.search(r'\bhref="([^"]*)"', tag)
        if ident and href:
            items[ident[1]] = posixpath.join(posixpath.dirname(name), unquote(href[1]))
    texts, lost = [], []
    for ident in re.findall(r'<(?:\w+:)?itemref\b[^<>]*\bidref="([^"]*)"', book):
        try:
            source, _ = decode_html(read_part(package, items[ident]))
            texts.append(html_markdown(re.sub(r"^\s*<\?xml[^>]*>", "", source), whole=True)[1])
        except Exception:  # noqa: BLE001 - the other chapters can be read
            lost.append(ident)
    if lost:
        yield Notice(str(path), f"{len(lost)} chapters cannot be read ({lost[0]})", partly=True)
    found = re.search(r"<dc:title[^>]*>([^<]*)</dc:title>", book)
    yield markdown("\n\n".join(texts), path.stem, found[1].strip() if found else "")
