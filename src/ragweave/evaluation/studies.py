"""The papers' studies: what each varies, as runs, and how its plot is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ragweave.errors import UsageError
from ragweave.evaluation.metrics import Interval
from ragweave.evaluation.report import Experiment, Line, plot_bars, plot_lines
from ragweave.evaluation.runs import System, system
from ragweave.evaluation.runs.plan import scores_itself
from ragweave.tools.scorers.specs import KINDS

Make = Callable[[Sequence[str], Sequence[str]], list[System]]
"""From the methods and the values to the systems of a run."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study: one thing varied, all else held."""

    name: str
    summary: str
    source: str
    methods: tuple[str, ...]
    """The methods that the paper varies it for; a caller may name others."""
    values: tuple[str, ...]
    """The values that the paper tries; a caller may name others."""
    make: Make
    axis: str = ""
    """What the values are, where they are numbers: the plot's x axis."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the run that the study needs."""
    scored: frozenset[str] = frozenset()
    """The values that need a scorer: log-probabilities of the answer."""
    runs: bool = False
    """Whether each value is a run of its own (its setting is the run's, not a method's)."""


def option_study(option: str, **held: Any) -> Make:
    """Return what makes a system for each method and value of an option, with options that hold."""

    def make(methods: Sequence[str], values: Sequence[str]) -> list[System]:
        return [
            system(method, f"{method}[{option}={value}]", **{option: _number(value)}, **held)
            for method in methods
            for value in values
        ]

    return make


def ablation(variants: Mapping[str, Mapping[str, Any]]) -> Make:
    """Return what makes a system for each named variant of a method."""

    def make(methods: Sequence[str], values: Sequence[str]) -> list[System]:
        for value in values:
            if value not in variants:
                raise UsageError(f"no variant {value!r}; choose one of: {', '.join(variants)}")
        return [
            system(
                method, method if not variants[value] else f"{method} {value}", **variants[value]
            )
            for method in methods
            for value in values
        ]

    return make


def _plain(methods: Sequence[str], _values: Sequence[str]) -> list[System]:
    return [system(method) for method in methods]


def _sampling(methods: Sequence[str], values: Sequence[str]) -> list[System]:
    """Return a system for each method and top_p; direct prompting and CoT retrieve, as there."""
    retrieving = {"direct", "cot"}
    return [
        system(
            method,
            f"{method}[top_p={value}]",
            **({"retrieve": True} if method in retrieving else {}),
            top_p=_fraction(value),
        )
        for method in methods
        for value in values
    ]


GATED = {"never": 1e9, "always": -1.0}
"""The two ends of an uncertainty gate: what its threshold is then."""


def gated_label(method: str, gate: str, end: str) -> str:
    """Return what a system of the study `gate` is called."""
    return f"{method} {gate}: {end}"


def _gates(methods: Sequence[str], values: Sequence[str]) -> list[System]:
    """Return a system for each gate that never retrieves, and one that always does.

    Neither looks again where the direct answer is Unknown: "never" would retrieve there.
    """
    made = []
    for method in methods:
        own = method == "uncertainty_gate"
        held: dict[str, Any] = {"second_look": False}
        if not own:
            held["route"] = "uncertainty"
        name = "threshold" if own else "route_threshold"
        made += [
            system(method, gated_label(method, gate, end), gate=gate, **{name: cut}, **held)
            for gate in values
            for end, cut in GATED.items()
        ]
    return made


_BLENDFILTER: Mapping[str, Mapping[str, Any]] = {
    "full": {},
    "w/o q": {"queries": ("external", "internal")},
    "w/o q_ex": {"queries": ("question", "internal")},
    "w/o q_in": {"queries": ("question", "external")},
    "w/o filter": {"knowledge_filter": False},
}
_SLIMPLM: Mapping[str, Mapping[str, Any]] = {
    "full": {},
    "w/o QR": {"rewrite": False},
    "w/o QJ": {"question_judge": False},
    "w/o QF": {"claim_filter": False},
}
_FILCO: Mapping[str, Mapping[str, Any]] = {
    "full passages": {"filter": "full"},
    "strinc": {"filter": "strinc"},
    "lexical": {"filter": "lexical"},
    "cxmi": {"filter": "cxmi"},
}

