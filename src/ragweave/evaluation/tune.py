"""Choosing method, search and prompts for a user's questions and model, and confirming the choice on other questions.

1. A third of the questions serve to choose; the others are kept back for one test. The folder remembers which were
   tested: of questions that are added later, only new ones are kept back.
2. Search is chosen without a model, by the share of gold passages, or of right answers, among the first passages.
3. Methods and prompts race over shared blocks of questions (`race.py`).
4. The finalist meets the incumbent once on what was kept back, and `choice.yaml` says what came of it.

The folder is that of a `Run`: what was answered is not asked again, so the same call goes on where it was interrupted.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from importlib.metadata import version
from itertools import product
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from ragweave import __version__
from ragweave.datasets import Question, open_dataset, select
from ragweave.errors import UsageError
from ragweave.evaluation.evaluate import EVALUATOR, SCORER, EvalSettings, checked_prompts, opener, with_names
from ragweave.evaluation.folder import Record, read_results
from ragweave.evaluation.metrics import MAIN, METRICS, Metric
from ragweave.evaluation.metrics.metric import Score, State
from ragweave.evaluation.metrics.passages import answer_recall, gold_names, recall_at
from ragweave.evaluation.race import RESERVED, Answer, Answers, Goal, Verdict, block_sizes, confirm, detectable, race
from ragweave.evaluation.report import Lost, dollars_of, lost_of, prices_of, trace_of
from ragweave.evaluation.run import Run, Summary
from ragweave.evaluation.systems import GraphSystem, own_prompts
from ragweave.graphs.specs import SystemSpec, is_choice, read_system, write_choice
from ragweave.nodes.options import make_options
from ragweave.roles import ROLES
from ragweave.tools.knowledge import KnowledgeBase, open_knowledge_base
from ragweave.tools.knowledge.servers import MODES, retriever_of, searched
from ragweave.tools.models.budget import Limits
from ragweave.tools.providers import chat_model
from ragweave.tools.text.untrusted import redacted

HIGHEST = Goal()
MIN_QUESTIONS = 12
DEPTHS = (3, 5, 10)
"""The numbers of passages that are compared."""
_PILOT = 2
"""Questions that all arms answer before a budget is shared out."""
_ONE_FACT = ("concat_pf", "concat", "pf_concat", "post_fusion")
_SEVERAL_FACTS = ("concat_pf", "cot[retrieve=true]", "blendfilter", "iter_retgen")
_LONG = ("concat_pf", "dos_rag", "flare")
_LINKS = re.compile(r"\b(?:who|whom|whose|which|that|where|when|both|same|between|than|also|and)\b", re.IGNORECASE)


def shortlist(questions: Sequence[Question]) -> tuple[str, ...]:
    """Return the methods that race unless the user names others, the incumbent first, by what the questions look like.

    They are few, because among many arms chance picks the winner. Several facts are needed where the data set marks
    several gold passages, or many questions have several clauses: 38 to 42 % of those of HotpotQA, 2Wiki and MuSiQue have
    them, 9 % of NQ's.
    """
    if all(question.kind in ("long", "parts") for question in questions):
        return _LONG
    marked = [len(question.gold) > 1 for question in questions if question.gold]
    linked = [len(_LINKS.findall(question.question)) > 1 for question in questions]
    return _SEVERAL_FACTS if fmean(marked or linked) > 0.25 else _ONE_FACT


@dataclass(frozen=True)
class Arm:
    """One way to answer."""

    system: str
    """The spec of a system."""
    wording: str = ""
    """The name of its prompts; "": the method's own."""

    @property
    def name(self) -> str:
        """Its name in the records."""
        return f"{self.system} {self.wording}".strip()


def with_options(spec: str, **options: Any) -> str:
    """Return a system's spec with other options; empty values are left out."""
    head, _, rest = spec.partition("[")
    pairs = [pair for pair in rest.removesuffix("]").split(",") if pair and pair.partition("=")[0] not in options]
    pairs += [f"{name}={value}" for name, value in options.items() if value]
    return f"{head}[{','.join(pairs)}]" if pairs else head


# ---- search


