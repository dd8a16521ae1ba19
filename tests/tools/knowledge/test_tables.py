"""Rows of any columns, and workbooks that the test writes."""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.tools.knowledge import KnowledgeBase, Settings, Skip
from ragweave.tools.knowledge.loaders import load
from ragweave.tools.knowledge.markup import Loaded, UnreadableError

SETTINGS = Settings(embedding=None)


def rows(path: Path, settings: Settings = SETTINGS) -> list[Loaded]:
    return [one for one in load(path, settings) if isinstance(one, Loaded)]


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_a_row_of_any_columns_is_a_text_of_lines(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "people.csv"
    lines = ["id,name,,born", "7,Ada Reed,x,1815", "8,Bo,,"]
    path.write_text("\n".join(lines).replace(",", mark))
    first, second = rows(path)
    assert first.text == "id: 7\nname: Ada Reed\n: x\nborn: 1815"
    assert (first.id, first.metadata, first.row) == ("7", {"line": 2}, True)
    assert second.text == "id: 8\nname: Bo"


def test_columns_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "films.csv"
    path.write_text("name,year,plot,notes\nAlien,1979,A ship finds an egg.,good\n")
    chosen = Settings(embedding=None, text_field="plot, year", title_field="name")
    assert rows(path, chosen) == [
        Loaded("year: 1979\nplot: A ship finds an egg.", "Alien", metadata={"line": 2}, row=True)
    ]
    one = Settings(embedding=None, text_field="plot", title_field="name")
    assert rows(path, one) == [
        Loaded(
            "A ship finds an egg.", "Alien", metadata={"year": "1979", "notes": "good", "line": 2}
        )
    ]
    with pytest.raises(
        UnreadableError, match=r"no column 'plto' \(columns: name, year, plot, notes"
    ):
        rows(path, Settings(embedding=None, text_field="year,plto"))


def test_a_row_stays_whole_or_is_cut_between_its_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,note\nAnn,one two three four\nBo,five\n")
    for size, wanted in {
        9: ["name: Ann\nnote: one two three four", "name: Bo\nnote: five"],
        5: ["name: Ann", "note: one two three four", "name: Bo\nnote: five"],
    }.items():
        with KnowledgeBase.create(
            tmp_path / f"kb{size}", settings=Settings(embedding=None, size=size)
        ) as kb:
            kb.index_paths([tmp_path / "a.csv"])
            found = kb.as_retriever(k=9).invoke("name note")
            texts = [
                doc.page_content for doc in sorted(found, key=lambda d: d.metadata["position"])
            ]
            assert texts == wanted


def test_workbooks_row_by_row_with_their_sheet(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="needs ragweave[documents]")
    book = openpyxl.Workbook()
    prices = book.active
    prices.title = "Prices"
    for cells in (
        ["Price list"],
        [],
        ["Item", "Price", "Since", None],
        ["Kettle", 19.5, datetime(2024, 1, 2), "new"],
        ["Toaster", 30.0],
    ):
        prices.append(cells)
    book.create_sheet("Shops").append(["City"])
    book["Shops"].append(["Porto"])
    book.create_sheet("Empty")
    path = tmp_path / "shop.xlsx"
    book.save(path)
    found = rows(path)
    assert [(one.text, one.metadata["line"]) for one in found] == [
        ("Price list", 1),
        ("Item: Kettle\nPrice: 19.5\nSince: 2024-01-02\ncolumn 4: new", 4),
        ("Item: Toaster\nPrice: 30", 5),
        ("City: Porto", 2),
    ]
    assert [one.metadata["heading_path"] for one in found] == [["Prices"]] * 3 + [["Shops"]]


def test_a_packed_workbook_is_unpacked_and_named_as_it_is(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="needs ragweave[documents]")
    book = openpyxl.Workbook()
    for cells in (["City", "text"], ["Porto", "A port."], ["Faro", None]):
        book.active.append(cells)
    book.save(tmp_path / "a.xlsx")
    packed = tmp_path / "a.xlsx.gz"
    packed.write_bytes(gzip.compress((tmp_path / "a.xlsx").read_bytes()))
    row, skip = load(packed, SETTINGS)
    assert isinstance(row, Loaded) and row.text == "A port."
    assert isinstance(skip, Skip) and (skip.path, skip.line) == (str(packed), 3)


def test_workbooks_that_cannot_be_read_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openpyxl", reason="needs ragweave[documents]")
    path = tmp_path / "a.xlsx"
    for data, reason in (
        (b"no zip", "damaged .xlsx file"),
        (b"\xd0\xcf\x11\xe0 encrypted", "save it as .xlsx without a password"),
    ):
        path.write_bytes(data)
        with pytest.raises(UnreadableError, match=reason):
            rows(path)
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("xl/workbook.xml", "<workbook/>")
    with pytest.raises(UnreadableError, match=r"damaged .xlsx file"):
        rows(path)
    monkeypatch.setattr("ragweave.tools.knowledge.office.find_spec", lambda _name: None)
    with pytest.raises(UnreadableError, match=r"needs an extra: pip install .ragweave.documents"):
        rows(path)


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ("sep=;\nname;size\nPot;1,5\n", ["name: Pot\nsize: 1,5"]),
        ('\n"SEP=|"\r\nname|size\r\nPot|2\r\n', ["name: Pot\nsize: 2"]),
        ("\n  \nname,size\nPot,2\n", ["name: Pot\nsize: 2"]),
        ('"Name, first";"Town, code"\nAnn;Varn\n', ["Name, first: Ann\nTown, code: Varn"]),
        ('"a ""b"", c, d";e\n1;2\n', ['a "b", c, d: 1\ne: 2']),
        ("name,size\nPot,2,\nPan,3,,\n", ["name: Pot\nsize: 2", "name: Pan\nsize: 3"]),
    ],
)
def test_tables_as_spreadsheets_write_them(tmp_path: Path, data: str, wanted: list[str]) -> None:
    path = tmp_path / "a.csv"
    path.write_text(data)
    assert [one.text for one in rows(path)] == wanted


