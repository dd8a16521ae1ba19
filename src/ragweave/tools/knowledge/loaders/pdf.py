"""PDF, page by page: text, form fields and notes, by PDFium. A line names the pages that cannot be read.

Text in scans and pictures is recognised by RapidOCR. Its wheel contains its models, so it needs no network.
"""

from __future__ import annotations

import ctypes
import io
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from operator import itemgetter
from typing import Any

from ragweave.errors import MissingExtraError
from ragweave.tools.knowledge.chunking import Loaded, UnreadableError
from ragweave.tools.knowledge.loaders.text import paged
from ragweave.tools.knowledge.settings import Settings

_FEW_LETTERS = 200
"""Letters on a page up to which they may be a stamp or header over a scan."""
_SCAN = 0.4
"""Share of the page that pictures cover from which it may be a scan."""
_UNMAPPED = 0.3
"""Share of the letters without a meaning from which a page cannot be read."""
_ROWS = 5
"""Fewest lines of two columns."""
_GAP = 1 / 60
"""Narrowest space between two columns, as a share of the page's width."""
_PICTURE = "a picture that was not read"
_DPI = 150
_LONGEST_SIDE = 4000
"""Pixels of a rendered page."""
_LOCK = threading.Lock()
"""Neither RapidOCR nor PDFium is thread-safe."""
_NEED_OCR = ' (to recognise it: pip install "ragweave[ocr]")'


def load_pdf(name: str, data: bytes, _settings: Settings) -> Iterator[Loaded | str]:
    """Load the text of a PDF with the offset at which each page begins."""
    import pypdfium2

    texts: list[str] = []
    troubles: dict[str, list[int]] = defaultdict(list)
    with _LOCK, pypdfium2.PdfDocument(data) as document:
        document.init_forms()
        for number in range(len(document)):
            try:
                text, trouble = _page(document[number])
            except pypdfium2.PdfiumError as error:  # the other pages can be read
                text, trouble = "", f"damaged ({error})"
            texts.append(text)
            if trouble:
                troubles[trouble].append(number + 1)
        name = " ".join(document.get_metadata_value("Title").split()) or name
    notes = [f"{_named(on)}: {what}" for what, on in troubles.items()]
    if not any(text.strip() for text in texts):
        raise UnreadableError(": ".join(filter(None, ["PDF without text", "; ".join(notes)])))
    yield from notes
    yield paged(texts, name)


def _page(page: Any) -> tuple[str, str]:
    """Return the text of a page, with fields and notes at the end, and what could not be read."""
    from pypdfium2 import raw

    chars = page.get_textpage()
    text, fields = _text(page.get_width(), chars), [*_annotations(page)]
    pictures = [one.get_bounds() for one in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE])]
    covered = sum((right - left) * (top - bottom) for left, bottom, right, top in pictures)
    unmapped = sum(raw.FPDFText_HasUnicodeMapError(chars, at) == 1 for at in range(chars.count_chars()))
    trouble = ""
    if unmapped > _UNMAPPED * len(text):
        text, trouble = "", "text that cannot be read, as its font maps no letters"
    elif covered >= _SCAN * page.get_width() * page.get_height() and sum(map(str.isalnum, text)) <= _FEW_LETTERS:
        trouble = _PICTURE
    elif not text.strip() and not fields:
        if not raw.FPDFPage_CountObjects(page):
            return "", "empty or damaged"
        trouble = _PICTURE
    if trouble and available():
        found = recognised_page(page)
        text, trouble = found or text, "" if found else "nothing that can be recognised"
    elif trouble:
        trouble += _NEED_OCR
    return "\n".join(filter(None, [text, *fields])), trouble


def _text(width: float, chars: Any) -> str:
    """Return the text of a page in the order of the file, or column by column if its lines run across two of prose."""
    start = _second_column(width, chars)
    text = chars.get_text_range() if start is None else _by_columns(start, width * _GAP, chars)
    return re.sub("\ufffe\n?", "-\n", text.replace("\r\n", "\n"))  # PDFium's mark of a hyphen that ends a line


def _second_column(width: float, chars: Any) -> int | None:
    """Return where the second of two columns begins, if their lines take turns in the file."""
    parts: list[tuple[float, ...]] = []  # boxes of what stands on one line without a gap, whatever its fonts
    for at in range(chars.count_rects()):
        box = chars.get_rect(at)
        if parts and _beside(parts[-1], box) and abs(box[0] - parts[-1][2]) < width * _GAP:
            box = parts.pop()[0], *box[1:]
        parts.append(box)
    starts = Counter(
        round(right[0])
        for left, right in pairwise(parts)
        if _beside(left, right) and left[2] < right[0] and min(left[2] - left[0], right[2] - right[0]) > width / 5
    )
    start, lines = max(starts.items(), key=itemgetter(1), default=(0, 0))
    return start if lines >= _ROWS else None