@dataclass(frozen=True)
class Search:
    """A way to search, and its recall at each of `DEPTHS`."""

    retriever: str
    rerank: str
    recalls: tuple[float, ...]

    def __str__(self) -> str:
        shares = ", ".join(f"{100 * recall:.1f} at {k}" for k, recall in zip(DEPTHS, self.recalls, strict=True))
        return f"{self.retriever}{f' and {self.rerank}' * bool(self.rerank)}: recall {shares}"

    @property
    def depth(self) -> int:
        """The smallest number of passages that finds almost as much as the largest."""
        return next(k for k, recall in zip(DEPTHS, self.recalls, strict=True) if recall >= max(self.recalls) - 0.02)


def recall(question: Question, docs: Sequence[Any], k: int) -> float:
    """Return the share of gold passages among the first `k`; without gold, the share of short answers that stand there."""
    if question.gold:
        return recall_at(gold_names(question, docs), question.gold, k)
    texts = [doc.page_content for doc in docs[:k]]
    return fmean(answer_recall(texts, names) for names in question.names)


def searches(
    kb: str, questions: Sequence[Question], rerankers: Sequence[str], others: Sequence[Path], store: Path
) -> list[Search]:
    """Return the ways to search a knowledge base, and others of the same documents; no chat model is called.

    The file `store` remembers the result for the same questions and knowledge bases.
    """
    if not questions or not kb:
        return []
    base = open_knowledge_base(kb)
    states = [base.state, *(open_knowledge_base(place).state for place in others)]
    asked = [[*rerankers], [*map(str, others)], [question.hashes for question in questions], states]
    if store.exists() and (stored := json.loads(store.read_text("utf-8")))["asked"] == asked:
        return [Search(retriever, rerank, tuple(recalls)) for retriever, rerank, recalls in stored["recalls"]]
    results, modes = list[Search](), ["auto"]
    if isinstance(base, KnowledgeBase):
        modes += [mode for mode in MODES if mode == "bm25" or (mode in ("dense", "hybrid") and base.settings.embedding)]
    for spec, reranker in product(
        [*modes, *(f"{mode}:{place}" for place in others for mode in modes)], ["", *rerankers]
    ):
        retriever = retriever_of(spec, kb, max(DEPTHS), rerank=reranker or None)
        lists = [(question, retriever.find(question.question)) for question in questions]
        shares = [fmean(recall(question, docs, k) for question, docs in lists) for k in DEPTHS]
        results.append(Search(spec, reranker, tuple(round(share, 4) for share in shares)))
    rows = [[search.retriever, search.rerank, search.recalls] for search in results]
    store.write_text(json.dumps({"asked": asked, "recalls": rows}) + "\n", "utf-8")
    return results


def other_bases(kb: str, chunkers: Sequence[str], folder: Path) -> list[Path]:
    """Make a knowledge base beside the first for each chunker, from the same files, and return their folders.

    Raises:
        UsageError: The knowledge base is not in a folder, or holds more than files.
    """
    if not chunkers:
        return []
    base = open_knowledge_base(kb)
    sources = base.sources() if isinstance(base, KnowledgeBase) else []
    if not sources or any(source.kind != "file" for source in sources):
        raise UsageError(f"{kb}: other chunkers need a knowledge base in a folder that was made from files alone")
    for chunker in chunkers:
        settings = {**asdict(base.settings), "chunker": chunker}
        with KnowledgeBase.open_or_create(folder / chunker, settings=settings) as other:
            other.index_paths([source.key for source in sources])
    return [folder / chunker for chunker in chunkers]


def arms_of(methods: Sequence[str], wordings: Sequence[str], results: Sequence[Search]) -> list[Arm]:
    """Return the arms: the incumbent as it is, and all methods with the best search and depth."""
    best = max(results, key=lambda search: sum(search.recalls), default=None)  # of equal ones, the first: the default
    own = {} if best is None or best is results[0] else {"retriever": best.retriever, "rerank": best.rerank}
    arms = [Arm(methods[0])]
    arms += [Arm(method if is_choice(method) else with_options(method, **own)) for method in methods]
    plain = [method for method in methods if not is_choice(method) and _searches(method)][:1]
    if best is not None and best.depth != DEPTHS[1]:
        arms += [Arm(with_options(method, **own, k=best.depth)) for method in plain]
    arms += [Arm(with_options(method, **own), wording) for method in plain for wording in wordings]
    return list(dict.fromkeys(arms))


