import importlib.util
import io
import re
import sys
from importlib.machinery import ModuleSpec

import pytest
from tests.tools.knowledge.loaders.made import passages, pdf, read, shown

from ragweave.tools.knowledge import IndexSettings, KnowledgeBase
from ragweave.tools.knowledge.chunking import UnreadableError
from ragweave.tools.knowledge.loaders import pdf as loader

PICTURE = (
    b"<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray "
    b"/BitsPerComponent 8 /Length 1 >>\nstream\n\x00\nendstream"
)


@pytest.fixture
def no_ocr(monkeypatch):
    monkeypatch.setattr(loader, "available", lambda: False)


@pytest.fixture
def recognised(monkeypatch):
    texts = {}
    monkeypatch.setattr(loader, "available", lambda: True)
    monkeypatch.setattr(
        loader, "recognised_page", lambda _page: [loader.Line(text, ()) for text in filter(None, [texts.pop(0, "")])]
    )
    return texts


def test_running_heads_and_page_numbers_stand_once_where_sentences_run_on():
    texts = ["Lift manual Show a 1", "Lift manual lamp. No 2", "Lift manual dogs. Case 88120 rose. 3"]
    (document,), _ = read("rules.pdf", pdf(*[(shown(*re.split("(?<=manual) | (?=.$)", text)), "") for text in texts]))
    assert document.text.split() == [*texts[0].split(), "lamp.", "No", "dogs.", "Case", "88120", "rose."]


def test_a_page_for_each_ticket_keeps_its_number_and_result():
    tickets = [f"Ticket {1041 + at}\nLift\nStatus: closed\nResult: FAIL\n{at + 1}" for at in range(5)]
    (document,), _ = read("tickets.pdf", pdf(*[(shown(*ticket.split("\n")), "") for ticket in tickets]))
    assert document.text.split() == " ".join([tickets[0], *[ticket[:-1] for ticket in tickets[1:]]]).split()


def test_lines_that_two_pages_share_stay():
    (document,), _ = read("rules.pdf", pdf((shown("No dogs."), ""), (shown("No dogs."), "")))
    assert document.text.split() == ["No", "dogs.", "No", "dogs."]


def test_tables_are_read_row_by_row():
    cells = ((50, "Ferries leave the pier"), (320, "at ten in the morning"))
    rows = [
        f"BT /F1 10 Tf {x} {700 - 14 * at} Td ({word} {at}) Tj ET"
        for at in range(6) for x, word in cells
    ]  # fmt: skip
    lines = read("t.pdf", pdf((" ".join(rows), "")))[0][0].text.split("\n")
    assert lines == [f"Ferries leave the pier {at} at ten in the morning {at}" for at in range(6)]


def ruled(rows, left=50, top=700, width=200, height=40, lines=""):
    """Return a table with ruled cells; text of a cell may have several lines."""
    columns = len(rows[0])
    for at in range(len(rows) + 1):
        lines += f"{left} {top - at * height} m {left + columns * width} {top - at * height} l S "
    for at in range(columns + 1):
        lines += f"{left + at * width} {top} m {left + at * width} {top - len(rows) * height} l S "
    for at in range(2):  # PDFium gives the text in the order of the file: first lines first, however cells go on
        for row, cells in enumerate(rows):
            for column, cell in enumerate(cells):
                for text in cell.split("\n")[at : at + 1]:
                    x, y = left + column * width + 5, top - row * height - 15 - 14 * at
                    lines += f"BT /F1 10 Tf {x} {y} Td ({text}) Tj ET "
    return lines


PRICES = [("Ferry", "Fare"), ("Alden to\nVarn", "9 crowns for\nadults"), ("Varn to\nOst", "14 crowns | a|b")]


def test_rows_of_a_ruled_table_are_lines_with_their_cells():
    content = shown("Prices.") + " " + ruled(PRICES, top=600) + " BT /F1 10 Tf 50 400 Td (Pay on board.) Tj ET"
    (document,), _ = read("p.pdf", pdf((content, "")))
    assert [line.strip() for line in document.text.split("\n") if line.strip()] == [
        "Prices.",
        "| Ferry | Fare |",
        "| Alden to Varn | 9 crowns for adults |",
        "| Varn to Ost | 14 crowns \\| a\\|b |",
        "Pay on board.",
    ]
    ((start, body, end),) = document.tables
    assert document.text[start:body] == "| Ferry | Fare |\n"
    assert document.text[body:end].count("\n") == 2
    short = passages(document, size=12)
    assert [passage.text[:7] for passage in short if "crowns" in passage.text] == ["| Ferry"] * 2


