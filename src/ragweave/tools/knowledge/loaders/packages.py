"""Zip packages of XML, as Office and EPUB files are: opened, read and parsed within bounds."""

from __future__ import annotations

import io
import zipfile
from typing import Any

from ragweave.tools.knowledge.passages import UnreadableError

MARKUP = (".xml", ".rels", ".xhtml", ".html", ".htm", ".opf", ".ncx", ".css")
_MAX_MARKUP = 2**26
"""Bytes of markup in a document; converters take minutes for as much."""
_MAX_PARTS = 20_000


def open_package(data: bytes, *, max_markup: int = _MAX_MARKUP) -> zipfile.ZipFile:
    """Open a package.

    Args:
        data: The file.
        max_markup: Bytes that its XML and HTML may unpack to.

    Raises:
        UnreadableError: It is no zip, is encrypted, or unpacks to far more than a document.
    """
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise UnreadableError("encrypted, or of an Office before 2007")
    try:
        package = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise UnreadableError(f"damaged ({error})") from error
    members = package.infolist()
    if any(one.flag_bits & 1 for one in members) or "META-INF/rights.xml" in package.NameToInfo:
        raise UnreadableError("encrypted")
    size = sum(one.file_size for one in members)
    markup = sum(one.file_size for one in members if one.filename.lower().endswith(MARKUP))
    if markup > max_markup or len(members) > _MAX_PARTS or size > max(2**26, 100 * len(data)):
        raise UnreadableError(f"unpacks to {size >> 20} MiB, more than a document should")
    return package


def read_part(package: zipfile.ZipFile, name: str) -> bytes:
    """Return a part of a package, which may be markup under any name.

    Raises:
        KeyError: There is none.
        UnreadableError: It is too large.
    """
    if package.getinfo(name).file_size > _MAX_MARKUP:
        raise UnreadableError(f"{name} unpacks to more than {_MAX_MARKUP >> 20} MiB")
    return package.read(name)


def parse_xml(data: bytes, *, recover: bool = False) -> Any:
    """Parse XML without entities and the network; with `recover`, as much of it as can be read.

    Raises:
        lxml.etree.XMLSyntaxError: It is damaged.
    """
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=recover)
    return etree.fromstring(data, parser)
