"""Quotes marked on the pages of real PDFs: `python benchmarks/page.py FOLDER [--files 80] [--each 8] [--wrong 500] [--pictures OUT]`.

Sentences are quoted from the passages of our own loader and chunker. Measured: the share that is marked; whether the
letters in the boxes are the quote's, by PDFium, which the finder uses, and by Poppler (`pdftotext -bbox`), which it
does not; whether the first box holds the letter at the loader's own offset; milliseconds a quote and a picture.
Then `--wrong` quotes are altered by a word, and as many are looked for in another file: none may be marked, unless
Poppler reads the same letters on the page.

The PDFs are those of Debian's `texlive-science-doc` and `texlive-humanities-doc`.
"""

import argparse
import io
import json
import random
import re
import subprocess
import time
from collections import Counter
from html import unescape
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from langchain_core.documents import Document

from ragweave.state.passages import place_at
from ragweave.tools.knowledge.chunking import Loaded, UnreadableError, passages_of
from ragweave.tools.knowledge.loaders import load
from ragweave.tools.knowledge.loaders.pdf import opened
from ragweave.tools.knowledge.marks import Box, Mark, bare, marks_of, page_picture, printed
from ragweave.tools.knowledge.settings import IndexSettings
from ragweave.tools.text.words import split_sentences

Sample = tuple[Path, Loaded, Document, Any]
"""A file, its text, and a passage with a sentence of it."""


def letters_of(text: str) -> str:
    return bare(text)[0]


def is_inside(box: Box, boxes: tuple[Box, ...], margin: float = 0.0) -> bool:
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return any(left <= x <= right and top - margin <= y <= low + margin for left, top, right, low in boxes)


def by_pdfium(data: bytes, marks: list[Mark]) -> str:
    """Return the letters whose middle lies in the boxes."""
    text = ""
    with opened(data) as document:
        for mark in marks:
            shown, box = printed(document[mark.page - 1])
            chars = ((at, char) for at, char in enumerate(shown) if letters_of(char))
            text += "".join(char for at, char in chars if is_inside(box(at), mark.boxes))
    return letters_of(text)


def by_poppler(path: Path, marks: list[Mark]) -> str:
    """Return the letters of the words whose middle lies in the boxes."""
    text = ""
    for mark in marks:
        command = ["pdftotext", "-cropbox", "-bbox", "-f", str(mark.page), "-l", str(mark.page), str(path), "-"]
        page = subprocess.run(command, capture_output=True, check=True).stdout.decode("utf-8", "replace")
        for word in re.finditer(r'<word xMin="(.+?)" yMin="(.+?)" xMax="(.+?)" yMax="(.+?)">(.*?)</word>', page):
            left, top, right, low = map(float, word.groups()[:4])
            text += unescape(word[5]) if is_inside((left, top, right, low), mark.boxes, 1) else ""
    return letters_of(text)


def true_place(loaded: Loaded, passage: Document, start: int, data: bytes) -> tuple[int, Box] | None:
    """Return page and box of the letter at an offset, by the loader's text of the page; None if a head was left out."""
    page, at = place_at(passage, start)["page"], passage.metadata["start"] + start
    first = loaded.pages[page - 1]
    end = loaded.pages[page] - 1 if page < len(loaded.pages) else len(loaded.text)
    with opened(data) as document:
        shown, box = printed(document[page - 1])
        letters, places = bare(shown)
        if letters_of(loaded.text[first:end]) != letters:
            return None
        return page, box(places[len(letters_of(loaded.text[first:at]))])


def loaded_of(path: Path, data: bytes) -> Loaded | None:
    try:
        return next((text for text in load(path, io.BytesIO(data), IndexSettings()) if isinstance(text, Loaded)), None)
    except UnreadableError:
        return None