@pytest.mark.parametrize(
    "content",
    [
        ruled([("1", "2"), ("3", "4"), ("5", "6")]),  # nothing is named
        ruled([("Name", ""), ("", ""), ("", "")]),  # a drawing
        ruled([("A function", "of code")], height=80),  # one row
        "q 0 1 -1 0 750 0 cm " + ruled([("Name", "Fare"), ("Alden", "Nine")]) + " Q",  # turned
        ruled([("Name", "Fare"), ("Alden", "Nine")], width=15),  # a line runs through a word
        ruled([("Name", "Fare"), ("Alden", "Nine")], lines="1 0 0 1 0 0 cm " + "0 0 m 9 9 l S " * 6_000),
    ],
)
def test_other_lines_leave_the_text_as_it_is(content):
    plain = re.sub(r"\S+ \S+ m \S+ \S+ l S ", "", content)
    assert read("p.pdf", pdf((content, "")))[0][0].text == read("p.pdf", pdf((plain, "")))[0][0].text


def test_lines_stay_apart():
    cells = ((50, 700, "Ring"), (50, 686, "the bell"), (250, 694, "Sold at"), (250, 686, "noon"))
    content = " ".join(f"BT /F1 12 Tf {x} {y} Td ({word}) Tj ET" for x, y, word in cells)
    assert read("c.pdf", pdf((content, "")))[0][0].text.split() == ["Ring", "the", "bell", "Sold", "at", "noon"]
    assert read("h.pdf", pdf((shown("The depart-", "ment is open."), "")))[0][0].text == "The depart-\nment is open."


def test_form_values_and_notes():
    fields = (
        b"<< /Subtype /Widget /FT /Tx /T (tenant) /V (Ida Holm) >>",
        b"<< /Subtype /Widget /FT /Btn /T (paid) /AS /Yes >>",
        b"<< /Subtype /Widget /FT /Btn /T (late) /AS /Off >>",
        b"<< /Subtype /FreeText /Contents (Ring first.) >>",
        b"<< /Subtype /Widget /Parent 9 0 R >>",
        b"<< /FT /Ch /T (berth) /V (North 4) >>",
        b"<< /FT /Btn /Ff 49152 /T (payment) /V /Card /Kids [11 0 R 12 0 R] >>",
        b"<< /Subtype /Widget /Parent 10 0 R /AS /Card /AP << /N << /Card 3 0 R /Off 3 0 R >> >> >>",
        b"<< /Subtype /Widget /Parent 10 0 R /AS /Off /AP << /N << /Cash 3 0 R /Off 3 0 R >> >> >>",
    )
    annots = " ".join(f"{number} 0 R" for number in (4, 5, 6, 7, 8, 11, 12))
    (document,), _ = read("f.pdf", pdf((shown("Lease"), f"/Annots [{annots}]"), objects=fields))
    assert document.text.split("\n")[1:] == [
        "tenant: Ida Holm",
        "paid: yes",
        "Ring first.",
        "berth: North 4",
        "payment: Card",
    ]


SCAN = "q 600 0 0 700 0 50 cm /Im Do Q " + shown("FILED 7")


def test_a_stamp_over_a_scan_is_not_all_of_the_page(no_ocr):
    (document,), notices = read("s.pdf", pdf((SCAN, ""), (SCAN, ""), objects=[PICTURE]))
    assert document.text.count("FILED 7") == 2
    assert notices.startswith("pages 1, 2: a picture that was not read") and "ragweave[ocr]" in notices
    logo = SCAN.replace("600 0 0 700", "60 0 0 70")
    assert read("s.pdf", pdf((logo, ""), objects=[PICTURE]))[1] == ""


def test_scans_are_recognised_with_the_extra(recognised):
    recognised[0] = "The rent is due in May."
    (document,), notices = read("s.pdf", pdf((SCAN, ""), (SCAN, ""), objects=[PICTURE]))
    assert document.text.split("\n") == ["The rent is due in May.", "FILED 7"]
    assert notices == "page 2: nothing that can be recognised"


UNMAPPED = (
    "/Type /Font /Subtype /Type1 /BaseFont /AB+Own /FirstChar 65 /LastChar 66 /Widths [500 500] "
    "/Encoding << /Type /Encoding /Differences [65 /G01 /G02] >>"
)


