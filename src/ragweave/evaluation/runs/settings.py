"""What determines a run's results, and is written down in its directory.

A `System` is what a run compares: a method with its options, under a label. What is taken from
files is named by absolute path (`references`).
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args, get_type_hints

from ragweave.datasets.dataset import source_of
from ragweave.errors import UsageError
from ragweave.evaluation.metrics.metric import MetricInfo
from ragweave.graphs import METHODS
from ragweave.graphs.build import method_named, method_options
from ragweave.graphs.method import Method, parse_options
from ragweave.nodes.context_filter import ContextFilterOptions, Filters, keeps_half, usable
from ragweave.nodes.options import Options
from ragweave.tools.text.secrets import spec_settings

_PART = re.compile(r"[^,\[\]]+(?:\[[^\[\]]*\])?")


@dataclass(frozen=True, kw_only=True)
class System:
    """A method with options, as one column of a report."""

    label: str
    """How reports call it: `concat`, or `concat[k=10]`."""
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def resolved(self) -> Options:
        """Return the method's options with these values.

        Raises:
            UsageError: The method or an option is unknown, or a value is out of range.
        """
        return method_options(method_named(self.method), self.options)

    def known_options(self) -> Options | None:
        """Return what `resolved` does; None where a package that brings the method is missing."""
        try:
            return self.resolved()
        except UsageError:
            return None

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self) | {"options": json.loads(json.dumps(dict(self.options)))}


def system(method: str, label: str = "", **options: Any) -> System:
    """Return a checked system, labelled with its options where no label is given.

    Raises:
        UsageError: The method or an option is unknown, or a value is out of range.
    """
    shown = ",".join(f"{name}={_shown(value)}" for name, value in options.items())
    made = System(
        label=label or (f"{method}[{shown}]" if shown else method), method=method, options=options
    )
    made.resolved()
    return made


def parse_systems(text: str, shared: Mapping[str, Any] | None = None) -> list[System]:
    """Read `direct,concat[k=10,order=reversed],blendfilter[queries=question+external]`.

    Args:
        text: Methods, comma-separated; options in brackets; `+` joins the parts of a list; `all`
            stands for every method.
        shared: Options for each method that has them.

    Raises:
        UsageError: The text is not such a list, a method or option is unknown, or two systems
            have the same label.
    """
    if text.strip() == "all":
        text = ",".join(METHODS)
    parts = [part.strip() for part in _PART.findall(text) if part.strip()]
    if not parts or ",".join(parts).replace(" ", "") != text.replace(" ", "").strip(","):
        raise UsageError(f"methods {text!r}: give names separated by commas, such as direct,concat")
    found = [_parsed(part, shared or {}) for part in parts]
    check_labels(found)
    for name in shared or {}:
        if not any(name in one.options for one in found):
            raise UsageError(f"none of these methods has an option {name!r}")
    return found


def check_labels(systems: Sequence[System]) -> None:
    """Check that a run can tell its systems apart.

    Raises:
        UsageError: Two have the same label.
    """
    labels = [one.label for one in systems]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"methods: {label!r} is listed twice")


def _parsed(part: str, shared: Mapping[str, Any]) -> System:
    name, _, inside = part.partition("[")
    method = method_named(name.strip())
    own = _options(inside.rstrip("]"), method)
    known = get_type_hints(method.options)
    options = {**{key: value for key, value in shared.items() if key in known}, **own}
    return system(method.name, part if own else method.name, **options)


def _options(text: str, method: Method) -> Mapping[str, Any]:
    parts = [one.strip() for one in text.split(",")]
    return parse_options([one.replace("+", ",") for one in parts if one], method)


def _shown(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


FORMAT = 3
"""Version of the run directory's format, and of what settings mean: those of an earlier one that mean
the same today are read as this one's (`_upgraded`)."""

Corpus = Literal["file", "kb", "given", "none"]
"""Where passages come from.

* `file`: all passages of the data set's file, searched with BM25 in memory.
* `kb`: a knowledge base.
* `given`: for each question its own passages alone, searched with BM25 in memory.
* `none`: nowhere.
"""

