"""Cells as Excel's number formats show them (ECMA-376, part 1, 18.8.31).

A format that is not reproduced (conditions, fractions, exponents) gives the value itself; a date is shown in ISO's form.
"""

import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal, DecimalException
from functools import lru_cache
from typing import Any

_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|[_*].|\[\$(?P<currency>[^-\]]*)[^\]]*\]|\[(?:Color ?\d+|'
    r"Black|Blue|Cyan|Green|Magenta|Red|White|Yellow)\]|(?P<digit>[0#?])|(?P<mark>[.,%;])"
    r"|(?P<plain>[-+$():!^&'~{}<>= ]|[^\x00-\x7f])|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_SHAPE = re.compile(
    r"(?P<whole>[L%]*(?:[0#?](?:,(?=[0#?])|[L%])*)*)(?P<scale>,*)(?:\.(?P<decimals>[0#?]*))?(?P<more>,*)[L%]*"
)
"""A section whose literals are `L`. Commas between digits group them; each one after them divides by a thousand."""
_MAX_FORMAT = 200
"""Characters; Excel allows 255."""

_Tokens = Sequence[tuple[str, str]]
"""A section: kinds (`literal`, `digit`, `mark`) and texts."""


def as_shown(value: Any, form: str) -> str:
    """Return a cell's value as its number format shows it."""
    if isinstance(value, datetime) and not re.search("[yd]", form, re.IGNORECASE):
        value = value.time()  # a time of more than 24 hours, or a moment of which the time is shown
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (time, timedelta)):
        return _clock(value, form)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value).strip() if "\n" in str(value) else " ".join(str(value).split())
    number = Decimal(value) if isinstance(value, int) else Decimal(f"{value:.15g}")
    try:
        text = _number(number, form)
    except DecimalException:  # more digits than Decimal's 28
        text = None
    return text if text is not None else f"{value:.15g}" if isinstance(value, float) else str(value)


def _number(number: Decimal, form: str) -> str | None:
    """Return a number in a format, or None if the format is not reproduced."""
    sections = _sections(form)
    if not sections or not number.is_finite():
        return None
    at = 1 if number < 0 and sections[1:] else 2 if number == 0 and sections[2:] else 0
    text = _filled(sections[at], abs(number))
    signed = number >= 0 or (at and text != _filled(sections[0], -number))  # else only a color would tell
    return text if signed or not text else f"-{text}"


@lru_cache(maxsize=1000)
def _sections(form: str) -> Sequence[_Tokens]:
    """Return a format's sections for numbers; none if it has a sign that is not reproduced."""
    if form == "General" or len(form) > _MAX_FORMAT:
        return ()
    sections: list[list[tuple[str, str]]] = [[]]
    for token in _TOKEN.finditer(form):
        kind, text = token.lastgroup or "", token[token.lastgroup or 0]
        if kind == "other":
            return sections[:3] if sections[3:] else ()  # texts have a section of their own, the fourth
        if kind == "mark" and text == ";":
            sections.append([])
        elif kind:
            sections[-1].append((kind if kind in ("digit", "mark") else "literal", text))
    return sections[:3]


def _filled(tokens: _Tokens, number: Decimal) -> str | None:
    """Return a section with the digits of a number that is not negative; None if it is not reproduced."""
    code = "".join("L" if kind == "literal" else text for kind, text in tokens)
    shape = _SHAPE.fullmatch(code)
    if shape is None:
        return None
    whole, decimals = shape["whole"], shape["decimals"] or ""
    number = number * Decimal(100) ** code.count("%") / Decimal(1000) ** len(shape["scale"] + shape["more"])
    number = number.quantize(Decimal(1).scaleb(-len(decimals)), ROUND_HALF_UP)
    before, _, after = f"{number:f}".partition(".")
    fixed = len(decimals.rstrip("#?"))
    after = after[:fixed] + after[fixed:].rstrip("0")
    places = [at for at, sign in enumerate(whole) if sign in "0#?"]
    digits = before.lstrip("0").rjust(len([at for at in places if "0" in whole[: at + 1]]), "0")
    if digits and decimals and not places:
        return None
    texts = ["" if sign in "0#?,." else text for sign, (_, text) in zip(code, tokens, strict=True)]
    if after:
        texts[code.index(".")] = f".{after}"
    if "," in whole and digits:
        digits, places = f"{int(digits):,}", places[:1]
    for at in places[:0:-1]:  # a digit each from the right; the first place takes what is left
        digits, texts[at] = digits[:-1], digits[-1:]
    for at in places[:1]:
        texts[at] = digits
    return "".join(texts).strip()


def _clock(value: time | timedelta, form: str) -> str:
    """Return a time of day or a duration in hours and minutes, with seconds and AM or PM where the format has them."""
    if isinstance(value, time):
        value = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond)
    seconds, form = round(value.total_seconds()), form.lower()
    hours, rest = divmod(abs(seconds), 3600)
    text = f":{rest // 60:02}" + (f":{rest % 60:02}" if "s" in form else "")
    digits = 2 if "hh" in form else 1
    if "am/pm" in form:
        return f"{hours % 12 or 12:0{digits}}{text} {'PM' if hours % 24 >= 12 else 'AM'}"
    sign = "-" if seconds < 0 else ""
    return f"{sign}{hours if '[' in form else hours % 24:0{digits}}{text}"
