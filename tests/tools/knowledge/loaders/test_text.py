import gzip
import json
from email.message import EmailMessage
from email.mime.application import MIMEApplication
from email.mime.image import MIMEImage
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

import pytest
from tests.tools.knowledge.loaders.made import passages, read, zipped

from ragweave.tools.knowledge.chunking import UnreadableError


def test_front_matter_headings_and_tables():
    text = "---\ntitle: T\ntags: [x]\npage: 4\n---\n\n# H\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    (document,), _ = read("a.md", text)
    assert (document.title, document.metadata) == ("T", {"tags": ["x"], "page_": 4})
    assert document.headings[0].text == "H" and document.text[document.tables[0].body :].startswith("| 1")
    assert document.place(document.text.index("| 1")) == {"heading_path": ["H"]}


def test_front_matter_is_yaml_1_2():
    head = "plz: 01067\nopens: 12:30\nlang: no\nday: 2024-03-01\nyear: 2024\nshare: 1.5\nsmall: 1e-3\ndraft: true\nof: null"
    fields = {"plz": "01067", "opens": "12:30", "lang": "no", "day": "2024-03-01", "year": 2024}
    fields |= {"share": 1.5, "small": 0.001, "draft": True, "of": None}
    assert read("a.md", f"---\n{head}\n---\n\nReef.\n")[0][0].metadata == fields


def test_front_matter_that_is_no_yaml():
    (document,), _ = read("a.md", "---\ntitle: Tides: a guide\ntags: [sea]\n---\n\nReef early.\n")
    assert document.title == "Tides: a guide" and document.text.strip() == "Reef early."


def test_a_single_top_heading_is_the_title():
    assert read("a.md", "# Rules\n\n## Dogs\n\nNone.")[0][0].title == "Rules"
    assert read("a.md", "# Dogs\n\nNone.\n\n# Cats\n\nSome.")[0][0].title == "a"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Größe: 3 m – für Gäste aus Köln, 5 €", "cp1252"),
        ("Räksmörgås på ön, åtta fåglar", "latin-1"),
        ("Café", "latin-1"),
        ("Köln liegt am Rhein.", "latin-1"),
        ("5 € each", "cp1252"),
        ("Zażółć gęślą jaźń, łódź płynie", "cp1250"),
        ("Съешь же ещё этих мягких французских булок", "cp1251"),
        ("佐藤太郎は東京に住んでいます。", "cp932"),
    ],
)
def test_encodings_are_found_and_named(text, encoding):
    (document,), notices = read("a.txt", text.encode(encoding))
    assert document.text == text and "not UTF-8: read as" in notices


def test_utf8_and_utf16_need_no_guess():
    for data in ("Tromsø".encode("utf-8-sig"), "Tromsø".encode("utf-16"), "Tromsø".encode()):
        assert [document.text for document in read("a.txt", data)[0]] == ["Tromsø"]
        assert read("a.txt", data)[1] == ""
    assert "1 bytes are not UTF-8" in read("a.txt", "Ø".encode() * 99 + b"\xff")[1]


def test_what_no_one_reads_is_left_out_and_offsets_follow():
    run = "iVBORw0KGgo" * 300
    (document,), _ = read("a.md", f"# Pump\n\n![](data:image/png;base64,{run})\n\n## Stop\n\nRed.")
    assert document.text[document.headings[1].start :] == "## Stop\n\nRed." and "iVBOR" not in document.text
    assert f"[{len(run) + 27} characters left out]" in document.text
    (document,), _ = read("key.txt", "Key follows.\n" + "a7" * 3000 + "\nIt expires in June.")
    assert [len(passage.text) < 100 for passage in passages(document)] == [True]


def test_notebooks_mail_and_source_code():
    cells = [
        {"cell_type": "markdown", "source": ["# Tides\n", "Late."]},
        {"cell_type": "code", "source": "print(1.3)", "outputs": [{"text": ["1.3 m\n"]}]},
        {"cell_type": "code", "source": "", "outputs": [{"data": {"text/plain": "out"}}]},
    ]
    (document,), _ = read("n.ipynb", json.dumps({"cells": cells}))
    assert document.title == "Tides" and all(x in document.text for x in ("Late.", "print(1.3)", "1.3 m", "out"))
    mail = "From: a@b.c\nSubject: =?utf-8?q?B=C3=A5t?=\nContent-Type: text/html\n\n<p>Booked.</p>"
    (document,), _ = read("m.eml", mail)
    assert (document.title, document.text) == ("Båt", "From: a@b.c\nSubject: Båt\n\nBooked.")
    for name, title in [("tool.py", "tool"), ("2026.03.01 minutes",) * 2, ("README",) * 2]:
        (document,), _ = read(name, "Plain text.")
        assert (document.text, document.title) == ("Plain text.", title)


