"""The formats, and the data sets that come in them, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragweave.evaluation.datasets.asqa import ASQA
from ragweave.evaluation.datasets.beir import BEIR
from ragweave.evaluation.datasets.claims import FEVER, FOOL_ME_TWICE
from ragweave.evaluation.datasets.format import Format
from ragweave.evaluation.datasets.kilt import KILT, KILT_CLAIMS, KILT_LONG, KILT_SHORT
from ragweave.evaluation.datasets.long_form import CLAPNQ, ELI5
from ragweave.evaluation.datasets.multihop import HOTPOTQA, MUSIQUE
from ragweave.evaluation.datasets.open_qa import DPR, NQ_OPEN
from ragweave.evaluation.datasets.paragraph_qa import QED, SKR
from ragweave.evaluation.datasets.popqa import POPQA
from ragweave.evaluation.datasets.squad import SQUAD
from ragweave.evaluation.datasets.strategyqa import STRATEGYQA
from ragweave.evaluation.datasets.trivia import TRIVIAQA, WEBQUESTIONS
from ragweave.registry import Registry

_OURS = (
    HOTPOTQA,
    MUSIQUE,
    STRATEGYQA,
    SQUAD,
    ASQA,
    TRIVIAQA,
    WEBQUESTIONS,
    POPQA,
    FOOL_ME_TWICE,
    FEVER,
    QED,
    SKR,
    CLAPNQ,
    ELI5,
    DPR,
    NQ_OPEN,
    KILT,
    KILT_SHORT,
    KILT_LONG,
    KILT_CLAIMS,
    BEIR,
)

FORMATS: Registry[Format] = Registry("ragweave.datasets", Format, "data set format", lambda: _OURS)
"""Every format by name, in the order in which a file without a name is tried: ours, then those of
other packages (entry points `ragweave.datasets`)."""


class DataSets(Mapping[str, tuple[Format, ...]]):
    """The data sets by name, each with the formats that it comes in, in the order of `FORMATS`.

    Other packages' formats are loaded when a name is none of ours, or when all are listed.
    """

    def __getitem__(self, name: str) -> tuple[Format, ...]:
        """Return the formats of a data set.

        Raises:
            KeyError: There is no such data set.
        """
        found = tuple(one for one in FORMATS.ours() if name in one.names)
        found = found or tuple(one for one in FORMATS.values() if name in one.names)
        if not found:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        yield from dict.fromkeys(name for one in FORMATS.values() for name in one.names)

    def __len__(self) -> int:
        """Return how many there are."""
        return sum(1 for _ in self)


DATASETS: Mapping[str, tuple[Format, ...]] = DataSets()
"""What may stand before the colon of `name:path`, with the formats that it comes in."""


def nameless() -> tuple[Format, ...]:
    """Return the formats that rows without a data set's name are tried for, in order."""
    return tuple(one for one in FORMATS.values() if one.sniffed)