def test_a_quote_that_is_never_closed_is_named_and_what_stands_before_it_read(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.csv"
    path.write_text('name,note\nPot,"a\nb"\n\nPan,"1 inch\nLid,2\n')
    row, skip = load(path, SETTINGS)
    assert isinstance(row, Loaded) and row.text == "name: Pot\nnote: a\nb"
    assert isinstance(skip, Skip) and (skip.line, skip.reason[:26]) == (
        5,
        "a quote that is never clos",
    )
    path.write_text('"name,note\nPot,1\n')
    with pytest.raises(UnreadableError, match=r"never closed.*\(line 1\)"):
        rows(path)


@pytest.mark.parametrize("field", ['"Ulysses, a novel', '"Heroes" (album)', '"', 'a "b"'])
def test_quotes_that_do_not_pair_up_between_tabs_are_text(tmp_path: Path, field: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(f"name\tyear\n{field}\t1922\nB\t1977\n")
    assert [one.text for one in rows(path)] == [
        f"name: {field}\nyear: 1922",
        "name: B\nyear: 1977",
    ]


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (
            'name\tnote\nAnn\t"He said ""hi"" to\nall" \nBob\t"x ""y"""\n',
            ['name: Ann\nnote: He said "hi" to\nall ', 'name: Bob\nnote: x "y"'],
        ),
        (
            'name\tnote\nAnn\t"three\n\nlines"\nBob\t"O" Neil\n',
            ["name: Ann\nnote: three\n\nlines", "name: Bob\nnote: O Neil"],
        ),
        (
            'name\tnote\nAnn\t"She said ""no"""\nBob\t"O" Neil\n',
            ['name: Ann\nnote: She said "no"', "name: Bob\nnote: O Neil"],
        ),
        ('"name"\t"note"\n"Bob"\t"O" Neil\n', ["name: Bob\nnote: O Neil"]),
        ('name\tnote\n"Bob"  \t"O"\n', ["name: Bob  \nnote: O"]),
    ],
)
def test_one_wrong_field_between_tabs_does_not_unquote_the_others(
    tmp_path: Path, data: str, wanted: list[str]
) -> None:
    (tmp_path / "a.tsv").write_text(data)
    assert [one.text for one in rows(tmp_path / "a.tsv")] == wanted


