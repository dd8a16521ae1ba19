import io
import zipfile
from datetime import date, datetime, time, timedelta

import openpyxl
import pytest
from tests.tools.knowledge.loaders.made import docx, paragraph, passages, pptx, read, zipped

from ragweave.tools.knowledge.chunking import UnreadableError

ABSTRACT = (
    '<w:abstractNum w:abstractNumId="0">'
    '<w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:pStyle w:val="Kop1"/>'
    '<w:lvlText w:val="%1."/></w:lvl>'
    '<w:lvl w:ilvl="1"><w:numFmt w:val="decimal"/><w:lvlText w:val="%1.%2"/></w:lvl>'
    '<w:lvl w:ilvl="2"><w:numFmt w:val="lowerRoman"/><w:lvlText w:val="(%3)"/></w:lvl>'
    "</w:abstractNum>"
    '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
    '<w:num w:numId="2"><w:abstractNumId w:val="0"/><w:lvlOverride w:ilvl="2">'
    '<w:startOverride w:val="4"/></w:lvlOverride></w:num>'
)
STYLES = (
    '<w:style w:styleId="Kop1"><w:name w:val="heading 1"/>'
    '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
)


def numbered(text, level, number=1):
    return paragraph(text, f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>')


def test_clauses_have_the_numbers_that_word_shows():
    heading = '<w:pStyle w:val="Kop1"/>'
    body = (
        paragraph("Term", heading)
        + numbered("Five years.", 1)
        + paragraph("Rent", heading)
        + numbered("Due in May.", 1)
        + numbered("Late rent costs more.", 1)
        + numbered("in winter", 2)
        + numbered("in spring", 2, number=2)
    )
    (document,), _ = read("lease.docx", docx(body, styles=STYLES, numbering=ABSTRACT))
    assert document.text.split("\n\n") == [
        "# 1. Term",
        "1.1 Five years.",
        "# 2. Rent",
        "2.1 Due in May.",
        "2.2 Late rent costs more.",
        "(i) in winter",
        "(iv) in spring",
    ]
    assert document.title == "lease"
    late = next(passage for passage in passages(document, chunker="headings") if "Late" in passage.text)
    assert late.metadata["heading_path"] == ["2. Rent"]


def test_broken_pictures_links_and_notes_lose_themselves():
    body = (
        '<w:p><w:hyperlink r:id="gone"><w:r><w:t>Fees</w:t></w:r></w:hyperlink><w:r><w:t> rise.</w:t>'
        '</w:r><w:r><w:footnoteReference w:id="9"/><w:drawing r:embed="gone"/></w:r></w:p>'
    )
    related = {"gone": ("image", "http://127.0.0.1/a.png"), "bad": ("footnotes", "none.xml")}
    (document,), notices = read("a.docx", docx(body, related))
    assert document.text == "Fees rise." and "none.xml" in notices


def test_all_that_a_reader_sees_in_word():
    body = (
        '<w:p><w:r><w:t>Tides</w:t></w:r><w:r><w:footnoteReference w:id="1"/></w:r>'
        "<w:del><w:r><w:delText>old</w:delText></w:r></w:del><w:ins><w:r><w:t> new</w:t></w:r></w:ins>"
        '<w:r><w:drawing><w:docPr descr="A map of the bay"/><w:txbxContent><w:p><w:r><w:t>Boxed.</w:t>'
        "</w:r></w:p></w:txbxContent></w:drawing></w:r></w:p>"
        "<w:sdt><w:sdtContent><w:p><m:oMath><m:f><m:num><m:t>a</m:t></m:num><m:den><m:t>b</m:t></m:den>"
        "</m:f><m:sSup><m:e><m:t>c</m:t></m:e><m:sup><m:t>2</m:t></m:sup></m:sSup></m:oMath></w:p>"
        "</w:sdtContent></w:sdt>"
    )
    note = f'<w:footnote w:id="1">{paragraph("See Vik.")}</w:footnote>'
    (document,), _ = read("a.docx", docx(body, footnotes=note, header=paragraph("Form 12")))
    assert document.text.split("\n\n") == [
        "Form 12",
        "Tides[^1] newA map of the bay",
        "[^1]: See Vik.",
        "Boxed.",
        "a/bc^2",
    ]


def run(text, properties=""):
    return f"<w:r><w:rPr>{properties}</w:rPr><w:t>{text}</w:t></w:r>"


def test_raised_struck_and_hidden_text_in_word():
    up, struck, hidden = '<w:vertAlign w:val="superscript"/>', "<w:strike/>", "<w:vanish/>"
    runs = [
        run("Load 10") + run("-", up) + run("3", up) + run(" kg on the 3") + run("rd", up) + run(", CO"),
        run("2", '<w:vertAlign w:val="subscript"/>') + run("; fee ") + run("50 ", struck) + run("x", "<w:dstrike/>"),
        run(" 40", '<w:strike w:val="0"/>') + run(" floor 61", hidden) + run(" old", '<w:rStyle w:val="Gone"/>'),
    ]
    styles = '<w:style w:styleId="Gone"><w:basedOn w:val="Base"/></w:style>'
    styles += f'<w:style w:styleId="Base"><w:rPr>{struck}</w:rPr></w:style>'
    (doc,), notices = read("a.docx", docx(f"<w:p>{''.join(runs)}</w:p>", styles=styles))
    assert doc.text == "Load 10^-3 kg on the 3rd, CO2; fee ~~50~~ ~~x~~ 40 ~~old~~"
    assert notices == "hidden text is left out"


def test_brackets_of_formulas():
    def part(tag, text):
        return f"<m:{tag}><m:r><m:t>{text}</m:t></m:r></m:{tag}>"

    formulas = {
        f"<m:f>{part('num', 'a')}{part('den', 'b+c')}</m:f>": "a/(b+c)",
        f"<m:f>{part('num', 'a+b')}{part('den', 'c')}</m:f>": "(a+b)/c",
        f"<m:sSup><m:e><m:d>{part('e', 'a+b')}</m:d></m:e>{part('sup', 'n-1')}</m:sSup>": "(a+b)^(n-1)",
        f"<m:f>{part('num', '1')}<m:den><m:d>{part('e', 'x+y')}</m:d></m:den></m:f>": "1/(x+y)",
        f"<m:rad>{part('e', 'a+b')}</m:rad>": "√(a+b)",
        f"<m:f>{part('num', 'a')}<m:den><m:f>{part('num', 'b')}{part('den', 'c')}</m:f></m:den></m:f>": "a/(b/c)",
    }
    for formula, text in formulas.items():
        (doc,), _ = read("a.docx", docx(f"<w:p><m:oMath>{formula}</m:oMath></w:p>"))
        assert doc.text == text


def test_documents_within_a_document_are_read():
    related = {"page": ("aFChunk", "a.htm"), "word": ("aFChunk", "b.docx"), "gone": ("aFChunk", "c.docx")}
    chunks = [f'<w:altChunk r:id="{name}"/>' for name in related]
    data = io.BytesIO(docx(paragraph("Before.") + "".join(chunks) + paragraph("After."), related))
    with zipfile.ZipFile(data, "a") as package:
        package.writestr("word/a.htm", "<h2>Terms</h2><p>Paid in May.</p>")
        package.writestr("word/b.docx", docx(paragraph("No dogs.")))
    documents, notices = read("a.docx", data.getvalue())
    assert [(doc.text, doc.metadata.get("member")) for doc in documents] == [
        ("Before.\n\nAfter.", None),
        ("## Terms\n\nPaid in May.", "word/a.htm"),
        ("No dogs.", "word/b.docx"),
    ]
    assert "word/c.docx" in notices


def test_a_row_that_begins_later_keeps_its_columns():
    rows = [("", ("Hall", "Day", "Hours")), ('<w:trPr><w:gridBefore w:val="1"/></w:trPr>', ("Tue", "10 to 14"))]
    cells = [before + "".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row) for before, row in rows]
    (doc,), _ = read("a.docx", docx("<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in cells) + "</w:tbl>"))
    assert doc.text.endswith("|  | Tue | 10 to 14 |")


def test_raised_struck_and_hidden_on_slides():
    runs = "<a:r><a:t>10</a:t></a:r><a:r><a:rPr baseline='30000'/><a:t>3</a:t></a:r>"
    runs += "<a:r><a:rPr strike='sngStrike' baseline='0'/><a:t>old</a:t></a:r>"
    data = pptx(
        f"<a:p>{runs}</a:p>", "<a:p><a:r><a:t>Secret.</a:t></a:r></a:p>", "<a:p><a:r><a:t>Bye.</a:t></a:r></a:p>"
    )
    hidden = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(hidden, "w") as new:
        for name in old.namelist():
            shown = old.read(name)
            new.writestr(name, shown.replace(b"<p:sld ", b'<p:sld show="0" ') if "slide1.xml" in name else shown)
    (doc,), notices = read("t.pptx", hidden.getvalue())
    assert doc.text.split("\n") == ["# Slide 1", "", "10^3~~old~~", "", "", "# Slide 3", "", "Bye.", ""]
    assert notices == "hidden slides are left out: 2"


def test_merged_cells_repeat_their_text():
    def row(*cells):
        return "<w:tr>" + "".join(f"<w:tc>{cell}</w:tc>" for cell in cells) + "</w:tr>"

    begin = f'<w:tcPr><w:vMerge w:val="restart"/></w:tcPr>{paragraph("North")}'
    body = "<w:tbl>" + row(paragraph("Hall"), paragraph("Day"))
    body += row(begin, paragraph("Mon")) + row("<w:tcPr><w:vMerge/></w:tcPr>", paragraph("Tue"))
    (document,), _ = read("a.docx", docx(body + "</w:tbl>" + paragraph("End.")))
    assert "| North | Mon |\n| North | Tue |" in document.text
    assert document.text[document.tables[0].body :].startswith("| North")


def test_slides_tables_charts_and_notes():
    title = '<p:sp><p:nvPr><p:ph type="title"/></p:nvPr><a:p><a:r><a:t>Plan</a:t></a:r></a:p></p:sp>'
    table = "<a:tbl><a:tr><a:tc><a:p><a:r><a:t>A</a:t></a:r></a:p></a:tc><a:tc/></a:tr></a:tbl>"
    chart = '<p:graphicFrame><c:chart r:id="c1"/><c:chart r:id="gone"/></p:graphicFrame>'
    unknown = "<p:odd><a:p><a:r><a:t>Call first.</a:t></a:r></a:p></p:odd>"
    parts = {
        "ppt/slides/_rels/slide0.xml.rels": '<R><R Id="c1" Type="x/chart" Target="../c.xml"/>'
        '<R Id="n" Type="x/notesSlide" Target="../n.xml"/></R>',
        "ppt/c.xml": "<c><ser><tx><v>Boats</v></tx><cat><v>May</v><v>June</v></cat><val><v>3</v><v>4</v>"
        "</val></ser></c>",
        "ppt/n.xml": '<n><p><t>Say hello.</t></p><p><fld type="slidenum"><t>1</t></fld></p></n>',
    }
    last = "<a:p><a:r><a:t>Bye.</a:t></a:r></a:p>"
    (document,), notices = read("t.pptx", pptx(title + table + chart + unknown, None, last, **parts))
    for text in ("| A |  |", "Boats: May 3, June 4", "Call first.", "Say hello."):
        assert text in document.text
    assert "1" not in document.text.split() and notices.startswith("slide 2: ")
    assert document.place(0) == {"page": 1, "heading_path": ["Plan"]}
    assert document.place(document.text.index("Bye")) == {"page": 3, "heading_path": ["Slide 3"]}


def test_books_without_a_lost_chapter():
    opf = (
        '<p><title>Knots</title><item id="a" href="a%201.xhtml"/><item id="b" href="b.xhtml"/>'
        '<itemref idref="b"/><itemref idref="a"/></p>'
    )
    parts = {"META-INF/container.xml": '<c><rootfile full-path="O/p.opf"/></c>', "O/p.opf": opf}
    chapter = '<?xml version="1.0"?><html><body><nav>In</nav><h2>Reef</h2><p>Over.</p></body></html>'
    (document,), notices = read("k.epub", zipped(**parts, **{"O/a 1.xhtml": chapter}))
    assert (document.title, document.text) == ("Knots", "In\n\n## Reef\n\nOver.") and "b.xhtml" in notices


def sheet(rows, formats=(), merged=()):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for cell, form in formats:
        book.active[cell].number_format = form
    for area in merged:
        book.active.merge_cells(area)
    book.create_sheet("Secret").sheet_state = "hidden"
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (7.5, r"0.0\%", "7.5%"),
        (-0.051, "0.0%;[Red](0.0%)", "(5.1%)"),
        (-700.25, "#,##0.00_);[Red]#,##0.00_)", "-700.25"),
        (-3, '0;"loss "0', "loss 3"),
        (1234.5, '#,##0.00 "kr"', "1,234.50 kr"),
        (-1234.5, "_($* #,##0.00_)", "-$1,234.50"),
        (0, '_-* #,##0_-;-* #,##0_-;_-* "-"??_-;_-@_-', "-"),
        (1234567, "#,##0,", "1,235"),
        (2500000, '0.0,,"M"', "2.5M"),
        (2500000, '[>=1000000]0.0,,"M";[>=1000]0,"K";0', "2500000"),
        (2125550123, "(000) 000-0000", "(212) 555-0123"),
        (1, '"Yes";;"No"', "Yes"),
        (1.005, "0.00", "1.01"),
        (0.25, "0.0##", "0.25"),
        (5, "0.##", "5"),
        (12.5, ".00", "12.5"),
        (1234.5, "# ?/?", "1234.5"),
        (0.00012, "0.00E+00", "0.00012"),
        (1234567890123.45, "General", "1234567890123.45"),
        (timedelta(minutes=125, seconds=30), "[mm]:ss", "2:05:30"),
        (timedelta(hours=31, minutes=30), "h:mm", "7:30"),
        (time(19, 30), "h:mm AM/PM", "7:30 PM"),
        (time(7, 5, 9), "hh:mm:ss", "07:05:09"),
        (date(2026, 3, 1), "d-mmm-yy", "2026-03-01"),
        (datetime(2026, 3, 1, 14, 30), "yyyy-mm-dd hh:mm", "2026-03-01 14:30:00"),
    ],
)
def test_cells_as_the_sheet_shows_them(value, form, text):
    (row,), _ = read("a.xlsx", sheet([("name", "value"), ("x", value)], [("B2", form)]))
    assert row.text == f"name: x\nvalue: {text}"


