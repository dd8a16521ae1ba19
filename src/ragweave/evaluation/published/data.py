"""The questions that each paper asked: which data set and split, how many, where to get the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ragweave.datasets import open_dataset
from ragweave.datasets.subsets import SUBSETS, PaperSubset
from ragweave.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A data set's file, as its authors publish it."""

    words: tuple[str, ...]
    """What a path to it says: a folder, or the beginning of a file's name."""
    files: tuple[str, ...]
    """The published names of the file, the split in the place of `{}`."""
    where: str
    """Where to get it."""


def _kilt(word: str, *files: str) -> DataFile:
    where = f"github.com/facebookresearch/KILT: {files[0]}"
    return DataFile(words=(word,), files=files, where=where)


FILES = {
    "hotpotqa": DataFile(
        words=("hotpot",),
        files=("hotpot_{}_distractor_v1.json", "hotpot_{}_fullwiki_v1.json"),
        where="hotpotqa.github.io (KILT's form: hotpotqa-{}-kilt.jsonl, github.com/facebookresearch/KILT)",
    ),
    "2wiki": DataFile(
        words=("2wiki",),
        files=("2wiki/{}.json", "2wikimultihopqa/{}.json"),
        where="github.com/Alab-NII/2wikimultihop, data_ids_april7.zip: {}.json into a folder 2wiki",
    ),
    "strategyqa": DataFile(
        words=("strategyqa",),
        files=("strategyqa_{}.json",),
        where="allenai.org/data/strategyqa: strategyqa_{}.json",
    ),
    "nq": DataFile(
        words=("nq",),
        files=("biencoder-nq-{}.json.gz", "biencoder-nq-{}.json"),
        where="github.com/facebookresearch/DPR: data.retriever.nq-{} (with gold passages)",
    ),
    "triviaqa": DataFile(
        words=("trivia",),
        files=("biencoder-trivia-{}.json.gz", "biencoder-trivia-{}.json"),
        where="github.com/facebookresearch/DPR: data.retriever.trivia-{} (with gold passages)",
    ),
    "squad": DataFile(
        words=("squad",),
        files=("biencoder-squad1-{}.json.gz", "biencoder-squad1-{}.json", "{}-v1.1.json"),
        where="github.com/facebookresearch/DPR: data.retriever.squad1-{} (with gold passages), or "
        "rajpurkar.github.io/SQuAD-explorer: {}-v1.1.json",
    ),
    "asqa": DataFile(
        words=("asqa",),
        files=("ASQA.json", "asqa.json"),
        where="github.com/google-research/language, language/asqa: ASQA.json",
    ),
    "musique": DataFile(
        words=("musique",),
        files=("musique_ans_v1.0_{}.jsonl",),
        where="github.com/StonyBrookNLP/musique: musique_ans_v1.0_{}.jsonl",
    ),
    "eli5": DataFile(
        words=("eli5",),
        files=("eli5-{}-kilt.jsonl", "ELI5_{}.jsonl"),
        where="github.com/facebookresearch/KILT: eli5-{}-kilt.jsonl",
    ),
    "fever": DataFile(
        words=("fever",),
        files=("fever-{}-kilt.jsonl",),
        where="github.com/facebookresearch/KILT: fever-{}-kilt.jsonl",
    ),
    "wow": DataFile(
        words=("wow", "wizard"),
        files=("wow-{}-kilt.jsonl",),
        where="github.com/facebookresearch/KILT: wow-{}-kilt.jsonl",
    ),
}
"""The data sets of the papers, by our name."""

TESTS = {
    "nq": DataFile(
        words=("nq",),
        files=("NQ-open.dev.jsonl", "biencoder-nq-test.json.gz", "biencoder-nq-test.json"),
        where="github.com/google-research-datasets/natural-questions, nq_open: its dev file holds "
        "the questions that are the open test set",
    ),
    "triviaqa": DataFile(
        words=("trivia",),
        files=(
            "unfiltered-web-dev.json",
            "biencoder-trivia-test.json.gz",
            "biencoder-trivia-test.json",
        ),
        where="nlp.cs.washington.edu/triviaqa, triviaqa-unfiltered: its dev file holds the "
        "questions that are the open test set",
    ),
}
"""The open-domain test sets, which are the authors' development sets (Lee et al. 2019)."""


