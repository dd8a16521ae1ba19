"""PDF by PDFium: text, form fields and notes, page by page. A notice names the pages that cannot be read.

Text in scans and pictures is recognised by RapidOCR. Its models come in its wheel, so it needs no network.
"""

import ctypes
import io
import re
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, NamedTuple

from ragweave.errors import MissingExtraError
from ragweave.tools.knowledge.chunking import Loaded, Table, UnreadableError, Word
from ragweave.tools.knowledge.loaders.ruled import in_order
from ragweave.tools.knowledge.loaders.text import dated, paged, readable
from ragweave.tools.knowledge.settings import IndexSettings

_FEW_LETTERS = 200
"""A page with no more letters may be a scan under a stamp or header."""
_SCAN = 0.4
"""A page may be a scan if pictures cover at least this share of it."""
_UNMAPPED = 0.3
"""A page cannot be read if a larger share of its letters has no Unicode value."""
_SCANNED = "a picture that was not read"
_DPI = 150
LONGEST_SIDE = 4000
"""Longest side of a rendered page, in pixels."""
_SHORT_SIDE = 320
"""Pixels to which RapidOCR enlarges the shorter side of a picture. At its own 736, it sees the words of a small
picture apart, and misreads them."""
_LONG_SIDE = 842
"""Points that the longer side of a picture has as a page, unless it has fewer pixels."""
_RUNNING = 3
"""Pages that a running head or foot stands on, at least."""
_BARE = re.compile(r"\W*\0-?\d+\W*")
"""A page number by itself, as `_counted` has it."""
_ROWS = re.compile(r"(?m)^((?:\| [^\n\d]* \|\n)?)(?:\| [^\n]* \|(?:\n|\Z)){2,}")
"""Rows of tables; a first one without digits is their header."""
_LOCK = threading.Lock()
"""Neither RapidOCR nor PDFium is thread-safe."""
NEED_OCR = 'pip install "ragweave[ocr]"'
"""What notices say where OCR would read more."""


class Line(NamedTuple):
    """A line of text that was recognised."""

    text: str
    words: Sequence[Word]
    """Their offsets are the line's."""


@contextmanager
def opened(data: bytes) -> Iterator[Any]:
    """Open a PDF with its forms; nothing else runs in PDFium meanwhile."""
    import pypdfium2

    with _LOCK, pypdfium2.PdfDocument(data) as document:
        document.init_forms()
        yield document


def load_pdf(name: str, data: bytes, _settings: IndexSettings) -> Iterator[Loaded | str]:
    """Load the text of a PDF, with the offset of each page."""
    texts: list[str] = []
    scans: list[Sequence[Line]] = []
    problems: dict[str, list[int]] = defaultdict(list)
    with opened(data) as document:
        for number in range(len(document)):
            try:
                text, lines, problem = _page(document[number])
            except Exception as error:  # noqa: BLE001 - the other pages can be read
                text, lines, problem = "", (), f"damaged ({error})"
            texts.append(text)
            scans.append(lines)
            if problem:
                problems[problem].append(number + 1)
        name = " ".join(document.get_metadata_value("Title").split()) or name
        changed = document.get_metadata_value("ModDate") or document.get_metadata_value("CreationDate")
    notes = [f"{_named(on)}: {what}" for what, on in problems.items()]
    if not any(text.strip() for text in texts):
        raise UnreadableError(": ".join(filter(None, ["PDF without text", "; ".join(notes)])))
    yield from notes
    loaded = _with_words(paged(_without_running_heads(texts), name), scans)
    tables = _ROWS.finditer(loaded.text) if any(map(_ROWS.search, texts)) else ()
    loaded = replace(loaded, tables=tuple(Table(rows.start(), rows.end(1), rows.end()) for rows in tables))
    yield dated(loaded, properties=changed.removeprefix("D:")[:8])


def _with_words(loaded: Loaded, scans: Iterable[Sequence[Line]]) -> Loaded:
    """Return a text with the words of its pages that were recognised, except of lines that were left out or changed."""
    words: list[Word] = []
    for at, lines in zip(loaded.pages or (0,), scans, strict=True):
        end = at
        for line in lines:
            start, end = end, end + (len(line.text) if loaded.text.startswith(line.text, end) else 0)
            words += (Word(start + word.start, start + word.end, word.box) for word in line.words if end > start)
            end = loaded.text.find("\n", end) + 1 or len(loaded.text)
    return replace(loaded, words=tuple(words))


