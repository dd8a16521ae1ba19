"""Questions in files, and makers run to their end: shared by the tests of labels."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ragweave.training.labels import Labeler, Labelled, make_labels, open_source

SLIMPLM = Path(__file__).parents[4] / "shared" / "data" / "slimplm"
FILTER = SLIMPLM.parent / "filter"
HOTPOT = SLIMPLM.parent / "hotpotqa" / "hotpot-dev-200.jsonl.gz"


def write(path: Path, rows: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def label(spec: Path | str, labeler: Labeler, out: Path, **settings: Any) -> Labelled:
    return make_labels(open_source(str(spec)), labeler, out, **settings)


def made(spec: Path | str, labeler: Labeler, **settings: Any) -> list[dict[str, Any]]:
    """Return the rows that a maker makes of a file."""
    out = Path(str(spec).split(":")[-1].split("?")[0]).with_name("out.jsonl")
    out.unlink(missing_ok=True)
    return read(label(spec, labeler, out, **settings).path)
