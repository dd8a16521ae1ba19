"""Which loader reads which file, and which files a path stands for."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from ragweave.state.passages import whole
from ragweave.tools.knowledge.html import load_html
from ragweave.tools.knowledge.loaded import Loaded, UnreadableError
from ragweave.tools.knowledge.markup import load_markdown, load_text
from ragweave.tools.knowledge.pdf import load_pdf
from ragweave.tools.knowledge.report import Skip
from ragweave.tools.knowledge.settings import Settings
from ragweave.tools.knowledge.tables import load_csv, load_json_lines

_WHOLE: dict[str, Callable[[Path], Iterator[Loaded]]] = {
    "": load_text,
    ".txt": load_text,
    ".text": load_text,
    ".rst": load_text,
    ".md": load_markdown,
    ".markdown": load_markdown,
    ".html": load_html,
    ".htm": load_html,
    ".xhtml": load_html,
    ".pdf": load_pdf,
}
_ROWS: dict[str, Callable[[Path, Settings], Iterator[Loaded | Skip]]] = {
    ".csv": load_csv,
    ".tsv": load_csv,
    ".jsonl": load_json_lines,
    ".ndjson": load_json_lines,
}


def load(path: Path, settings: Settings) -> Iterator[Loaded | Skip]:
    """Read the texts of a file; rows that cannot be read come as `Skip`.

    Raises:
        UnreadableError: Nothing of the file can be read; what was given before does not count.
    """
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableError("not a regular file")
        if suffix in _ROWS:
            yield from _ROWS[suffix](path, settings)
        elif suffix in _WHOLE:
            yield from _full(_WHOLE[suffix](path))
        else:
            known = " ".join(sorted({*_WHOLE, *_ROWS} - {""}))
            raise UnreadableError(f"no loader for {suffix} files (known: {known})")
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UnreadableError(reason) from error


def _full(texts: Iterator[Loaded]) -> Iterator[Loaded]:
    for one in texts:
        if not one.text.strip():
            raise UnreadableError("empty")
        # A PDF may hold halves of surrogate pairs; each becomes one sign, so offsets stay.
        yield replace(one, text=whole(one.text), title=whole(one.title))


def files_under(path: Path, *, leave_out: Path) -> Iterator[Path | Skip]:
    """Return the files of a folder, recursively, sorted; or `path` itself where it is a file.

    Hidden files and folders and the folder `leave_out` are passed over, links to folders are not
    followed. A folder that may not be listed comes as a `Skip`.
    """
    if not os.path.isdir(path):  # noqa: PTH112 - never raises, where a Path may
        yield path
        return
    denied: list[OSError] = []
    for folder, names, files in os.walk(path, onerror=denied.append):
        here = Path(folder)
        names[:] = sorted(
            name for name in names if not name.startswith(".") and here / name != leave_out
        )
        yield from (here / name for name in sorted(files) if not name.startswith("."))
    yield from (Skip(str(error.filename), error.strerror or str(error)) for error in denied)
