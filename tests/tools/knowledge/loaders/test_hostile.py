"""Files that a stranger made to hurt, and 10,000 files with random damage: each ends, crashes nothing and stays small."""

import gzip
import io
import json
import random
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from tests.tools.knowledge.loaders.made import book, charts, numbered, passages, pdf, shown, slides, zipped

from ragweave.tools.knowledge import FileLimits, IndexSettings
from ragweave.tools.knowledge.chunking import UnreadableError
from ragweave.tools.knowledge.loaders import MAX_TEXT
from ragweave.tools.knowledge.loaders.worker import EXCEEDED, Worker

pytestmark = pytest.mark.nightly
SETTINGS = IndexSettings(embedding=None)
CASES = Path(__file__).parents[3] / "cases" / "documents"
MUTATED = 10_000
WORDS = "word " * 40_000
SPREADSHEET = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
OFFICE = "application/vnd.openxmlformats-officedocument.spreadsheetml"


@pytest.fixture
def worker():
    worker = Worker(FileLimits(max_seconds=60, max_memory=2048))
    yield worker
    worker.close()


def stored(worker, path):
    """Return how many passages and characters are made of a file, and what its notices say."""
    count = size = 0
    lines = []
    try:
        with path.open("rb") as file:
            for loaded in worker.load(path, file, SETTINGS):
                if isinstance(loaded, str):
                    lines.append(loaded)
                else:
                    cut = passages(loaded, embedding=None)
                    count += len(cut)
                    size += sum(len(passage.text) + len(json.dumps(passage.metadata)) for passage in cut)
    except UnreadableError as error:
        lines.append(str(error))
    return count, size, "; ".join(lines)


def workbook(sheet):
    main, part = f"{OFFICE}.sheet.main+xml", f"{OFFICE}.worksheet+xml"
    kinds = {"workbook": main, "worksheets/sheet1": part}
    listed = "".join(f'<Override PartName="/xl/{name}.xml" ContentType="{kind}"/>' for name, kind in kinds.items())
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"

    def related(kind, target):
        link = f'<Relationship Id="r" Type="{office}/{kind}" Target="{target}"/>'
        return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{link}</Relationships>'

    return zipped(
        **{
            "[Content_Types].xml": f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{listed}</Types>',
            "_rels/.rels": related("officeDocument", "xl/workbook.xml"),
            "xl/workbook.xml": f'<workbook {SPREADSHEET} xmlns:r="{office}"><sheets><sheet name="a" sheetId="1" r:id="r"/>'
            "</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": related("worksheet", "worksheets/sheet1.xml"),
            "xl/worksheets/sheet1.xml": f"<worksheet {SPREADSHEET}>{sheet}</worksheet>",
        }
    )


def cell(place):
    return f'<c r="{place}" t="inlineStr"><is><t>a</t></is></c>'


def merged(count):
    areas = "".join(f'<mergeCell ref="A{at * 1000 + 2}:CV{at * 1000 + 1001}"/>' for at in range(count))
    return workbook(f'<sheetData><row r="1">{cell("A1")}{cell("B1")}</row></sheetData><mergeCells>{areas}</mergeCells>')


def far(count):
    rows = "".join(f'<row r="{at}">{cell(f"XFD{at}")}</row>' for at in range(1, count + 1))
    return workbook(f"<sheetData>{rows}</sheetData>")


def nested(count):
    data = b"Hello"
    for _ in range(count):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as package:
            for number in range(10):
                package.writestr(f"{number}.zip", data)
        data = file.getvalue()
    return data


def forms(depth):
    """Return a PDF page that draws a form, which draws the next one ten times, and so on."""
    objects = [
        b"<< /Type /XObject /Subtype /Form /BBox [0 0 600 800] /Resources << /Font << /F1 3 0 R >> /XObject << /Im %d 0 R >> >> "
        b"/Length %d >>\nstream\n%s\nendstream" % (5 + at, len(content), content)
        for at in range(depth)
        for content in [b"/Im Do " * 10 if at < depth - 1 else b"BT /F1 9 Tf (deep) Tj ET"]
    ]
    return pdf(("/Im Do", ""), objects=objects)


BOMBS = {
    "chart.docx": lambda: charts(1, 2, WORDS),
    "charts.docx": lambda: charts(80, 0, WORDS),
    "level.docx": lambda: numbered(10**12, "%1"),
    "merged.xlsx": lambda: merged(100),
    "far.xlsx": lambda: far(20_000),
    "spine.epub": lambda: book(80, WORDS),
    "slides.pptx": lambda: slides(80, WORDS),
    "header.md": lambda: (
        f"| {'word ' * 20_000} | b |\n| --- | --- |\n{'| alpha beta gamma | delta |' * 20_000}\n".encode()
    ),
    "front.md": lambda: ("---\n" + "".join(f"k{n}: {'v' * 40}\n" for n in range(1_200)) + "---\n" + WORDS).encode(),
    "fields.json": lambda: json.dumps([{"text": WORDS, **{f"field{n}": "v" * 40 for n in range(2_000)}}]).encode(),
    "deep.json": lambda: b"[" * 200_000,
    "columns.csv": lambda: f"{','.join(f'c{n}' for n in range(140_000))}\n{'1,' * 140_000}\n".encode(),
    "runs.txt": lambda: (("x" * 1999 + " ") * 2_000).encode(),
    "to.eml": lambda: (
        f"From: a@b.org\nTo: {', '.join(f'u{n} <u{n}@b.org>' for n in range(20_000))}\n\nHello\n".encode()
    ),
    "share.html": lambda: ("<div class='share'>" * 240 + WORDS + "</div>" * 240).encode(),
    "deep.html": lambda: ("<div>" * 100_000 + WORDS).encode(),
    "nested.zip": lambda: nested(6),
    "zeros.zip": lambda: zipped(**{"a.txt": "0" * 2**28}),
    "objects.pdf": lambda: pdf((shown(*["word " * 100] * 2_000), "")),
    "forms.pdf": lambda: forms(12),
    "pages.pdf": lambda: pdf(*[(shown("word"), "")] * 3_000),
    "wide.pdf": lambda: pdf((shown("word"), "/UserUnit 75000 /MediaBox [0 0 14400000 14400000]")),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_and_stays_small(worker, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(BOMBS[name]())
    size = path.stat().st_size
    count, made, notice = stored(worker, path)
    print(f"{name}: {size} bytes, {count} passages, {made} characters; {notice[:100]}")  # noqa: T201 - the result
    assert (EXCEEDED in notice) == (name == "forms.pdf")  # PDFium follows its 10¹² references
    assert made <= 20 * max(MAX_TEXT, size)
    assert count <= max(5_000, size / 10)


PIECES = [b"999999999999", b"-1", b"<", b">", b'"', b"\0", b"\n\n", b"[[[", b"&#0;", b"1e999"]
DAMAGE = (
    lambda data, at, end, drawn: data[:at] + data[min(end, at + 200) :],
    lambda data, at, end, drawn: data[:at] + data[at : min(end, at + 500)] * drawn.choice([2, 10, 50]) + data[at:],
    lambda data, at, end, drawn: data[:at] + drawn.randbytes(drawn.choice([1, 4, 40])) + data[at:],
    lambda data, at, end, drawn: data[:at] + drawn.choice(PIECES) + data[at:],
    lambda data, at, end, drawn: data[:at] + data[at + 1 :],
    lambda data, at, end, drawn: (
        data[:at] + bytes(byte ^ 1 << drawn.randrange(8) for byte in data[at : at + 1]) + data[at + 1 :]
    ),
    lambda data, at, end, drawn: data[:end],
)


def mutated(data, drawn):
    """Return a file with damage: bytes that are flipped, cut, repeated or inserted."""
    for _ in range(drawn.choice([1, 1, 2, 5, 20])):
        at, end = sorted(drawn.randrange(len(data) + 1) for _ in range(2))
        data = drawn.choices(DAMAGE, (9, 9, 9, 9, 9, 9, 1))[0](data, at, end, drawn)
    return data


def mutated_member(data, drawn):
    """Return a ZIP package with damage within one of its files, whose checksum is right."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as package, zipfile.ZipFile(out, "w") as other:
        parts = {name: package.read(name) for name in package.namelist()}
        chosen = drawn.choice([*parts])
        for name, part in parts.items():
            other.writestr(name, mutated(part, drawn) if name == chosen else part)
    return out.getvalue()


def test_damaged_files_of_all_formats_harm_nothing(worker, tmp_path):
    drawn = random.Random(54)
    samples = [(path.suffix, path.read_bytes()) for path in sorted(CASES.rglob("*")) if path.is_file()]
    samples += [
        (Path(name).suffix, BOMBS[name]()) for name in ("chart.docx", "level.docx", "spine.epub", "slides.pptx")
    ]
    mail = b"From a@b.org Mon Jan  1 10:00:00 2029\nFrom: a@b.org\nSubject: Fees\n\nThey rise in May.\n\n"
    samples += [
        (".mbox", mail * 5),
        (".zip", zipped(**{"a.md": "# Fees\n\nThey rise.", "b.csv": "a,b\n1,2\n"})),
        (".gz", gzip.compress(mail * 9)),
        (".json", json.dumps([{"id": 1, "title": "Fees", "text": "They rise in May."}] * 5).encode()),
        (".tsv", b"day\tfee\nMonday\t5\nTuesday\t6\n"),
        (
            ".srt",
            b"1\n00:00:01,000 --> 00:00:04,000\n<i>The fees</i> rise.\n\n2\n00:00:05,000 --> 00:00:06,000\nIn May.\n",
        ),
    ]
    samples = [(suffix, data) for suffix, data in samples if 0 < len(data) < 300_000]
    by_suffix = {}
    for suffix, data in samples:
        by_suffix.setdefault(suffix, []).append(data)
    assert len(by_suffix) > 20
    suffixes = sorted(by_suffix)
    outcomes = Counter()
    for number in range(MUTATED):
        suffix = suffixes[number % len(suffixes)]
        data = drawn.choice(by_suffix[suffix])
        inside = data.startswith(b"PK") and drawn.random() < 0.8
        data = (mutated_member if inside else mutated)(data, drawn)
        path = tmp_path / f"a{suffix}"
        path.write_bytes(data)
        count, made, notice = stored(worker, path)
        outcomes["read" if count else "skipped"] += 1
        place = f"number {number}, {suffix}: {notice[:300]}"
        assert EXCEEDED not in notice, place
        assert "what is not a text" not in notice, place
        assert made <= 20 * max(MAX_TEXT, len(data)), place
        assert count <= max(2_000, len(data)), place
    print(outcomes)  # noqa: T201 - the result
    assert outcomes["read"] > MUTATED / 4
