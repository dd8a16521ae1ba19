"""Texts: their encoding, Markdown with its front matter, headings and tables, and HTML as Markdown.

markdownify turns a page's `<main>` or `<article>`s (else its body) into Markdown, which keeps asides,
captions, figures, `<time>`, forms and tables of links. Extractors of articles take those for
boilerplate. Navigation, scripts and hidden elements are removed first.
"""

import io
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import accumulate, chain
from typing import Any, BinaryIO, TextIO

from ragweave.state.passages import encodable, storable
from ragweave.tools.knowledge.chunking import Heading, Loaded, Remark, Table, UnreadableError
from ragweave.tools.knowledge.settings import IndexSettings
from ragweave.tools.text.numbers import iso_date

RESERVED = frozenset(
    re.findall(
        r"\w+",
        "source title position start end page line cells table member heading_path breaks rank score via snippet query "
        "word_boxes date_from enriched",
    )
)
"""Metadata that ragweave itself sets."""
_SAMPLE = 1_000_000
"""Bytes from which the encoding is guessed."""
_BINARY = "not plain text: save it as .docx, .xlsx, .pdf or text"
_MISREAD = re.compile(r"\ufffd|(?<=[^\W\d_])[^\w\s\x00-\x7f’‘–—…](?=[^\W\d_])")
"""A non-ASCII symbol between two letters: the mark of a wrong code page."""
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Colours, links and moves of the cursor in the output of commands (ECMA-48)."""
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ufffd\ue000-\uf8ff]")
_UNREAD = re.compile(r"data:[\w.+/-]{0,80};base64,[A-Za-z0-9+/=%]+|(?<![!-~])[!-~]{2000,}")
"""Text that nobody reads: data URIs, and long runs without a space, such as keys."""
_ANCHOR = re.compile(r"[:\[,-]\s*&\w")
"""A YAML anchor, by which a few lines could grow without bound."""
_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.{0,65536}?\r?\n)---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_DROP = re.findall(
    r"\w+", "title nav footer script style noscript template svg button select iframe object canvas audio video dialog"
)
_BLOCKS = re.findall(
    r"\w+", "address aside details fieldset figure form header hgroup label legend main menu search summary textarea"
)
"""Blocks that markdownify would write inline."""
_LAYOUT = "descendant-or-self::table[.//table or .//h1 or .//h2 or .//h3][not(./tr/th or ./*/tr/th)]"
_MATH = {"msup": " ^", "msub": " _", "msubsup": " _^", "munderover": " _^", "munder": " _", "mfrac": " /", "msqrt": "√"}
"""Signs before the parts of a formula."""
_MAX_SPANNED = 1_000_000
"""Characters that a page's spanned cells repeat, an empty cell counted as ten; on a page with more they are not."""
_AROUND = re.compile(
    r"(?:^|[-_ ])(?:cookies?|consent|breadcrumbs?|sidebar|navbar|site-header|skip-link|headerlink"
    r"|advert|newsletter|share|social)(?:$|[-_ ])",
    re.IGNORECASE,
)
"""Class and id names of elements around an article."""
_HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
_NAMES = [*_HEADINGS, "dt", "th", "summary"]
"""Elements whose text may be a button's, which opens what they name or sorts a column."""
_PERMALINK = re.compile(r"\s*[#¶§\U0001F517\uf0c1]\ufe0f?\s*")
_HIDDEN = "//*[@hidden or @aria-hidden='true']"
_BARS = "//*[@role='navigation' or @role='banner']"
_POPUPS = frozenset(("dialog", "alertdialog", "menu", "listbox", "tooltip"))


def decode(data: bytes) -> tuple[str, str]:
    """Decode bytes; return the text, and a notice if it is not UTF-8."""
    encoding, note = "utf-8-sig", ""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    elif b"\0" in data[:_SAMPLE] or data.startswith(b"{\\rtf"):
        raise UnreadableError(_BINARY)
    else:
        text = data.decode("utf-8", "replace")
        wrong = text.count("\ufffd") - data.count("\ufffd".encode())
        foreign = sum(not sign.isascii() for sign in text) if wrong else 0
        if wrong > 0.02 * foreign and wrong >= min(4, len(data) / 10_000):
            encoding, named = _guess(data[:_SAMPLE])
            note = "" if named else Remark(f"not UTF-8: read as {encoding}")
        elif wrong:
            first = text.index("\ufffd")
            note = f"{wrong} bytes are not UTF-8 (the first after {first} characters)"
    text = data.decode(encoding, "replace")
    sample = _ESCAPES.sub("", text[:10_000])
    if len(_UNPRINTABLE.findall(sample)) > 0.1 * len(sample):
        raise UnreadableError(_BINARY)
    return text, note


def text_file(file: BinaryIO) -> tuple[TextIO, str]:
    """Open a file as text; return it, and a notice if it is not UTF-8.

    A large UTF-8 file is not held in memory.
    """
    text, note = decode(file.read(_SAMPLE))
    if file.read(1):
        try:
            file.seek(0)
            for line in file:
                line.decode()
        except UnicodeDecodeError:
            file.seek(0)
            text, note = decode(file.read())
        else:
            file.seek(0)
            return io.TextIOWrapper(file, "utf-8-sig", newline=""), ""
    return io.StringIO(text, newline=""), note


def _guess(data: bytes) -> tuple[str, bool]:
    """Return the likeliest encoding, and whether the text declares it, as HTML, XML and Python can.

    charset-normalizer confuses the many similar code pages of short Western texts. If it finds Latin
    letters, cp1252 is likelier, unless the text then has symbols within words.
    """
    from charset_normalizer import from_bytes
    from charset_normalizer.utils import any_specified_encoding

    best = from_bytes(data).best()
    if best is not None and best.encoding == any_specified_encoding(data) != "latin_1":
        return best.encoding, True
    letters = {letter for letter in str(best or "") if letter.isalpha() and not letter.isascii()}
    alone = not re.search(rb"[\x80-\xff]{2}", data)  # as in Latin scripts, where most letters are ASCII
    latin = alone or all(unicodedata.name(letter, "").startswith("LATIN") for letter in letters)
    if latin and not _MISREAD.search(data.decode("cp1252", "replace")):
        return "cp1252", False
    if best is None:
        raise UnreadableError("text in an unknown encoding: convert it to UTF-8")
    return best.encoding, False


def readable(text: str) -> str:
    """Return a text without `_UNREAD`, `_ESCAPES`, soft hyphens, lone surrogates and NULs.

    A loader that notes offsets in a text calls this before.
    """
    return _UNREAD.sub(lambda run: f"[{len(run.group())} characters left out]", _ESCAPES.sub("", encodable(text)))


def paged(pages: Iterable[str], title: str) -> Loaded:
    """Return texts as the pages of one."""
    texts = [*map(readable, pages)]
    starts = accumulate((len(line) + 1 for line in texts[:-1]), initial=0)
    return Loaded("\n".join(texts), title, pages=tuple(starts))


def markdown(text: str, name: str, title: str = "") -> Loaded:
    """Read a Markdown text with its front matter, headings and tables.

    Blanks replace the front matter, so that offsets stay. The title is `title`, else that of the
    front matter, of a single top heading, or `name`.
    """
    text, fields = readable(text), {}
    if front_matter := _FRONT_MATTER.match(text):
        fields = _yaml(front_matter[1])
        text = " " * (front_matter.end() - 1) + "\n" + text[front_matter.end() :]
    headings, tables = structure(text)
    own = " ".join(str(fields.pop("title", "") or "").split())
    top = [heading.text for heading in headings if heading.level <= headings[0].level]
    title = title or own or (top[0] if len(top) == 1 else "") or name
    return Loaded(text, title, metadata=own_fields(fields), headings=headings, tables=tables)


