"""Markdown and HTML in a reply: what only dresses the text, and what is code and part of it.

`**Paris**` and `<b>Paris</b>` say Paris. `__init__`, `*args`, `<br>`, `[]` and whatever stands
between backticks may be what was asked for.
"""

from __future__ import annotations

import re

_CODE = r"`[^`\n]{1,300}`"
_INNER = rf"(?:{_CODE}|[^`\n]|\n(?![ \t]*\n)){{1,400}}?"
_STARS = re.compile(
    rf"{_CODE}|(?<![A-Za-z0-9*])(?P<run>\*{{1,3}}+)(?=\S)(?P<text>{_INNER})(?<=\S)(?P=run)"
    r"(?![A-Za-z0-9*])"
)
_UNDERSCORES = re.compile(
    rf"{_CODE}|(?<![A-Za-z0-9_])(?!__[a-z][a-z0-9_]*__(?![A-Za-z0-9_]))(?P<run>_{{1,3}}+)(?=\S)"
    rf"(?P<text>{_INNER})(?<=\S)(?P=run)(?![A-Za-z0-9_])"
)
"""Emphasis, as CommonMark pairs it; `__init__` is a name."""
_DRESS = r"(?:b|i|u|em|strong|p|span|code)"
_WRAPS = re.compile(
    rf"{_CODE}|<(?P<run>{_DRESS})\s*>(?P<text>(?:{_CODE}|[^`]){{1,1000}}?)</(?P=run)\s*>", re.I
)
_STRAY = re.compile(rf"{_CODE}|(?:\A|(?<=\n))<{_DRESS}>(?=\w)|(?<=[\w.,;:!?)])</{_DRESS}>", re.I)
"""One half of a pair whose other half is missing."""
_BREAK = re.compile(rf"{_CODE}|(?<=[\w.,;:!?)])<br ?/?>(?=[\s\w]|\Z)", re.I)
_NESTED = 3
"""Tags around one another that are taken off."""
_HTML = re.compile(
    r"</?(?:a|abbr|article|audio|b|blockquote|body|br|button|canvas|caption|code|dd|del|div|dl|dt"
    r"|em|footer|form|h[1-6]|head|header|hr|html|i|iframe|img|input|ins|label|li|link|main|mark"
    r"|meta|nav|ol|option|p|pre|q|s|script|section|select|small|span|strong|style|sub|sup|table"
    r"|tbody|td|textarea|th|thead|title|tr|u|ul|video)\s*/?>",
    re.IGNORECASE,
)
_SIGNS = re.compile(r"(?=[!-]*+[^!-])(?:[<>\[\]{}()|~^\\/@&$%+=!]|-(?!--)|#(?!#)|\*(?!\*\*)){1,6}")
EMPHASIS = "\ue000\ue001"
"""What stands for a `*` and a `_` of Markdown's emphasis while a reply is read."""
_MARKED = str.maketrans("*_", EMPHASIS)
_WRITTEN = str.maketrans(EMPHASIS, "*_")
_QUOTES = " \t\n\"'“”‘’"
_NAME_OF_CODE = re.compile(r"\*\*[a-z_][a-z0-9_]*|[a-z_][a-z0-9_]*\*\*")
_EDGE = re.compile(rf"(?:[{_QUOTES}{EMPHASIS}]|[*_]+(?=\s))+")


