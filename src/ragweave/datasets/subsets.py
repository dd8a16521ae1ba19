"""The questions that the papers asked of each data set, and seeded random subsets.

`asqa:ASQA.json?subset=slimplm&ids=asqa-test-datasetid.json` asks SlimPLM's 400 questions,
`hotpotqa:dev.json?subset=blendfilter` BlendFilter's 500, `nq:dev.jsonl?random=500&seed=7` any 500,
the same for the same seed. A file that can't hold a paper's subset is refused.

Sources: BlendFilter, section 4.1.2; SlimPLM, section 4.1, and the ids in its repository
(`user_intent_data`); FILCO, section 3.1 and table 1; Liu et al. 2024, section 4; KILT (Petroni et al.
2021, table 1) and DPR (Karpukhin et al. 2020, table 1) for the sizes of their files.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from urllib.parse import parse_qsl

from ragweave.datasets.question import Question
from ragweave.errors import UsageError
from ragweave.tools.files import parse_json

NAMES = ("subset", "ids", "random", "seed")
"""What the spec of a data set may name of it behind the `?`."""


@dataclass(frozen=True, kw_only=True)
class PaperSubset:
    """Which questions of a data set a paper asked."""

    split: str
    """The split, and in whose file."""
    size: int
    """Questions."""
    first: bool = False
    """Whether they are the first of the file."""
    ids: str = ""
    """Where the paper's authors list the questions by id, where they do."""
    unsettled: str = ""
    """What is not public of the choice; "": it is all public."""


_SLIMPLM = "user_intent_data/{name}/{name}-test-datasetid.json of github.com/plageon/SlimPLM"


def _slimplm(split: str, name: str) -> PaperSubset:
    return PaperSubset(split=split, size=400, ids=_SLIMPLM.format(name=name))


SUBSETS: Mapping[tuple[str, str], PaperSubset] = MappingProxyType(
    {
        ("blendfilter", "hotpotqa"): PaperSubset(split="dev (distractor)", size=500, first=True),
        ("blendfilter", "2wiki"): PaperSubset(split="dev", size=500, first=True),
        ("blendfilter", "strategyqa"): PaperSubset(split="train", size=500, first=True),
        ("slimplm", "asqa"): _slimplm("dev", "asqa"),
        ("slimplm", "nq"): _slimplm("dev of KILT", "nq"),
        ("slimplm", "triviaqa"): _slimplm("dev of KILT", "trivia-qa"),
        ("slimplm", "eli5"): _slimplm("dev of KILT", "eli5"),
        ("slimplm", "musique"): _slimplm("dev (answerable)", "musique"),
        ("filco", "nq"): PaperSubset(split="test of NQ-open", size=3610),
        ("filco", "triviaqa"): PaperSubset(split="test of DPR", size=11313),
        ("filco", "hotpotqa"): PaperSubset(split="dev of KILT", size=5600),
        ("filco", "eli5"): PaperSubset(split="dev of KILT", size=1507),
        ("filco", "fever"): PaperSubset(split="dev of KILT", size=10444),
        ("filco", "wow"): PaperSubset(split="dev of KILT", size=3054),
        ("post_fusion", "triviaqa"): PaperSubset(split="dev of DPR", size=6760),
        ("post_fusion", "nq"): PaperSubset(
            split="dev of DPR",
            size=5892,
            unsettled="DPR's file has 6,515 questions, and the paper does not say which 5,892",
        ),
        ("post_fusion", "squad"): PaperSubset(
            split="dev of DPR",
            size=5928,
            unsettled="DPR's file has 7,921 questions, and the paper does not say which 5,928",
        ),
    }
)
"""By paper and data set. Liu et al. then leave out what is answered without context
(`--drop-answered`)."""

