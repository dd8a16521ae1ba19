"""An evaluation: opens data set, models, passages, systems and metrics from its settings, then runs the loop.

    evaluate(EvalSettings(data="hotpotqa:dev.json", systems=("concat", "concat_pf"),
                      models={"generator": "openai:gpt-4o-mini"}), Path("run"))

A run whose folder exists is resumed.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from langchain_core.prompts import ChatPromptTemplate

from ragweave import __version__
from ragweave.datasets import Dataset, Question, open_dataset, select
from ragweave.errors import UsageError
from ragweave.evaluation.folder import read_results, read_settings, shard_folder, shards
from ragweave.evaluation.metrics import METRICS, Metric, chosen_metrics
from ragweave.evaluation.run import Run, Summary, System
from ragweave.evaluation.systems import Gold, GraphSystem, graph_system, open_model, own_passages, own_prompts
from ragweave.evaluation.why import Library, stage_metrics
from ragweave.graphs.specs import read_system
from ragweave.roles import ROLES
from ragweave.tools.knowledge import KnowledgeBase, open_knowledge_base
from ragweave.tools.knowledge.base import AbstractKnowledgeBase
from ragweave.tools.knowledge.servers import MODES, needs_kb, retriever_of, searched
from ragweave.tools.models.budget import Limits
from ragweave.tools.prices import Price, price_of
from ragweave.tools.providers import scorer_of
from ragweave.tools.retrieval import Bm25Retriever
from ragweave.tools.retrieval.newest import arranged
from ragweave.tools.retrieval.reranking import LISTWISE, ListwiseReranker
from ragweave.tools.text.untrusted import redacted

EVALUATOR, SCORER = "evaluator", "scorer"
EVAL_ROLES = (*(name for name, role in ROLES.items() if not role.in_chat), EVALUATOR, SCORER)
"""The roles of models: those of methods, the judge of judged metrics, and the scorer of CXMI."""


@dataclass(frozen=True, kw_only=True)
class EvalSettings:
    """All settings that scores depend on; `run.json` holds them."""

    data: str
    """A data set's spec."""
    systems: Sequence[str] = ("concat",)
    """Specs of systems."""
    names: Sequence[str] = ()
    """Names of the systems in reports; none: their specs."""
    models: Mapping[str, str] = field(default_factory=lambda: {"generator": "extractive"})
    """Model specs by role."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of every method that has them."""
    prompts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Texts that replace a method's prompts: by the system's name, then by the prompt's (`systems.own_prompts`)."""
    passages: str = "searched"
    """`searched`, or `given`: each question's own passages instead of a search."""
    corpus: str = ""
    """What is searched: a question's `own` passages, all passages of the `file`, or the `kb`; "": the `kb` or retriever if
    one is set, else `own` if there are passages, else the `file` of BEIR."""
    kb: str = ""
    retriever: str = "auto"
    rerank: str = ""
    prefer: str = ""
    """`newest`: of several versions of a passage, the newest comes first."""
    second_retriever: str = ""
    """Where `crag` searches again."""
    gold: str = "as_found"
    """The treatment of gold passages (`systems.Gold`)."""
    oracle: Sequence[str] = ()
    """Names of the systems whose filter sees the right answers; `*`: all."""
    metrics: Sequence[str] = ()
    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    drop_answered: str = ""
    """An earlier run; the questions that its first system answered right are left out (Liu et al. 2024, section 4)."""
    prices: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """US dollars per million tokens read and written, by role; `*`: all others."""

    def plain(self) -> dict[str, Any]:
        """Return the settings that are set; `run.json` has them without keys and passwords."""
        values = {name: value for name, value in asdict(self).items() if value or value == 0}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return {**plain, "version": __version__}


