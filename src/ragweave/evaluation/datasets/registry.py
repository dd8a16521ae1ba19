"""The formats, and the data sets that come in them, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

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

_OPEN_QA = (DPR, NQ_OPEN, KILT_SHORT)

DATASETS: Mapping[str, tuple[Format, ...]] = MappingProxyType(
    {
        "nq": _OPEN_QA,
        "triviaqa": (TRIVIAQA, *_OPEN_QA),
        "webquestions": (WEBQUESTIONS, *_OPEN_QA),
        "hotpotqa": (HOTPOTQA, KILT_SHORT),
        "2wiki": (HOTPOTQA,),
        "musique": (MUSIQUE,),
        "strategyqa": (STRATEGYQA,),
        "squad": (SQUAD, DPR),
        "asqa": (ASQA,),
        "eli5": (ELI5, KILT_LONG),
        "popqa": (POPQA,),
        "fever": (FEVER, KILT_CLAIMS),
        "fool_me_twice": (FOOL_ME_TWICE,),
        "wow": (KILT_LONG,),
        "qed": (QED,),
        "clapnq": (CLAPNQ,),
        "skr": (SKR,),
        "beir": (BEIR,),
        "kilt": (KILT,),
        "dpr": (DPR,),
    }
)
"""What may stand before the colon of `name:path`, with the formats that it comes in."""

SNIFFED: tuple[Format, ...] = (
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
    KILT,
    ELI5,
    DPR,
    NQ_OPEN,
)
"""The formats in the order in which a file without a name is tried."""
