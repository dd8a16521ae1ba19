"""Files that the tests make."""

import io
import zipfile
from pathlib import Path

from ragweave.tools.knowledge.chunking import Loaded, passages_of
from ragweave.tools.knowledge.loaders import load
from ragweave.tools.knowledge.settings import IndexSettings


def read(name, data, **settings):
    """Return the texts of a file, and its notices in one string."""
    raw = data if isinstance(data, bytes) else data.encode()
    items = list(load(Path(name), io.BytesIO(raw), IndexSettings(**settings)))
    notices = "; ".join(item for item in items if isinstance(item, str))
    return [item for item in items if isinstance(item, Loaded)], notices


def passages(loaded, embeddings=None, **settings):
    """Cut a text into passages."""
    return passages_of(loaded, IndexSettings(**settings), embeddings)


def zipped(**parts):
    """Pack parts into a zip; `__` in a name stands for `/`."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as package:
        for name, text in parts.items():
            package.writestr(name.replace("__", "/"), text)
    return file.getvalue()


def relationships(**targets):
    """Return the XML of relationships: id → (kind, target)."""
    links = "".join(
        f'<Relationship Id="{ident}" Type="http://x/{kind}" Target="{target}"/>'
        for ident, (kind, target) in targets.items()
    )
    return f"<Relationships>{links}</Relationships>"


def docx(body, related=None, **parts):
    """Return a Word document with this body, and parts of the folder `word`."""
    xml_parts = {f"word/{name}.xml": f'<w:part xmlns:w="w">{xml}</w:part>' for name, xml in parts.items()}
    related = {f"r{name}": (name, f"{name}.xml") for name in parts} | (related or {})
    return zipped(
        **{
            "_rels/.rels": relationships(r1=("officeDocument", "word/document.xml")),
            "word/_rels/document.xml.rels": relationships(**related),
            "word/document.xml": '<w:document xmlns:w="w" xmlns:m="m" xmlns:r="r">'
            f"<w:body>{body}</w:body></w:document>",
        },
        **xml_parts,
    )


def paragraph(text, properties=""):
    """Return a Word paragraph."""
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def pptx(*slides, **parts):
    """Return a presentation of slides, given as XML, or None for one that is missing."""
    names = {f"s{at}": ("slide", f"slides/slide{at}.xml") for at in range(len(slides))}
    listed = "".join(f'<p:sldId id="9" r:id="{name}"/>' for name in names)
    slide_parts = {
        f"ppt/slides/slide{at}.xml": f'<p:sld xmlns:p="p" xmlns:a="a" xmlns:r="r" xmlns:c="c">{xml}</p:sld>'
        for at, xml in enumerate(slides)
        if xml is not None
    }
    return zipped(
        **{
            "_rels/.rels": relationships(r1=("officeDocument", "/ppt/presentation.xml")),
            "ppt/_rels/presentation.xml.rels": relationships(**names),
            "ppt/presentation.xml": f'<p:x xmlns:p="p" xmlns:r="r">{listed}</p:x>',
        },
        **slide_parts,
        **parts,
    )


def pdf(*pages, objects=(), font="/Type /Font /Subtype /Type1 /BaseFont /Helvetica"):
    """Return a PDF of pages: (content stream, entries of the page such as `/Annots […]`).

    Object 3 is the font `/F1`; `objects` are numbered from 4.
    """
    first = 4 + len(objects)
    kids = " ".join(f"{first + 2 * at} 0 R" for at in range(len(pages)))
    fields = " ".join(f"{number} 0 R" for number, text in enumerate(objects, 4) if b"/T (" in text)
    pieces = [
        f"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [{fields}] >> >>".encode(),
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>".encode(),
        f"<< {font} >>".encode(),
        *objects,
    ]
    for at, (content, entries) in enumerate(pages):
        pieces.append(
            f"<< /Type /Page {entries} /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {first + 2 * at + 1} 0 R "
            f"/Resources << /Font << /F1 3 0 R >> /XObject << /Im 4 0 R >> >> >>".encode()
        )
        raw = content.encode("latin-1")
        pieces.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(raw), raw))
    out, starts = b"%PDF-1.7\n", []
    for number, piece in enumerate(pieces, 1):
        starts.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, piece)
    table = b"".join(b"%010d 00000 n \n" % at for at in starts)
    return out + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF"
        % (len(starts) + 1, table, len(starts) + 1, len(out))
    )


def shown(*lines):
    """Return a content stream that shows lines of text."""
    moves = " 0 -20 Td ".join(f"({line}) Tj" for line in lines)
    return f"BT /F1 12 Tf 50 700 Td {moves} ET"


WORDS = "word " * 4_000
CHART = '<w:chart w:id="c"/>'


def charts(count, inner, words=WORDS):
    """Return a Word file that refers to one chart so often, which refers to itself."""
    chart = f"<w:p><w:r><w:t>{words}</w:t></w:r></w:p>{CHART * inner}"
    return docx(CHART * count, {"c": ("chart", "chart.xml")}, chart=chart)


def book(count, words=WORDS):
    """Return a book with one chapter so often."""
    refs = '<itemref idref="c"/>' * count
    opf = f'<package><manifest><item id="c" href="c.xhtml"/></manifest><spine>{refs}</spine></package>'
    container = '<container><rootfiles><rootfile full-path="b.opf"/></rootfiles></container>'
    return zipped(**{"META-INF/container.xml": container, "b.opf": opf, "c.xhtml": f"<html><p>{words}</p></html>"})


def slides(count, words=WORDS):
    """Return a presentation with one slide so often."""
    parts = {
        "ppt/presentation.xml": f'<p xmlns:r="r">{"<sldId r:id=@s@/>" * count}</p>'.replace("@", '"'),
        "ppt/_rels/presentation.xml.rels": relationships(s=("slide", "s.xml")),
        "ppt/s.xml": f"<sld><p><t>{words}</t></p></sld>",
    }
    return zipped(**parts)


def numbered(level, form, count=1):
    """Return a Word file with items of a list at a level."""
    item = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="1"/></w:numPr>'
    shape = f'<w:lvl w:ilvl="{level}"><w:numFmt w:val="decimal"/><w:lvlText w:val="{form}"/></w:lvl>'
    lists = f'<w:abstractNum w:abstractNumId="0">{shape}</w:abstractNum>'
    numbering = f'{lists}<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
    return docx(paragraph("Fees", item) * count, numbering=numbering)