def _searches(spec: str) -> bool:
    system = read_system(spec)
    return bool(getattr(make_options(system.method.options, system.options), "retrieve", True))


# ---- questions


@dataclass
class Parts:
    """The questions by what they serve, as hashes; `tune.json` in the run's folder."""

    path: Path
    choose: list[str] = field(default_factory=list)
    reserved: list[str] = field(default_factory=list)
    """Kept back for the test."""
    tested: list[str] = field(default_factory=list)
    """Finalist, incumbent and goal of the test that has spent what was kept back."""
    sizes: dict[str, int] = field(default_factory=dict)
    """How many questions a budget allows to choose by."""

    @classmethod
    def of(cls, path: Path, names: Sequence[str], seed: int) -> "Parts":
        """Read the parts, and add new questions; those that a test has spent serve to choose from then on."""
        parts = cls(path, **(json.loads(path.read_text("utf-8")) if path.exists() else {}))
        known = {*parts.choose, *parts.reserved}
        new = [name for name in names if name not in known]
        if new and parts.tested:
            parts.choose, parts.reserved, parts.tested, parts.sizes = parts.choose + parts.reserved, [], [], {}
        drawn = Random(seed).sample(new, len(new))
        room = max(0, round(RESERVED * len(names)) - len(parts.reserved))
        parts.reserved += drawn[:room]
        parts.choose += drawn[room:]
        parts.write()
        return parts

    def write(self) -> None:
        """Write the file."""
        fields = {name: value for name, value in asdict(self).items() if name != "path"}
        self.path.write_text(json.dumps(fields, indent=1) + "\n", "utf-8")


def objective(name: str, questions: Sequence[Question], models: Mapping[str, Any]) -> Metric:
    """Return the metric that arms are compared by; questions whose right answers are not known are judged.

    Their score is the mean of faithfulness and relevance, 0 for Unknown.

    Raises:
        UsageError: There is no such metric, or a judge is needed and none is named.
    """
    kind = questions[0].kind
    quotes = str(models.get("generator")).startswith("extractive")
    short = "contains" if quotes else "f1"
    metric = METRICS.named(name.removeprefix("judge:") or (short if kind == "short" else MAIN[kind]))
    without = [question for question in questions if not question.is_known]
    if not (metric.higher_is_better and metric.percent):
        raise UsageError(f"{metric.name} is not a score from 0 to 1 where higher is better, such as f1")
    if name.startswith("judge:") and metric.judge is None:
        raise UsageError(f"{metric.name} has no judge: --objective {metric.name}, or judge:correctness")
    if (without or metric.judge) and EVALUATOR not in models:
        reason = f"{len(without)} questions have no right answers" if without else f"{metric.name} is judged"
        raise UsageError(f"{reason}: name a judge, --model evaluator=SPEC")
    if not without:
        return metric
    judges = [METRICS.named(judged).judge for judged in ("faithfulness", "answer_relevance")]

    async def either(question: Question, state: State, model: Any) -> Score:
        if question.is_known:
            return await metric.judge(question, state, model) if metric.judge else metric.compute(question, state)
        scores = [await judge(question, state, model) for judge in judges if judge]
        return fmean(score or 0.0 for score in scores)

    return replace(metric, judge=either)


# ---- the run


class Ended(Exception):  # noqa: N818 - not an error
    """The run ended early: it was interrupted, its budget is spent, or the server refuses."""

    def __init__(self, summary: Summary) -> None:
        super().__init__(summary.stopped)
        self.summary = summary


@dataclass(frozen=True)
class Outcome:
    """What was chosen, and why."""

    choice: Path
    metric: Metric
    incumbent: Arm
    chosen: Arm
    finalist: Arm
    shown: float
    """The finalist's gain over the incumbent on the questions that it was chosen by."""
    chosen_by: int
    verdict: Verdict | None
    """None: nothing was tested, because the incumbent led, or because what was kept back is spent."""
    course: Sequence[tuple[int, Mapping[str, float]]]
    """After each block of the race: the questions answered, and the mean score of each arm that answered them."""
    lost: Lost
    """Those of finalist and incumbent."""
    unit: str
    """What costs are in: `dollars` or `tokens`."""
    costs: Mapping[str, float]
    """Each arm's mean cost of a question."""
    spent: Mapping[str, float]
    """The run's `calls`, `tokens` and, if known, `dollars`."""


