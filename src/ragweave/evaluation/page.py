"""`report.html`: a report as one page that needs nothing else, in light and dark, on any screen."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from ragweave.evaluation.report import Report, cells, legend, pair_cells, verdict
from ragweave.tools.footnotes import html_page

_STYLE = """\
h1{font-size:17px;font-weight:500}
.verdict{font-size:21px;line-height:1.35;font-weight:600;margin:6px 0 16px}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:15px}
th,td{padding:6px 11px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--rule)}
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--paper);white-space:normal;min-width:7rem}
tr:hover td{background:var(--panel)}
svg{width:100%;max-width:48rem;height:auto;font:14px system-ui,sans-serif}
svg text{fill:var(--ink)}svg .grid{stroke:var(--rule)}svg circle{fill:var(--link)}
svg .bar{stroke:var(--link);stroke-width:1.5;opacity:.6}
summary{font-weight:600}li{margin:3px 0}.note{border-left:3px solid var(--warm-line);padding-left:10px}
"""


def html(report: Report) -> str:
    """Return a report as one page."""
    first = sorted(report.metrics, key=lambda one: one.name != report.main)[:3]
    pairs = f"<h2>All pairs</h2>{_table(*pair_cells(report))}" if len(report.pairs) > 1 else ""
    notes = "".join(f'<p class="note">{escape(one)}</p>' for one in report.notes)
    settings = [f"{name}: {value}" for name, value in report.about.items()]
    body = f"""<h1>{escape(report.title)}</h1>
<p class="verdict">{escape(verdict(report))}</p>
{_table(*cells(report, first))}
{notes}
<h2>{escape(report.metric.label)} against tokens a question</h2>
{scatter(report)}
{pairs}
<details><summary>All metrics</summary>
{_table(*cells(report))}
{_list(one.removeprefix("- ").replace("**", "") for one in legend(report))}</details>
<details><summary>Settings</summary>{_list(settings)}</details>"""
    return html_page(report.title, _STYLE, body)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    body = "".join(f"<tr>{_cells(row, 'td')}</tr>" for row in rows)
    top = f"<thead><tr>{_cells(head, 'th')}</tr></thead>"
    return f'<div class="wide"><table>{top}<tbody>{body}</tbody></table></div>'


def _cells(row: Iterable[str], tag: str) -> str:
    return "".join(f"<{tag}>{escape(one)}</{tag}>" for one in row)


def _list(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(one)}</li>' for one in lines)}</ul>"


_WIDE, _HIGH, _LEFT, _LOW = 640, 360, 50, 44
"""Pixels of the plot, and those left of and below its axes."""


def scatter(report: Report) -> str:
    """Return a plot of the main score, with its interval, against tokens a question, as SVG."""
    times = 100 if report.metric.percent else 1
    scored = [(one.system, one.tokens, one.scores[report.main]) for one in report.lines if report.main in one.scores]
    points = [(name, x, times * one.mean, times * one.low, times * one.high) for name, x, one in scored]
    if not points:
        return ""
    most = max(x for _, x, *_ in points) * 1.15 or 1.0
    bottom, top = min(one[3] for one in points), max(one[4] for one in points)
    margin = max((top - bottom) / 10, 0.5)
    bottom, top = bottom - margin, top + margin

    def across(x: float) -> float:
        return _LEFT + (_WIDE - _LEFT - 20) * x / most

    def down(y: float) -> float:
        return _HIGH - _LOW - (_HIGH - _LOW - 10) * (y - bottom) / (top - bottom)

    parts = [f'<svg viewBox="0 0 {_WIDE} {_HIGH}" role="img" aria-label="score against tokens">']
    for y in _ticks(bottom, top):
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDE}" y1="{down(y):.0f}" y2="{down(y):.0f}"/>')
        parts.append(_text(_LEFT - 6, down(y) + 4, f"{y:g}", "end"))
    parts += [_text(across(x), _HIGH - 24, f"{x:,.0f}", "middle") for x in _ticks(0, most)]
    parts.append(_text(_WIDE, _HIGH - 4, "tokens a question", "end"))
    taken = [(across(x) - 6, across(x) + 6, down(y) + 4) for _, x, y, *_ in points]
    for name, tokens, mean, low, high in sorted(points, key=lambda one: -one[2]):
        x, y = across(tokens), down(mean)
        left = x > _WIDE * 0.6
        parts.append(f'<line class="bar" x1="{x:.1f}" x2="{x:.1f}" y1="{down(low):.1f}" y2="{down(high):.1f}"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5"><title>{escape(name)}</title></circle>')
        shown = name if len(name) <= 40 else f"{name[:39]}…"
        start = x - 9 - 8 * len(shown) if left else x + 9
        height = _free(start, y + 4, 8 * len(shown), taken)
        parts.append(_text(x + (-9 if left else 9), height, shown, "end" if left else "start"))
    return "\n".join([*parts, "</svg>"])


def _ticks(low: float, high: float) -> list[float]:
    """Return a few round numbers between two."""
    size = 10.0 ** math.floor(math.log10(high - low))
    step = next(size * one for one in (0.1, 0.2, 0.5, 1, 2, 5) if (high - low) / (size * one) <= 6)
    return [at * step for at in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _free(x: float, y: float, length: float, taken: list[tuple[float, float, float]]) -> float:
    """Return the first height from `y` down at which a label from `x` on, so long, covers no other."""
    while any(abs(top - y) < 15 and left < x + length and x < right for left, right, top in taken):
        y += 15
    taken.append((x, x + length, y))
    return y


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