def measure(path: Path, data: bytes, loaded: Loaded, passage: Document, quote: Any, row: dict[str, Any]) -> None:
    start = quote.start + len(quote.text) - len(quote.text.lstrip())
    began = time.perf_counter()
    marks = marks_of(passage, quote.start, quote.end, data)
    row |= {"milliseconds": 1000 * (time.perf_counter() - began), "quote": quote.text, "marks": marks}
    row["marked"] = bool(marks and marks[0].boxes)
    if not row["marked"]:
        return
    wanted = Counter(letters_of(quote.text))
    own, other = (Counter(text) for text in (by_pdfium(data, marks), by_poppler(path, marks)))
    share = 2 * (other & wanted).total() / (other.total() + wanted.total())  # readers differ in formulas and order
    row |= {"equal": own == wanted, "poppler 90 %": share >= 0.9, "poppler 60 %": share >= 0.6}
    if place := true_place(loaded, passage, start, data):
        row["true place"] = place[0] == marks[0].page and is_inside(place[1], marks[0].boxes[:1])
    began = time.perf_counter()
    picture = page_picture(data, marks[0])
    row |= {"picture milliseconds": 1000 * (time.perf_counter() - began), "picture bytes": len(picture)}
    row["picture"] = picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=80)
    parser.add_argument("--each", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wrong", type=int, default=500)
    parser.add_argument("--pictures", type=Path, help="Write twenty pictures there.")
    options = parser.parse_args()
    samples, rows = sampled(options), list[dict[str, Any]]()
    for path, loaded, doc, quote in samples:
        rows.append({"file": path.name})
        measure(path, path.read_bytes(), loaded, doc, quote, rows[-1])
    show(rows)
    show_wrong(samples, options.wrong, random.Random(options.seed))
    if options.pictures:
        write_pictures(rows, options.pictures)


def sampled(options: argparse.Namespace) -> list[Sample]:
    rng = random.Random(options.seed)
    paths = [path for path in sorted(options.folder.rglob("*.pdf")) if path.stat().st_size < 2_000_000]
    rng.shuffle(paths)
    samples: list[Sample] = []
    files = 0
    for path in paths:
        loaded = loaded_of(path, path.read_bytes())
        docs = (
            [Document(text.text, metadata=text.metadata) for text in passages_of(loaded, IndexSettings())]
            if loaded
            else []
        )
        quotes = [
            (doc, sentence)
            for doc in docs
            for sentence in split_sentences(doc.page_content)
            if len(letters_of(sentence.text)) >= 10
        ]
        if not loaded or not quotes:
            continue
        files += 1
        samples += [(path, loaded, *quote) for quote in rng.sample(quotes, min(options.each, len(quotes)))]
        if files == options.files:
            break
    return samples


def altered(doc: Document, quote: Any, rng: random.Random, words: list[str]) -> tuple[Document, int, int] | None:
    """Return a passage in which a word of its quote is another one, and the quote's span; None if it has no word."""
    matches = list(re.finditer(r"[^\W\d_]{4,}", quote.text))
    if not matches:
        return None
    start, end = (quote.start + at for at in rng.choice(matches).span())
    old, text = doc.page_content[start:end], doc.page_content
    new = next(word for word in iter(lambda: rng.choice(words), None) if letters_of(word) != letters_of(old))
    return (
        Document(text[:start] + new + text[end:], metadata=doc.metadata),
        quote.start,
        quote.end + len(new) - len(old),
    )


def show_wrong(samples: list[Sample], most: int, rng: random.Random) -> None:
    """Print how many quotes are marked that do not stand in the file."""
    words = sorted({word for *_, quote in samples for word in re.findall(r"[^\W\d_]{4,}", quote.text)})
    wrong: dict[str, list[str]] = {"altered by a word": [], "of another file": []}
    tried: Counter[str] = Counter()
    for path, _, doc, quote in rng.sample(samples, min(most, len(samples))):
        other = rng.choice([sample[0] for sample in samples if sample[0] != path])
        for kind, file, case in (
            ("altered by a word", path, altered(doc, quote, rng, words)),
            ("of another file", other, (doc, quote.start, quote.end)),
        ):
            if case is not None:
                tried[kind] += 1
                marks = marks_of(*case, file.read_bytes())
                text = letters_of(case[0].page_content[case[1] : case[2]])
                if marks and marks[0].boxes and text not in page_letters(file, marks):
                    wrong[kind].append(f"{file.name}: {case[0].page_content[case[1] : case[2]]!r}")
    for kind, quotes in wrong.items():
        print(f"wrongly marked, {kind}: {len(quotes)} of {tried[kind]}", *quotes, sep="\n  ")


def page_letters(path: Path, marks: list[Mark]) -> str:
    """Return the letters of the pages of some marks, by Poppler."""
    text = ""
    for mark in marks:
        command = ["pdftotext", "-raw", "-f", str(mark.page), "-l", str(mark.page), str(path), "-"]
        text += subprocess.run(command, capture_output=True, check=True).stdout.decode("utf-8", "replace")
    return letters_of(text)


def write_pictures(rows: list[dict[str, Any]], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    pictures = [row for row in rows if "picture" in row]
    for number, row in enumerate(random.Random(1).sample(pictures, min(20, len(pictures)))):
        (folder / f"{number:02}.png").write_bytes(row["picture"])
        (folder / f"{number:02}.txt").write_text(row["quote"])


def show(rows: list[dict[str, Any]]) -> None:
    report: dict[str, Any] = {"files": len({row["file"] for row in rows}), "quotes": len(rows)}
    for name in ("marked", "equal", "true place", "poppler 90 %", "poppler 60 %"):
        values = [row[name] for row in rows if name in row]
        report[name] = f"{sum(values)} of {len(values)}"
    for name in ("milliseconds", "picture milliseconds", "picture bytes"):
        values = [row[name] for row in rows if name in row]
        report[name] = {"median": round(median(values)), "95 %": round(quantiles(values, n=20)[-1])}
    print(json.dumps(report, indent=1, ensure_ascii=False))
    for row in rows:
        if not all(row.get(name, True) for name in ("marked", "equal", "true place", "poppler 60 %")):
            print(json.dumps({name: value for name, value in row.items() if name != "picture"}, ensure_ascii=False))


if __name__ == "__main__":
    main()
