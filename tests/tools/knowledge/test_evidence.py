"""What a reader relies on: the mark is on the quote, or there is none and the reason is given."""

import base64
import gzip
import io
import re

import openpyxl
import pypdfium2
import pytest
from fastapi.testclient import TestClient
from PIL import Image
from tests.tools.knowledge.loaders.made import pdf, zipped
from tests.tools.knowledge.loaders.test_pdf import ruled

from ragweave import KnowledgeBase, build_chat, build_graph
from ragweave.serving.openai_api import create_app
from ragweave.tools.footnotes import html_report
from ragweave.tools.knowledge.chunking import Word
from ragweave.tools.knowledge.loaders import pdf as loader
from ragweave.tools.knowledge.loaders.pdf import Line

LEFT = ["The bridge at Alden was opened in 1932.", "It has five arches of gran-", "ite and one of brick."]
RIGHT = ["Ada Brenner built it.", "She was paid in wool."]


def column(x, lines, y=700):
    moves = " 0 -20 Td ".join(f"({line}) Tj" for line in lines)
    return f"BT /F1 12 Tf {x} {y} Td {moves} ET\n"


def quote_of(kb, text, skip=0):
    """Return a quote of the passage that holds a text, as a citation has it."""
    doc = next(doc for doc in kb.passages() if text in doc.page_content)
    start = doc.page_content.index(text, skip)
    end = start + len(text)
    return {"passage": doc.id, "start": start, "end": end, "text": text, "file": doc.metadata["source"]}


@pytest.fixture
def indexed(tmp_path):
    """Index a file of a name and bytes."""
    bases = []

    def index(name, data):
        (tmp_path / "docs").mkdir(exist_ok=True)
        (tmp_path / "docs" / name).write_bytes(data)
        bases.append(KnowledgeBase.open_or_create(tmp_path / "kb", settings={"embedding": None}))
        bases[-1].index_paths([tmp_path / "docs"], limits=None)
        return bases[-1]

    yield index
    for kb in bases:
        kb.close()


def boxed_text(data, place):
    """Return the letters in a place's boxes, of a page that is neither rotated nor cropped."""
    with pypdfium2.PdfDocument(data) as document:
        chars = document[place["page"] - 1].get_textpage()
        bounds = [(left, 800 - bottom + 3, right, 800 - top - 3) for left, top, right, bottom in place["boxes"]]
        return "".join(filter(str.isalnum, "".join(chars.get_text_bounded(*bound) for bound in bounds)))


def page(*columns, entries=""):
    return "".join(columns), entries


@pytest.mark.parametrize("quote", ["It has five arches of gran-\nite and one of brick.", "Ada Brenner built it."])
def test_a_quote_is_marked_line_by_line(indexed, quote):
    data = pdf(page(column(50, LEFT), column(330, RIGHT)))
    kb = indexed("bridge.pdf", data)
    (place,) = kb.evidence({"quotes": [quote_of(kb, quote)]})
    assert (place["page"], place["page_size"], len(place["boxes"])) == (1, (600, 800), quote.count("\n") + 1)
    assert place["file"].endswith("bridge.pdf")
    assert boxed_text(data, place) == "".join(filter(str.isalnum, quote))


def test_a_row_of_a_ruled_table_is_marked_cell_by_cell(indexed):
    data = pdf(page(ruled([("Ferry", "Fare"), ("Alden to\nVarn", "9 crowns for\nadults")])))
    kb = indexed("fares.pdf", data)
    (place,) = kb.evidence(quote_of(kb, "| Alden to Varn | 9 crowns for adults |"))
    assert len(place["boxes"]) == 4 and boxed_text(data, place) == "AldentoVarn9crownsforadults"


def test_a_quote_over_two_pages_is_marked_on_both(indexed):
    data = pdf(page(column(50, ["One. The bridge was"])), page(column(50, ["opened in May. Two."])))
    kb = indexed("bridge.pdf", data)
    first, second = kb.evidence(quote_of(kb, "The bridge was\nopened in May."))
    assert (first["page"], boxed_text(data, first)) == (1, "Thebridgewas")
    assert (second["page"], boxed_text(data, second)) == (2, "openedinMay")