@dataclass
class Tuning:
    """A run's folder, what may be asked in it, and all answers so far."""

    run: Run
    settings: EvalSettings
    questions: Mapping[str, Question]
    """By hash."""
    metric: Metric
    goal: Goal
    given: Mapping[str, Any]
    """Models by role as objects."""
    concurrency: int
    quiet: bool
    say: Callable[[str], None]
    players: dict[str, Any] = field(init=False)
    """The same models, and those that the settings name, opened once."""
    wordings: dict[str, Mapping[str, Any]] = field(init=False)
    systems: dict[str, GraphSystem] = field(default_factory=dict)
    answers: dict[str, dict[str, Answer]] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    unit: str = "tokens"

    def __post_init__(self) -> None:
        """Take the caller's prompts, and what has been answered."""
        self.wordings = dict(self.settings.prompts)
        specs = {"generator": "extractive", **self.settings.models, **self.given}
        self.players = {role: spec if role == SCORER else chat_model(spec) for role, spec in specs.items()}
        data = open_dataset(self.settings.data)
        self.open_system = opener(self.settings, data, [self.metric], self.players, self.run)
        self.read()

    def read(self) -> None:
        """Read what has been answered."""
        prices = prices_of(self.settings.prices, self.players)
        names = {question.id: name for name, question in self.questions.items()}
        self.records = [
            {**record, "trace": trace_of(self.run.folder, record)}
            for record in read_results(self.run.folder)
            if record["id"] in names
        ]
        good = [record for record in self.records if not record["error"] and self.metric.name in record["scores"]]
        dollars = [dollars_of(record["usage"], prices) for record in good]
        tokens = [record["usage"]["input_tokens"] + record["usage"]["output_tokens"] for record in good]
        known = None not in dollars and (any(dollars) or self.run.limits.max_cost_usd is not None)
        self.unit = "dollars" if known else "tokens"
        self.answers = {}
        for record, cost in zip(good, dollars if known else tokens, strict=True):
            answer = Answer(record["scores"][self.metric.name], float(cost or 0), record["usage"]["calls"])
            self.answers.setdefault(record["system"], {})[names[record["id"]]] = answer

    def system(self, arm: Arm) -> GraphSystem:
        """Return the graph of an arm, which is built once."""
        if arm.name not in self.systems:
            prompts = own_prompts(arm.name, read_system(arm.system).method, self.wordings.get(arm.wording, {}))
            self.systems[arm.name] = self.open_system(arm.name, arm.system, prompts)
        return self.systems[arm.name]

    async def ask(self, arms: Sequence[Arm], names: Sequence[str]) -> None:
        """Ask what has not been answered.

        Raises:
            Ended: The run ended early.
        """
        summary = await self.run.ask(
            [self.questions[name] for name in names],
            [*map(self.system, arms)],
            concurrency=self.concurrency,
            quiet=self.quiet,
            complete=False,
        )
        self.read()
        for arm in arms:
            self.answers.setdefault(arm.name, {})
        if summary.stopped:
            raise Ended(summary)

    def mean(self, arm: Arm, what: str) -> float:
        """Return an arm's mean `calls`, or `cost`, of a question."""
        return fmean([getattr(answer, what) for answer in self.answers[arm.name].values()] or [0])

    def spent(self) -> dict[str, float]:
        """Return what the run has cost."""
        now = self.run.summary()
        dollars = {} if now.dollars is None else {"dollars": now.dollars}
        return {"calls": now.calls, "tokens": now.tokens, **dollars}


def expected(tuning: Tuning, arms: Sequence[Arm], size: int, done: int, tested: int, what: str) -> float:
    """Return what is to come, in `calls` or `cost`: the rest of a race over `size` questions, and a test on `tested`."""
    means = [tuning.mean(arm, what) for arm in arms]
    total, before = tested * (means[0] + max(means)), 0
    for alive, after in block_sizes(len(arms), size):
        total += max(0, after - max(before, done)) * fmean(means) * alive
        before = after
    return total


