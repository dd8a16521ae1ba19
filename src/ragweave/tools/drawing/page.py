"""HTML pages: one look in light and dark, on a phone and a desk; no script, nothing loaded.

The page follows the reader's system; a checkbox switches it, by CSS alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

LOOK = """\
:root{color-scheme:light dark;
--ink:light-dark(#1d2433,#dde3f0);--dim:light-dark(#5f6880,#97a1b8);
--paper:light-dark(#fff,#13161d);--panel:light-dark(#f5f6fa,#1b202b);
--rule:light-dark(#d7dce7,#333b4c);--link:light-dark(#2c53c0,#92b2ff);
--good:light-dark(#eef6ea,#1d2a1c);--good-line:light-dark(#6f8a5a,#7f9f68);
--warm:light-dark(#fff5e6,#2c2417);--warm-line:light-dark(#b86a00,#e0a04a);
--bad:light-dark(#fbeaea,#331d1f);--bad-line:light-dark(#b04141,#e07a7a);
--mark:light-dark(#ffe9a8,#5d4a12)}
:root:has(#theme:checked){color-scheme:dark}
@media (prefers-color-scheme:dark){:root:has(#theme:checked){color-scheme:light}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);
margin:0 auto;max-width:1180px;padding:24px;overflow-wrap:anywhere}
h1{font-size:22px;line-height:1.3;margin:0 44px 6px 0}h2{font-size:17px;margin:26px 0 8px}
h3{font-size:15px;margin:20px 0 6px}a{color:var(--link)}
.dim{color:var(--dim);font-size:13px}
details{border:1px solid var(--rule);border-radius:8px;margin:6px 0;padding:0 12px}
summary{cursor:pointer;padding:7px 0}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--panel);border-radius:6px;
padding:9px 11px;margin:5px 0 10px;font:13px/1.5 ui-monospace,monospace}
.theme{position:absolute;top:22px;right:max(18px,calc(50% - 570px));cursor:pointer;
font-size:18px;line-height:1;padding:6px}.theme input{position:absolute;opacity:0}
.theme:has(:focus-visible){outline:2px solid var(--link);border-radius:6px}
@media (max-width:600px){body{padding:16px}.theme{top:12px;right:10px}h1{font-size:19px}}
@media print{.theme{display:none}}
"""
"""Colours by name, for light and for dark, and what all pages share."""

_THEME = (
    '<label class="theme" title="Switch between light and dark">'
    '<input type="checkbox" id="theme" aria-label="Switch between light and dark">◐</label>'
)


def html_page(title: str, body: Iterable[str], style: str = "") -> str:
    """Return a whole page.

    Its own policy lets no script run and nothing be loaded; pictures stand in the page itself.

    Args:
        title: The page's title; escaped here.
        body: Pieces of HTML, whose texts are escaped already.
        style: More CSS, in the colours of `LOOK`.
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n"
        f"<title>{escape(title)}</title>\n<style>\n{LOOK}{style}</style>\n</head>\n<body>\n{_THEME}\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )
