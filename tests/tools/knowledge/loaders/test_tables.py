import json

import pytest
from tests.tools.knowledge.loaders.made import passages, read


def test_lines_above_the_header_are_no_header():
    records, _ = read("a.csv", "Statement\nUntil: March\n\nDate;Payee\n2026-01-04;Water\n2026-02-11;Ferry\n")
    assert [record.text for record in records] == [
        "Statement\nUntil: March",
        "Date: 2026-01-04\nPayee: Water",
        "Date: 2026-02-11\nPayee: Ferry",
    ]
    assert records[1].metadata["line"] == 5


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("Kettle;19.50;Oslo\nToaster;30.00;Turin\n", ["column 1: Kettle\ncolumn 2: 19.50\ncolumn 3: Oslo"]),
        ("2026-01-04,Water,-88\n2026-02-11,Ferry,-12\n", ["column 1: 2026-01-04\ncolumn 2: Water\ncolumn 3: -88"]),
        ("Get Low,1998\nAlien,1979\nSolaris,1972\n", ["column 1: Get Low\ncolumn 2: 1998"]),
        ("Region,2024,2025\nNorth,11,12\nSouth,9,8\n", ["Region: North\n2024: 11\n2025: 12"]),
        ("Hall,1,2,3\nNorth,11,12,13\n", ["Hall: North\n1: 11\n2: 12\n3: 13"]),
        ("Region,2025\nNorth,11.5\nSouth,9\n", ["Region: North\n2025: 11.5"]),
        ("Item,Price\nKettle,19.50\n", ["Item: Kettle\nPrice: 19.50"]),
        ("Item,City\nKettle,Oslo\n", ["Item: Kettle\nCity: Oslo"]),
        ("Berth,03/01/2026,10/01/2026\nEast,4,5\nWest,2,1\n", ["Berth: East\n03/01/2026: 4\n10/01/2026: 5"]),
    ],
)
def test_a_first_row_with_data_is_not_a_header(text, rows):
    records, _ = read("a.csv", text)
    assert [doc.text for doc in records][:1] == rows


def test_separators_quotes_and_names():
    for text in ("sep=;\na;b\n1,5;2\n", "a\tb\n1,5\t2\n", '"a"|"b"\n"1,5"|"2"\n'):
        assert [record.text for record in read("a.csv", text)[0]] == ["a: 1,5\nb: 2"]
    assert read("a.csv", "sep=;\na;b\n1,5;2\n")[0][0].metadata["line"] == 3
    (record,), _ = read("a.csv", 'id,a,a,\n7,x,"say \\"hi, all\\"",z,w\n')
    assert record.text.endswith('a: x\na 3: say "hi, all"\ncolumn 4: z\ncolumn 5: w')


def test_the_id_of_a_row_that_has_a_text_or_of_a_field_that_is_named():
    """Tables often have an `id` that counts from 1: their rows would be taken for each other."""
    table, corpus = "id,name\n7,Ann\n", "id,text\n7,Ann.\n"
    ids = [read("a.csv", text, **chosen)[0][0].id for text in (table, corpus) for chosen in ({}, {"id_field": "id"})]
    assert ids == [None, "7", "7", "7"]
    assert read("a.csv", corpus)[0][0].metadata["id"] == "7"


def test_rows_of_json():
    (record,), _ = read("a.json", json.dumps([{"q": "Where?", "a": ["Here", "There"]}]))
    assert record.text == 'q: Where?\na: ["Here", "There"]'
    (record,), notices = read("a.jsonl", '{"text": "x", "year": 1, "title": "T"}\nno\n')
    assert (record.title, record.metadata) == ("T", {"table": 1, "year": 1, "line": 1}) and "(lines 2)" in notices
    assert read("a.json", '{"deep":{"key":"value"}}')[0][0].text == '{\n "deep": {\n  "key": "value"\n }\n}'


@pytest.mark.parametrize(("encoding", "note"), [("utf-8", ""), ("cp1252", "not UTF-8: read as cp1252")])
def test_a_file_of_a_megabyte_and_more_is_read_to_its_end(encoding, note):
    text = "One café is " + "very " * 200 + "old."
    records, notices = read("a.csv", "\r\n".join(["text", *[f'"{text}\n""Yes."""'] * 1100]).encode(encoding))
    assert (len(records), records[-1].text, records[-1].metadata["line"]) == (1100, f'{text}\n"Yes."', 2200)
    assert notices == note
    records, notices = read("a.jsonl", "\n".join([f'{{"text": "{text}"}}'] * 1100).encode(encoding))
    assert (len(records), records[-1].text, records[-1].metadata["line"], notices) == (1100, text, 1100, note)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_the_text_field(name):
    rows = {"a.csv": "body,owner\nKey.,Ann\n", "a.jsonl": '{"body": "Key.", "owner": "Ann"}\n'}
    assert read(name, rows[name])[0][0].text == "body: Key.\nowner: Ann"
    (record,), _ = read(name, rows[name], text_field="body")
    assert record.text == "Key." and record.metadata["owner"] == "Ann"
    assert read(name, rows[name], text_field="owner, body")[0][0].text == "body: Key.\nowner: Ann"


@pytest.mark.parametrize(
    ("name", "text"), [("a.jsonl", '{"body": "Key."}\n{"plot": "So."}\n'), ("a.csv", "body\nKey.\n")]
)
def test_a_text_field_that_is_not_there(name, text):
    records, notices = read(name, text, text_field="plot")
    assert [record.text for record in records] == ["So."][: text.count("So.")]
    line = 1 if name == "a.jsonl" else 2
    assert notices == f"1 lines have no field 'plot'; --text-field may be one of: body (lines {line})"


def test_long_rows_are_cut_between_their_lines():
    (record,), _ = read("a.csv", "a,b,c\n" + ",".join(["one two three"] * 3))
    assert [each.text for each in passages(record, size=8)] == [
        "a: one two three\nb: one two three",
        "c: one two three",
    ]


def test_a_row_of_several_lines_stands_where_it_begins():
    rows, _ = read("a.csv", 'item,note\nKettle,"first\nsecond\nthird"\n\nToaster,plain\n')
    assert [row.metadata["line"] for row in rows] == [2, 6]


def test_names_and_values_that_no_store_takes_are_made_so():
    (row,), _ = read("a.json", '[{"text": "x", "id": "a\\u0000", "k\\ud83d": ["b\\u0000", {"c\\ud83d": 1}]}]')
    assert (row.id, row.metadata["k?"]) == ("a\ufffd", ["b\ufffd", {"c?": 1}])