async def affordable(tuning: Tuning, arms: Sequence[Arm], parts: Parts, choose: Sequence[str], tested: int) -> int:
    """Return by how many questions the budget allows to choose, as measured on the first few.

    Raises:
        UsageError: It is too small for any race.
    """
    limits = tuning.run.limits
    what, limit = ("cost", limits.max_cost_usd) if limits.max_calls is None else ("calls", limits.max_calls)
    if limit is None or str(limits) in parts.sizes:
        return min(len(choose), parts.sizes.get(str(limits), len(choose)))
    await tuning.ask(arms, choose[:_PILOT])
    pilot = _PILOT * sum(tuning.mean(arm, what) for arm in arms)
    totals = {
        size: pilot + expected(tuning, arms, size, _PILOT, tested, what) for size in range(_PILOT, len(choose) + 1)
    }
    fitting = [size for size, total in totals.items() if total <= limit]
    if not fitting:
        option = f"--max-cost {totals[_PILOT]:.2f}" if what == "cost" else f"--max-calls {totals[_PILOT]:.0f}"
        raise UsageError(f"the budget is too small for {len(arms)} arms: {option}, or fewer --methods")
    parts.sizes[str(limits)] = fitting[-1]
    parts.write()
    return fitting[-1]


def tune(
    settings: EvalSettings,
    folder: Path,
    *,
    incumbent: str = "concat_pf",
    goal: Goal = HIGHEST,
    target: str = "",
    limits: Limits | None = None,
    rerankers: Sequence[str] = (),
    chunkers: Sequence[str] = (),
    rewrite: Callable[[Tuning, Arm, Sequence[str]], Any] | None = None,
    given: Mapping[str, Any] | None = None,
    concurrency: int = 16,
    quiet: bool = False,
    say: Callable[[str], None] = print,
) -> Outcome:
    """Choose, and write `choice.yaml` into the folder; the same call resumes.

    Args:
        settings: As for `evaluate`. `systems` are the methods that race; none: a shortlist by what the questions look
            like. `prompts` are for the incumbent, or for the first method if that is a file.
        incumbent: What is used unless another wins: a method, or an earlier choice's file.
        folder: The run's folder, which remembers the questions that a test has spent.
        goal: What the winner must be.
        target: The metric, or `judge:METRIC`; "": the usual one for questions like these.
        limits: The budget of the whole run; the race is as long as it allows.
        rerankers: Rerankers to try.
        chunkers: Chunkers to try, each in a knowledge base made beside the run.
        rewrite: Returns the finalist with better prompts (`prompts.rewrite`), from the questions to choose by.
        given: Models by role as objects.
        concurrency: Questions in flight at once.
        quiet: Whether to show no progress bar.
        say: Takes each line of progress.

    Raises:
        UsageError: There are too few questions, or the budget is too small for any race.
        Ended: It was interrupted, or the budget is spent; the same call goes on.
    """
    listed = select(open_dataset(settings.data), limit=settings.limit, sample=settings.sample, seed=settings.seed)
    questions = dict[str, Question]()
    for question in listed:  # of equal questions, the last one counts, as with a second thumb
        name = question.hashes["question"]
        questions[name] = replace(question, id=questions[name].id) if name in questions else question
    if len(questions) < MIN_QUESTIONS:
        raise UsageError(
            f"{settings.data}: {len(questions)} different questions; tune needs {MIN_QUESTIONS}, or better 100"
        )
    settings = with_names(settings, given or {})
    metric = objective(target, [*questions.values()], settings.models)
    folder.mkdir(parents=True, exist_ok=True)
    kb = str(Path(settings.kb).resolve()) if settings.kb and Path(settings.kb).is_dir() else settings.kb
    fixed = replace(settings, kb=kb, data="", limit=None, sample=None, systems=(), names=(), prompts={})
    plain = replace(fixed, metrics=(metric.name,)).plain()
    with Run(folder, plain, limits=limits) as run:
        parts = Parts.of(folder / "tune.json", [*questions], settings.seed)
        choose, reserved = ([name for name in names if name in questions] for names in (parts.choose, parts.reserved))
        gain = 100 * detectable(max(1, len(reserved)))
        say(
            f"{len(questions)} questions, of which {len(reserved)} are kept back for the test. They confirm a gain of "
            f"about {gain:.0f} points one time in two if one arm challenges the incumbent, less often if several do."
        )
        asked = [questions[name] for name in choose]
        known = [question for question in asked if question.gold or (question.names and question.kind != "yes_no")]
        others = other_bases(settings.kb, chunkers, folder / "bases")
        results = searches(settings.kb, known, rerankers, others, folder / "search.json")
        for search in results:
            say(str(search))
        first = _copied(incumbent, folder) if is_choice(incumbent) else incumbent
        methods = list(dict.fromkeys([first, *(settings.systems or shortlist(listed))]))
        checked_prompts(replace(settings, systems=tuple(methods), names=(), prompts={}))
        arms = arms_of(methods, [*settings.prompts], results)
        say(f"{len(arms)} arms: {', '.join(arm.name for arm in arms)}")
        tuning = Tuning(run, settings, questions, metric, goal, given or {}, concurrency, quiet, say)
        return run.conduct(_work(tuning, arms, parts, choose, reserved, rewrite))