_PAIRS = (('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"), ("`", "`"))
_APOSTROPHES = "'’"
_OPENS_BEHIND = " \t\n([{<-–—/"
"""Before a straight quote that opens, where it does not begin the line."""
_MEASURE = re.compile(r"\d['’] ?\d{1,2}(?:\.\d{1,2})?\"\Z")
"""Feet and inches: the mark is part of the number."""


def without_tags(text: str) -> str:
    """Return `text` without HTML tags that dress other text; a tag on its own stays.

    A line break behind a word ends the line.
    """
    for _ in range(_NESTED):
        bare = _WRAPS.sub(_within, text)
        if bare == text:
            break
        text = bare
    text = _STRAY.sub(lambda found: _code_or(found, ""), text)
    return _BREAK.sub(lambda found: _code_or(found, "\n"), text)


def with_marked_emphasis(text: str) -> str:
    """Return `text` with the `*` and `_` of emphasis as `EMPHASIS`; those of code stay."""
    if any(sign in text for sign in EMPHASIS):
        return text
    return _UNDERSCORES.sub(_marked, _STARS.sub(_marked, text))


def as_written(text: str) -> str:
    """Return a piece of a text with marked emphasis as it was."""
    return text.translate(_WRITTEN)


def is_sign(text: str) -> bool:
    """Return whether `text` is code without a word: an HTML tag, brackets, an operator.

    Such an answer says something; dots, dashes, quotes and a rule (`***`) don't.
    """
    return bool(_HTML.fullmatch(text) or _SIGNS.fullmatch(text))


def trimmed(line: str) -> str:
    """Return `line` without space, quotes and marked emphasis at its ends, a bullet, half a code span.

    A quote whose partner stands within the line stays: the film "Jaws".
    """
    if line.count("`") % 2:
        line = line.strip(_QUOTES + "`")
    begin = _edge(line)
    line = _with_partners(line, begin, len(line) - _edge(line[begin:][::-1]))
    if not _half_bold(line):
        return line
    return line[2:] if line.startswith("**") else line[:-2]


def stripped(text: str, edges: str) -> str:
    """Return `text` without the characters `edges` at its ends; quotes stay as in `trimmed`."""
    rest = text.lstrip(edges)
    return _with_partners(
        text, len(text) - len(rest), len(text) - len(rest) + len(rest.rstrip(edges))
    )


def without_backticks(text: str) -> str:
    """Return the code of a text that is one span of code, else the text."""
    inner = text.strip("`")
    span = text.startswith("`") and text.endswith("`") and "`" not in inner
    return inner.strip() if span and inner.strip() else text


def _edge(line: str) -> int:
    found = _EDGE.match(line)
    return found.end() if found else 0


def _with_partners(line: str, begin: int, end: int) -> str:
    """Return the part of a line with the quotes beside it that belong to quotes within it."""
    if _MEASURE.search(line[begin : end + 1]):
        end += 1
    for opening, closing in _PAIRS:
        before, behind = line.rfind(opening, 0, begin), line.find(closing, end)
        if before < 0 and behind < 0:
            continue
        lacks_opening, lacks_closing = _unpaired(line[begin:end], opening, closing)
        if lacks_opening and before >= 0:
            begin = before
        if lacks_closing and behind >= 0:
            end = behind + 1
    return line[begin:end]


def _unpaired(text: str, opening: str, closing: str) -> tuple[bool, bool]:
    """Say whether a closing quote of a text lacks its opening one, and the other way round.

    A straight quote opens behind space or a bracket; between two letters it may be an apostrophe.
    """
    open_quotes, lacks_opening = 0, False
    for found in re.finditer(f"[{opening}{closing}]", text):
        before, behind = (
            text[found.start() - 1 : found.start()],
            text[found.end() : found.end() + 1],
        )
        inside = before.isalnum() and behind.isalnum()
        if inside and closing in _APOSTROPHES:
            continue
        if opening != closing:
            opens = found[0] == opening
        else:
            opens = not open_quotes if inside else not before.strip(_OPENS_BEHIND)
        if opens:
            open_quotes += 1
        elif open_quotes:
            open_quotes -= 1
        else:
            lacks_opening = True
    return lacks_opening, open_quotes > 0


def _half_bold(line: str) -> bool:
    """Is one of bold text's two marks missing here? Names of code such as `**kwargs` have one."""
    if line.count("**") != 1 or not (line.startswith("**") or line.endswith("**")):
        return False
    return re.search(r"\w", line) is not None and not _NAME_OF_CODE.fullmatch(line)


def _within(found: re.Match[str]) -> str:
    return found[0] if found["text"] is None else found["text"]


def _marked(found: re.Match[str]) -> str:
    if found["text"] is None:
        return found[0]
    run = found["run"].translate(_MARKED)
    return f"{run}{found['text']}{run}"


def _code_or(found: re.Match[str], other: str) -> str:
    return found[0] if found[0].startswith("`") else other
