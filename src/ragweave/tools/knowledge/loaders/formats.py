"""Cells as Excel's number formats show them (ECMA-376, part 1, 18.8.31).

A format that is not reproduced exactly (fractions, exponents, calendars) gives the value itself; a date
is shown in ISO's form.
"""

import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal, DecimalException
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne
from typing import Any, NamedTuple

_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|[_*].|\[\$(?P<currency>[^-\]]*)[^\]]*\]|\[(?:Color ?\d+|'
    r"Black|Blue|Cyan|Green|Magenta|Red|White|Yellow)\]|\[(?P<condition>[<>=]+-?\d+\.?\d*)\]|(?P<digit>[0#?])"
    r"|(?P<mark>[.,%;])|(?P<plain>[-+$():!^&'~{}<>= ]|[^\x00-\x7f])|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_SCALING = re.compile(r"(?<=[0#?]),+(?=\.|[L%]*$)")
"""Commas that divide by a thousand, in a section whose literals are `L`."""
_DIGITS = re.compile(r"[L%]*(?:[0#?](?:,(?=[0#?])|[L%])*)*(?:\.[0#?L%]*)?")
"""Such a section without them, whose other commas group digits."""
_BLANK = {"#": "", "?": " "}
"""What places without a digit show; 0 shows 0."""
_CONDITION = re.compile(r"([<>=]+)(.*)")
_COMPARE = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq, "<>": ne}
_CLOCK = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|\[\$-[^\]]*\]|(?P<total>\[[hms]+\])|(?P<unit>h+|m+|s+)'
    r"|(?P<half>AM/PM|A/P)|(?P<plain>[: ])|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_SECONDS = {"h": 3600, "m": 60, "s": 1}
_MAX_FORMAT = 200
"""Characters; Excel allows 255."""


class _Section(NamedTuple):
    condition: str
    tokens: tuple[tuple[str, str], ...]
    """Kind (`literal`, `digit`, `mark`) and text."""


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
    if any(section.condition for section in sections):
        fitting = (section for section in sections if _fits(number, section.condition))
        section = next(fitting, None)
        return None if section is None or number < 0 else _filled(section.tokens, number)
    at = 1 if number < 0 and sections[1:] else 2 if number == 0 and sections[2:] else 0
    sign = "-" if number < 0 and not at else ""
    text = _filled(sections[at].tokens, abs(number))
    return None if text is None else f"{sign}{text}"


def _fits(number: Decimal, condition: str) -> bool:
    parts = _CONDITION.fullmatch(condition)
    compare = _COMPARE.get(parts[1]) if parts else None
    return not condition or bool(parts and compare and compare(number, Decimal(parts[2])))


@lru_cache(maxsize=1000)
def _sections(form: str) -> tuple[_Section, ...]:
    """Return the sections of a format; none if it has a sign that is not reproduced."""
    if form == "General" or len(form) > _MAX_FORMAT:
        return ()
    sections = [("", list[tuple[str, str]]())]
    for token in _TOKEN.finditer(form):
        kind, text = token.lastgroup or "", token[token.lastgroup or 0]
        if kind == "other":
            # Texts have a section of their own, the fourth.
            return tuple(_Section(condition, tuple(tokens)) for condition, tokens in sections[:3] if sections[3:])
        if text == ";" and kind == "mark":
            sections.append(("", []))
        elif kind == "condition":
            sections[-1] = (text, sections[-1][1])
        elif kind:
            sections[-1][1].append((kind if kind in ("digit", "mark") else "literal", text))
    return tuple(_Section(condition, tuple(tokens)) for condition, tokens in sections[:3])


def _filled(tokens: Sequence[tuple[str, str]], number: Decimal) -> str | None:
    """Return a section with the digits of a number that is not negative; None if it is not reproduced."""
    code = "".join("L" if kind == "literal" else text for kind, text in tokens)
    scaling = [at for commas in _SCALING.finditer(code) for at in range(*commas.span())]
    plain = "".join(sign for at, sign in enumerate(code) if at not in scaling)
    if not _DIGITS.fullmatch(plain):
        return None
    digits = [at for at, sign in enumerate(code) if sign in "0#?"]
    point = code.find(".") if "." in code else len(code)
    integral, decimals = [at for at in digits if at < point], [at for at in digits if at > point]
    number = number * Decimal(100) ** code.count("%") / Decimal(1000) ** len(scaling)
    before, _, after = f"{number.quantize(Decimal(1).scaleb(-len(decimals)), ROUND_HALF_UP):f}".partition(".")
    if digits and not integral and before.strip("0"):
        return None
    texts = ["" if sign == "," else text for sign, (_, text) in zip(code, tokens, strict=True)]
    _fill_whole(texts, integral, before.lstrip("0"), grouped="," in plain)
    last = max((at for at, digit in enumerate(after) if digit != "0" or code[decimals[at]] == "0"), default=-1)
    for at, (place, digit) in enumerate(zip(decimals, after, strict=True)):
        texts[place] = digit if at <= last else _BLANK[texts[place]]
    return "".join(texts).strip()


def _fill_whole(texts: list[str], places: Sequence[int], digits: str, *, grouped: bool) -> None:
    """Put the digits before the point into their places from the right; the first place takes what is left."""
    if not places:
        return
    padded = list(digits.rjust(len(places)))
    for count, (place, digit) in enumerate(zip(reversed(places), reversed(padded), strict=False)):
        text = digit if digit != " " else _BLANK.get(texts[place], "0")
        texts[place] = text + "," * (grouped and count > 0 and count % 3 == 0 and text.isdigit())
    rest = padded[: len(padded) - len(places)]
    for count, digit in enumerate(reversed(rest), len(places)):
        texts[places[0]] = digit + "," * (grouped and count % 3 == 0) + texts[places[0]]


def _clock(value: time | timedelta, form: str) -> str:
    """Return a time of day or a duration in a format, or else in hours, minutes and seconds."""
    if isinstance(value, time):
        value = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond)
    seconds = round(value.total_seconds())
    tokens = [(token.lastgroup or "", token[token.lastgroup or 0]) for token in _CLOCK.finditer(form)]
    kinds = {kind for kind, _ in tokens}
    if seconds < 0 or "other" in kinds or not kinds & {"unit", "total"}:
        return f"{'-' * (seconds < 0)}{abs(seconds) // 3600}:{abs(seconds) // 60 % 60:02}:{abs(seconds) % 60:02}"
    text = ""
    for kind, token in tokens:
        if kind in ("unit", "total"):
            unit = token.strip("[]").lower()
            number = seconds // _SECONDS[unit[0]]
            if kind == "unit":
                number %= 12 if unit[0] == "h" and "half" in kinds else 24 if unit[0] == "h" else 60
                number = number or 12 * (unit[0] == "h" and "half" in kinds)
            text += f"{number:0{len(unit)}}"
        elif kind == "half":
            half = seconds // 43200 % 2
            text += token.split("/")[half]
        else:
            text += token
    return text
