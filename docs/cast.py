"""A recorded terminal session (asciicast v2) as one animated SVG, without a script or a font.

Each distinct line of the screen is drawn once, and shown by CSS while it stands there; readers who
ask for less motion see the last screen. `pyte` plays the terminal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import pyte

CELL, LINE, PAD, BAR = 8.4, 19.0, 16.0, 30.0
"""Width of a letter, height of a line, margin and height of the window's bar, in pixels."""
LONGEST = 1.1
"""Most seconds that a pause of the recording lasts: nobody wants to watch a machine think."""
END = 4.0
"""Seconds for which the last screen stands."""

COLOURS = {
    "default": "#d6deeb",
    "black": "#5c6773",
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#76e3ea",
    "white": "#ffffff",
}

STYLE = f"""\
text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;\
white-space:pre;fill:{COLOURS["default"]}}}
.l{{visibility:hidden;animation:linear infinite}}.last{{visibility:visible}}
@media (prefers-reduced-motion:reduce){{.l{{animation:none!important}}}}
"""


class Shown(NamedTuple):
    """A line of the screen, and when it stood there, in seconds."""

    row: int
    drawn: str
    start: float
    end: float


def animated(cast: Path) -> str:
    """Return the SVG of a recording."""
    head, *events = (json.loads(line) for line in cast.read_text("utf-8").splitlines())
    columns, rows = head["width"], head["height"]
    shown = list(lines_of(columns, rows, paced(events)))
    length = max(one.end for one in shown)
    width, height = columns * CELL + 2 * PAD, rows * LINE + BAR + PAD
    rules, drawn = [], []
    for at, one in enumerate(shown):
        begin, end = (100 * moment / length for moment in (one.start, one.end))
        last = one.end >= length
        rules.append(f"@keyframes k{at}{{{_visible(begin, end)}}}")
        y = BAR + (one.row + 0.8) * LINE
        kind = "l last" if last else "l"
        style = f"animation-name:k{at};animation-duration:{length:.2f}s"
        drawn.append(f'<g class="{kind}" style="{style}" transform="translate({PAD} {y:.1f})">')
        drawn.append(f"{one.drawn}</g>")
    dots = "".join(
        f'<circle cx="{PAD + 4 + 18 * at}" cy="{BAR / 2}" r="5.5" fill="{colour}"/>'
        for at, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    title = escape(str(head.get("title", "A terminal session")))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"><title>{title}</title>'
        f"<style>{STYLE}{''.join(rules)}</style>"
        f'<rect width="100%" height="100%" rx="9" fill="#0f1720"/>{dots}\n'
        + "\n".join(drawn)
        + "</svg>\n"
    )


def paced(events: Iterable[Any]) -> Iterator[tuple[float, str]]:
    """Yield what was written and when, long pauses cut short."""
    now = before = 0.0
    for moment, kind, text in events:
        now += min(moment - before, LONGEST)
        before = moment
        if kind == "o":
            yield now, text


def lines_of(columns: int, rows: int, events: Iterable[tuple[float, str]]) -> Iterator[Shown]:
    """Yield each line that stood on the screen, in order of its end."""
    screen = pyte.Screen(columns, rows)
    stream = pyte.Stream(screen)
    standing: dict[int, tuple[str, float]] = {}
    now = 0.0
    for now, text in events:
        stream.feed(text)
        for row in range(rows):
            drawn = _line(screen, row)
            before, since = standing.get(row, ("", now))
            if drawn == before:
                continue
            if before and now > since:
                yield Shown(row, before, since, now)
            standing[row] = (drawn, now)
    for row, (drawn, since) in standing.items():
        if drawn:
            yield Shown(row, drawn, since, now + END)


def _line(screen: pyte.Screen, row: int) -> str:
    """Draw a line: a piece for each run of letters of one look, at its place."""
    cells = [screen.buffer[row][column] for column in range(screen.columns)]
    pieces, start = [], 0
    while start < len(cells):
        end = start
        while end < len(cells) and _look(cells[end]) == _look(cells[start]):
            end += 1
        text = "".join(cell.data for cell in cells[start:end]).rstrip()
        lead = len(text) - len(text.lstrip())
        if text.strip():
            pieces.append(_piece(text.strip(), start + lead, _look(cells[start])))
        start = end
    return "".join(pieces)


def _look(cell: Any) -> tuple[str, bool]:
    return cell.fg, cell.bold


def _piece(text: str, column: int, look: tuple[str, bool]) -> str:
    colour, bold = look
    fill = COLOURS.get(colour.removeprefix("bright"), f"#{colour}")
    rules = [f"fill:{fill}"] * (colour != "default") + ["font-weight:700"] * bold
    style = f' style="{";".join(rules)}"' if rules else ""
    return (
        f'<text x="{column * CELL:.1f}" textLength="{len(text) * CELL:.1f}"{style}>'
        f"{escape(text)}</text>"
    )


def _visible(begin: float, end: float) -> str:
    """Return the key frames of what is seen between two percents of the time."""
    before = f"0%,{begin:.3f}%{{visibility:hidden}}" if begin > 0 else ""
    after = f"{end:.3f}%,100%{{visibility:hidden}}" if end < 100 else ""
    return (
        f"{before}{begin + 0.001 if begin > 0 else 0:.3f}%,{min(end, 100) - 0.001:.3f}%"
        f"{{visibility:visible}}{after}"
    )