def _copied(incumbent: str, folder: Path) -> str:
    """Copy a choice into the folder, under a name that says what it holds: the original may be replaced."""
    path = folder / f"incumbent-{sha256(Path(incumbent).read_bytes()).hexdigest()[:8]}.yaml"
    if not path.exists():
        write_choice(path, read_system(incumbent), {})
    return str(path)


async def _work(
    tuning: Tuning, arms: list[Arm], parts: Parts, choose: Sequence[str], reserved: Sequence[str], rewrite: Any
) -> Outcome:
    choose = choose[: await affordable(tuning, arms, parts, choose, len(reserved))]
    course, finalist, by_name = list[tuple[int, dict[str, float]]](), arms[0], {arm.name: arm for arm in arms}

    async def ask(names: Sequence[str], block: Sequence[str]) -> Answers:
        await tuning.ask([by_name[name] for name in names], block)
        return tuning.answers

    async for leader, done, means in race([*by_name], choose, tuning.goal, ask):
        finalist = by_name[leader]
        course.append((done, means))
        answered = tuning.answers[finalist.name].keys() if done == len(choose) else set()
        tested = 0 if done == len(choose) and finalist == arms[0] else len({*reserved} - answered)
        tuning.say(_progress(tuning, arms, len(choose), tested, finalist, done, means))
    if rewrite is not None:
        finalist = await rewrite(tuning, finalist, choose)
        arms = list(dict.fromkeys([*arms, finalist]))
    pair, verdict = [finalist.name, arms[0].name], None
    test = [*pair, str(tuning.goal)]
    if finalist != arms[0] and parts.tested in ([], test):
        await tuning.ask([finalist, arms[0]], reserved)
        verdict = confirm(*paired(tuning, finalist, arms[0], reserved), tuning.goal)
        parts.tested = test
        parts.write()
    ours, theirs = paired(tuning, finalist, arms[0], choose)
    outcome = Outcome(
        choice=tuning.run.folder / "choice.yaml",
        metric=tuning.metric,
        incumbent=arms[0],
        chosen=finalist if verdict and verdict.wins else arms[0],
        finalist=finalist,
        shown=fmean(answer.score for answer in ours) - fmean(answer.score for answer in theirs),
        chosen_by=len(ours),
        verdict=verdict,
        course=course,
        lost=lost_of(record for record in tuning.records if record["system"] in pair),
        unit=tuning.unit,
        costs={arm.name: tuning.mean(arm, "cost") for arm in arms},
        spent=tuning.spent(),
    )
    hashes = sorted("".join(question.hashes.values()) for question in tuning.questions.values())
    data = {
        "questions": len(hashes),
        "kept_back": len(reserved),
        "hash": sha256("".join(hashes).encode()).hexdigest()[:16],
    }
    versions = {"ragweave": __version__} | {name: version(name) for name in ("langgraph", "langchain-core")}
    about = {"decision": decision(outcome), "data": data, "versions": versions}
    write_choice(outcome.choice, _chosen(tuning, outcome.chosen), about)
    return outcome


