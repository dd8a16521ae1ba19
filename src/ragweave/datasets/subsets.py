"""The questions of each data set that the papers used.

`asqa:ASQA.json?subset=slimplm&ids=asqa-test-datasetid.json` asks SlimPLM's 400 questions,
`hotpotqa:dev.json?subset=blendfilter` BlendFilter's 500. A file without these questions is refused.

Sources: BlendFilter, section 4.1.2; SlimPLM, section 4.1, and the ids in its repository; FILCO, section
3.1 and table 1; Liu et al. 2024, section 4; KILT (table 1) and DPR (table 1) for the sizes of their files.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ragweave.datasets.question import Question
from ragweave.errors import UsageError


@dataclass(frozen=True)
class PaperSubset:
    """Which questions of a data set a paper asked."""

    split: str
    """The split, and whose file it is."""
    size: int
    first: bool = False
    """Whether they are the first ones of the file."""
    ids: str = ""
    """Where the authors list their ids."""
    full: int = 0
    """Number of questions in the file, if the authors' choice is not public."""

    def __str__(self) -> str:
        which = "the first" if self.first else "a listed" if self.ids else "all"
        private = f" (of which the authors asked {self.size:,} that are not public)" if self.full else ""
        return f"{which} {self.full or self.size:,} questions of the split {self.split}{private}"


_DATA = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
SUBSETS: Mapping[tuple[str, str], PaperSubset] = {
    (paper, name): PaperSubset(**fields) for paper, subsets in _DATA.items() for name, fields in subsets.items()
}
"""By paper and data set. Liu et al. then leave out the questions answered without context (`--drop-answered`)."""


def chosen(questions: Iterator[Question], paper: PaperSubset | None, ids: frozenset[str] | None) -> Iterator[Question]:
    """Yield the questions that a paper asked, or those with the ids, in file order.

    Raises:
        UsageError: The file lacks some of them.
    """
    missing, count = set(ids or ()), 0
    for question in islice(questions, paper.size) if paper and paper.first else questions:
        if ids is None or question.id in ids:
            missing.discard(question.id)
            count += 1
            yield question
    if missing:
        raise UsageError(f"the file lacks {len(missing)} of the listed questions, such as {min(missing)!r}")
    if paper and count != (paper.full or paper.size):
        raise UsageError(f"the file holds {count:,} questions, and the paper asked {paper}")


def subset_of(dataset: str, paper: str, ids: str) -> tuple[PaperSubset | None, frozenset[str] | None]:
    """Return a paper's subset and the ids of a file, as named in a spec; None for all questions.

    Raises:
        UsageError: The paper did not use this data set, or its list of ids is missing.
    """
    listed = _read_ids(Path(ids)) if ids else None
    subset = SUBSETS.get((paper, dataset))
    if paper and subset is None:
        having = ", ".join(f"{name} ({owner})" for owner, name in SUBSETS if owner == paper or name == dataset)
        raise UsageError(f"no subset {paper!r} of {dataset!r}; there are {having or 'none'}")
    if subset and subset.ids and listed is None:
        raise UsageError(f"{paper} asked {subset}: name the list with ids=FILE ({subset.ids})")
    return subset, listed


def _read_ids(path: Path) -> frozenset[str]:
    """Read ids: a JSON list, or words."""
    try:
        text = path.read_text("utf-8")
        ids: Any = json.loads(text) if text.lstrip()[:1] == "[" else text.split()
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read as a list of ids: {error}") from error
    return frozenset(map(str, ids))
