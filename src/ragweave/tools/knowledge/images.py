"""The loader of pictures: their text by RapidOCR, whose wheel brings its models (PP-OCR).

Neither MarkItDown nor docling recognises text without a service or a download of models; Tesseract
is no Python package. RapidOCR runs on ONNX Runtime and asks nothing of the network.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from ragweave.tools.knowledge.markup import Loaded, UnreadableError, stem
from ragweave.tools.knowledge.office import damaged, need_extra

MODULE = "rapidocr"
_MOST_PIXELS = 100_000_000
_LOCK = threading.Lock()


def load_image(path: Path) -> Iterator[Loaded]:
    """Load the text that a picture shows, a line a line; each picture of a TIFF is a page.

    Raises:
        UnreadableError: RapidOCR is not installed; or the file is damaged, too large, or shows no
            text.
    """
    need_extra(MODULE, path, "ocr")
    from PIL import Image, ImageSequence

    try:
        with Image.open(path) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise UnreadableError(f"a picture of more than {_MOST_PIXELS // 10**6} megapixels")
            pages = [recognised(frame) for frame in ImageSequence.Iterator(image)]
    except UnreadableError:
        raise
    except Exception as error:
        raise damaged(path, error) from error
    if not any(pages):
        raise UnreadableError("a picture without text")
    starts = tuple(accumulate((len(page) + 1 for page in pages[:-1]), initial=0))
    yield Loaded("\n".join(pages), stem(path), pages=starts if pages[1:] else ())


def recognised(image: Any) -> str:
    """Return the lines of text that a PIL image shows."""
    import numpy as np

    pixels = np.asarray(image.convert("RGB"))[:, :, ::-1]  # OpenCV's order: blue, green, red
    with _LOCK:
        found = _engine()(pixels)
    return "\n".join(found.txts or ())


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    return RapidOCR(params={"Global.log_level": "error"})