_FULL_FILES = {("post_fusion", "nq"): 6515, ("post_fusion", "squad"): 7921}
"""Questions of the file where a paper's own choice of them is not public."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which questions of a file are asked."""

    first: int | None = None
    random: int | None = None
    seed: int = 0
    ids: frozenset[str] | None = None
    size: int | None = None
    """Questions that there must be."""
    where: str = ""
    """What a file that does not hold them is told: whose questions they are."""

    @property
    def ids_hash(self) -> str:
        """The SHA-256 of the ids, in hex, whatever their order in the file; "" where none are named."""
        if self.ids is None:
            return ""
        return hashlib.sha256(json.dumps(sorted(self.ids)).encode()).hexdigest()

    def of(self, questions: Callable[[], Iterable[Question]]) -> Iterator[Question]:
        """Yield the questions selected, in file order.

        Args:
            questions: Reads the file anew.

        Raises:
            UsageError: There are not as many as there must be, or one that is listed is missing.
        """
        chosen = self._indices(questions)
        count, missing = 0, set(self.ids or ())
        for index, one in enumerate(questions()):
            if index == self.first:
                break
            if (chosen is None or index in chosen) and (self.ids is None or one.id in self.ids):
                count += 1
                missing.discard(one.id)
                yield one
        size = count + len(missing) if self.size is None else self.size
        if count != size or missing:
            told = f" (the id {min(missing)!r} is missing)" if missing else ""
            raise UsageError(f"the file holds {count:,} of {size:,} questions: {self.where}{told}")

    def _indices(self, questions: Callable[[], Iterable[Question]]) -> frozenset[int] | None:
        if self.random is None:
            return None
        total = sum(1 for _ in questions())
        drawn = random.Random(self.seed).sample(range(total), min(self.random, total))
        return frozenset(drawn)


def selection(dataset: str, values: Mapping[str, str]) -> Selection | None:
    """Return the selection that a spec names; None where it names none.

    Args:
        dataset: The data set's name.
        values: `subset` (a paper's name), `ids` (a JSON list of ids), `random` (how many), `seed`.

    Raises:
        UsageError: The paper has no such data set, its ids are wanted and not given, a file of ids
            can't be read, or settings contradict each other.
    """
    if not values:
        return None
    if "random" in values:
        return _random(values)
    if "seed" in values:
        raise UsageError("seed=… goes with random=…: how many questions to draw")
    ids = _read_ids(Path(values["ids"])) if "ids" in values else None
    if "subset" in values:
        return _paper(values["subset"], dataset, ids)
    return Selection(ids=ids, where=f"{values['ids']} lists them")


def note_of(dataset: str, spec: str) -> str:
    """Return which questions a spec selects, in words for reports; "" for all. No file is read."""
    values = dict(parse_qsl(spec.partition("?")[2]))
    if "random" in values:
        return f"{values['random']} random questions, seed {values.get('seed', '0')}"
    found = SUBSETS.get((values.get("subset", ""), dataset))
    if found is not None:
        return f"{values['subset']} asks {_described(found)}"
    return f"the questions listed in {Path(values['ids']).name}" if "ids" in values else ""


def _paper(paper: str, dataset: str, ids: frozenset[str] | None) -> Selection:
    found = SUBSETS.get((paper, dataset))
    if found is None:
        having = [f"{name} ({one})" for one, name in SUBSETS if one == paper or name == dataset]
        raise UsageError(
            f"no subset {paper!r} of {dataset}; there are {', '.join(having) or 'none'}"
        )
    where = f"{paper} asks {_described(found)}"
    if found.ids and ids is None:
        raise UsageError(f"{where}: name their list with ids=FILE ({found.ids})")
    if ids is not None and not found.ids:
        raise UsageError(f"{where}: leave ids out")
    return Selection(
        first=found.size if found.first else None,
        ids=ids,
        size=_FULL_FILES.get((paper, dataset), found.size),
        where=where,
    )


def _described(one: PaperSubset) -> str:
    which = "the first" if one.first else "a listed" if one.ids else "all"
    told = f" ({one.unsettled}: all of the file are asked here)" if one.unsettled else ""
    return f"{which} {one.size:,} questions of the split {one.split}{told}"


def _random(values: Mapping[str, str]) -> Selection:
    for name in ("subset", "ids"):
        if name in values:
            raise UsageError(f"give random=… or {name}=…, not both")
    size, seed = _whole("random", values["random"]), _whole("seed", values.get("seed", "0"))
    if size < 1:
        raise UsageError(f"random must be at least 1, not {size}")
    return Selection(random=size, seed=seed)


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise UsageError(f"{name} must be a whole number, not {text!r}") from error


def _read_ids(path: Path) -> frozenset[str]:
    try:
        listed = parse_json(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: no list of ids can be read: {error}") from error
    if not isinstance(listed, list) or not all(isinstance(one, str | int) for one in listed):
        raise UsageError(f"{path}: must be a JSON list of ids")
    return frozenset(map(str, listed))