Passages = Literal["searched", "given"]
"""How methods get passages.

* `searched`: a method that retrieves searches the corpus, as often as it likes.
* `given`: every method is given each question's own passages, in file order, instead of
  retrieving; so are methods that would not retrieve, such as `direct`. Labels say so.
"""

Gold = Literal["as_found", "marked", "with", "without"]
"""What becomes of gold passages (Liu et al. 2024, section 4).

* `as_found`: what a search finds is left as it is.
* `marked`: gold passages are marked in what each search finds, which the orders `gold_first` and
  `gold_last` need.
* `with`: the same, and where a search found none, one is put at a random place.
* `without`: the same, and gold passages are replaced by the next ones found.
"""

OPENAI = "https://api.openai.com/v1"
"""The address of OpenAI's own server."""

_PACKAGES = ("ragweave", "langgraph", "langchain-core", "bm25s", "langchain-openai")


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What two results must share to belong to one run."""

    dataset: str
    """The data set's spec, its path absolute."""
    dataset_name: str
    dataset_hash: str
    questions: int
    """Questions in the file."""
    ids_hash: str = ""
    """`Selection.ids_hash` of the questions asked; "": all are, or a run of an earlier version."""
    systems: tuple[System, ...]
    models: Mapping[str, str]
    """Model specs by role (`answer`, `proxy`, `judge`, `rewriter`, `filter_model`)."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Hash of the card of each trained part, by spec, SHA-256 of each file that models and options
    name (recordings, training questions), and the digest of local weights (`weights_digest`)."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Address of the server behind each spec of an OpenAI-compatible model that names none itself,
    without user, password and settings."""
    moved: Mapping[str, str] = field(default_factory=dict)
    """Address that a server has moved to since, by spec (`record_moved_servers`)."""
    corpus: Corpus = "none"
    passages: Passages = "searched"
    kb: str = ""
    kb_state: str = ""
    """Name of its state, which each write changes."""
    retriever: str = "auto"
    rerank: str = ""
    second_retriever: str = ""
    """Where methods look again (`RetrieverSpec`), a folder in it absolute; "": where they looked
    first."""
    second_state: str = ""
    """Name of the state of its knowledge base."""
    gold: Gold = "as_found"
    gold_questions: int | None = None
    """Questions in the file that have a gold passage; None: not counted (gold as found)."""
    scorer: str = ""
    """Spec of what scores outputs for CXMI; "": the answering model where it can."""
    metrics: tuple[MetricInfo, ...] = ()
    """What is computed; empty: all of ours, of which each applies where it can."""
    judge_model: str = ""
    """Spec of the model that judges answers for the judged metrics; "": none."""
    oracle: bool = False
    """Whether methods are given the gold answers: FILCO's filters then are oracles (SILVER)."""
    seed: int = 0
    limit: int | None = None
    """Only the first so many questions."""
    sample: int | None = None
    """Only a random sample of so many questions, drawn with `seed`."""
    only: tuple[int, ...] | None = None
    """Indices of the questions that are asked; None: all. `limit` and `sample` apply to these."""
    shard: tuple[int, int] = (1, 1)
    """Which part of how many: every n-th question, from the i-th."""
    prices: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Dollars a million input and output tokens, by role."""
    versions: Mapping[str, str] = field(default_factory=lambda: versions())
    format: int = FORMAT

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is out of its range.
        """
        for name in ("limit", "sample"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name} must be at least 1, not {value}")
        if self.limit is not None and self.sample is not None:
            raise UsageError(
                "give --limit (the first questions) or --sample (random ones), not both"
            )
        for name, kinds in (
            ("corpus", Corpus),
            ("passages", Passages),
            ("gold", Gold),
        ):
            if getattr(self, name) not in get_args(kinds):
                listed = ", ".join(get_args(kinds))
                raise UsageError(f"--{name} must be one of {listed}, not {getattr(self, name)!r}")
        part, parts = self.shard
        if not 1 <= part <= parts:
            raise UsageError(f"--shard takes i/n with 1 <= i <= n, not {part}/{parts}")

    def plain(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        systems = [one.plain() for one in self.systems]
        prices = {role: list(pair) for role, pair in self.prices.items()}
        metrics = [one.plain() for one in self.metrics]
        return asdict(self) | {
            "systems": systems,
            "shard": list(self.shard),
            "prices": prices,
            "metrics": metrics,
        }

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> RunSettings:
        """Read what `plain` made."""
        systems = tuple(
            System(label=one["label"], method=one["method"], options=_tuples(one["options"]))
            for one in values["systems"]
        )
        prices = {role: (pair[0], pair[1]) for role, pair in values["prices"].items()}
        part, parts = values["shard"]
        metrics = tuple(MetricInfo.from_plain(one) for one in values.get("metrics", ()))
        rest = dict(values) | {
            "systems": systems,
            "shard": (part, parts),
            "prices": prices,
            "metrics": metrics,
        }
        only = values.get("only")
        rest["only"] = None if only is None else tuple(only)
        return cls(**rest | _upgraded(rest))

    def check_current(self) -> None:
        """Check that a run can be resumed under the settings it began with.

        Raises:
            UsageError: It began in an earlier version, in which its settings had another meaning.
        """
        if self.format == FORMAT:
            return
        began, closed = "the run began in an earlier version", "it can be reported, but not resumed"
        for one in self.systems:
            if was := _was(one, self.models, oracle=self.oracle):
                raise UsageError(f"{one.label}: {began}, {was}: {closed}; start a new run")
        raise UsageError(
            f"{began}, in which --gold {self.gold} gave passages to every method: {closed}; start a "
            "new run"
        )

    @property
    def source(self) -> str:
        """What runs share whose questions with one id are one question."""
        return source_of(self.dataset, self.dataset_hash)

    @property
    def planned(self) -> int:
        """The number of questions of this run and shard."""
        asked = self.questions if self.only is None else len(self.only)
        part, parts = self.shard
        return len(range(part - 1, min(self.limit or self.sample or asked, asked), parts))


def _upgraded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what settings of an earlier format are in today's.

    Those that have another meaning today keep their format, and their runs can't be resumed.
    """
    if values["format"] == FORMAT:
        return {}
    found: dict[str, Any] = {}
    if values["format"] == 1:
        if values["gold"] != "as_found":
            return {"passages": "given"}
        found["passages"] = "given" if values["corpus"] == "given" else "searched"
    oracle = values.get("oracle", False)
    changed = any(_was(one, values["models"], oracle=oracle) for one in values["systems"])
    return found if changed else {**found, "format": FORMAT}


def _was(one: System, models: Mapping[str, str], *, oracle: bool) -> str:
    """Return what a system did in format 2 and does no longer; "" where it does the same."""
    chosen = one.known_options()
    if isinstance(chosen, ContextFilterOptions) and _kept_one(chosen, oracle=oracle):
        return "in which an untrained filter kept one sentence (top=1), not half of the text (top=auto)"
    if chosen is not None and _draws_warmer(chosen, models["answer"]):
        return "in which top_p alone left the model's temperature at 0 (sample_temperature=0), not at 1"
    return ""


def _kept_one(options: ContextFilterOptions, *, oracle: bool) -> bool:
    """Say whether a filter that sees no gold answer kept one sentence, where it keeps half today."""
    answers = ("gold",) if oracle else ()
    name, _ = usable(options.filter, Filters(), answers)
    return keeps_half(name, options, answers)


def _draws_warmer(options: Options, model: str) -> bool:
    """Say whether `top_p` alone sets a temperature: where the model has none of its own."""
    own = dict(spec_settings(model.partition("?")[2])).get("temperature", "0")
    alone = options.sample_temperature is None and options.samples == 1
    return bool(options.top_p) and alone and not own.strip("0.")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect results."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _tuples(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in options.items()
    }


def cache_name(spec: str, settings: RunSettings) -> str:
    """Return a model's name in the keys of replies, with what its spec leaves open.

    That is the digest of what it was made from, or the address of its server; OpenAI's own is left
    out, as earlier versions did.
    """
    digest = settings.parts.get(spec)
    address = settings.addresses.get(spec, OPENAI)
    behind = digest or ("" if address == OPENAI else address)
    return f"{spec}#{behind}" if behind else spec