def _without_running_heads(pages: list[str]) -> list[str]:
    """Return texts of pages without the first and last lines that at least three pages share, except on the first.

    Page numbers are left out of the comparison: a number is one if it goes up with the pages. Where no sentences run on
    from page to page, as in forms, tickets and slides, such a line may be one of the text: only bare numbers are left out.
    """
    lines = [page.split("\n") for page in pages]
    edges = {(number, at) for number, page in enumerate(lines) for at in (*range(2), *range(len(page) - 2, len(page)))}
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, at in sorted(edge for edge in edges if 0 <= edge[1] < len(lines[edge[0]])):
        line = "" if lines[number][at].startswith("| ") else " ".join(lines[number][at].split())
        for key in {line, *(_counted(line, match, number) for match in re.finditer(r"\d+", line))} - {""}:
            places[key].append((number, at))
    running = {key: same for key, same in places.items() if len({number for number, _ in same}) >= _RUNNING}
    if not _run_on(lines, {place for same in running.values() for place in same}):
        running = {key: same for key, same in running.items() if _BARE.fullmatch(key)}
    for same in running.values():
        for number, at in same[1:]:
            lines[number][at] = ""
    return ["\n".join(page) for page in lines]


def _run_on(pages: list[list[str]], heads: Collection[tuple[int, int]]) -> bool:
    """Return whether sentences run on from page to page, beside the lines at some places: at every fourth break or more."""
    texts = [
        [line.strip() for at, line in enumerate(page) if line.strip() and (number, at) not in heads]
        for number, page in enumerate(pages)
    ]
    breaks = [(before[-1][-1], after[0][0]) for before, after in pairwise(filter(None, texts))]
    runs = sum((last.isalnum() or last in ",;-") and first.isalpha() and not first.isupper() for last, first in breaks)
    return 4 * runs >= len(breaks)


def _counted(line: str, number: re.Match[str], page: int) -> str:
    """Return a line with a number as its distance from the page's."""
    return f"{line[: number.start()]}\0{int(number[0][:9]) - page}{line[number.end() :]}"


def _page(page: Any) -> tuple[str, Sequence[Line], str]:
    """Return the text of a page, with fields and notes at the end; its lines, if recognised; and what was not read."""
    from pypdfium2 import raw

    chars = page.get_textpage()
    text, fields = chars.get_text_range().replace("\r\n", "\n"), [text for text, _ in fields_of(page)]
    if tables := in_order(page, chars):
        text = "".join(tables[0]).replace("\r\n", "\n")
    text = text.replace("\ufffe", "-\n")  # PDFium's mark of a hyphen that ends a line
    pictures = [picture.get_bounds() for picture in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE])]
    covered = sum((right - left) * (top - bottom) for left, bottom, right, top in pictures)
    unmapped = sum(raw.FPDFText_HasUnicodeMapError(chars, at) == 1 for at in range(chars.count_chars()))
    lines, problem = list[Line](), ""
    if unmapped > _UNMAPPED * len(text):
        text, problem = "", "text that cannot be read, as its font maps no letters"
    elif covered >= _SCAN * page.get_width() * page.get_height() and sum(map(str.isalnum, text)) <= _FEW_LETTERS:
        problem = _SCANNED
    elif not text.strip() and not fields:
        if not raw.FPDFPage_CountObjects(page):
            return "", (), "empty or damaged"
        problem = _SCANNED
    if problem and available():
        lines = recognised_page(page)
        shown = "\n".join(line.text for line in lines)
        text, lines = (shown, lines) if len(shown) >= len(text) else (text, [])
        problem = "" if shown else "nothing that can be recognised"
    elif problem:
        problem += f" (to recognise it: {NEED_OCR})"
    return "\n".join(filter(None, [text, *fields])), lines, problem


