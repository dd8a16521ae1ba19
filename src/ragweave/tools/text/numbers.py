"""Numbers and dates in one form, so that texts are compared by what they say."""

import re
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

_MONTHS = """
january jan januar jänner janvier enero gennaio janeiro januari
february feb februar février febrero febbraio fevereiro februari
march mar märz mrz mars marzo março maart
april apr avril abril aprile
may mai mayo maggio maio mei maj
june jun juni juin junio giugno junho
july jul juli juillet julio luglio julho
august aug août agosto augustus
september sept sep septembre septiembre settembre setembro
october oct oktober okt octobre octubre ottobre outubro
november nov novembre noviembre novembro
december dec dezember dez décembre diciembre dicembre dezembro
"""
"""Names of each month, English first, then German, French, Spanish, Italian, Portuguese, Dutch."""
_NUMBER_OF = {name: number for number, line in enumerate(_MONTHS.strip().splitlines(), 1) for name in line.split()}
_NAMES = [line.split()[0] for line in _MONTHS.strip().splitlines()]
_MONTH = rf"\b(?P<month>{'|'.join(sorted(_NUMBER_OF, key=len, reverse=True))})\b\.?"
_MONTH_FIRST = re.compile(rf"\s*{_MONTH}", re.IGNORECASE)
_DAY, _YEAR = r"\b(?P<day>\d{1,2})(?:st|nd|rd|th|er|\.|º)?", r"(?P<year>\d{4})\b"
_DATES = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_DAY}\s+(?:of |de )?{_MONTH}(?:,?\s+(?:de |del )?{_YEAR})?",
        rf"{_MONTH}\s+{_DAY}(?!\d)(?:,?\s+{_YEAR})?",
        rf"{_MONTH},?\s+(?:de |of )?{_YEAR}",
        rf"(?<![\d./-]){_YEAR}([-/])(?P<number>\d\d)\2(?P<day>\d\d)(?![\d/-])",
        rf"(?<![\d.])(?P<day>\d{{1,2}})\.\s?(?P<number>\d{{1,2}})\.\s?{_YEAR}",
        r"(?<!\d)(?P<year>\d{4})年(?P<number>\d{1,2})月(?:(?P<day>\d{1,2})日)?",
    )
]
_LESS = [
    re.compile(r"(?<![\d.-])(?P<year>(?:19|20)\d\d)-(?P<number>0[1-9]|1[0-2])(?![\d-])"),
    re.compile(r"(?<![\w.,/$€£])(?P<year>(?:19|20)\d\d)(?![\w%/]|[.,:]\d)"),
]
"""ISO's months, and years."""
_LONGEST_DATE = 100
_SLASHED = re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})/(\d{4})(?![\d/])")
_GROUPED = re.compile(r"(?<![\w.,])[1-9]\d{0,2}(?:([.,'’\u00a0\u202f])\d{3})(?:\1\d{3})*(?!\d|[.,]\d+[.,])")
_DECIMAL = re.compile(r"(?<![\w.,])(\d+)[.,](\d+)(?![\w,.]*\d)")
_PERCENT = re.compile(r"(?<=\d)\s*(?:%|％|per ?cent\b|prozent\b|pour ?cent\b|por ciento\b|per cento\b)", re.IGNORECASE)
_CURRENCIES = {"euro": r"€|\beur(?:os?)?\b", "dollar": r"\$|\busd\b", "pound": r"£|\bgbp\b", "yen": r"[¥￥]|\bjpy\b"}
_CURRENCY = re.compile("|".join(f"(?P<{name}>{signs})" for name, signs in _CURRENCIES.items()), re.IGNORECASE)
CURRENCIES = frozenset(_CURRENCIES)
"""Names of currencies in the form that `comparable` gives them."""
CODES = "AUD|BRL|CAD|CHF|CNY|CZK|DKK|HKD|HUF|INR|ISK|KRW|MXN|NOK|NZD|PLN|RON|RUB|SEK|SGD|THB|TWD|UAH|ZAR"
"""Codes of other currencies, but for those that are also names or words, such as PHP and TRY."""


def month_begins(text: str) -> bool:
    """Return whether a text begins with the name of a month."""
    return _MONTH_FIRST.match(text) is not None


