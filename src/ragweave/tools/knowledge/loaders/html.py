"""HTML as Markdown: the content of a page, without its menus, banners and footers.

markdownify turns the page's `<main>` or `<article>`s (else its body) into Markdown, which keeps asides,
captions, figures, `<time>`, forms and tables of links. Extractors of articles take those for
boilerplate. Navigation, scripts and hidden elements are removed first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from ragweave.tools.knowledge.chunking import Loaded
from ragweave.tools.knowledge.loaders.text import decode, markdown
from ragweave.tools.knowledge.settings import Settings

_DROP = re.findall(
    r"\w+", "title nav footer script style noscript template svg button select iframe object canvas audio video dialog"
)
_BLOCKS = re.findall(
    r"\w+", "address aside details fieldset figure form header hgroup label legend main menu search summary textarea"
)
"""Blocks that markdownify takes for words of the line around them."""
_MATH = {"msup": "^", "msub": "_", "mfrac": "/"}
_MOST_SPANNED = 100_000
"""Cells of a page, with those that they span, up to which spanned cells are repeated."""
_AROUND = re.compile(
    r"(?:^|[-_ ])(?:cookies?|consent|breadcrumbs?|sidebar|navbar|site-header|skip-link|headerlink"
    r"|advert|newsletter|share|social)(?:$|[-_ ])",
    re.IGNORECASE,
)
"""Class and id names of elements around an article."""
_PERMALINK = re.compile(r"\s*[#¶§\U0001F517\uf0c1]\ufe0f?\s*")
_HIDDEN = "//*[@hidden or @aria-hidden='true' or @role='navigation' or @role='banner']"


def load_html(name: str, data: bytes, _settings: Settings) -> Iterator[Loaded | str]:
    """Load a page; its title is `<title>`, else as `markdown` finds it."""
    source, note = decode(data)
    yield note
    title, text = html_markdown(source)
    yield markdown(text, name, title)


def html_markdown(source: str, *, whole: bool = False) -> tuple[str, str]:
    """Return the title and the Markdown of a page; `whole`: all is content, as in a chapter of a book."""
    from lxml import etree, html

    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    page = html.document_fromstring(f"{source}<p></p>".encode("utf-8", "replace"), parser)  # lxml refuses an empty page
    title = " ".join((page.findtext(".//title") or "").split())
    if whole:
        etree.strip_elements(page, "title", with_tail=False)
    else:
        _prune(page)
    mains = page.xpath("//main|//*[@role='main']") or page.xpath("//article")
    found = set(mains)
    mains = [one for one in mains if found.isdisjoint(one.iterancestors())]
    body = page.find("body") if page.find("body") is not None else page
    if whole or 2 * sum(len(one.text_content()) for one in mains) < len(body.text_content()):
        mains = [body]
    text = "\n\n".join(map(tree_markdown, mains)).strip()
    if not whole and not text:  # a page of links alone
        return title, html_markdown(source, whole=True)[1]
    return title, text


def tree_markdown(root: Any) -> str:
    """Return an element of HTML as Markdown, or as plain text if it is nested too deeply for markdownify."""
    from lxml import etree
    from markdownify import markdownify

    _spell_out(root)
    for one in root.iter(*_BLOCKS):
        one.tag = "div"
    try:
        made: str = markdownify(
            etree.tostring(root, encoding="unicode", method="html", with_tail=False),
            heading_style="ATX",
            bullets="-",
            table_infer_header=True,
            strip=["a", "img"],
            escape_asterisks=False,
            escape_underscores=False,
            escape_misc=False,
        )
    except RecursionError:
        return "\n".join(line.strip() for line in root.itertext() if line.strip())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in made.splitlines())).strip()


def _prune(page: Any) -> None:
    """Remove what is not shown or not content."""
    from lxml import etree

    etree.strip_elements(page, *_DROP, with_tail=False)
    around = [
        one
        for one in page.xpath("//body//*[@class or @id]")
        if one.tag not in ("main", "article", "body") and _AROUND.search(f"{one.get('class', '')} {one.get('id', '')}")
    ]
    links = page.xpath("//*[self::h1 or self::h2 or self::h3 or self::h4 or self::h5 or self::h6]//a")
    permalinks = [one for one in links if _PERMALINK.fullmatch(one.text_content())]
    for one in (*page.xpath(_HIDDEN), *around, *permalinks):
        if one.getparent() is not None:
            one.drop_tree()


def _spell_out(root: Any) -> None:
    """Write out what only markup says: formulas, raised digits, letters of lists, spanned cells, alternative texts."""
    for one in root.xpath(".//msup/*[2]|.//msub/*[2]|.//mfrac/*[2]"):
        one.text = f"{_MATH[one.getparent().tag]}{one.text or ''}"
    spanned = sum(_span(one, "colspan") * _span(one, "rowspan") for one in root.iter("td", "th"))
    for one in root.xpath("descendant-or-self::table"):
        _arrange(one, fill=spanned <= _MOST_SPANNED)
    for one in root.iter("sup"):
        if not (said := one.text_content().strip()).isalpha() or len(said) == 1:  # no ordinal, such as 3rd
            one.text = f"^{one.text or ''}"
    for one in root.xpath(".//ol[@type and @type!='1']"):
        kind = f"{'upper' if one.get('type').isupper() else 'lower'}{'Roman' if one.get('type') in 'iI' else 'Letter'}"
        for number, item in enumerate(one.iterchildren("li"), 1):
            item.text = f"{numeral(number, kind)}. {item.text or ''}"
        one.tag = "ul"
    for one in root.xpath(".//img[@alt]"):
        one.tag = "span"
        one.text = alternative(one.get("alt"))


def _arrange(table: Any, *, fill: bool) -> None:
    """Give a table one row as its header; `fill`: repeat cells that span rows, and headers that span columns."""
    from lxml import etree

    etree.strip_elements(table, "colgroup", "col", with_tail=False)
    for one in table.xpath("./caption"):
        table.addprevious(one)
    if fill:
        _fill(table.xpath("./tr|./*/tr"))
    head = table.xpath("./thead[following-sibling::*]/tr")
    for upper in head[-2::-1]:
        for above, below in zip(upper, head[-1], strict=False):
            if (name := above.text_content()) != below.text_content():
                below.text = f"{name} {below.text or ''}"
        upper.getparent().remove(upper)


def _fill(rows: list[Any]) -> None:
    from lxml import etree

    for at, row in enumerate(rows):
        for column, cell in enumerate(row):
            wide, high = _span(cell, "colspan"), _span(cell, "rowspan")
            cell.set("colspan", "1")
            for _ in range(1, wide):
                cell.addnext(deepcopy(cell) if cell.tag == "th" else etree.Element("td", cell.attrib))
            cell.set("rowspan", "1")
            for below in rows[at + 1 : at + high]:
                below.insert(column, deepcopy(cell))


def _span(cell: Any, name: str) -> int:
    number = cell.get(name, "")
    return max(1, int(number)) if re.fullmatch("[0-9]{1,4}", number) else 1


def alternative(text: str | None) -> str:
    """Return the alternative text of a picture; "" if it is a single word or a file name."""
    return " ".join(text.split()) if text and " " in text.strip() else ""


def numeral(number: int, kind: str) -> str:
    """Return a list number as `decimal`, `lowerLetter`, `upperRoman` and the like."""
    if kind.endswith("Letter"):
        text = chr(ord("a") + (number - 1) % 26) * min((number - 1) // 26 + 1, 10)
    elif kind.endswith("Roman") and 0 < number < 400:
        tens = ("", "x", "xx", "xxx", "xl", "l", "lx", "lxx", "lxxx", "xc")
        ones = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
        text = "c" * (number // 100) + tens[number // 10 % 10] + ones[number % 10]
    else:
        return str(number)
    return text.upper() if kind.startswith("upper") else text