def fields_of(page: Any) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
    """Yield notes written on a page, and form fields as `name: value`, with their left, bottom, right and top."""
    from pypdfium2 import raw

    form, rect = page.formenv, raw.FS_RECTF()
    for at in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation, text = raw.FPDFPage_GetAnnot(page, at), ""
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        if kind == raw.FPDF_ANNOT_FREETEXT:
            text = _string(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")
        elif kind == raw.FPDF_ANNOT_WIDGET and form:
            named = (raw.FPDFAnnot_GetFormFieldAlternateName, raw.FPDFAnnot_GetFormFieldName)
            name = next(filter(None, (_string(get, form, annotation) for get in named)), "")
            value = _string(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
            field = raw.FPDFAnnot_GetFormFieldType(form, annotation)
            if field in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
                chosen = "yes" if field == raw.FPDF_FORMFIELD_CHECKBOX else value
                value = chosen if raw.FPDFAnnot_IsChecked(form, annotation) else ""
            text = f"{name}: {value}" if name and value else value
        if text and raw.FPDFAnnot_GetRect(annotation, rect):
            yield text, (rect.left, rect.bottom, rect.right, rect.top)
        raw.FPDFPage_CloseAnnot(annotation)


def _string(get: Callable[..., int], *of: Any) -> str:
    """Return the text that a function of PDFium writes into a buffer."""
    from pypdfium2.raw import FPDF_WCHAR

    size = get(*of, None, 0)
    buffer = ctypes.create_string_buffer(size)
    get(*of, ctypes.cast(buffer, ctypes.POINTER(FPDF_WCHAR)), size)
    return buffer.raw[:-2].decode("utf-16-le", "replace")


def _named(pages: list[int]) -> str:
    more = f" and {len(pages) - 9} more" if len(pages) > 9 else ""
    return f"page{'s'[: len(pages) > 1]} {', '.join(map(str, pages[:9]))}{more}"


def available() -> bool:
    """Return whether RapidOCR (extra `ocr`) is installed."""
    return find_spec("rapidocr") is not None


def load_image(name: str, data: bytes, _settings: IndexSettings) -> Iterator[Loaded | str]:
    """Load the text that a picture shows; each frame of a TIFF is a page."""
    if not available():
        raise UnreadableError(str(MissingExtraError("Reading pictures", "ocr")))
    from PIL import Image, ImageSequence

    pages: list[Sequence[Line]] = []
    with _LOCK, Image.open(io.BytesIO(data)) as image:
        points = _points(image)
        try:
            pages.extend(recognised(_upright(frame), points) for frame in ImageSequence.Iterator(image))
        except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises on a broken frame
            yield f"damaged from picture {len(pages) + 1} on ({error})"
    if not any(pages):
        raise UnreadableError("a picture without text")
    texts = ["\n".join(line.text for line in lines) for lines in pages]
    yield _with_words(paged(texts, name) if pages[1:] else Loaded(readable(texts[0]), name), pages)


def as_pdf(data: bytes) -> bytes:
    """Return a picture as a PDF, each frame a page, as if it were A4 at its longer side."""
    from PIL import Image, ImageSequence

    file = io.BytesIO()
    frames: list[Any] = []
    with Image.open(io.BytesIO(data)) as image:
        with suppress(OSError, ValueError, SyntaxError):  # a broken frame, and those after it, were not read
            frames.extend(_upright(frame) for frame in ImageSequence.Iterator(image))
        frames[0].save(file, "PDF", save_all=True, append_images=frames[1:], resolution=72 / _points(frames[0]))
    return file.getvalue()


def _upright(image: Any) -> Any:
    """Return a PIL image as it is shown: on white, and turned as phones note, which store what the sensor saw."""
    from PIL import Image, ImageOps

    turned = ImageOps.exif_transpose(image).convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", turned.size, "white"), turned).convert("RGB")


def _points(image: Any) -> float:
    """Return how many points a pixel of a picture is, in all of its frames: as a PDF, it has one resolution."""
    width, height = image.size
    return min(1.0, _LONG_SIDE / max(int(width), int(height)))


def recognised(image: Any, points: float) -> list[Line]:
    """Return the lines of text that a PIL image shows, whose pixels are so many points."""
    import numpy as np

    result = _engine()(np.asarray(image)[:, :, ::-1], return_word_box=True)  # OpenCV's order: blue, green, red
    spelled = deque(result.word_results)
    lines: list[Line] = []
    for text, around in zip(result.txts, result.boxes, strict=True) if result.txts else ():
        parts = [(text, around)]
        if spelled and "".join(word for word, *_ in spelled[0]) == "".join(
            text.split()
        ):  # of some lines there are none
            parts = [(word, corners) for word, _, corners in spelled.popleft()]
        words, at = list[Word](), 0
        for word, corners in parts:
            at = text.index(word, at) + len(word)
            x, y = zip(*corners, strict=True)
            left, top, right, bottom = (points * float(edge) for edge in (min(x), min(y), max(x), max(y)))
            words.append(Word(at - len(word), at, (left, top, right, bottom)))
        lines.append(Line(text, words))
    return lines


def recognised_page(page: Any) -> list[Line]:
    """Return the lines of text that a page of a PDF shows, however it is drawn."""
    scale = min(_DPI / 72, LONGEST_SIDE / max(*page.get_size(), 1))
    return recognised(page.render(scale=scale).to_pil().convert("RGB"), 1 / scale)


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    return RapidOCR(params={"Global.log_level": "error", "Det.limit_side_len": _SHORT_SIDE})
