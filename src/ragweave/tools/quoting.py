"""Whether a tab-separated file quotes its fields, or its quotes are part of the text.

Tabs rarely stand within a field, so such a file is often written without quoting. Quotes are taken
for quoting where all of the file is quoted properly, and where a field shows that quoting is in
use, whatever is wrong with another one.
"""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterable

_BLANKS_BEHIND = re.compile(r'" ++(?=[\t\r\n]|$)')
_QUOTED_HEADER = re.compile(r'(?:"[^"\t]*+" *+(?:\t|[\r\n]*+$))++')
_DOUBLED = re.compile(r'(?:^|(?<=\t))"[^"\t]*+""(?:[^"\t]|"")*+" *+(?:[\t\r\n]|$)')
_OPENED = re.compile(r'(?:^|(?<=\t))"(?:[^"\t]|"")*+\Z')
_STILL_OPEN = re.compile(r'(?:[^"\t]|"")*+')
_CLOSED = re.compile(r'(?:[^"\t]|"")*+" *+(?:[\t\r\n]|$)')


def quoted_properly(lines: Iterable[str]) -> bool:
    """Return whether each quote of a tab-separated file is where CSV has it."""
    exact = (_BLANKS_BEHIND.sub('"', line) for line in lines)
    try:
        deque(csv.reader(exact, delimiter="\t", strict=True), maxlen=0)
    except csv.Error:
        return False
    return True


def quoted_header(line: str) -> bool:
    """Return whether each field of a header is quoted."""
    return _QUOTED_HEADER.fullmatch(line) is not None


def quoting_in_use(lines: Iterable[str]) -> bool:
    """Return whether a quoted field of a tab-separated file holds `""`, or lines and no tab.

    What stands between the quotes of two fields would have a tab in it.
    """
    within = False
    for line in lines:
        if _DOUBLED.search(line) or (within and _CLOSED.match(line)):
            return True
        within = bool(_OPENED.search(line) or (within and _STILL_OPEN.fullmatch(line)))
    return False