KILT_FILES = {
    "nq": _kilt("nq", "nq-{}-kilt.jsonl", "biencoder-nq-{}.json.gz", "biencoder-nq-{}.json"),
    "triviaqa": _kilt(
        "trivia",
        "triviaqa-{}-kilt.jsonl",
        "biencoder-trivia-{}.json.gz",
        "biencoder-trivia-{}.json",
    ),
    "hotpotqa": _kilt("hotpot", "hotpotqa-{}-kilt.jsonl", "hotpot_{}_distractor_v1.json"),
}
"""Where a paper took KILT's form of a data set that has another; a file without passages serves
with `--kb`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperData:
    """The questions of a data set that a paper asked, as `ragweave.datasets.subsets` has them."""

    paper: str
    dataset: str

    @property
    def subset(self) -> PaperSubset:
        """The paper's choice of questions."""
        return SUBSETS[self.paper.replace("-", "_"), self.dataset]

    @property
    def split(self) -> str:
        """`dev`, `train` or `test`, as files are named."""
        return self.subset.split.split()[0]

    @property
    def first(self) -> int | None:
        """How many of the file's first questions were asked; None: not the first ones."""
        return self.subset.size if self.subset.first else None

    @property
    def drawn(self) -> int | None:
        """How many questions the authors drew at random; None: none."""
        return self.subset.size if self.subset.ids else None

    @property
    def filtered(self) -> bool:
        """Whether questions that the model answers without context are left out."""
        return self.paper == "post-fusion"

    @property
    def about(self) -> str:
        """Which questions these are, in words."""
        part = self.subset.split
        if self.first:
            return f"first {self.first} of {part}"
        if self.drawn:
            return f"{self.drawn} drawn from {part}"
        size = f"{self.subset.size:,} of {part}"
        return f"{size}, less what is answered without context" if self.filtered else size

    @property
    def published(self) -> DataFile:
        """The data set's file for this split."""
        if self.subset.split.endswith("of KILT") and self.dataset in KILT_FILES:
            return KILT_FILES[self.dataset]
        return (TESTS if self.split == "test" else FILES)[self.dataset]

    @property
    def file(self) -> str:
        """The name that the file is published under."""
        return self.published.files[0].replace("{}", self.split)

    @property
    def where(self) -> str:
        """Where to get the file, and the list of ids where the authors publish one."""
        ids = f"; ids: {self.subset.ids}" if self.subset.ids else ""
        return self.published.where.replace("{}", self.split) + ids

    def spec(self, path: Path, folder: Path | None) -> str:
        """Return the data set's spec: the authors' own questions where their list of ids is there.

        Args:
            path: The data set's file.
            folder: Where the list of ids is looked for; None: nowhere.
        """
        ids = self.ids_file(folder)
        named = f"?subset={self.paper}&ids={ids}" if ids else ""
        return f"{self.dataset}:{path}{named}"

    def ids_file(self, folder: Path | None) -> Path | None:
        """Return the authors' list of ids in a folder or below it; None where there is none."""
        if folder is None or not self.subset.ids:
            return None
        name = self.subset.ids.partition(" ")[0].rpartition("/")[2]
        return next(iter(sorted(folder.rglob(name))), None)


def data_of(paper: str, dataset: str) -> PaperData:
    """Return which questions of a data set a paper asked."""
    return PaperData(paper=paper, dataset=dataset)


def find_file(wanted: PaperData, folder: Path) -> Path | None:
    """Return the file of a data set in a folder or below it; None where there is none.

    The published name comes first, then a file of the right split, then any that can be read as
    this data set.
    """
    named = [one.replace("{}", wanted.split) for one in wanted.published.files]
    for name in named:
        for pattern in (name, f"{name}.gz"):
            if found := sorted(folder.rglob(pattern)):
                return found[0]
    return next(_readable(wanted, folder), None)


def _readable(wanted: PaperData, folder: Path) -> Iterator[Path]:
    words = wanted.published.words

    def rank(path: Path) -> tuple[bool, bool, str]:
        name = path.name.lower()
        return wanted.split not in name, not name.startswith(words), name

    candidates = [
        path
        for path in folder.rglob("*")
        if path.is_file() and {".json", ".jsonl"} & set(path.suffixes)
        if any(part.lower().startswith(words) for part in path.relative_to(folder).parts)
    ]
    for path in sorted(candidates, key=rank):
        try:
            next(iter(open_dataset(f"{wanted.dataset}:{path}")), None)
        except UsageError:
            continue
        yield path
