"""Zip packages of XML, as Office and EPUB files are."""

from __future__ import annotations

import io
import posixpath
import zipfile
from typing import Any
from urllib.parse import unquote

from ragweave.tools.knowledge.passages import UnreadableError


def open_package(data: bytes) -> zipfile.ZipFile:
    """Open a package that is not encrypted, and does not unpack to far more than a document."""
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise UnreadableError("encrypted, or of an Office before 2007")
    package = zipfile.ZipFile(io.BytesIO(data))
    size = sum(one.file_size for one in package.infolist())
    if size > max(2**26, 100 * len(data)):
        raise UnreadableError(f"unpacks to {size >> 20} MiB, more than a document should")
    return package


def read_xml(package: zipfile.ZipFile, name: str) -> Any:
    """Return the root element of a file; no entity is expanded and nothing is fetched.

    Elements and attributes lose their namespaces: strict and old Office files differ in those. Of
    `id` and `r:id`, `id` is the latter.
    """
    from lxml import etree

    parser: Any = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    root: Any = etree.fromstring(package.read(name), parser)
    for one in root.iter(etree.Element):
        one.tag = etree.QName(one).localname
        for key in [key for key in one.attrib if "}" in key]:
            one.set(key.rpartition("}")[2], one.attrib.pop(key))
    return root


def beside(name: str, target: str) -> str:
    """Return the name of a file that another file of the package names relative to itself."""
    folder = posixpath.dirname(name)
    return posixpath.normpath(posixpath.join("/", folder, unquote(target))).lstrip("/")


def relations(package: zipfile.ZipFile, name: str) -> dict[str, tuple[str, str]]:
    """Return what a file of the package refers to: id → kind (`slide`, `chart`, …) and the other's name."""
    folder, file = posixpath.split(name)
    listed = f"{folder}/_rels/{file}.rels".lstrip("/")
    if listed not in package.NameToInfo:
        return {}
    return {
        one.get("Id", ""): (one.get("Type", "").rpartition("/")[2], beside(name, one.get("Target", "")))
        for one in read_xml(package, listed)
    }