def evaluate(
    settings: EvalSettings,
    folder: Path,
    *,
    shard: str = "",
    cache: Path | None = None,
    concurrency: int = 16,
    limits: Limits | None = None,
    own: Sequence[Metric | System] = (),
    given: Mapping[str, Any] | None = None,
    quiet: bool = False,
) -> Summary:
    """Run an evaluation, or resume it, and return how it ended.

    Args:
        settings: What is evaluated.
        folder: The run's folder.
        shard: `2/8`: only every eighth question, starting with the second, in a subfolder.
        cache: A file of replies that several runs share; None: this run's own.
        concurrency: Questions in flight at once.
        limits: The budget of the whole run; None: no limits.
        own: The caller's own metrics and systems.
        given: Models by role, and a `retriever`, as objects instead of those that the settings name.
        quiet: Whether to show no progress bar.

    Raises:
        UsageError: A setting is wrong, or the folder holds another run.
        MissingExtraError: A package is not installed.
    """
    settings = with_names(settings, given or {})
    prompts = checked_prompts(settings)
    metrics = chosen_metrics(settings.metrics, [item for item in own if isinstance(item, Metric)])
    if EVALUATOR not in settings.models and any(metric.judge for metric in metrics):
        raise UsageError("judged metrics need a judge: --model evaluator=SPEC")
    data = open_dataset(settings.data)
    questions = _questions(settings, data, shard)
    own_systems = [item for item in own if not isinstance(item, Metric)]
    if not (settings.systems or own_systems):
        raise UsageError("nothing answers the questions: name a method, or give a system of your own")
    plain = settings.plain()
    if others := [metric for metric in metrics if metric not in METRICS.ours()]:
        plain["own_metrics"] = {metric.name: metric.described() for metric in others}
    with Run(shard_folder(folder, shard), plain, cache, limits) as run:
        systems: list[System] = []
        if settings.systems:
            open_system = opener(settings, data, metrics, given or {}, run)
            systems += map(open_system, settings.names or settings.systems, settings.systems, prompts)
        return run.conduct(run.ask(questions, [*systems, *own_systems], concurrency=concurrency, quiet=quiet))


def with_names(settings: EvalSettings, given: Mapping[str, Any]) -> EvalSettings:
    """Return the settings with the class names of models that are given as objects."""
    names = {
        role: model if isinstance(model, str) else type(model).__name__
        for role, model in given.items()
        if role in EVAL_ROLES
    }
    return replace(settings, models={**settings.models, **names})


def checked_prompts(settings: EvalSettings) -> list[dict[str, ChatPromptTemplate]]:
    """Check the settings before anything is read or created, and return the prompts of each system."""
    if settings.gold not in get_args(Gold):
        raise UsageError(f"gold must be one of {', '.join(get_args(Gold))}, not {settings.gold!r}")
    names = settings.names or settings.systems
    if len(set(names)) < len(names):
        raise UsageError("two systems have the same name")
    methods = [read_system(spec, settings.options).method for spec in settings.systems]
    for name in settings.options:
        if methods and not any(name in method.options.model_fields for method in methods):
            raise UsageError(f"none of the methods has an option {name!r}")
    if settings.passages not in ("searched", "given") or settings.corpus not in ("", "own", "file", "kb"):
        raise UsageError("passages must be searched or given, and corpus own, file or kb")
    return [
        own_prompts(name, method, settings.prompts.get(name, {})) for name, method in zip(names, methods, strict=True)
    ]


def _questions(settings: EvalSettings, data: Dataset, shard: str) -> list[Question]:
    chosen = select(data, limit=settings.limit, sample=settings.sample, seed=settings.seed, shard=shard)
    if not settings.drop_answered:
        return chosen
    folder = Path(settings.drop_answered)
    began, earlier = read_settings(shards(folder)[0]), list(read_results(folder))
    names = [*(began.get("names") or began.get("systems", ())), *(record["system"] for record in earlier)]
    first = [record for record in earlier if record["system"] == names[0]]
    scores = {record["id"]: record["scores"].get("em", record["scores"].get("accuracy")) for record in first}
    if {*scores.values()} <= {None}:
        raise UsageError(f"{folder}: its first system has no em or accuracy scores, which say what it answered right")
    return [question for question in chosen if scores.get(question.id) != 1.0]


def opener(
    settings: EvalSettings, data: Dataset, metrics: Sequence[Metric], given: Mapping[str, Any], run: Run
) -> Callable[[str, str, Mapping[str, ChatPromptTemplate]], GraphSystem]:
    """Open the models, and return what builds a system from its name, its spec and its prompts.

    The metrics of the stages that lose answers are added, by the knowledge base that the system searches. What several
    systems search is opened once.
    """
    specs = {"generator": "extractive", **settings.models, **given}
    models = {
        role: open_priced(settings, role, specs[role], run) for role in EVAL_ROLES if role in specs and role != SCORER
    }
    judge = models.pop(EVALUATOR, None)
    more: dict[str, Any] = {"scorer": scorer_of(specs[SCORER])} if SCORER in specs else {}
    if settings.second_retriever:
        more["second_retriever"] = retriever_of(settings.second_retriever, settings.kb)

    @cache
    def search(how: str, rerank: str, prefer: str) -> Any:
        return _retriever(replace(settings, retriever=how, rerank=rerank, prefer=prefer), data, run)

    @cache
    def state(how: str) -> str:
        if given.get("retriever"):
            return ""
        if _place(replace(settings, retriever=how), data) == "file":
            return _corpus_hash(data)
        with base_of(settings, how) or nullcontext() as base:
            return base.state if base else ""

    @cache
    def stages(how: str) -> list[Metric]:
        library = library_of(settings, how)
        return stage_metrics(library) if library else []

    def open_system(name: str, spec: str, prompts: Mapping[str, ChatPromptTemplate]) -> GraphSystem:
        system = read_system(spec, settings.options)
        how = system.retriever or settings.retriever
        return graph_system(
            system,
            models,
            given.get("retriever") or search(how, system.rerank or settings.rerank, system.prefer or settings.prefer),
            metrics=[*metrics, *stages(how)],
            more={**more, "prompts": prompts},
            judge=judge,
            given=settings.passages == "given",
            gold=settings.gold,
            oracle=name in settings.oracle or "*" in settings.oracle,
            seed=settings.seed,
            traces=run.folder / "traces",
            name=name,
            state=state(how),
        )

    return open_system