def comparable(text: str) -> str:
    """Return a text with its numbers, percentages, amounts of money and dates in one form.

    A point or comma before three digits separates thousands, before others decimals. A date of digits with
    slashes stays as it is where it may be read in two ways.

    Examples:
        >>> comparable("7,4 per cent of 1.850.000 on Feb. 17th, 2025: €18,400.50")
        '7.4% of 1850000 on 17 february 2025:  euro 18400.5'
    """
    if not any(map(str.isdigit, text)):
        return text
    text = _SLASHED.sub(_unslashed, text)
    for pattern in _DATES:
        text = pattern.sub(_written_out, text)
    text = _GROUPED.sub(lambda number: re.sub(r"\D", "", number[0]), text)
    text = _DECIMAL.sub(lambda number: f"{number[1]}.{number[2]}".rstrip("0").rstrip("."), text)
    return _CURRENCY.sub(lambda sign: f" {sign.lastgroup} ", _PERCENT.sub("%", text))


def _unslashed(numbers: re.Match[str]) -> str:
    first, second, year = map(int, numbers.groups())
    if second > 12 or first == second:
        first, second = second, first
    elif first <= 12:
        return numbers[0]
    return f"{year}-{second:02}-{first:02}"


def _written_out(match: re.Match[str]) -> str:
    """Return a date as `17 february 2025`, or the text if there is no such day."""
    parts = match.groupdict()
    month = int(parts.get("number") or _NUMBER_OF[parts["month"].lower()])
    day, year = int(parts.get("day") or 1), int(parts.get("year") or 2000)
    try:
        date(year, month, day)
    except ValueError:
        return match[0]
    return " ".join(filter(None, [str(day) if parts.get("day") else "", _NAMES[month - 1], parts.get("year")]))


class TimeSpan(NamedTuple):
    """A day, month or year that a text names: the 40 characters before it, its own, its first day and the next one."""

    before: str
    text: str
    start: date
    end: date


def times_in(text: str) -> list[TimeSpan]:
    """Return the days, months and years that a text names, in their order; a date of digits in two readings is none.

    Examples:
        >>> [str(span.start) for span in times_in("between März 2020 and 2021, before 3/31/2024")]
        ['2020-03-01', '2021-01-01', '2024-03-31']
    """
    text = rest = _SLASHED.sub(_unslashed, text)
    spans: dict[int, TimeSpan] = {}
    for pattern in (*_DATES, *_LESS):
        for match in pattern.finditer(rest):
            with suppress(ValueError, OverflowError):  # no such day, or none after it
                before = text[max(match.start() - 40, 0) : match.start()]
                spans[match.start()] = TimeSpan(before, match[0], *_first_and_next(match.groupdict()))
        rest = pattern.sub(lambda match: " " * len(match[0]) if match["year"] else match[0], rest)
    return [spans[start] for start in sorted(spans)]


def _first_and_next(parts: dict[str, str | None]) -> tuple[date, date]:
    year, month = (
        int(parts["year"] or 0),
        int(parts.get("number") or _NUMBER_OF.get(str(parts.get("month")).lower(), 0)),
    )
    first = date(year, month or 1, int(parts.get("day") or 1))
    if parts.get("day"):
        return first, first + timedelta(1)
    return first, date(year + month // 12, month % 12 + 1, 1) if month else date(year + 1, 1, 1)


def iso_date(text: str) -> str:
    """Return a date in ISO's form, with its time if it has one; "" if the text is not a date.

    Examples:
        >>> iso_date("March 1st, 2024"), iso_date("1.3.2024"), iso_date("März 2024"), iso_date("2024"), iso_date("soon")
        ('2024-03-01', '2024-03-01', '2024-03', '2024', '')
        >>> iso_date("31/03/2024"), iso_date("3/31/2024"), iso_date("2024/03/31"), iso_date("3/4/2024")
        ('2024-03-31', '2024-03-31', '2024-03-31', '')
    """
    if len(text) > _LONGEST_DATE:
        return ""
    with suppress(ValueError):
        moment = datetime.fromisoformat(text.strip())
        plain = moment.time() == time() and not moment.tzinfo
        return moment.date().isoformat() if plain else moment.isoformat()
    text = _SLASHED.sub(_unslashed, text)
    for span in times_in(text)[:1]:
        if not text.strip().removeprefix(span.text):
            days = (span.end - span.start).days
            return span.start.isoformat()[: 10 if days == 1 else 7 if days < 32 else 4]
    return ""
