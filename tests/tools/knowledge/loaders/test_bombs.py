"""Small files that could fill memory or disk: what is made of them stays in proportion to their bytes."""

import gzip
import io
import json

import openpyxl
from tests.tools.knowledge.loaders.made import (
    WORDS,
    book,
    charts,
    docx,
    numbered,
    paragraph,
    passages,
    pptx,
    read,
    slides,
)

from ragweave import KnowledgeBase
from ragweave.tools.knowledge.loaders import MAX_TEXT


def stored(texts, **settings):
    """Return how many characters a knowledge base stores of a file's texts."""
    cut = (passage for loaded in texts for passage in passages(loaded, **settings))
    return sum(len(passage.text) + len(json.dumps(passage.metadata)) for passage in cut)


def workbook(*rows, merged=()):
    book = openpyxl.Workbook()
    for place, value in rows:
        book.active[place] = value
    book.active.merged_cells.ranges.update(map(openpyxl.worksheet.cell_range.CellRange, merged))
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def test_a_part_is_read_once_however_often_a_package_refers_to_it():
    (text,), _ = read("a.docx", charts(50, 3))
    assert text.text.split() == WORDS.split()

    note = f'<w:footnote w:id="1"><w:p><w:r><w:t>{WORDS}</w:t></w:r></w:p></w:footnote>'
    (text,), _ = read("a.docx", docx(paragraph("Fees") + '<w:footnoteReference w:id="1"/>' * 50, footnotes=note))
    assert text.text.count("word") == 4_000

    for name, data in {"a.epub": book(50), "a.pptx": slides(50)}.items():
        (text,), _ = read(name, data)
        assert text.text.count("word") == 4_000
    assert len(read("b.pptx", pptx("<p><t>One</t></p>", "<p><t>Two</t></p>"))[0][0].pages) == 2


def test_only_words_nine_list_levels_count():
    assert read("a.docx", numbered(8, "%9.", 20))[0][0].text.split()[:4] == ["1.", "Fees", "2.", "Fees"]
    assert read("a.docx", numbered(10**12, "%1.", 20))[0][0].text.split() == ["Fees"] * 20
    assert len(read("a.docx", numbered(0, "%1" * 50_000, 20))[0][0].text) < 20 * 500


def test_sparse_and_merged_cells_of_a_sheet_are_bounded():
    far = workbook(*((f"XFD{row}", "far") for row in range(1, 200)))
    texts, notices = read("a.xlsx", far)
    assert 0 < len(texts) < 100
    assert "too many empty cells" in notices
    assert "row 1000002" not in read("a.xlsx", workbook(("A1", "near"), ("A1000", "far")))[1]

    areas = [f"A{row}:A{row + 60_000 - 1}" for row in (1, 100_001)]
    tall = workbook(("A1", "one"), ("A2", None), ("A60000", None), ("A100001", "two"), ("A100002", None), merged=areas)
    text = " ".join(loaded.text for loaded in read("a.xlsx", tall)[0])
    assert "two" in text
    assert text.count("two") == 1


def test_what_passages_repeat_is_bounded():
    header = f"| {WORDS} | b |\n| --- | --- |\n"
    table = header + "| alpha beta | gamma |\n" * 2_000
    texts, _ = read("a.md", table)
    assert stored(texts) < 20 * len(table)
    assert all(len(cut.text.split()) < 160 for cut in passages(texts[0]))
    assert sum(cut.text.count("alpha") for cut in passages(texts[0])) == 2_000

    rows = json.dumps([{"text": "some words " * 5_000, **{f"field{number}": "v" * 40 for number in range(1_000)}}])
    assert stored(read("a.json", rows)[0]) < 20 * len(rows)
    metadata = passages(read("a.json", rows)[0][0])[0].metadata
    assert {"field0", "field50"} < metadata.keys()

    front = "---\n" + "".join(f"key{number}: {'v' * 40}\n" for number in range(1_000)) + "---\n" + WORDS
    assert stored(read("a.md", front)[0]) < 10 * len(front)


def test_spanned_cells_of_a_page_are_bounded():
    row = f"<tr><td rowspan=9999>{WORDS}</td><td>x</td></tr>" + "<tr><td>y</td></tr>" * 200
    (text,), _ = read("a.html", f"<table>{row}</table>")
    assert text.text.count("word") == 4_000


def test_a_file_whose_text_is_far_longer_than_itself_is_read_in_part(tmp_path):
    lines = json.dumps({"text": "some words " * 100}) + "\n"
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(lines.encode() * 2_000))
    path.with_name("b.txt").write_text("The ferry sails at nine.")
    with KnowledgeBase.create(tmp_path / "kb", settings={"embedding": None}) as kb:
        report = kb.index_paths(tmp_path)
        assert sum(len(doc.page_content) for doc in kb.passages()) <= MAX_TEXT
        assert [notice.status for notice in report.notices] == ["in part"]
        assert kb.as_retriever(k=1).invoke("ferry")[0].page_content.startswith("The ferry")


def test_an_e_mail_with_many_recipients_is_read():
    people = ", ".join(f"u{number} <u{number}@example.org>" for number in range(5_000))
    (mail,), _ = read("a.eml", f"From: a@example.org\nTo: {people}\nSubject: Fees\n\nThey rise in May.\n")
    assert mail.title == "Fees"
    assert "They rise in May." in mail.text
    assert len(mail.text) < 10_000