def _beside(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Return whether two boxes (left, bottom, right, top) are on one line."""
    return one[1] < other[3] and other[1] < one[3]


def _by_columns(start: int, gap: float, chars: Any) -> str:
    """Return the text of two columns, the second beginning at `start`; what crosses both divides them."""
    from pypdfium2 import raw

    lines: list[list[int]] = [[]]
    for at in range(chars.count_chars()):
        code = raw.FPDFText_GetUnicode(chars, at)
        if code not in (10, 13):
            lines[-1].append(at)
        if code in (2, 10):  # 2 is a hyphen that ends a line
            lines.append([])
    columns: tuple[list[str], list[str]] = [], []
    found: list[str] = []
    for line in filter(None, lines):
        boxes = [chars.get_charbox(at) for at in line]
        cut = next((at for at, box in enumerate(boxes) if box[0] > start - 2), len(line))
        end = max((box[2] for box in boxes[:cut]), default=0)
        if end > start or (0 < cut < len(line) and boxes[cut][0] - end < gap):
            found += [*columns[0], *columns[1], chars.get_text_range(line[0], len(line))]
            columns = [], []
            continue
        for column, part in zip(columns, (line[:cut], line[cut:]), strict=True):
            column.extend([chars.get_text_range(part[0], len(part))] if part else ())
    return "\n".join([*found, *columns[0], *columns[1]])


def _annotations(page: Any) -> Iterator[str]:
    """Yield notes written on a page, and the values of form fields as `name: value`."""
    from pypdfium2 import raw

    form = page.formenv
    for at in range(raw.FPDFPage_GetAnnotCount(page)):
        one = raw.FPDFPage_GetAnnot(page, at)
        kind = raw.FPDFAnnot_GetSubtype(one)
        if kind == raw.FPDF_ANNOT_FREETEXT:
            yield _string(raw.FPDFAnnot_GetStringValue, one, b"Contents")
        elif kind == raw.FPDF_ANNOT_WIDGET and form:
            named = (raw.FPDFAnnot_GetFormFieldAlternateName, raw.FPDFAnnot_GetFormFieldName)
            name = next(filter(None, (_string(get, form, one) for get in named)), "")
            value = _string(raw.FPDFAnnot_GetFormFieldValue, form, one)
            field = raw.FPDFAnnot_GetFormFieldType(form, one)
            if field in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
                chosen = "yes" if field == raw.FPDF_FORMFIELD_CHECKBOX else value
                value = chosen if raw.FPDFAnnot_IsChecked(form, one) else ""
            if value:
                yield f"{name}: {value}" if name else value
        raw.FPDFPage_CloseAnnot(one)


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


def load_image(name: str, data: bytes, _settings: Settings) -> Iterator[Loaded | str]:
    """Load the text that a picture shows; each frame of a TIFF is a page."""
    if not available():
        raise UnreadableError(str(MissingExtraError("Reading pictures", "ocr")))
    from PIL import Image, ImageSequence

    pages: list[str] = []
    with _LOCK, Image.open(io.BytesIO(data)) as image:
        try:
            pages.extend(recognised(frame) for frame in ImageSequence.Iterator(image))
        except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises on a broken frame
            yield f"damaged from picture {len(pages) + 1} on ({error})"
    if not any(pages):
        raise UnreadableError("a picture without text")
    yield paged(pages, name) if pages[1:] else Loaded(pages[0], name)


def recognised(image: Any) -> str:
    """Return the lines of text that a PIL image shows."""
    import numpy as np
    from PIL import Image, ImageOps

    upright = ImageOps.exif_transpose(image).convert("RGBA")  # phones store photos as the sensor saw them
    opaque = Image.alpha_composite(Image.new("RGBA", upright.size, "white"), upright).convert("RGB")
    pixels = np.asarray(opaque)[:, :, ::-1]  # OpenCV's order: blue, green, red
    return "\n".join(_engine()(pixels).txts or ())


def recognised_page(page: Any) -> str:
    """Return the text that a page of a PDF shows, however it is drawn."""
    return recognised(page.render(scale=min(_DPI / 72, _LONGEST_SIDE / max(*page.get_size(), 1))).to_pil())


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    return RapidOCR(params={"Global.log_level": "error"})