def test_what_stands_between_two_stray_quotes_is_no_quoted_field(tmp_path: Path) -> None:
    data = 'name\tnote\nAnn\t"\nBob\t"\nA\t"Up, a film\nPipe\t5"\nB\t"C" D\n'
    (tmp_path / "a.tsv").write_text(data)
    notes = [one.text.partition("note: ")[2] for one in rows(tmp_path / "a.tsv")]
    assert notes == ['"', '"', '"Up, a film', '5"', '"C" D']


CELL = st.text(
    st.sampled_from('",;|\t\r\n ') | st.characters(exclude_categories=("C",)), min_size=1
)


@given(
    table=st.lists(st.lists(CELL, min_size=2, max_size=2), min_size=1, max_size=5),
    mark=st.sampled_from(",;\t|"),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_what_a_csv_writer_wrote_is_read(
    table: list[list[str]], mark: str, encoding: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stream = io.StringIO()
    csv.writer(stream, delimiter=mark).writerows([["name", "text"], *table])
    path = tmp_path_factory.mktemp("table") / "a.csv"
    path.write_bytes(stream.getvalue().encode(encoding))
    kept = [(text, name) for name, text in table if text.strip()]
    assert [(one.text, one.metadata["name"]) for one in rows(path)] == kept


def test_utf16_tables_and_json_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("Name\tOrt\nZoë\tKöln\n".encode("utf-16"))
    assert [one.text for one in rows(tmp_path / "a.csv")] == ["Name: Zoë\nOrt: Köln"]
    lines = '{"text": "Zoë"}\nno\n{"text": "Köln"}\n'.encode("utf-16-be")
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"\xfe\xff" + lines))
    first, skip, last = load(tmp_path / "a.jsonl.gz", SETTINGS)
    assert [one.text for one in (first, last) if isinstance(one, Loaded)] == ["Zoë", "Köln"]
    assert isinstance(skip, Skip) and skip.line == 2
    for name in ("a.csv", "a.jsonl"):
        (tmp_path / name).write_bytes(b"\xff\xfea")
        with pytest.raises(UnreadableError, match="not UTF-16 text"):
            rows(tmp_path / name)


def test_columns_that_are_called_as_our_own_metadata_are_kept_beside_it(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"text": "A film.", "title": 1917, "source": "imdb", "source_": "x", "page": 3, "score": 9, '
        '"merged_rank": 0, "of_run": "q", "gold": true}'
    )
    (one,) = rows(tmp_path / "a.jsonl")
    kept = {"source__": "imdb", "source_": "x", "page_": 3, "score_": 9, "line": 1}
    kept |= {"merged_rank_": 0, "of_run_": "q", "gold_": True}
    assert (one.title, one.metadata) == ("1917", kept)
    with KnowledgeBase.create(tmp_path / "kb", settings=SETTINGS) as kb:
        kb.index_paths([tmp_path / "a.jsonl"])
        (found,) = kb.as_retriever(k=1).invoke("film")
    about = found.metadata
    assert about["source"].endswith("a.jsonl") and about["source__"] == "imdb"
    assert "page" not in about and about["score"] != 9


def test_a_row_too_long_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2,3\n4,5\n")
    skip, row = load(tmp_path / "a.csv", SETTINGS)
    assert isinstance(skip, Skip) and skip.line == 2
    assert isinstance(row, Loaded) and row.text == "a: 4\nb: 5"