def base_of(settings: EvalSettings, retriever: str) -> AbstractKnowledgeBase | None:
    """Return the knowledge base that a retriever searches; None if it searches something else."""
    mode, kb = searched(retriever, settings.kb)
    is_searched = settings.passages != "given" and settings.corpus in ("", "kb")
    return open_knowledge_base(kb) if is_searched and kb and needs_kb(mode) else None


def library_of(settings: EvalSettings, retriever: str) -> Library | None:
    """Return the passages that a retriever searches; None unless they are a knowledge base at hand, not too large."""
    base, mode = base_of(settings, retriever), searched(retriever, settings.kb)[0]
    if not isinstance(base, KnowledgeBase) or len(base) > _MAX_PASSAGES:
        return None
    return Library(base, mode if mode in MODES else "auto")  # type: ignore[arg-type]


_MAX_PASSAGES = 20_000
"""Passages of a knowledge base that are read into memory to say where answers were lost."""


def _place(settings: EvalSettings, data: Dataset) -> str:
    """Return what is searched: `own`, `file` or `kb` (`EvalSettings.corpus`); "" if nothing is."""
    if settings.passages == "given":
        return ""
    if settings.corpus:
        return settings.corpus
    if settings.kb or settings.retriever != "auto":
        return "kb"
    own = any(question.passages for question in islice(data, settings.limit))
    return "own" if own else "file" if data.name == "beir" else ""


def _corpus_hash(data: Dataset) -> str:
    digest = sha256()
    for doc in data.corpus():
        digest.update(repr(doc).encode(errors="replace"))
    return digest.hexdigest()[:16]


def _retriever(settings: EvalSettings, data: Dataset, run: Run) -> Any:
    """Return the retriever, or `own_passages`; None if nothing is searched."""
    where = _place(settings, data)
    if not where:
        return None
    if where == "own":
        if settings.retriever != "auto" or settings.rerank or settings.prefer:
            raise UsageError(
                "each question's own passages are searched by BM25 alone: omit retriever, reranker, prefer"
            )
        return own_passages
    if where == "file" and settings.retriever in ("auto", "bm25"):
        retriever: Any = Bm25Retriever.from_documents(list(data.corpus()))
    elif where == "file":
        KnowledgeBase.open_or_create(run.folder / "kb").add(data.corpus(), source=settings.data, split=False)
        retriever = retriever_of(settings.retriever, run.folder / "kb")
    else:
        retriever = retriever_of(settings.retriever, settings.kb)
    reranker: Any = settings.rerank or None
    if settings.rerank.startswith(LISTWISE):
        reranker = ListwiseReranker(model=open_priced(settings, "reranker", reranker.removeprefix(LISTWISE), run))
    return arranged(retriever, retriever.k, reranker, settings.prefer)


def open_priced(settings: EvalSettings, role: str, spec: Any, run: Run) -> Any:
    """Open a role's model, and note its price.

    Raises:
        UsageError: `max_cost_usd` is set, and the model has no price.
    """
    name = redacted(settings.models.get(role, spec))
    model = open_model(spec, run.cache, run.closing, name)
    prices = settings.prices.get(role, settings.prices.get("*"))
    price = Price(*prices) if prices else price_of(model) or (Price(0, 0) if name == "extractive" else None)
    if price:
        run.prices[name] = price
    elif run.limits.max_cost_usd is not None:
        raise UsageError(f"max_cost_usd needs the price of {name}: --price INPUT,OUTPUT")
    return model
