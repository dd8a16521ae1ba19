"""Text in pictures and scans, by RapidOCR. Its wheel contains its models, so it needs no network."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from itertools import accumulate
from typing import Any

from ragweave.errors import MissingExtraError
from ragweave.tools.knowledge.passages import Loaded, UnreadableError
from ragweave.tools.knowledge.settings import Settings

NEEDS = "rapidocr"
"""The package that recognises text."""
_LOCK = threading.Lock()
"""Neither RapidOCR nor PDFium is thread-safe."""
_DPI = 150
_LONGEST_SIDE = 4000
"""Pixels of a rendered page."""


def available() -> bool:
    """Return whether the packages of the extra `ocr` are installed."""
    return find_spec(NEEDS) is not None and find_spec("pypdfium2") is not None


def load_image(name: str, data: bytes, _settings: Settings) -> Iterator[Loaded | str]:
    """Load the text that a picture shows; each frame of a TIFF is a page."""
    if not available():
        raise UnreadableError(str(MissingExtraError("Reading pictures", "ocr")), NEEDS)
    from PIL import Image, ImageSequence

    pages: list[str] = []
    with Image.open(io.BytesIO(data)) as image:
        try:
            pages.extend(recognised(frame) for frame in ImageSequence.Iterator(image))
        except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises on a broken frame
            yield f"damaged from picture {len(pages) + 1} on ({error})"
    if not any(pages):
        raise UnreadableError("a picture without text")
    starts = tuple(accumulate((len(page) + 1 for page in pages[:-1]), initial=0))
    yield Loaded("\n".join(pages), name, pages=starts if pages[1:] else ())


def recognised(image: Any) -> str:
    """Return the lines of text that a PIL image shows."""
    import numpy as np

    pixels = np.asarray(image.convert("RGB"))[:, :, ::-1]  # OpenCV's order: blue, green, red
    with _LOCK:
        found = _engine()(pixels)
    return "\n".join(found.txts or ())


def recognised_page(data: bytes, index: int) -> str:
    """Return the text that a page of a PDF shows, however it is drawn; `index` counts from 0."""
    import pypdfium2

    with _LOCK:
        document = pypdfium2.PdfDocument(data)
        try:
            page = document[index]
            scale = min(_DPI / 72, _LONGEST_SIDE / max(*page.get_size(), 1))
            image = page.render(scale=scale).to_pil()
        finally:
            document.close()
    return recognised(image)


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    return RapidOCR(params={"Global.log_level": "error"})