def test_mail_with_broken_heads_and_charsets_and_two_texts():
    parts = "".join(
        f"--X\nContent-Type: {kind}\n\n{body}\n"
        for kind, body in [
            ("text/plain; charset=iso-8859-8-i", "Booked."),
            ("text/plain", "Pay in May."),
            ("text/csv; name=fees.csv", "Berth,Fee\nEast,40"),
            ("image/png; name=map.png", "x"),
        ]
    )
    mail = f"From: <broken@\nSubject: Boat\nContent-Type: multipart/mixed; boundary=X\n\n{parts}--X--\n"
    (document, fee), notices = read("m.eml", mail)
    assert document.title == "Boat" and document.text.endswith("Subject: Boat\n\nBooked.\nPay in May.")
    assert (fee.text, fee.metadata["member"]) == ("Berth: East\nFee: 40", "fees.csv")
    assert notices.startswith("map.png: ")


@pytest.mark.parametrize(
    ("plain", "page", "text"),
    [
        (
            "Your program shows no HTML.",
            "<p>Invoice 7 is due in May.</p>",
            "Your program shows no HTML.\nInvoice 7 is due in May.",
        ),
        ("Invoice 7 is due in May.", "<p>Invoice <b>7</b> is due in May.</p>", "Invoice 7 is due in May."),
        (
            "Invoice 7 is due …",
            "<p>Invoice 7 is due in May: 40 euro for berth 3.</p>",
            "Invoice 7 is due in May: 40 euro for berth 3.",
        ),
    ],
)
def test_the_part_of_a_mail_that_says_more(plain, page, text):
    mail = EmailMessage()
    mail.set_content(plain)
    mail.add_alternative(page, subtype="html")
    assert "\n".join(read("m.eml", bytes(mail))[0][0].text.split("\n\n")).strip() == text


TEXT, FOOT = MIMEText("See the fees."), MIMEText("Berths")
PAGE, END = MIMEText("<p>See the fees.</p>", "html"), MIMEText("<p>Due in May.</p>", "html")
FEES, LOGO, SIGNATURE = MIMEApplication(b"Berth,Fee\nEast,40"), MIMEImage(b"x", "png"), MIMEApplication(b"x", "pkcs7")
FEES.add_header("Content-Disposition", "attachment", filename="fees.csv")
FEES["Subject"] = "Fees"


@pytest.mark.parametrize(
    ("mail", "text"),
    [
        (MIMEMultipart("mixed", None, [MIMEMultipart("mixed", None, [TEXT, FEES]), FOOT]), "See the fees.\nBerths"),
        (MIMEMultipart("signed", None, [MIMEMultipart("mixed", None, [TEXT, FEES]), SIGNATURE]), "See the fees."),
        (
            MIMEMultipart("alternative", None, [TEXT, MIMEMultipart("mixed", None, [PAGE, FEES, END])]),
            "See the fees.\nDue in May.",
        ),
        (
            MIMEMultipart("mixed", None, [MIMEMultipart("related", None, [PAGE, LOGO]), FEES]),
            "See the fees.",
        ),
        (FEES, "Subject: Fees"),
    ],
)
def test_a_mail_is_read_in_all_its_parts(mail, text):
    (document, fee), notices = read("m.eml", bytes(mail))
    assert (document.text.strip(), fee.metadata["member"], notices) == (text, "fees.csv", "")


def test_mailboxes_and_forwarded_mails():
    inner, outer = EmailMessage(), EmailMessage()
    inner["Subject"], outer["Subject"] = "Rent", "Fwd: Rent"
    inner.set_content("Due in May.\n\nFrom May on, 40 euro.")
    outer.set_content("See below.")
    outer.add_attachment(inner)
    box = b"".join(
        b"From a@b.c Tue Mar 03 23:30:00 2026\n" + bytes(mail).replace(b"\nFrom ", b"\n>From ") + b"\n"
        for mail in (inner, outer)
    )
    mails, notices = read("all.mbox", box)
    assert [(doc.title, doc.metadata.get("member")) for doc in mails] == [
        ("Rent", None),
        ("Fwd: Rent", None),
        ("Rent", "attachment 1.eml"),
    ]
    assert mails[0].text.endswith("From May on, 40 euro.\n\n") and notices == ""