_ALL = (
    Study(
        name="k",
        summary="passages a query",
        source="Liu et al. 2024, figure 4; BlendFilter, figure 3",
        methods=("concat", "concat_pf", "pf_concat"),
        values=("5", "10", "20"),
        make=option_study("k"),
        axis="passages a query, k",
    ),
    Study(
        name="order",
        summary="where the gold passage stands in the prompt",
        source="Liu et al. 2024, section 4.5",
        methods=("concat",),
        values=("gold_first", "gold_last", "retrieved"),
        make=option_study("order"),
        settings={"gold": "with"},
    ),
    Study(
        name="samples",
        summary="self-consistency samples p",
        source="Liu et al. 2024, figure 5",
        methods=("concat", "post_fusion", "concat_pf"),
        values=("1", "5", "10", "20", "50"),
        make=option_study("samples", sample_temperature=0.7),  # one sample too (section 4.4)
        axis="samples of each answer, p",
    ),
    Study(
        name="sampling",
        summary="one answer under each top_p, and any of them: best EM, best F1",
        source="BlendFilter, section 4.7 and figure 4",
        methods=("cot", "iter_retgen", "blendfilter"),
        values=("0", "0.5", "1"),
        make=_sampling,
        axis="nucleus of the answer calls, top_p",
    ),
    Study(
        name="blendfilter",
        summary="BlendFilter without each of its queries, and without its filter",
        source="BlendFilter, table 5",
        methods=("blendfilter",),
        values=tuple(_BLENDFILTER),
        make=ablation(_BLENDFILTER),
    ),
    Study(
        name="slimplm",
        summary="SlimPLM without rewriting, question judge, claim filter",
        source="SlimPLM, table 2",
        methods=("slimplm",),
        values=tuple(_SLIMPLM),
        make=ablation(_SLIMPLM),
    ),
    Study(
        name="filco",
        summary="FILCO's three measures as oracles (SILVER), and whole passages",
        source="FILCO, table 5",
        methods=("filco",),
        values=tuple(_FILCO),
        scored=frozenset({"cxmi"}),
        make=ablation(_FILCO),
        settings={"oracle": True},
    ),
    Study(
        name="gate",
        summary="an uncertainty gate that never retrieves, and one that always does",
        source="TARG, section 3.3",
        methods=("uncertainty_gate",),
        values=("margin", "entropy", "variance"),
        make=_gates,
    ),
    Study(
        name="retriever",
        summary="BM25, dense and hybrid retrieval",
        source="BlendFilter, tables 1 and 4",
        methods=("concat", "blendfilter"),
        values=("bm25", "dense", "hybrid"),
        make=_plain,
        runs=True,
    ),
)

STUDIES: Mapping[str, Study] = MappingProxyType({study.name: study for study in _ALL})
"""The studies by name."""


def values_of(
    study: Study, values: Sequence[str], model: str, scorer: str
) -> tuple[list[str], str]:
    """Return the values that a study can try, and a line about what was left out ("": nothing).

    Args:
        study: The study.
        values: What the caller named; empty: the study's own.
        model: Spec of the answering model.
        scorer: Spec of a scorer; "": none was named.

    Raises:
        UsageError: The caller named a value that needs a scorer, and there is none.
    """
    wanted = list(dict.fromkeys(values or study.values))
    missing = [one for one in wanted if one in study.scored]
    if not missing or scorer or scores_itself(model):
        return wanted, ""
    why = (
        f"{', '.join(missing)}: needs log-probabilities of the answer, which {model} does not "
        f"give; name a scorer: --scorer {KINDS}"
    )
    if values:
        raise UsageError(why)
    return [one for one in wanted if one not in missing], f"Left out {why}"


@dataclass(frozen=True, kw_only=True)
class StudyRun:
    """One run of a study."""

    folder: str
    systems: list[System]
    settings: Mapping[str, Any]


def runs_of(study: Study, methods: Sequence[str], values: Sequence[str]) -> list[StudyRun]:
    """Return the runs of a study: one, or one a value where the value is the run's own setting.

    Raises:
        UsageError: A method, option or value is unknown.
    """
    systems = study.make(methods or study.methods, values or study.values)
    if not study.runs:
        return [StudyRun(folder="run", systems=systems, settings=study.settings)]
    return [
        StudyRun(folder=value, systems=systems, settings={**study.settings, study.name: value})
        for value in values or study.values
    ]


def plot_study(
    folder: Path, study: Study, experiments: Mapping[str, Experiment], score: str = ""
) -> list[Path]:
    """Draw a study: lines over its numbers, or a bar for each of its values.

    Args:
        folder: Where to.
        study: The study.
        experiments: Its runs by folder, finished.
        score: The score to draw; "": the primary metric.
    """
    first = next(iter(experiments.values()))
    shown = score or first.primary
    label = f"{first.metric(shown).label} (%), 95% interval"
    found = [
        (f"{column.label} {name}" if study.runs else column.label, column.scores[shown].interval())
        for name, experiment in experiments.items()
        for column in experiment.columns.values()
        if shown in column.scores
    ]
    if not found:
        return []
    if study.axis:
        lines = _lines(found)
        return plot_lines(folder, f"study-{study.name}", lines, study.axis, label)
    labels, values = [one for one, _ in found], [one for _, one in found]
    return plot_bars(folder, f"study-{study.name}", labels, values, label)


def _lines(found: Sequence[tuple[str, Interval]]) -> list[Line]:
    """Gather `method[option=number]` labels into a line for each method."""
    points: dict[str, list[tuple[float, Interval]]] = {}
    for label, interval in found:
        method, _, rest = label.partition("[")
        points.setdefault(method, []).append((float(rest.rstrip("]").partition("=")[2]), interval))
    return [
        Line(method, [x for x, _ in listed], [y for _, y in listed])
        for method, listed in points.items()
    ]


def _fraction(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{text!r} is no number; name values such as 0.5,0.9") from None


def _number(text: str) -> Any:
    return int(text) if text.lstrip("-").isdigit() else text
