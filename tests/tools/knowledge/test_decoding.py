"""Web pages in the encodings that they name, rightly or not."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.tools.knowledge.decoding import as_browsers_read, read_html
from ragweave.tools.knowledge.markup import UnreadableError

GERMAN = "Die Brücke über den Fluß ist größer als die ältere."


def read(folder: Path, data: bytes) -> str:
    path = folder / "a.html"
    path.write_bytes(data)
    return read_html(path)


@pytest.mark.parametrize("label", ["iso-8859-1", "ISO8859-1", "latin1", "us-ascii", "windows-1252"])
@pytest.mark.parametrize("form", ["<meta charset={}>", '<?xml version="1.0" encoding="{}"?>'])
def test_latin_pages_are_windows_1252(tmp_path: Path, label: str, form: str) -> None:
    form = form.format(label)
    page = form.encode() + b"<p>\x80 20 \x96 \x93good\x94 caf\xe9</p>"
    assert read(tmp_path, page) == f"{form}<p>€ 20 – “good” café</p>"


@pytest.mark.parametrize(
    ("label", "text", "encoding"),
    [
        ("gb2312", "桥在镕基路", "gbk"),
        ("shift_jis", "①橋", "cp932"),
        ("iso-8859-9", "köprü “eski”", "cp1254"),
        ("utf-16", GERMAN, "utf-8"),
        ("utf-8", GERMAN, "utf-8"),
        ("koi8-r", "мост", "koi8-r"),
    ],
)
def test_other_labels_stand_for_what_browsers_read(
    tmp_path: Path, label: str, text: str, encoding: str
) -> None:
    page = f"<meta charset={label}><p>{text}"
    assert read(tmp_path, page.encode(encoding)) == page


@pytest.mark.parametrize("text", [GERMAN, "Ελληνικά και ένα λάθος", "老桥在河上", "only é"])
def test_a_bad_byte_leaves_the_page_in_utf8(tmp_path: Path, text: str) -> None:
    page = f"<meta charset=utf-8><p>{text}</p>"
    assert read(tmp_path, page.encode() + b"<p>x \xe9 y") == f"{page}<p>x \ufffd y"


def test_a_page_in_another_encoding_than_it_names_is_guessed(tmp_path: Path) -> None:
    page = f"<meta charset=utf-8><p>{GERMAN}"
    assert "\ufffd" not in read(tmp_path, page.encode("cp1252"))


def test_a_byte_order_mark_counts_more_than_the_page_says(tmp_path: Path) -> None:
    page = f"<meta charset=iso-8859-1><p>{GERMAN}"
    for encoding in ("utf-8-sig", "utf-16"):
        assert read(tmp_path, page.encode(encoding)) == page
    (tmp_path / "b.html.gz").write_bytes(gzip.compress(page.encode("utf-8-sig")))
    assert read_html(tmp_path / "b.html.gz") == page


@pytest.mark.parametrize(
    "label",
    [
        "punycode",
        "puny-code",
        "idna",
        "UTF-7",
        "unicode-1-1-utf-7",
        "u7",
        "unicode_escape",
        "unicode-escape",
        "raw_unicode_escape",
        "rot13",
        "hex",
    ],
)
@pytest.mark.parametrize("text", [r"a \x41 +AEE- \u0041 xn--kln-sna b-c", f"{GERMAN} +AEE-"])
def test_codecs_of_python_that_no_page_is_in(tmp_path: Path, label: str, text: str) -> None:
    page = f"<meta charset={label}><p>{text}"
    assert as_browsers_read(page.encode(), label) is None
    assert read(tmp_path, page.encode()) == page


@pytest.mark.parametrize("data", [b"", b" \n", b"<meta charset=latin1>\0", b"\xff\xfe\0\1\0\0"])
def test_what_is_no_page(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(UnreadableError, match=r"empty|binary"):
        read(tmp_path, data)


@given(st.binary(max_size=60), st.text(max_size=12) | st.sampled_from(["hex", "rot13", "idna"]))
def test_any_bytes_under_any_label_are_a_text_or_none(data: bytes, label: str) -> None:
    assert isinstance(as_browsers_read(data, label), str | None)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_valid_text_comes_back(text: str) -> None:
    marked = text.startswith("\ufeff")
    invalid = 2 * text.count("\ufffd") > sum(not one.isascii() for one in text)
    assert as_browsers_read(text.encode(), "UTF8") == (None if marked or invalid else text)