def _yaml(block: str) -> dict[str, Any]:
    """Return the fields of front matter; if it is not YAML, its lines of the form `name: value`."""
    import yaml

    with suppress(yaml.YAMLError, ValueError, RecursionError):
        fields = None if _ANCHOR.search(block) else yaml.load(block, _front_matter_loader())  # noqa: S506 - a SafeLoader
        if isinstance(fields, dict):
            return fields
    pairs = re.findall(r"^([\w-]+):[ \t]+(\S.*)$", block, re.MULTILINE)
    return {name: value.strip().strip("\"'") for name, value in pairs}


@cache
def _front_matter_loader() -> Any:
    """Return YAML 1.2's loader: in 1.1, which PyYAML reads, `0123` is octal, `12:30` a number, and `no` false."""
    import yaml

    others = {
        first: [resolver for resolver in resolvers if resolver[0].rpartition(":")[2] not in _SCALARS]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    loader: Any = type("Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": others})
    for kind, (pattern, firsts) in _SCALARS.items():
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"(?:{pattern})$"), [*firsts])
    return loader


def own_fields(fields: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a file's own fields as JSON values: `page_` for `page`, and so on for all `RESERVED`."""
    named = {f"{name}_" if name in RESERVED else str(name): value for name, value in fields.items()}
    # JSON has no NaN, and SQLite would read none of the metadata.
    plain: dict[str, Any] = storable(json.loads(json.dumps(named, default=str, skipkeys=True), parse_constant=str))
    return plain


_SCALARS = {
    "bool": ("true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": ("[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    "float": (r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", "-+0123456789"),
}
_DATED = re.compile(r"(?<!\d)((?:19|20)\d\d)([-_.]?)(\d\d)\2(\d\d)(?!\d)")


def day_in(name: str) -> str:
    """Return the day that a name or title has in ISO's form, with or without hyphens; "" if it has none."""
    days = (iso_date(f"{day[1]}-{day[3]}-{day[4]}") for day in _DATED.finditer(name))
    return next(filter(None, days), "")


def dated(loaded: Loaded, **dates: str) -> Loaded:
    """Return a text with its `date` in ISO's form, and in `date_from` its origin.

    It is that of its own metadata (`field`), or else the first of `dates`, by origin, that is a date.
    """
    fields = loaded.metadata
    if "date_from" not in fields:
        for origin, text in ({"field": str(fields["date"])} if fields.get("date") else dates).items():
            if date := iso_date(text):
                first = {"date": date, "date_from": origin}  # before what does not fit
                return replace(loaded, metadata=first | fields | first)
    return loaded


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").disable(["inline", "link", "image"], True)


def structure(text: str) -> tuple[tuple[Heading, ...], tuple[Table, ...]]:
    """Return the headings and tables of a Markdown text, by CommonMark's rules."""
    if not re.search(r"[#|]|==|--", text):
        return (), ()
    lines = [0, *(match.end() for match in re.finditer(r"\n|\Z", text))]
    headings: list[Heading] = []
    tables: list[Table] = []
    tokens = _parser().parse(text.replace("\r", " "))
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            shown = " ".join(tokens[at + 1].content.split())
            headings.append(Heading(lines[token.map[0]], int(token.tag[1]), shown))
        elif token.type == "table_open":
            first, end = token.map
            tables.append(Table(lines[first], lines[min(first + 2, end)], lines[end]))
    return tuple(headings), tuple(tables)


def load_html(name: str, data: bytes, _settings: IndexSettings) -> Iterator[Loaded | str]:
    """Load a page; its title is `<title>`, else as `markdown` finds it."""
    source, note = decode(data)
    yield note
    title, text = html_markdown(source)
    yield markdown(text, name, title)


def html_markdown(source: str, *, all_content: bool = False) -> tuple[str, str]:
    """Return the title and the Markdown of a page; `all_content`: all is content, as in a chapter of a book."""
    from lxml import etree, html

    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    page = html.document_fromstring(f"{source}<p></p>".encode("utf-8", "replace"), parser)  # lxml refuses an empty page
    title = " ".join((page.findtext(".//title") or "").split())
    if all_content:
        etree.strip_elements(page, "title", with_tail=False)
    else:
        _prune(page)
    mains = page.xpath("//main|//*[@role='main']") or page.xpath("//article")
    distinct = set(mains)
    mains = [main for main in mains if distinct.isdisjoint(main.iterancestors())]
    body = page.find("body") if page.find("body") is not None else page
    if all_content or 2 * sum(len(main.text_content()) for main in mains) < len(body.text_content()):
        mains = [body]
    text = "\n\n".join(map(tree_markdown, mains)).strip()
    if not all_content and not text:  # a page of links alone
        return title, html_markdown(source, all_content=True)[1]
    return title, text


def tree_markdown(root: Any) -> str:
    """Return an element of HTML as Markdown, or as plain text if it is nested too deeply for markdownify."""
    from lxml import etree
    from markdownify import markdownify

    _spell_out(root)
    _plain_tables(root)
    for element in root.iter(*_BLOCKS):
        element.tag = "div"
    try:
        markdown: str = markdownify(
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
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in markdown.splitlines())).strip()


def _prune(page: Any) -> None:
    """Remove what is not shown or not content."""
    from lxml import etree

    opened = {ident for idents in page.xpath("//@aria-controls") for ident in idents.split()}
    for name in page.iter(*_NAMES):
        _show_buttons(name)
    etree.strip_elements(page, *_DROP, with_tail=False)
    half = len(page.text_content()) / 2  # a wrapper of the content may be called `has-sidebar`
    named = page.xpath("//body//*[(@class or @id) and not(self::main or self::article)]")
    around = [element for element in named if len(element.text_content()) < half and _is_around(element)]
    links = page.xpath("//*[self::h1 or self::h2 or self::h3 or self::h4 or self::h5 or self::h6]//a")
    permalinks = [link for link in links if _PERMALINK.fullmatch(link.text_content())]
    hidden = [element for element in page.xpath(_HIDDEN) if not _is_opened(element, opened)]
    for element in (*page.xpath(_BARS), *hidden, *around, *permalinks):
        if element.getparent() is not None:
            element.drop_tree()


def _show_buttons(name: Any) -> None:
    """Make text of the buttons of a heading that has no other text."""
    buttons = [*name.iter("button")]
    if buttons and name.text_content().split() == [
        word for button in buttons for word in button.text_content().split()
    ]:
        for button in buttons:
            button.tag = "span"


def _is_links(element: Any) -> bool:
    """Return whether most of an element's text is links."""
    return 2 * sum(len(link.text_content()) for link in element.iter("a")) > len(element.text_content())


def _is_opened(element: Any, opened: set[str]) -> bool:
    """Return whether a hidden element is content that a click shows: a tab panel or a section; no menu."""
    role = element.get("role")
    controlled = element.get("id") in opened and role not in _POPUPS and not _is_links(element)
    return role == "tabpanel" or element.get("hidden") == "until-found" or controlled


def _is_around(element: Any) -> bool:
    """Return whether an element's name says that it is not content.

    Within the content the name alone says nothing: the element must be mostly links. Nor does an id
    whose words are those of the element's heading, from which it was made.
    """
    names, ident = element.get("class", ""), element.get("id", "")
    if not _AROUND.search(f"{names} {ident}"):
        return False
    if _is_links(element):
        return True
    if any(outer.tag in ("main", "article") or outer.get("role") == "main" for outer in element.iterancestors()):
        return False
    heading = next(element.iter(*_HEADINGS), None)
    words = set() if heading is None else {*re.findall(r"\w+", heading.text_content().lower())}
    return bool(_AROUND.search(names)) or not words.issuperset(re.findall(r"[^\W_]+", ident.lower()))


def _spell_out(root: Any) -> None:
    """Write out what only markup says: formulas, raised digits, letters of lists, alt texts."""
    _write_formulas(root)
    for power in root.iter("sup"):
        if (text := power.text_content().strip()) != raised(text):
            power.text = f"^{power.text or ''}"
    for element in root.xpath(".//ol[@type and @type!='1']"):
        kind = f"{'upper' if element.get('type').isupper() else 'lower'}{'Roman' if element.get('type') in 'iI' else 'Letter'}"
        for number, item in enumerate(element.iterchildren("li"), 1):
            item.text = f"{numeral(number, kind)}. {item.text or ''}"
        element.tag = "ul"
    for element in root.xpath(".//img[@alt]"):
        element.tag = "span"
        element.text = alt_text(element.get("alt"))


def _write_formulas(root: Any) -> None:
    """Write signs and brackets into formulas in MathML."""
    from lxml import etree

    for formula in reversed([*root.iter(*_MATH)]):
        parts = [formula] if formula.tag == "msqrt" else [*formula]
        for sign, part in zip(_MATH[formula.tag], parts, strict=False):
            first, last = bracketed(part.text_content()) if sign != " " or formula.tag == "mfrac" else ("", "")
            part.text = f"{sign.strip()}{first}{part.text or ''}"
            if last:
                etree.SubElement(part, "span").text = last


def _plain_tables(root: Any) -> None:
    """Make blocks of tables for layout; give the others one row as their header, and no spanned cells."""
    from lxml import etree

    for table in root.xpath(_LAYOUT):
        rows = table.xpath("./tr|./*/tr")
        for part in (table, *rows, *chain.from_iterable(rows)):
            part.tag = "div"
    etree.strip_elements(root, "colgroup", "col", with_tail=False)
    for caption in root.xpath("descendant-or-self::table/caption"):
        caption.getparent().addprevious(caption)
    fits = sum(map(_repeated, root.iter("td", "th"))) <= _MAX_SPANNED
    for table in root.xpath("descendant-or-self::table"):
        if fits:
            _fill(table.xpath("./tr|./*/tr"))
        _join(table.xpath("./thead[following-sibling::*]/tr"))
    etree.strip_tags(root, "thead", "tbody", "tfoot")  # markdownify takes the first row of each for a header


def _join(header: list[Any]) -> None:
    """Make one row of the rows of a header."""
    for upper in header[-2::-1]:
        for above, below in zip(upper, header[-1], strict=False):
            if (name := above.text_content()) != below.text_content():
                below.text = f"{name} {below.text or ''}"
        upper.getparent().remove(upper)


def _fill(rows: list[Any]) -> None:
    """Repeat cells that span rows, and headers that span columns."""
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


def _repeated(cell: Any) -> int:
    """Return how many characters a cell's copies have."""
    copies = _span(cell, "colspan") * _span(cell, "rowspan") - 1
    return copies * (10 + len(cell.text_content())) if copies else 0


def _span(cell: Any, name: str) -> int:
    number = cell.get(name, "")
    return max(1, int(number)) if re.fullmatch("[0-9]{1,4}", number) else 1


def alt_text(text: str | None) -> str:
    """Return the alt text of a picture; "" if it is a single word or a file name."""
    return " ".join(text.split()) if text and " " in text.strip() else ""


def raised(text: str) -> str:
    """Return a raised text with `^` before it, except for an ordinal's letters, as in 3rd."""
    return text if text.strip().isalpha() and len(text.strip()) > 1 else f"^{text}"


def bracketed(text: str) -> tuple[str, str]:
    """Return the brackets that keep a part of a formula together: none around a word or what has them."""
    return ("", "") if re.fullmatch(r"\w*|\([^()]*\)", "".join(text.split())) else ("(", ")")


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