def test_of_two_equal_sentences_the_passage_says_which(indexed):
    lines = ["The price was raised again.", "That was in May.", "The price was raised again.", "That was in June."]
    kb = indexed("prices.pdf", pdf(page(column(50, lines))))
    (first,), (second,) = (kb.evidence(quote_of(kb, lines[0], skip)) for skip in (0, 10))
    assert second["boxes"][0][1] - first["boxes"][0][1] == pytest.approx(40, abs=0.1)


def test_text_outside_the_page_that_is_shown_is_not_marked(indexed):
    kb = indexed("bridge.pdf", pdf(page(column(50, LEFT), entries="/CropBox [0 0 600 650]")))
    evidence = kb.evidence(quote_of(kb, LEFT[0]))
    assert evidence[0]["boxes"] == [] and "certainty" in evidence[0]["note"]
    assert evidence.picture(0).startswith(b"\x89PNG")  # the page without a mark


@pytest.mark.parametrize(
    "entries", ["", "/Rotate 90", "/Rotate 180", "/Rotate 270", "/CropBox [40 100 560 760] /Rotate 90"]
)
def test_the_mark_covers_the_ink_of_the_quote_however_the_page_is_turned(indexed, entries):
    data = pdf(page(column(50, LEFT[:1]), entries=entries))
    kb = indexed("bridge.pdf", data)
    (place,) = kb.evidence(quote_of(kb, LEFT[0]))
    with pypdfium2.PdfDocument(data) as document:
        ink = document[0].render(scale=1).to_pil().convert("L").point(lambda shade: 255 * (shade < 128)).getbbox()
    assert place["boxes"][0] == pytest.approx(ink, abs=4)  # the full stop is not a letter


def test_the_picture_shows_the_lines_around_with_the_quote_in_yellow(indexed):
    kb = indexed("bridge.pdf", pdf(page(column(50, LEFT), column(330, RIGHT))))
    evidence = kb.evidence(quote_of(kb, LEFT[0]))
    crop, whole = (Image.open(io.BytesIO(evidence.picture(0, whole=whole))) for whole in (False, True))
    left, top, _, _ = (round(edge * 110 / 72) for edge in evidence[0]["boxes"][0])
    assert whole.size == (917, 1223) and crop.height < 300
    assert whole.getpixel((left - 1, top - 1))[2] < 150 < whole.getpixel((20, 20))[2]
    assert "data:image/png;base64," in evidence._repr_html_()


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda file: file.write_bytes(pdf(page(column(50, ["Other."])))), "has changed"),
        (lambda file: file.unlink(), "is gone"),
        (lambda file: (file.unlink(), file.symlink_to("/etc/hostname")), "has changed"),
    ],
)
def test_a_file_that_is_not_what_was_indexed_is_not_shown(indexed, tmp_path, change, note):
    kb = indexed("bridge.pdf", pdf(page(column(50, LEFT))))
    change(tmp_path / "docs" / "bridge.pdf")
    evidence = kb.evidence(quote_of(kb, LEFT[0]))
    assert note in evidence[0]["note"] and evidence[0]["boxes"] == [] and evidence.picture(0) is None


@pytest.fixture
def output(indexed):
    """Answer from a PDF of two pages; the quote is of the second."""
    kb = indexed("bridge.pdf", pdf(page(column(50, ["A river."])), page(column(50, LEFT[:1]))))
    graph = build_graph("concat", model="extractive", retriever=kb.as_retriever(), citations=True)
    return kb, graph.invoke({"question": "When was the bridge at Alden opened?"})


def test_a_report_folds_the_picture_away_under_its_quote(output, tmp_path):
    kb, out = output
    report = html_report(out, kb.as_retriever().evidence)
    assert "bridge.pdf, page 2" in report and report.count("<summary") == report.count("data:image/png;base64,") == 1
    (tmp_path / "docs" / "bridge.pdf").unlink()
    report = html_report(out, kb.as_retriever().evidence)
    assert "data:image" not in report and "the file is gone since it was indexed" in report


