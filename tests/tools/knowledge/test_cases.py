"""Documents that were once read wrongly (`tests/cases`): what their passages must hold, and what they must not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from langchain_core.documents import Document

from ragweave.names import RetrieverName
from ragweave.state.passages import place_at
from ragweave.tools.knowledge import IndexReport, IndexSettings, KnowledgeBase

CASES = Path(__file__).parents[2] / "cases" / "documents"

LIFT = ["Page 1 of the lift manual", "Page 3 of the lift manual", "in part: page 2: empty or damaged"]
if find_spec("rapidocr"):
    SCAN, GLYPHS = ["yearly rent is 840 crowns"], ["skipped: .*page 1: nothing that can be recognised"]
else:
    SCAN = ["in part: pages 1, 2: a picture that was not read .*pip install"]
    GLYPHS = [r"skipped: .*page 1: text that cannot be read.*pip install"]

# File or folder, question ("": all passages), patterns that must be found, patterns that must not.
# A passage begins with `<title page headings>`, and so does each place within it.
TABLE: list[tuple[str, str, list[str], list[str]]] = [
    ("pdf/form-filled.pdf", "", ["Mirjam Oduya", "KX-7741-B", "14 March 2027", "Tromso depot", "insured: yes"], []),
    ("pdf/scan-with-stamp.pdf", "", SCAN, []),
    ("pdf/glyph-names.pdf", "", GLYPHS, ["/G0"]),
    ("pdf/badpage-ops.pdf", "", LIFT, []),
    ("pdf/badpage-a85.pdf", "", LIFT, []),
    ("pdf/hyphenated.pdf", "database", ["depart"], []),
    ("pdf/hyphenated.pdf", "department", ["depart"], []),
    ("pdf/hyphenated.pdf", "well-known", ["depart"], []),
    ("pdf/owner-AES-128.pdf", "", ["keeps its records"], ["skipped", "in part"]),
    ("pdf/three-pages.pdf", "What is the fine for an open fire?", ["three-pages p3 >[^<]*fine for an open fire"], []),
    ("pdf/three-pages.pdf", "Where are fires forbidden?", ["three-pages p2 >[^<]*Fires are forbidden"], []),
    ("office/shape-unrecognised.pptx", "", ["slipway is closed", "Call the ice office first", "crane is tested"], []),
    ("office/image-external-embed.docx", "", ["open until nine", "bell rings at ten"], []),
    ("office/footnote-missing.docx", "", ["Fees rise in May"], []),
    ("office/merged-table.docx", "", [r"\| (North)? *\| Tuesday \| 10 to 14"], [r"\n\| Tuesday"]),
    ("office/numbered-clauses.docx", "What does clause 2.2 say?", ["2.2 Late rent bears four per cent"], []),
    ("office/number-formats.xlsx", "", ["rate: 7.50%", "share: 33%", "code: 00007", r"price: \$1,234.50"], []),
    ("office/formulas-no-cache.xlsx", "", ["formulas of sheet 'Totals' have no saved value"], []),
    ("office/two-row-header.xlsx", "", ["North\n2025 Q1: 11\n2025 Q2: 12\n2026 Q1: 13\n2026 Q2: 14"], []),
    ("text/cp1252.csv", "", ["Köln", "Müller’s", "€"], []),
    ("text/sjis.csv", "", ["名前: 佐藤太郎"], ["after line 0"]),
    ("text/latin1.md", "", ["Grüße aus Münster"], []),
    ("text/preamble.csv", "", ["Date: 2026-01-04\nPayee: Water board\nAmount: -88,10", "Payee: Ferry line"], []),
    ("text/base64-image.md", "", ["green button", "red button"], ["iVBOR", "[^\n<]{1000}"]),
    ("text/hex.txt", "", ["The key expires in June"], ["[^<]{3000}"]),
    ("text/fm-colon.md", "", ["<(fm-colon|Guide: how to sail) >"], ["<tags"]),
    ("text/long-table.md", "salinity of station S045", [r"\A<Stations [^<]*>\| Code \|[^<]*\| S045 \|"], []),
    ("text/headings-cited.md", "What does a lost key cost?", ["<Handbook Keys>[^<]*A lost key costs"], []),
    ("text/chinese.md", "年假", ["带薪年假"], []),
    ("text/sjis.csv", "大阪に住む", ["三木英子"], []),
    ("text/nb.ipynb", "", ["High water", r"print\('mean range'", "mean range 1.3 m"], []),
    ("text/tool.py", "", ["def winch_speed"], []),
    ("text/content-field.jsonl", "", ["The spare key is under the blue pot"], []),
    ("text/2026.03.01 minutes", "", ["<2026.03.01 minutes >.*under the blue pot"], []),
    ("text/crowd", "How do I get a refund?", ["The refund office is at Pier 3", "<newsletter"], ["<news.*<news"]),
    ("html/starlight.html", "", ["Never stand inside the rope loop"], []),
    ("html/figure-plain.html", "", ["Maximum load is 12 tonnes"], []),
    ("html/time-price.html", "", ["Starts 3 May at 19:30"], []),
    ("html/table-links.html", "", [r"Release 1 \| harbour-1.zip \| sha 7919", r"Release 6 \| .* sha 47514"], []),
    ("html/two-articles.html", "", ["<two-articles New ferry>[^<]*The new ferry sails"], []),
    ("html/text-in-div.html", "", ["at nine", "No dogs", "No bicycles", "at eight"], ["(nine|five|dogs|eight).*\\1"]),
    ("html/math.html", "", [r"E ?= ?m ?c ?\^ ?2"], []),
    ("html/ol-start.html", "", ["4. Open the seacock", "5. Prime", "a. Check oil", "b. Check belt"], []),
    ("html/section-ids.html", "", ["25 days", "9.3 per cent", "four years", "30 minutes", "ten years"], []),
    ("html/accordion.html", "", ["## How long is a ticket valid.\n\nNinety minutes", "## May I take a bicycle.\n\nOnly"], []),
    ("html/shy.html", "Geschwindigkeitsbegrenzung", ["Die Geschwindigkeitsbegrenzung auf der Bundesstraße"], []),
    ("office/scaled-numbers.xlsx", "North", [r"\(k€\): 1,235\nbudget: 2.5M\nshare: 7.5%\n", r"\(212\) 555-0123", "hours: 31:30"], []),
    ("office/superscript.docx", "", [r"Load 10\^3 kg, CO2"], []),
    ("office/strike.docx", "", ["The fee is ~~50~~ 40 euro"], []),
    ("office/hidden-text.docx", "", ["Public price 90 euro", "in part: hidden text is left out"], ["61"]),
    ("office/equation.docx", "", [r"A=a/\(b\+c\)\+r\^2"], []),
    ("text/meeting.vtt", "Who says that the burner was replaced?", ["Tom Aker: I disagree, it was the burner"], []),
    ("text/html-only.eml", "When is invoice 88120 due?", ["412.50 euro[*]* is due on 17 April 2026"], []),
    ("text/ansi.log", "ERROR", ["ERROR pump P-18 failed with code 4077"], ["31m"]),
    ("text/page.mhtml", "", ["The lock opens ten minutes later. Café closed."], ["iVBOR", "=C3"]),
    ("text/cp1252.csv", "", ["read: not UTF-8: read as cp1252"], ["in part"]),
    ("text/no-header.csv", "", ["Kettle\n[^\n]*19.50", "Toaster\n[^\n]*30.00", "Mixer\n[^\n]*45.00"], ["Kettle: ", "Oslo: "]),
    ("office/side-by-side.xlsx", "", ["Item: Kettle\nPrice: 19.5", "Supplier: Nordvik\nCity: Oslo"], ["Kettle[^<]*Nordvik"]),
]  # fmt: skip


def shown(passage: Document) -> str:
    """Return a passage with its title, page and headings wherever these change."""
    text, cuts = passage.page_content, [0, *(at for at, _ in passage.metadata.get("breaks", ()))]
    marked = ""
    for start, end in zip(cuts, [*cuts[1:], len(text)], strict=True):
        place = place_at(passage, start)
        page = f"p{place['page']} " if "page" in place else ""
        marked += f"<{passage.metadata['title']} {page}{' › '.join(place.get('heading_path', ()))}>{text[start:end]}"
    return marked


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KnowledgeBase, IndexReport]]:
    """All cases in one knowledge base, with the report about them."""
    folder = tmp_path_factory.mktemp("cases")
    with KnowledgeBase.create(folder / "kb", settings=IndexSettings(embedding=None)) as kb:
        yield kb, kb.index_paths(CASES)


@pytest.mark.parametrize(("file", "question", "must", "must_not"), TABLE)
def test_cases(
    file: str, question: str, must: list[str], must_not: list[str], library: tuple[KnowledgeBase, IndexReport]
) -> None:
    kb, report = library
    path = CASES / file
    chosen = {"folder" if path.is_dir() else "source": str(path)}
    passages = kb.as_retriever(5, filter=chosen).invoke(question) if question else kb.view(chosen).passages()
    lines = [f"{notice.status}: {notice.reason}" for notice in report.notices if notice.path == str(path)]
    text = "\n".join([*map(shown, passages), *lines])
    assert [pattern for pattern in must if not re.search(pattern, text, re.DOTALL)] == [], text
    assert [pattern for pattern in must_not if re.search(pattern, text, re.DOTALL)] == [], text


CHAIR = "Where was the chair of the harbour board born?"
SEARCHED: list[tuple[str, str, str, str]] = [
    ("lang", "bm25", "C# style guide", "csharp"),
    ("lang", "bm25", "C style guide", "c"),
    ("accents", "bm25", "Soren Bjork", "b"),
    ("names", "graph", CHAIR, "board zz"),
]


@pytest.mark.parametrize(("folder", "mode", "question", "names"), SEARCHED)
def test_search_cases(folder: str, mode: RetrieverName, question: str, names: str, tmp_path: Path) -> None:
    with KnowledgeBase.create(tmp_path / "kb", settings=IndexSettings(embedding=None)) as kb:
        kb.index_paths(CASES / "search" / folder)
        docs = kb.as_retriever(3 if mode == "graph" else 1, mode).invoke(question)
    assert {*names.split()} <= {Path(doc.metadata["source"]).stem for doc in docs}