def test_glyph_names_are_no_text(no_ocr):
    with pytest.raises(UnreadableError, match=r"page 1: text that cannot be read.*ocr"):
        read("g.pdf", pdf((shown("ABABABAB"), ""), font=UNMAPPED))


def test_glyphs_without_names_are_recognised(recognised):
    recognised[0] = "Bilge pump"
    (document,), notices = read("g.pdf", pdf((shown("ABABABAB"), ""), font=UNMAPPED))
    assert (document.text, notices) == ("Bilge pump", "")


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-128", "AES-256"])
def test_encryption(algorithm):
    pypdf = pytest.importorskip("pypdf")

    def locked(password):
        writer = pypdf.PdfWriter(io.BytesIO(pdf((shown("Open to all."), ""))))
        writer.encrypt(password, "owner", algorithm=algorithm)
        file = io.BytesIO()
        writer.write(file)
        return file.getvalue()

    assert "Open to all." in read("p.pdf", locked(""))[0][0].text
    with pytest.raises(UnreadableError, match="password"):
        read("p.pdf", locked("secret"))


def test_text_in_a_picture():
    pytest.importorskip("rapidocr")
    pil = pytest.importorskip("PIL.Image")
    from PIL import ImageDraw, ImageFont

    clear = pil.new("RGBA", (500, 80))
    font = ImageFont.load_default(32)
    ImageDraw.Draw(clear).text((20, 20), "Invoice 7 is due", "black", font=font)
    white = pil.new("RGB", clear.size, "white")
    white.paste(clear, mask=clear)
    upside_down = pil.Exif()
    upside_down[0x0112] = 3
    for suffix, image in (("png", clear), ("pdf", white), ("jpeg", white.rotate(180))):
        file = io.BytesIO()
        image.save(file, suffix, **({"exif": upside_down} if suffix == "jpeg" else {}))
        (note,), _ = read(f"note.{suffix}", file.getvalue())
        assert note.text == "Invoice 7 is due"
        assert [note.text[word.start : word.end] for word in note.words] == ["Invoice", "7", "is", "due"]
        lefts = [20 + font.getlength(note.text[: word.start]) for word in note.words]
        assert [word.box[0] for word in note.words] == pytest.approx(lefts, abs=12)


def test_each_frame_of_a_picture_is_a_page(monkeypatch):
    image = pytest.importorskip("PIL.Image").new("L", (20, 20))
    lines = iter(([loader.Line("One", ())], [loader.Line("Two", ())]))
    monkeypatch.setattr(loader, "available", lambda: True)
    monkeypatch.setattr(loader, "recognised", lambda _frame, _points: next(lines))
    file = io.BytesIO()
    image.save(file, "TIFF", save_all=True, append_images=[image])
    (document,), _ = read("scan.tif", file.getvalue())
    assert (document.text, document.pages) == ("One\nTwo", (0, 4))


def test_pictures_need_an_extra(no_ocr):
    with pytest.raises(UnreadableError, match=r"ragweave\[ocr\]"):
        read("a.png", b"\x89PNG")


def test_a_scan_is_read_again_once_the_extra_is_installed(tmp_path, monkeypatch):
    (tmp_path / "all.pdf").write_bytes(pdf(("q 600 0 0 700 0 50 cm /Im Do Q", ""), objects=[PICTURE]))
    (tmp_path / "half.pdf").write_bytes(
        pdf((shown("Page one."), ""), ("q 600 0 0 700 0 50 cm /Im Do Q", ""), objects=[PICTURE])
    )
    kb = KnowledgeBase.create(tmp_path / "kb", settings=IndexSettings(embedding=None))
    monkeypatch.setitem(sys.modules, "rapidocr", None)  # an import fails
    assert kb.index_paths(tmp_path, limits=None).added == 1
    assert kb.index_paths(tmp_path, limits=None).unchanged == 1

    monkeypatch.setitem(sys.modules, "rapidocr", importlib.util.module_from_spec(ModuleSpec("rapidocr", None)))
    monkeypatch.setattr(loader, "recognised_page", lambda _page: [loader.Line("The rent is due.", ())])
    report = kb.index_paths(tmp_path, limits=None)
    assert (report.changed, report.notices) == (2, ())
    assert len(kb.as_retriever(mode="bm25").invoke("rent")) == 2
    assert kb.index_paths(tmp_path, limits=None).unchanged == 2