def test_the_endpoint_shows_the_quote_on_its_page_and_no_other_file(output):
    kb, _ = output
    retriever = kb.as_retriever()
    chats = {"concat": build_chat("concat", model="extractive", retriever=retriever, citations=True)}
    question = {"model": "concat", "messages": [{"role": "user", "content": "When was the bridge at Alden opened?"}]}
    with TestClient(create_app(chats, evidence=retriever.evidence)) as client:
        message = client.post("/v1/chat/completions", json=question).json()["choices"][0]["message"]
        cited = message["annotations"][0]["url_citation"]
        assert (cited["places"][0]["page"], cited["places"][0]["file"]) == (2, "bridge.pdf")
        assert client.get(cited["source"]).json()["places"] == cited["places"]
        path, quote = cited["source"].partition("?")[0], {"start": 9, "end": 48}
        picture = client.get(f"{path}/picture", params=quote)
        assert (picture.headers["content-type"], picture.content[:4]) == ("image/png", b"\x89PNG")
        for wrong in ({"start": 9, "end": 9_999}, {"start": -5, "end": 3}, {"start": 9, "end": 9}):
            assert client.get(path, params=wrong).status_code == 404
        assert client.get(f"{path}/picture", params={**quote, "at": 7}).status_code == 404
        for name in ("../../docs/bridge.pdf", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/etc/passwd"):
            assert client.get(f"/v1/sources/{name}", params=quote).status_code == 404
    with TestClient(create_app(chats)) as client:  # an option: a picture shows more than the quote
        assert client.get(path, params=quote).status_code == 404


def test_a_text_is_cited_by_its_lines(indexed):
    text = b"---\r\ntitle: T\r\n---\r\n# Head\r\n\r\nFirst line.\r\nA quote\r\nover two lines.\r\n"
    kb = indexed("notes.md.gz", gzip.compress(text))
    (place,) = kb.evidence(quote_of(kb, "A quote\r\nover two lines."))
    assert (place["lines"], place["heading"]) == ((7, 8), "T › Head")


def test_a_row_of_a_table_is_cited_by_its_line_or_cells_and_shown_among_its_neighbours(indexed):
    indexed("rents.csv", b"flat,rent\nnorth,900\nsouth,1100\n")
    book = openpyxl.Workbook()
    book.active.title = "Rents"
    for row in (("flat", "rent"), ("east <b>", 700), ("west", 800)):
        book.active.append([None, None, *row])
    file = io.BytesIO()
    book.save(file)
    kb = indexed("rents.xlsx", file.getvalue())
    line, row = (kb.evidence(quote_of(kb, text)) for text in ("flat: south", "flat: west"))
    assert (line[0]["lines"], line[0]["cells"]) == ((3, 3), "")
    assert (row[0]["lines"], row[0]["cells"], row[0]["heading"]) == (None, "C3:D3", "Rents")
    assert "<td>north</td><td>900</td></tr><tr style=" in line.table(0)
    assert re.findall("<tr.*?>|<t[dh]>[^<]*", row.html()) == [
        *("<tr>", "<th>flat", "<th>rent", "<tr>", "<td>east &lt;b&gt;", "<td>700"),
        *('<tr style="background:#ffe26e;color:#000">', "<td>west", "<td>800"),
    ]


def test_rows_of_two_files_are_told_apart(indexed):
    for name, field in (("bugs", "state"), ("invoices", "state"), ("notes", "text"), ("words", "text")):
        kb = indexed(f"{name}.csv", f"id,{field}\n17,{name} open\n".encode())
    docs = {doc.page_content: doc for doc in kb.passages()}
    assert [doc.id == "17" for doc in docs.values()] == [False, False, True, True]
    assert {doc.metadata["id"] for doc in docs.values()} == {"17"}
    for name in docs:
        (place,) = kb.evidence(quote_of(kb, name))
        assert place["file"] == docs[name].metadata["source"]


def test_an_object_of_a_list_is_cited_by_the_line_on_which_it_begins(indexed):
    kb = indexed("stock.json", b'[\n {"name": "Elk {1}"},\n {\n  "name": "Moose"\n }, {"name": "Hare"}\n]')
    lines = [kb.evidence(quote_of(kb, name))[0]["lines"] for name in ("Elk", "Moose", "Hare")]
    assert lines == [(2, 2), (3, 3), (5, 5)]


def test_files_within_a_file_are_read_for_evidence(indexed):
    mail = b"From: Ida <ida@x.org>\nTo: Ola <ola@x.org>\nSubject: Lease\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\nHello.\n"
    part = b"--b\nContent-Type: application/pdf\nContent-Disposition: attachment; filename=lease.pdf\nContent-Transfer-Encoding: base64\n\n"
    mail += part + base64.b64encode(pdf(page(column(50, LEFT)))) + b"\n--b--\n"
    kb = indexed("mails.zip", zipped(**{"in__ida.eml": mail, "notes.txt": "One.\nTwo.\n"}))
    evidence = kb.evidence(quote_of(kb, LEFT[0]))
    assert (evidence[0]["page"], len(evidence[0]["boxes"]), evidence.picture(0)[:4]) == (1, 1, b"\x89PNG")
    (place,) = kb.evidence(quote_of(kb, "Hello."))
    assert place["heading"] == "Lease, from: Ida <ida@x.org>, to: Ola <ola@x.org>"
    assert kb.evidence(quote_of(kb, "Two."))[0]["lines"] == (2, 2)


def line_of(text, y, slope=0.0):
    """Return a recognised line: a word of n letters is 10 n points wide."""
    words = [
        Word(
            *match.span(),
            (10 * match.start(), y + slope * match.start(), 10 * match.end(), y + slope * match.start() + 9),
        )
        for match in re.finditer(r"\S+", text)
    ]
    return Line(text, words)


@pytest.mark.parametrize("suffix", ["pdf", "png"])
def test_a_quote_on_a_scan_is_marked_by_the_words_that_were_recognised_at_indexing(indexed, monkeypatch, suffix):
    lines = [line_of("Rents. The bridge was opened", 50), line_of("in May. Later", 70, 0.5), line_of("it fell.", 100)]
    monkeypatch.setattr(loader, "available", lambda: True)
    monkeypatch.setattr(loader, "recognised", lambda _image, _points: lines)
    file = io.BytesIO()
    Image.new("RGB", (600, 800), "grey").save(file, suffix)
    kb = indexed(f"scan.{suffix}", file.getvalue())
    monkeypatch.setattr(loader, "recognised", None)  # a question recognises nothing
    evidence = kb.evidence(quote_of(kb, "The bridge was opened\nin May."))
    assert evidence[0]["boxes"] == [(70, 50, 280, 59), (0, 70, 70, 80.5)] and evidence.picture(0)[:4] == b"\x89PNG"
    assert kb.evidence(quote_of(kb, "fell"))[0]["boxes"] == [(30, 100, 80, 109)]  # the word, with its full stop
    assert not any(
        "box" in key for doc in (*kb.passages(), *kb.as_retriever().invoke("bridge")) for key in doc.metadata
    )
    assert "word_boxes" not in {field.name for field in kb.fields()}


def test_a_quote_on_a_picture_of_another_size_than_the_first_is_marked_in_its_place(indexed, monkeypatch):
    def left_half(image, points):
        width, height = image.size
        return [Line(f"wide{width}", [Word(0, 8, (0, 0, points * width / 2, points * height))])]

    monkeypatch.setattr(loader, "available", lambda: True)
    monkeypatch.setattr(loader, "recognised", left_half)
    file, frames = io.BytesIO(), [Image.new("RGB", size, "grey") for size in ((1684, 800), (8420, 400))]
    frames[0].save(file, "TIFF", save_all=True, append_images=frames[1:])
    kb = indexed("two.tiff", file.getvalue())
    (place,) = kb.evidence(quote_of(kb, "wide8420"))
    assert (place["page"], place["page_size"], place["boxes"]) == (2, (4210, 200), [(0, 0, 2105, 200)])


@pytest.mark.parametrize("size", [b"[0 0 99999999 99999999]", b"[0 0 .01 .01]", b"[x y z w]", b"[0 0 600 99999999]"])
def test_a_page_of_an_absurd_size_has_a_picture(indexed, size):
    kb = indexed("bridge.pdf", pdf(page(column(50, LEFT))).replace(b"[0 0 600 800]", size))
    evidence = kb.evidence(quote_of(kb, LEFT[0]))
    assert evidence.picture(0).startswith(b"\x89PNG")


def test_a_saved_web_page_is_linked_at_the_quote(indexed):
    kb = indexed("page.html", b"<main><p>A <b>bold</b>, well-known claim.</p></main>")
    (place,) = kb.evidence(quote_of(kb, kb.passages()[0].page_content))
    assert place["link"].endswith("/docs/page.html#:~:text=A%20bold%2C%20well%2Dknown%20claim.")


def test_a_passage_that_is_not_held_has_no_place(indexed):
    kb = indexed("notes.txt", b"A note.")
    assert kb.evidence({"passage": "../../etc/passwd", "start": 0, "end": 5, "text": ""}) == []
    quote = quote_of(kb, "A note.")
    assert kb.evidence(quote) and kb.view({"title": "another"}).evidence(quote) == []
