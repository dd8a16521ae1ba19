"""What Docling exports keeps its structure and its places."""

import hashlib
import json
from pathlib import Path

import pytest
from tests.tools.knowledge.loaders.made import passages, pdf, read

from ragweave import KnowledgeBase
from ragweave.tools.knowledge.chunking import UnreadableError

LEASE = (Path(__file__).parents[3] / "cases/documents/docling/lease.json").read_text()
"""Written by `save_as_json` of docling-core 2.104."""


def test_structure_tables_and_pages_are_kept():
    (lease,), _ = read("x.json", LEASE)
    assert (lease.title, [(heading.level, heading.text) for heading in lease.headings]) == (
        "Lease of the mill",
        [(1, "Lease of the mill"), (2, "Rent")],
    )
    assert "- No pets.\n2. No smoke.\n\n" in lease.text and "Sign here." in lease.text
    assert "Confidential" not in lease.text  # a running head
    (table,) = lease.tables
    assert lease.text[table.start : table.end].strip().split("\n") == [
        "| Year | Rent \\| euro |",
        "| --- | --- |",
        "| 2024 | 900 |",
        "| 2025 | 950 |",
    ]
    firsts = [lease.text[start:].lstrip()[:14] for start in lease.pages]
    assert firsts == ["# Lease of the", "Table 1: Rents", "the wheel.\n\nSi"]


def test_boxes_count_from_the_top_left_corner_whichever_corner_docling_counts_from():
    (lease,), _ = read("x.json", LEASE)
    boxes = {lease.text[word.start : word.end]: word.box for word in lease.words}
    assert boxes["The rent is 900 euro. It is due in May."] == (
        50,
        120,
        400,
        140,
    )  # BOTTOMLEFT, on a page of 800 points
    assert boxes["950"] == (150, 140, 240, 158)  # TOPLEFT
    assert (boxes["The tenant keeps"], boxes["the wheel."]) == ((50, 700, 300, 710), (50, 50, 150, 60))


@pytest.fixture
def kb(tmp_path):
    with KnowledgeBase.open_or_create(tmp_path / "kb", settings={"embedding": None}) as kb:
        yield kb


def cited(kb, text):
    (doc,) = (doc for doc in kb.passages() if text in doc.page_content)
    start = doc.page_content.index(text)
    return kb.evidence({"passage": doc.id, "start": start, "end": start + len(text), "text": text})


def test_a_quote_is_marked_by_the_box_of_its_item_and_in_the_pdf_itself_where_that_lies_beside(kb, tmp_path):
    lines = "BT /F1 12 Tf 50 665 Td (The rent is 900 euro. It is due in May.) Tj ET"
    original = pdf((lines, ""), ("", ""), ("", ""))
    lease = json.loads(LEASE)
    lease["origin"]["binary_hash"] = int(hashlib.sha256(original).hexdigest()[-16:], 16)
    (tmp_path / "lease.json").write_text(json.dumps(lease))
    kb.index_paths([tmp_path / "lease.json"])
    (place,) = evidence = cited(kb, "It is due in May.")
    assert (place["page"], place["page_size"], place["boxes"]) == (1, (600, 800), [(50, 120, 400, 140)])
    assert place["heading"] == "Lease of the mill › Rent" and evidence.picture(0) is None
    (row,) = cited(kb, "2025 | 950")
    assert (row["page"], row["boxes"]) == (2, [(50, 140, 240, 158)])
    assert [place["page"] for place in cited(kb, "The tenant keeps the wheel.")] == [2, 3]
    (tmp_path / "lease.pdf").write_bytes(original)
    (place,) = evidence = cited(kb, "It is due in May.")
    ((left, _, right, _),) = place["boxes"]
    assert left > 150 and right < 300 and evidence.picture(0)[:4] == b"\x89PNG"
    (tmp_path / "lease.pdf").write_bytes(original + b" ")  # another file: it is not shown
    assert cited(kb, "It is due in May.").picture(0) is None
    (tmp_path / "lease.json").write_text(changed(origin="lease.pdf"))  # not as Docling writes it
    kb.index_paths([tmp_path / "lease.json"])
    assert cited(kb, "It is due in May.").picture(0) is None


def changed(**changes):
    return json.dumps(json.loads(LEASE) | changes)


def item(**fields):
    return {"self_ref": "#/texts/0", "label": "text", "text": "A claim.", "children": [], **fields}


BODY = {"children": [{"$ref": "#/texts/0"}]}
BOX = {"l": 0, "t": 1, "r": 2, "b": 3}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            changed(body=BODY, texts=[item(children=[{"$ref": "#/texts/0"}] * 3, captions=[{"$ref": "#/texts/0"}])]),
            "A claim.",
        ),
        (
            changed(
                body=BODY,
                texts=[item(prov=[{"page_no": 10**9, "bbox": BOX}])],
                pages={str(10**9): {"size": {"width": 1, "height": 1}}},
            ),
            "A claim.",
        ),
        (changed(body=BODY, texts=[item(prov=[{"page_no": 1, "bbox": {**BOX, "l": float("nan")}}])]), "A claim."),
        (changed(body=BODY, texts=[item(prov=[{"page_no": 1, "bbox": {**BOX, "r": 1e300}}])]), "A claim."),
        (changed(body={"children": [{"$ref": "/etc/passwd"}]}), None),
        (changed(body=BODY, texts=[item(text=7)]), None),
    ],
)
def test_what_is_not_of_docling_is_read_or_refused(text, shown):
    if shown is None:
        with pytest.raises(UnreadableError):
            read("x.json", text)
    else:
        (document,), _ = read("x.json", text)
        assert document.text == shown and passages(document)[0].text == shown


def test_rows_of_a_header_are_joined_and_merged_cells_repeated():
    names = [["", "Rent", "Rent"], ["Year", "north", "south"]]
    grid = [
        [{"text": text, "column_header": at < 2} for text in row] for at, row in enumerate([*names, ["2024", "9", "8"]])
    ]
    table = item(label="table", text=None, data={"grid": grid, "table_cells": []})
    (document,), _ = read("x.json", changed(body={"children": [{"$ref": "#/tables/0"}]}, tables=[table]))
    assert document.text == "| Year | Rent north | Rent south |\n| --- | --- | --- |\n| 2024 | 9 | 8 |"