def test_hidden_sheets_are_named_and_a_sheet_is_the_heading():
    (row,), notices = read("a.xlsx", sheet([("name", "value"), ("x", 1)]))
    assert row.metadata["heading_path"] == ["Sheet"] and "Secret" in notices


def test_headers_of_two_rows_titles_and_second_tables():
    rows = [
        ("Sales",),
        ("Region", 2025, None),
        (None, "Q1", "Q2"),
        ("North", 11, 12),
        (),
        ("Item", "Sum"),
        ("Net", "=1+1"),
        (),
        ("Checked by", "Ida Holm"),
    ]
    rows_read, notices = read("a.xlsx", sheet(rows, merged=["B2:C2"]))
    assert [row.text for row in rows_read] == [
        "Sales",
        "Region: North\n2025 Q1: 11\n2025 Q2: 12",
        "Item: Net",
        "Checked by Ida Holm",
    ]
    assert "1 formulas of sheet 'Sheet' have no saved value" in notices


def test_an_empty_column_within_a_table_divides_nothing():
    rows = [("Name", "Team", None, "Pay", "Bonus"), ("Ada", "A", None, 10, 1), ("Ida", "B", None, 12, 2)]
    assert read("a.xlsx", sheet(rows))[0][0].text == "Name: Ada\nTeam: A\nPay: 10\nBonus: 1"
    rows = [("Name", "Team", None, "City", "Mood"), ("Ada", "A", None, "Oslo", "b"), ("Ida", "B", None, "Oslo", "c")]
    assert read("a.xlsx", sheet(rows))[0][0].text == "Name: Ada\nTeam: A\nCity: Oslo\nMood: b"


