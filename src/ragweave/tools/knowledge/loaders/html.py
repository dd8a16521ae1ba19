"""HTML as Markdown: what a page says, without what stands around it.

markdownify turns the page's `<main>` or `<article>`s (else its body) into Markdown. On the pages
tried it keeps asides, captions, figures, `<time>`, forms and tables of links, which extractors of
articles take for boilerplate; navigation, scripts and hidden parts are cut out before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragweave.tools.knowledge.passages import Loaded, UnreadableError
from ragweave.tools.knowledge.settings import Notice
from ragweave.tools.knowledge.loaders.text import decode, markdown

_DROP = tuple(
    "title nav footer script style noscript template svg button select iframe object canvas audio "
    "video dialog".split()
)
_AROUND = re.compile(
    r"(?:^|[-_ ])(?:cookies?|consent|breadcrumbs?|sidebar|navbar|site-header|skip-link|headerlink"
    r"|advert|newsletter|share|social)(?:$|[-_ ])",
    re.IGNORECASE,
)
"""Class and id names of what stands around an article."""
_DECLARED = re.compile(rb"<meta[^>]+charset=[\"']?([\w-]+)", re.IGNORECASE)
_PERMALINK = re.compile(r"\s*[#¶§\U0001F517\uf0c1]\ufe0f?\s*")
_HIDDEN = "//*[@hidden or @aria-hidden='true' or @role='navigation' or @role='banner']"


def load_html(path: Path, data: bytes) -> Iterator[Loaded | Notice]:
    """Load a page; its title is `<title>`, else its first heading."""
    source, told = decode_html(data)
    if told:
        yield Notice(str(path), told, partly=True)
    title, text = html_markdown(source)
    yield markdown(text, path.stem, title)


def decode_html(data: bytes) -> tuple[str, str]:
    """Return a page in the encoding that it names, else as any other text.

    Raises:
        UnreadableError: It is no text.
    """
    named = _DECLARED.search(data[:4096])
    if named and not data.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        label = named[1].decode().lower()
        label = {"iso-8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030"}.get(label, label)
        try:
            return data.decode(label), ""
        except (LookupError, ValueError):
            pass
    return decode(data)


def html_markdown(source: str, *, whole: bool = False) -> tuple[str, str]:
    """Return the title and the Markdown of a page.

    Args:
        source: HTML.
        whole: Whether it is a text without anything around it, as a chapter of a book is.

    Raises:
        UnreadableError: There is no text.
    """
    from lxml import etree, html

    try:
        parser = html.HTMLParser(encoding="utf-8", huge_tree=True)
        page = html.document_fromstring(source.encode("utf-8", "replace"), parser)
    except (etree.ParserError, ValueError) as error:
        raise UnreadableError("HTML without text") from error
    title = " ".join((page.findtext(".//title") or "").split())
    if not whole:
        _prune(page)
    mains = page.xpath("//main|//*[@role='main']") or page.xpath(
        "//article[not(ancestor::article)]"
    )
    found = set(mains)
    mains = [one for one in mains if not any(up in found for up in one.iterancestors())]
    said = sum(len(one.text_content()) for one in mains)
    body = page.find("body") if page.find("body") is not None else page
    if whole or said * 2 < len(body.text_content()):
        mains = [body]
    text = "\n\n".join(_converted(one) for one in mains)
    if not whole and not text.strip():  # a page of links alone
        return title, html_markdown(source, whole=True)[1]
    return title, re.sub(r"\n{3,}", "\n\n", text).strip()


def _prune(page: Any) -> None:
    """Cut out what is not shown, or stands around the text."""
    from lxml import etree

    etree.strip_elements(page, *_DROP, etree.Comment, with_tail=False)
    for one in page.xpath(_HIDDEN):
        one.drop_tree()
    for one in page.xpath("//body//*[@class or @id]"):
        if one.tag in ("main", "article", "body") or one.getparent() is None:
            continue
        if _AROUND.search(f"{one.get('class', '')} {one.get('id', '')}"):
            one.drop_tree()
    for link in page.xpath("//h1//a|//h2//a|//h3//a|//h4//a|//h5//a|//h6//a"):
        if _PERMALINK.fullmatch(link.text_content()):
            link.drop_tree()


def _converted(element: Any) -> str:
    """Return an element as Markdown; what is nested too deeply for the converter as its text."""
    from lxml import etree
    from markdownify import markdownify

    try:
        made: str = markdownify(
            etree.tostring(element, encoding="unicode", method="html", with_tail=False),
            heading_style="ATX",
            bullets="-",
            table_infer_header=True,
            strip=["a", "img"],
            escape_asterisks=False,
            escape_underscores=False,
            escape_misc=False,
        )
    except RecursionError:
        return "\n".join(line.strip() for line in element.itertext() if line.strip())
    return "\n".join(line.rstrip() for line in made.splitlines())