def test_archives_within_bounds():
    parts = {"a/fees.csv": "Berth,Fee\nEast,40\n", "b.md": "# Rules\n\nNo dogs.", ".hidden": "x", "a/~$b.docx": "x"}
    documents, notices = read("all.zip", zipped(**parts, **{"c.docx": "no zip", "in.zip": zipped(**parts)}))
    assert [(doc.title, doc.metadata["member"]) for doc in documents] == [
        ("", "a/fees.csv"),
        ("Rules", "b.md"),
        ("", "in.zip › a/fees.csv"),
        ("Rules", "in.zip › b.md"),
    ]
    assert notices.startswith("c.docx: cannot be read")
    deep = "Deep."
    for _ in range(4):
        deep = zipped(**{"a.txt": "Text.", "in.zip": deep})
    documents, notices = read("deep.zip", deep)
    assert len(documents) == 3 and "too deep" in notices
    documents, notices = read("many.zip", zipped(**{f"{number}.txt": "Text." for number in range(10_003)}))
    assert len(documents) == 10_000 and notices.startswith("3 files in it are not read")
    documents, notices = read("large.zip", zipped(**{"a.txt": "Text.", "b.txt": "a " * 50_000_000}))
    assert len(documents) == 1 and notices.startswith("1 files in it are not read")


def test_subtitles_are_what_is_said():
    srt = "1\r\n00:00:01,000 --> 00:00:04,000\r\nThe tour takes\r\n40 minutes,\r\n\r\n2\r\n00:00:04,500 --> 00:00:09,000\r\nand ends.\r\n"
    vtt = "WEBVTT\n\nNOTE by hand\n\nintro\n00:01.000 --> 00:04.000 align:start\n<v Ada>Bread &amp; <i>milk</i>.\n"
    assert read("a.srt", srt)[0][0].text == "The tour takes\n40 minutes,\nand ends."
    assert read("a.vtt", vtt)[0][0].text == "Ada: Bread & milk."


def test_rolling_captions_are_read_once_and_repeated_words_as_often_as_said():
    def captions(*cues):
        return "WEBVTT\n\n" + "".join(f"00:0{at}.000 --> 00:0{at + 1}.000\n{cue}\n\n" for at, cue in enumerate(cues))

    rolling = captions("the tide", "the tide\nturns<00:01.5><c> at</c>", "turns at", "turns at\nfour", "four\nand five")
    assert read("a.vtt", rolling)[0][0].text == "the tide\nturns at\nfour\nand five"
    captioned = captions("No.", "No.", "<v.loud Ada Holm>Why?", "It rains.", "It rains.\nStill.", "Go.")
    assert read("a.vtt", captioned)[0][0].text == "No.\nNo.\nAda Holm: Why?\nIt rains.\nIt rains.\nStill.\nGo."


def test_what_is_no_text():
    for name, data in [
        ("a.bin", b"\x00\x01"),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)),
        ("a.txt", bytes(range(1, 30))),
        ("a.rtf", b"{\\rtf1 Fees}"),
    ]:
        with pytest.raises(UnreadableError, match=r"save it as \.docx"):
            read(name, data)


def test_gzip_within_bounds():
    assert read("a.md.gz", gzip.compress(b"# Rules\n\nNo dogs."))[0][0].title == "Rules"
    with pytest.raises(UnreadableError, match="unpacks to"):
        read("a.txt.gz", gzip.compress(b"a " * 50_000_000))
    with pytest.raises(UnreadableError, match="cannot be read"):
        read("a.txt.gz", b"\x1f\x8bno")


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("uri.txt", "data:" + "a" * 400_000 + " "),
        ("yaml.md", "---\na: [x\nb: y" + " " * 40_000 + "z\n---\nhi"),
        ("bomb.md", "---\na: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n---\nhi"),
        ("open.md", "---\n" + "a\n" * 100_000),
        ("deep.html", "<main>" * 2_000 + "x"),
        ("wide.html", "<table>" + ("<tr><td colspan=999 rowspan=999>x" + "<tr>" * 99) * 50),
        ("deep.json", "[" * 100_000),
        ("uris.md", ("data:image/png;base64," + "A" * 70 + "\n\n# H\n\n") * 4_000),
    ],
)
def test_hostile_texts_end(name, text):
    assert read(name, text)[0]


def test_values_that_json_lacks_become_text():
    (document,), _ = read("a.jsonl", '{"text": "x\\ud800", "score": NaN, "n": {"m": Infinity}}\n')
    assert document.metadata["score_"] == "NaN" and document.metadata["n"] == {"m": "Infinity"}
    assert document.text.encode()
