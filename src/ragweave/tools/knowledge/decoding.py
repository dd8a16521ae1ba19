"""What encoding a file's text is in, and its text.

A web page is read in the encoding that it names, as browsers read it.
Source: WHATWG, "Encoding", section 4.2 (labels), and "HTML", section 13.2.3 (which one counts).
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from ragweave.tools.knowledge.markup import UnreadableError
from ragweave.tools.packed import open_packed

_SAMPLE = 65_536
_MOST_UNPRINTABLE = {"utf-16": 0.05, "utf-8-sig": 0.3}
"""Greatest share of unprintable characters. In random UTF-16 it is about 0.12; a coloured log in
UTF-8 has some."""
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""The byte order marks that UTF-16 begins with."""
_MARKS = (codecs.BOM_UTF8, *UTF16)
_MEANT = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
}
"""What browsers read by Python's name of the encoding that is named."""

_ESCAPES = re.compile(r"(idna|punycode|(raw)?unicodeescape|u(tf|nicode11utf)?7)")
"""Python's codecs, their aliases too, that read ASCII as other text: no encodings of pages."""


def decode(data: bytes) -> str:
    """Decode UTF-8, or UTF-16 that says so by its byte order mark.

    Raises:
        UnreadableError: The bytes are not text, or in another encoding.
    """
    if data.startswith(UTF16):
        encoding = "utf-16"
    elif b"\0" in data:
        raise UnreadableError("binary, not text")
    else:
        encoding = "utf-8-sig"
    try:
        return plausible(data.decode(encoding), encoding)
    except UnicodeDecodeError as error:
        name = "UTF-16" if encoding == "utf-16" else "UTF-8"
        raise UnreadableError(f"not {name} text (byte {error.start})") from error


def plausible(text: str, encoding: str) -> str:
    """Return `text` where it may be one: no NUL, and few characters that cannot be printed.

    Most pairs of bytes are a letter of UTF-16, so a decoder alone does not detect binary data.

    Raises:
        UnreadableError: It is binary.
    """
    sample = text[:_SAMPLE]
    odd = sum(not (one.isprintable() or one.isspace()) for one in sample)
    if "\0" in text or odd > _MOST_UNPRINTABLE[encoding] * len(sample):
        raise UnreadableError("binary, not text")
    return text


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        UnreadableError: As `decode`.
    """
    with open_packed(path) as file:
        return decode(file.read())


def read_html(path: Path) -> str:
    """Return the source of an HTML file.

    Raises:
        UnreadableError: The file is empty, binary, or in an unknown encoding.
    """
    with open_packed(path) as file:
        data = file.read()
    if not data.strip():
        raise UnreadableError("empty")
    wide = data.startswith(UTF16)
    if b"\0" in data and not wide:
        raise UnreadableError("binary, not HTML")
    return plausible(_html(data), "utf-16" if wide else "utf-8-sig")


def _html(data: bytes) -> str:
    from bs4.dammit import EncodingDetector, UnicodeDammit

    named = EncodingDetector.find_declared_encoding(data, is_html=True) or ""
    if named.startswith("utf-16"):
        named = "utf-8"  # in letters of one byte no page can say that it is UTF-16
    text = as_browsers_read(data, named)
    if text is not None:
        return text
    untried = [named] if _is_escape(named) else []
    guessed = UnicodeDammit(data, is_html=True, exclude_encodings=untried)
    if guessed.unicode_markup is None or guessed.contains_replacement_characters:
        raise UnreadableError("HTML in an encoding that it does not name")
    return guessed.unicode_markup


def as_browsers_read(data: bytes, label: str) -> str | None:
    """Decode a page in the encoding that a label stands for; a few invalid bytes become U+FFFD.

    Args:
        data: The page.
        label: The name of an encoding, as the page or its server gives it.

    Returns:
        The text; None where the page has a byte order mark, the label is unknown or none that pages
        have, or the page is in another encoding: most of what is not ASCII is invalid.
    """
    if data.startswith(_MARKS):
        return None
    try:
        name = codecs.lookup(label).name
        if _is_escape(name):
            return None
        text = data.decode(_MEANT.get(name, name), "replace")
    except (LookupError, ValueError):
        return None
    beyond = sum(not one.isascii() for one in text) if "\ufffd" in text else 0
    return text if 2 * text.count("\ufffd") <= beyond else None


def _is_escape(label: str) -> bool:
    plain = "".join(one for one in label.lower() if one.isascii() and one.isalnum())
    return _ESCAPES.fullmatch(plain) is not None