@pytest.mark.parametrize(
    "rows",
    [
        [("Tenant", "Ada Holm"), ("Start", date(2026, 1, 1)), ("Rent", 500), ("Paid", "monthly")],
        [("Rent", 500), ("Start", date(2026, 1, 1)), ("End", date(2027, 1, 1)), ("Tenant", "Ada Holm")],
        [("Rent:", 500), ("Deposit:", 1000)],
        [("Name:", "Ada Holm"), ("City:", "Oslo"), ("Role:", "Harbour master")],
    ],
)
def test_names_and_values_of_a_sheet_are_one_text(rows):
    (doc,), _ = read("a.xlsx", sheet(rows))
    assert doc.text == "\n".join(f"{name.rstrip(':')}: {value}" for name, value in rows)


@pytest.mark.parametrize(
    "rows",
    [
        [("Item", "Price"), ("Kettle", 19.5), ("Mixer", 45)],
        [("Day", "High water"), (date(2026, 1, 1), "4:12"), (date(2026, 1, 2), "5:02")],
        [
            ("question", "answer"),
            ("How long is a ticket valid?", "Ninety minutes."),
            ("Who may ride free of charge?", "Dogs."),
        ],
        [("title", "text"), ("Dogs", "None."), ("Cats", "Some.")],
        [("Team", "Name"), ("A", "Ada"), ("A", "Ida")],
    ],
)
def test_tables_of_two_columns_are_rows(rows):
    assert len(read("a.xlsx", sheet(rows))[0]) == 2


@pytest.mark.parametrize("name", ["a.epub", "a.xlsx", "a.docx", "a.pptx"])
def test_packages_that_are_no_documents(name):
    with pytest.raises(UnreadableError, match="unpacks to"):
        read(name, zipped(a="a " * 50_000_000))
    with pytest.raises(UnreadableError, match="not a zip"):
        read(name, b"no zip")
    with pytest.raises(UnreadableError, match="encrypted"):
        read(name, b"\xd0\xcf\x11\xe0" + bytes(600))


def test_entities_are_not_expanded():
    entity = '<!DOCTYPE d [<!ENTITY e SYSTEM "file:///etc/hostname"><!ENTITY a "aaaa">]>'
    data = zipped(**{"word/document.xml": f"{entity}<d><p><t>x&e;&a;</t></p></d>"})
    assert read("a.docx", data)[0][0].text == "x"
