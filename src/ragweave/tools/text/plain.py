"""Untrusted text on a terminal."""

from __future__ import annotations

import unicodedata


def plain(text: str) -> str:
    """Return `text` without what could steer a terminal: control and format characters.

    Models, documents and file names are untrusted. Line ends and tabs stay; a lone surrogate,
    which no terminal can show, becomes `?`.
    """
    kept = (char for char in text if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf", "Co"))
    return "".join(kept).encode("utf-8", "replace").decode("utf-8")
