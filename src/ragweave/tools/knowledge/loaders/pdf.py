"""PDF, page by page: text, form fields and notes; what cannot be read is named by its page."""

from __future__ import annotations

import io
import logging
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragweave.tools.knowledge.passages import Loaded, UnreadableError
from ragweave.tools.knowledge.settings import Notice

_FEW_LETTERS = 200
"""Letters on a page up to which they may be a stamp or header over a scan."""
_SCAN = 0.4
"""Share of the page that a picture covers from which it may be a scan."""
_GLYPHS = re.compile(r"/[A-Za-z]{1,3}[0-9A-F]{1,4}(?=/|\s|$)")
"""Names of glyphs, which pypdf gives where a font does not say what they stand for."""


def load_pdf(path: Path, data: bytes) -> Iterator[Loaded | Notice]:
    """Load the text of a PDF with the offset at which each page begins.

    Raises:
        UnreadableError: It is locked or damaged, or no page has text.
    """
    import pypdf

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableError("PDF with a password")
        count = len(reader.pages)
        information: Any = reader.metadata or {}
        title = " ".join(str(information.get("/Title") or "").split())
    except UnreadableError:
        raise
    except pypdf.errors.DependencyError as error:
        raise UnreadableError('encrypted PDF: pip install "pypdf[crypto]"') from error
    except Exception as error:  # whatever part of pypdf a broken file meets
        raise UnreadableError(f"damaged PDF ({_line(error)})") from error
    texts: list[str] = []
    troubles: dict[str, list[int]] = defaultdict(list)
    for number in range(count):
        try:
            text, trouble = _page(reader.pages[number])
        except Exception as error:  # the other pages can be read
            text, trouble = "", f"damaged ({_line(error)})"
        texts.append(text)
        if trouble:
            troubles[trouble].append(number + 1)
    told = [f"page{'s'[: len(on) > 1]} {_ranges(on)}: {what}" for what, on in troubles.items()]
    if not any(text.strip() for text in texts):
        raise UnreadableError(f"PDF without text{': ' * bool(told)}{'; '.join(told)}")
    yield from (Notice(str(path), one, partly=True) for one in told)
    starts, length = [], 0
    for text in texts:
        starts.append(length)
        length += len(text) + 1
    yield Loaded("\n".join(texts), title or path.stem, pages=tuple(starts))


def _page(page: Any) -> tuple[str, str]:
    """Return the text of a page, fields and notes behind it, and what could not be read of it."""
    width, height = float(page.mediabox.width) or 1, float(page.mediabox.height) or 1
    covered = 0.0

    def seen(operator: bytes, operands: Any, matrix: Any, _text: Any) -> None:
        nonlocal covered
        if operator == b"Do" and _is_image(page, operands):
            area = abs(matrix[0] * matrix[3] - matrix[1] * matrix[2])
            covered = max(covered, area / (width * height))

    text = page.extract_text(visitor_operand_before=seen) or ""
    lines = text.split("\n")
    readable = [] if _unmapped(page) else [one for one in lines if not _is_garbage(one)]
    letters = sum(map(str.isalnum, text))
    trouble = ""
    if any(one.strip() for one in lines) and len(readable) < len(lines):
        text = "\n".join(readable)
        trouble = "letters that its fonts do not map to text; needs OCR"
    elif covered >= _SCAN and letters <= _FEW_LETTERS:
        text = text if letters else ""
        trouble = "a picture with little text over it; needs OCR"
    more = list(_annotations(page))
    if not text.strip() and not trouble and not more and _has_content(page):
        trouble = "no text can be read"
    return "\n".join(filter(None, [text, *more])), trouble


def _is_image(page: Any, operands: Any) -> bool:
    try:
        found = page["/Resources"]["/XObject"][operands[0]].get_object()
        return bool(found["/Subtype"] == "/Image")
    except (KeyError, IndexError, TypeError, AttributeError):
        return False


def _is_garbage(text: str) -> bool:
    """Say whether a line is names of glyphs, or signs from where fonts put letters of their own."""
    glyphs = sum(len(one.group()) for one in _GLYPHS.finditer(text))
    own = sum("\ue000" <= one <= "\uf8ff" or one == "\ufffd" for one in text)
    return own + glyphs > 0.3 * len("".join(text.split())) and own + glyphs > 3


def _unmapped(page: Any) -> bool:
    """Say whether all fonts of a page number their glyphs without saying what these stand for."""
    fonts = (page.get("/Resources") or {}).get("/Font")
    fonts = [one.get_object() for one in (fonts.get_object() if fonts else {}).values()]
    return bool(fonts) and all(map(_is_unmapped, fonts))


def _is_unmapped(font: Any) -> bool:
    if font.get("/Subtype") != "/Type0" or "/ToUnicode" in font:
        return False
    inner = font["/DescendantFonts"].get_object()[0].get_object()
    order = (inner.get("/CIDSystemInfo") or {}).get("/Ordering", "Identity")
    return str(font.get("/Encoding")).startswith("/Identity") and str(order) == "Identity"


def _annotations(page: Any) -> Iterator[str]:
    """Yield the values of form fields, as `name: value`, and the notes written on the page."""
    for held in page.get("/Annots") or ():
        one = held.get_object()
        if one.get("/Subtype") == "/FreeText" and one.get("/Contents"):
            yield str(one["/Contents"])
        if one.get("/Subtype") != "/Widget":
            continue
        name, value, kind = _field(one)
        if kind == "/Btn":
            on = str(one.get("/AS") or value or "/Off")
            if on != "/Off" and name:
                yield f"{name}: yes" if on.lower() in ("/yes", "/on", "/1") else f"{name}: {on[1:]}"
        elif value not in (None, ""):
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"{name}: {shown}" if name else shown


def _field(widget: Any) -> tuple[str, Any, str]:
    """Return name, value and kind of a form field; what a widget lacks is its parents'."""
    found: dict[str, Any] = {}
    one = widget
    for _ in range(8):
        for key in ("/TU", "/T", "/V", "/FT"):
            if key in one and key not in found:
                found[key] = one[key]
        if "/Parent" not in one:
            break
        one = one["/Parent"].get_object()
    value: Any = found.get("/V")
    if hasattr(value, "get_data"):  # a long text is kept as a stream
        value = value.get_data().decode("utf-8", "replace")
    return str(found.get("/TU") or found.get("/T") or ""), value, str(found.get("/FT") or "")


def _has_content(page: Any) -> bool:
    held = page.get("/Contents")
    try:
        parts = held.get_object() if held is not None else []
        parts = parts if isinstance(parts, list) else [parts]
        return sum(len(one.get_object()._data) for one in parts) > 20  # noqa: SLF001 - as stored
    except Exception:  # noqa: BLE001 - a missing or broken stream is what is asked about
        return True


def _ranges(numbers: list[int]) -> str:
    """Write ascending numbers as `1-3, 7`."""
    runs: list[list[int]] = []
    for one in numbers:
        if runs and runs[-1][1] == one - 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:100] or type(error).__name__
