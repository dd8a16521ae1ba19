"""Zip packages of XML, as Office and EPUB files are: opened, read and parsed within bounds."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from typing import Any
from urllib.parse import unquote

from ragweave.tools.knowledge.passages import UnreadableError

_MARKUP = (".xml", ".rels", ".xhtml", ".html", ".htm", ".opf", ".ncx", ".css")
_MAX_MARKUP = 2**26
"""Bytes of markup in a document."""
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
    markup = sum(one.file_size for one in members if one.filename.lower().endswith(_MARKUP))
    if markup > max_markup or len(members) > _MAX_PARTS or size > max(2**26, 100 * len(data)):
        raise UnreadableError(f"unpacks to {size >> 20} MiB, more than a document should")
    return package


def read_part(package: zipfile.ZipFile, name: str) -> bytes:
    """Return a part of a package, which may be markup under any name.

    Raises:
        UnreadableError: It is missing, damaged or too large.
    """
    try:
        if package.getinfo(name).file_size > _MAX_MARKUP:
            raise UnreadableError(f"{name} unpacks to more than {_MAX_MARKUP >> 20} MiB")
        return package.read(name)
    except KeyError as error:
        raise UnreadableError(f"damaged: {name} is missing") from error
    except (OSError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise UnreadableError(f"damaged: {name} ({error})") from error


def parse_xml(data: bytes) -> tuple[Any, bool]:
    """Parse XML without entities and the network, as far as it can be read.

    Returns:
        The root element, and whether all of it is well-formed.

    Raises:
        UnreadableError: Nothing of it can be read.
    """
    from lxml import etree

    parser: Any = etree.XMLParser(
        resolve_entities=False, no_network=True, recover=True, remove_comments=True, remove_pis=True
    )
    root = etree.fromstring(data, parser) if data.strip() else None
    if root is None:
        raise UnreadableError("damaged: XML without an element")
    return root, not parser.error_log


def local(element: Any) -> str:
    """Return an element's name without its namespace: strict and old Office files differ in those."""
    return str(element.tag).rpartition("}")[2]


def attribute(element: Any, name: str) -> str | None:
    """Return an attribute by its name without a namespace."""
    if element is None:
        return None
    return next((v for k, v in element.attrib.items() if k.rpartition("}")[2] == name), None)


def child(element: Any, *names: str) -> Any:
    """Return the first descendant along a path of names, or None."""
    for name in names:
        element = next((one for one in element if local(one) == name), None)
        if element is None:
            return None
    return element


def beside(part: str, target: str) -> str:
    """Return the name of a part that another part names relative to itself."""
    folder = posixpath.dirname(part)
    return posixpath.normpath(posixpath.join("/", folder, unquote(target))).lstrip("/")


def relations(package: zipfile.ZipFile, part: str) -> dict[str, tuple[str, str]]:
    """Return what a part refers to: id → kind (`slide`, `chart`, …) and the name of that part."""
    folder, name = posixpath.split(part)
    held = f"{folder}/_rels/{name}.rels".lstrip("/")
    if held not in package.NameToInfo:
        return {}
    return {
        attribute(one, "Id") or "": (
            (attribute(one, "Type") or "").rpartition("/")[2],
            beside(part, attribute(one, "Target") or ""),
        )
        for one in parse_xml(read_part(package, held))[0]
    }
