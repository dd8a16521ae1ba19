"""What it costs to read 3,000 files in a process of its own: processor time of indexing with it and without it.

Light formats are read in the main process because of this measurement: the last rows read them in the other one, too.
"""

import argparse
import io
import resource
import tempfile
import time
import zipfile
from pathlib import Path

from ragweave import KnowledgeBase
from ragweave.tools.knowledge import FileLimits, loaders

TEXT = "The harbour of Norhaven was rebuilt in 1932. Its ferry sails at nine and carries forty people. " * 12


def word(text: str) -> bytes:
    """Return a Word document of ten paragraphs."""
    file = io.BytesIO()
    paragraphs = f"<w:p><w:r><w:t>{text[:120]}</w:t></w:r></w:p>" * 10
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("word/document.xml", f'<w:document xmlns:w="w"><w:body>{paragraphs}</w:body></w:document>')
    return file.getvalue()


FORMATS = {
    "txt": lambda text: text.encode(),
    "md": lambda text: f"# Harbour\n\n{text}".encode(),
    "html": lambda text: f"<html><body><h1>Harbour</h1><p>{text}</p></body></html>".encode(),
    "docx": word,
}


def seconds(folder: Path, limits: FileLimits | None) -> tuple[float, float]:
    """Return the seconds of indexing a folder, and those of the processor, child processes included."""
    with (
        tempfile.TemporaryDirectory() as place,
        KnowledgeBase.create(Path(place, "kb"), settings={"embedding": None}) as kb,
    ):
        began, before = time.perf_counter(), _used()
        kb.index_paths(folder, limits=limits)
        return time.perf_counter() - began, _used() - before


def _used() -> float:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> None:
    """Measure each format."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=3000)
    count = parser.parse_args().files
    for suffix, written in FORMATS.items():
        with tempfile.TemporaryDirectory() as folder:
            for number in range(count):
                Path(folder, f"{number}.{suffix}").write_bytes(written(f"Number {number}. {TEXT}"))
            seconds(Path(folder), None)  # warms up
            light, loaders.MAX_LIGHT = loaders.MAX_LIGHT, -1
            rows = [seconds(Path(folder), limits) for limits in (None, FileLimits(), None, FileLimits())]
            loaders.MAX_LIGHT = light
            here, there = (min(row[1] for row in rows[first::2]) for first in (0, 1))
            walls = [min(row[0] for row in rows[first::2]) for first in (0, 1)]
            print(
                f"{suffix}: {count} files, here {here:.1f} s, in a process of their own {there:.1f} s "
                f"({there / here - 1:+.0%}); by the clock {walls[0]:.1f} and {walls[1]:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