def _progress(
    tuning: Tuning, arms: Sequence[Arm], size: int, tested: int, leader: Arm, done: int, means: Mapping[str, float]
) -> str:
    spent = tuning.spent()
    so_far, to_come = f"{spent['calls']} calls", f"{expected(tuning, arms, size, done, tested, 'calls'):.0f}"
    if tuning.unit == "dollars" and "dollars" in spent:
        so_far += f" and ${spent['dollars']:.2f}"
        to_come += f" and ${expected(tuning, arms, size, done, tested, 'cost'):.2f}"
    score = f" with {100 * means[leader.name]:.1f}" if leader.name in means else ""
    return f"{done} of {size} questions: {len(means)} arms, {leader.name} leads{score}; {so_far} so far, about {to_come} to come"


def paired(tuning: Tuning, arm: Arm, other: Arm, names: Sequence[str]) -> tuple[list[Answer], list[Answer]]:
    """Return the answers of two arms to the questions that both answered."""
    ours, theirs = tuning.answers[arm.name], tuning.answers[other.name]
    both = [name for name in names if name in ours and name in theirs]
    if not both:
        raise UsageError("no question was answered by both systems")
    return [ours[name] for name in both], [theirs[name] for name in both]


def _chosen(tuning: Tuning, arm: Arm) -> SystemSpec:
    """Return the system of an arm, with all that it needs."""
    settings = tuning.settings
    system = read_system(arm.system, settings.options)
    mode, kb = searched(system.retriever or settings.retriever, system.kb or settings.kb)
    models = {
        role: redacted(spec) for role, spec in settings.models.items() if role in ROLES and role not in tuning.given
    }
    return replace(
        system,
        retriever=mode,
        rerank=system.rerank or settings.rerank,
        prefer=system.prefer or settings.prefer,
        kb=kb,
        models=system.played({**system.models, **models}),
        prompts={**system.prompts, **tuning.wordings.get(arm.wording, {})},
    )


def decision(outcome: Outcome) -> dict[str, Any]:
    """Return what `choice.yaml` says of the choice: points, p, and costs."""
    verdict = outcome.verdict
    fields: dict[str, Any] = {
        "incumbent": outcome.incumbent.name,
        "finalist": outcome.finalist.name,
        "metric": outcome.metric.name,
        "gain_shown": round(100 * outcome.shown, 1),
        "chosen_by": outcome.chosen_by,
    }
    if verdict:
        gain = {name: round(100 * getattr(verdict.gain, name), 1) for name in ("mean", "low", "high")}
        fields |= {"gain_confirmed": {**gain, "questions": verdict.gain.n}, "p": verdict.p and round(verdict.p, 4)}
        fields |= {f"{outcome.unit}_times": round(verdict.cost, 2), "questions_needed": verdict.needed}
    spent = {name: round(value, 4) for name, value in outcome.spent.items()}
    return {**fields, "is_confirmed": bool(verdict and verdict.wins), "spent": spent}


def sentence(outcome: Outcome) -> str:
    """Say the outcome in a line or two."""
    finalist, incumbent, verdict = outcome.finalist.name, outcome.incumbent.name, outcome.verdict
    label = outcome.metric.label
    if verdict is None and finalist == incumbent:
        return f"{incumbent} stays: nothing did better on the {outcome.chosen_by} questions to choose by."
    if verdict is None:
        return f"{incumbent} stays: {finalist} was not tested, because the questions kept back are spent."
    gain, low, high = (100 * value for value in (verdict.gain.mean, verdict.gain.low, verdict.gain.high))
    shown = (
        f"{finalist} gains {gain:+.1f} {label} [{low:+.1f}, {high:+.1f}] over {incumbent} on {verdict.gain.n} questions kept "
        f"back ({100 * outcome.shown:+.1f} on the {outcome.chosen_by} that it was chosen by), at {verdict.cost:.1f} times the "
        f"{outcome.unit}"
    )
    if verdict.wins:
        return f"{shown}: it is chosen."
    more = max(0, (verdict.needed or 0) - verdict.gain.n)
    if verdict.needed is None or not more:
        return f"{shown}: {incumbent} stays."
    return (
        f"{shown}: {incumbent} stays. If the difference is as seen, {more} more questions kept back would confirm it."
    )
